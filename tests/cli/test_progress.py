import json

import pytest

from coe_agents import RegimePolicy, create_coe_graph
from coe_agents.cli.ask import _decide
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent
from tests.cli.command import Terminal, run
from tests.evaluation.invented import group, write
from tests.rooms import needs

POLICY = '[[agents]]\nname = "a"\nmodel = "m"\nprovider = "openai"\nbase_url = "http://x/v1"\n'
POLICY += '[policy]\nkind = "threshold"\nmax_coe = 1\n[clusterer]\nkind = "normalized"\n'
COMMANDS = [
    "score s.jsonl --resamples 2",
    "calibrate s.jsonl --risk 0.9 --out p.json",
    "compare s.jsonl --policies p.toml --resamples 2",
    pytest.param("advise s.jsonl --resamples 2", marks=needs("advice")),
    pytest.param("report s.jsonl --resamples 2", marks=needs("pages")),
]


@pytest.fixture(autouse=True)
def samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.jsonl", group(60, n_samples=2))
    (tmp_path / "p.toml").write_text(POLICY)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_samples_counts_questions_on_a_terminal_and_nowhere_else(command):
    on_terminal = run(*command.split(), err=Terminal())
    elsewhere = run(*command.split())
    assert "60/60" in on_terminal.stderr
    assert elsewhere.stderr == ""
    assert on_terminal.stdout == elsewhere.stdout


def test_beside_json_nothing_is_shown():
    done = run("score", "s.jsonl", "--resamples", 2, "--json", err=Terminal())
    assert json.loads(done.stdout)["n_scored"] == 60
    assert done.stderr == ""


def test_progress_is_shown_beside_a_name_that_reads_as_the_option_of_json(tmp_path):
    (tmp_path / "s.jsonl").rename("--json")
    assert "60/60" in run("score", "--resamples", 2, "--", "--json", err=Terminal()).stderr


def test_who_has_answered_is_shown_while_a_group_is_asked():
    agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ValueError("off"))]
    graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=RegimePolicy())
    texts = []
    compiled = graph.compile()
    decision = _decide(compiled, {"question": "Capital?"}, texts.append)
    assert decision == compiled.invoke({"question": "Capital?"})["decision"]
    assert texts[0].startswith("0 of ")
    assert texts[-1] == "1 of 2 agents answered: a"


def test_ask_and_score_name_the_model_that_is_loaded(monkeypatch):
    pytest.importorskip("transformers")
    from transformers import AutoModelForCausalLM

    from coe_agents import activity
    from coe_agents.backends import model_loading
    from coe_agents.tinyworld import model_folder

    monkeypatch.setattr(model_loading, "_loaded", {})
    monkeypatch.setattr(model_loading, "_read", lambda *_, **__: activity.activities())
    folder = str(model_folder("tiny-llama"))
    seen = model_loading.load(AutoModelForCausalLM, folder, device="cpu", dtype=None, revision=None)
    assert seen == ["loading tiny-llama"]
