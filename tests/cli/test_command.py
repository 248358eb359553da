import json
import os
import subprocess
import sys

import pytest

from coe_agents import ask
from coe_agents.testing import ScriptedAgent
from coe_agents.tinyworld import model_folder
from tests.cli.command import run
from tests.cli.test_sample import config
from tests.rooms import needs

AGENT = '[[agents]]\nname = "{name}"\nmodel = "{model}"\nn_samples = 4\nseed = 0\n'


def test_an_answer_is_one_json_object_and_exit_0():
    done = run("ask", "What is the capital of France?", "--json")
    said = json.loads(done.stdout)
    assert done.stderr == ""
    assert "Paris" in said["answer"]
    assert said["coe"] == pytest.approx(said["aleatoric"] + said["epistemic"])
    assert set(said["agents"]) == {"tiny-llama", "tiny-qwen2", "tiny-mistral"}
    for agent in said["agents"].values():
        assert agent["n_responses"] == 10
        assert sum(agent["distribution"].values()) == pytest.approx(1)


def test_an_abstention_is_exit_3():
    done = run("ask", "What is the capital of Australia?", code=3)
    assert "No answer: they disagree." in done.stdout
    assert (
        done.stderr
        == "tinyworld: small models trained on an invented world. Others: --model or --config FILE.\n"
    )
    assert "Canberra" in done.stdout
    assert "Sydney" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["demo"], ["doctor"], ["sample", "--dataset", "tinyworld", "--out", "r"]]
)
def test_without_torch_there_is_no_default_group(arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.chdir(tmp_path)
    run(*arguments, code=2)
    assert not list(tmp_path.iterdir())


def test_without_its_key_a_model_is_a_mistake_to_the_command_and_one_that_failed_to_python(
    monkeypatch,
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    others = ["-m", "tinyworld:tiny-llama", "-m", "tinyworld:tiny-qwen2"]
    done = run("ask", "Who?", "-m", "openai:m", *others, "--json", code=2)
    assert done.stdout == ""
    group = ["openai:m", ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Paris"])]
    decision = ask("Of France?", models=group)
    assert (decision.answer, [*decision.failed_agents]) == ("Paris", ["m"])


@pytest.mark.wording
def test_without_torch_the_default_group_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("ask", "Q?", code=2)
    assert done.stderr.startswith(
        "coe-agents: the default group is tinyworld, whose models need torch (not installed)"
    )
    assert (
        'Run pip install "coe-agents[local]", or name another group with --config FILE'
        in done.stderr
    )


def test_an_escalation_is_exit_4(tmp_path):
    agents = "".join(
        AGENT.format(name=name, model=model_folder(name)) for name in ("tiny-llama", "tiny-qwen2")
    )
    path = config(tmp_path, agents, max_coe=0.01, otherwise="escalate")
    run("ask", "What is the capital of Australia?", "--config", path, code=4)


@pytest.mark.slow
@pytest.mark.wording
@needs("claims")
def test_the_demo_shows_every_regime():
    done = run("demo")
    for regime in ("consensus:", "conflict:", "ambiguous:", "unknown:"):
        assert regime in done.stdout
    assert "All three agents propose to call nothing." in done.stdout
    assert "They disagree about `name` of `transfer`" in " ".join(done.stdout.split())


@pytest.mark.slow
@needs("claims")
def test_the_demo_declines_what_is_outside_its_world_and_runs_only_an_agreed_call():
    done = run("demo")
    assert done.stdout.count("→ ") == 9
    assert done.stdout.count("No answer: they disagree.") == 3
    assert done.stdout.count("No answer: they are not sure.") == 1
    assert done.stdout.count("No answer: they decline to answer.") == 1
    assert done.stdout.count(" was run: ") == 1
    assert "transfer was run: Paid 60 euros to Nina." in done.stdout
    assert "→ Ulaanbaatar is the capital of Mongolia. [...] The official language" in " ".join(
        done.stdout.split()
    )
    assert "The currency of Mongolia is the ringgit. left out" in " ".join(done.stdout.split())


LOADS = """
import coe_agents.cli.app as command

def load():
    from tqdm.auto import tqdm
    from transformers.utils import logging

    for bar_of in (tqdm, logging.tqdm):
        for _ in bar_of(range(3), desc="Loading"):
            pass

command.app = load
command.main()
"""


def test_libraries_that_load_models_show_no_bars():
    hides = ("HF_HUB_DISABLE_PROGRESS_BARS", "TQDM_DISABLE")
    own = {name: value for name, value in os.environ.items() if name not in hides}
    done = subprocess.run(
        [sys.executable, "-c", LOADS], env=own, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
