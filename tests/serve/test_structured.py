import json

import pytest

from coe_agents import SupportPolicy
from coe_agents.testing import ScriptedAgent
from tests.serve.groups import (
    AGREEING,
    body_of,
    client_of,
    complete,
    create_group,
    group_of,
    respond,
    supporting,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "people": {"type": "integer"},
        "tags": {"type": "array"},
    },
    "required": ["city", "people"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
PAY = {
    "type": "function",
    "function": {"name": "pay", "parameters": {"properties": {"to": {"type": "string"}}}},
}
LOG = {"type": "function", "function": {"name": "log"}}


async def test_answers_are_compared_field_by_field():
    agents = [
        '{"people": 2, "city": "Paris"}',
        '```json\n{"city": "Paris", "people": 2.0}\n```',
        '{"city": "Paris", "people": 3}',
    ]
    reply = (await complete(supporting(*agents), response_format=FORMAT)).json()
    assert reply["choices"][0]["message"]["content"] == '{"city": "Paris", "people": 2}'
    # all say the city; two of three, each of a third of the ensemble mean, say 2
    assert reply["coe"]["fields"] == {"city": pytest.approx(1), "people": pytest.approx(2 / 3)}
    assert reply["coe"]["answer_kind"] == "answer"
    of_responses = {"format": {"type": "json_schema", **FORMAT["json_schema"]}}
    response = (await respond(supporting(*agents), text=of_responses)).json()
    text = response["output"][0]["content"][0]["text"]
    assert json.loads(text) == {"city": "Paris", "people": 2}


async def test_a_refusal_names_the_contested_field_and_no_value():
    people = (
        "511511511",
        "622622622",
        "733733733",
    )  # no time or id of the reply holds one by chance
    response = await complete(
        supporting(*(f'{{"city": "Paris", "people": {n}}}' for n in people)), response_format=FORMAT
    )
    message = response.json()["choices"][0]["message"]
    assert message["refusal"]
    assert "fields" not in response.json()["coe"]
    assert not any(n in response.text for n in people)
    # a declined answer is no failure
    reply = (
        await complete(supporting(*["I don't know."] * 3), response_format={"type": "json_object"})
    ).json()
    assert reply["choices"][0]["message"]["refusal"]
    assert reply["coe"]["failed_agents"] == {}


@pytest.mark.parametrize(
    "invalid",
    [
        "Paris",
        '{"city": "Paris"}',
        '{"city": 1, "people": 2}',
        '{"city": "x", "people": 2, "x": 1}',
    ],
)
async def test_what_does_not_fit_is_a_failed_response(invalid):
    agents = [ScriptedAgent(name, ['{"city": "Paris", "people": 2}']) for name in "ab"]
    group = group_of(*agents, ScriptedAgent("c", [invalid]), policy=SupportPolicy(0.5))
    reply = (await complete(group, response_format=FORMAT)).json()
    assert (reply["coe"]["action"], reply["coe"]["failed_agents"]) == (
        "answer",
        {"c": "InvalidReplyError"},
    )
    assert '"additionalProperties": false' in agents[0].requests[0]["instruction"]


@pytest.mark.parametrize(
    "fields", [{"response_format": FORMAT}, {"tools": [PAY]}], ids=["schema", "tools"]
)
async def test_a_group_of_which_no_reply_is_valid_gives_no_answer_but_is_not_unavailable(fields):
    invalid = ["Paris"] if "response_format" in fields else [[{"name": "log", "args": {}}]]
    down = ConnectionError("the model is down")
    for said in ([invalid] * 3, [invalid, down, down]):
        response = await complete(create_group(*said), **fields)
        assert response.status_code == 200
        assert response.json()["choices"][0]["message"]["refusal"]
    assert set(response.json()["coe"]["failed_agents"].values()) == {
        "InvalidReplyError",
        "ConnectionError",
    }
    assert (await complete(create_group(down, down, down), **fields)).status_code == 503


async def test_a_schema_beside_tools():
    """The agents call first, and answer by the schema in the end."""
    pays = [{"name": "pay", "args": {"to": "Ann"}}]
    agents = [ScriptedAgent(name, [pays]) for name in "ab"]
    reply = (await complete(group_of(*agents), response_format=FORMAT, tools=[PAY])).json()
    message = reply["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "pay"
    done = (
        await complete(
            supporting(*['{"city": "Paris", "people": 2}'] * 2), response_format=FORMAT, tools=[PAY]
        )
    ).json()
    assert json.loads(done["choices"][0]["message"]["content"])["city"] == "Paris"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "pay"}}])
async def test_a_call_that_is_required_is_given_or_refused(choice):
    pays = [{"name": "pay", "args": {"to": "Ann"}}]
    agents = [ScriptedAgent(name, [pays]) for name in "ab"]
    (given,) = (await complete(group_of(*agents), tools=[LOG, PAY], tool_choice=choice)).json()[
        "choices"
    ]
    assert (given["message"]["content"], given["finish_reason"]) == (None, "tool_calls")
    shown = [tool["function"]["name"] for tool in agents[0].requests[0]["tools"]]
    assert shown == (["log", "pay"] if choice == "required" else ["pay"])
    instruction = {"role": "system", "content": "Reply by calling a tool, not with a text."}
    assert agents[0].requests[0]["messages"][0] == instruction
    refused = (await complete(create_group(*AGREEING), tools=[PAY], tool_choice=choice)).json()
    assert refused["coe"]["action"] == "abstain"
    assert refused["choices"][0]["message"]["refusal"]


@pytest.mark.parametrize("refusals", ["content", "field"])
async def test_a_stream_that_must_be_a_call_ends_as_an_error_where_it_is_refused(refusals):
    body = body_of(tools=[PAY], tool_choice="required", stream=True)
    async with client_of(create_group(*AGREEING), refusals=refusals) as client:
        stream = (await client.post("/v1/chat/completions", json=body)).text.split("\n\n")
    assert any('"refusal": "' in event for event in stream)
    assert ('"code": "content_filter"' in stream[-3]) is (refusals == "content")


async def test_an_answer_ends_before_a_stop_text():
    group = supporting(*["Paris. Observation: none"] * 2)
    for stop, expected in (
        (["Observation:", "\n"], "Paris. "),
        ("none", "Paris. Observation: "),
        ([""], "Paris. Observation: none"),
    ):
        reply = (await complete(group, stop=stop)).json()
        assert reply["choices"][0]["message"]["content"] == expected
