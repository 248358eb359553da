import gzip
import json
import math

import numpy as np
import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation import Samples
from tests.evaluation.invented import group, row, write


def pay(amount):
    return {"name": "pay", "args": {"sum": amount}}


def read(*paths):
    with Samples(paths) as samples:
        return list(samples)


def test_groups_by_question_and_counts_failures_apart(tmp_path):
    rows = [
        row("q2", "b", 1, "Rome"),
        row("q1", "a", references=["Paris"], question="Capital?"),
        row("q2", "a", 0, "", error="TimeoutError: too late"),
        row("q1", "b", references=["Paris", "paname"], question="Capital?"),
        row("q2", "b", 0, "Oslo"),
    ]
    first, second = read(write(tmp_path / "s.jsonl", rows))
    assert (first.id, first.text, first.references) == ("q1", "Capital?", ("Paris", "paname"))
    assert [sample["text"] for sample in second.responses] == [
        "Oslo",
        "Rome",
    ]  # by index, not by line
    assert [sample["error"] for sample in second.failures] == ["TimeoutError: too late"]


def test_the_order_of_lines_and_their_files_change_nothing(tmp_path):
    rows = group(20)
    whole = read(write(tmp_path / "whole.jsonl", rows))
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    parts = [write(tmp_path / f"{i}.jsonl", shuffled[i::3]) for i in range(2)]
    packed = tmp_path / "2.jsonl.gz"
    packed.write_bytes(
        gzip.compress(b"\xef\xbb\xbf" + "\n\n".join(map(json.dumps, shuffled[2::3])).encode())
    )
    assert read(*parts, packed) == whole


def test_a_line_that_is_malformed_or_there_already_is_named(tmp_path):
    for line, message in (
        ('{"id": "q1", "agent"', r"s.jsonl:2: this is not JSON"),
        ("[" * 100_000, r"s.jsonl:2: this is not JSON"),
        (row() | {"id": 3}, r's.jsonl:2: "id" must be a string; got \'3\''),
        ({"id": "q", "agent": "a", "index": 0}, r's.jsonl:2: "text" is missing'),
        (row(references="Paris"), r'"references" must be a list of strings'),
        (
            row(logprob=float("nan")),
            r'"logprob" must be a finite number of at most 0, or null; got \'nan\'',
        ),
        (
            row(calls={"name": "pay"}),
            r'"calls" must be a list of objects with "name" and "args", or null',
        ),
        (row(tools="pay"), r'"tools" must be a list of JSON schemas with a name, or null'),
        (
            row(calls=[{"name": "pay"}]),
            r's.jsonl:2: "calls" and "tools" must be readable as an action; a call must',
        ),
        (row(calls=[pay(math.nan)]), r"s.jsonl:2: .*numbers must be finite; got nan"),
        (row(calls=[pay("x" * 100_001)]), r"s.jsonl:2: .*at most 100000 characters"),
        (
            row(end="length"),
            r'"end" must be one of "whole", "cut", "filtered" and "unknown"; got \'length\'',
        ),
        (row(index=7), r"s.jsonl:2: question 'q1' has this agent, round and index at .*s.jsonl:1"),
        (row(index=1) | {"question": "Another?"}, r"s.jsonl:2: another question has the id 'q1'"),
    ):
        path = tmp_path / "s.jsonl"
        path.write_text(
            f"{json.dumps(row(index=7))}\n{line if isinstance(line, str) else json.dumps(line)}\n"
        )
        with pytest.raises(SamplesError, match=message):
            read(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"id": "q"}' * 999)[:-20])
    for path, message in (
        (tmp_path / "none.jsonl", "none.jsonl cannot be read"),
        (cut, "cut.jsonl.gz cannot be read"),
        (write(tmp_path / "empty.jsonl", []), "empty.jsonl: there are no samples"),
    ):
        with pytest.raises(SamplesError, match=message):
            Samples([path])


@pytest.mark.wording
def test_no_more_than_twenty_faulty_lines_are_listed(tmp_path):
    path = write(tmp_path / "s.jsonl", [row(), *(row(index=-1) for _ in range(21))])
    with pytest.raises(SamplesError) as raised:
        read(path)
    assert str(raised.value).count('"index" must be') == 20


def test_a_stored_action_is_not_written_again_by_a_schema_that_says_less(tmp_path):
    # what a parser told apart, the JSON schema alone cannot: as "calls" alone the line would be refused
    either = {
        "anyOf": [{"properties": {"to": {}}}, {"properties": {"to": {}, "now": {"default": True}}}]
    }
    tool = {"name": "pay", "parameters": {"properties": {"x": either}}}
    calls = [{"name": "pay", "args": {"x": {"to": "Ann"}}}]
    stored = '[{"args":{"x":{"$m.Note":[{"to":"Ann"},null]}},"name":"pay"}]'
    (question,) = read(write(tmp_path / "s.jsonl", [row(calls=calls, tools=[tool], answer=stored)]))
    assert question.responses[0]["answer"] == stored
    with pytest.raises(SamplesError, match="several alternatives"):
        read(write(tmp_path / "t.jsonl", [row(calls=calls, tools=[tool])]))
