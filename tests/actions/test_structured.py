"""The reading of structured answers."""

import pytest

from coe_agents.actions.canonical import MAX_CHARS
from coe_agents.actions.structured import check_answer_schema, conforms, read_structured


def test_what_conforms():
    closed = {"properties": {"n": {}}, "additionalProperties": False}
    twice = [{"properties": {"n": {"type": "integer"}}}, {"properties": {"n": {"enum": [1, "a"]}}}]
    for schema, fitting, others in (
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["a", None], [1]),
        ({"items": {"type": "integer"}}, [[], [1, 2]], [[1, "2"]]),
        ({"properties": {"n": {}}}, [{"m": 1}], []),
        ({"allOf": [closed]}, [{"n": 1}], [{"m": 1}]),
        ({"allOf": [{"required": ["n"]}, *twice]}, [{"n": 1}], [{"n": 2}, {"n": "a"}, {}]),
    ):
        assert [value for value in (*fitting, *others) if conforms(value, schema)] == fitting


def test_an_answer_is_an_object_that_takes_little_work_to_read():
    longest = f'\xa0{{"text":"{"x" * (MAX_CHARS - 12)}"}}'
    assert len(read_structured(longest, {})["text"]) == MAX_CHARS - 12
    for text in ("Paris", "[]", '{"n": 1, "n": 2}', f"{longest} "):
        with pytest.raises(ValueError, match="not a JSON object"):
            read_structured(text, {})
    with pytest.raises(ValueError, match="too much work"):
        conforms([299] * 100, {"items": {"anyOf": [{"const": n} for n in range(300)]}})
    for wrong in (3, {"type": "array"}, {"type": "object", "allOf": [{"type": "array"}]}):
        with pytest.raises(TypeError, match="it must be a JSON schema of an object"):
            check_answer_schema(wrong, where="it")
    assert check_answer_schema({"anyOf": [{"type": "array"}, {}]}, where="it")
