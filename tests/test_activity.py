from contextlib import suppress

from coe_agents.activity import activities, announce


def test_what_is_done_now_is_known_until_its_block_ends_however_it_ends():
    with announce("asking") as change:
        with suppress(KeyError), announce("loading"):
            assert activities() == ["asking", "loading"]
            raise KeyError
        change("deciding")
        assert activities() == ["deciding"]
    assert activities() == []
