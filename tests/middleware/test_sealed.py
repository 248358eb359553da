from coe_agents.middleware.sealed import TurnsChannel


def test_a_channel_of_turns_changes_only_by_what_is_written_and_keeps_what_was_read():
    channel = TurnsChannel(dict)
    assert channel.update([{"a": {"cost": 1.0}}]) is True
    before = channel.get()
    assert channel.update([]) is False
    channel.update([{"a": {"cost": 2.0}, "b": {"cost": 3.0}}])
    assert before == {"a": {"cost": 1.0}}
    assert channel.get() == {"a": {"cost": 2.0}, "b": {"cost": 3.0}}
