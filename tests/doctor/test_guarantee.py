from dataclasses import replace

import pytest

from coe_agents import CalibratedPolicy
from coe_agents.config.schema import load_config
from coe_agents.config.validation import check
from coe_agents.doctor.diagnosis import examine
from tests.configurations import table
from tests.policy.test_calibrated import CALIBRATION

CONFIG = (
    table("[agents]", name="a", provider="tinyworld", model="tiny-llama", temperature=0.5)
    + table("[agents]", name="b", provider="tinyworld", model="tiny-qwen2")
    + table("clusterer", kind="normalized")
    + table("policy", kind="calibrated", path="policy.json")
)


@pytest.fixture
def config(tmp_path):
    known = {"a": ("tiny-llama", 1.0), "b": ("tiny-mistral", 1.0)}
    agents = {
        name: replace(CALIBRATION.agents[name], model=model, temperature=temperature)
        for name, (model, temperature) in known.items()
    }
    CalibratedPolicy(replace(CALIBRATION, agents=agents)).save(tmp_path / "policy.json")
    (tmp_path / "coe.toml").write_text(CONFIG)
    return load_config(tmp_path / "coe.toml")


@pytest.mark.parametrize("notes_of", [check, lambda config: examine(config, timeout=60).notes])
def test_what_differs_from_the_calibration_is_named(config, notes_of):
    (said,) = [note for note in notes_of(config) if "calibrated risk does not hold" in note]
    assert "the temperature of a, 0.5, differs from 1 at calibration" in said
    assert "the model of b, tiny-qwen2, differs from tiny-mistral at calibration" in said
    assert "the model of a" not in said
