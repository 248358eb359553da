import json
import runpy
from pathlib import Path

from tests.graph.groups import graph, saying

ROOT = Path(__file__).parents[2]
SERVED = json.loads((ROOT / "langgraph.json").read_text())["graphs"]


def served_graph(name):
    path, variable = SERVED[name]["path"].split(":")
    return runpy.run_path(str(ROOT / path))[variable]


def test_the_schemas_hold_nothing_of_the_inner_state():
    compiled = graph(*saying("Paris", "Paris")).compile()
    given = compiled.get_input_jsonschema()
    returned = compiled.get_output_jsonschema()
    assert set(given["properties"]) == {
        "question",
        "messages",
        "choices",
        "is_review",
        "tools",
        "answer_schema",
    }
    assert set(returned["properties"]) == {
        "decision",
        "messages",
        "responses",
        "labels",
        "former_responses",
    }
    assert "coe" in returned["$defs"]["DecisionData"]["properties"]
