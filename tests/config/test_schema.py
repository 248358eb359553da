import re
from pathlib import Path

import pytest

from coe_agents.config.build import assemble, create_agents
from coe_agents.config.checks import check
from coe_agents.config.schema import line_of, load_config
from coe_agents.errors import ConfigurationError
from coe_agents.rounds import AdaptiveSampling

GOOD = """\
[[agents]]
name = "a"
provider = "tinyworld"
model = "tiny-llama"

[[agents]]
name = "b"
provider = "openai"
model = "served"
base_url = "http://127.0.0.1:9/v1"
temperature = 0.7
[agents.options]
timeout = 5

[clusterer]
kind = "normalized"

[policy]
kind = "regime"
aleatoric_threshold = 0.5
epistemic_threshold = 0.3
[policy.actions]
conflict = "escalate"

[graph]
max_rounds = 2
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "coe.toml"
    path.write_text(text)
    return path


def test_a_whole_file_becomes_a_graph(tmp_path):
    config = load_config(written(tmp_path, GOOD))
    assert config.agents[1].options == {"timeout": 5}
    assert config.policy.actions == {"conflict": "escalate"}
    assert {"a", "b", "cluster"} <= set(assemble(config).nodes)


@pytest.mark.parametrize(
    ("found", "put", "line", "says"),
    [
        (
            "temperature = 0.7",
            "temperature = -1",
            11,
            "agents[1].temperature: Input should be greater than or equal to 0; got -1",
        ),
        ('name = "b"', 'nam = "b"', 6, "agents[1].name: required field is missing"),
        ('kind = "normalized"', 'kind = "magic"', 16, "clusterer"),
        ("aleatoric_threshold = 0.5", 'aleatoric_threshold = "high"', 20, "aleatoric_threshold"),
        ('conflict = "escalate"', 'conflict = "panic"', 23, "actions.conflict"),
        ("max_rounds = 2", "max_round = 2", 26, "graph.max_round"),
        ("max_rounds = 2", "max_rounds = 0", 26, "graph.max_rounds"),
        ("max_rounds = 2", "token_budget = 0", 26, "graph.token_budget"),
        ("max_rounds = 2", "deadline = nan", 26, "graph.deadline"),
        ("max_rounds = 2", "[graph.adaptive]\nstart = 0", 27, "graph.adaptive.start"),
        ("max_rounds = 2", "[graph.adaptive]\nstop = 1", 27, "graph.adaptive.stop"),
        ("max_rounds = 2", '[graph.strategies]\nconflict = "argue"', 27, "graph.strategies.conflict"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path, found, put, line, says):
    path = written(tmp_path, GOOD.replace(found, put))
    with pytest.raises(ConfigurationError) as raised:
        load_config(path)
    assert f"{path}:{line}: " in str(raised.value)
    assert says in str(raised.value)


def test_what_is_no_toml_says_where(tmp_path):
    with pytest.raises(ConfigurationError, match=r"is not TOML: .*line 2"):
        load_config(written(tmp_path, "a = 1\nb = = 2"))


@pytest.mark.parametrize("text", ["[agents]\nname = 'a'\n[agents]\nname = 'b'", "a = 1\na = 2"])
def test_what_is_there_twice_says_so(tmp_path, text):
    with pytest.raises(ConfigurationError, match=r"is not TOML: .*Write each field and each table once"):
        load_config(written(tmp_path, text))


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_config(tmp_path / "none.toml")


ARBITER = """
[escalation]
kind = "arbiter"
provider = "tinyworld"
model = "tiny-mistral"
"""


def test_an_arbiter_decides_what_is_escalated(tmp_path):
    nodes = assemble(load_config(written(tmp_path, GOOD + ARBITER))).nodes
    assert "escalation" in nodes
    assert "escalation" not in assemble(load_config(written(tmp_path, GOOD))).nodes


@pytest.mark.parametrize(
    ("found", "put", "says"),
    [
        ("tiny-mistral", "gpt", r'coe.toml:31: escalation.model: "model" of the arbiter must be one of .*; got "gpt"'),
        ('"arbiter"', '"person"', r"coe.toml:29: escalation.kind: Input should be 'arbiter'"),
        ("[escalation]", '[escalation]\nname = "a"', r"coe.toml:2: agents\[0\].name: the name of \"escalation\" must"),
        ("[escalation]", "[escalation]\nn_samples = 2", r"coe.toml:29: escalation.n_samples: unknown field"),
    ],
)
def test_a_mistake_about_the_arbiter_is_named_with_its_line(tmp_path, found, put, says):
    with pytest.raises(ConfigurationError, match=says):
        assemble(load_config(written(tmp_path, GOOD + ARBITER.replace(found, put))))


@pytest.mark.parametrize(
    ("judge", "says"),
    [
        (
            'provider = "tinyworld"\nmodel = "gpt"',
            r'coe.toml:30: judge.model: "model" of the judge must be one of .*; got "gpt"',
        ),
        ('provider = "openai"', r"coe.toml:28: judge.model: required field is missing"),
        ('model = "a"\nn_samples = 2', r"coe.toml:30: judge.n_samples: unknown field"),
        ('model = "./none"', r"coe.toml:29: judge.model: the folder .* does not exist"),
    ],
)
def test_a_mistake_about_the_judge_is_named_with_its_line(tmp_path, judge, says):
    with pytest.raises(ConfigurationError, match=says):
        check(load_config(written(tmp_path, f"{GOOD}\n[judge]\n{judge}\n")))


def test_keys_come_from_the_environment_by_name(tmp_path, monkeypatch):
    path = written(tmp_path, GOOD.replace("temperature = 0.7", 'api_key_env = "COE_TEST_KEY"'))
    with pytest.raises(ConfigurationError, match='"COE_TEST_KEY" of agent "b" must hold a key; it is not set'):
        assemble(load_config(path))
    monkeypatch.setenv("COE_TEST_KEY", "secret")
    assert "b" in assemble(load_config(path)).nodes


@pytest.mark.parametrize("key", ["sk-planted", "gsk_planted0123"])
def test_a_key_in_place_of_its_name_is_not_shown(tmp_path, key):
    path = written(tmp_path, GOOD.replace("temperature = 0.7", f'api_key_env = "{key}"'))
    with pytest.raises(ConfigurationError, match="must be the NAME of an environment variable") as caught:
        check(load_config(path))
    assert "planted" not in str(caught.value)


def test_the_users_own_key_is_not_sent_to_a_base_url(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "own")
    model = create_agents(load_config(written(tmp_path, GOOD)))[1].model()
    assert model.openai_api_key.get_secret_value() == "none"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ('"b"', r"coe.toml:10: agents\[1\].base_url: must be an address"),
        ('"http://u:p@b/v1"', r"coe.toml:10: agents\[1\].base_url: the file must not contain a pass"),
        ("3", r"coe.toml:10: agents\[1\].base_url: Input should be a valid string"),
        ('["http://a/v1", "http://b/v1"]', "must be one address; got a list of 2. Put a proxy in front of several"),
    ],
)
def test_each_address_is_checked(tmp_path, address, says):
    with pytest.raises(ConfigurationError, match=says):
        load_config(written(tmp_path, GOOD.replace('"http://127.0.0.1:9/v1"', address)))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("3", r"coe.toml:2: agents\[0\].name: Input should be a valid string; got a number. Put it in quotes"),
        ("2026-11-23", "name: Input should be a valid string; got a date. Put it in quotes"),
        ("[true]", "name: Input should be a valid string; got a list"),
        ("true", "name: Input should be a valid string; got true or false. Put it in quotes"),
    ],
)
def test_a_value_of_another_kind_is_named_with_the_remedy(tmp_path, given, says):
    with pytest.raises(ConfigurationError, match=says):
        load_config(written(tmp_path, re.sub("name = .*", f"name = {given}", GOOD, count=1)))


def test_a_model_that_tinyworld_lacks_is_said(tmp_path):
    with pytest.raises(ConfigurationError, match='"model" of agent "a" must be one of tiny-llama'):
        assemble(load_config(written(tmp_path, GOOD.replace("tiny-llama", "gpt"))))


def test_agents_that_do_not_fit_together_are_a_mistake_of_the_file(tmp_path):
    with pytest.raises(ConfigurationError, match="got 'a' twice"):
        assemble(load_config(written(tmp_path, GOOD.replace('name = "b"', 'name = "a"'))))


def test_a_line_that_is_not_there_falls_back_to_its_table():
    assert line_of("[policy]\nkind = 'threshold'", ("policy", "threshold", "max_coe")) == 1
    assert line_of("", ("agents",)) == 1


@pytest.mark.parametrize(
    ("found", "put", "says"),
    [
        ('provider = "openai"', 'provider = "opnai"', 'agent "b" cannot be created'),
        ('provider = "openai"', 'provider = "transformers"', '"base_url" and "api_key_env" are for servers'),
        ("max_rounds = 2", 'coordination = "nonsense"', "nonsense"),
    ],
)
def test_what_would_fail_at_the_first_question_is_a_mistake_of_the_file(tmp_path, found, put, says):
    with pytest.raises(ConfigurationError, match=says):
        assemble(load_config(written(tmp_path, GOOD.replace(found, put))))


def test_a_value_of_the_wrong_type_is_shown_and_each_message_ends_once(tmp_path):
    broken = GOOD.replace("temperature = 0.7", 'temperature = "hot"').replace(
        'kind = "normalized"', 'kind = "normalised"'
    )
    with pytest.raises(ConfigurationError) as caught:
        load_config(written(tmp_path, broken))
    assert "unable to parse string as a number; got other text. Write a number, without quotes" in str(caught.value)
    assert 'Did you mean "normalized"? "coe-agents config init"' in str(caught.value)


def test_a_key_in_a_field_of_the_wrong_type_is_not_shown(tmp_path):
    broken = GOOD.replace("timeout = 5", "timeout = 5\n[judge]\nprovider = 'openai'\nmodel = ['sk-secret']")
    with pytest.raises(ConfigurationError, match=r"judge\.model") as caught:
        load_config(written(tmp_path, broken))
    assert "sk-secret" not in str(caught.value)


def test_a_module_that_is_not_found_may_lie_beside_the_file(tmp_path):
    broken = GOOD.replace('kind = "normalized"', 'kind = "my_parst:Same"')
    with pytest.raises(ConfigurationError, match=f"put my_parst.py into {tmp_path}, or correct"):
        assemble(load_config(written(tmp_path, broken)))


def test_rounds_are_bound_and_planned_as_the_file_says(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr("coe_agents.config.build.create_coe_graph", lambda agents, **options: given.update(options))
    rounds = 'token_budget = 9\ndeadline = 2.5\n[graph.strategies]\nconflict = "diversify"\nambiguous = "clarify"'
    assemble(load_config(written(tmp_path, GOOD.replace("max_rounds = 2", rounds))))
    assert (given["token_budget"], given["deadline"]) == (9, 2.5)
    assert given["strategies"] == {"conflict": "diversify", "ambiguous": "clarify"}


def test_adaptive_sampling_is_as_the_file_says(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr("coe_agents.config.build.create_coe_graph", lambda agents, **options: given.update(options))
    assemble(load_config(written(tmp_path, GOOD)))
    assert given["adaptive"] is None
    assemble(load_config(written(tmp_path, GOOD + "[graph.adaptive]\nstart = 4\nmax_samples = 8\n")))
    assert given["adaptive"] == AdaptiveSampling(start=4, max_samples=8)


def test_a_threshold_that_always_answers_is_refused(tmp_path):
    policy = 'kind = "threshold"\nmax_coe = 0.5\notherwise = "answer"\n[unused'
    text = GOOD[: GOOD.index('kind = "regime"')] + policy.removesuffix("[unused")
    with pytest.raises(ConfigurationError, match="otherwise"):
        load_config(written(tmp_path, text))
