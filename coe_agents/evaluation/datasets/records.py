"""Owns the records of files: reading them, each with its place, and the step from their fields to a question."""

import ast
import hashlib
import re
import string
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from coe_agents.actions.schemas import find_parameters
from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets.question import Kind, Question, without_repeats
from coe_agents.evaluation.tables import (
    RecordFile,
    find_form,
    is_one_line,
    open_packed,
    read_records,
)
from coe_agents.files import parse_json
from coe_agents.types import Fields, JsonObject

REFERENCE_NAMES = ("references", "gold", "reference", "target")
"""What files call the accepted answers."""
_WITHOUT_ANSWER = {"id", "_id", "question", "context", "tools"}
"""The fields of a question that is asked, and whose answer nobody knows."""
_PAGE = "docs/your_own_files.md"
PlacedRecord: TypeAlias = tuple[str, Any]
"""Where a record stands, and the record."""
_MOST_DIGITS = 10
"""A number with as many digits names no choice; Python refuses to read thousands of them."""


def by_our_names(record: Any, columns: Mapping[str, str]) -> Any:
    """Returns a record whose fields have our names; `columns` has, by these, what the record calls them.

    What is called "references" may be one text.

    Raises:
        MalformedError: A named field is missing.
    """
    if not columns or not isinstance(record, dict):
        return record
    theirs = set(columns.values())
    missing = sorted(theirs.difference(record))
    if missing:
        has = ", ".join(map(str, record))[:300]
        raise MalformedError(f'"{missing[0]}", which "columns" names, is missing; it has {has}')
    renamed = {name: value for name, value in record.items() if name not in theirs}
    renamed |= {ours: record[name] for ours, name in columns.items()}
    if "references" in columns:
        renamed["references"] = texts_of(renamed["references"])
    return renamed


def texts_of(value: Any) -> list[Any]:
    """Returns one text, or a list, as a list; a cell may hold a list of texts as JSON, or as Python prints it.

    A number is its text. A value of another kind stays, for the caller to refuse.

    Example:
        >>> texts_of("Paris"), texts_of(18), texts_of('["Paris", "paname"]'), texts_of("[0, 1]")
        (['Paris'], ['18'], ['Paris', 'paname'], ['[0, 1]'])
    """
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            written = ast.literal_eval(value)
            if _is_list_of(written, str):
                return written
    if isinstance(value, list | tuple):
        return [text for item in value for text in texts_of(item)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [str(value) if is_number else value]


def solution_of(text: str) -> str:
    r"""Returns what stands behind the last "####", as in GSM8K; else the text.

    Example:
        >>> solution_of("2 and 2 are 4.\n#### 4")
        '4'
    """
    return text.rpartition("####")[2].strip() if "####" in text else text


class MalformedError(ValueError):
    """A record that is not a question; the caller adds its place."""


def to_question(record: object) -> tuple[Kind, Question]:
    """Returns the question that a record holds, and whose fields it has, else a MalformedError.

    | kind | fields |
    |---|---|
    | triviaqa, official | QuestionId, Question, Answer {Value, Aliases, NormalizedAliases, HumanAnswers} |
    | triviaqa, on the hub | question_id, question, answer {value, aliases, normalized_aliases} |
    | squad | id, question, context, answers: a list of {text} or {text: list}, is_impossible |
    | mmlu | question, choices (or options), answer: the number or the letter of the right one |
    | natural_questions | question {text}, annotations {short_answers, yes_no_answer} |
    | nq_open, gsm8k, hotpotqa | question, answer: a text or a list; behind "####" if that is there |
    | truthfulqa | question, best_answer, correct_answers |
    | questions | question, references (or gold, reference, target, answers), perhaps id, context, answerable, tools |

    A record of the last kind needs no references where it has no other field than "id", "question", "context" and
    "tools": with another one, its answer may have a name that is not known here.
    """
    if not isinstance(record, Mapping):
        raise MalformedError(f"it must be a JSON object; got {_show(record)}")
    if "QuestionId" in record or isinstance(record.get("answer"), Mapping):
        return "triviaqa", _trivia_qa(_rename(record))
    if isinstance(record.get("question"), Mapping) and "annotations" in record:
        return "natural_questions", _natural_question(record)
    for name in ("choices", "options"):
        if isinstance(record.get(name), list) and "answer" in record:
            return "mmlu", _multiple_choice(record, name)
    answers = record.get("answers")
    are_spans = isinstance(answers, Mapping) or _is_list_of(answers, Mapping)
    if "is_impossible" in record or are_spans:
        return "squad", _squad(record)
    if "best_answer" in record:
        question = _text(record, "question")
        accepted = [_text(record, "best_answer"), *_texts(record, "correct_answers")]
        return "truthfulqa", Question(_id({}, question), question, _references(accepted))
    if "answer" in record and "references" not in record:
        return "nq_open", _plain(record)
    return "questions", _plain(record)


def _natural_question(record: Fields) -> Question:
    question = _text(record["question"], "text")
    annotations = record["annotations"]
    if not isinstance(annotations, Mapping):
        raise MalformedError(f'"annotations" must be an object; got {_show(annotations)}')

    short_answers = annotations.get("short_answers")
    if not _is_list_of(short_answers, Mapping):
        raise MalformedError(
            f'"short_answers" must be a list of objects; got {_show(short_answers)}'
        )
    texts = []
    for answer in short_answers:
        texts += _texts(answer, "text")
    yes_no_answers = annotations.get("yes_no_answer", [])
    if not isinstance(yes_no_answers, list):
        raise MalformedError(f'"yes_no_answer" must be a list; got {_show(yes_no_answers)}')
    for number in yes_no_answers:
        if number in (0, 1):
            texts.append(("no", "yes")[number])
    references = _references(texts)
    return Question(_id(record, question), question, references, answerable=bool(references))


def _multiple_choice(record: Fields, name: str) -> Question:
    """Returns the question with its choices under letters; both the right letter and its choice are accepted."""
    choices = [str(choice) for choice in record[name]]
    letters = list(string.ascii_uppercase[: len(choices)])
    if len(choices) > len(letters):
        raise MalformedError(f'"{name}" must be at most {len(letters)}; got {len(choices)}')

    answers = texts_of(record["answer"])
    answer = answers[0] if len(answers) == 1 else answers
    digits = str(answer)
    is_number = digits.isdecimal() and len(digits) < _MOST_DIGITS
    if is_number and int(digits) < len(letters):
        right = int(digits)
    elif answer in letters:
        right = letters.index(answer)
    elif isinstance(record["answer"], str) and answer in choices:
        right = choices.index(answer)
    else:
        raise MalformedError(
            f'"answer" must be one of {name} by its number or letter; got {_show(answer)}'
        )

    lines = [_text(record, "question")]
    for letter, choice in zip(letters, choices, strict=True):
        lines.append(f"{letter}. {choice}")
    question = "\n".join(lines)
    references = [letters[right]]
    # a choice that is a letter would be taken for another choice
    if choices[right] not in letters:
        references.append(choices[right])
    identifier = record.get("id", record.get("question_id"))
    return Question(_id({"id": identifier}, question), question, _references(references))


def _rename(record: Fields) -> Fields:
    """Returns the record with `questionId` and `QuestionId` as `question_id`."""
    renamed = {}
    for name, value in record.items():
        renamed[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()] = value
    return renamed


def _trivia_qa(record: Fields) -> Question:
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


def _squad(record: Fields) -> Question:
    answers = record.get("answers")
    if isinstance(answers, Mapping):
        texts = _texts(answers, "text")
    elif _is_list_of(answers, Mapping):
        texts = [_text(answer, "text") for answer in answers]
    else:
        raise MalformedError(
            f'"answers" must be a list of {{"text": ...}} or {{"text": [...]}}; got {_show(answers)}'
        )
    # on the hub version 2.0 has no such field, and an unanswerable question simply no answer
    has_no_answer = isinstance(answers, Mapping) and not texts
    impossible = _flag(record, "is_impossible", default=has_no_answer)
    if impossible and texts:
        raise MalformedError('"is_impossible" is true, but "answers" is not empty')
    references = _references(texts)
    question = _text(record, "question")
    identity = _id(record, question)
    context = _text(record, "context")
    if not impossible:
        _check_has_answer(references)
    return Question(identity, question, references, context, answerable=not impossible)


def _plain(record: Fields) -> Question:
    if record.keys() <= _WITHOUT_ANSWER:
        record = {**record, "references": []}
    names = [name for name in (*REFERENCE_NAMES, "answers", "answer") if name in record]
    missing = ["question"] if record.get("question") is None else []
    if not names:
        missing.append("references")
    if missing:
        named = " and ".join(f'"{name}"' for name in missing)
        verb = "is" if len(missing) == 1 else "are"
        has = ", ".join(map(str, record))[:300]
        raise MalformedError(
            f"{named} {verb} missing; it has {has}. References are a list, [] where no answer is "
            f'known; --columns ours=theirs, "columns" in Python, maps other names; {_PAGE} lists all that is read'
        )
    question = _text(record, "question")
    impossible = _flag(record, "impossible", default=False)
    answerable = _flag(record, "answerable", default=not impossible)
    context = _context(record.get("context"))

    name = names[0]
    stated = record[name]
    # a single text may be meant as a list: only under other names it is read as one
    if name == "references" and not isinstance(stated, list):
        _texts(record, name)
    references = _references(_texts({name: texts_of(stated)}, name))
    if name in ("answer", "answers"):
        references = _references([solution_of(text) for text in references])
        _check_has_answer(references)
    identifier = record.get("id", record.get("_id"))
    identity = _id({"id": identifier}, question + (context or ""))
    return Question(identity, question, references, context, answerable, _tools(record))


def _context(context: Any) -> str | None:
    """Returns a passage, of HotpotQA all of its paragraphs: {"title", "sentences"} on the hub, pairs as published."""
    if context is None:
        return None
    if not isinstance(context, Mapping | list):
        return _text({"context": context}, "context")

    paragraphs = context
    if isinstance(context, Mapping):
        titles = context.get("title")
        sentences_of_each = context.get("sentences")
        paragraphs = [context]
        if isinstance(titles, list) and isinstance(sentences_of_each, list):
            paragraphs = list(zip_longest(titles, sentences_of_each))

    lines = []
    for paragraph in paragraphs:
        if not _is_paragraph(paragraph):
            raise MalformedError(
                '"context" must be a text, or paragraphs, each of a title and a list of sentences; '
                f"got {_show(context)}"
            )
        title, sentences = paragraph
        lines.append(f"{title}: {''.join(sentences)}")
    return "\n".join(lines)


def _is_paragraph(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    title, sentences = value
    are_texts = isinstance(sentences, str) or _is_list_of(sentences, str)
    return isinstance(title, str) and are_texts


def _tools(record: Fields) -> list[JsonObject] | None:
    tools = record.get("tools")
    if tools is None:
        return None
    if not tools or not _is_list_of(tools, dict):
        raise MalformedError(
            f'"tools" must be a list of JSON schemas, at least one; got {_show(tools)}'
        )

    schemas: list[JsonObject] = tools
    try:
        names = find_parameters(schemas)
    except (TypeError, AttributeError) as error:
        raise MalformedError(f'"tools" must hold schemas with a name; {error}') from error
    if len(names) < len(schemas):
        raise MalformedError(
            f'the names in "tools" must differ; got {", ".join(names)} for {len(schemas)} tools'
        )
    return schemas


def _id(record: Fields, text: str) -> str:
    """Returns the record's id, or one that is the same wherever the same text occurs."""
    identity = record.get("id")
    if identity is None:
        content = text.encode(errors="replace")
        return hashlib.sha256(content).hexdigest()[:16]
    if isinstance(identity, int) and not isinstance(identity, bool):
        return str(identity)
    return _text(record, "id")


def _check_has_answer(references: tuple[str, ...]) -> None:
    if not references:
        raise MalformedError("it has no answer")


def _references(texts: list[str]) -> tuple[str, ...]:
    return without_repeats(text for text in texts if text.strip())


def _text(record: Fields, name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise MalformedError(f'"{name}" must be a string that is not empty; got {_show(value)}')
    return value


def _texts(record: Fields, name: str) -> list[str]:
    value = record.get(name)
    if not _is_list_of(value, str):
        raise MalformedError(f'"{name}" must be a list of strings; got {_show(value)}')
    return value


def _is_list_of(value: object, kind: type) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _flag(record: Fields, name: str, *, default: bool) -> bool:
    value = record.get(name, default)
    if isinstance(value, str):  # a cell of CSV
        value = {"true": True, "false": False}.get(value.lower(), value)
    if not isinstance(value, bool):
        raise MalformedError(f'"{name}" must be true or false; got {_show(value)}')
    return value


def _show(value: object) -> str:
    return "nothing" if value is None else repr(value)[:80]


_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def file_records(path: Path) -> Iterator[PlacedRecord]:
    """Yields the records of a file, compressed or not, and where each stands.

    A `.json` file is a list of records, or a document as TriviaQA ("Data") or SQuAD ("data") publish theirs.
    """
    if Path(path.name.removesuffix(".gz")).suffix not in _SUFFIXES:
        raise DatasetError(
            f"{path} is not one of {', '.join(_SUFFIXES)}", hint="Give it the suffix of its format"
        )
    try:
        form = find_form(path)
        if ".json" in path.suffixes and form in ("document", "lines") and is_one_line(path, form):
            yield from _document(path)
        else:
            yield from _table_records(RecordFile(path, form))
    except OSError as error:
        hint = "Check the path, and that the file is complete"
        raise DatasetError(f"{path} cannot be read: {error}", hint=hint) from error


def _table_records(file: RecordFile) -> Iterator[PlacedRecord]:
    for number, text in read_records(file):
        place = file.place(number)
        try:
            record = parse_json(text)
        except ValueError as error:
            raise DatasetError(
                f"{place}: this is not JSON: {error}", hint="Check that the file is complete"
            ) from error
        if file.form in ("csv", "parquet"):
            record = {name: value for name, value in record.items() if value is not None}
            if "references" in record:
                record["references"] = texts_of(record["references"])
        yield place, record


def _document(path: Path) -> Iterator[PlacedRecord]:
    with open_packed(path) as file_of_path:
        content = file_of_path.read()
    try:
        document = parse_json(content.decode("utf-8-sig"))
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise DatasetError(
            f"{path}:{line}: this is not JSON: {error}", hint="Check that the file is complete"
        ) from error
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


def _paragraphs(article: Any, place: str) -> Iterator[PlacedRecord]:
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
