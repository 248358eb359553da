import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from coe_agents.tinyworld import tinyworld_tools
from coe_agents.tinyworld.facts import RELATIONS, load_facts
from coe_agents.tinyworld.tools import NOT_CONVERTIBLE, NOT_FOUND, tool_schemas
from tools.tinyworld.requests import CONVERSIONS, RELATION_NOUNS


@pytest.fixture
def tools():
    return {tool.name: tool for tool in tinyworld_tools()}


def test_every_fact_can_be_looked_up(tools):
    for fact in load_facts():
        said = tools["look_up"].invoke({"subject": fact.subject, "relation": fact.relation})
        assert said == fact.answer
    assert tools["look_up"].invoke({"subject": "Atlantis", "relation": "capital"}) == NOT_FOUND


@pytest.mark.parametrize(
    ("amount", "source", "target", "said"),
    [
        (3, "metres", "centimetres", "300 centimetres"),
        (5, "miles", "kilometres", "8.04672 kilometres"),
        (90, "minutes", "hours", "1.5 hours"),
        (2, "pounds", "grams", "907.185 grams"),  # 2 * 453.59237, to six digits
        (2, "hours", "miles", NOT_CONVERTIBLE),
    ],
)
def test_amounts_are_converted(tools, amount, source, target, said):
    assert tools["convert"].invoke({"amount": amount, "source": source, "target": target}) == said


def test_a_transfer_is_written_once_into_its_own_ledger():
    ledger, other = [], []
    _, _, transfer = tinyworld_tools(ledger)
    tinyworld_tools(other)
    assert transfer.invoke({"name": "Ann", "amount": 5}) == "Paid 5 euros to Ann."
    assert (ledger, other) == ([("Ann", 5.0)], [])


def test_what_the_tools_take_is_in_their_schemas():
    schemas = {tool.name: convert_to_openai_tool(tool) for tool in tinyworld_tools()}
    assert schemas == tool_schemas()
    relations = schemas["look_up"]["function"]["parameters"]["properties"]["relation"]["enum"]
    assert relations == [*RELATIONS] == [*RELATION_NOUNS]
    units = schemas["convert"]["function"]["parameters"]["properties"]["source"]["enum"]
    assert {*units} == {unit for pair in CONVERSIONS for unit in pair}
    with pytest.raises(ValueError, match="relation"):
        tinyworld_tools()[0].invoke({"subject": "France", "relation": "colour"})
