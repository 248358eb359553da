import json
import math

import pytest

from coe_agents.testing import ScriptedAgent
from tests.serve.groups import (
    AGREEING,
    DISAGREEING,
    WITHHELD,
    body_of,
    client_of,
    complete,
    create_group,
    group_of,
)
from tests.serve.test_tools import call_of, calling, result


async def test_the_group_is_the_only_model_and_other_addresses_and_methods_are_refused_in_the_same_form():
    async with client_of(create_group(*AGREEING)) as client:
        listed = (await client.get("/v1/models")).json()
        (model,) = listed["data"]
        assert listed["object"] == "list"
        assert model["id"] == "g"
        assert model["object"] == "model"
        assert (await client.get("/v1/models/g")).json() == model
        assert (await client.get("/v1/models/h")).status_code == 404
        assert (await client.get("/health")).json() == {"status": "ok"}
        for response, status, says in (
            (
                await client.get("/v1/embeddings"),
                404,
                "ends in /v1: POST /v1/chat/completions, POST /v1/responses, ",
            ),
            (
                await client.post("/chat/completions", json=body_of()),
                404,
                "ends in /v1: POST /v1/chat/completions",
            ),
            (await client.get("/v1/chat/completions"), 405, "takes another method: POST"),
            (
                await client.put("/v1/chat/completions", json=body_of()),
                405,
                "takes another method: POST",
            ),
        ):
            assert response.status_code == status
            assert says in response.json()["error"]["message"]
            assert response.json()["error"]["type"] == "invalid_request_error"


async def test_an_answer_and_what_had_no_effect_on_it():
    lone = await complete(
        create_group(["Paris \ud800"], ["Paris \ud800"])
    )  # a surrogate that cannot be encoded
    assert lone.json()["choices"][0]["message"]["content"] == "Paris \ud800"
    reply = (await complete(create_group(*AGREEING), temperature=0, seed=3, max_tokens=5)).json()
    assert reply["coe"]["ignored"] == ["temperature", "seed", "max_tokens"]
    (choice,) = reply["choices"]
    assert (reply["object"], reply["model"]) == ("chat.completion", "g")
    assert choice["message"] == {"role": "assistant", "content": "Paris", "refusal": None}
    assert choice["finish_reason"] == "stop"
    # each ScriptedAgent counts 3 tokens for the question and one for each response
    assert reply["usage"] == {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    assert (reply["coe"]["action"], reply["coe"]["coe"], reply["coe"]["regime"]) == (
        "answer",
        0.0,
        "consensus",
    )


# many clients drop "refusal": they would show an empty answer
@pytest.mark.parametrize(("refusals", "end"), [("content", "content_filter"), ("field", "stop")])
async def test_an_abstention_is_a_refusal_where_the_operator_chose_and_reveals_no_response(
    refusals, end
):
    async with client_of(create_group(*DISAGREEING), refusals=refusals) as client:
        response = await client.post("/v1/chat/completions", json=body_of())
        stream = await client.post("/v1/chat/completions", json=body_of(stream=True))
    assert response.json()["coe"]["coe"] == pytest.approx(math.log(3))
    assert not any(word in response.text + stream.text for word in WITHHELD)
    (whole,) = response.json()["choices"]
    refusal = whole["message"]["refusal"]
    is_in_content = refusals == "content"
    assert refusal
    assert whole["message"]["content"] == (refusal if is_in_content else None)
    assert whole["finish_reason"] == end
    chunks = [
        json.loads(line.removeprefix("data: ")) for line in stream.text.split("\n\n") if "{" in line
    ]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert any(choice["delta"].get("content") == refusal for choice in choices) is is_in_content
    assert choices[-1]["finish_reason"] == end
    with pytest.raises(ValueError, match='"refusals" must be one of'):
        client_of(create_group(*AGREEING), refusals="none")


@pytest.mark.wording
async def test_the_refusal_says_why():
    for said, cause in (
        (DISAGREEING, "several answers share the lead"),
        (
            [ConnectionError("Canberra lost"), ConnectionError("no"), ["Paris"]],
            "too few agents answered",
        ),
        ([["I don't know."], ["I do not know."], ["I don't know"]], "the agents decline to answer"),
        ([["x", "y"], ["x", "y"], ["x", "x"]], "the agents are not certain enough"),
        ([["x", "x", "y"]] * 3, "each agent is unsure, between the same answers"),
    ):
        response = await complete(create_group(*said, max_coe=0.4))
        refusal = response.json()["choices"][0]["message"]["refusal"]
        assert refusal.startswith(f"No answer: {cause}.")
        assert "Canberra" not in refusal


async def test_a_refusal_quotes_no_error():
    failed = (ConnectionError("Canberra lost"), ConnectionError("no"), ["Paris"])
    response = await complete(create_group(*failed))
    assert response.json()["coe"]["action"] == "abstain"
    assert "Canberra" not in response.text


async def test_an_error_that_an_agent_words_itself_is_not_shown():
    class Reporting(ScriptedAgent):
        async def asample(self, request, config=None):
            reply = self.sample(request, config)
            return {
                **reply,
                "responses": [
                    {**row, "error": "Canberra: is no number"} for row in reply["responses"]
                ],
            }

    response = await complete(
        group_of(ScriptedAgent("a", ["x"]), ScriptedAgent("b", ["x"]), Reporting("c", ["y"]))
    )
    assert response.json()["coe"]["failed_agents"] == {"c": "Error"}
    assert "Canberra" not in response.text


CONVERSATION = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Where is"}, {"type": "text", "text": "Lyon?"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "In France."}]},
    {"role": "user", "content": "And Paris?", "name": "x"},
]


async def test_the_agents_see_the_conversation():
    agent = ScriptedAgent("a", ["France"])
    group = group_of(agent)
    assert (await complete(group, messages=CONVERSATION)).json()["choices"][0]["message"][
        "content"
    ] == "France"
    (request,) = agent.requests
    assert request["question"] == "And Paris?"
    assert [(message["role"], message["content"]) for message in request["messages"]] == [
        ("system", "Be brief."),
        ("user", "Where is\nLyon?"),
        ("assistant", "In France."),
        ("user", "And Paris?"),
    ]


@pytest.mark.parametrize(
    "returned",
    [
        {"content": None, "refusal": "No answer: a tie."},  # the openai package
        {"content": ""},  # a client that does not know "refusal"
        {"content": [{"type": "text", "text": "No answer: a tie."}]},  # one that shows it as a text
        {"content": "Escalated: somebody else must decide: the agents hesitate."},
    ],
)
async def test_the_agents_see_no_turn_that_was_refused(returned):
    agent = ScriptedAgent("a", ["France"])
    before = [
        {"role": "user", "content": "Where is Lyon?"},
        {"role": "assistant", "content": "In France."},
    ]
    refused = [{"role": "user", "content": "And Metz?"}, {"role": "assistant", **returned}]
    messages = [*before, *refused, {"role": "user", "content": "And Paris?"}]
    assert (await complete(group_of(agent), messages=messages)).status_code == 200
    (request,) = agent.requests
    assert [message["content"] for message in request["messages"]] == [
        "Where is Lyon?",
        "In France.",
        "And Paris?",
    ]


def with_function(**function):
    return {"tools": [{"type": "function", "function": {"name": "f", **function}}]}


ASKED, PICTURE = {"role": "user", "content": "x"}, [{"type": "image_url"}]
REFUSED = [
    ({"model": "gpt"}, "model"),
    ({"messages": [{**ASKED, "content": " "}]}, "messages"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
    ({"messages": [3]}, "messages[0]"),
    ({"messages": [{**ASKED, "content": PICTURE}]}, "messages[0].content"),
    ({"messages": [ASKED] * 2049}, "messages"),
    ({"messages": [ASKED, calling(call_of()), ASKED]}, "messages[1]"),  # the result is missing
    (
        {"messages": [ASKED, calling(call_of("x" * 257)), result("x" * 257)]},
        "messages[1].tool_calls",
    ),
    (
        {"messages": [ASKED, calling(call_of(arguments='{"a": 1, "a": 2}')), result()]},
        "messages[1].tool_calls",
    ),
    ({"messages": [{**ASKED, "tool_calls": [call_of()]}, result()]}, "messages[0]"),
    ({"messages": [ASKED, calling(call_of()), result(content=PICTURE)]}, "messages[2].content"),
    ({"messages": [ASKED, {"role": "assistant", "function_call": {"name": "pay"}}]}, "messages[1]"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": 3}, "stream_options"),
    ({"coe": [0.3]}, "coe"),
    ({"n": 2}, "n"),
    ({"stop": [1]}, "stop"),
    ({"tempratur": 1}, "tempratur"),
    ({"tools": {"type": "function"}}, "tools"),
    (
        {"tools": [tool for n in range(129) for tool in with_function(name=f"f{n}")["tools"]]},
        "tools",
    ),
    (with_function(description="x" * 400_001), "tools"),
    (with_function(name="a.b"), "tools[0]"),
    (with_function(parameters=[]), "tools[0]"),
    (with_function(parameters=False), "tools[0]"),
    (with_function(parameters={"type": "objekt"}), "tools[0]"),
    (with_function(parameters={"properties": []}), "tools[0]"),
    (with_function(parameters={"$ref": "#/x"}), "tools[0]"),
    ({"tool_choice": "required"}, "tool_choice"),
    (
        {**with_function(), "tool_choice": {"type": "function", "function": {"name": "pay"}}},
        "tool_choice",
    ),
    ({**with_function(), "tool_choice": {"type": "custom"}}, "tool_choice"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}},
        "response_format",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": False}}},
        "response_format",
    ),
]


@pytest.mark.parametrize(
    ("fields", "param"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
async def test_what_the_group_cannot_do_or_read_is_refused_by_name(fields, param):
    response = await complete(create_group(*AGREEING), **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (
        404 if param == "model" else 400,
        param,
    )
    assert len(response.content) < 3000


TWICE = b'{"model": "g", "messages": [{"role": "user", "content": "x"}], "coe": {"max_coe": 0.1, "max_coe": 0.5}}'


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/events"])
@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[" * 100_000,
        TWICE,
        TWICE.replace(b'"max_coe": 0.5', b'"x": NaN'),
        b'{"question": "x", "question": "y"}',
    ],
    ids=lambda content: repr(content[:9]) if isinstance(content, bytes) else None,
)
async def test_a_body_that_is_no_object_is_refused(path, content):
    async with client_of(create_group(*AGREEING)) as client:
        response = await client.post(path, content=content)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("the body must be a JSON object")


async def test_a_question_that_is_too_long_asks_nobody():
    response = await complete(create_group(*AGREEING, max_question_chars=10), "x" * 11)
    assert (response.status_code, response.json()["error"]["code"]) == (
        400,
        "context_length_exceeded",
    )
