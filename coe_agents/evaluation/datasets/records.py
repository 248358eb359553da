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
        question = _text(record, "question")
        accepted = [_text(record, "best_answer"), *_texts(record, "correct_answers")]
        return "truthfulqa", Question(_id({}, question), question, _references(accepted))
    if "answer" in record and "references" not in record:
        question = _text(record, "question")
        references = _references(_texts(record, "answer"))
        _check_has_answer(references)
        return "nq_open", Question(_id(record, question), question, references)
    return "questions", _plain(record)


def _rename(record: _Record) -> _Record:
    """Returns the record with `questionId` and `QuestionId` as `question_id`."""
    renamed = {}
    for name, value in record.items():
        renamed[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()] = value
    return renamed


def _trivia_qa(record: _Record) -> Question:
    published = record.get("answer")
    answer = _rename(published) if isinstance(published, Mapping) else {"value": "<unk>"}
    if answer.get("value") == "<unk>":
        raise MalformedError(
            "it has no answer. The test split is published without; take the validation split"
        )

    accepted = [_text(answer, "value")]
    # the official script compares with the normalised ones, in which a hyphen is a blank
    for name in ("aliases", "normalized_aliases", "human_answers"):
        if name in answer:
            accepted += _texts(answer, name)
    identity = _text(record, "question_id")
    return Question(identity, _text(record, "question"), _references(accepted))


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
    references = _references(texts)
    question = _text(record, "question")
    identity = _id(record, question)
    context = _text(record, "context")
    if not impossible:
        _check_has_answer(references)
    return Question(identity, question, references, context, answerable=not impossible)


def _plain(record: _Record) -> Question:
    question = _text(record, "question")
    name = "gold" if "gold" in record and "references" not in record else "references"
    if name not in record:
        raise MalformedError('"references" is missing. Add it: a list, [] where no answer is known')
    impossible = _flag(record, "impossible", default=False)
    answerable = _flag(record, "answerable", default=not impossible)
    context = None
    if record.get("context") is not None:
        context = _text(record, "context")
    identity = _id(record, question + (context or ""))
    references = _references(_texts(record, name))
    return Question(identity, question, references, context, answerable, _tools(record))


def _tools(record: _Record) -> list[dict[str, Any]] | None:
    tools = record.get("tools")
    if tools is None:
        return None
    is_list = isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
    if not tools or not is_list:
        raise MalformedError(
            f'"tools" must be a list of JSON schemas, at least one; got {_show(tools)}'
        )

    schemas: list[dict[str, Any]] = tools
    try:
        names = find_parameters(schemas)
    except (TypeError, AttributeError) as error:
        raise MalformedError(f'"tools" must hold schemas with a name; {error}') from error
    if len(names) < len(schemas):
        raise MalformedError(
            f'the names in "tools" must differ; got {", ".join(names)} for {len(schemas)} tools'
        )
    return schemas


def _id(record: _Record, text: str) -> str:
    """Returns the record's id, or one that is the same wherever the same text occurs."""
    identity = record.get("id")
    if identity is None:
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    if isinstance(identity, int) and not isinstance(identity, bool):
        return str(identity)
    return _text(record, "id")


def _check_has_answer(references: tuple[str, ...]) -> None:
    if not references:
        raise MalformedError("it has no answer")


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
    file = f"{path}: "

    if isinstance(document, list):
        for number, record in enumerate(document):
            yield f"{file}[{number}]", record
    elif isinstance(document, dict) and "Data" in document:
        for number, record in enumerate(_list_in(document, file, "Data")):
            yield f"{file}Data[{number}]", record
    else:
        for number, article in enumerate(_list_in(document, file, "data")):
            yield from _paragraphs(article, f"{file}data[{number}].")


def _paragraphs(article: Any, place: str) -> Iterator[tuple[str, Any]]:
    for n_paragraph, paragraph in enumerate(_list_in(article, place, "paragraphs")):
        inside = f"{place}paragraphs[{n_paragraph}]."
        context = _value_in(paragraph, inside, "context")
        for n_record, record in enumerate(_list_in(paragraph, inside, "qas")):
            if isinstance(record, dict):
                record["context"] = context
            yield f"{inside}qas[{n_record}]", record


def _value_in(value: Any, place: str, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        hint = "Check that the file is as it was published"
        raise DatasetError(f'{place.rstrip(".: ")}: "{name}" is missing', hint=hint)
    return value[name]


def _list_in(value: Any, place: str, name: str) -> list[Any]:
    items = _value_in(value, place, name)
    if not isinstance(items, list):
        hint = "Check that the file is complete"
        raise DatasetError(f'{place}{name}: "{name}" must be a list', hint=hint)
    return items


def _parse(path: Path, content: bytes, line: int = 1) -> Any:
    try:
        return parse_json(content.decode("utf-8-sig"))
    except ValueError as error:
        at = line + getattr(error, "lineno", 1) - 1
        raise DatasetError(
            f"{path}:{at}: this is not JSON: {error}", hint="Check that the file is complete"
        ) from error
