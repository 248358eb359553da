"""Owns what experiments are told: whom they ask, and which questions."""

import asyncio
import copy
import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel

from coe_agents.checks import has_method, instance, integer, require, several
from coe_agents.config.schema import Config, load_config
from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets.question import ConflictError, Question
from coe_agents.evaluation.datasets.records import MalformedError, by_our_names, to_question
from coe_agents.evaluation.datasets.sources import QuestionsOnDisk, on_disk
from coe_agents.evaluation.frames import is_frame, plain_rows
from coe_agents.presets import agents_of
from coe_agents.tinyworld.questions import find_questions
from coe_agents.types import Agent, JsonObject

TINYWORLD = "tinyworld"
Models: TypeAlias = "Sequence[str | BaseChatModel | Agent] | str | Path | Config"
"""Names of models, chat models and agents; or a configuration: its file, the object, or "tinyworld"."""
Questions: TypeAlias = "str | Path | Iterable[str | Mapping[str, Any] | Question] | Any"
"""Texts, records with "question" and perhaps "references", a data frame of these, a file, or the name of a dataset."""


def is_configuration(models: object) -> bool:
    """Returns whether a group is a configuration, and not a list of models."""
    is_file = isinstance(models, Path) or str(models).endswith(".toml")
    return is_file or isinstance(models, Config) or is_tinyworld(models)


def is_tinyworld(named: object) -> bool:
    """Returns whether tinyworld is named, as a group or as a dataset."""
    return isinstance(named, str) and named == TINYWORLD


def config_of(models: object) -> Config | None:
    """Returns the configuration that is named or passed; None for tinyworld's group."""
    if isinstance(models, Config):
        return models
    return None if is_tinyworld(models) else load_config(Path(str(models)))


def refuse_beside_configuration(**named: object) -> None:
    """Refuses arguments that a configuration says."""
    for name, value in named.items():
        must = f'"{name}" must be omitted beside a configuration, which says it'
        require(value is None, must, value, "Write it into the file, or pass a list of models")


def members_of(models: Any, *, n_samples: int | None, seed: int) -> list[Agent]:
    """Returns the agents of a list of models, with `n_samples` as `agents_of` has it.

    Agents without a seed of their own take `seed`. The caller's objects stay as they are.
    """
    members: list[Agent] = []
    advice = 'Pass a name such as "openai:gpt-5-mini", a chat model or an agent'
    for agent in agents_of(models, where='"models"', n_samples=n_samples):
        has_method(agent, "sample", 'each of "models"', advice=advice)
        own: Any = copy.copy(agent)
        if getattr(own, "seed", seed) is None:
            own.seed = seed
        members.append(own)
    require(bool(members), '"models" must hold at least one', models, advice)
    return members


def check_at_once(at_once: int | None) -> None:
    """Refuses a number of concurrent questions with which none would be asked."""
    if at_once is not None:
        integer(at_once, '"at_once"', least=1, advice="Omit it for the default")


def open_dataset(
    questions: Questions,
    *,
    split: str | None,
    seed: int,
    limit: int | None,
    columns: Mapping[str, str] | None = None,
) -> tuple[QuestionsOnDisk, JsonObject]:
    """Returns the questions in the order that a seed draws, the first `limit` of them, and what settings record.

    Raises:
        DatasetError: A record holds no question, or two of one id differ.
        TypeError, ValueError: An argument is of the wrong kind, or out of its range.
    """
    integer(seed, '"seed"', advice="0 is the default")
    if limit is not None:
        integer(limit, '"limit"', least=0, advice="Omit it for all questions")
    if columns is not None:
        what = "a mapping from our names to theirs"
        advice = 'Write {"question": "prompt"}'
        instance(columns, Mapping, '"columns"', what=what, advice=advice)
    is_named = isinstance(questions, str | Path)
    if split is not None:
        advice = 'Pass "validation", for example'
        instance(split, str, '"split"', what="the name of a part of a dataset", advice=advice)
        must = (
            '"split" must be omitted beside questions that are passed: a named dataset has splits'
        )
        require(is_named, must, split, "Omit it")
    if is_named:
        found = find_questions(str(questions), split, seed=seed, columns=columns)
    else:
        asked = list(_to_questions(questions, columns or {}))
        try:
            found = QuestionsOnDisk("a list", on_disk(asked, seed=seed))
        except ConflictError as error:
            raise DatasetError(str(error), hint="Give every question an id of its own") from error
        if not asked:
            raise DatasetError("there is no question", hint="Pass at least one")
    chosen = QuestionsOnDisk(found.source, found.questions.first(limit or None))
    return chosen, _describe(found, map(asdict, chosen.questions), limit or 0)


def _to_questions(questions: Any, columns: Mapping[str, str]) -> Iterator[Question]:
    """Yields the questions of texts, records, and questions as they are."""
    for number, record in enumerate(_records(questions)):
        if isinstance(record, Question):
            yield record
            continue
        try:
            _, question = to_question(_to_record(record, columns))
        except MalformedError as error:
            advice = 'Pass texts, or records with "question" and "references"'
            raise DatasetError(f"question {number}: {error}", hint=advice) from error
        yield question


def _to_record(given: Any, columns: Mapping[str, str]) -> Any:
    """Returns a text, or a record, with our names; of an only reference a text will do."""
    if isinstance(given, str):
        given = {"question": given}
    # what is no record is refused with all others
    if not hasattr(given, "keys"):
        return given
    record = by_our_names(dict(given), columns)
    if isinstance(record.get("references"), str):
        record["references"] = [record["references"]]
    return record


def _records(questions: Any) -> Iterable[Any]:
    if is_frame(questions):
        return plain_rows(questions)
    # the keys of one record would be asked as questions
    advice = "Wrap a single question in a list"
    several(questions, '"questions"', of="texts or records", advice=advice, kind=Iterable)
    return list(questions)


def _describe(dataset: QuestionsOnDisk, questions: Iterable[object], limit: int) -> JsonObject:
    """Returns what the settings of a run say about its dataset; `questions` are those chosen.

    The digest is that of a list of JSON, of which one value at a time is in memory.
    """
    digest = hashlib.sha256(b"[")
    separator = ""
    for value in questions:
        digest.update((separator + json.dumps(value)).encode())
        separator = ", "
    digest.update(b"]")
    return {
        "source": dataset.source,
        "n_records": dataset.questions.n_records,
        "n_questions": len(dataset.questions),
        "limit": limit,
        "sha256": digest.hexdigest(),
    }


@contextmanager
def folder_of_result(out: Path | None) -> Iterator[Path]:
    """Gives the folder in which a result is kept: `out`, or a temporary one, which is removed if the block fails."""
    if out is not None:
        yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="coe-agents-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def remove_with(result: object, folder: Path) -> None:
    """Removes a temporary folder once nothing refers to the result in it."""
    weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)


@contextmanager
def note_what_is_missing(missing: Any) -> Iterator[None]:
    """Adds to an interruption, or to a file that cannot be written, a note on what is missing: "3 questions are"."""
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt, OSError) as error:
        error.add_note(f"{missing()} missing")
        raise
