import pytest

from tests.serving.server import command_of_make

pytestmark = pytest.mark.slow
FRANCE, AUSTRALIA = "What is the capital of France?", "What is the capital of Australia?"


def test_it_listens_on_loopback_and_opens_nothing():
    assert command_of_make(8123) == [
        "dev",
        "--host",
        "127.0.0.1",
        "--port",
        "8123",
        "--no-browser",
        "--no-reload",
    ]


def test_rounds_are_events_of_one_run(client):
    stream = client.runs.stream(
        None, "debate", input={"question": AUSTRALIA}, stream_mode=["custom", "values"]
    )
    parts = [(part.event, part.data) for part in stream]
    decided = [data for mode, data in parts if mode == "custom" and data["event"] == "decided"]
    assert decided[0]["action"] == "another_round"
    assert len(decided) == parts[-1][1]["decision"]["n_rounds"] > 1


def test_nothing_of_ours_blocks_the_loop(client, server):
    log = server[1]
    client.runs.wait(None, "gated_answer", input={"question": FRANCE})
    assert "BlockingError" not in log.read_text()
    with pytest.raises(Exception, match="Blocking"):  # the server does look
        client.runs.wait(None, "blocking", input={"question": FRANCE})
