"""Prints what trust in the agents without labels is worth, beside equal weights and weights learned from labels.

    python benchmarks/weights.py FOLDER [--write FILE]

FOLDER holds the generations that `real_groups.py` names, `gen_*.dev.jsonl.gz`. Weights without labels are computed on
all questions of a group, since they see no verdict; learned ones on the other four of five folds. The answer is the
cluster with the largest weighted share of votes, and its certainty is that share. Ties count by their expected value;
for the coverage they are never answered. A group is unequal if its best model is right at least .15 more often than its
worst.
"""

import sys
from pathlib import Path

import numpy as np
from actions import coverage_at
from calibn import own_accuracies
from real_groups import all_groups, judged
from result_page import result_page
from scipy.stats import binomtest

from coe_agents.evaluation.calibration.learned import fit_trust, to_folds
from coe_agents.evaluation.metrics import tallies
from coe_agents.evaluation.metrics.bootstrap import mean_with_interval
from coe_agents.measurement.weighted_vote import agreement_weights, distributions_of
from coe_agents.uncertainty.ties import shares_lead

RISK, UNEQUAL = 0.3, 0.15
KINDS = ("equal", "without labels", "learned")


def main() -> None:
    folder = Path(sys.argv[1])
    print(
        f"accuracy and coverage at {RISK:.0%} wrong with equal weights, weights without labels, learned weights"
    )
    print(
        "difference: accuracy without labels less that of equal weights, paired 95 % interval; n: questions, m: models"
    )
    print(
        "gap: how much more often the best model is right than the worst; odd: one agrees far less than the others\n"
    )
    print(
        f"{'':29} {'n':>4} {'m':>2}  gap   accuracy          coverage          difference             odd"
    )
    found = []
    for name, title, models in all_groups(folder):
        rows = judged(folder, name, models)
        own = own_accuracies(rows).values()
        gap = max(own) - min(own)
        trust = agreement_weights([row.measurement for row in rows], n_resamples=1)
        right, certain = zip(
            *(answers(rows, weights) for weights in all_weights(rows, trust.weights)), strict=True
        )
        accuracies = [float(each.mean()) for each in right]
        coverages = [coverage(*each) for each in zip(right, certain, strict=True)]
        difference = mean_with_interval(right[1] - right[0])
        value, low, high = difference
        cells = (
            " ".join(f"{each:.3f}" for each in accuracies),
            " ".join(f"{each:.3f}" for each in coverages),
        )
        odd = trust.odd_one_out is not None
        print(
            f"{name:21} {title:7} {len(rows):4} {len(models):2}  {gap:.2f}  {cells[0]} {cells[1]} {value:+.3f} "
            f"[{low:+.3f} {high:+.3f}]{'  odd' if odd else ''}",
            flush=True,
        )
        found.append((f"{name} {title}", gap >= UNEQUAL, odd, difference, accuracies, coverages))
    for what, chosen in (
        ("all groups", found),
        ("unequal", [each for each in found if each[1]]),
        ("equal", [each for each in found if not each[1]]),
        ("with an odd agent", [each for each in found if each[2]]),
        ("without one", [each for each in found if not each[2]]),
    ):
        summarise(what, chosen)
    worst = min(found, key=lambda each: each[3][0])
    print(
        f"\nthe worst group: {worst[0]}, {worst[3][0]:+.3f} [{worst[3][1]:+.3f} {worst[3][2]:+.3f}]"
    )


def all_weights(rows, without_labels):
    """Yields for each kind of weights those of each row, as arrays over the agents by name."""
    names = sorted(rows[0].measurement.agents)
    yield [np.full(len(names), 1 / len(names))] * len(rows)
    yield [np.array([without_labels[name] for name in names])] * len(rows)
    fold = to_folds([row.id for row in rows], [1.0 - row.correct for row in rows])
    trust = {}
    for number in set(fold.tolist()):
        outside = [row for row, own in zip(rows, fold, strict=True) if own != number]
        trust[number] = fit_trust(
            [distributions_of(row.measurement, names) for row in outside],
            [np.array(row.verdicts) for row in outside],
        )
    yield [trust[number] for number in fold.tolist()]


def answers(rows, weights):
    """The share of each answer that is right, and its share of the votes; 0 of a tie, which is not answered."""
    names = sorted(rows[0].measurement.agents)
    right, certain = [], []
    for row, own in zip(rows, weights, strict=True):
        support = own @ distributions_of(row.measurement, names)
        leads = shares_lead(support)
        right.append(np.array(row.verdicts)[leads].mean())
        certain.append(support.max() if leads.sum() == 1 else 0.0)
    return np.array(right), np.array(certain)


def coverage(right, certain):
    answered = certain > 0.0
    tally = tallies.Ranking(right[answered], tallies.join_ties(-certain[answered])).tally()
    return float(coverage_at(RISK)(tally)[0]) * answered.mean()


def summarise(what, chosen):
    gains = np.array([each[3] for each in chosen])
    accuracies, coverages = (np.mean([each[place] for each in chosen], axis=0) for place in (4, 5))
    n_up, n_down = int((gains[:, 0] > 0).sum()), int((gains[:, 0] < 0).sum())
    print(f"\n{what} ({len(chosen)})")
    for kind, accuracy, answered in zip(KINDS, accuracies, coverages, strict=True):
        print(f"  {kind:15} accuracy {accuracy:.3f}  coverage {answered:.3f}")
    print(
        f"  without labels against equal: {n_up} higher, {n_down} lower, sign test p = "
        f"{binomtest(n_up, n_up + n_down).pvalue:.2g}; beyond its interval {(gains[:, 1] > 0).sum()} higher, "
        f"{(gains[:, 2] < 0).sum()} lower"
    )


if __name__ == "__main__":
    with result_page():
        main()
