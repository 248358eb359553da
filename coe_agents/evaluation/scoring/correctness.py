"""Owns the criteria by which a group's answer counts as right. Every report names the one it used.

A verdict is a number in [0, 1]. True and False are 1 and 0; a cluster whose labels differ is right by the share of them
that says so. If several clusters tie for the lead, the verdict of the question is the mean over them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Protocol, runtime_checkable

from coe_agents.actions.proposals import has_proposals
from coe_agents.checks import require, share
from coe_agents.clustering import BidirectionalEntailment, Clusterer, cluster_many
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.clustering.refusals import answer_kind, response_text
from coe_agents.evaluation.scoring.statistics import BATCH
from coe_agents.measurement.statistics import Statistics
from coe_agents.text import quantity


@dataclass(frozen=True, slots=True)
class Prediction:
    """A cluster's answer, and what it is judged by.

    Attributes:
        answer: The cluster's most probable response.
        references: The accepted answers; may be empty.
        verdicts: The data's own labels of the responses in the cluster; None where there is no label.
        is_action: Whether the answer is a proposal of tool calls, in canonical form; to call nothing is one.
    """

    question: str
    answer: str
    references: tuple[str, ...] = ()
    verdicts: tuple[bool | None, ...] = ()
    is_action: bool = False

    @classmethod
    def of(cls, statistics: Statistics, *, cluster: int) -> "Prediction":
        inside = [statistics.responses[place] for place in statistics.places[cluster]]
        return cls(
            statistics.question.text,
            statistics.answer_of(cluster),
            statistics.question.references,
            tuple([response["correct"] for response in inside]),
            has_proposals(inside),
        )


@runtime_checkable
class Criterion(Protocol):
    """Judges predictions."""

    @property
    def name(self) -> str: ...

    def judge(self, predictions: Sequence[Prediction]) -> Sequence[float | None]:
        """Returns for each whether it is right, in [0, 1]; None where that is not known."""
        ...


def _by_exact_match(prediction: Prediction) -> bool | None:
    # SQuAD-style
    answer = normalize_answer(prediction.answer)
    return _any(normalize_answer(reference) == answer for reference in prediction.references)


def _by_label(prediction: Prediction) -> float | None:
    return mean_verdict(prediction.verdicts)


def _by_reference_or_label(prediction: Prediction) -> float | None:
    # a judge who knew one alias rejects others: a match outweighs a no
    matches = _by_exact_match(prediction)
    labelled = _by_label(prediction)
    return matches if matches or labelled is None else labelled


def _by_reference_or_any_label(prediction: Prediction) -> bool | None:
    # for a judge who knew one alias of several: where the labels of equal answers differ, a yes says more than a no
    verdicts = (_by_exact_match(prediction), *prediction.verdicts)
    return _any(verdict for verdict in verdicts if verdict is not None)


def _by_token_f1(prediction: Prediction) -> bool | None:
    return _any(
        token_f1(prediction.answer, reference) >= 0.5 for reference in prediction.references
    )


def token_f1(answer: str, reference: str) -> float:
    """SQuAD's F1 over normalised tokens, 2 common / (tokens of both), in [0, 1].

    >>> round(token_f1("the city of Paris", "Paris"), 4)
    0.5
    """
    found, expected = (Counter(normalize_answer(text).split()) for text in (answer, reference))
    n_tokens = found.total() + expected.total()
    return 2.0 * (found & expected).total() / n_tokens if n_tokens else 0.0


@dataclass(frozen=True)
class Rule:
    """A `Criterion` from a function of one prediction.

    `rule` returns whether a prediction is right, in [0, 1]; None where that is not known. Reports show the name.
    """

    name: str
    rule: Callable[[Prediction], float | None]

    def judge(self, predictions: Sequence[Prediction]) -> list[float | None]:
        return [self.rule(prediction) for prediction in predictions]


class SameMeaning:
    """A `Criterion`: right where a clusterer puts the answer and a reference together.

    With `BidirectionalEntailment` that is equivalence by an NLI model: each entails the other, given the question.
    """

    def __init__(self, clusterer: Clusterer, *, name: str = "entailment") -> None:
        self.name, self._clusterer = name, clusterer

    def judge(self, predictions: Sequence[Prediction]) -> Sequence[float | None]:
        places = [
            (place, ref)
            for place, prediction in enumerate(predictions)
            for ref in prediction.references
        ]
        labels = cluster_many(
            [[predictions[place].answer, reference] for place, reference in places],
            questions=[predictions[place].question for place, _ in places],
            clusterer=self._clusterer,
        )
        verdicts: list[bool | None] = [
            False if prediction.references else None for prediction in predictions
        ]
        for (place, _), (answer, reference) in zip(places, labels, strict=True):
            if answer == reference:
                verdicts[place] = True
        return verdicts


CRITERIA: Mapping[str, Criterion] = {
    name: Rule(name, rule)
    for name, rule in {
        "reference_or_label": _by_reference_or_label,
        "reference": _by_exact_match,
        "label": _by_label,
        "reference_or_any_label": _by_reference_or_any_label,
        "f1": _by_token_f1,
    }.items()
}
"""The criteria that need no model. For an LLM as judge, wrap a callable: `Rule("judge", ask)`.

"reference" is a match after normalisation (`normalize_answer`), "label" the share of the cluster's labels that says
right; "f1" is SQuAD's token F1 of at least 0.5 with a reference.
"""


def create_criterion(name: str, clusterer: Clusterer, judge: Criterion | None = None) -> Criterion:
    """Returns the criterion of a name of `--correctness`: of `CRITERIA`, "entailment" or "judge".

    A ValueError if there is no such criterion, or it lacks the entailment model of the clusterer, or a judge model.
    """
    if name == "entailment" and isinstance(clusterer, BidirectionalEntailment):
        return SameMeaning(clusterer)
    if name == "judge" and judge is not None:
        return judge
    if name in CRITERIA:
        return CRITERIA[name]
    needed = {
        "entailment": 'an entailment model. Name one: --config FILE with [clusterer] kind = "entailment"',
        "judge": "a judge model. Name one: --config FILE with [judge]",
    }
    if name not in needed:
        raise ValueError(
            f'there is no criterion "{name}". Name one of {", ".join([*CRITERIA, *needed])}'
        )
    raise ValueError(f'"{name}" needs {needed[name]}')


def judge(predictions: Sequence[Prediction], criterion: Criterion) -> list[float | None]:
    """Returns the verdicts as numbers; a refusal or an empty answer is wrong wherever a verdict is possible.

    To call no tool may be right, whatever is said instead. A ValueError if the criterion returns another number of
    verdicts, or one outside [0, 1].
    """
    verdicts = criterion.judge(predictions)
    must = f'"judge" of {criterion.name} must return one verdict for each of {len(predictions)}'
    require(
        len(verdicts) == len(predictions), must, len(verdicts), "Return None where it is not known"
    )
    advice = "Return True, False, a share of right, or None where it is not known"
    for verdict in verdicts:
        if verdict is not None:
            share(
                verdict * 1, f'every verdict of "judge" of {criterion.name}', advice=advice
            )  # True counts 1
    can_be_right = [each.is_action or answer_kind(each.answer) == "answer" for each in predictions]
    return [
        None if verdict is None else float(verdict) if is_answer else 0.0
        for verdict, is_answer in zip(verdicts, can_be_right, strict=True)
    ]


def judge_clusters(
    chosen: Iterable[tuple[Statistics, Sequence[int]]], criterion: Criterion
) -> Iterator[tuple[Statistics, list[float | None]]]:
    """Yields the statistics with the verdict on each chosen cluster; `BATCH` questions are held and judged together."""
    return _judge_together(
        (
            (each, [Prediction.of(each, cluster=cluster) for cluster in clusters])
            for each, clusters in chosen
        ),
        criterion,
    )


def _judge_together(
    predicted: Iterable[tuple[Statistics, list[Prediction]]], criterion: Criterion
) -> Iterator[tuple[Statistics, list[float | None]]]:
    left = iter(predicted)
    while batch := list(islice(left, BATCH)):
        verdicts = iter(judge([prediction for _, own in batch for prediction in own], criterion))
        for each, own in batch:
            yield each, list(islice(verdicts, len(own)))


def with_verdicts(
    statistics: Iterable[Statistics], criterion: Criterion
) -> Iterator[tuple[Statistics, float | None]]:
    """Yields each with the verdict on the group's answer, or on the proposal of its `proposer` if it has one.

    The verdict of a tied question is the mean over the clusters that share the lead. Clusters about which nothing can
    be said are left out; it is None where no verdict is known, or the proposer gave no response.
    """
    predicted = ((each, _predictions(each)) for each in statistics)
    return (
        (each, mean_verdict(verdicts)) for each, verdicts in _judge_together(predicted, criterion)
    )


def _predictions(statistics: Statistics) -> list[Prediction]:
    if statistics.proposer is None:
        return [Prediction.of(statistics, cluster=cluster) for cluster in statistics.leading]
    if statistics.proposal is None:
        return []
    question, response = statistics.question, statistics.responses[statistics.proposal]
    is_action = response.get("calls") is not None
    return [
        Prediction(
            question.text,
            response_text(response),
            question.references,
            (response["correct"],),
            is_action,
        )
    ]


def is_inside(statistics: Statistics, verdict: float | None) -> bool:
    """Returns whether the answer is wrong by its words alone, though a reference is in it as whole words."""
    if verdict is None or verdict > 0.0:
        return False
    references = statistics.question.references
    ends = {word for reference in references for word in reference.casefold().split()[-1:]}
    answers = [
        f" {normalize_answer(each.answer)} "
        for each in _predictions(statistics)
        if any(
            end in each.answer.casefold() for end in ends
        )  # few do, and normalising takes longer
        and not each.is_action
        and answer_kind(each.answer) == "answer"
        and mean_verdict(each.verdicts) is None
    ]
    return any(
        f" {normalize_answer(reference)} " in answer
        for reference in references
        for answer in answers
    )


def inside_in_words(n: int, n_judged: int, criterion: str) -> str | None:
    """Returns a line on the wrong answers with a reference in them; None where they are few, or a model judges."""
    if not n or n < n_judged / 10 or criterion not in CRITERIA:
        return None
    found = quantity(
        n,
        "wrong answer contains a reference, but does",
        "wrong answers contain a reference, but do",
    )
    return (
        f"{found} not equal it. "
        'If they are sentences: --correctness judge or entailment, or ask with [answers] kind = "short".'
    )


def mean_verdict(verdicts: Sequence[float | None]) -> float | None:
    """The mean of the known verdicts; None if no verdict is known."""
    known = [verdict for verdict in verdicts if verdict is not None]
    return fmean(known) if len(known) > 1 else next(iter(known), None)


def _any(matches: Iterable[bool]) -> bool | None:
    found = list(matches)
    return any(found) if found else None
