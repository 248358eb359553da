"""Prints how many lines of `advise` on one half of a group's questions hold on the other half.

    python benchmarks/advice_halves.py FOLDER [--write FILE]

FOLDER holds the generations that `defaults.GROUPS` names, `gen_*.dev.jsonl.gz`, with their MANIFEST.json. Of a group at
most 1,000 questions are taken; groups of more than six models, or of fewer than 100 questions, are left out. The
questions are split at random. Each half advises, and the other one judges. A line holds in these cases:

- right, escalation: the 95 % intervals of both halves overlap.
- best: the agent that is named is at most .02 less often right than the best one; and as for a difference.
- score, weights, confidence are differences: what is shown with p < .05 has the same sign, and where nothing is shown,
  the other half shows no gain either.
- agents: without those that "add nothing" the group is at most .02 less often right.
- samples: so many of each agent lose at most .02 of AUROC and of accuracy.
- coverage: what is answered at 5, 10 and 20 % wrong differs by at most .1.
- policy: of what it answers, at most the stated share is wrong. It is calibrated as `advise` does it.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from defaults import GROUPS
from real_groups import judged, records_of
from result_page import result_page

from coe_agents.advice.advice import Advice, Difference, advise, shares_right
from coe_agents.advice.command import calibrate_advised
from coe_agents.evaluation.calibration.calibrate import Judged

MOST_QUESTIONS, FEWEST_QUESTIONS, MOST_MODELS, N_RESAMPLES = 1000, 100, 6, 200
SHOWN, SMALL, NEAR = 0.05, 0.02, 0.1
LINES = (
    "right",
    "best",
    "score",
    "weights",
    "confidence",
    "agents",
    "samples",
    "coverage",
    "escalation",
    "policy",
)
MARKS = {True: "+", False: "-", None: "."}


def main() -> None:
    folder = Path(sys.argv[1])
    print(
        "each half advises on the other: + the line holds there, - it does not, . nothing is said"
    )
    print("n: questions, m: models\n")
    print(f"{'':29} {'n':>4} {'m':>2}" + "".join(f"  {line:>10}" for line in LINES))
    held = dict.fromkeys(LINES, 0)
    said = dict.fromkeys(LINES, 0)
    names = [(name, title) for name, groups in GROUPS.items() for title in groups]
    with ProcessPoolExecutor(2) as pool:
        results = pool.map(on_group, [folder] * len(names), *zip(*names, strict=True))
        for (name, title), result in zip(names, results, strict=True):
            if result is None:
                continue
            n_questions, n_models, both_ways = result
            cells = ""
            for line in LINES:
                verdicts = [verdict[line] for verdict in both_ways]
                held[line] += verdicts.count(True)
                said[line] += len(verdicts) - verdicts.count(None)
                cells += f"  {''.join(MARKS[verdict] for verdict in verdicts):>10}"
            print(f"{name:21} {title:7} {n_questions:4} {n_models:2}{cells}", flush=True)

    print(f"\n{'held of those that say something':37}" + "".join(shares(held, said)))
    n_held = sum(held.values())
    n_said = sum(said.values())
    print(f"all: {n_held} of {n_said}, {n_held / n_said:.1%}")


def shares(held: dict[str, int], said: dict[str, int]) -> Iterable[str]:
    for line in LINES:
        yield f"  {f'{held[line]}/{said[line]}':>10}"


def on_group(folder, name, title):
    """Returns the numbers of questions and models, and for each half by line whether it holds on the other."""
    models = GROUPS[name][title] or models_of_all(folder, name)
    if len(models) > MOST_MODELS:
        return None
    rows = []
    for row in judged(folder, name, models):
        if row.measurement.n_agents == len(models):
            rows.append(row)
    if len(rows) < FEWEST_QUESTIONS:
        return None

    order = np.random.default_rng(0).permutation(len(rows))[:MOST_QUESTIONS]
    halves = [[rows[place] for place in half] for half in np.array_split(order, 2)]
    advices = [advise(half, n_resamples=N_RESAMPLES) for half in halves]
    both_ways = []
    for place in (0, 1):
        both_ways.append(
            verdicts(advices[place], halves[place], advices[1 - place], halves[1 - place])
        )
    return len(order), len(models), both_ways


def models_of_all(folder, name):
    counts = Counter()
    records = records_of(folder, name)
    for record in records:
        counts.update(model for model, responses in record["responses"].items() if responses)
    return tuple(sorted(model for model, count in counts.items() if count == len(records)))


def verdicts(advice: Advice, rows: list[Judged], there: Advice, others: list[Judged]):
    """Returns by line of an advice whether it holds on the other half, of which there is an advice, too."""
    confidence = None
    if advice.confidence_gains:
        confidence = all(
            agrees(gain, there.confidence_gains[kind])
            for kind, gain in advice.confidence_gains.items()
        )
    coverage = all(
        abs(answered[0] - there.coverage[risk][0]) <= NEAR
        for risk, answered in advice.coverage.items()
    )
    return {
        "right": overlap(advice.accuracy, there.accuracy),
        "best": holds_of_best(advice, there, others),
        "score": holds_of_choice(advice.score, advice.score_gains, there.score_gains),
        "weights": holds_of_choice(advice.weights, advice.weight_gains, there.weight_gains),
        "confidence": confidence,
        "agents": holds_of_agents(advice, others),
        "samples": holds_of_samples(advice, there),
        "coverage": coverage,
        "escalation": overlap(advice.escalation_gain, there.escalation_gain),
        "policy": holds_of_policy(advice, rows, others),
    }


def overlap(one, other):
    return one[1] <= other[2] and other[1] <= one[2]


def agrees(gain: Difference, there: Difference) -> bool:
    """Returns whether what is shown has the same sign there, and what is not shown to help is not there, either."""
    if gain.p < SHOWN:
        return gain.value * there.value > 0.0
    return not (there.p < SHOWN and there.value > 0.0)


def holds_of_choice(chosen, gains, there):
    """Returns whether what was chosen gains there; of the usual choice, that nothing else is shown to gain there."""
    if chosen in gains:
        return there[chosen].value > 0.0
    return all(agrees(gains[name], there[name]) for name in gains)


def holds_of_best(advice, there, others):
    alone = float(np.mean(shares_right(others, {advice.best: 1.0})))
    best = float(np.mean(shares_right(others, {there.best: 1.0})))
    return alone >= best - SMALL and agrees(advice.over_best, there.over_best)


def holds_of_agents(advice, others):
    if not advice.useless:
        return None
    left = dict.fromkeys(advice.without.keys() - set(advice.useless), 1.0)
    if not left:
        return False
    return bool(np.mean(shares_right(others, left) - shares_right(others)) >= -SMALL)


def holds_of_samples(advice, there):
    if len(advice.sample_losses) == 1:
        return None
    losses = there.sample_losses.get(advice.n_samples, {})  # none: all of them
    return all(loss.value >= -SMALL for loss in losses.values())


def holds_of_policy(advice, rows, others):
    """Returns whether the policy that `advise` writes keeps its risk; None where it writes none."""
    policy = calibrate_advised(
        rows, advice, clusterer="NormalizedMatch", correctness="reference_or_label"
    )
    if policy is None:
        return None
    wrong = []
    with warnings.catch_warnings(action="ignore"):
        for row in others:
            if policy.decide(row.measurement, round=0, max_rounds=1).action == "answer":
                wrong.append(1.0 - row.verdict(policy.calibration))
    return not wrong or float(np.mean(wrong)) <= policy.calibration.risk


if __name__ == "__main__":
    with result_page():
        main()
