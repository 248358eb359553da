"""Examples, deployable graphs and the README's Python blocks run as they stand."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


GOLD = {"messages": [("user", "What is the chemical symbol for gold?")]}

# those on vLLM run in tests/vllm
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if not path.stem.startswith("vllm_")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_readme_blocks_run(block):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_there_are_readme_blocks():
    assert len(BLOCKS) >= 2


def test_graphs_are_deployable():
    named = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    for name, place in named.items():
        path, variable = place.split(":")
        graph = runpy.run_path(str(ROOT / path))[variable]
        assert graph.checkpointer is None  # the server brings its own
        asked = {"question": "What is the capital of France?"} if name == "sequential_agents" else GOLD
        assert graph.invoke(asked)["decision"]["action"] == "answer"


def test_no_placeholder_is_left_in_the_readme():
    assert not re.findall(r"[A-Z]{4,}_[A-Z]+|\bDATE\b", re.sub(r"`[^`]*`", "", README))
