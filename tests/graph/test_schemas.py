"""The JSON schemas of graphs, from which servers, tools and MCP clients read what to pass and what to expect."""

import json
import runpy
from pathlib import Path

import pytest

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent

ROOT = Path(__file__).parents[2]
SERVED = json.loads((ROOT / "langgraph.json").read_text())["graphs"]


def served_graph(name):
    path, variable = SERVED[name]["path"].split(":")
    return runpy.run_path(str(ROOT / path))[variable]


def scripted_graph(**options):
    agents = [ScriptedAgent(name, ["Paris"]) for name in ("a", "b")]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5), **options).compile()


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.usefixtures("local_models")
def test_every_graph_that_is_served_has_its_schemas(name):
    graph = served_graph(name)
    context = graph.get_context_jsonschema()
    assert (context is None) == (name == "council")  # no context changes a council
    for schema in filter(None, (graph.get_input_jsonschema(), graph.get_output_jsonschema(), context)):
        assert schema["type"] == "object"
        assert schema["properties"]
    assert {"question", "messages"} & graph.get_input_jsonschema()["properties"].keys()


def test_the_schemas_hold_nothing_of_the_inner_state():
    graph = scripted_graph()
    given, returned = graph.get_input_jsonschema(), graph.get_output_jsonschema()
    assert set(given["properties"]) == {"question", "messages", "choices", "is_review", "tools", "answer_schema"}
    assert set(returned["properties"]) == {"decision", "messages", "responses", "labels", "former_responses"}
    assert "coe" in returned["$defs"]["DecisionData"]["properties"]
