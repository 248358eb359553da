import re
import sys
from pathlib import Path

import pytest

from coe_agents.cli.inputs import load_named
from coe_agents.cli.options import ModelOptions
from coe_agents.config.schema import load_config
from tests.cli.command import run
from tests.configurations import table
from tests.servers import served

EXAMPLE = Path(__file__).parents[2] / "examples" / "coe.toml"
SERVED = {
    "provider": "openai",
    "model": "m",
    "base_url": "http://127.0.0.1:9/v1",
    "api_key_env": "COE_TEST_KEY",
}
AGENTS = table("[agents]", name="local", provider="tinyworld", model="tiny-llama") + "\n"
AGENTS += table("[agents]", name="served", **SERVED)
REST = table("clusterer", kind="normalized")
REST += table("policy", kind="regime", aleatoric_threshold=0.5, epistemic_threshold=0.3)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.setenv("COE_TEST_KEY", "secret-of-the-test")
    monkeypatch.chdir(tmp_path)

    def checked(text, code=0):
        Path("coe.toml").write_text(text)
        done = run("config", "check", "coe.toml", code=code)
        return " ".join((done.stderr if code else done.stdout).split())

    return checked


@pytest.mark.parametrize(
    "models", [[], ["-m", "tinyworld:tiny-llama", "--model", "tinyworld:tiny-qwen2", "--n", "3"]]
)
def test_init_writes_a_file_that_passes_the_check_as_it_stands(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run("config", "init", *models).stdout
    assert len(Path("coe.toml").read_text().splitlines()) <= 25
    assert out.startswith("Wrote coe.toml.")
    out = run("config", "check", "coe.toml").stdout
    assert "coe.toml is valid." in out
    assert "note:" not in out
    assert ("answers short" in " ".join(out.split())) == (not models)
    assert "tiny-qwen2 tinyworld tiny-qwen2 3" in " ".join(out.split()) or not models


def test_init_writes_the_server_that_the_environment_names_and_how_answers_are_compared(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-test")
    path, more = (
        tmp_path / "own.toml",
        ["-m", "openai:m", "-m", "tinyworld:tiny-llama", "--answers", "sentences"],
    )
    run("config", "init", "--out", path, *more)
    config, asked = (
        load_config(path),
        load_named(
            None, ModelOptions(models=["openai:m", "tinyworld:tiny-llama"], answers="sentences")
        ),
    )
    assert (config.agents, config.answers) == (asked.agents, asked.answers)
    served, local = config.agents
    assert served.base_url == config.answers.judge.base_url == "http://127.0.0.1:9/v1"
    assert (served.api_key_env, local.base_url) == ("OPENAI_API_KEY", None)
    path.write_text("mine")
    done = run("config", "init", "--out", path, code=2)
    assert (done.stdout, path.read_text()) == ("", "mine")
    run("config", "init", path, "--out", path, code=2)
    assert "it needs --model" in run("ask", "Who?", "--answers", "sentences", code=2).stderr


def test_models_of_tinyworld_are_asked_the_bare_question_and_judge_nobody():
    """In other words than those of their training they answer nonsense, and as judges, too."""
    tiny = ["tinyworld:tiny-llama", "tinyworld:tiny-qwen2"]

    def named(models, answers=None):
        config = load_named(None, ModelOptions(models=models, answers=answers))
        return config.answers, config.clusterer

    for answers in (None, "sentences"):
        asked, clusterer = named(tiny, answers)
        assert asked is None
        assert clusterer.kind == "entailment"
        assert clusterer.model == "tinyworld"
    asked, _ = named(tiny, "short")
    assert asked.kind == "short"
    asked, _ = named([tiny[0], "ollama:m"])
    assert asked.kind == "short"
    asked, _ = named([tiny[0], "ollama:m", "ollama:n"], "sentences")
    assert asked.judge.provider == "ollama"
    assert asked.judge.model == "m"


def test_a_model_that_is_named_twice_is_noted_and_asked(capsys):
    tiny = "tinyworld:tiny-llama"
    load_named(None, ModelOptions(models=[tiny, "tinyworld:tiny-qwen2"]))
    assert capsys.readouterr().err == ""
    config = load_named(None, ModelOptions(models=[tiny, tiny]))
    names = [agent.name for agent in config.agents]
    assert names == ["tiny-llama", "tiny-llama-2"]
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith(f"{tiny} is named more than once: that is one model")


def test_what_the_example_leaves_out_is_valid_as_well(checked, monkeypatch):
    text = EXAMPLE.read_text()
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-test")
    for part in re.findall(r"\n\[(?:policy|clusterer)\]\n(?:(?:# )?\w+ = .*\n)+", text):
        text = text.replace(part, "\n")
    for part in re.findall(r"\n# \[(?:policy|clusterer|answers)\].*\n(?:# \w+ = .*\n)+", text):
        text = text if '"llm"' in part or '"regime"' in part else text.replace(part, "\n")
    out = checked(re.sub(r"(?m)^# (?=\[|\w+ = )", "", text))
    assert "api openai gpt-4o-mini 10 1 1 $OPENAI_API_KEY, set" in out
    assert (
        "clusterer llm; openai Qwen/Qwen2.5-7B-Instruct at http://127.0.0.1:8001/v1 (key: none sent)"
        in out
    )
    assert "policy regime; aleatoric_threshold = 0.5; epistemic_threshold = 0.3" in out
    assert "escalation arbiter; openai gpt-4o (key: $OPENAI_API_KEY, set)" in out
    assert "judge openai gpt-4o (key: $OPENAI_API_KEY, set)" in out
    assert "coordination = softmax" in out


ALTERNATIVES = re.findall(
    r"\n# (\[clusterer\].*\n(?:# \w+ = .*\n)+|\[answers\].*\n(?:# \w+ = .*\n)+)",
    EXAMPLE.read_text(),
)


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=range(len(ALTERNATIVES)))
def test_each_alternative_of_the_example_is_valid(alternative, checked, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-test")
    Path("my_parts.py").write_text(
        "class SameNumber:\n"
        "    def __init__(self, digits): pass\n"
        "    def cluster(self, responses, questions): return [[0] * len(texts) for texts in responses]\n"
    )
    text = re.sub(r"\n\[clusterer\]\n(?:\w+ = .*\n)+", "\n", EXAMPLE.read_text())
    assert "is valid" in checked(text + "\n[" + alternative.lstrip("[").replace("\n# ", "\n"))


def test_a_short_answer_of_a_model_in_this_process_has_a_limit_that_an_option_changes():
    models = ["openai:m", "tinyworld:tiny-llama"]
    assert [agent.max_tokens for agent in named(models=models)] == [None, 64]
    assert [agent.max_tokens for agent in named(models=models, answers="sentences")] == [None, None]
    asked = named(models=models, max_tokens=9, temperature=0.5, system='Say "no".\n😀')
    for agent in asked:
        assert (agent.max_tokens, agent.temperature, agent.system_prompt) == (
            9,
            0.5,
            'Say "no".\n😀',
        )


def named(**options):
    return load_named(None, ModelOptions(**options)).agents


@pytest.mark.parametrize("option", ["--max-tokens", "--temperature", "--system"])
def test_how_models_are_asked_needs_models(option):
    assert "it needs --model" in run("ask", "Who?", option, "1", code=2).stderr


def test_nothing_is_cut_on_a_narrow_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COE_TEST_KEY", "secret-of-the-test")
    named = f"{'a-long-name-' * 8}end"
    answers = f'[answers]\nkind = "sentences"\nmodel = "hub/{named}"\ninstruction = ""\n'
    (tmp_path / "coe.toml").write_text(answers + AGENTS.replace("local", "claude-haiku-4-5"))
    shown = run("config", "check", tmp_path / "coe.toml", wide=80).stdout
    assert f'model=hub/{named};instruction=""' in "".join(shown.split())
    assert "claude-haiku-4-5 " in shown


def test_a_path_that_ends_in_gguf_is_a_file(checked, monkeypatch):
    # as where its reader is installed
    monkeypatch.setattr("coe_agents.backends.chat_transformers.find_spec", lambda package: package)
    Path("small.gguf").touch()
    for name in ("small.gguf", Path("small.gguf").absolute()):
        local = table("[agents]", name="local", model=str(name))
        assert "small.gguf(file)" in "".join(checked(local).split())


def test_check_calls_nobody_and_loads_nothing(checked, monkeypatch):
    def load(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("coe_agents.backends.chat_transformers.load", load)
    monkeypatch.setattr("coe_agents.backends.entailment_transformers.load", load)
    with served() as server:
        text = AGENTS.replace("http://127.0.0.1:9/v1", server.url) + REST
        out = checked(text.replace('"normalized"', '"entailment"\nmodel = "tinyworld"'))
    assert f"served openai m at {server.url} 5 1 1" in out
    assert (server.requests, server.n_listed) == ([], 0)


@pytest.mark.wording
def test_a_package_that_is_missing_is_a_mistake_of_the_file(checked, monkeypatch):
    for name in ("chat_transformers", "entailment_transformers"):
        monkeypatch.setitem(sys.modules, f"coe_agents.backends.{name}", None)
    err = checked(AGENTS + REST.replace('"normalized"', '"entailment"'), code=2)
    assert "coe.toml:3: agents[0].provider: ChatTransformers needs the package" in err
    assert "coe.toml:13: clusterer.kind: TransformersEntailment needs the package" in err
    assert err.count("pip install 'coe-agents[local]'") == 2


ODD = {
    "0.7\n": "note: a max_coe of 0.7 answers agents that are split in two",
    '0.5\notherwise = "another_round"\n': 'note: coe.toml:17: policy.otherwise: "another_round" '
    'becomes "abstain", because max_rounds of [graph]',
    "0.5\n[graph]\ntoken_budget = 9\n": 'note: nothing is bounded by "token_budget"',
    '0.5\n[escalation]\nkind = "arbiter"\nmodel = "hub/model"\n': ""
    'note: no action of ThresholdPolicy is "escalate", so "escalation" is never asked',
}


def check_odd(checked, text):
    policy = '[policy]\nkind = "threshold"\nmax_coe = '
    return checked(AGENTS + table("clusterer", kind="normalized") + policy + text)


@pytest.mark.parametrize("text", ODD)
def test_what_is_allowed_and_odd_is_a_note(checked, text):
    assert "note: " in check_odd(checked, text)


@pytest.mark.wording
def test_a_note_says_what_is_odd(checked):
    for text, says in ODD.items():
        assert says in check_odd(checked, text)
