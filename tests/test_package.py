"""What the package as a whole promises: its names, its layers, its lightness."""

import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

import coe_agents
from coe_agents import _ring

ROOT = Path(__file__).parent.parent


def loaded_after(statement: str) -> set[str]:
    """Runs a statement in a fresh interpreter and returns the modules that it loaded."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    return set(done.stdout.split())


EXPORTED = """
Arbiter AskPerson BidirectionalEntailment CalibratedPolicy CoEContext CoECouncil CoEMiddleware CoETelemetry
Debate GroupDecision ModelAgent NormalizedMatch Recording RegimePolicy SupportPolicy
ThresholdPolicy aask arun asample ask calibrate compare create_coe_graph create_coe_tool create_sequential_graph
evaluate load_model mathematics run sample score sentences short_answers
"""


def test_exported_names():
    assert coe_agents.__all__ == EXPORTED.split()
    of_the_ring = {"CoETelemetry": "observability", "Recording": "rulings"}
    for name in coe_agents.__all__:
        if _ring.is_there(of_the_ring.get(name, "graph")):
            assert getattr(coe_agents, name).__name__ == name
    assert set(coe_agents.__all__) <= set(dir(coe_agents))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = coe_agents.nonsense


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        (
            "import coe_agents.uncertainty, coe_agents.clustering, coe_agents.policy",
            "torch transformers langchain_core langgraph pydantic rich typer",
        ),
        (
            "from coe_agents import create_coe_graph, ModelAgent",
            "torch transformers scipy coe_agents.observability prometheus_client",
        ),
        ("import coe_agents.cli", "numpy scipy torch transformers langgraph langchain_core"),
    ],
)
def test_what_is_heavy_is_imported_when_it_is_needed(statement, heavy):
    assert not {*heavy.split()} & loaded_after(statement)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["score", "report", "advise"])
def test_commands_on_saved_responses_load_no_graph_and_no_model(command, tmp_path):
    path = tmp_path / "s.samples.jsonl"
    rows = []
    for number in range(60):
        for agent in "ab":
            said = {"agent": agent, "index": 0, "text": "Paris" if number % 3 else f"{agent}ma"}
            rows.append({"id": str(number), "question": "?", "references": ["Paris"], **said})
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    arguments = [command, str(path), "--clusterer", "normalized"]
    if command == "report":
        arguments += ["--out", str(tmp_path / "r.html")]
    run = f"from coe_agents.cli import main; sys.argv[1:] = {arguments}"
    statement = f"{run}\ntry:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end"
    heavy = "langgraph langchain_core torch transformers"
    assert not {*heavy.split()} & loaded_after(statement)


EXTRAS = (
    "langchain",
    "langchain_openai",
    "langchain_huggingface",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "sklearn",
    "matplotlib",
    "opentelemetry",
    "datasets",
    "jinja2",
    "filelock",
    "ray",
    "starlette",
    "uvicorn",
)
SCRIPTED = "ScriptedAgent('a', ['x'])"
MODEL = "ModelAgent('a', 'openai:x')"
GRAPH = "create_coe_graph([ScriptedAgent('a', ['x'])], clusterer={}, policy=ThresholdPolicy(0.5){}).compile()"


WITHOUT = [
    (
        f"print({GRAPH.format('NormalizedMatch()', '')}.invoke({{'question': '?'}})['decision']['answer'])",
        "x",
    ),
    ("import coe_agents.serve", 'pip install "coe-agents[serve]"'),
    (
        "import coe_agents as c; c.create_coe_tool; c.CoEMiddleware",
        'pip install "coe-agents[langchain]"',
    ),
    (
        "import coe_agents.backends as b; b.TransformersEntailment('m')",
        "'torch'; install it with: pip install",
    ),
    ("import coe_agents.backends as b; b.ChatTransformers('m')", "pip install 'coe-agents[local]'"),
    (
        (
            f"print({GRAPH.format('NormalizedMatch()', '').replace(SCRIPTED, MODEL)}"
            ".invoke({'question': '?'})['decision']['failed_agents'])"
        ),
        'needs langchain; pip install "coe-agents[openai]"',
    ),
    *(
        (
            f"sys.argv[1:] = {given}; from coe_agents.cli.app import main; main()",
            "the default group is tinyworld, whose models need safetensors, tokenizers, torch, transformers",
        )
        for given in (["ask", "Capital of France?"], ["demo"])
    ),
]
# each in a fork, so that none finds what another one imported or set
FORKS = f"""
import os, sys
sys.modules.update(dict.fromkeys({EXTRAS}))
from coe_agents import create_coe_graph, ModelAgent, NormalizedMatch, ThresholdPolicy
from coe_agents.testing import ScriptedAgent
for code in sys.argv[1:]:
    if os.fork() == 0:
        try:
            exec(code)
        except (Exception, SystemExit) as error:
            print(type(error).__name__, error)
        break
    os.wait()
    print(end=chr(0), flush=True)
"""


@cache
def said_without_the_extras():
    """What each code prints, or the error that it raises, where only the packages that are always needed are there."""
    codes = [code for code, _ in WITHOUT]
    done = subprocess.run(
        [sys.executable, "-c", FORKS, *codes],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return dict(zip(codes, done.stdout.split("\0"), strict=False))


@pytest.mark.slow
@pytest.mark.parametrize(("code", "said"), WITHOUT)
def test_without_an_extra_the_error_names_it(code, said):
    assert said in said_without_the_extras()[code]


def test_the_entry_for_the_registry_of_mcp_and_the_citation_are_of_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == coe_agents.__version__
    entry = json.loads((ROOT / "server.json").read_text())
    assert entry["version"] == coe_agents.__version__
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text()
    assert 1 <= len(entry["description"]) <= 100
    (remote,) = entry["remotes"]
    assert set(re.findall(r"\{(\w+)\}", remote["url"])) == set(remote["variables"])
    assert re.fullmatch(
        r"https://\S+", remote["url"]
    )  # its registry takes no other, also with variables


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "workflows").iterdir()), ids=lambda path: path.stem
)
def test_workflows_call_targets_that_exist_and_pin_their_actions(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}  # a job that needs more says so itself
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        needs = job.get("needs", [])
        assert ({needs} if isinstance(needs, str) else {*needs}) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[\w./-]+", step.get("uses", "a/b@v1")), step
            assert (
                set(re.findall(r"^\s*make ([a-z-]+)", step.get("run", ""), re.MULTILINE)) <= targets
            ), step


def test_workflows_test_every_python_that_the_package_names():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


def packages_of(row):
    return {name.strip(" `") for name in row.split("|")}


def test_contributing_lists_the_layers_as_they_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    ring, *core = contracts["contracts"][0]["layers"]
    page = (ROOT / "CONTRIBUTING.md").read_text()
    of_core = page.partition("| packages | own |\n")[2].partition("\n\n")[0]
    of_ring = page.partition("| room | owns |\n")[2].partition("\n\n")[0]

    rows = [re.split(r"(?<!\\)\|", line)[1].replace("\\", "") for line in of_core.splitlines()[1:]]
    assert [packages_of(row) for row in rows] == [packages_of(layer) for layer in reversed(core)]
    rooms = {line.split("|")[1].strip(" `") for line in of_ring.splitlines()[1:]}
    assert rooms == packages_of(ring)
