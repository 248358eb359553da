"""Prints how well the support of other systems tells claims that are wrong, and which risk a calibration keeps.

    python benchmarks/claims.py FOLDER [--halves N] [--convert FILE] [--write FILE]

FOLDER holds `claims_factscore`: biographies by three systems, cut into facts that people checked (FActScore, Min et al.
2023). `--convert` also writes them as FILE, a `*.claims.jsonl` for `coe-agents score` and `calibrate`.

Each sentence of the biographies is also changed, one particular at a time, and judged by the biography itself, which
says otherwise; and drafts are chosen by several rules. "words alone" is what `Overlap` was before it looked at
particulars.
"""

import argparse
import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from result_page import result_page

from coe_agents.claims import ClaimPolicy, Overlap, Sentences
from coe_agents.claims.calibrate import (
    KEPT_SHARES,
    JudgedClaims,
    LabelledQuestion,
    calibrate_claims,
    claim_figures,
    judge_labelled,
    read_labelled,
)
from coe_agents.claims.support import Asked, EntailedBy, Support, passages
from coe_agents.claims.wording import words
from coe_agents.evaluation.metrics import auroc
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
        file.write_text(
            "".join(f"{json.dumps(record)}\n" for record in convert(options.folder)), "utf-8"
        )
        questions = list(read_labelled([file]))
    started = time.process_time()
    judged = list(judge_labelled(questions, Overlap()))
    seconds = time.process_time() - started
    n_claims = sum(each.right.size for each in judged)
    print(f"{len(questions)} persons, {len(judged)} answers, {n_claims} claims with a label")
    print(
        f'\n"This claim is not supported", by Overlap() with the other two systems\' texts ({seconds:.2f} CPU s)'
    )
    print(
        "intervals: 95 %, bootstrap over persons; reference: word overlap, measured elsewhere on these persons\n"
    )
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
    particulars(questions, judged)
    drafts(questions, judged)
    calibrations(questions, judged, options.halves)
    tinyworld(questions)


def convert(folder: Path) -> Iterator[dict]:
    """Yields the persons of the data as lines of a file of claims."""
    with gzip.open(folder / "claims_factscore.dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            answers = {
                system: {
                    "text": answer["text"],
                    "claims": [
                        {"text": one["text"], "supported": one["supported"]}
                        for one in answer["claims"]
                    ],
                }
                for system, answer in record["answers"].items()
            }
            yield {**{key: record[key] for key in ("id", "question", "entity")}, "answers": answers}


class WordsAlone:
    """A `Support`: the share of the claim's words that the best sentence of a text has, whatever it says with them."""

    def judge(self, asked: Sequence[Asked]) -> list[np.ndarray]:
        return [
            np.array([[self._share(c, t) for t in texts] for c in claims])
            for claims, texts in asked
        ]

    def _share(self, claim: str, text: str) -> tuple[float, float]:
        said = words(claim)
        shared = [len(said & words(passage)) for passage in passages(text)]
        return max(shared, default=0) / max(len(said), 1), 0.0


Change = Callable[[str], str | None]
"""Returns a sentence with another meaning; None where there is nothing to change."""
_VERB = r"\b(is|was|are|were|has|have|had|did|does|could|would)\b"
_MONTHS = (
    "January", "February", "March", "April", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_NAME = re.compile(r"(?!(?:The|In|On|At|He|She|His|Her|It|They|After|As)\b)[A-Z]\w+(?: [A-Z]\w+)*")


def replaced(pattern: str, to: str | Callable[[re.Match[str]], str]) -> Change:
    """Returns the change of the first place that fits a pattern."""
    fits = re.compile(pattern)
    return lambda sentence: fits.sub(to, sentence, count=1) if fits.search(sentence) else None


def next_of(several: Sequence[str]) -> Change:
    """Returns the change of the first of several words to the next of them."""
    return replaced(
        rf"\b({'|'.join(several)})\b",
        lambda found: several[(several.index(found[0]) + 1) % len(several)],
    )


def swapped(sentence: str) -> str | None:
    """Returns a sentence whose first name and the last other one have changed places."""
    names = list(_NAME.finditer(sentence))
    others = [name for name in names[1:] if name[0] != names[0][0]]
    if not others:
        return None
    one, other = names[0], others[-1]
    between = sentence[one.end() : other.start()]
    return f"{sentence[: one.start()]}{other[0]}{between}{one[0]}{sentence[other.end() :]}"


CHANGES: dict[str, Change] = {
    '"not" put in': replaced(_VERB, r"\1 not"),
    '"never" put in': replaced(_VERB, r"\1 never"),
    '"n\'t" put in': replaced(_VERB, r"\1n't"),
    '"no longer" put in': replaced(_VERB, r"\1 no longer"),
    '"with" made "without"': replaced(r"\bwith\b", "without"),
    "a negation taken out": replaced(r"\b(?:not|never|no) ", ""),
    "another year": replaced(r"\b(?:1[5-9]|20)\d\d\b", lambda year: str(int(year[0]) + 3)),
    "another last digit": replaced(r"\d(?!\d)(?!\])", lambda digit: str((int(digit[0]) + 1) % 10)),
    "a minus sign": replaced(r"(?<![\w\[.,–-])\d", lambda digit: f"-{digit[0]}"),
    "a percent sign": replaced(r"(?<!\[)\b\d+\b(?![\d.,]*\])", lambda number: f"{number[0]}%"),
    "another month": next_of(_MONTHS),
    "another number in words": next_of(_COUNTS),
    "another ordinal": next_of(_ORDINALS),
    "two names swapped": swapped,
}


def particulars(questions: Sequence[LabelledQuestion], judged: Sequence[JudgedClaims]) -> None:
    """Prints how many changed sentences are kept, and the AUROC of all claims, before and after `Overlap` looked."""
    supports: tuple[Support, Support] = (WordsAlone(), Overlap())
    texts = [text for question in questions for text in question.answers.values()]
    sentences = [
        [claim.text for claim in claims]
        for claims in Sentences().split(texts)
        if isinstance(claims, tuple)
    ]
    keeps = ClaimPolicy().min_support
    print(
        f"\nsentences of the answers, judged by their own answer: the share with a support of {keeps:g} or more, kept\n"
    )
    print(f"{'sentences with':25} {'number':>6}  words alone  Overlap()")
    for name, change in {"no change": str, **CHANGES}.items():
        asked = []
        for text, said in zip(texts, sentences, strict=True):
            changed = [each for each in map(change, said) if each is not None]
            asked.append(Asked(changed, [text]))
        shares = []
        for support in supports:
            found = np.concatenate([each[:, 0, 0] for each in support.judge(asked) if len(each)])
            shares.append(float((found >= keeps).mean()))
        print(f"{name:25} {found.size:6}  {shares[0]:11.3f}  {shares[1]:9.3f}")
    print("\nAUROC of a claim that is not supported:\n")
    before = list(judge_labelled(questions, supports[0]))
    for name in (*sorted({each.agent for each in judged}), "all"):
        values = []
        for of in (before, judged):
            right = np.concatenate([each.right for each in of if name in (each.agent, "all")])
            between = np.concatenate([each.between for each in of if name in (each.agent, "all")])
            values.append(float(auroc(correct=right, uncertainty=1.0 - between)))
        print(f"{name:25} {right.size:6}  {values[0]:11.3f}  {values[1]:9.3f}")


def texts_of(questions: Sequence[LabelledQuestion]) -> dict[tuple[str, str], list[str]]:
    """Returns the texts of the labelled claims of each answer."""
    found = {}
    for question in questions:
        for agent, claims in question.claims.items():
            labels = question.supported[agent]
            found[question.id, agent] = [
                c for c, label in zip(claims, labels, strict=True) if label is not None
            ]
    return found


def n_words(claims: Sequence[str], kept: Sequence[bool]) -> int:
    """Returns how many distinct words the kept claims have, as `Claims` counts them."""
    return len(
        frozenset().union(
            *(words(claim) for claim, is_kept in zip(claims, kept, strict=True) if is_kept)
        )
    )


def drafts(questions: Sequence[LabelledQuestion], judged: Sequence[JudgedClaims]) -> None:
    """Prints what is kept of the draft of each person, by the rule that chooses it."""
    texts = texts_of(questions)
    of_person: dict[str, list[JudgedClaims]] = {}
    for each in judged:
        of_person.setdefault(each.entity, []).append(each)
    print(
        "\nthe draft that is given, by what is largest of its claims: kept claims a person, and wrong ones of them\n"
    )
    print(
        f"{'kept from':9}  {'mean support':>14}  {'kept claims':>14}  {'sum of support':>14}  {'distinct words':>14}"
    )
    for keeps in (0.6, 0.75, 0.9):
        cells = []
        for rule in range(4):
            n_kept = n_wrong = 0
            for several in of_person.values():

                def value(
                    each: JudgedClaims, keeps: float = keeps, rule: int = rule
                ) -> tuple[float, float]:
                    kept = each.between >= keeps
                    mean = float(each.between.mean())
                    content = n_words(texts[each.question, each.agent], kept) if rule == 3 else 0
                    return (
                        mean,
                        float(kept.sum()),
                        float(each.between[kept].sum()),
                        float(content),
                    )[rule], mean

                chosen = max(several, key=value)
                kept = chosen.between >= keeps
                n_kept += int(kept.sum())
                n_wrong += int((kept & ~chosen.right).sum())
            cells.append(f"{n_kept / len(of_person):6.2f}  {n_wrong / n_kept:6.3f}")
        print(f"{keeps:9}  " + "  ".join(cells))


def calibrations(
    questions: Sequence[LabelledQuestion], judged: Sequence[JudgedClaims], n_halves: int
) -> None:
    """Prints what policies keep that were calibrated on one half of the persons, on the other half."""
    persons = sorted({each.entity for each in judged})
    print(
        f"\ncalibrated on half of the persons, {n_halves} times, confidence {CONFIDENCE}; on the other half:"
    )
    print(
        "over: the pooled share of wrong claims among the kept is above the risk; beyond error: above it by more than"
    )
    print(f"{_Z} standard errors over persons; drafts: of the answer that a gate gives\n")
    print(
        "risk  policies  kept claims  answers with some  wrong of the kept  over  beyond error  wrong in drafts"
    )
    texts = texts_of(questions)
    for risk in RISKS:
        rng, rows = np.random.default_rng(0), []
        for _ in range(n_halves):
            half = set(rng.permutation(persons)[: len(persons) // 2])
            policy = calibrate_claims(
                [each for each in judged if each.entity in half], risk=risk, confidence=CONFIDENCE
            )
            if policy is not None:
                rows.append(
                    kept([each for each in judged if each.entity not in half], texts, policy, risk)
                )
        found = np.array(rows)
        if not rows:
            print(f"{risk:4}  {0:8}")
            continue
        share, answers, wrong, drafts, over, beyond = found.T
        print(
            f"{risk:4}  {len(rows):8}  {share.mean():11.3f}  {answers.mean():17.3f}  {wrong.mean():17.3f}  "
            f"{over.sum():4.0f}  {beyond.sum():12.0f}  {np.nanmean(drafts):15.3f}"
        )


def kept(
    judged: Sequence[JudgedClaims],
    texts: dict[tuple[str, str], list[str]],
    policy: ClaimPolicy,
    risk: float,
) -> tuple[float, ...]:
    """Returns the share of claims and of answers that are kept, the share of wrong ones, and whether it is too high."""
    of_person: dict[str, list[tuple[int, int]]] = {}
    best: dict[str, tuple[int, float, int, int]] = {}
    for each in judged:
        given = np.array([action == "keep" for action in policy.actions(each.between)])
        counts = int(given.sum()), int((given & ~each.right).sum())
        of_person.setdefault(each.entity, []).append(counts)
        content = n_words(texts[each.question, each.agent], given)
        draft = (content, float(each.between.mean()), *counts)
        best[each.entity] = max(best.get(each.entity, draft), draft)
    sums = np.array([np.sum(counts, axis=0) for counts in of_person.values()])
    n_kept, n_wrong = sums.sum(axis=0)
    wrong = n_wrong / max(n_kept, 1)
    error = np.sqrt(((sums[:, 1] - wrong * sums[:, 0]) ** 2).sum()) / max(n_kept, 1)
    given = np.mean([counts[0] > 0 for each in of_person.values() for counts in each])
    drafts = np.array([each[2:] for each in best.values()]).sum(axis=0)
    share = n_kept / sum(each.right.size for each in judged)
    return (
        share,
        given,
        wrong,
        drafts[1] / drafts[0] if drafts[0] else np.nan,
        wrong > risk,
        wrong - _Z * error > risk,
    )


def tinyworld(questions: Sequence) -> None:
    """Prints what tinyworld's entailment model makes of some claims: it does not know these words."""
    from coe_agents.backends import TransformersEntailment

    model = EntailedBy(TransformersEntailment(str(model_folder(ENTAILMENT_MODEL))), n_passages=1)
    some = [
        (question, agent)
        for question in questions[:10]
        for agent in question.answers
        if question.claims[agent]
    ]
    asked = [
        Asked(
            question.claims[agent][:5],
            [question.answers[name] for name in question.answers if name != agent],
        )
        for question, agent in some
    ]
    found = np.concatenate([each.reshape(-1, 2) for each in model.judge(asked)])
    right = [
        label
        for question, agent in some
        for label in question.supported[agent][:5]
        for _ in range(2)
    ]
    known = np.array([label is not None for label in right])
    supported = np.array([bool(label) for label in right])[known]
    means = [found[known][supported == label, 0].mean() for label in (True, False)]
    entailed = " and ".join(
        f"{mean:.3f} for {kind} claims"
        for mean, kind in zip(means, ("right", "wrong"), strict=True)
    )
    print(
        f"\ntinyworld's entailment model does not know these words: on {quantity(int(known.sum()), 'pair')} of the "
        f"first 10 persons its mean\nprobability of entailment is {entailed}. No figure on it is shown."
    )


if __name__ == "__main__":
    with result_page():
        main()
