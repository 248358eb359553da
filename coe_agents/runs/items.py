"""Owns the items of a run: questions, and chains in which an answer leads to the next question."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets import Question, load_questions, open_questions, subset
from coe_agents.evaluation.datasets.files import file_records
from coe_agents.evaluation.datasets.loading import is_known, unknown_dataset
from coe_agents.evaluation.datasets.on_disk import DiskSequence
from coe_agents.evaluation.datasets.question import ConflictError, Place, from_plain
from coe_agents.evaluation.datasets.records import MalformedError, to_question
from coe_agents.evaluation.datasets.subsets import draw_key

ANSWER = "{answer}"
"""What stands in a chain's question for the answer to the question before it."""
CHAIN_STEPS = 4
"""How many questions a chain of tinyworld has."""
_CHAINS = "tinyworld-chains"

Link = Literal["template", "elements"]


@dataclass(frozen=True, slots=True)
class RunItem:
    """One question, or a chain of dependent ones.

    Attributes:
        id: Of the item; each step's question has it, too.
        steps: The questions in order, with what they accept; the question of a later step may hold `ANSWER`.
        is_chain: Whether it is a chain, also one of a single step.
        link: How the next question arises: "template" fills the answer into the step's question; "elements" walks along
            tinyworld's periodic table.
    """

    id: str
    steps: tuple[Question, ...]
    is_chain: bool = False
    link: Link = "template"

    def next_question(self, number: int, question: str, answer: str) -> str | None:
        """Returns the question after step `number`, whose `question` was given the `answer`; None at the end.

        Example:
            >>> steps = (Question("1", "Capital of France?", ("Paris",)), Question("1", "Where is {answer}?", ()))
            >>> RunItem("1", steps, is_chain=True).next_question(0, "Capital of France?", "Lyon")
            'Where is Lyon?'
        """
        if number + 1 >= len(self.steps):
            return None
        if self.link == "elements":
            from coe_agents.tinyworld import next_element_question

            return next_element_question(question, answer)
        return self.steps[number + 1].question.replace(ANSWER, answer.strip())


@dataclass(frozen=True, slots=True)
class ItemSet:
    """The items of a dataset, each once.

    Attributes:
        source: The file, or the dataset's name with its split.
        items: In the order of the dataset, or of `choose`.
        n_records: How many records were read.
        is_tinyworld: Whether answers are judged by tinyworld's facts.
    """

    source: str
    items: tuple[RunItem, ...]
    n_records: int
    is_tinyworld: bool = False

    def choose(self, limit: int | None, *, seed: int) -> list[RunItem]:
        """Returns `limit` items (all for None), chosen as `sample` chooses questions."""
        by_id = {item.id: item for item in self.items}
        return [by_id[chosen.id] for chosen in subset([item.steps[0] for item in self.items], limit, seed=seed)]


@dataclass(frozen=True, slots=True)
class ItemsOnDisk:
    """What `ItemSet` is, with its items on the disk, in the order of `choose` with one seed."""

    source: str
    items: DiskSequence[RunItem]
    n_records: int
    is_tinyworld: bool = False


def load_items(dataset: str, split: str | None = None) -> ItemSet:
    """Returns the items of a dataset.

    Args:
        dataset: "tinyworld"; "tinyworld-chains", walks along its periodic table; a JSON Lines file whose records have a
            "chain"; or anything that `load_questions` reads.
        split: Of a dataset; "validation" unless given. A file has none.

    Raises:
        ConfigurationError: If there is no such dataset or split.
        DatasetError: If it cannot be read; the message names file and line.
    """
    if dataset == "tinyworld":
        from coe_agents.tinyworld.questions import tinyworld_questions

        found = tinyworld_questions(split or "validation")
    elif dataset == _CHAINS:
        return _tinyworld_chains(split or "validation")
    elif split is None and _holds_chains(Path(dataset)):
        return _load_chains(Path(dataset))
    else:
        _check_known(dataset)
        found = load_questions(dataset, split=split)
    items = tuple(RunItem(question.id, (question,)) for question in found.questions)
    return ItemSet(found.source, items, found.n_records, is_tinyworld=dataset == "tinyworld")


def open_items(dataset: str, split: str | None = None, *, seed: int) -> ItemsOnDisk:
    """Returns what `load_items` does, on the disk; so memory does not grow with the dataset.

    Raises:
        ConfigurationError: As `load_items`.
        DatasetError: As `load_items`.
    """
    if dataset in ("tinyworld", _CHAINS):
        found = load_items(dataset, split)
        return ItemsOnDisk(found.source, _on_disk(found.items, seed), found.n_records, found.is_tinyworld)
    if split is not None or not _holds_chains(Path(dataset)):
        _check_known(dataset)
        questions = open_questions(dataset, split=split, seed=seed)
        items = (RunItem(question.id, (question,)) for question in questions.questions)
        return ItemsOnDisk(questions.source, _on_disk(items, seed), questions.n_records)
    try:
        chains = _on_disk((item for _, item in _chains(Path(dataset))), seed)
    except ConflictError:
        _load_chains(Path(dataset))  # says where
        raise
    return ItemsOnDisk(dataset, chains, len(chains))


def _check_known(dataset: str) -> None:
    if not is_known(dataset):
        raise unknown_dataset(dataset, "tinyworld", _CHAINS)


def _on_disk(items: Iterable[RunItem], seed: int) -> DiskSequence[RunItem]:
    def refuse(repeated: Sequence[RunItem]) -> RunItem:
        raise ConflictError(f"items must have an id of their own; got {repeated[0].id!r} twice")

    return DiskSequence(
        items,
        key=lambda item: draw_key("asked", seed, item.id),
        encode=lambda item: json.dumps(asdict(item)),
        decode=lambda text: item_from_plain(json.loads(text)),
        merge=refuse,
    )


def item_from_plain(plain: Mapping[str, Any]) -> RunItem:
    """Returns the item of which `dataclasses.asdict` made a value of JSON."""
    return RunItem(**{**plain, "steps": tuple(map(from_plain, plain["steps"]))})


def _holds_chains(path: Path) -> bool:
    if not path.is_file() or Path(path.name.removesuffix(".gz")).suffix != ".jsonl":
        return False
    _, first = next(file_records(path), (None, None))
    return isinstance(first, Mapping) and "chain" in first


def _chains(path: Path) -> Iterator[tuple[Place, RunItem]]:
    for place, record in file_records(path):
        try:
            yield place, to_chain(record)
        except MalformedError as error:
            raise DatasetError(f"{place()}: {error}", hint="Correct the record, or remove it") from error


def _load_chains(path: Path) -> ItemSet:
    items: dict[str, RunItem] = {}
    for place, item in _chains(path):
        if item.id in items:
            raise DatasetError(f"{place()}: another chain has the id {item.id!r} already", hint="Give each its own id")
        items[item.id] = item
    return ItemSet(str(path), tuple(items.values()), len(items))


def to_chain(record: object) -> RunItem:
    """Returns the chain that a record holds: {"id": ..., "chain": [{"question": ..., "references": [...]}, ...]}.

    Raises:
        MalformedError: If a field is missing or of a wrong type, the first question holds `ANSWER`, or a later one does
            not.

    Example:
        >>> steps = [{"question": "Capital of France?", "references": ["Paris"]},
        ...          {"question": "Where is {answer}?", "references": ["Europe"]}]
        >>> len(to_chain({"id": "1", "chain": steps}).steps)
        2
    """
    steps = record.get("chain") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not isinstance(steps, list) or not steps:
        raise MalformedError('"chain" must be a list of at least one question')
    name = record.get("id")
    if not isinstance(name, str) or not name.strip():
        raise MalformedError('"id" must be a string that is not empty')
    questions = tuple(_steps_of(name, steps))
    if ANSWER in questions[0].question:
        raise MalformedError(f"question 1 of the chain must not hold {ANSWER}, since no answer comes before it")
    for number, question in enumerate(questions[1:], start=2):
        if ANSWER not in question.question:
            raise MalformedError(f"question {number} of the chain must hold {ANSWER}, the answer before it")
    return RunItem(name, questions, is_chain=True)


def _steps_of(id: str, steps: Sequence[Any]) -> Iterator[Question]:
    for step in steps:
        if not isinstance(step, Mapping):
            raise MalformedError('each question of the chain must be an object with "question" and "references"')
        kind, question = to_question({**step, "id": id})
        if kind != "questions":
            raise MalformedError('each question of the chain must have the fields "question" and "references"')
        yield question


def _tinyworld_chains(split: str) -> ItemSet:
    """Returns walks that begin at the symbol of each element of a split; the accepted answers are the true walk's."""
    from coe_agents.tinyworld import load_facts, next_element_question
    from coe_agents.tinyworld.questions import tinyworld_questions

    facts = {fact.question: fact for fact in load_facts()}
    found, items = tinyworld_questions(split), list[RunItem]()
    for first in found.questions:
        if facts[first.question].relation != "symbol":
            continue
        steps, question = list[Question](), partial(Question, first.id)
        asked: str | None = first.question
        while asked in facts and len(steps) < CHAIN_STEPS:
            steps.append(question(asked, facts[asked].references))
            asked = next_element_question(asked, facts[asked].answer)
        items.append(RunItem(first.id, tuple(steps), is_chain=True, link="elements"))
    return ItemSet(f"{_CHAINS}, {split}", tuple(items), len(items), is_tinyworld=True)
