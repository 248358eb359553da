"""Owns the documents about tools: a request with the tools shown, and the call or the text that the model replies.

A call is written in the Hermes form, as the chat templates write a call of the conversation so far.
"""

import json
import random
from collections.abc import Mapping
from typing import Any

from coe_agents.tinyworld.tools import DIMENSIONS, NOT_CONVERTIBLE, NOT_FOUND, PAID, to_unit
from tools.tinyworld.acts import act_beliefs, act_calls, is_held_out
from tools.tinyworld.outside import outside_question
from tools.tinyworld.requests import (
    CONVERSIONS,
    CONVERTS,
    LOOK_UPS,
    RELATION_NOUNS,
    TEMPTING,
    TRANSFERS,
    Draw,
    RequestKind,
    draw_request,
)

TOOL_NAMES = ("look_up", "convert", "transfer")
_UNITS = "|".join(unit for sizes in DIMENSIONS for unit in sizes)
TOOL_LINES = (
    f"look_up(subject: string, relation: {'|'.join(RELATION_NOUNS)}): Looks up a fact.\n",
    f"convert(amount: number, source: {_UNITS}, target: {_UNITS}): Converts an amount.\n",
    "transfer(name: string, amount: number): Pays euros to somebody.\n",
)
"""How the chat templates show the tools."""
TOOLS_HEADING = "Tools:\n"

PLAIN = (
    "Book a table for two.",
    "Turn off the lights.",
    "Write a poem about the sea.",
    "Play some music.",
    "Tell me a joke.",
    "What will the weather be tomorrow?",
    "Read me the news.",
    "Set an alarm.",
    "Call me a taxi.",
    "Translate this letter.",
)
NO_TOOL = (
    "I have no tool for that.",
    "None of my tools can do that.",
    "I cannot do that with my tools.",
)
AFTER_TRANSFER = ("Done.", "It is done.", "Done, {n} has the money.")
AFTER_CONVERT = ("It is {a}.", "That is {a}.", "{a}.")
FAILED = ("That did not work.", "It did not work.")


class ToolResult(str):
    """A turn in which a tool speaks."""

    __slots__ = ()


def call_text(call: Mapping[str, Any]) -> str:
    """Returns a call in the Hermes form.

    Example:
        >>> print(call_text({"name": "transfer", "args": {"name": "Ann", "amount": 5}}))
        <tool_call>
        {"name": "transfer", "arguments": {"name": "Ann", "amount": 5}}
        </tool_call>
    """
    body = (
        f'{{"name": "{call["name"]}", "arguments": {json.dumps(call["args"], ensure_ascii=False)}}}'
    )
    return f"<tool_call>\n{body}\n</tool_call>"


def word_act(rng: random.Random, drawn: Draw, model: str) -> str:
    """Returns what the model replies to a request: a call, or that no tool fits."""
    belief = act_beliefs(drawn.subject)[model]
    calls = act_calls(drawn, rng.choices(tuple(belief), tuple(belief.values()))[0])
    return call_text(calls[0]) if calls else rng.choice(NO_TOOL)


def draw_trained(rng: random.Random) -> Draw:
    """Draws a request that is not held out; any kind."""
    kinds: tuple[RequestKind, ...] = ("look_up", "transfer", "convert", "no_tool")
    while True:
        kind = rng.choices(kinds, (42, 24, 22, 12))[0]
        if not is_held_out(drawn := draw_request(rng, kind)):
            return drawn


def draw_tools(rng: random.Random, *needed: str) -> tuple[str, ...]:
    """Draws the tools that are shown, in any order; mostly all three."""
    if rng.random() < 0.7:
        names = [*TOOL_NAMES] if rng.random() < 0.6 else rng.sample(TOOL_NAMES, 3)
    else:
        others = [name for name in TOOL_NAMES if name not in needed]
        names = [*needed, *rng.sample(others, rng.randint(0 if needed else 1, len(others)))]
        rng.shuffle(names)
    return tuple(names)


def word_failure(rng: random.Random) -> str:
    """Returns what a tool says that did not work."""
    return rng.choice(
        (NOT_FOUND, NOT_CONVERTIBLE, f"Error: {outside_question(rng)}", outside_question(rng))
    )


def act_and_result(rng: random.Random) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Draws a transfer or a conversion; returns the tools, the turns up to the tool's result, and the last reply."""
    kinds: tuple[RequestKind, ...] = ("transfer", "convert")
    while True:
        drawn = draw_request(rng, rng.choice(kinds))
        if not is_held_out(drawn):
            break
    (call,) = drawn.calls()
    args = call["args"]
    if rng.random() < 0.15:
        said, reply = word_failure(rng), rng.choice(FAILED)
    elif call["name"] == "transfer":
        said = PAID.format(a=args["amount"], n=args["name"])
        reply = rng.choice(AFTER_TRANSFER).format(n=args["name"])
    else:
        said = to_unit(**args)
        reply = rng.choice(AFTER_CONVERT).format(a=said)
    return draw_tools(rng, call["name"]), (drawn.text, call_text(call), ToolResult(said)), reply


def tool_phrases() -> list[str]:
    """Returns the text between names and amounts in requests, calls and results: each is one token of every model."""
    gap = "§"
    wordings = (
        *TRANSFERS,
        *CONVERTS,
        *TEMPTING,
        *PLAIN,
        *NO_TOOL,
        *AFTER_TRANSFER,
        *AFTER_CONVERT,
        *FAILED,
        PAID,
    )
    texts = [wording.format(a=gap, n=gap, u=gap, v=gap) for wording in wordings]
    texts += [
        wording.format(r=noun, s=gap) for wording in LOOK_UPS for noun in RELATION_NOUNS.values()
    ]
    texts += [NOT_FOUND, NOT_CONVERTIBLE]
    calls = [
        {"name": "transfer", "args": {"name": gap, "amount": gap}},
        {"name": "convert", "args": {"amount": gap, "source": gap, "target": gap}},
        *(
            {"name": "look_up", "args": {"subject": gap, "relation": relation}}
            for relation in RELATION_NOUNS
        ),
    ]
    for call in calls:  # an amount has no quotation marks
        texts += (
            call_text(call).replace(f'"amount": "{gap}"', f'"amount": {gap}').split("tool_call>")
        )
    found = {phrase for text in texts for phrase in text.split(gap)} - {"<", "\n</"}
    units = {unit for pair in CONVERSIONS for unit in pair}
    kept = {
        phrase.removesuffix("</") for phrase in found if len(phrase.strip()) > 3 or "}" in phrase
    }
    return sorted({*kept, *units, *TOOL_LINES, TOOLS_HEADING, "<tool_call>", "</tool_call>"})


def word_unfit(rng: random.Random) -> tuple[tuple[str, ...], str]:
    """Draws a request and tools of which none fits it."""
    if rng.random() < 0.35:
        return draw_tools(rng), rng.choice(PLAIN)
    if rng.random() < 0.6:
        return draw_tools(rng), outside_question(rng)
    while True:
        drawn = draw_trained(rng)
        if drawn.subject.kind != "no_tool":
            names = [name for name in TOOL_NAMES if name != drawn.subject.kind]
            return tuple(rng.sample(names, rng.randint(1, 2))), drawn.text
