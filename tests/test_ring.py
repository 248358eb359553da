"""The core finds rooms of the ring by a table, and says which one is missing."""

import pytest

from coe_agents import _ring
from coe_agents.cli import app as command
from tests.cli.command import run


@pytest.mark.parametrize("reference", _ring.COMMANDS.values())
def test_each_command_of_a_room_that_is_there_can_be_loaded(reference):
    assert reference.partition(".")[0] in _ring.ROOMS
    if _ring.is_there(reference):
        assert callable(_ring.load(reference))


def test_a_room_that_was_taken_away_is_named():
    with pytest.raises(ImportError, match=r"this needs coe_agents\.attic"):
        _ring.load("attic:Lamp")


def test_a_command_without_its_room_is_not_listed_and_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(command.app, "registered_commands", [*command.app.registered_commands])
    monkeypatch.setitem(_ring.COMMANDS, "light", "attic.command:light")
    command._add_from_ring("light")
    assert "light" not in run("--help").stdout
    assert run("light", "--at", "noon", code=1).stderr
