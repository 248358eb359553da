"""What the package as a whole promises: its names, its layers, its lightness."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import coe_agents

ROOT = Path(__file__).parent.parent


def loaded_after(statement: str) -> set[str]:
    """Runs a statement in a fresh interpreter and returns the modules that it loaded."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    return set(done.stdout.split())


def test_exported_names():
    assert coe_agents.__all__ == [
        "AdaptiveSampling",
        "Arbiter",
        "AskPerson",
        "CalibratedPolicy",
        "CoEMiddleware",
        "Decision",
        "GroupDecision",
        "Measurement",
        "ModelAgent",
        "RegimePolicy",
        "ThresholdPolicy",
        "aask",
        "ask",
        "candidates",
        "create_coe_graph",
        "create_coe_tool",
        "plot_regimes",
    ]
    for name in coe_agents.__all__:
        assert getattr(coe_agents, name).__name__ == name
    assert set(coe_agents.__all__) <= set(dir(coe_agents))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = coe_agents.nonsense


def test_the_core_needs_no_model_library():
    heavy = {"torch", "transformers", "langchain_core", "langgraph", "pydantic", "rich", "typer"}
    assert not heavy & loaded_after("import coe_agents")
    assert not heavy & loaded_after("import coe_agents.uncertainty, coe_agents.clustering, coe_agents.policy")


def test_the_graph_needs_no_model():
    assert not {"torch", "transformers"} & loaded_after("from coe_agents import create_coe_graph, ModelAgent")


def test_without_langchain_the_middleware_says_what_to_install():
    code = "import sys; sys.modules['langchain'] = None; import coe_agents; coe_agents.create_coe_tool; "
    told = "try: coe_agents.CoEMiddleware\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, check=True)
    assert 'pip install "coe-agents[langchain]"' in done.stdout


def test_help_loads_nothing_heavy():
    assert not {"torch", "transformers", "langgraph", "langchain_core"} & loaded_after("import coe_agents.cli")


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == coe_agents.__version__


def test_torch_is_pinned():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
