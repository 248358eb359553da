"""Owns scoring on a cluster: the questions in parts, each a Parquet file with a row for every question."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, cast

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.distributed.cluster import Part, Pool, work_through
from coe_agents.errors import StoreError
from coe_agents.evaluation import Criterion, Sample, SampledQuestion, Scores
from coe_agents.evaluation.estimators import ESTIMATORS
from coe_agents.evaluation.folder import run_folder, write
from coe_agents.evaluation.parquet import part_file, rows_of, to_parquet
from coe_agents.evaluation.scored import AgentScore, ScoredQuestion, score_each
from coe_agents.evaluation.scoring import to_scores
from coe_agents.evaluation.statistics import BATCH
from coe_agents.policy import Weighting

_COLUMNS = {
    "id": "string",
    "correct": "double",
    "tied": "bool",
    **dict.fromkeys(ESTIMATORS, "double"),
    "agents": "string",  # JSON: entropy, number of responses, whether by probability, by name
    "failures": "string",  # JSON: how many, by name
}


class Scorer(Protocol):
    """What decides, as an actor has it; see `coe_agents.evaluation.score`."""

    @property
    def clusterer(self) -> Clusterer: ...
    @property
    def criterion(self) -> Criterion: ...
    @property
    def entailment(self) -> EntailmentModel | None: ...


def score(
    questions: Iterable[SampledQuestion],
    create: Callable[[], Scorer],
    folder: Path,
    settings: Mapping[str, Any],
    pool: Pool,
    *,
    weighting: Weighting,
    size: int = 4 * BATCH,
    criterion: str,
    clusterer: str,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Scores every question on the cluster that `cluster` joined; the result is that of `coe_agents.evaluation.score`.

    Args:
        questions: As `Samples` gives them, one at a time.
        create: Makes the models in each actor; Ray carries it there.
        folder: Where the rows are kept; the same call goes on there.
        settings: All that the rows hang on, as `Store` has them, the samples among it.
        pool: The actors.
        weighting: As in `coe_agents.evaluation.score`.
        size: Questions with a response in a file: a multiple of `BATCH`, so that a model sees the batches that it would
            see on one machine, and says the same to the last bit.
        criterion: The name of the criterion of correctness.
        clusterer: The name of the clusterer.
        on_question: Called for every question, when it is kept.

    Raises:
        ValueError: If `size` is no multiple of `BATCH`, or as `coe_agents.evaluation.score`.
        ConfigurationError: If the folder holds a run with other settings.
        StoreError: If the cluster failed, or a file does not hold its questions once; what came is kept.
    """
    if size < 1 or size % BATCH:
        raise ValueError(f'"size" must be a multiple of {BATCH} in score; got {size}. {4 * BATCH} is one')
    ids: list[list[str]] = []

    def told(number: int) -> None:
        for _ in ids[number]:
            on_question()

    def pending() -> Iterator[Part]:
        for number, part in enumerate(_in_parts(questions, size)):
            ids.append([question.id for question in part])
            path = part_file(folder, number)
            if path.exists():
                _check(path, ids[number])
                told(number)
            else:
                yield number, zlib.compress(json.dumps([asdict(question) for question in part]).encode())

    def kept() -> Iterator[ScoredQuestion]:
        for number in range(len(ids)):
            yield from map(_from_row, rows_of(part_file(folder, number)))

    with run_folder(folder, {**settings, "partition_size": size}, holds=part_file(folder, 0).name):
        for number, content in work_through(pending(), partial(_Scoring, create, weighting), pool):
            _check(BytesIO(content), ids[number])
            write(part_file(folder, number), content)
            told(number)
        return to_scores(kept(), criterion=criterion, clusterer=clusterer, weighting=weighting)


class _Scoring:
    """Scores the questions of a part."""

    def __init__(self, create: Callable[[], Scorer], weighting: Weighting) -> None:
        self._scorer, self._weighting = create(), weighting

    def __call__(self, content: bytes) -> bytes:
        rows = score_each(
            map(_question, json.loads(zlib.decompress(content))),
            clusterer=self._scorer.clusterer,
            weighting=self._weighting,
            criterion=self._scorer.criterion,
            entailment=self._scorer.entailment,
        )
        return to_parquet(map(_to_row, rows), _COLUMNS)


def _in_parts(questions: Iterable[SampledQuestion], size: int) -> Iterator[list[SampledQuestion]]:
    """Cuts behind every so many questions with a response; those without are in no batch."""
    part: list[SampledQuestion] = []
    n_answered = 0
    for question in questions:
        if n_answered == size:
            yield part
            part, n_answered = [], 0
        part.append(question)
        n_answered += bool(question.responses)
    if part:
        yield part


def _question(told: Mapping[str, Any]) -> SampledQuestion:
    responses, failures = (cast("tuple[Sample, ...]", tuple(told[name])) for name in ("responses", "failures"))
    return SampledQuestion(told["id"], told["text"], tuple(told["references"]), responses, failures)


def _to_row(scored: ScoredQuestion) -> dict[str, Any]:
    lists = {"agents": json.dumps(scored.agents), "failures": json.dumps(scored.failures)}
    return {"id": scored.id, "correct": scored.correct, "tied": scored.tied, **scored.scores, **lists}


def _from_row(row: Mapping[str, Any]) -> ScoredQuestion:
    return ScoredQuestion(
        row["id"],
        json.loads(row["failures"]),
        {name: AgentScore(*agent) for name, agent in json.loads(row["agents"]).items()},
        row["correct"],
        row["tied"],
        {name: row[name] for name in ESTIMATORS} if row["correct"] is not None else {},
    )


def _check(file: Path | BytesIO, ids: list[str]) -> None:
    """Refuses a file that does not hold every question once."""
    name = file if isinstance(file, Path) else "a part that came"
    try:
        found = [row["id"] for row in rows_of(file, columns=["id"])]
    except (ValueError, KeyError, OSError) as error:
        raise StoreError(f"{name} is no part of a run: {error}", hint="Remove it; it is made again") from error
    if sorted(found) != sorted(ids):
        raise StoreError(f"{name} does not hold every question once", hint="Remove it; it is made again")
