import json
import runpy
from pathlib import Path

import pytest

from tests.graph.groups import graph, saying

ROOT = Path(__file__).parents[2]
SERVED = json.loads((ROOT / "langgraph.json").read_text())["graphs"]


def served_graph(name):
    path, variable = SERVED[name]["path"].split(":")
    return runpy.run_path(str(ROOT / path))[variable]


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.usefixtures("local_models")
def test_every_graph_that_is_served_has_its_schemas(name):
    served = served_graph(name)
    context = served.get_context_jsonschema()
    assert (context is None) == (name == "council")  # no context changes a council
    for schema in filter(None, (served.get_input_jsonschema(), served.get_output_jsonschema(), context)):
        assert schema["type"] == "object"
        assert schema["properties"]
    assert {"question", "messages"} & served.get_input_jsonschema()["properties"].keys()


def test_the_schemas_hold_nothing_of_the_inner_state():
    compiled = graph(*saying("Paris", "Paris")).compile()
    given, returned = compiled.get_input_jsonschema(), compiled.get_output_jsonschema()
    assert set(given["properties"]) == {"question", "messages", "choices", "is_review", "tools", "answer_schema"}
    assert set(returned["properties"]) == {"decision", "messages", "responses", "labels", "former_responses"}
    assert "coe" in returned["$defs"]["DecisionData"]["properties"]
