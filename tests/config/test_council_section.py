"""The `[council]` of a configuration, with conditions as comparisons."""

import pytest

from coe_agents.config import load
from coe_agents.errors import ConfigurationError
from coe_agents.middleware.gated import read_condition
from tests.middleware.agents import THREAD, Bank, agent
from tests.middleware.calls import ANN, DONE, PAY, call, says
from tests.middleware.council import AGREE, members

AGENT = '[[agents]]\nname = "a"\nprovider = "tinyworld"\nmodel = "tiny-llama"\n'


class Request:
    def __init__(self, **args):
        self.tool_call = {"name": "x", "args": args}


@pytest.mark.parametrize(
    ("text", "met", "unmet"),
    [
        ("amount > 100", 101, 100),
        ("amount<=1.5", 1, 2),
        ('amount == "Ann"', "Ann", "Bob"),
        ("amount != null", 1, None),
    ],
)
def test_comparisons(text, met, unmet):
    condition = read_condition(text)
    assert condition(Request(amount=met)) is True
    assert condition(Request(amount=unmet)) is False


@pytest.mark.parametrize("text", ["amount", "amount > x", "f(amount) > 1"])
def test_what_is_no_comparison_is_refused(text):
    with pytest.raises(ValueError, match="must compare an argument with a JSON value"):
        read_condition(text)


def loaded(tmp_path, section):
    path = tmp_path / "coe.toml"
    path.write_text(AGENT + section)
    return load(path)


def test_the_council_of_a_configuration_gates_as_it_says(tmp_path):
    bank = Bank()
    section = '[council]\nmax_blocked = 1\ntools = {transfer_money = "amount > 100"}'
    config = loaded(tmp_path, section)
    config.agents[:] = members(AGREE)
    large = says(call(id="l", to="Ann", amount=200))
    small = says(call(id="s", **ANN))
    paying = agent(None, bank, small, large, DONE, middleware=[config.create_council()])
    paying.invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1)]


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ('[council]\ntools = {x = "amount"}', "toml:5: council"),
        ('[council]\ntools = ["x"]\nmin_providers = 2', "council: .min_providers. of"),
        ("[council]\nmin_vote = 2", "toml:5: council: .*min_vote"),
    ],
)
def test_mistakes_are_named_with_their_line(section, place, tmp_path):
    with pytest.raises(ConfigurationError, match=place):
        loaded(tmp_path, section).create_council()
