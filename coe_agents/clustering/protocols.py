"""Owns the protocols of clusterers and entailment models, and the checks of their arguments and results."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from coe_agents.checks import several

ENTAILMENT_LABELS = ("contradiction", "neutral", "entailment")
"""The order of the columns that every `EntailmentModel` returns."""

CONTRADICTION, NEUTRAL, ENTAILMENT = range(3)


@runtime_checkable
class EntailmentModel(Protocol):
    """Judges whether a premise entails a hypothesis."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating[Any]]:
        """Returns one row per (premise, hypothesis) pair: its probabilities in the order of `ENTAILMENT_LABELS`.

        The shape is `(n_pairs, 3)` and each row sums to 1. It is never called without pairs.
        """
        ...


@runtime_checkable
class Clusterer(Protocol):
    """Groups the responses to each question by meaning."""

    def cluster(
        self, responses: Sequence[Sequence[str]], questions: Sequence[str]
    ) -> list[list[int]]:
        """Returns one list of labels per question, one label per response, 0..n_clusters-1 by first appearance.

        Raises:
            TypeError: If something other than strings is given.
            ValueError: If there are not as many questions as lists of responses.
        """
        ...


def by_first_appearance(clusters: Iterable[Hashable]) -> list[int]:
    """Returns the number of each cluster: 0, 1, ... in the order in which they first appear."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(cluster, len(numbers)) for cluster in clusters]


def check_batch(
    responses: Sequence[Sequence[str]], questions: Sequence[str]
) -> tuple[list[list[str]], list[str]]:
    """Returns the responses of each question and the questions as lists; raises TypeError or ValueError."""
    advice = 'For a single question, call "cluster_responses"'
    several(responses, '"responses"', of="sequences of strings", advice=advice, kind=Iterable)
    batch = [check_strings(texts, name=f'"responses[{i}]"') for i, texts in enumerate(responses)]
    question_texts = check_strings(questions, name='"questions"')
    if len(batch) != len(question_texts):
        raise ValueError(
            f'"responses" and "questions" must be equally long; got {len(batch)} and {len(question_texts)}. '
            'Pass one list of responses per question, and "" for a question that has no text'
        )
    return batch, question_texts


def check_strings(texts: Sequence[str], *, name: str) -> list[str]:
    """Returns `texts` as a list; raises TypeError where it is a string itself, or holds anything but strings."""
    several(texts, name, of="strings", advice="Wrap a single string in a list", kind=Iterable)
    listed = list(texts)
    if set(map(type, listed)) <= {str}:
        return listed
    for i, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(
                f"{name} must hold strings only; item {i} is {type(text).__name__}. "
                'Convert it, and omit failed responses or pass "" for them'
            )
    return listed


def check_probabilities(
    returned: Any, *, n_pairs: int, model: EntailmentModel
) -> NDArray[np.float64]:
    """Returns the rows as doubles, shape `(n_pairs, 3)`; raises ValueError where `model` returned anything else."""
    name = type(model).__name__
    order = ", ".join(ENTAILMENT_LABELS)
    where = f'"predict" of {name}'
    advice = f"Return a float array on the CPU, one row per pair: {order}"
    probabilities = to_rows(returned, n_pairs, len(ENTAILMENT_LABELS), where=where, advice=advice)

    are_finite = np.isfinite(probabilities)
    sums = probabilities.sum(axis=1, where=are_finite)
    is_proper = are_finite.all(axis=1) & (probabilities >= 0).all(axis=1)
    is_proper &= np.abs(sums - 1) <= 1e-3
    if not is_proper.all():
        row = int(np.argmin(is_proper))
        raise ValueError(
            f'every row that "predict" returns must hold probabilities that sum to 1; row {row} of {name} is '
            f"{probabilities[row].tolist()}. Apply a softmax over {order}"
        )
    return probabilities


def to_rows(
    returned: Any, n_rows: int, n_columns: int | None, *, where: str, advice: str
) -> NDArray[np.float64]:
    """Returns rows of numbers as doubles; raises ValueError for anything else. None: any number of columns but 0."""
    try:
        rows = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} must return rows of numbers, all of one length; got {type(returned).__name__}. {advice}"
        ) from error
    fits = rows.ndim == 2 and len(rows) == n_rows and rows.shape[1] > 0
    if not fits or n_columns not in (None, rows.shape[1]):
        wanted = f"({n_rows}, {n_columns or 'any'})"
        raise ValueError(
            f"{where} must return numbers of shape {wanted}; got shape {rows.shape}. {advice}"
        )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPreset:
    """How answers are asked for, which part of a response is the answer, and which answers mean the same.

    `ask`, `create_coe_graph` and a configuration take it as a whole, since its parts fit each other.

    Attributes:
        kind: Its name in decisions.
        recorded: Its name in runs and calibrations: its kind, and its instruction where that is not the usual one.
        instruction: Added to each agent's own prompt, except where a turn has `choices` or `tools`; "" adds nothing.
        canonicalize: From a response's text to the answer that is compared.
        clusterer: Decides which answers mean the same.
    """

    kind: str
    recorded: str
    instruction: str
    canonicalize: Callable[[str], str]
    clusterer: Clusterer
