"""The check of a proposal against the tools, and its wording."""

import pytest

from coe_agents.actions import called_tools, canonical_action, check_proposal, describe_action

PAY = {"name": "bank.pay", "parameters": {"properties": {"to": {"type": "string"}, "sum": {"type": "number"}}}}


def call(**args):
    return [{"name": "bank.pay", "args": args}]


def test_a_proposal_that_fits_the_tools_is_its_canonical_form():
    assert check_proposal(call(to="Ann", sum=5.0), tools=[PAY]) == canonical_action(call(sum=5, to="Ann"))
    assert check_proposal([], tools=[PAY]) == "[]"


def test_the_dot_of_a_name_may_be_an_underscore():
    assert check_proposal([{"name": "bank_pay", "args": {}}], tools=[PAY])


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([{"name": "rob", "args": {}}], "'rob', which is not one of the tools"),
        (call(amount=5), "the argument 'amount', which it does not have"),
        (call(sum=float("nan")), "must be finite"),
        (call(to="x" * 100_001), "at most 100000 characters"),
        ([*call(sum=1), {"name": "rob", "args": {}}], "'rob'"),
    ],
)
def test_what_does_not_fit_is_refused(calls, message):
    with pytest.raises(ValueError, match=message):
        check_proposal(calls, tools=[PAY])


@pytest.mark.parametrize(
    "calls", [[{"name": "bank.pay"}], [{"args": {}}], ["pay"], [{"name": "bank.pay", "args": "5"}]]
)
def test_what_is_no_call_is_refused(calls):
    with pytest.raises(TypeError, match="a call must have"):
        check_proposal(calls, tools=[PAY])


ALLOWING = [
    {"properties": {}, "additionalProperties": True},
    {"properties": {}, "additionalProperties": {}},
    {"properties": {}, "additionalProperties": {"type": "integer"}},
    {"properties": {}, "patternProperties": {"^[xy]$": {}}},
    {"properties": {}, "allOf": [{"properties": {"x": {}}}]},
    {"properties": {}, "anyOf": [{"properties": {"y": {}}}, {"properties": {"x": {}}}]},
    {"properties": {"y": {}}, "allOf": [{"$ref": "#/$defs/more"}], "$defs": {"more": {"additionalProperties": {}}}},
    {},
    {"type": "object"},
]


@pytest.mark.parametrize("schema", ALLOWING)
def test_any_argument_fits_a_schema_that_says_so_or_states_none(schema):
    assert check_proposal([{"name": "f", "args": {"x": 1}}], tools=[{"name": "f", "parameters": schema}])


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
    for name, value in (("path", "A"), ("q", 1), ("r", [1]), ("x", {"unit": "EUR"})):
        written = check_proposal([{"name": "f", "args": {"kind": "a", name: value}}], tools=tools)
        assert (f'"exact":["kind","{name}"]' in written) is (name == "path")
    with pytest.raises(ValueError, match="several alternatives"):
        check_proposal([{"name": "f", "args": {"x": {}}}], tools=tools)
    with pytest.raises(ValueError, match="'y', which it does not have"):
        check_proposal([{"name": "f", "args": {"y": 1}}], tools=tools)


def test_a_tool_without_arguments_takes_none():
    more = {"additionalProperties": False, "patternProperties": {"^y": {}, "[": {}}}
    for parameters in ({"type": "object", "properties": {}}, {"additionalProperties": False}, more):
        with pytest.raises(ValueError, match="'x'"):
            check_proposal([{"name": "f", "args": {"x": 1}}], tools=[{"name": "f", "parameters": parameters}])
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {}}}]
    with pytest.raises(ValueError, match="'x'"):
        check_proposal([{"name": "f", "args": {"x": 1}}], tools=tools)


def test_an_action_in_words():
    action = canonical_action([*call(to="Ann", sum=5), {"name": "log", "args": {}}])
    assert describe_action(action) == 'bank_pay(sum=5, to="Ann") and log()'
    assert describe_action("[]") == "no call"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[]", []),
        ("Paris", None),
        ("[1, 2]", None),
        ('{"name": "f"}', None),
        ("{}", None),
        ('[{"args": {}, "name": ""}]', None),
        ('[{"args": {}, "exact": "x", "name": "f"}]', None),
        ('[{"args": {}, "exact": ["x"], "name": "f"}]', ["f"]),
        ('[{"args": {}}]', None),
        ("[" * 9999, None),
    ],
)
def test_the_tools_that_a_text_calls(text, names):
    assert called_tools(text) == names


def test_each_called_tool_is_named_once():
    assert called_tools(canonical_action([*call(sum=1), *call(sum=2), {"name": "a", "args": {}}])) == ["a", "bank_pay"]


def test_a_tool_that_is_told_from_another_by_a_dot_only_is_not_called():
    tools = [{"name": name, "parameters": {}} for name in ("files.drop", "files_drop", "list", "list")]
    for name in ("files.drop", "files_drop"):
        with pytest.raises(ValueError, match="the name of another tool is equal"):
            check_proposal([{"name": name, "args": {}}], tools=tools)
    check_proposal([{"name": "list", "args": {}}], tools=tools)
