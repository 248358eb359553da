"""Prints how well the support of other systems tells claims that are wrong, and which risk a calibration keeps.

    python benchmarks/claims.py FOLDER [--halves N] [--convert FILE] [--write FILE]

FOLDER holds `claims_factscore`: biographies by three systems, cut into facts that people checked (FActScore, Min et al.
2023). `--convert` also writes them as FILE, a `*.claims.jsonl` for `coe-agents score` and `calibrate`.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from result_page import result_page

from coe_agents.claims import Overlap
from coe_agents.claims.calibrate import (
    KEPT_SHARES,
    JudgedClaims,
    calibrate_claims,
    claim_figures,
    judge_labelled,
    read_labelled,
)
from coe_agents.claims.support import Asked, EntailedBy
from coe_agents.text import quantity
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder

REFERENCE = {"InstructGPT": 0.815, "ChatGPT": 0.721, "PerplexityAI": 0.616}
"""AUROC from word overlap, measured elsewhere on the same half of the persons."""
RISKS, CONFIDENCE = (0.2, 0.3), 0.9
_Z = 1.645


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--halves", type=int, default=100)
    parser.add_argument("--convert", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.convert or Path(folder) / "factscore.claims.jsonl"
        file.write_text("".join(f"{json.dumps(record)}\n" for record in convert(options.folder)), "utf-8")
        questions = list(read_labelled([file]))
    started = time.process_time()
    judged = list(judge_labelled(questions, Overlap()))
    seconds = time.process_time() - started
    n_claims = sum(each.right.size for each in judged)
    print(f"{len(questions)} persons, {len(judged)} answers, {n_claims} claims with a label")
    print(f'\n"This claim is not supported", by Overlap() with the other two systems\' texts ({seconds:.2f} CPU s)')
    print("intervals: 95 %, bootstrap over persons; reference: word overlap, measured elsewhere on these persons\n")
    head = "".join(f"  right of {share:>4.0%}" for share in KEPT_SHARES)
    print(f"{'system':13} {'claims':>6} {'wrong':>6}   AUROC  interval       reference{head}")
    for name, of in claim_figures(judged)["agents"].items():
        value, low, high = of["auroc"]
        kept = "".join(f"  {each:13.3f}" for each in of["precision"].values())
        wrong = of["n_wrong"] / of["n_claims"]
        print(
            f"{name:13} {of['n_claims']:6} {wrong:6.3f}   {value:.3f}  [{low:.3f}, {high:.3f}] {REFERENCE[name]:9.3f}"
            f"{kept}"
        )
    calibrations(judged, options.halves)
    tinyworld(questions)


def convert(folder: Path) -> Iterator[dict]:
    """Yields the persons of the data as lines of a file of claims."""
    with gzip.open(folder / "claims_factscore.dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            answers = {
                system: {
                    "text": answer["text"],
                    "claims": [{"text": one["text"], "supported": one["supported"]} for one in answer["claims"]],
                }
                for system, answer in record["answers"].items()
            }
            yield {**{key: record[key] for key in ("id", "question", "entity")}, "answers": answers}


def calibrations(judged: Sequence[JudgedClaims], n_halves: int) -> None:
    """Prints what policies keep that were calibrated on one half of the persons, on the other half."""
    persons = sorted({each.entity for each in judged})
    print(f"\ncalibrated on half of the persons, {n_halves} times, confidence {CONFIDENCE}; on the other half:")
    print(
        "over: the pooled share of wrong claims among the kept is above the risk; beyond error: above it by more than"
    )
    print(f"{_Z} standard errors over persons; drafts: of the answer with the best support alone, which a gate gives\n")
    print("risk  policies  kept claims  answers with some  wrong of the kept  over  beyond error  wrong in drafts")
    for risk in RISKS:
        rng, rows = np.random.default_rng(0), []
        for _ in range(n_halves):
            half = set(rng.permutation(persons)[: len(persons) // 2])
            policy = calibrate_claims(
                [each for each in judged if each.entity in half], risk=risk, confidence=CONFIDENCE
            )
            if policy is not None:
                rows.append(kept([each for each in judged if each.entity not in half], policy, risk))
        found = np.array(rows)
        if not rows:
            print(f"{risk:4}  {0:8}")
            continue
        share, answers, wrong, drafts, over, beyond = found.T
        print(
            f"{risk:4}  {len(rows):8}  {share.mean():11.3f}  {answers.mean():17.3f}  {wrong.mean():17.3f}  "
            f"{over.sum():4.0f}  {beyond.sum():12.0f}  {np.nanmean(drafts):15.3f}"
        )


def kept(judged: Sequence[JudgedClaims], policy, risk: float) -> tuple[float, ...]:
    """Returns the share of claims and of answers that are kept, the share of wrong ones, and whether it is too high."""
    of_person: dict[str, list[tuple[int, int]]] = {}
    best: dict[str, tuple[float, int, int]] = {}
    for each in judged:
        given = np.array([action == "keep" for action in policy.actions(each.between)])
        counts = int(given.sum()), int((given & ~each.right).sum())
        of_person.setdefault(each.entity, []).append(counts)
        best[each.entity] = max(best.get(each.entity, (-1.0, 0, 0)), (float(each.between.mean()), *counts))
    sums = np.array([np.sum(counts, axis=0) for counts in of_person.values()])
    n_kept, n_wrong = sums.sum(axis=0)
    wrong = n_wrong / max(n_kept, 1)
    error = np.sqrt(((sums[:, 1] - wrong * sums[:, 0]) ** 2).sum()) / max(n_kept, 1)
    given = np.mean([counts[0] > 0 for each in of_person.values() for counts in each])
    drafts = np.array([each[1:] for each in best.values()]).sum(axis=0)
    share = n_kept / sum(each.right.size for each in judged)
    return share, given, wrong, drafts[1] / drafts[0] if drafts[0] else np.nan, wrong > risk, wrong - _Z * error > risk


def tinyworld(questions: Sequence) -> None:
    """Prints what tinyworld's entailment model makes of some claims: it does not know these words."""
    from coe_agents.backends import TransformersEntailment

    model = EntailedBy(TransformersEntailment(str(model_folder(ENTAILMENT_MODEL))), n_passages=1)
    some = [(question, agent) for question in questions[:10] for agent in question.answers if question.claims[agent]]
    asked = [
        Asked(question.claims[agent][:5], [question.answers[name] for name in question.answers if name != agent])
        for question, agent in some
    ]
    found = np.concatenate([each.reshape(-1, 2) for each in model.judge(asked)])
    right = [label for question, agent in some for label in question.supported[agent][:5] for _ in range(2)]
    known = np.array([label is not None for label in right])
    supported = np.array([bool(label) for label in right])[known]
    means = [found[known][supported == label, 0].mean() for label in (True, False)]
    entailed = " and ".join(
        f"{mean:.3f} for {kind} claims" for mean, kind in zip(means, ("right", "wrong"), strict=True)
    )
    print(
        f"\ntinyworld's entailment model does not know these words: on {quantity(int(known.sum()), 'pair')} of the "
        f"first 10 persons its mean\nprobability of entailment is {entailed}. No figure on it is shown."
    )


if __name__ == "__main__":
    with result_page():
        main()
