"""The graphs on a LangGraph server of their own, as `make serve` starts it, driven by its client."""

import pytest

from tests.serving.server import SERVED, command_of_make

pytestmark = pytest.mark.slow
FRANCE, AUSTRALIA = "What is the capital of France?", "What is the capital of Australia?"


def test_it_listens_on_loopback_and_opens_nothing():
    assert command_of_make(8123) == ["dev", "--host", "127.0.0.1", "--port", "8123", "--no-browser", "--no-reload"]


def test_every_graph_is_served(client):
    served = {assistant["graph_id"] for assistant in client.assistants.search(limit=100)}
    assert served == {*SERVED["graphs"], "blocking"}


def test_a_thread_keeps_the_conversation_and_nothing_of_the_former_question(client):
    thread = client.threads.create()["thread_id"]
    first = client.runs.wait(thread, "gated_answer", input={"messages": [{"role": "user", "content": FRANCE}]})
    second = client.runs.wait(thread, "gated_answer", input={"messages": [{"role": "user", "content": AUSTRALIA}]})
    assert (first["decision"]["action"], second["decision"]["action"]) == ("answer", "abstain")
    assert [message["type"] for message in second["messages"]] == ["human", "ai", "human", "ai"]
    assert len(second["responses"]) == len(first["responses"]) == 30


def test_the_stream_holds_updates_and_events(client):
    stream = client.runs.stream(None, "gated_answer", input={"question": AUSTRALIA}, stream_mode=["updates", "custom"])
    parts = [(part.event, part.data) for part in stream]
    events = [data for mode, data in parts if mode == "custom"]
    asked, sampled = ([e["agent"] for e in events if e["event"] == kind] for kind in ("agent_asked", "agent_sampled"))
    assert sorted(asked) == sorted(sampled) == ["tiny-llama", "tiny-mistral", "tiny-qwen2"]
    assert [event["event"] for event in events[-3:]] == ["clustered", "measured", "decided"]
    assert events[-1]["action"] == "abstain"
    nodes = {name for mode, data in parts if mode == "updates" for name in data}
    assert {*asked, "cluster", "measure", "coordinator", "abstain"} <= nodes


def test_a_person_resumes_a_run_and_nobody_is_sampled_again(client):
    thread = client.threads.create()["thread_id"]
    waiting = client.runs.wait(thread, "escalation_to_person", input={"question": AUSTRALIA})
    (asked,) = waiting["__interrupt__"]
    assert asked["value"]["action_requests"]
    assert client.threads.get_state(thread)["next"] == ["escalation"]
    stream = client.runs.stream(
        thread,
        "escalation_to_person",
        command={"resume": {"decisions": [{"type": "respond", "message": "Canberra"}]}},
        stream_mode=["custom", "values"],
    )
    parts = [(part.event, part.data) for part in stream]
    assert [data["event"] for mode, data in parts if mode == "custom"] == ["ruled"]
    assert parts[-1][1]["decision"]["answer"] == "Canberra"
    assert client.threads.get_state(thread)["next"] == []


def test_rounds_are_events_of_one_run(client):
    stream = client.runs.stream(None, "debate", input={"question": AUSTRALIA}, stream_mode=["custom", "values"])
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
