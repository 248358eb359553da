"""A command finds `coe.toml` in its folder, says so, and obeys it only where it runs no code and sends no key."""

import json
from pathlib import Path

import pytest

from coe_agents.cli.inputs import load_named
from coe_agents.cli.options import ModelOptions
from coe_agents.errors import ConfigurationError
from tests.cli.command import run
from tests.configurations import table

pytest.importorskip("transformers")
OWN = {"provider": "tinyworld", "model": "tiny-llama", "n_samples": 1, "max_tokens": 4}
AGENT = table("[agents]", name="mine", **OWN)
QUESTION = "What is the capital of France?"


@pytest.fixture
def found(tmp_path, monkeypatch):
    """Writes `coe.toml` into the present folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COE_CONFIG", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return Path("coe.toml").write_text


def test_ask_sample_run_and_doctor_find_it_and_name_it(found):
    found(AGENT)
    Path("q.jsonl").write_text(json.dumps({"id": "1", "question": QUESTION, "references": ["x"]}))
    asked = run("ask", QUESTION, "--json", code=None)
    assert [*json.loads(asked.stdout)["agents"]] == ["mine"]
    examined = run("doctor", "--json", code=None)
    assert [*json.loads(examined.stdout)["agents"]] == ["mine"]
    sampled = run("sample", "--dataset", "q.jsonl", "--out", "sampled")
    ran = run("run", "--dataset", "q.jsonl", "--out", "ran")
    for done in (asked, examined, sampled, ran):
        assert "The group of coe.toml, which is in this folder" in done.stderr


AGENT_OF = "[[agents]]\nname = 'a'\nmodel = 'm'\n"
EXCESSES = {
    "a clusterer": AGENT + "[clusterer]\nkind = 'evil:Part'\n",
    "a policy": AGENT + "[policy]\nkind = 'evil:Part'\n",
    "an estimator": AGENT + "[policy]\nkind = 'calibrated'\npath = 'p'\nestimator = 'evil:Part'\n",
    "a solver": AGENT + "[graph]\ncoordination = 'evil:Part'\n",
    "a server of somebody's": AGENT_OF
    + "provider = 'openai'\nbase_url = 'http://evil.example/v1'\n",
    "a key": AGENT_OF + "provider = 'openai'\napi_key_env = 'SECRET'\n",
    "a key to this machine": AGENT_OF
    + "provider = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\napi_key_env = 'SECRET'\n",
    "an address in an option": AGENT_OF
    + "provider = 'openai'\noptions = { openai_proxy = 'http://evil.example' }\n",
    "code of a model": AGENT_OF + "options = { trust_remote_code = true }\n",
    "a client that is not known": AGENT_OF + "provider = 'bedrock'\n",
    "embeddings in this process": AGENT
    + "[clusterer]\nkind = 'embedding'\nprovider = 'huggingface'\nmodel = 'm'\nthreshold = 0.9\n",
    "a judge's server": AGENT
    + "[judge]\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'http://e.example'\n",
    "a judge's server of answers": AGENT
    + "[answers]\nkind = 'sentences'\njudge = { provider = 'openai', model = 'm', base_url = 'http://e' }\n",
    "a store": AGENT + "[record]\nstore = 'postgresql://evil.example/x'\n",
}


FIELDS = {
    "a clusterer": "clusterer.kind",
    "a policy": "policy.kind",
    "an estimator": "policy.estimator",
    "a solver": "graph.coordination",
    "a server of somebody's": "agents[0].base_url",
    "a key": "agents[0].api_key_env",
    "a key to this machine": "agents[0].api_key_env",
    "an address in an option": "agents[0].options",
    "code of a model": "agents[0].options",
    "a client that is not known": "agents[0].provider",
    "embeddings in this process": "clusterer.provider",
    "a judge's server": "judge.base_url",
    "a judge's server of answers": "clusterer.base_url",
    "a store": "record.store",
}
"""The field of each that is refused."""


@pytest.mark.parametrize("what", EXCESSES)
def test_what_runs_code_or_sends_anything_is_refused_unless_the_file_is_named(
    what, found, monkeypatch
):
    monkeypatch.setenv("SECRET", "secret-of-the-test")
    Path("evil.py").write_text("open('ran.txt', 'w')\n")
    found(EXCESSES[what])
    with pytest.raises(
        ConfigurationError, match=r"coe\.toml:.*was found in this folder, not named"
    ) as refused:
        load_named(None, ModelOptions())
    assert refused.value.field == FIELDS[what]

    err = run("ask", QUESTION, code=2).stderr
    assert "secret-of-the-test" not in str(refused.value) + err
    assert not Path("ran.txt").exists()
    monkeypatch.setenv("COE_CONFIG", "coe.toml")
    assert load_named(None, ModelOptions()) is not None


@pytest.mark.parametrize("kind", ["short", "mathematics", "sentences"])
def test_the_file_that_init_writes_is_obeyed_where_it_is_found(kind, found):
    models = ("--model", "tinyworld:tiny-llama", "--model", "transformers:owner/name")
    run("config", "init", *models, "--answers", kind)
    assert load_named(None, ModelOptions()).answers.kind == kind


def test_the_server_of_the_users_environment_may_be_asked_with_its_key(found, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gpu.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-test")
    monkeypatch.setattr("sys.argv", ["coe-agents"])
    run("config", "init", "--model", "openai:m")
    assert load_named(None, ModelOptions()).agents[0].base_url == "http://gpu.example/v1"


def test_models_count_before_a_file_that_is_found(found):
    found(AGENT)
    (agent,) = load_named(None, ModelOptions(models=["tinyworld:tiny-qwen2"])).agents
    assert agent.name == "tiny-qwen2"
