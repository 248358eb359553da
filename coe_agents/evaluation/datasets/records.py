"""Owns the records of files: reading them, each with its place, and the step from their fields to a question."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coe_agents.actions.schemas import find_parameters
from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets.question import Kind, Question, without_repeats
from coe_agents.files import parse_json

_Record = Mapping[str, Any]


class MalformedError(ValueError):
    """A record that is not a question; the caller adds its place."""


def to_question(record: object) -> tuple[Kind, Question]:
    """Returns the question that a record holds, and whose fields it has, else a MalformedError.

    | kind | fields |
    |---|---|
    | triviaqa, official | QuestionId, Question, Answer {Value, Aliases, NormalizedAliases, HumanAnswers} |
    | triviaqa, on the hub | question_id, question, answer {value, aliases, normalized_aliases} |
    | squad | id, question, context, answers: a list of {text} or {text: list}, is_impossible |
    | nq_open | question, answer: a list |
    | truthfulqa | question, best_answer, correct_answers |
    | questions | question, references (or gold), and perhaps id, context, answerable (or impossible), tools |
    """
    if not isinstance(record, Mapping):
        raise MalformedError(f"it must be a JSON object; got {_show(record)}")
    if "QuestionId" in record or "question_id" in record:
        return "triviaqa", _trivia_qa(_rename(record))
    if "answers" in record or "is_impossible" in record:
        return "squad", _squad(record)
    if "best_answer" in record:
        question, best = _text(record, "question"), _text(record, "best_answer")
        references = _references([best, *_texts(record, "correct_answers")])
        return "truthfulqa", Question(_id({}, question), question, references)
    if "answer" in record and "references" not in record:
        question = _text(record, "question")
        return "nq_open", _with_answer(
            Question(_id(record, question), question, _references(_texts(record, "answer")))
        )
    return "questions", _plain(record)


def _rename(record: _Record) -> _Record:
    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): value for name, value in record.items()
    }


def _trivia_qa(record: _Record) -> Question:
    answer = (
        _rename(record["answer"])
        if isinstance(record.get("answer"), Mapping)
        else {"value": "<unk>"}
    )
    if answer.get("value") == "<unk>":
        raise MalformedError(
            "it has no answer. The test split is published without; take the validation split"
        )
    # the official script compares with the normalised ones, in which a hyphen is a blank
    accepted = [
        _texts(answer, name)
        for name in ("aliases", "normalized_aliases", "human_answers")
        if name in answer
    ]
    references = _references(
        [_text(answer, "value"), *(text for texts in accepted for text in texts)]
    )
    return Question(_text(record, "question_id"), _text(record, "question"), references)


def _squad(record: _Record) -> Question:
    answers = record.get("answers")
    if isinstance(answers, Mapping):
        texts = _texts(answers, "text")
    elif isinstance(answers, list) and all(isinstance(answer, Mapping) for answer in answers):
        texts = [_text(answer, "text") for answer in answers]
    else:
        raise MalformedError(
            f'"answers" must be a list of {{"text": ...}} or {{"text": [...]}}; got {_show(answers)}'
        )
    # on the hub version 2.0 has no such field, and an unanswerable question simply no answer
    impossible = _flag(record, "is_impossible", default=isinstance(answers, Mapping) and not texts)
    if impossible and texts:
        raise MalformedError('"is_impossible" is true, but "answers" is not empty')
    question = _text(record, "question")
    found = Question(
        _id(record, question),
        question,
        _references(texts),
        _text(record, "context"),
        not impossible,
    )
    return found if impossible else _with_answer(found)


def _plain(record: _Record) -> Question:
    question = _text(record, "question")
    name = "gold" if "gold" in record and "references" not in record else "references"
    if name not in record:
        raise MalformedError('"references" is missing. Add it: a list, [] where no answer is known')
    answerable = _flag(record, "answerable", default=not _flag(record, "impossible", default=False))
    context = None if record.get("context") is None else _text(record, "context")
    identity = _id(record, question + (context or ""))
    return Question(
        identity, question, _references(_texts(record, name)), context, answerable, _tools(record)
    )


def _tools(record: _Record) -> list[dict[str, Any]] | None:
    given = record.get("tools")
    if given is None:
        return None
    if (
        not isinstance(given, list)
        or not given
        or not all(isinstance(tool, dict) for tool in given)
    ):
        raise MalformedError(
            f'"tools" must be a list of JSON schemas, at least one; got {_show(given)}'
        )
    try:
        names = find_parameters(given)
    except (TypeError, AttributeError) as error:
        raise MalformedError(f'"tools" must hold schemas with a name; {error}') from error
    if len(names) < len(given):
        raise MalformedError(
            f'the names in "tools" must differ; got {", ".join(names)} for {len(given)} tools'
        )
    return given


def _id(record: _Record, text: str) -> str:
    """Returns the record's id, or one that is the same wherever the same text occurs."""
    given = record.get("id")
    if given is None:
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return (
        str(given)
        if isinstance(given, int) and not isinstance(given, bool)
        else _text(record, "id")
    )


def _with_answer(question: Question) -> Question:
    if not question.references:
        raise MalformedError("it has no answer")
    return question


def _references(texts: list[str]) -> tuple[str, ...]:
    return without_repeats(text for text in texts if text.strip())


def _text(record: _Record, name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise MalformedError(f'"{name}" must be a string that is not empty; got {_show(value)}')
    return value


def _texts(record: _Record, name: str) -> list[str]:
    value = record.get(name)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise MalformedError(f'"{name}" must be a list of strings; got {_show(value)}')
    return value


def _flag(record: _Record, name: str, *, default: bool) -> bool:
    value = record.get(name, default)
    if not isinstance(value, bool):
        raise MalformedError(f'"{name}" must be true or false; got {_show(value)}')
    return value


def _show(value: object) -> str:
    return "nothing" if value is None else repr(value)[:80]


def file_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the records of a `.jsonl` or `.json` file, compressed or not, and the place of each.

    A `.jsonl` file is read line by line. A `.json` file is a list of records, or a document as TriviaQA ("Data") or
    SQuAD ("data") publish theirs.
    """
    readers = {".jsonl": _lines, ".json": _document}
    reader = readers.get(Path(path.name.removesuffix(".gz")).suffix)
    if reader is None:
        raise DatasetError(
            f"{path} is not one of {', '.join(readers)}", hint="Give it the suffix of its format"
        )
    yield from reader(path)


def _chunks(path: Path, *, lines: bool = False) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield from file if lines else [file.read()]
    except (OSError, EOFError, zlib.error) as error:
        hint = "Check the path, and that the file is complete"
        raise DatasetError(f"{path} cannot be read: {error}", hint=hint) from error


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_chunks(path, lines=True), start=1):
        if line.strip():
            yield f"{path}:{number}", _parse(path, line, number)


def _document(path: Path) -> Iterator[tuple[str, Any]]:
    (content,) = _chunks(path)
    document = _parse(path, content)

    def place(*location: str | int) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
        return ": ".join([str(path), *filter(None, ["".join(steps).lstrip(".")])])

    def inside(value: Any, kind: type, *location: str | int) -> Any:
        *outer, name = location
        if not isinstance(value, dict) or name not in value:
            hint = "Check that the file is as it was published"
            raise DatasetError(f'{place(*outer)}: "{name}" is missing', hint=hint)
        if not isinstance(value[name], kind):
            raise DatasetError(
                f'{place(*location)}: "{name}" must be a list',
                hint="Check that the file is complete",
            )
        return value[name]

    if isinstance(document, list):
        for number, record in enumerate(document):
            yield place(number), record
    elif isinstance(document, dict) and "Data" in document:
        for number, record in enumerate(inside(document, list, "Data")):
            yield place("Data", number), record
    else:
        for number, article in enumerate(inside(document, list, "data")):
            above = ("data", number, "paragraphs")
            for n_paragraph, paragraph in enumerate(inside(article, list, *above)):
                at = (*above, n_paragraph)
                context = inside(paragraph, object, *at, "context")
                for n_record, record in enumerate(inside(paragraph, list, *at, "qas")):
                    held = {**record, "context": context} if isinstance(record, dict) else record
                    yield place(*at, "qas", n_record), held


def _parse(path: Path, content: bytes, line: int = 1) -> Any:
    try:
        return parse_json(content.decode("utf-8-sig"))
    except ValueError as error:
        at = line + getattr(error, "lineno", 1) - 1
        raise DatasetError(
            f"{path}:{at}: this is not JSON: {error}", hint="Check that the file is complete"
        ) from error
