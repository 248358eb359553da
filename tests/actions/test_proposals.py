"""The check of a proposal against the tools, and its wording; the reading of structured answers."""

import pytest

from coe_agents.actions import canonical_action
from coe_agents.actions.canonical import MAX_CHARS
from coe_agents.actions.proposals import (
    called_tools,
    check_proposal,
    compared_answer,
    describe_action,
)
from coe_agents.actions.structured import (
    ANSWER,
    answer_tool,
    check_answer_schema,
    conforms,
    read_structured,
)
from coe_agents.types import create_response

PAY = {
    "name": "bank.pay",
    "parameters": {"properties": {"to": {"type": "string"}, "sum": {"type": "number"}}},
}


def call(**args):
    return [{"name": "bank.pay", "args": args}]


def test_a_proposal_that_fits_the_tools_is_its_canonical_form():
    written = check_proposal(call(to="Ann", sum=5.0), tools=[PAY])
    assert written == canonical_action(call(sum=5, to="Ann"))
    assert check_proposal([], tools=[PAY]) == "[]"

    # the dot of a name may be an underscore
    with_underscore = {"name": "bank_pay", "args": {}}
    assert check_proposal([with_underscore], tools=[PAY])


@pytest.mark.parametrize(
    ("calls", "error", "message"),
    [
        ([{"name": "rob", "args": {}}], ValueError, "'rob', which is not one of the tools"),
        (call(amount=5), ValueError, "the argument 'amount', which it does not have"),
        (call(sum=float("nan")), ValueError, "must be finite"),
        (call(to="x" * 100_001), ValueError, "at most 100000 characters"),
        ([*call(sum=1), {"name": "rob", "args": {}}], ValueError, "'rob'"),
        ([{"name": "bank.pay", "args": "5"}], TypeError, "a call must have"),
    ],
)
def test_what_does_not_fit_is_refused(calls, error, message):
    with pytest.raises(error, match=message):
        check_proposal(calls, tools=[PAY])


def check(schema, name="x"):
    tool = {"name": "f", "parameters": schema}
    return check_proposal([{"name": "f", "args": {name: 1}}], tools=[tool])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {}, "additionalProperties": True},
        {"properties": {}, "additionalProperties": {}},
        {"properties": {}, "additionalProperties": {"type": "integer"}},
        {"properties": {}, "patternProperties": {"^[xy]$": {}}},
        {"properties": {}, "allOf": [{"properties": {"x": {}}}]},
        {"properties": {}, "anyOf": [{"properties": {"y": {}}}, {"properties": {"x": {}}}]},
        {
            "properties": {"y": {}},
            "$ref": "#/$defs/a",
            "$defs": {"a": {"additionalProperties": {}}},
        },
    ],
)
def test_any_argument_fits_a_schema_that_says_so_or_states_none(schema):
    assert check(schema)


def test_a_tool_without_arguments_takes_none_and_one_told_from_another_by_a_dot_only_is_not_called():
    closed = {"additionalProperties": False}
    for schema in (
        {"properties": {}},
        closed,
        {**closed, "patternProperties": {"^y": {}, "[": {}}},
    ):
        with pytest.raises(ValueError, match="the argument 'x', which it does not have"):
            check(schema)

    names = ("files.drop", "files_drop", "list", "list")
    tools = [{"name": name, "parameters": {}} for name in names]
    for name in ("files.drop", "files_drop"):
        with pytest.raises(ValueError, match="the name of another tool is equal"):
            check_proposal([{"name": name, "args": {}}], tools=tools)
    check_proposal([{"name": "list", "args": {}}], tools=tools)


def test_what_is_declared_under_a_condition_is_declared_and_its_defaults_are_not_filled_in():
    unit = {"properties": {"unit": {"default": "EUR"}}}
    schema = {
        "properties": {"kind": {"enum": ["a", "b"]}},
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"properties": {"path": {"type": "string", "enum": ["A", "a"]}}},
        "else": {"properties": {"q": {"type": "integer"}, "x": unit}},
        "dependentSchemas": {"kind": {"properties": {"r": {}}}},
    }
    tools = [{"name": "f", "parameters": schema}]

    def written(**args):
        return check_proposal([{"name": "f", "args": args}], tools=tools)

    for name, value in (("path", "A"), ("q", 1), ("r", [1]), ("x", {"unit": "EUR"})):
        line = written(kind="a", **{name: value})
        is_exact = f'"exact":["kind","{name}"]' in line
        assert is_exact is (name == "path")
    with pytest.raises(ValueError, match="several alternatives"):
        written(x={})
    with pytest.raises(ValueError, match="'y', which it does not have"):
        check(schema, "y")


def test_an_action_in_words_and_the_tools_that_it_calls_each_once():
    log = {"name": "log", "args": {}}
    answer = {"name": ANSWER, "args": {"city": "Paris"}}

    def described(*calls):
        return describe_action(canonical_action([*calls]))

    assert described(*call(to="Ann", sum=5), log) == 'bank_pay(sum=5, to="Ann") and log()'
    assert describe_action("[]") == "no call"
    assert described(answer) == '{"city": "Paris"}'
    assert described(answer, log) == '{"city": "Paris"} and log()'

    twice = [*call(sum=1), *call(sum=2), {"name": "a", "args": {}}]
    assert called_tools(canonical_action(twice)) == ["a", "bank_pay"]
    names = [f"tool{place}" for place in range(9)]
    of_nine = [{"name": name, "args": {}} for name in names]
    assert called_tools(canonical_action(of_nine)) == names
    assert called_tools("[]") == []
    assert called_tools('[{"args": {}, "exact": ["x"], "name": "f.g"}]') == ["f_g"]

    for no_action in (
        "Paris",
        "[1, 2]",
        '{"name": "f"}',
        "{}",
        '[{"args": {}}]',
        "[" * 9999,
        '[{"args": {}, "name": ""}]',
        '[{"args": {}, "exact": "x", "name": "f"}]',
    ):
        assert called_tools(no_action) is None


def test_what_is_compared_is_the_action_that_is_stored_and_no_text_that_reads_as_one():
    # with a default that only the tool's schema states
    stored = canonical_action(call(to="Ann", sum=5))
    paid = create_response("a", "I pay.", calls=call(to="Ann"), answer=stored)
    assert compared_answer(paid) == stored

    without_answer = {**paid, "answer": None}
    assert compared_answer(without_answer) == canonical_action(call(to="Ann"))
    reads_as_action = create_response("a", "\xa0[]")
    assert compared_answer(reads_as_action) == "(no proposal: '\\xa0[]')"


def test_what_conforms():
    closed = {"properties": {"n": {}}, "additionalProperties": False}
    is_integer = {"properties": {"n": {"type": "integer"}}}
    is_listed = {"properties": {"n": {"enum": [1, "a"]}}}
    all_three = {"allOf": [{"required": ["n"]}, is_integer, is_listed]}
    for schema, fitting, others in (
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["a", None], [1]),
        ({"items": {"type": "integer"}}, [[], [1, 2]], [[1, "2"]]),
        ({"properties": {"n": {}}}, [{"m": 1}], []),
        ({"allOf": [closed]}, [{"n": 1}], [{"m": 1}]),
        (all_three, [{"n": 1}], [{"n": 2}, {"n": "a"}, {}]),
    ):
        for value in fitting:
            assert conforms(value, schema)
        for value in others:
            assert not conforms(value, schema)


def test_an_answer_is_an_object_that_takes_little_work_to_read():
    longest = f'\xa0{{"text":"{"x" * (MAX_CHARS - 12)}"}}'
    assert len(read_structured(longest, {})["text"]) == MAX_CHARS - 12
    for text in ("Paris", "[]", '{"n": 1, "n": 2}', f"{longest} "):
        with pytest.raises(ValueError, match="not a JSON object"):
            read_structured(text, {})

    constants = {"items": {"anyOf": [{"const": n} for n in range(300)]}}
    for value, schema in (
        ([299] * 100, constants),
        (0, {"enum": list(range(50_000))}),
        ([0] * 10_000, {"allOf": [{}] * 20}),
    ):
        with pytest.raises(ValueError, match="too much work"):
            conforms(value, schema)

    for wrong in (3, {"type": "array"}, {"type": "object", "allOf": [{"type": "array"}]}):
        with pytest.raises(TypeError, match="it must be a JSON schema of an object"):
            check_answer_schema(wrong, where="it")

    counted = []
    array_or_any = {"anyOf": [{"type": "array"}, {}]}
    assert check_answer_schema(array_or_any, where="it", work=counted.append)
    assert counted

    unit = {"properties": {"unit": {"default": "EUR"}}}
    written = canonical_action([{"name": ANSWER, "args": {}}], tools=[answer_tool(unit)])
    assert written == '[{"args":{"unit":"EUR"},"name":"structured_answer"}]'
