"""The clients of the server: the tests print the rows of the table in `docs/guides/clients.md`.

The JavaScript SDK is tried where COE_JS_SDK names a folder into which it was installed:
`npm install --prefix FOLDER @langchain/langgraph-sdk`.
"""

import json
import os
import subprocess

import httpx
import pytest

from tests.client_table import seen
from tests.serving.server import ROOT, SERVED

pytestmark = pytest.mark.slow
FRANCE, JAPAN = "What is the capital of France?", "What is the capital of Japan?"
AUSTRALIA, BOOKING = "What is the capital of Australia?", "Book Canberra, Australia."
PY = "Python SDK"
JS = "JavaScript SDK"
MCP = "MCP client"
A2A = "A2A agent card"
MODES = ["values", "updates", "messages-tuple", "events", "custom", "debug", "tasks", "checkpoints"]
APPROVE = {"resume": {"decisions": [{"type": "approve"}]}}
PAY_NINA, PAY_IVAN = "Send Nina 60 euros.", "Please pay Ivan the sum of 75 euros."


def human(text):
    return {"messages": [{"role": "user", "content": text}]}


def test_every_graph_has_its_schemas(client):
    served = [
        one for one in client.assistants.search(limit=100) if one["graph_id"] in SERVED["graphs"]
    ]
    found = {one["graph_id"]: client.assistants.get_schemas(one["assistant_id"]) for one in served}
    whole = [name for name, one in found.items() if one["input_schema"] and one["output_schema"]]
    assert len(whole) == len(SERVED["graphs"])
    seen(
        PY,
        "schemas of input and output",
        f"there for {len(whole)} of {len(SERVED['graphs'])} graphs",
    )
    assert {name for name, one in found.items() if not one["context_schema"]} == {"council"}
    seen(PY, "schemas of the context", "there for all graphs but `council`, which takes none")


def test_a_second_question_is_answered_as_if_it_were_the_first(client):
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "gated_answer", input=human(FRANCE))
    second = client.runs.wait(thread, "gated_answer", input=human(JAPAN))["decision"]
    alone = client.runs.wait(None, "gated_answer", input=human(JAPAN))["decision"]
    assert (second["action"], second["coe"]) == (alone["action"], alone["coe"]) == ("answer", 0.0)
    seen(PY, "a second question on a thread", "answered, CoE 0.000, as alone")


def test_a_context_of_a_run_and_of_an_assistant(client):
    asked = {"question": AUSTRALIA}
    bold = client.assistants.create("gated_answer", context={"max_coe": 0.9}, name="bold")[
        "assistant_id"
    ]
    states = [
        client.runs.wait(None, "gated_answer", input=asked),
        client.runs.wait(None, "gated_answer", input=asked, context={"max_coe": 0.9}),
        client.runs.wait(None, bold, input=asked),
    ]
    client.assistants.delete(bold)
    assert [state["decision"]["action"] for state in states] == ["abstain", "answer", "answer"]
    seen(PY, '`context={"max_coe": 0.9}` of a run, and of an assistant', "the threshold is used")


def test_an_unknown_key_of_a_context_is_refused(client):
    for refused in (
        lambda: client.runs.wait(
            None, "gated_answer", input={"question": AUSTRALIA}, context={"max_co": 0.9}
        ),
        lambda: client.assistants.create("gated_answer", context={"max_co": 0.9}),
    ):
        with pytest.raises(httpx.HTTPStatusError) as error:
            refused()
        assert error.value.response.status_code == 422
        assert "got 'max_co'" in error.value.response.json()["detail"]
    seen(PY, '`context={"max_co": 0.9}` of a run, and of an assistant', "422, which names the key")


def test_what_a_run_says_that_fails_reaches_the_client(client):
    with pytest.raises(Exception, match="without a checkpointer it could not be resumed"):
        client.runs.wait(None, "escalation_to_person", input={"question": AUSTRALIA})
    seen(PY, "a graph that asks a person, without a thread", "the error says to pass a thread")


def test_every_stream_mode(client):
    for mode in MODES:
        thread = client.threads.create()["thread_id"]  # checkpoints are of a thread
        parts = list(
            client.runs.stream(thread, "gated_answer", input=human(FRANCE), stream_mode=mode)
        )
        assert len(parts) > 1
        assert "error" not in {part.event for part in parts}
    seen(PY, f"streams: {', '.join(MODES)}", "all hold")


def test_a_person_decides_on_a_tool_call(client):
    thread = client.threads.create()["thread_id"]
    (asked,) = client.runs.wait(thread, "gated_tools_agent", input=human(BOOKING))["__interrupt__"]
    assert asked["value"]["review_configs"][0]["allowed_decisions"][0] == "approve"
    (again,) = client.runs.wait(thread, "gated_tools_agent", command={"resume": "approve"})[
        "__interrupt__"
    ]
    assert "could not be used" in again["value"]["action_requests"][0]["description"]
    assert client.threads.get(thread)["status"] == "interrupted"
    state = client.runs.wait(thread, "gated_tools_agent", command=APPROVE)
    assert state["messages"][-1]["content"] == "Booked: Canberra, Australia."
    seen(
        PY,
        'resume of a gated tool call with "approve", then with a decision',
        "asked again, then the tool runs",
    )


def test_a_message_is_typed_instead_of_a_decision(client):
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "gated_tools_agent", input=human(BOOKING))
    messages = client.runs.wait(thread, "gated_tools_agent", input=human("approve"))["messages"]
    assert [message["type"] for message in messages[:4]] == ["human", "ai", "tool", "human"]
    assert messages[2]["content"].startswith(
        "book_flight was not run: the user wrote another message"
    )
    assert client.threads.get(thread)["status"] == "idle"
    seen(
        PY,
        "a message typed instead of a decision",
        "the call is closed as not run; the thread goes on",
    )


def streamed(client, thread, **given):
    """Returns the last state of a run of the council's agent, and how often a language model was asked in it."""
    parts = [*client.runs.stream(thread, "council", stream_mode=["values", "events"], **given)]
    asked = [
        part
        for part in parts
        if part.event == "events" and part.data["event"] == "on_chat_model_start"
    ]
    return [part.data for part in parts if part.event == "values"][-1], len(asked)


def test_a_call_that_the_council_agrees_on_runs_once(client):
    thread = client.threads.create()["thread_id"]
    state, _ = streamed(client, thread, input=human(PAY_NINA))
    assert [message["type"] for message in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert state["messages"][2]["content"] == "Paid 60 euros to Nina."
    assert (state["council"]["action"], state["council"]["decided_by"]) == ("answer", "group")
    assert client.threads.get(thread)["status"] == "idle"
    seen(PY, "`council`: a call that all models propose", "the tool runs once")


def test_a_person_edits_a_contested_argument_and_nobody_is_asked_again(client):
    thread = client.threads.create()["thread_id"]
    paused, n_asked = streamed(client, thread, input=human(PAY_IVAN))
    (interrupt,) = client.threads.get(thread)["interrupts"].values()
    (request,) = interrupt[0]["value"]["action_requests"]
    assert request["args"] == {"name": "Ian", "amount": 75}
    assert 'do not agree on the argument "name"' in request["description"]
    assert 'transfer.name: "Ivan"' in request["description"]
    assert (
        paused["council"]["contested"] is None
    )  # the values that were proposed are for the person alone
    assert [message["type"] for message in paused["messages"]] == ["human"]
    edit = {
        "type": "edit",
        "edited_action": {"name": "transfer", "args": {"name": "Ivan", "amount": 75}},
    }
    state, n_asked_after = streamed(client, thread, command={"resume": {"decisions": [edit]}})
    assert [message["type"] for message in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert state["messages"][1]["tool_calls"][0]["args"] == {"name": "Ivan", "amount": 75}
    assert state["messages"][2]["content"] == "Paid 75 euros to Ivan."
    assert state["council"]["decided_by"] == "person"
    assert state["council"]["tokens"] == paused["council"]["tokens"]
    # the driver and both members; then the driver alone, once, which reads what the tool returned
    assert (n_asked, n_asked_after) == (3, 1)
    assert client.threads.get(thread)["status"] == "idle"
    seen(
        PY,
        "`council`: a person edits the contested argument",
        "the tool runs once, as edited; nobody is asked again",
    )


def test_a_chain_takes_and_gives_messages(client):
    result = client.runs.wait(
        None, "sequential_agents", input=human("What is the chemical symbol for palladium?")
    )
    assert [message["type"] for message in result["messages"]] == ["human", "ai"]
    assert result["messages"][-1]["content"].count("\n") == len(result["steps"]) - 1
    seen(PY, "`sequential_agents` with messages", "each step in the last message")


def call_mcp(server, method, **parameters):
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    headers = {"accept": "application/json, text/event-stream"}
    return httpx.post(f"{server[0]}/mcp", json=asked, headers=headers, timeout=600).json()["result"]


def test_every_graph_is_a_tool(server):
    tools = {tool["name"]: tool for tool in call_mcp(server, "tools/list")["tools"]}
    ours = [tools[name] for name in SERVED["graphs"]]
    for tool in ours:
        assert tool["description"] == SERVED["graphs"][tool["name"]]["description"]
        assert {"question", "messages"} & tool["inputSchema"]["properties"].keys()
    n_graphs = len(SERVED["graphs"])
    seen(
        MCP,
        "tools/list",
        f"{len(ours)} of {n_graphs} graphs, each with name, description and input",
    )


def test_an_abstention_is_marked(server):
    for question, action in ((FRANCE, "answer"), (AUSTRALIA, "abstain")):
        result = call_mcp(
            server, "tools/call", name="gated_answer", arguments={"question": question}
        )
        text = result["content"][0]["text"]
        assert f"'action': '{action}', 'answer': " in text
        assert ("'action': 'abstain', 'answer': None" in text) == (action == "abstain")
    seen(MCP, "tools/call of `gated_answer`", "the state, with the decision")


def test_a_tool_takes_a_context(server):
    arguments, context = {"question": AUSTRALIA}, {"max_coe": 0.9}
    result = call_mcp(
        server, "tools/call", name="gated_answer", arguments=arguments, context=context
    )
    assert "'action': 'answer'" in result["content"][0]["text"]
    seen(MCP, 'tools/call with `"context": {"max_coe": 0.9}`', "the threshold is used")


def test_an_agent_card_shows_what_to_pass_and_nothing_of_the_inner_state(server, client):
    (assistant,) = client.assistants.search(graph_id="gated_answer")
    card = httpx.get(
        f"{server[0]}/a2a/{assistant['assistant_id']}/.well-known/agent-card.json", timeout=600
    ).json()
    assert card["description"] == SERVED["graphs"]["gated_answer"]["description"]
    text = json.dumps(card["skills"])
    assert "messages" in text
    assert not [
        inner for inner in ("overrides", "trajectory", "settled", "usages") if inner in text
    ]
    seen(A2A, "the card of `gated_answer`", "its input; nothing of the inner state")


def test_no_text_of_a_withheld_answer_reaches_mcp_or_a2a(server, client):
    asked = {"role": "user", "parts": [{"kind": "text", "text": AUSTRALIA}], "messageId": "1"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": asked}}
    answering = ("debate", "gated_answer", "gated_tools_agent", "sequential_agents")
    for name in answering:
        said = call_mcp(server, "tools/call", name=name, arguments=human(AUSTRALIA))["content"][0][
            "text"
        ]
        (assistant,) = client.assistants.search(graph_id=name)
        replied = httpx.post(f"{server[0]}/a2a/{assistant['assistant_id']}", json=body, timeout=600)
        task = replied.json()["result"]["artifacts"][0]["parts"][0]["text"]
        assert "confident of different answers" in said
        assert "confident of different answers" in task
        assert not [word for word in ("Canberra", "Sydney") if word in said + replied.text]
    graphs = ", ".join(f"`{name}`" for name in answering)
    seen("MCP client, A2A client", f"an abstention of {graphs}", "why, and no answer")


@pytest.mark.clients
def test_the_javascript_sdk(server):
    folder = os.environ.get("COE_JS_SDK")
    if not folder:
        pytest.skip(
            "COE_JS_SDK names no folder with @langchain/langgraph-sdk; see the first lines of this file"
        )
    command = ["node", str(ROOT / "tests/serving/client.mjs"), folder, server[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["answer"] == "Paris, I believe."
    assert found["second"] == ["answer", 0.0]
    seen(JS, "a second question on a thread", "answered, CoE 0.000, as alone")
    assert found["context"] == ["abstain", "answer"]
    seen(JS, "`context: { max_coe: 0.9 }`", "the threshold is used")
    assert "422" in found["misspelt"]
    assert "got 'max_co'" in found["misspelt"]
    seen(JS, "`context: { max_co: 0.9 }`", "422, which names the key")
    assert list(found["modes"]) == MODES
    assert min(found["modes"].values()) > 1
    seen(JS, f"streams: {', '.join(MODES)}", "all hold")
    assert found["buttons"][:3] == ["approve", "edit", "reject"]
    assert found["again"].startswith("**Your last reply could not be used")
    assert found["approved"] == "Booked: Canberra, Australia."
    seen(
        JS,
        'resume of a gated tool call with "approve", then with a decision',
        "asked again, then the tool runs",
    )
    assert found["typed"][:4] == ["human", "ai", "tool", "human"]
    assert found["closed"].startswith("book_flight was not run")
    seen(
        JS,
        "a message typed instead of a decision",
        "the call is closed as not run; the thread goes on",
    )
    assert found["candidates"].startswith("1. The capital of Australia is Canberra. (")
    assert found["decided"] == ["person", "The capital of Australia is Canberra."]
    seen(JS, "an escalation, approved", "candidates in the form; decided by the person")
    assert found["chain"] == ["human", "ai"]
    seen(JS, "`sequential_agents` with messages", "each step in the last message")
