"""The graphs on a LangGraph server of their own, as `make langgraph-server` starts it, driven by its client."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_sync_client

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LONGEST_START = 120
FRANCE, AUSTRALIA = "What is the capital of France?", "What is the capital of Australia?"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of `langgraph dev`; yields its address and its log."""
    folder = tmp_path_factory.mktemp("server")
    served = json.loads((ROOT / "langgraph.json").read_text())
    own = {"blocking": "./tests/serving/blocking.py:graph"}
    named = {name: str(ROOT / place) for name, place in {**served["graphs"], **own}.items()}
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": [str(ROOT)], "graphs": named}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true"}
    command = [str(Path(sys.executable).with_name("langgraph")), *started_by_make(), "--port", str(port)]
    log, start = folder / "log", time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **quiet, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        while not is_up(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() - start < LONGEST_START, log.read_text()
            time.sleep(0.1)
        print(f"the server was up after {time.monotonic() - start:.1f} s")
        yield url, log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def started_by_make():
    """Returns the arguments of `langgraph` in `make langgraph-server`."""
    return re.search(r"\$\(BIN\)/langgraph (dev .*)", (ROOT / "Makefile").read_text())[1].split()


def is_up(url):
    try:
        return httpx.get(f"{url}/ok", timeout=1).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def client(server):
    with get_sync_client(url=server[0]) as opened:
        yield opened


def test_it_listens_on_loopback_and_opens_nothing():
    assert started_by_make() == ["dev", "--host", "127.0.0.1", "--no-browser", "--no-reload"]


def test_every_graph_is_served(client):
    served = {assistant["graph_id"] for assistant in client.assistants.search(limit=100)}
    assert served == {*json.loads((ROOT / "langgraph.json").read_text())["graphs"], "blocking"}


def test_a_run_without_a_thread(client):
    decision = client.runs.wait(None, "gated_answer", input={"question": FRANCE})["decision"]
    assert decision["action"] == "answer"
    assert "Paris" in decision["answer"]


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
    assert {*asked, "cluster", "measure", "coordinate", "abstain"} <= nodes


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


def test_a_chain_goes_on_until_a_gate_withholds(client):
    asked = {"question": "What is the chemical symbol for palladium?"}
    result = client.runs.wait(None, "sequential_agents", input=asked)
    assert [step["action"] for step in result["steps"]] == ["answer", "answer", "answer", "abstain"]
    assert result["ended"] == "withheld"


def test_a_run_that_fails_says_why(client):
    with pytest.raises(Exception, match="must be a text that is not blank"):
        client.runs.wait(None, "gated_answer", input={"question": " "})


def test_nothing_of_ours_blocks_the_loop(client, server):
    log = server[1]
    client.runs.wait(None, "gated_answer", input={"question": FRANCE})
    assert "BlockingError" not in log.read_text()
    with pytest.raises(Exception, match="Blocking"):  # the server does look
        client.runs.wait(None, "blocking", input={"question": FRANCE})
