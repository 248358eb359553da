"""Owns the files of responses that others write: which they are, by their own fields, and the samples of a record."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from coe_agents.errors import SamplesError
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.records import (
    REFERENCE_NAMES,
    by_our_names,
    solution_of,
    texts_of,
)
from coe_agents.evaluation.samples.line import from_loose
from coe_agents.evaluation.tables import RecordFile
from coe_agents.files import parse_json
from coe_agents.text import quantity
from coe_agents.types import Fields, JsonObject

PAGE = "docs/your_own_files.md"
"""The page that says which files are read."""


@dataclass(frozen=True)
class Source:
    """What is known of a file beside its records.

    Attributes:
        first: Its first record.
        is_loose: Whether its cells are texts, numbers and nulls, as in a table, rather than our fields.
        columns: By a name of ours, what the file calls it.
        questions: By id, the questions that a file without questions is joined with; None where none are given.
    """

    path: Path
    first: JsonObject
    is_loose: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    questions: Mapping[str, Question] | None = None

    @cached_property
    def form(self) -> "Format":
        """The first row of `_FORMATS` all of whose fields the first record has; else our own form."""
        for each in _FORMATS:
            if each.fields <= self.first.keys():
                return each
        return OWN

    def to_samples(self, record: JsonObject) -> Iterator[JsonObject]:
        return self.form.to_samples(record, self)


class Format(NamedTuple):
    """A form of records: its name, the fields by which it is known, and what yields the samples of a record.

    A sample without an index is numbered in the order of the file. What yields the samples raises a ValueError that
    says what is wrong with a record, or a KeyError, TypeError or AttributeError where the record lacks what its form
    has.
    """

    name: str
    fields: frozenset[str]
    to_samples: Callable[[JsonObject, Source], Iterator[JsonObject]]


def _own(record: JsonObject, source: Source) -> Iterator[JsonObject]:
    """Yields a record with our fields; references may be called `gold`, `reference` or `target`."""
    record = by_our_names(record, source.columns)
    for name in REFERENCE_NAMES:
        if name in record and "references" not in record:
            record = {**record, "references": texts_of(record[name])}
    if source.is_loose:
        record = from_loose(record)
        if "references" in record:
            record["references"] = texts_of(record["references"])
        # a file of one model often does not name it
        record.setdefault("agent", source.path.name.partition(".")[0])
    yield record


OWN = Format("samples", frozenset(), _own)


def _lm_eval(record: JsonObject, source: Source) -> Iterator[JsonObject]:
    # the same responses again, from which another filter takes the answer
    if record.get("filter") != source.first.get("filter"):
        return
    requests = [list(_values(request)) for request in _values(record["arguments"])]
    responses = record["resps"]
    for name, lists in (("arguments", requests), ("resps", responses)):
        if not lists or not all(lists):
            raise ValueError(f'"{name}" must hold lists, none of which is empty')
    target = [solution_of(text) for text in texts_of(record["target"])]
    document = record["doc"]
    question = document.get("question") if isinstance(document, dict) else None
    if not isinstance(question, str):
        question = str(requests[0][0])
    digest = str(record.get("doc_hash", ""))[:8]
    sample: JsonObject = {
        "id": f"{record['doc_id']}-{digest}".rstrip("-"),
        "question": question,
        "references": target,
        # the tool writes into a folder that it names after the model
        "agent": source.path.resolve().parent.name,
    }

    metrics = record.get("metrics") or ["exact_match", "acc", "em"]
    verdicts = [record[name] for name in metrics if record.get(name) in (0, 1)]
    sample["correct"] = bool(verdicts[0]) if verdicts else None
    if isinstance(responses[0][0], str):
        for text in responses[0]:
            yield {**sample, **_generated(text, record)}
    elif len(responses) > 1:
        yield {**sample, **_most_probable(requests, responses, target)}
    else:
        raise ValueError("it holds the probability of a given text, which is no response")


def _generated(text: str, record: JsonObject) -> JsonObject:
    filtered = next(iter(record["filtered_resps"]), None)
    answer = solution_of(text) if "####" in text else None
    # of several responses, the verdict is on one
    if len(record["resps"][0]) > 1:
        return {"text": text, "answer": answer, "correct": None}
    if isinstance(filtered, str) and filtered not in (text, "[invalid]"):
        answer = filtered
    return {"text": text, "answer": answer}


def _most_probable(
    requests: Sequence[Sequence[Any]], responses: Sequence[Any], target: Sequence[str]
) -> JsonObject:
    """Returns the choice with the highest probability as the response; the target may be a choice's number."""
    if len(requests) != len(responses):
        raise ValueError('"arguments" and "resps" must be of one length')
    choices = [str(request[1]).strip() for request in requests]
    logprobs = [float(response[0][0]) for response in responses]
    best = max(range(len(choices)), key=lambda number: logprobs[number])
    fields: JsonObject = {"text": choices[best], "logprob": min(logprobs[best], 0.0)}
    if target and target[0].isdecimal():
        number_of_right = int(target[0])
        if number_of_right < len(choices):
            fields["references"] = [choices[number_of_right]]
    return fields


def _values(value: Any) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value


_ENDS = {
    **dict.fromkeys(("stop", "tool_calls", "function_call", "completed"), "whole"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "incomplete"), "cut"),
    "content_filter": "filtered",
}


_NO_REPLY = "the model gave no reply"


def _end(word: str | None) -> str:
    return "whole" if word is None else _ENDS.get(word, "unknown")


def _batch_output(record: JsonObject, source: Source) -> Iterator[JsonObject]:
    identifier = record["custom_id"]
    if source.questions is None:
        raise SamplesError(
            f'{source.path} is batch output of OpenAI, which holds no question: "question" and "references" are '
            "missing",
            hint=f'Pass "questions", a file whose id is the custom_id; see {PAGE}',
        )
    question = source.questions.get(identifier)
    if question is None:
        raise ValueError(f'"questions" has no question with the id {identifier!r:.60}')
    sample: JsonObject = {
        "id": identifier,
        "question": question.question,
        "references": list(question.references),
        "text": "",
    }

    response = record["response"] or {}
    body = response.get("body") or {}
    error = record["error"] or body.get("error")
    if error or response.get("status_code", 200) >= 400:
        message = error["message"] if isinstance(error, dict) else error
        message = message or f"status {response.get('status_code')}"
        yield {**sample, "agent": body.get("model") or "batch", "error": str(message)}
        return

    sample["agent"] = body["model"]
    if body.get("choices") == []:
        yield {**sample, "error": _NO_REPLY}
        return
    if "output" in body:
        parts = [part for item in body["output"] for part in item.get("content") or ()]
        text = "".join(part.get("text", "") for part in parts)
        yield {**sample, "text": text, "end": _end(body.get("status"))}
        return

    for choice in body["choices"]:
        message = choice["message"]
        text = message.get("content") or message.get("refusal") or ""
        reply = {**sample, "text": text, "end": _end(choice.get("finish_reason"))}
        logprobs = choice.get("logprobs") or {}
        tokens = logprobs.get("content")
        if tokens:
            reply["logprob"] = min(sum(token["logprob"] for token in tokens), 0.0)
            reply["n_tokens"] = len(tokens)
        if message.get("tool_calls"):
            reply["calls"] = _calls(message)
        yield reply


def _calls(message: Fields) -> list[JsonObject]:
    calls = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        calls.append({"name": function["name"], "args": parse_json(function["arguments"])})
    return calls


_TAU_READS = frozenset(
    (
        "calculate",
        "find_user_id_by_email",
        "find_user_id_by_name_zip",
        "get_order_details",
        "get_product_details",
        "get_reservation_details",
        "get_user_details",
        "list_all_airports",
        "list_all_product_types",
        "search_direct_flight",
        "search_onestop_flight",
        "think",
    )
)
"""The tools of tau-bench that change nothing; every other call is an action."""


def _trajectory(record: JsonObject, source: Source) -> Iterator[JsonObject]:
    calls = []
    for message in record["traj"]:
        for call in _calls(message):
            if call["name"] not in _TAU_READS:
                calls.append(call)
    task = record["info"].get("task") or {}
    # the tool names its file after the agent, and then the range of tasks
    agent = re.split(r"_range_\d", source.path.name)[0].removesuffix(".json")
    yield {
        "id": str(record["task_id"]),
        "question": str(task.get("instruction", "")),
        "agent": agent,
        "text": "",
        "calls": calls,
        "correct": record["reward"] == 1,
    }


def _passage(record: JsonObject, source: Source) -> Iterator[JsonObject]:
    del record
    raise SamplesError(
        f"{source.path} holds passages of SelfCheckGPT, whose sentences are judged one by one",
        hint=f"Add --claims overlap to score them; see {PAGE}",
    )


_FORMATS = (
    Format(
        "samples of lm-evaluation-harness",
        frozenset(("doc_id", "doc", "arguments", "resps", "filtered_resps", "target")),
        _lm_eval,
    ),
    Format("batch output of OpenAI", frozenset(("custom_id", "response", "error")), _batch_output),
    Format("trajectories of tau-bench", frozenset(("task_id", "reward", "traj")), _trajectory),
    Format("passages of SelfCheckGPT", frozenset(("gpt3_sentences", "annotation")), _passage),
)


def is_inspect_log(file: RecordFile) -> bool:
    """Returns whether a file is a log of inspect_ai: packed in a way of its own, or one JSON object."""
    if file.form == "zip":
        return True
    if ".json" not in file.path.suffixes:
        return False
    with file.open() as opened:
        start = opened.read(4096)
    return b'"version"' in start and b'"status"' in start and b'"eval"' in start


def inspect_records(path: Path) -> Iterator[JsonObject]:
    """Yields the samples of a log of inspect_ai as its own library reads them, each with the model of the log.

    Raises:
        ImportError: inspect_ai is not installed.
        SamplesError: It cannot read the log.
    """
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_samples
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{path} is a log of inspect_ai, which reads it; pip install inspect-ai"
        ) from error
    try:
        model = read_eval_log(str(path), header_only=True).eval.model
        for logged in read_eval_log_samples(str(path), all_samples_required=False):
            yield {"model": model, "logged": logged}
    # errors of what reads packed files, of JSON and of inspect_ai have no common base
    except Exception as error:
        raise SamplesError(
            f"{path} cannot be read by inspect_ai: {type(error).__name__}: {error}",
            hint="Check that the file is complete",
        ) from error


def inspect_samples(record: JsonObject) -> Iterator[JsonObject]:
    """Yields the responses of one of `inspect_records`."""
    logged = record["logged"]
    question = logged.input
    if not isinstance(question, str):
        texts_of_user = [message.text for message in question if message.role == "user"]
        if not texts_of_user:
            raise ValueError(
                f'the "input" of sample {logged.id!r} must be a text, or hold a message of a user; got '
                f"{quantity(len(question), 'message')} of others. Leave the sample out of the log"
            )
        question = texts_of_user[-1]
    sample: JsonObject = {
        "id": str(logged.id),
        "question": question,
        "references": [text for text in texts_of(logged.target) if text],
        "agent": record["model"],
        "text": "",
    }
    if logged.error is not None:
        yield {**sample, "error": logged.error.message or "the sample failed"}
        return
    if not logged.output.choices:
        yield {**sample, "error": _NO_REPLY}
    for number, choice in enumerate(logged.output.choices):
        reply = {**sample, "text": choice.message.text, "end": _end(choice.stop_reason)}
        if choice.logprobs is not None and choice.logprobs.content:
            tokens = [token.logprob for token in choice.logprobs.content]
            reply |= {"logprob": min(sum(tokens), 0.0), "n_tokens": len(tokens)}
        # the first is the one that was scored
        if number == 0:
            reply |= _verdict(logged.scores or {}, choice.message.text)
        yield reply


_VERDICTS = {"C": True, "I": False, "N": False, 1: True, 0: False}
"""What scorers of inspect_ai write; a partly correct answer has no verdict here."""


def _verdict(scores: Fields, text: str) -> JsonObject:
    for score in scores.values():
        if not isinstance(score.value, str | int | float) or score.value not in _VERDICTS:
            continue
        # what the scorer compared, where it is another text than the whole reply
        answer = None
        if isinstance(score.answer, str) and score.answer.strip() not in ("", text.strip()):
            answer = score.answer
        return {"correct": _VERDICTS[score.value], "answer": answer}
    return {}
