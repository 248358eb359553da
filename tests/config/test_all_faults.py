"""Mistakes of a file are reported together: those in its fields, then those in the objects and folders it names."""

import pytest

from coe_agents.config.schema import load_config
from coe_agents.config.validation import check
from coe_agents.errors import ConfigurationError

KEY = "sk-planted-0123456789"
FAULTY = f"""
[[agents]]
name = "a"
provider = "opnai"
model = "m"

[[agents]]
name = "b"
provider = "tinyworld"
model = "tiny-lama"
temprature = 1

[[agents]]
name = "c"
provider = "transformers"
model = "/no/such/folder"

[[agents]]
name = "d"
provider = "openai"
model = "m"
api_key = "{KEY}"

[clusterer]
kind = "entailmnt"

[policy]
kind = "threshold"
max_coe = -1
otherwise = "abstian"

[judge]
provider = "openai"
model = "m"
options = {{ when = 2026-11-22 }}

[graph]
max_rounds = 99999999999
divergence = "hellinge"
"""
IN_FIELDS = {
    11: 'agents[1].temprature: unknown field. Did you mean "temperature"?',
    22: "agents[3].api_key: the file must not contain a key",
    25: 'clusterer.kind: .*Did you mean "entailment"?',
    29: "policy.max_coe: .*greater than or equal to 0",
    30: 'policy.otherwise: .*Did you mean "abstain"?',
    35: 'judge.options: "when" must be text, a finite number.*got date',
    38: 'graph.max_rounds: .*"max_rounds" must be an integer in [1, 1000]',
    39: 'graph.divergence: .*Did you mean "hellinger"?',
}
IN_OBJECTS = {
    4: 'agents[0].provider: .*Did you mean "openai"?',
    10: "agents[1].model: .*must be one of",
    16: 'agents[2].model: the folder "/no/such/folder" does not exist',
}
CORRECTED = {
    "temprature": "temperature",
    f'api_key = "{KEY}"': "",
    "entailmnt": "entailment",
    "max_coe = -1": "max_coe = 1",
    "abstian": "abstain",
    "2026-11-22": '"2026"',
    "99999999999": "2",
    "hellinge": "hellinger",
}


def lines_of(error):
    return {int(line.split(":")[1]): line for line in str(error).splitlines()}


def test_all_fields_are_reported_together_and_then_all_objects(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = FAULTY
    for wrong, right in CORRECTED.items():
        text = text.replace(wrong, right)
    for given, wanted in ((FAULTY, IN_FIELDS), (text, IN_OBJECTS)):
        path = tmp_path / "coe.toml"
        path.write_text(given)
        with pytest.raises(ConfigurationError) as raised:
            check(load_config(path))
        found = lines_of(raised.value)
        assert found.keys() == wanted.keys()
        for number, expected in wanted.items():
            head, _, tail = expected.partition(".*")
            assert f":{number}: {head}" in found[number]
            assert tail in found[number]
        assert KEY not in str(raised.value)
