"""Mistakes of a file are reported together: those in its fields, then those in the objects and folders it names."""

import pytest

from coe_agents.config.schema import load_config
from coe_agents.config.validation import check
from coe_agents.errors import ConfigurationError

KEY = "sk-planted-0123456789"
IN_FIELDS = f"""\
[[agents]]
name = "a"
provider = "openai"
model = "m"
temprature = 1
api_key = "{KEY}"
[clusterer]
kind = "entailmnt"
[policy]
kind = "threshold"
max_coe = -1
"""
IN_OBJECTS = """\
[[agents]]
name = "a"
provider = "opnai"
model = "m"
[[agents]]
name = "b"
provider = "transformers"
model = "/no/such/folder"
[clusterer]
kind = "none:Such"
[policy]
kind = "calibrated"
path = "none.json"
"""


@pytest.mark.parametrize(("text", "lines"), [(IN_FIELDS, [5, 6, 8, 11]), (IN_OBJECTS, [3, 8, 10, 13])])
def test_all_fields_are_reported_together_and_then_all_objects(tmp_path, text, lines):
    path = tmp_path / "coe.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        check(load_config(path))
    assert sorted(int(line.split(":")[1]) for line in str(raised.value).splitlines()) == lines
    assert KEY not in str(raised.value)
