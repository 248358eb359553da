import pytest

from coe_agents.actions.schemas import Patterns, check_schema, fits, schemas_of


@pytest.mark.parametrize("named", ["text", ["string", "text"], 5, [None], [[]]])
def test_a_type_that_json_does_not_have_is_refused(named):
    with pytest.raises(ValueError, match='"type" in to is no type of JSON'):
        check_schema({"properties": {"to": {"type": named}}})


@pytest.mark.parametrize("to", ["#/$defs/Person", "other.json", "#/properties/to/$ref/0", 5, None])
def test_a_reference_that_leads_nowhere_is_refused(to):
    with pytest.raises(ValueError, match='"\\$ref" in to leads nowhere'):
        check_schema({"properties": {"to": {"$ref": to}}})


def test_a_reference_into_the_schema_may_lead_in_a_circle():
    person = {"type": "object", "properties": {"friend": {"$ref": "#/$defs/Person"}}}
    check_schema({"$defs": {"Person": person}, "$ref": "#/$defs/Person"})


@pytest.mark.parametrize(
    ("keyword", "stated", "message"),
    [("required", "a", '"required" in it is no list'), ("properties", [], "in it is no object")],
)
def test_a_keyword_of_the_wrong_kind_is_refused(keyword, stated, message):
    with pytest.raises(ValueError, match=message):
        check_schema({keyword: stated})


def test_work_counts_what_is_compared():
    counted = []
    part = {"type": ["array", "null"], "required": ["a"], "enum": [[1, 2]]}
    assert fits(part, [1, 2], counted.append)
    assert fits({"const": {"a": 1}}, {"a": 1}, counted.append)
    # four for each of two types, a name and an item, and two items of lists; one field of objects
    assert counted == [4 * (2 + 1 + 1), 2, 0, 1]


def test_work_counts_what_is_matched_and_a_pattern_is_compiled_once():
    counted = []
    patterns = Patterns(counted.append)
    for _ in range(2):
        assert schemas_of("abcdefgh", [{"patternProperties": {"^a": 1}}], patterns) == [1]
    # a part, which counts four, and a pattern of two characters: read, compiled, and matched with eight
    assert counted == [4, 2, 2 * 500, 2 * 8 // 8, 4, 2, 2 * 8 // 8]
    assert patterns.match("a" * 64, "a" * 64)
    assert patterns.match("a" * 65, "a" * 65) is None
