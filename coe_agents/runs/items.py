"""Owns the items of a run: questions, and chains in which an answer leads to the next question."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets import Question, open_questions
from coe_agents.evaluation.datasets.files import file_records
from coe_agents.evaluation.datasets.loading import is_known, unknown_dataset
from coe_agents.evaluation.datasets.on_disk import DiskSequence
from coe_agents.evaluation.datasets.question import from_plain
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
    """The items of a dataset, each once, on the disk: memory does not grow with them.

    Attributes:
        source: The file, or the dataset's name with its split.
        items: In the order in which a run with the seed asks them, which `sample` would choose questions in.
        n_records: How many records were read.
        is_tinyworld: Whether answers are judged by tinyworld's facts.
    """

    source: str
    items: DiskSequence[RunItem]
    n_records: int
    is_tinyworld: bool = False


def load_items(dataset: str, split: str | None = None, *, seed: int = 0) -> ItemSet:
    """Returns the items of a dataset.

    Args:
        dataset: "tinyworld"; "tinyworld-chains", walks along its periodic table; a JSON Lines file whose records have a
            "chain"; or anything that `open_questions` reads.
        split: Of a dataset; "validation" unless given. A file has none.
        seed: Draws the order.

    Raises:
        ConfigurationError: If there is no such dataset or split.
        DatasetError: If it cannot be read; the message names file and line.
    """
    path = Path(dataset)
    if dataset == _CHAINS:
        source, walks = f"{_CHAINS}, {split or 'validation'}", list(_tinyworld_chains(split or "validation"))
        return ItemSet(source, _on_disk(walks, seed), len(walks), is_tinyworld=True)
    if split is None and _holds_chains(path):
        chains = _on_disk(_chains(path), seed)
        return ItemSet(dataset, chains, len(chains))
    if is_tinyworld := dataset == "tinyworld":
        from coe_agents.tinyworld.questions import tinyworld_questions

        found = tinyworld_questions(split or "validation", seed=seed)
    elif is_known(dataset):
        found = open_questions(dataset, split=split, seed=seed)
    else:
        raise unknown_dataset(dataset, "tinyworld", _CHAINS)
    items = (RunItem(question.id, (question,)) for question in found.questions)
    return ItemSet(found.source, _on_disk(items, seed), found.n_records, is_tinyworld)


def _on_disk(items: Iterable[RunItem], seed: int) -> DiskSequence[RunItem]:
    def refuse(repeated: Sequence[RunItem]) -> RunItem:
        raise DatasetError(f"several chains have the id {repeated[0].id!r}", hint="Give each its own id")

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


def _chains(path: Path) -> Iterator[RunItem]:
    for place, record in file_records(path):
        try:
            yield to_chain(record)
        except MalformedError as error:
            raise DatasetError(f"{place()}: {error}", hint="Correct the record, or remove it") from error


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


def _tinyworld_chains(split: str) -> Iterator[RunItem]:
    """Yields walks that begin at the symbol of each element of a split; the accepted answers are the true walk's."""
    from coe_agents.tinyworld import load_facts, next_element_question
    from coe_agents.tinyworld.questions import tinyworld_questions

    facts = {fact.question: fact for fact in load_facts()}
    for first in tinyworld_questions(split).questions:
        if facts[first.question].relation != "symbol":
            continue
        steps, question = list[Question](), partial(Question, first.id)
        asked: str | None = first.question
        while asked in facts and len(steps) < CHAIN_STEPS:
            steps.append(question(asked, facts[asked].references))
            asked = next_element_question(asked, facts[asked].answer)
        yield RunItem(first.id, tuple(steps), is_chain=True, link="elements")
