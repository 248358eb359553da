"""Whatever one caller sends, others are answered within a second, and what is no Unicode or no number is refused."""

import asyncio
import json
import time

import pytest
from langchain_core.messages import AIMessage

from coe_agents import ModelAgent, SupportPolicy
from coe_agents.testing.driver import ScriptedDriver
from tests.serve.groups import body_of, client_of, group_of, supporting

MOST = 1.0
"""Seconds of this process's CPU between two turns of the event loop: nothing else of the machine counts."""
CALL = [{"name": "f", "args": {"a" * 40 + "!": 1}}]


def tools(*schemas):
    named = [
        {"name": f"f{place or ''}", "parameters": schema} for place, schema in enumerate(schemas)
    ]
    return {"tools": [{"type": "function", "function": each} for each in named]}


def answers(schema):
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    }


def doubling(key, n):
    """Returns a schema of 2 ** n parts, each of which is an object."""
    parts = {f"a{place}": {key: [{"$ref": f"#/$defs/a{place + 1}"}] * 2} for place in range(n)}
    return {"$defs": {**parts, f"a{n}": {"type": "object"}}, "$ref": "#/$defs/a0"}


def a_list(items):
    return {"type": "object", "properties": {"l": {"type": "array", "items": items}}}


def said_list(*items):
    return [{"name": "f", "args": {"l": list(items)}}]


def earlier(arguments):
    """Returns a conversation with a call of these arguments, which are JSON."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    question, result = (
        {"role": "user", "content": "q"},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
    )
    return {"messages": [question, called, result]}


def repeated_name(n):
    """Returns an object of n names, the last of which appears twice."""
    return f'{{{"".join(f"{json.dumps(str(place))}:1," for place in range(n))}"{n - 1}":2}}'


NESTED = {"patternProperties": {"(a+)+$": {}}, "properties": {"a" * 40 + "!": {}}}
MANY = {f"^x{place}[a-z]*$": {} for place in range(2000)}
TREE = {}
for level in range(60):
    child = {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}], "default": {}}
    TREE[f"a{level}"] = {"properties": {"p1": child, "p2": child, "p3": child}}
HOSTILE = {
    "a pattern of a tool": (tools(NESTED), CALL),
    "a pattern of answers": (answers(NESTED), json.dumps(CALL[0]["args"])),
    "2,000 harmless patterns": (
        tools({"patternProperties": MANY}),
        [{"name": "f", "args": dict.fromkeys(MANY, 1)}],
    ),
    "patterns that are slow to compile": (
        tools({"patternProperties": {r"\w" * 32 + str(i): {} for i in range(99)}}),
        CALL,
    ),
    "repetition by number": (
        tools({"patternProperties": {r"(\w{99}){99}" + str(i): {} for i in range(99)}}),
        CALL,
    ),
    "parts that double": (tools(doubling("allOf", 26)), CALL),
    "alternatives that double": (answers(doubling("anyOf", 26)), "{}"),
    "many tools with parts that double": (tools(*[doubling("allOf", 12)] * 128), CALL),
    "20,000 parts": (tools({"allOf": [{}] * 20_000}), CALL),
    "1,000 alternatives of 20,000 parts": (
        tools({"anyOf": [{}] * 1000, "allOf": [{}] * 20_000}),
        CALL,
    ),
    "a long enumeration": (
        tools(a_list({"anyOf": [{"enum": list(range(20_000, 70_000))}, {"type": "null"}]})),
        said_list(*range(15_000)),
    ),
    "an enumeration of long lists": (
        tools(
            a_list({"anyOf": [{"enum": [[1] * 999 + [i] for i in range(50)]}, {"type": "null"}]})
        ),
        said_list(*[[1] * 1000] * 40),
    ),
    "what is required 50,000 times": (
        answers(a_list({"required": ["a"] * 50_000})),
        json.dumps({"l": [{"a": 1}] * 9000}),
    ),
    "50,000 types": (
        answers(a_list({"type": ["string"] * 30_000})),
        json.dumps({"l": [1] * 20_000}),
    ),
    "many fields of many objects": (
        tools(a_list({"properties": {str(i): {} for i in range(20_000)}})),
        said_list(*[{}] * 20_000),
    ),
    "defaults that multiply": (
        tools({"$defs": TREE, "$ref": "#/$defs/a0"}),
        [{"name": "f", "args": {}}],
    ),
    "a name that appears twice among 90,000": (repeated_name(90_000), "x"),
    "the same in the arguments of a call": (earlier(repeated_name(60_000)), "x"),
    "an integer of 900,000 digits": (f'{{"seed": {"9" * 900_000}}}', "x"),
    "a text of 900,000 characters": (
        {"messages": [{"role": "user", "content": " \u0301a\ufb03" * 60_000}]},
        "x",
    ),
    "2,000 turns without an answer": (
        {
            "messages": [
                {"role": r, "content": c}
                for r, c in [("user", "q"), ("assistant", "No answer: x")] * 1000
            ]
            + [{"role": "user", "content": "q"}]
        },
        "x",
    ),
}


LARGEST = ("a long enumeration", "an enumeration of long lists", "many fields of many objects")
"""Those that take more than a second of CPU: the slow tests have them."""


def group_of_models(said):
    """Returns a group of two models, each of which says a text, or proposes calls, twice."""
    calls = [{**call, "id": "1"} for call in said] if isinstance(said, list) else []
    message = AIMessage("" if calls else said, tool_calls=calls)
    agents = [
        ModelAgent(name, ScriptedDriver(script=[message]), n_samples=2, on_greedy="trust")
        for name in "ab"
    ]
    return group_of(*agents, policy=SupportPolicy(0.5))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LARGEST else ()) for name in HOSTILE],
)
async def test_no_request_holds_the_event_loop(name):
    fields, said = HOSTILE[name]
    body = fields if isinstance(fields, str) else json.dumps(body_of(**fields))
    longest, is_done = 0.0, False

    async def watch():
        nonlocal longest
        former = time.process_time()
        while not is_done:
            await asyncio.sleep(0.005)
            now = time.process_time()
            longest, former = max(longest, now - former), now

    async with client_of(group_of_models(said)) as client:
        await client.post(
            "/v1/chat/completions", json=body_of()
        )  # what is imported at first is no caller's
        watching = asyncio.create_task(watch())
        asked = asyncio.create_task(client.post("/v1/chat/completions", content=body))
        await asyncio.sleep(0)
        assert (await client.get("/health")).status_code == 200
        response = await asked
        is_done = True
        await watching
    assert response.status_code in (200, 400)
    assert longest < MOST


IN_VALUES = ["/v1/chat/completions", "/v1/responses", "/events"]
FAULTS = [r'"\ud83d"', r'{"\udc00": 1}', r'["\udc00\ud83d"]', "1e999", "-1e999", "NaN"]


def asking(path, value):
    """Returns a body whose field "metadata" or "coe" holds a value, which is JSON."""
    if path == "/events":
        return f'{{"question": "q", "coe": {{"max_coe": {value}}}}}'
    asked = (
        '"input": "q"'
        if path == "/v1/responses"
        else '"messages": [{"role": "user", "content": "q"}]'
    )
    return f'{{"model": "g", {asked}, "metadata": {value}}}'


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", IN_VALUES)
async def test_half_a_character_or_an_infinite_number_is_the_callers_error(path, fault):
    whole = "0.5" if path == "/events" else r'{"\ud83d\ude00": 1e300}'
    async with client_of(supporting("x", "x")) as client:
        assert (await client.post(path, content=asking(path, fault))).status_code == 400
        assert (await client.post(path, content=asking(path, whole))).status_code == 200


@pytest.mark.parametrize("fault", FAULTS)
async def test_so_it_is_in_the_arguments_of_an_earlier_call_which_are_json_in_json(fault):
    async with client_of(supporting("x", "x")) as client:
        for value, status in ((fault, 400), (r'"\ud83d\ude00"', 200)):
            body = body_of(**earlier(f'{{"x": {value}}}'))
            assert (await client.post("/v1/chat/completions", json=body)).status_code == status


async def test_bytes_that_are_no_utf_8_are_the_callers_error():
    async with client_of(supporting("x", "x")) as client:
        for text in (
            b"\xed\xa0\xbd",
            b"\xff",
        ):  # half a surrogate pair, as bytes; and no character at all
            body = json.dumps(body_of("q TEXT")).encode().replace(b"TEXT", text)
            assert (await client.post("/v1/chat/completions", content=body)).status_code == 400
