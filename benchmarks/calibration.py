"""Prints whether a calibrated threshold keeps its promise: on random halves of real data, and on data of known truth.

    python benchmarks/calibration.py FOLDER [HALVES] [--write FILE]

FOLDER holds the generations that `defaults.py` names. A policy is calibrated on one half and decides on the other.

First, which score ranks best, and which answers most: the default of `calibrate` is chosen by that.
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from actions import opened
from calibn import EQUALS, SETS, UNEQUALS, to_samples
from defaults import GROUPS as ALL_GROUPS
from defaults import generations
from learned_gate import CORRECTNESS, judged_rows
from result_page import result_page
from scipy.stats import beta

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import calibrate, judge_samples
from coe_agents.evaluation.calibration.risk_control import choose_threshold
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.tallies import join_ties
from coe_agents.policy.estimators import score_of

RISK, CONFIDENCE, SIMULATIONS = 0.3, 0.9, 2000
GROUPS = {"unequal": UNEQUALS, "equal": EQUALS}
GATES = {"coe": {"score": "coe"}, "learned": {"score": "learned"}, "halves": {"score": "learned", "halves": True}}


SCORES = ("coe", "vote_share", "renyi_3")
RISKS, DEALINGS, RESAMPLES = (0.1, 0.2, 0.3), 10, 500


def main() -> None:
    n_halves = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    by_score(Path(sys.argv[1]))
    print(f"{n_halves} random halves, risk {RISK}, confidence {CONFIDENCE}; above: the other half exceeds the risk;")
    print("beyond: by more than its sampling error (lower 95 % bound); never: there is no threshold")
    sets = [(correctness, title, name) for correctness in CORRECTNESS for title in GROUPS for name in SETS]
    with ProcessPoolExecutor(2) as pool:
        tables = pool.map(on_set, *zip(*sets, strict=True), [n_halves] * len(sets))
        for (correctness, title, name), table in zip(sets, tables, strict=True):
            if (title, name) == (next(iter(GROUPS)), SETS[0]):
                print(f"\nright by {correctness}")
                print(f"{'models':8} {'set':22} {'gate':10} coverage   risk  above beyond  never")
            print(table, flush=True)
    print()
    on_known_truth()


def by_score(folder):
    found = []
    with ProcessPoolExecutor(2) as pool:
        for figures in pool.map(scores_of, [folder] * len(ALL_GROUPS), ALL_GROUPS):
            found += figures
    differences, coverages = (np.array(part) for part in zip(*found, strict=True))
    print(f"{len(found)} groups; AUROC less that of CoE: mean, and in how many groups its 95 % interval (bootstrap,")
    print(f"{RESAMPLES} resamples of questions) is above and below 0; mean coverage on {DEALINGS} random halves")
    print(f"{'score':12} {'AUROC':>7} better worse " + " ".join(f"coverage at {risk}" for risk in RISKS))
    for place, score in enumerate(SCORES):
        mean, low, high = differences[:, place].T
        counts = f"{(low > 1e-9).sum():6d} {(high < -1e-9).sum():5d}"
        shares = " ".join(f"{share:15.3f}" for share in coverages[:, place].mean(axis=0))
        print(f"{score:12} {mean.mean():+7.4f} {counts} {shares}")
    print()


def scores_of(folder, name):
    """For each group of a set: each score's gain in AUROC with its interval, and its coverage at each risk."""
    asked = list(generations(folder, name))
    common = set.intersection(*({model for model, said in each["responses"].items() if said} for each in asked))
    found = []
    for chosen in ALL_GROUPS[name].values():
        models = chosen or tuple(sorted(common))
        with opened([sample for record in asked for sample in to_samples(record, models)]) as questions:
            rows = [row for row in judge_samples(questions, clusterer=NormalizedMatch()) if row.correct is not None]
        correct = np.array([row.correct for row in rows])
        columns = [join_ties([score_of(row.measurement, score) for row in rows]) for score in SCORES]
        generator = np.random.default_rng(0)
        drawn = [np.arange(len(rows)), *generator.integers(len(rows), size=(RESAMPLES, len(rows)))]
        areas = np.array([[auroc(correct=correct[i], uncertainty=column[i]) for column in columns] for i in drawn])
        areas -= areas[:, :1]
        low, high = np.nanquantile(areas[1:], [0.025, 0.975], axis=0)
        covered = [[mean_coverage(rows, score, risk) for risk in RISKS] for score in SCORES]
        found.append((np.array([areas[0], low, high]).T, covered))
    return found


def mean_coverage(rows, score, risk):
    shares = []
    for seed in range(DEALINGS):
        half = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))[: len(rows) // 2]]
        named = {"clusterer": "NormalizedMatch", "correctness": "reference_or_label"}
        record = calibrate(half, risk=risk, confidence=CONFIDENCE, score=score, **named).calibration
        shares.append(record.n_answered / record.n_questions)
    return np.mean(shares)


def on_set(correctness, title, name, n_halves):
    rows = judged_rows(Path(sys.argv[1]), name, GROUPS[title], correctness)
    return "\n".join(
        f"{title:8} {name:22} {gate:10} {on_halves(rows, n_halves, {**options, 'correctness': correctness})}"
        for gate, options in GATES.items()
    )


def on_halves(rows, n_halves, options):
    found = []
    for seed in range(n_halves):
        order = np.random.default_rng(seed).permutation(len(rows))
        fitted, held_out = ([rows[i] for i in half] for half in np.split(order, [len(rows) // 2]))
        policy = calibrate(fitted, risk=RISK, confidence=CONFIDENCE, clusterer="NormalizedMatch", **options)
        record = policy.calibration
        with warnings.catch_warnings():  # a half may lack the question to which an agent gave the fewest responses
            warnings.filterwarnings("ignore", message="the calibrated risk does not hold")
            actions = [policy.decide(row.measurement, round=0, max_rounds=1).action for row in held_out]
        pairs = zip(held_out, actions, strict=True)
        answered = [row for row, action in pairs if action == "answer" and record.can_answer(row.measurement)]
        wrong = sum(1.0 - row.verdict(record) for row in answered)
        risk, n_wrong = wrong / len(answered) if answered else np.nan, int(wrong + 1e-9)
        beyond = bool(n_wrong) and beta.ppf(0.05, n_wrong, len(answered) - n_wrong + 1) > RISK
        found.append((len(answered) / len(held_out), risk, risk > RISK, beyond, record.threshold is None))
    coverage, risks, *others = np.array(found, dtype=float).T
    risk = np.nan if np.isnan(risks).all() else np.nanmean(risks)
    return f"{coverage.mean():8.3f} {risk:6.3f}" + "".join(f" {share.mean():6.3f}" for share in others)


def on_known_truth():
    """P(wrong | u) = u with u uniform on [0, 1]: the true risk of the threshold t is t / 2."""
    for n in (100, 500, 2000):
        generator = np.random.default_rng(n)
        chosen = []
        for _ in range(SIMULATIONS):
            u = generator.random(n)
            found = choose_threshold(correct=generator.random(n) >= u, uncertainty=u, risk=0.2, confidence=0.9)
            chosen.append(0.0 if found.threshold is None else found.threshold)
        broken = np.mean(np.array(chosen) / 2 > 0.2 + 1e-9)
        print(
            f"known truth, {n} questions, risk 0.2: true risk exceeded in {broken:.3f} of {SIMULATIONS} "
            f"(allowed 0.100), mean coverage {np.mean(chosen):.3f} (best possible 0.400)"
        )


if __name__ == "__main__":
    with result_page():
        main()
