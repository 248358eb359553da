import re
from pathlib import Path

import pytest

from coe_agents.config.schema import load_config
from coe_agents.config.validation import check
from coe_agents.errors import ConfigurationError
from tests.configurations import table

GOOD = "\n".join(
    [
        table("[agents]", name="a", provider="tinyworld", model="tiny-llama"),
        table(
            "[agents]",
            name="b",
            provider="openai",
            model="m",
            base_url="http://127.0.0.1:9/v1",
            temperature=0.7,
        )
        + table("agents.options", timeout=5),
        table("clusterer", kind="normalized"),
        table("policy", kind="regime", aleatoric_threshold=0.5, epistemic_threshold=0.3)
        + table("policy.actions", conflict="escalate"),
        table("graph", max_rounds=2),
    ]
)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "coe.toml"
    path.write_text(text)
    return path


MISTAKES = [
    (
        "= 0.7",
        "= -1",
        "11: agents[1].temperature: Input should be greater than or equal to 0; got -1",
    ),
    ('name = "b"', 'nam = "b"', "6: agents[1].name: required field is missing"),
    (
        'name = "b"',
        'name = "a"',
        "7: agents[1].name: the names of \"agents\" must differ; got 'a' twice",
    ),
    (
        '"a"',
        "3",
        "2: agents[0].name: Input should be a valid string; got a number. Put it in quotes",
    ),
    (
        '"tiny-llama"',
        '"tiny-llama"\nseeds = 1',
        '5: agents[0].seeds: unknown field. Did you mean "seed"?',
    ),
    (
        '"tiny-llama"',
        '"tiny-llama"\noptions = { devise = "cpu" }',
        "options.devise: unknown option. Omit it",
    ),
    (
        '"tinyworld"\nmodel = "tiny-llama"',
        '"transformers"\nmodel = "./none"',
        'the folder "./none" does not exist',
    ),
    (
        '"tinyworld"\nmodel = "tiny-llama"',
        '"transformers"\nmodel = "models/none.gguf"',
        '4: agents[0].model: the file "models/none.gguf" does not exist',
    ),
    (
        '"openai"',
        '"transformers"',
        '10: agents[1].base_url: "base_url" and "api_key_env" are for servers',
    ),
    (
        '"http://127.0.0.1:9/v1"',
        '"http://u:p@b/v1"',
        "10: agents[1].base_url: the file must not contain a password",
    ),
    (
        '"http://127.0.0.1:9/v1"',
        '["http://a/v1", "http://b/v1"]',
        "must be one address; got a list of 2. Put a proxy",
    ),
    (
        '"openai"',
        '"opnai"',
        '"transformers:FOLDER" is a model in this process. Use "openai" for any server',
    ),
    ('"normalized"', '"normalised"', 'Did you mean "normalized"? "coe-agents config init"'),
    ('"normalized"', '"llm"', '15: clusterer.model: required field is missing. Add "model"'),
    (
        '"normalized"',
        '"embedding"\nprovider = "openai"\nmodel = "m"',
        "clusterer.threshold: required field is missing",
    ),
    ('"regime"', '"threshold"\nmax_coe = 0.5\notherwise = "answer"', "21: policy.otherwise: "),
    (
        "= 0.3",
        "= 0.7",
        "21: policy.epistemic_threshold: with 2 agents the epistemic part is at most 0.693",
    ),
    (
        "max_rounds = 2",
        "min_agents = 3",
        '26: graph.min_agents: "min_agents" must be an integer in [1, 2]',
    ),
    (
        "max_rounds = 2",
        '[escalation]\nkind = "arbiter"\nmodel = "./x"',
        '28: escalation.model: the folder "./x" does',
    ),
    (
        "max_rounds = 2",
        '[judge]\nprovider = "tinyworld"\nmodel = "x"',
        '28: judge.model: "model" of the judge must be',
    ),
    (
        "max_rounds = 2",
        '[record]\nstore = "cases"\naudit_rat = 0.1',
        '28: record.audit_rat: unknown field. Did you mean "audit_rate"?',
    ),
]


@pytest.mark.parametrize(("found", "put", "says"), MISTAKES)
def test_a_mistake_is_named_with_its_line_and_what_to_do(tmp_path, found, put, says):
    assert found in GOOD
    with pytest.raises(ConfigurationError, match=re.escape(says)) as raised:
        check(load_config(written(tmp_path, GOOD.replace(found, put, 1))))
    assert raised.value.field


@pytest.mark.parametrize("text", ["[agents]\nname = 'a'\n[agents]\nname = 'b'", "a = 1\na = 2"])
def test_what_is_there_twice_says_so(tmp_path, text):
    with pytest.raises(
        ConfigurationError, match=r"is not TOML: .*Write each field and each table once"
    ):
        load_config(written(tmp_path, text))


def test_a_key_in_place_of_its_name_is_not_shown(tmp_path):
    path = written(tmp_path, GOOD.replace("temperature = 0.7", 'api_key_env = "sk-planted"'))
    with pytest.raises(
        ConfigurationError, match="must be the NAME of an environment variable"
    ) as caught:
        check(load_config(path))
    assert "planted" not in str(caught.value)


KEY = "sk-planted-0123456789"
IN_FIELDS = {
    '"m"': f'"m"\napi_key = "{KEY}"',
    '"normalized"': '"entailmnt"',
    "= 0.7": "= -1",
    "= 0.5": "= -1",
}
IN_OBJECTS = {'"openai"': '"opnai"', '"tiny-llama"': '"none"', '"normalized"': '"none:Such"'}
IN_OBJECTS |= {'"regime"': '"calibrated"\npath = "none.json"', "aleatoric_threshold = 0.5\n": ""}
IN_OBJECTS |= {"epistemic_threshold = 0.3\n": "", '[policy.actions]\nconflict = "escalate"\n': ""}


@pytest.mark.wording
def test_all_fields_are_reported_together_and_then_all_objects(tmp_path):
    for changes, lines in ((IN_FIELDS, [10, 12, 17, 21]), (IN_OBJECTS, [4, 8, 16, 20])):
        text = GOOD
        for found, put in changes.items():
            text = text.replace(found, put)
        with pytest.raises(ConfigurationError) as raised:
            check(load_config(written(tmp_path, text)))
        assert sorted(int(line.split(":")[1]) for line in str(raised.value).splitlines()) == lines
        assert KEY not in str(raised.value)
