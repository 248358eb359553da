"""Owns files of labelled claims (`*.claims.jsonl`): how they are read, and what claims and texts of a question are."""

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coe_agents.claims.measure import FloatArray, measure_claims
from coe_agents.claims.support import Asked, Support
from coe_agents.errors import SamplesError
from coe_agents.files import parse_json

SUFFIXES = (".claims.jsonl", ".claims.jsonl.gz")
_HINT = (
    'A line is {"id", "question", "entity", "answers": {agent: {"text", "claims": [{"text", "supported"}]}}}, with '
    '"samples": {agent: [text]} where there are more'
)
_BATCH = 20
"""So many questions are judged in one call of a model."""


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """One question of a file: each agent's answer with its labelled claims, and what else the agents said.

    Attributes:
        entity: What the question is about; questions of one entity are not independent.
        answers: The text of each agent, by name.
        claims: The claims of each answer, by agent.
        supported: For each of these, whether it is true; None where nobody knows.
        samples: Further responses to the question, by agent.
    """

    id: str
    entity: str
    answers: Mapping[str, str]
    claims: Mapping[str, Sequence[str]]
    supported: Mapping[str, Sequence[bool | None]]
    samples: Mapping[str, Sequence[str]]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """All responses, the answers first, each with who gave it."""
        further = [(agent, text) for agent, texts in self.samples.items() for text in texts]
        return [*self.answers.items(), *further]


@dataclass(frozen=True, slots=True)
class JudgedClaims:
    """The labelled claims of one agent's answer to one question.

    Attributes:
        between: Support by the other agents, shape `(n,)`; NaN without any.
        within: Support by the agent's own samples, shape `(n,)`; NaN without any.
        right: Whether each claim is true, shape `(n,)`.
    """

    question: str
    entity: str
    agent: str
    between: FloatArray
    within: FloatArray
    right: np.ndarray[Any, np.dtype[np.bool_]]


def are_claims(paths: Sequence[Path]) -> bool:
    """Returns whether files hold labelled claims, by their names."""
    return all(path.name.endswith(SUFFIXES) for path in paths)


def read_labelled(paths: Iterable[Path]) -> Iterator[LabelledQuestion]:
    """Yields the questions of the files.

    Raises:
        SamplesError: A file cannot be read, or a line holds something else.
    """
    for path in paths:
        try:
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield _question(line, f"{path}, line {number}")
        except OSError as error:
            raise SamplesError(f"{path} cannot be read: {error}", hint=_HINT) from error


def _question(line: bytes, where: str) -> LabelledQuestion:
    try:
        record = parse_json(line)
        answers: dict[str, Any] = record["answers"]
        found = LabelledQuestion(
            id=str(record["id"]),
            entity=str(record.get("entity") or record["id"]),
            answers={agent: _text(answer["text"]) for agent, answer in answers.items()},
            claims={agent: [_text(each["text"]) for each in answer["claims"]] for agent, answer in answers.items()},
            supported={agent: [each["supported"] for each in answer["claims"]] for agent, answer in answers.items()},
            samples={agent: [_text(text) for text in of] for agent, of in (record.get("samples") or {}).items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SamplesError(f"{where} is no question with claims: {error!r}", hint=_HINT) from error
    for label in (label for labels in found.supported.values() for label in labels):
        if label is not None and not isinstance(label, bool):
            raise SamplesError(f'{where}: "supported" must be true, false or null; got {label!r:.50}', hint=_HINT)
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text must be a string; got {value!r:.50}")
    return value


def judge_labelled(questions: Iterable[LabelledQuestion], support: Support) -> Iterator[JudgedClaims]:
    """Yields the claims with a label of each answer, judged against all responses to its question."""
    batch: list[LabelledQuestion] = []
    for question in questions:
        batch.append(question)
        if len(batch) == _BATCH:
            yield from _judged(batch, support)
            batch = []
    yield from _judged(batch, support)


def _judged(batch: Sequence[LabelledQuestion], support: Support) -> Iterator[JudgedClaims]:
    drafts = [(question, agent) for question in batch for agent in question.answers if question.claims[agent]]
    asked = [Asked(question.claims[agent], [text for _, text in question.texts]) for question, agent in drafts]
    for (question, agent), judged in zip(drafts, support.judge(asked) if asked else [], strict=True):
        names = [name for name, _ in question.texts]
        found = measure_claims(judged, names, drafted_by=agent, draft=names.index(agent))
        labels = question.supported[agent]
        known = [place for place, label in enumerate(labels) if label is not None]
        if known:
            right = np.array([bool(labels[place]) for place in known])
            yield JudgedClaims(question.id, question.entity, agent, found.between[known], found.within[known], right)
