"""Prints what the default policy answers of real responses without any labels, and which score is best to calibrate.

How much of what it and other rules answer is wrong; and how well the scores that `calibrate` may take by default rank
wrong answers, and how many they answer at a stated risk.

    python benchmarks/defaults.py FOLDER [--write FILE]

FOLDER holds the generations that `GROUPS` names, `gen_*.dev.jsonl.gz`, with their MANIFEST.json: all but the two sets
of one model without verdicts on its sentences. Of a set, "all" are all models that answered every question. Answers are
clustered without a model, and right by reference or label; one with mixed labels counts by its share that is wrong. A
tie, a refusal and an empty answer are never answered.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from actions import opened
from calibn import EQUALS, SETS, UNEQUALS, records, to_samples
from result_page import result_page

from coe_agents import RegimePolicy, ThresholdPolicy
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.calibration.calibrate import Judged, calibrate, judge_samples
from coe_agents.evaluation.calibration.risk_control import risk_bound
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.tallies import join_ties
from coe_agents.measurement.estimators import score_of
from coe_agents.policy import Measurement, Policy

ALL = {"all": ()}
CALIBN = {"equal": EQUALS, "unequal": UNEQUALS} | ALL
MATHS = {
    "strong": ("claude-3-5-sonnet-20241022", "deepseek-v2.5-0908", "gpt-4o-2024-08-06"),
    "small": ("Meta-Llama-3.1-8B-Instruct", "Qwen2-7B-Instruct", "gemma-2-9b-it"),
    "unequal": ("claude-3-5-sonnet-20241022", "gpt-3.5-turbo-0125", "gemma-2-2b-it"),
} | ALL
LARGEST = "Meta-Llama-3.1-405B-Instruct-Turbo"
LETTERS = {
    "strong": (
        "gpt-4o-2024-08-06",
        "grok-2-1212",
        "gemini-1.5-pro",
        "Llama-4-Scout-17B-16E-Instruct",
        LARGEST,
    ),
    "middle": (
        "Qwen2.5-32B-Instruct",
        "gemma-3-27b-it",
        "Phi-3.5-MoE-instruct",
        "Meta-Llama-3.1-70B-Instruct-Turbo",
    ),
    "small": ("Meta-Llama-3.1-8B-Instruct-Turbo", "Qwen2.5-7B-Instruct", "gemma-2-9b-it"),
    "unequal": (
        "Llama-3.2-3B-Instruct",
        "gemma-2-9b-it",
        "Qwen2.5-7B-Instruct",
        "gpt-4o-mini-2024-07-18",
        LARGEST,
    ),
}
OTHERS = ("nq_evouna", "triviaqa_evouna", "realmistake_sc", "realmistake_prompts", "subjectivity")
GROUPS = {
    **dict.fromkeys(SETS, CALIBN),
    "mmlupro_calib": LETTERS,
    **dict.fromkeys(("gsm_zeroeval", "mathl5_zeroeval"), MATHS),
    **dict.fromkeys(OTHERS, ALL),
}


SCORES = ("coe", "vote_share")
RISKS, CONFIDENCE, DEALINGS, RESAMPLES = (0.1, 0.2, 0.3), 0.9, 10, 500


def by_policy(policy: Policy, measurement: Measurement) -> bool:
    return policy.decide(measurement, round=0, max_rounds=1).action == "answer"


def by_votes(share: float, measurement: Measurement) -> bool:
    return not measurement.tied and max(measurement.support) >= share - 1e-9


RULES: dict[str, Callable[[Measurement], bool]] = {
    "answer all": partial(by_policy, ThresholdPolicy(math.inf)),
    "default: consensus": partial(by_policy, RegimePolicy()),
    "CoE at most .7": partial(by_policy, ThresholdPolicy(0.7)),
    "vote share 2/3": partial(by_votes, 2 / 3),
    "vote share .75": partial(by_votes, 0.75),
    "vote share .9": partial(by_votes, 0.9),
}
REFERENCE = ("   - .396", ".130 .104", ".167 .104", ".283 .193", ".187 .161", ".071 .076")
"""Coverage and risk that were measured elsewhere, on 28 groups and the other half of these questions."""


def main() -> None:
    folder = Path(sys.argv[1])
    print("coverage risk [95 % interval of the risk, Clopper-Pearson]; n: questions, m: models\n")
    print(f"{'':29} {'n':>4} {'m':>2}" + "".join(f"  {rule:20}" for rule in RULES))
    found = []
    for name, groups in GROUPS.items():
        asked = list(generations(folder, name))
        common = set.intersection(
            *({model for model, said in each["responses"].items() if said} for each in asked)
        )
        for title, chosen in groups.items():
            models = chosen or tuple(sorted(common))
            with opened(
                [sample for record in asked for sample in to_samples(record, models)]
            ) as questions:
                rows = [
                    row
                    for row in judge_samples(questions, clusterer=NormalizedMatch())
                    if row.correct is not None
                ]
            figures = [coverage_and_risk(rows, answers) for answers in RULES.values()]
            cells = "".join(f"  {cell(*each, n=len(rows)):20}" for each in figures)
            print(f"{name:21} {title:7} {len(rows):4} {len(models):2}{cells}", flush=True)
            found.append(figures)
    print(
        f"\nmeans over {len(found)} groups, of the risk over those with an answer; elsewhere: measured on other groups"
    )
    print(f"{'':20} coverage   risk  groups with an answer  elsewhere")
    for rule, each, elsewhere in zip(RULES, np.swapaxes(found, 0, 1), REFERENCE, strict=True):
        n_groups = np.isfinite(each[:, 1]).sum()
        print(
            f"{rule:20} {each[:, 0].mean():8.3f} {np.nanmean(each[:, 1]):6.3f} {n_groups:22d}  {elsewhere}"
        )
    by_score(folder)


def by_score(folder):
    found = []
    with ProcessPoolExecutor(2) as pool:
        for figures in pool.map(scores_of, [folder] * len(GROUPS), GROUPS):
            found += figures
    differences, coverages = (np.array(part) for part in zip(*found, strict=True))
    print(
        f"\n{len(found)} groups; AUROC less that of CoE: mean, and in how many groups its 95 % interval (bootstrap,"
    )
    print(
        f"{RESAMPLES} resamples of questions) is above and below 0; mean coverage of {DEALINGS} halves, calibrated"
    )
    print(
        f"{'score':12} {'AUROC':>7} better worse "
        + " ".join(f"coverage at {risk}" for risk in RISKS)
    )
    for place, score in enumerate(SCORES):
        mean, low, high = differences[:, place].T
        counts = f"{(low > 1e-9).sum():6d} {(high < -1e-9).sum():5d}"
        shares = " ".join(f"{share:15.3f}" for share in coverages[:, place].mean(axis=0))
        print(f"{score:12} {mean.mean():+7.4f} {counts} {shares}")
    print()


def scores_of(folder, name):
    """For each group of a set: each score's gain in AUROC with its interval, and its coverage at each risk."""
    asked = list(generations(folder, name))
    common = set.intersection(
        *({model for model, said in each["responses"].items() if said} for each in asked)
    )
    found = []
    for chosen in GROUPS[name].values():
        models = chosen or tuple(sorted(common))
        with opened(
            [sample for record in asked for sample in to_samples(record, models)]
        ) as questions:
            rows = [
                row
                for row in judge_samples(questions, clusterer=NormalizedMatch())
                if row.correct is not None
            ]
        correct = np.array([row.correct for row in rows])
        columns = [
            join_ties([score_of(row.measurement, score) for row in rows]) for score in SCORES
        ]
        generator = np.random.default_rng(0)
        drawn = [np.arange(len(rows)), *generator.integers(len(rows), size=(RESAMPLES, len(rows)))]
        areas = np.array(
            [
                [auroc(correct=correct[i], uncertainty=column[i]) for column in columns]
                for i in drawn
            ]
        )
        areas -= areas[:, :1]
        low, high = np.nanquantile(areas[1:], [0.025, 0.975], axis=0)
        covered = [[mean_coverage(rows, score, risk) for risk in RISKS] for score in SCORES]
        found.append((np.array([areas[0], low, high]).T, covered))
    return found


def mean_coverage(rows, score, risk):
    shares = []
    for seed in range(DEALINGS):
        half = [
            rows[i] for i in np.random.default_rng(seed).permutation(len(rows))[: len(rows) // 2]
        ]
        named = {"clusterer": "NormalizedMatch", "correctness": "reference_or_label"}
        record = calibrate(half, risk=risk, confidence=CONFIDENCE, score=score, **named).calibration
        shares.append(record.n_answered / record.n_questions)
    return np.mean(shares)


def generations(folder: Path, name: str) -> Iterator[dict]:
    """Yields the records of a set; packed ones, a letter for each model of the manifest, as the others are."""
    file = f"gen_{name}.dev.jsonl.gz"
    packed = {
        each["file"]: each.get("models")
        for each in json.loads((folder / "MANIFEST.json").read_text())
    }
    for record in records(folder / file):
        if "ans" in record:
            said = zip(packed[file], record["ans"], record["ppl"], record["verb"], strict=True)
            record["responses"] = {
                model: [
                    {
                        "answer": letter,
                        "sum_logprob": math.log(probability / 1000) if probability else None,
                        "n_tokens": 1 if probability else None,
                        "verbal_conf": None if stated is None else stated / 100,
                    }
                ]
                for model, letter, probability, stated in said
                if letter != "-"
            }
        yield record


def coverage_and_risk(
    rows: list[Judged], answers: Callable[[Measurement], bool]
) -> tuple[float, float]:
    wrong = [
        1 - row.correct
        for row in rows
        if row.measurement.answer_kind == "answer" and answers(row.measurement)
    ]
    return len(wrong) / len(rows), np.mean(wrong) if wrong else np.nan


def cell(coverage: float, risk: float, *, n: int) -> str:
    if not coverage:
        return "0.000   -"
    answered = coverage * n
    low = 1 - risk_bound((1 - risk) * answered, answered, confidence=0.975)
    high = risk_bound(risk * answered, answered, confidence=0.975)
    return f"{coverage:.3f} {risk:.3f} [{low:.2f} {high:.2f}]"


if __name__ == "__main__":
    with result_page():
        main()
