"""Owns sampling on a cluster: the questions in parts, each a Parquet file with all agents' responses."""

import asyncio
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

from coe_agents.checks import integer
from coe_agents.errors import StoreError
from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.datasets.question import from_plain
from coe_agents.evaluation.sample_collection import Participant, SampledGroup, to_failure, units_of
from coe_agents.evaluation.sample_collection import sample as sample_all
from coe_agents.evaluation.samples.folder import run_folder
from coe_agents.evaluation.samples.parquet import PARTS, SAMPLE_COLUMNS, part_file, rows_of, to_parquet
from coe_agents.evaluation.samples.store import Unit, is_failure, is_whole
from coe_agents.experiments.ray_cluster import Part, Pool, pack, unpack, work_through
from coe_agents.files import write

Rows = Sequence[Mapping[str, Any]]


class SampleParts:
    """The samples of one run, in one file for each `size` questions; use it as a context manager.

    A file holds every unit of its questions, once: its responses, or a failure, which is asked again. `settings` are as
    in `Store`. `questions` are read part by part, each time they are needed, so they may be on the disk: memory holds
    one byte a part. `numbers` names what samples have beyond the fields of all; each is a number or null.

    Attributes:
        path: The folder of the files.
        agents: Those that are asked.
        n_missing: How many units each agent lacks.

    Raises:
        ValueError: If `size` is below 1.
        ConfigurationError: On entering, if the folder holds a run with other settings; the message says which.
        StoreError: On entering, if another process writes there, or a file is not as this run wrote it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        questions: Sequence[Question],
        agents: Sequence[Participant],
        *,
        size: int,
        numbers: Sequence[str] = (),
    ) -> None:
        integer(size, '"size" of SampleParts', least=1, advice="100 is the default of the command")
        self.path = folder / PARTS
        self.n_missing: Counter[str] = Counter()
        self._folder = folder
        self._settings = {**settings, "partition_size": size}
        self._questions = questions
        self._size = size
        self.agents = agents
        self._columns = {**SAMPLE_COLUMNS, **dict.fromkeys(numbers, "double")}
        self._is_finished = bytearray(-(-len(questions) // size))
        """Whether each part is complete, or kept by this run."""

    def __enter__(self) -> "SampleParts":
        with ExitStack() as stack:
            stack.enter_context(run_folder(self._folder, self._settings, holds=PARTS))
            self.path.mkdir(exist_ok=True)
            self.n_missing.clear()
            for number in range(len(self._is_finished)):
                missing = self._missing(number)
                self._is_finished[number] = not missing
                self.n_missing.update(agent for _, agent in missing)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def n_unfinished(self) -> int:
        """How many files are missing, or hold a failure that is asked again."""
        return self._is_finished.count(0)

    def to_ask(self, prompt: Callable[[Question], str]) -> Iterator[Part]:
        """Yields, for each part that is not complete, what an actor needs to know; each when it is asked for.

        `prompt` returns the prompt of a question.
        """
        for number in (number for number, is_finished in enumerate(self._is_finished) if not is_finished):
            path, questions = self._file(number), self._part(number)
            request = {
                "questions": [asdict(question) for question in questions],
                "prompts": {question.id: prompt(question) for question in questions},
                # the actor reads it, since it may be on another machine, and the driver has all parts to look after
                "file": b64encode(path.read_bytes()).decode() if path.exists() else None,
                "columns": self._columns,
            }
            yield number, pack(request)

    def keep(self, number: int, content: bytes) -> dict[Unit, str | None]:
        """Writes a part to disk before it returns. Returns what was missing of it, with the reason where it failed.

        Raises:
            StoreError: If it does not hold every unit once.
            OSError: If it cannot be written.
        """
        failures = self._failures(BytesIO(content), self._units(number))
        missing = self._missing(number)
        write(self._file(number), content)
        self._is_finished[number] = True
        self.n_missing.subtract(agent for _, agent in missing)
        return {unit: failures.get(unit) for unit in missing}

    def _file(self, number: int) -> Path:
        return part_file(self.path, number)

    def _part(self, number: int) -> Sequence[Question]:
        return self._questions[number * self._size : (number + 1) * self._size]

    def _units(self, number: int) -> dict[Unit, int]:
        return units_of(self._part(number), self.agents)

    def _missing(self, number: int) -> list[Unit]:
        units, path = self._units(number), self._file(number)
        return list(self._failures(path, units) if path.exists() else units)

    def _failures(self, file: Path | BytesIO, units: Mapping[Unit, int]) -> dict[Unit, str]:
        name = file if isinstance(file, Path) else "a received part"
        try:
            grouped = list(_by_unit(rows_of(file, columns=["id", "agent", "error", "tools"])))
        except (ValueError, KeyError, OSError) as error:
            raise StoreError(f"{name} is not a part of a run: {error}", hint="Remove it; it is asked again") from error
        if [unit for unit, _ in grouped] != list(units) or not all(is_whole(units[u], group) for u, group in grouped):
            raise StoreError(f"{name} does not hold every reply once", hint="Remove it; it is asked again")
        return {unit: group[-1]["error"] for unit, group in grouped if is_failure(group[-1])}


def _by_unit(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Unit, list[dict[str, Any]]]]:
    for unit, group in groupby(rows, key=lambda row: (row["id"], row["agent"])):
        yield unit, list(group)


def sample(
    parts: SampleParts,
    prompt: Callable[[Question], str],
    create: Callable[[Mapping[str, str]], SampledGroup],
    pool: Pool,
    *,
    on_unit: Callable[[Unit, str | None], None] = lambda unit, error: None,
) -> None:
    """Asks every agent what is missing, on the cluster that `cluster` joined.

    `prompt` returns the prompt of a question; it is called when the question's part is sent, so that no more prompts
    are in memory, here and in Ray's object store, than those of the parts in hand: one for each actor, and one.
    `create` makes the agents in each actor, from the prompts of the part it has, by question id; Ray carries it there,
    so it holds no key. The actors ask at the same time, each of them `at_once` questions. `on_unit` is called for what
    a part adds, when it is kept, with the reason where it failed. Of a part that no actor finished, what is missing has
    failed.

    Raises:
        StoreError: If the cluster failed, or an actor returned something else than its part; finished parts are kept.
        ConfigurationError: If an actor cannot make the agents, such as without a key in its environment.
        TypeError: If `create` cannot be sent to an actor.
        OSError: If a file cannot be written.
    """
    give_up = partial(fail_part, parts.agents)
    for number, content in work_through(parts.to_ask(prompt), partial(_Asking, create), pool, give_up):
        for unit, error in parts.keep(number, content).items():
            on_unit(unit, error)


class _Asking:
    def __init__(
        self, create: Callable[[Mapping[str, str]], SampledGroup], *, runner: asyncio.Runner | None = None
    ) -> None:
        self._prompts: dict[str, str] = {}
        self._group = create(self._prompts)
        self._runner = runner or asyncio.Runner()  # one event loop for all parts: clients are bound to theirs

    def __call__(self, content: bytes) -> bytes:
        part = _Part(content, self._group.participants)
        self._prompts.clear()
        self._prompts.update(part.prompts)
        self._runner.run(sample_all(part.questions, self._group, part))
        return part.to_file()


def fail_part(agents: Sequence[Participant], content: bytes, reason: str) -> bytes:
    """Returns a part in which all that was missing failed for this reason."""
    part = _Part(content, agents)
    questions = {question.id: question for question in part.questions}
    for name, agent in part.pending_units():
        part.append((name, agent), [to_failure(agent, questions[name], reason)])
    return part.to_file()


class _Part:
    """A part that `to_ask` made, with its units in memory; for the runner it is a store."""

    def __init__(self, content: bytes, agents: Sequence[Participant]) -> None:
        request = unpack(content)
        self.questions = list(map(from_plain, request["questions"]))
        self.prompts: dict[str, str] = request["prompts"]
        self._columns: dict[str, str] = request["columns"]
        self._units = units_of(self.questions, agents)
        rows = [] if request["file"] is None else rows_of(BytesIO(b64decode(request["file"])))
        self._rows: dict[Unit, Rows] = {unit: group for unit, group in _by_unit(rows) if not is_failure(group[-1])}

    def pending_units(self) -> list[Unit]:
        return [unit for unit in self._units if unit not in self._rows]

    def append(self, unit: Unit, rows: Rows) -> None:
        self._rows[unit] = rows

    def finish(self) -> None:
        pass

    def to_file(self) -> bytes:
        return to_parquet((row for unit in self._units for row in self._rows[unit]), self._columns)
