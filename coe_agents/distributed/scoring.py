"""Owns scoring on a cluster: the questions in parts, each a Parquet file with a row for every question."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, cast

from coe_agents._files import write
from coe_agents.distributed.cluster import Part, Pool, work_through
from coe_agents.errors import StoreError
from coe_agents.evaluation import Sample, SampledQuestion, ScoringSetup
from coe_agents.evaluation.samples.folder import run_folder
from coe_agents.evaluation.samples.parquet import part_file, rows_of, to_parquet
from coe_agents.evaluation.scoring.estimators import ESTIMATORS, PROPOSAL_ESTIMATORS, find_estimators
from coe_agents.evaluation.scoring.scored_question import AgentScore, ScoredQuestion, ScoringNames, score_each
from coe_agents.evaluation.scoring.scores import hash_of, to_scores
from coe_agents.evaluation.scoring.statistics import BATCH
from coe_agents.policy import Weighting


def _columns(estimators: Iterable[str]) -> dict[str, str]:
    return {
        "id": "string",
        "correct": "double",
        "tied": "bool",
        **dict.fromkeys(estimators, "double"),
        "agents": "string",  # JSON: entropy, number of responses, whether by probability, by name
        "failures": "string",  # JSON: how many, by name
        "kind": "string",
        "lacks_proposal": "bool",
    }


def score(
    questions: Iterable[SampledQuestion],
    create: Callable[[], ScoringSetup],
    folder: Path,
    settings: Mapping[str, Any],
    pool: Pool,
    *,
    weighting: Weighting,
    size: int = 4 * BATCH,
    criterion: str,
    clusterer: str,
    proposer: str | None = None,
    on_question: Callable[[], None] = lambda: None,
    collect: Callable[[Iterable[ScoredQuestion], ScoringNames], Any] = to_scores,
) -> Any:
    """Scores every question on the cluster that `cluster` joined; the result is that of `coe_agents.evaluation.score`.

    The questions are read one at a time. The rows are kept in `folder`; repeat the call to resume there.

    - `create` is called once in each actor, where it loads the models; Ray sends it there. Estimators that it passes
      beyond the installed ones are ignored.
    - `settings` holds all that the rows depend on, as `Store` has them, the samples among it. `criterion` and
      `clusterer` are names, and `proposer` is that of what `create` returns.
    - `size` is how many questions with a response a file has: a multiple of `BATCH`, so that a model sees the batches
      that it would see on one machine, and returns the same to the last bit.
    - `on_question` is called for every question, when it is kept.
    - `collect` makes the result of the rows: `to_tallies` that of `coe_agents.evaluation.scoring.tally`, with which
      memory grows by some hundred bytes a file.

    Raises:
        ValueError: If `size` is not a multiple of `BATCH`, or as `coe_agents.evaluation.score`.
        ConfigurationError: If the folder holds a run with other settings.
        StoreError: If the cluster failed, or a file does not hold its questions once; finished parts are kept.
    """
    if size < 1 or size % BATCH:
        raise ValueError(f'"size" must be a multiple of {BATCH} in score; got {size}. {4 * BATCH} is one')
    held: list[_Ids] = []

    names = list(find_estimators({}, of_proposal=proposer is not None))
    if installed := sorted(names - ESTIMATORS.keys() - PROPOSAL_ESTIMATORS.keys()):
        settings = {**settings, "estimators": installed}

    def report_part(number: int) -> None:
        for _ in range(held[number].n):
            on_question()

    def iter_pending() -> Iterator[Part]:
        for number, part in enumerate(_in_parts(questions, size)):
            held.append(_Ids.of(question.id for question in part))
            path = part_file(folder, number)
            if path.exists():
                _check(path, held[number])
                report_part(number)
            else:
                yield number, zlib.compress(json.dumps([asdict(question) for question in part]).encode())

    with run_folder(folder, {**settings, "partition_size": size}, holds=part_file(folder, 0).name):
        for number, content in work_through(iter_pending(), partial(_Scoring, create, weighting, names), pool):
            _check(BytesIO(content), held[number])
            write(part_file(folder, number), content)
            report_part(number)
        kept = (_from_row(row, names) for number in range(len(held)) for row in rows_of(part_file(folder, number)))
        return collect(kept, ScoringNames(criterion, clusterer, weighting, tuple(names), proposer))


class _Scoring:
    """Scores the questions of a part."""

    def __init__(self, create: Callable[[], ScoringSetup], weighting: Weighting, names: Sequence[str]) -> None:
        self._setup = replace(create(), weighting=weighting, estimators={})
        self._columns = _columns(names)

    def __call__(self, content: bytes) -> bytes:
        rows = score_each(map(_question, json.loads(zlib.decompress(content))), self._setup)
        return to_parquet(map(_to_row, rows), self._columns)


def _in_parts(questions: Iterable[SampledQuestion], size: int) -> Iterator[list[SampledQuestion]]:
    """Cuts after each `size` questions with a response; those without are in no batch."""
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


def _question(record: Mapping[str, Any]) -> SampledQuestion:
    responses, failures = (cast("tuple[Sample, ...]", tuple(record[name])) for name in ("responses", "failures"))
    return SampledQuestion(record["id"], record["text"], tuple(record["references"]), responses, failures)


def _to_row(scored: ScoredQuestion) -> dict[str, Any]:
    lists = {"agents": json.dumps(scored.agents), "failures": json.dumps(scored.failures)}
    judged = {"correct": scored.correct, "tied": scored.tied, "kind": scored.kind}
    return {"id": scored.id, **judged, "lacks_proposal": scored.lacks_proposal, **scored.scores, **lists}


def _from_row(row: Mapping[str, Any], names: Iterable[str]) -> ScoredQuestion:
    return ScoredQuestion(
        row["id"],
        json.loads(row["failures"]),
        {name: AgentScore(*agent) for name, agent in json.loads(row["agents"]).items()},
        row["correct"],
        row["tied"],
        {name: row[name] for name in names} if row["correct"] is not None else {},
        row["kind"],
        row["lacks_proposal"],
    )


class _Ids(NamedTuple):
    """How many questions a part has, and a digest of their sorted ids."""

    n: int
    digest: bytes

    @classmethod
    def of(cls, ids: Iterable[str]) -> "_Ids":
        """Returns the same for the same ids in any order."""
        known = sorted(ids)
        return cls(len(known), hash_of(json.dumps(known)))


def _check(file: Path | BytesIO, ids: _Ids) -> None:
    """Refuses a file that does not hold every question once."""
    name = file if isinstance(file, Path) else "a received part"
    try:
        found = _Ids.of(row["id"] for row in rows_of(file, columns=["id"]))
    except (ValueError, KeyError, OSError) as error:
        raise StoreError(f"{name} is not a part of a run: {error}", hint="Remove it; it is made again") from error
    if found != ids:
        raise StoreError(f"{name} does not hold every question once", hint="Remove it; it is made again")
