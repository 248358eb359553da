import pytest

from coe_agents.actions.schemas import check_schema


@pytest.mark.parametrize("named", ["text", ["string", "text"], 5, [None]])
def test_a_type_that_json_does_not_have_is_refused(named):
    with pytest.raises(ValueError, match='"type" in to is no type of JSON'):
        check_schema({"properties": {"to": {"type": named}}})


@pytest.mark.parametrize("to", ["#/$defs/Person", "other.json", 5, None])
def test_a_reference_that_leads_nowhere_is_refused(to):
    with pytest.raises(ValueError, match='"\\$ref" in to leads nowhere'):
        check_schema({"properties": {"to": {"$ref": to}}})


def test_a_reference_into_the_schema_may_lead_in_a_circle():
    person = {"type": "object", "properties": {"friend": {"$ref": "#/$defs/Person"}}}
    check_schema({"$defs": {"Person": person}, "$ref": "#/$defs/Person"})
