"""Owns the criteria by which a group's answer counts as right. Every report names the one it used.

A verdict is a number in [0, 1]. True and False are 1 and 0; a cluster whose labels differ is right by the share of them
that says so. If several clusters tie for the lead, the verdict of the question is the mean over them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import fmean
from typing import Protocol, runtime_checkable

from coe_agents.actions.proposals import has_proposals
from coe_agents.checks import require, share
from coe_agents.clustering import BidirectionalEntailment, Clusterer, cluster_many
from coe_agents.clustering.mathematics import MathematicsMatch
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.clustering.refusals import answer_kind, response_text
from coe_agents.evaluation.scoring.statistics import BATCH
from coe_agents.extensions import did_you_mean
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
        responses = [statistics.responses[place] for place in statistics.places[cluster]]
        return cls(
            question=statistics.question.text,
            answer=statistics.answer_of(cluster),
            references=statistics.question.references,
            verdicts=tuple([response["correct"] for response in responses]),
            is_action=has_proposals(responses),
        )


@runtime_checkable
class Criterion(Protocol):
    """Judges predictions."""

    @property
    def name(self) -> str: ...

    def judge(self, predictions: Sequence[Prediction]) -> Sequence[float | None]:
        """Returns for each whether it is right, in [0, 1]; None where that is not known."""
        ...


_Key = Callable[[str], str]


def _by_exact_match(prediction: Prediction, key: _Key = normalize_answer) -> bool | None:
    # SQuAD-style
    if not prediction.references:
        return None
    return key(prediction.answer) in map(key, prediction.references)


def _by_label(prediction: Prediction) -> float | None:
    return mean_verdict(prediction.verdicts)


def _by_reference_or_label(prediction: Prediction, key: _Key = normalize_answer) -> float | None:
    # a judge who knew one alias rejects others: a match outweighs a no
    matches = _by_exact_match(prediction, key)
    labelled = _by_label(prediction)
    if matches or labelled is None:
        return matches
    return labelled


def _by_reference_or_any_label(prediction: Prediction, key: _Key = normalize_answer) -> bool | None:
    # for a judge who knew one alias of several: where the labels of equal answers differ, a yes says more than a no
    verdicts = (_by_exact_match(prediction, key), *prediction.verdicts)
    if True in verdicts:
        return True
    return False if False in verdicts else None


def _by_containment(prediction: Prediction) -> bool | None:
    if not prediction.references:
        return None
    return any(contains(prediction.answer, each) for each in prediction.references)


def contains(answer: str, reference: str) -> bool:
    """Returns whether a reference stands in an answer as whole words, both normalised by `normalize_answer`.

    A character of a script without blanks, such as Chinese, Japanese or Thai, is a word; a Korean word may have an
    ending. A negation is not read: "not Paris" contains "Paris".

    >>> contains("It is the city of Paris, France.", "paris"), contains("Parisian food", "Paris")
    (True, False)
    >>> contains("法国的首都是巴黎。", "巴黎"), contains("It is 13.5.", "3.5")
    (True, False)
    """
    wanted = _spaced(reference)
    if not wanted:
        return False
    end = "" if _HANGUL.match(wanted[-1]) else " "
    return f" {wanted}{end}" in f" {_spaced(answer)} "


_WITHOUT_BLANKS = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\U00020000-\U0003ffff])"
)
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters."""
_HANGUL = re.compile("[\uac00-\ud7a3]")
_AROUND_WORDS = ".,;:!?\"'()[]{}«»“”‘’*_`、。，；：！？「」『』（）"


def _spaced(text: str) -> str:
    """Returns a normalised text with a blank between any two words, and no punctuation around them."""
    apart = _WITHOUT_BLANKS.sub(r" \1 ", normalize_answer(text))
    words = [word.strip(_AROUND_WORDS) for word in apart.split()]
    return " ".join(filter(None, words))


def _by_token_f1(prediction: Prediction) -> bool | None:
    if not prediction.references:
        return None
    return max(token_f1(prediction.answer, each) for each in prediction.references) >= 0.5


def token_f1(answer: str, reference: str) -> float:
    """SQuAD's F1 over normalised tokens, 2 common / (tokens of both), in [0, 1].

    >>> round(token_f1("the city of Paris", "Paris"), 4)
    0.5
    """
    answered = Counter(normalize_answer(answer).split())
    expected = Counter(normalize_answer(reference).split())
    n_tokens = answered.total() + expected.total()
    if not n_tokens:
        return 0.0
    return 2.0 * (answered & expected).total() / n_tokens


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
        self.name = name
        self._clusterer = clusterer

    def judge(self, predictions: Sequence[Prediction]) -> Sequence[float | None]:
        verdicts = []
        places = []
        pairs = []
        questions = []
        for place, prediction in enumerate(predictions):
            verdicts.append(False if prediction.references else None)
            for reference in prediction.references:
                places.append(place)
                pairs.append([prediction.answer, reference])
                questions.append(prediction.question)

        labels = cluster_many(pairs, questions=questions, clusterer=self._clusterer)
        for place, (answer_label, reference_label) in zip(places, labels, strict=True):
            if answer_label == reference_label:
                verdicts[place] = True
        return verdicts


_RULES = (
    Rule("reference_or_label", _by_reference_or_label),
    Rule("reference", _by_exact_match),
    Rule("label", _by_label),
    Rule("reference_or_any_label", _by_reference_or_any_label),
    Rule("contains", _by_containment),
    Rule("f1", _by_token_f1),
)
CRITERIA: Mapping[str, Criterion] = {rule.name: rule for rule in _RULES}
"""The criteria that need no model. For an LLM as judge, wrap a callable: `Rule("judge", ask)`.

"reference" is a match after normalisation (`normalize_answer`), "label" the share of the cluster's labels that says
right; "contains" a reference in the answer as whole words, whatever else it says, "f1" SQuAD's token F1 of at least 0.5
with a reference.
"""


_OF_REFERENCES: Mapping[str, Callable[..., float | None]] = {
    "reference_or_label": _by_reference_or_label,
    "reference": _by_exact_match,
    "reference_or_any_label": _by_reference_or_any_label,
}


def with_equality_of(clusterer: Clusterer, criterion: Criterion) -> Criterion:
    """Returns the criterion that compares references as the clusterer compares answers.

    That is by value for `MathematicsMatch`. Every other criterion stays as it is.
    """
    rule = _OF_REFERENCES.get(criterion.name)
    if rule is None or not isinstance(clusterer, MathematicsMatch):
        return criterion
    if criterion != CRITERIA[criterion.name]:  # one of the user's, or by value already
        return criterion
    return Rule(criterion.name, partial(rule, key=clusterer.key))


def create_criterion(name: str, clusterer: Clusterer, judge: Criterion | None = None) -> Criterion:
    """Returns the criterion of a name of `correctness`: of `CRITERIA`, "entailment" or "judge".

    A ValueError if there is no such criterion, or it lacks the entailment model of the clusterer, or a judge model.
    """
    if name == "entailment" and isinstance(clusterer, BidirectionalEntailment):
        return SameMeaning(clusterer)
    if name == "judge" and judge is not None:
        return judge
    if name in CRITERIA:
        return with_equality_of(clusterer, CRITERIA[name])
    check_criterion(name)
    raise ValueError(f'"{name}" needs {_NEEDED[name]}')


_NEEDED = {
    "entailment": 'an entailment model. Name one: a configuration with [clusterer] kind = "entailment"',
    "judge": "a judge model. Name one: a configuration with [judge]",
}
"""By the name of a criterion that asks a model, what it needs."""


def check_criterion(name: str) -> None:
    """Raises a ValueError if there is no criterion of this name; one that asks a model may lack it."""
    known = [*CRITERIA, *_NEEDED]
    if name not in known:
        advice = did_you_mean(name, known) or f"Name one of {', '.join(known)}"
        raise ValueError(f'there is no criterion "{name}". {advice}')


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

    where = f'every verdict of "judge" of {criterion.name}'
    advice = "Return True, False, a share of right, or None where it is not known"
    numbers: list[float | None] = []
    for prediction, verdict in zip(predictions, verdicts, strict=True):
        if verdict is None:
            numbers.append(None)
            continue
        right = share(verdict * 1, where, advice=advice)  # True counts 1
        if prediction.is_action or answer_kind(prediction.answer) == "answer":
            numbers.append(float(right))
        else:
            numbers.append(0.0)
    return numbers


def judge_clusters(
    chosen: Iterable[tuple[Statistics, Sequence[int]]], criterion: Criterion
) -> Iterator[tuple[Statistics, list[float | None]]]:
    """Yields the statistics with the verdict on each chosen cluster; `BATCH` questions are held and judged together."""
    predicted = ((each, _predictions_of(each, clusters)) for each, clusters in chosen)
    return _judge_together(predicted, criterion)


def _predictions_of(statistics: Statistics, clusters: Sequence[int]) -> list[Prediction]:
    return [Prediction.of(statistics, cluster=cluster) for cluster in clusters]


def _judge_together(
    predicted: Iterable[tuple[Statistics, list[Prediction]]], criterion: Criterion
) -> Iterator[tuple[Statistics, list[float | None]]]:
    waiting = iter(predicted)
    while batch := list(islice(waiting, BATCH)):
        together = []
        for _, predictions in batch:
            together += predictions

        verdicts = iter(judge(together, criterion))
        for statistics, predictions in batch:
            yield statistics, list(islice(verdicts, len(predictions)))


def with_verdicts(
    statistics: Iterable[Statistics], criterion: Criterion
) -> Iterator[tuple[Statistics, float | None]]:
    """Yields each with the verdict on the group's answer, or on the proposal of its `proposer` if it has one.

    The verdict of a tied question is the mean over the clusters that share the lead. Clusters about which nothing can
    be said are left out; it is None where no verdict is known, or the proposer gave no response.
    """
    predicted = ((each, _predictions(each)) for each in statistics)
    for each, verdicts in _judge_together(predicted, criterion):
        yield each, mean_verdict(verdicts)


def _predictions(statistics: Statistics) -> list[Prediction]:
    if statistics.proposer is None:
        return _predictions_of(statistics, statistics.leading)
    if statistics.proposal is None:
        return []

    response = statistics.responses[statistics.proposal]
    prediction = Prediction(
        question=statistics.question.text,
        answer=response_text(response),
        references=statistics.question.references,
        verdicts=(response["correct"],),
        is_action=response.get("calls") is not None,
    )
    return [prediction]


def is_inside(statistics: Statistics, verdict: float | None) -> bool:
    """Returns whether the answer is wrong by its words alone, though a reference is in it as whole words."""
    if verdict is None or verdict > 0.0:
        return False
    return any(map(holds_reference, _predictions(statistics)))


def holds_reference(prediction: Prediction) -> bool:
    """Returns whether a text without a label has a reference in it as whole words."""
    if prediction.is_action or mean_verdict(prediction.verdicts) is not None:
        return False

    return answer_kind(prediction.answer) == "answer" and _by_containment(prediction) is True


class HasVerdict(Protocol):
    """What was judged: whether it is right, and whether it is wrong by its words alone, though a reference is in it."""

    @property
    def correct(self) -> float | None: ...

    @property
    def is_inside(self) -> bool: ...


def on_inside(judged: Iterable[HasVerdict], criterion: str) -> str | None:
    """Returns the line of `inside_in_words` on what was judged."""
    n_judged = 0
    n_inside = 0
    for each in judged:
        n_judged += each.correct is not None
        n_inside += each.is_inside
    return inside_in_words(n_inside, n_judged, criterion)


def inside_in_words(n: int, n_judged: int, criterion: str) -> str | None:
    """Returns a line on the wrong answers with a reference in them; None where they are few, or a model judges."""
    if not n or n < n_judged / 10 or criterion not in CRITERIA:
        return None
    answers = quantity(
        n,
        "wrong answer contains a reference, but does",
        "wrong answers contain a reference, but do",
    )
    return (
        f"{answers} not equal it. "
        'If they are sentences, judge by "contains", "entailment" or "judge": correctness="contains" (--correctness '
        "contains); models that follow instructions can be asked for short answers instead."
    )


def mean_verdict(verdicts: Sequence[float | None]) -> float | None:
    """The mean of the known verdicts; None if no verdict is known."""
    known = [verdict for verdict in verdicts if verdict is not None]
    return fmean(known) if known else None
