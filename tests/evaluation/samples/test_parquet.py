import json
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import SamplesError
from coe_agents.evaluation import Samples, score
from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.sample_collection import to_sample
from coe_agents.evaluation.samples.parquet import PARTS, SAMPLE_COLUMNS, rows_of, to_parquet
from coe_agents.evaluation.samples.store import SAMPLES

QUESTION = Question("q/1", "Where is it?", ("Paris", "in Paris"))


CALLS = {"calls": [{"name": "pay", "args": {"to": ["Ann", 1, None], "sum": 5.0}}], "tools": [{"name": "pay"}]}


def said(text, *, index=0, agent="a", logprob=None, question=QUESTION, error=None):
    told = {"agent": agent, "round": 0, "index": index, "text": text, "answer": None}
    return to_sample(question, {**told, "logprob": logprob, "n_tokens": None if logprob is None else 3, "error": error})


ROWS = [
    said("It is Paris.\nAnswer: Paris", logprob=-0.1 - 0.2),
    said("", index=1, error="AgentTimeoutError: no answer within 600 s"),
    said("half a pair: \ud83d \u2028 \0", agent="b\udc00", logprob=0.0),
    {**said("", index=2), **CALLS},
    {**said("no call", index=3), "calls": []},
    {**said("half a pair: \ud83d", index=4), **CALLS},
]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_comes_back_as_json_has_it(row):
    (back,) = rows_of(BytesIO(to_parquet([row], SAMPLE_COLUMNS)))
    assert back == json.loads(json.dumps(row))
    assert [type(value) for value in back.values()] == [type(value) for value in row.values()]


def test_a_field_without_a_column_and_a_number_that_is_none_are_refused():
    with pytest.raises(ValueError, match="got 'p_false'"):
        to_parquet([{**ROWS[0], "p_false": 0.5}], SAMPLE_COLUMNS)
    with pytest.raises(ValueError, match="JSON"):
        to_parquet([{**ROWS[0], "logprob": float("nan")}], SAMPLE_COLUMNS)


def test_samples_are_the_same_from_lines_and_from_parquet_in_any_cut(tmp_path):
    rows = [
        {**said(text, index=index, agent=agent, question=Question(f"q{number}", "Where?", ("Paris",))), "p_false": 0.5}
        for number in range(5)
        for agent in "ab"
        for index, text in enumerate(["Paris", "Lyon", "half a pair: \ud83d"])
    ]
    rows[7] |= CALLS
    (tmp_path / SAMPLES).write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {**SAMPLE_COLUMNS, "p_false": "double"}
    (tmp_path / "other" / PARTS).mkdir(parents=True)
    for number in range(3):  # the cuts go through questions
        part = to_parquet(rows[number * 10 : number * 10 + 10], columns)
        (tmp_path / "other" / PARTS / f"part-{number:05d}.parquet").write_bytes(part)
    with Samples([tmp_path]) as lines, Samples([tmp_path / "other"]) as parquet:
        assert list(parquet) == list(lines)
        assert len(parquet) == 5
        assert repr(score(parquet, clusterer=NormalizedMatch())) == repr(score(lines, clusterer=NormalizedMatch()))


def test_parquet_of_others_needs_the_required_columns_only(tmp_path):
    path = tmp_path / "theirs.parquet"
    columns = {"id": ["1", "1"], "agent": ["a", "a"], "index": [0, 1], "text": ["x", "y"], "round": [None, 0]}
    pq.write_table(pa.table({**columns, "day": [pa.scalar(0, pa.date32()).as_py()] * 2}), path)
    with Samples([path]) as samples:
        (question,) = samples
    assert [response["text"] for response in question.responses] == ["x", "y"]
    assert question.responses[0]["day"] == "1970-01-01"
    pq.write_table(pa.table({"id": ["1"], "agent": ["a"], "text": ["x"]}), path)
    with pytest.raises(SamplesError, match=r'theirs\.parquet:1: "index" is missing'):
        Samples([path])


def test_calls_of_others_may_be_nested_columns_and_text_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "theirs.parquet"
    whole = {"id": ["1"], "agent": ["a"], "index": [0], "text": [""]}
    pq.write_table(pa.table({**whole, "calls": [CALLS["calls"][:0]]}), path)
    with Samples([path]) as samples:
        (question,) = samples
    assert (question.responses[0]["calls"], question.responses[0]["answer"]) == ([], "[]")
    pq.write_table(pa.table({**whole, "calls": ["pay Ann"]}), path)
    with pytest.raises(SamplesError, match=r'theirs\.parquet:1: "calls" must be a list of objects .* got \'pay Ann\''):
        Samples([path])


def test_what_is_no_parquet_and_a_folder_without_samples_are_told(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SamplesError, match=r"x\.parquet cannot be read"):
        Samples([tmp_path / "x.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(SamplesError, match="holds no samples"):
        Samples([tmp_path / "empty"])
