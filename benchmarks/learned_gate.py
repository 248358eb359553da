"""Prints what a learned gate adds to CoE, for models of unequal and of equal strength.

    python benchmarks/learned_gate.py FOLDER

FOLDER holds the four `gen_*_calibn*.dev.jsonl.gz`. The gate and the agents' weights are fitted on the other folds.
"""

import sys
from pathlib import Path

import numpy as np
from calibn import EQUALS, SETS, UNEQUALS, samples

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA, iter_statistics
from coe_agents.evaluation.calibration import choose_threshold
from coe_agents.evaluation.learned import agent_weights, cluster_verdicts, cross_fitted, folds
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.bootstrap import estimate_all
from coe_agents.uncertainty import leading_cluster

RISK, CONFIDENCE, N_FOLDS, DEALINGS = 0.35, 0.9, 10, 5


def main() -> None:
    for title, models in (("unequal", UNEQUALS), ("equal", EQUALS)):
        print(f"{title}: {', '.join(models)}")
        for name in SETS:
            with samples(Path(sys.argv[1]), name, models) as questions:
                show(name, list(iter_statistics(questions, clusterer=NormalizedMatch())))


def show(name, statistics):
    verdicts = [cluster_verdicts(each, CRITERIA["reference_or_label"]) for each in statistics]
    correct = np.array([own[each.leading] for own, each in zip(verdicts, statistics, strict=True)])
    measurements = [each.measurement for each in statistics]
    dealings = [cross_fitted(measurements, correct, n_folds=N_FOLDS, seed=seed) for seed in range(DEALINGS)]
    gate = dealings[0]
    coe = np.array([m.coe for m in measurements]).round(10)  # so that equal ones tie
    figures, differences = estimate_all(correct, {"coe": coe, "gate": gate})
    plus, low, high = differences["gate"]["auroc"]
    print(
        f"  {name:22} AUROC of CoE {figures['coe']['auroc'][0]:.3f}, of the gate {figures['gate']['auroc'][0]:.3f}: "
        f"{plus:+.3f} [{low:+.3f}, {high:+.3f}]"
    )
    gains = [auroc(correct=correct, uncertainty=each) - figures["coe"]["auroc"][0] for each in dealings]
    print(
        f"  {'':22} over {DEALINGS} dealings into folds: mean {np.mean(gains):+.4f}, "
        f"{min(gains):+.4f} to {max(gains):+.4f}"
    )
    grids = {"coe": np.arange(0, 2.6, 0.05), "gate": np.arange(0, 1.0025, 0.005)}
    found = {
        score: choose_threshold(
            correct=correct, uncertainty=values, grid=grids[score], risk=RISK, confidence=CONFIDENCE
        ).n_answered
        / correct.size
        for score, values in (("coe", coe), ("gate", gate))
    }
    print(f"  {'':22} coverage at risk {RISK}: CoE {found['coe']:.3f}, gate {found['gate']:.3f}")
    weighted = weighted_verdicts(statistics, verdicts, correct)
    print(f"  {'':22} accuracy: equal weights {correct.mean():.3f}, learned weights {weighted.mean():.3f}")


def weighted_verdicts(statistics, verdicts, correct):
    """Whether the answer is right when the mean that picks it has weights learned on the other folds."""
    own = np.array(
        [
            [verdict[row.argmax()] for row in each.distributions]
            for each, verdict in zip(statistics, verdicts, strict=True)
        ]
    )
    right = np.empty(len(own), dtype=bool)
    for outside, inside in folds(correct, n_folds=N_FOLDS, seed=0):
        weights = agent_weights(own[outside])
        for i in inside:
            right[i] = verdicts[i][leading_cluster(statistics[i].distributions, weights=weights)]
    return right


if __name__ == "__main__":
    main()
