import pytest

from coe_agents.errors import ConfigurationError
from coe_agents.policy import AgentWeights


@pytest.mark.parametrize("name", ["weights.json", "weights.toml"])
def test_what_is_saved_is_loaded(tmp_path, name):
    path = tmp_path / name
    weights = AgentWeights({"a": 1 / 3, 'b "c" \\ é 🙂 \x7f \n .d': 1.0})
    weights.save(path)
    assert AgentWeights.load(path) == weights


def test_what_are_no_weights_is_refused():
    for weights in ({}, {"a": 0.0}):
        with pytest.raises(ValueError, match="got none above 0"):
            AgentWeights(weights)
    negative = {"a": -1.0, "b": 1.0}
    for weights, message in (
        (negative, "of 'a' must .*; got -1.0"),
        (["a"], r"got \['a"),
        ({1: 1.0}, "got {1"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            AgentWeights(weights)


TOML = 'format = "coe-agents agent weights 1"\n[weights]\n'


def test_a_file_that_holds_something_else_is_refused(tmp_path):
    for name, content, said in (
        ("weights.json", "", "cannot be read: "),
        (
            "weights.json",
            '{"format": "another", "weights": {"a": 1.0}}',
            "is not a weights file of the format",
        ),
        ("weights.json", "[]", "is not a weights file of the format"),
        ("weights.json", '{"format": "coe-agents agent weights 1"}', "is damaged: 'weights'"),
        ("weights.toml", f"{TOML}a = 1.0\na = 2.0", "cannot be read: "),
        ("weights.toml", f"{TOML}a = 0", "is damaged: .* none above 0"),
        ("weights.toml", f"{TOML}a = nan", "is damaged: .*'a' must be"),
    ):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(ConfigurationError, match=rf"{name} {said}"):
            AgentWeights.load(path)
    with pytest.raises(ConfigurationError, match=r"none\.json cannot be read"):
        AgentWeights.load(tmp_path / "none.json")
