import re
import runpy
import sys
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.graph.groups import THREAD
from tests.graph.test_schemas import SERVED, served_graph

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


# those on vLLM run in tests/vllm, that with inspect_ai in tests/test_inspect_approver.py
SLOW = {"sequential_agents", "three_ways"}
FEWER = {"three_ways": ["3"]}
"""What an example is given in place of all of its questions."""
EXAMPLES = [
    pytest.param(path.name, marks=pytest.mark.slow if path.stem in SLOW else ())
    for path in sorted(ROOT.glob("examples/*.py"))
    if not path.stem.startswith(("vllm_", "inspect_"))
]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name, capsys, monkeypatch):
    path = ROOT / "examples" / name
    monkeypatch.setattr(sys, "argv", [str(path), *FEWER.get(path.stem, ())])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_readme_blocks_run(block):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
def test_graphs_are_deployable(name):
    graph = served_graph(name)
    assert graph.name == name
    assert graph.checkpointer is None
    deployed = graph.copy(update={"checkpointer": InMemorySaver()})  # which a server brings
    if name == "council":
        state = deployed.invoke(
            {"messages": [("user", "Convert 3 metres to centimetres.")]}, THREAD
        )
        assert state["council"]["action"] == "answer"
        assert state["council"]["decided_by"] == "group"
        assert "300 centimetres" in state["messages"][-2].text
    else:
        result = deployed.invoke(
            {"messages": [("user", "What is the chemical symbol for gold?")]}, THREAD
        )
        assert "Au" in result["messages"][-1].text
