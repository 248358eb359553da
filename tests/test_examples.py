"""Examples, deployable graphs and the README's Python blocks run as they stand."""

import json
import re
import runpy
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_readme_blocks_run(block):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_there_are_readme_blocks():
    assert len(BLOCKS) >= 2


GRAPHS = json.loads((ROOT / "langgraph.json").read_text())["graphs"]


def deployed(name):
    path, variable = GRAPHS[name].split(":")
    return runpy.run_path(str(ROOT / path))[variable]


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_deployable(name):
    graph = deployed(name)
    assert (graph.name, graph.checkpointer) == (name, None)  # the server brings its own checkpointer
    result = graph.invoke({"messages": [("user", "What is the chemical symbol for gold?")]})
    assert "Au" in result["messages"][-1].text


def test_the_deployed_agent_books_only_what_its_group_is_sure_of():
    graph = deployed("gated_tools_agent")
    graph.checkpointer = InMemorySaver()
    outcomes = {}
    for wish in ("Paris, France", "Lyon, France", "Canberra, Australia"):
        thread = {"configurable": {"thread_id": wish}}
        state = graph.invoke({"messages": [("user", f"Book {wish}.")]}, thread)
        asked = [one.value["args"]["city"] for one in state.get("__interrupt__", ())]
        outcomes[wish] = asked or state["messages"][-1].text.partition(":")[0]
    assert outcomes == {
        "Paris, France": "Booked",
        "Lyon, France": "book_flight was not run",
        "Canberra, Australia": ["Canberra"],
    }


def test_no_placeholder_is_left_in_the_readme():
    assert not re.findall(r"[A-Z]{4,}_[A-Z]+|\bDATE\b", re.sub(r"`[^`]*`", "", README))
