import json

import pytest

from coe_agents import SupportPolicy
from coe_agents.testing import ScriptedAgent
from tests.serve.groups import (
    AGREEING,
    DISAGREEING,
    WITHHELD,
    complete,
    create_group,
    group_of,
    respond,
)

PAY = {
    "type": "function",
    "name": "pay",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}}},
}


async def test_an_answer_and_a_refusal_are_items():
    reply = (
        await respond(create_group(*AGREEING), temperature=0, reasoning={"effort": "low"})
    ).json()
    (item,) = reply["output"]
    assert (reply["object"], reply["status"], item["role"]) == (
        "response",
        "completed",
        "assistant",
    )
    assert item["content"] == [
        {"type": "output_text", "text": "Paris", "annotations": [], "logprobs": []}
    ]
    # each ScriptedAgent counts 3 tokens for the question and one for each response
    assert [reply["usage"][f"{name}_tokens"] for name in ("input", "output", "total")] == [9, 3, 12]
    assert (reply["coe"]["action"], reply["coe"]["ignored"]) == (
        "answer",
        ["temperature", "reasoning"],
    )
    withheld = await respond(create_group(*DISAGREEING))
    assert withheld.json()["output"][0]["content"][0]["refusal"]
    assert not any(word in withheld.text for word in WITHHELD)


@pytest.mark.parametrize(
    ("end", "reason"), [("whole", "stop"), ("cut", "length"), ("unknown", "length")]
)
async def test_an_answer_that_no_agent_gave_whole_does_not_end_as_a_whole_one(end, reason):
    agents = [ScriptedAgent(name, ["Paris"], end=end) for name in "ab"]
    (choice,) = (await complete(group_of(*agents))).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Paris", reason)
    reply = (await respond(group_of(*agents))).json()
    status, details = (
        ("completed", None) if end == "whole" else ("incomplete", {"reason": "max_output_tokens"})
    )
    assert (reply["status"], reply["incomplete_details"]) == (status, details)
    streamed = (await respond(group_of(*agents), stream=True)).text
    assert f"event: response.{status}\n" in streamed
    agents[1].end = "whole"
    assert (await complete(group_of(*agents))).json()["choices"][0]["finish_reason"] == "stop"


async def test_calls_are_items_and_their_results_are_read():
    agents = [
        ScriptedAgent(name, [[{"name": "pay", "args": {"to": "Ann"}}]], ["Done."]) for name in "ab"
    ]
    group = group_of(*agents, policy=SupportPolicy(0.5))
    (call,) = (await respond(group, "Pay Ann", tools=[PAY])).json()["output"]
    assert (call["type"], call["name"], json.loads(call["arguments"])) == (
        "function_call",
        "pay",
        {"to": "Ann"},
    )
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "paid"}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I pay."}],
    }
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Pay Ann"}]},
        said,
        call,
        result,
    ]
    await respond(group, items, instructions="Be brief.", tools=[PAY])
    messages = agents[0].requests[-1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[2]["content"] == "I pay."


async def test_a_stream_has_the_same_response_at_its_end():
    for said, kind, field in (
        (AGREEING, "output_text", "text"),
        (DISAGREEING, "refusal", "refusal"),
    ):
        lines = (await respond(create_group(*said), stream=True)).text.splitlines()
        events = [
            json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")
        ]
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        named = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        assert named == [event["type"] for event in events]
        assert events[0]["type"] == "response.created"
        assert events[-1]["type"] == "response.completed"
        deltas = [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]
        content = events[-1]["response"]["output"][0]["content"][0]
        assert content["type"] == kind
        assert "".join(deltas) == content[field] != ""


PICTURE = [{"role": "user", "content": [{"type": "input_image"}]}]
REFUSED = {
    "previous_response_id": (
        {"previous_response_id": "resp_1"},
        "previous_response_id",
        "nothing is stored",
    ),
    "a reference": (
        {"input": [{"type": "item_reference", "id": "x"}]},
        "input[0]",
        "nothing is stored",
    ),
    "another tool": (
        {"tools": [{"type": "web_search"}]},
        "tools[0]",
        "other tools are not supported",
    ),
    "a picture": (
        {"instructions": "x", "input": PICTURE},
        "input[0].content",
        "input[0].content must be text",
    ),
    "no question": (
        {"input": [{"role": "system", "content": "x"}]},
        "input",
        'the last of "input"',
    ),
    "unknown": ({"inputs": "x"}, "inputs", 'Did you mean "input"?'),
}


@pytest.mark.parametrize(("fields", "param", "says"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_answered_is_refused_in_the_words_of_this_api(fields, param, says):
    response = await respond(create_group(*AGREEING), **fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert says in error["message"]
