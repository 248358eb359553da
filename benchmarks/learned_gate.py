"""Prints what a learned gate and learned weights add to CoE, for models of unequal and of equal strength.

    python benchmarks/learned_gate.py FOLDER [--write FILE]

FOLDER holds the four `gen_*_calibn*.dev.jsonl.gz`. Gates and weights are fitted on the other four of five folds, and
AUROCs are means over folds: scores of differently fitted gates are never compared. Ties count by their expected value.

Everything is printed by two criteria. The judge of these data saw one alias of the right answer and rejects 17 to 26 %
of the answers that match another, so that equal answers have different labels. `reference_or_label`, the default, takes
their mean; by `reference_or_any_label` one yes is enough.
"""

import sys
from operator import attrgetter
from pathlib import Path

import numpy as np
from calibn import EQUALS, SETS, UNEQUALS, own_accuracies, samples
from result_page import result_page

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA, calibrate, judge_samples
from coe_agents.evaluation.calibration.learned import fit_gate, to_folds
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.tallies import join_ties
from coe_agents.policy.learned_gates import distributions_of
from coe_agents.uncertainty.ties import shares_lead

RISKS, CONFIDENCE, DEALINGS = (0.3, 0.4), 0.9, 5
CORRECTNESS = ("reference_or_label", "reference_or_any_label")


def main() -> None:
    print(f"mean over {DEALINGS} dealings into 5 folds; coverage: share answered of all questions, calibrated on them")
    for correctness in CORRECTNESS:
        print(f"\nright by {correctness}")
        for title, models in (("unequal", UNEQUALS), ("equal", EQUALS)):
            for name in SETS:
                rows = judged_rows(Path(sys.argv[1]), name, models, correctness)
                own = ", ".join(f"{model} {share:.3f}" for model, share in own_accuracies(rows).items())
                print(f"{title} {name}, {len(rows)} questions; right by itself: {own}")
                show(rows, correctness)


def judged_rows(folder, name, models, correctness=CORRECTNESS[0]):
    with samples(folder, name, models) as questions:
        return judge_samples(
            questions, clusterer=NormalizedMatch(), criterion=CRITERIA[correctness], every_cluster=True
        )


def show(rows, correctness):
    equal, trusted = (
        np.mean([figures(rows, trust=trust, salt=str(salt)) for salt in range(DEALINGS)], axis=0)
        for trust in (False, True)
    )
    for title, (coe, gate, accuracy) in (("equal weights", equal), ("learned weights", trusted)):
        print(
            f"  answer by {title:16} accuracy {accuracy:.3f}   AUROC of CoE {coe:.3f}, of the gate {gate:.3f}: "
            f"{gate - coe:+.4f}"
        )
    for risk in RISKS:
        threshold, learned = (coverage(rows, risk, gate, correctness) for gate in ("coe", "learned"))
        print(f"  coverage at risk {risk}: threshold on CoE {threshold:.3f}, learned gate {learned:.3f}")


def coverage(rows, risk, gate, correctness):
    policy = calibrate(
        rows, risk=risk, confidence=CONFIDENCE, score=gate, clusterer="NormalizedMatch", correctness=correctness
    )
    return policy.calibration.n_answered / policy.calibration.n_questions


def figures(rows, *, trust, salt=""):
    """The mean over folds of the AUROC of CoE and of the gate, and of the accuracy; of the same answers."""
    fold = to_folds([row.id for row in rows], [1.0 - row.correct for row in rows], salt=salt)
    found = []
    for number in range(5):
        outside = [row for row, own in zip(rows, fold, strict=True) if own != number]
        inside = [row for row, own in zip(rows, fold, strict=True) if own == number]
        gate = fit_gate([row.measurement for row in outside], [row.verdicts for row in outside], trust=trust)
        right = np.array([share_right(row, gate) for row in inside])
        scores = ([each(row.measurement) for row in inside] for each in (attrgetter("coe"), gate.uncertainty))
        found.append((*(auroc(correct=right, uncertainty=join_ties(score)) for score in scores), right.mean()))
    return np.mean(found, axis=0)


def share_right(row, gate):
    """The share of the leading clusters under the gate's weights that is right."""
    mean = np.array(gate.weights) @ distributions_of(row.measurement, gate.agents)
    return np.array(row.verdicts)[shares_lead(mean)].mean()


if __name__ == "__main__":
    with result_page():
        main()
