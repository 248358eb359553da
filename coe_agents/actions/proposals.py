"""Owns what is said of proposals: whether their tools and arguments exist, their words, and how far others agree."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from coe_agents.actions.canonical import (
    Parser,
    canonical_action,
    read_action,
    read_call,
    to_line,
    tool_key,
    write_action,
)
from coe_agents.actions.schemas import read_tools
from coe_agents.actions.structured import ANSWER
from coe_agents.types import Response

NO_CALL = "no call"
"""How an action that calls nothing is shown."""


def check_proposal(
    calls: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Any],
    parsers: Mapping[str, Parser] | None = None,
) -> str:
    """Returns the canonical form of a proposal that fits the tools; see `canonical_action`.

    The calls are untrusted. Without a parser, missing arguments and values of another type are not looked for: the
    tool's own validation does that.

    Raises:
        TypeError: A call has no name, or its arguments are not JSON values.
        ValueError: A call names a tool that was not shown, or one of two whose names are equal but for "." and "_"; or
            an argument that the tool's schema neither declares nor allows in so many words, by `additionalProperties`
            or `patternProperties`; or `canonical_action` refuses it.
    """
    shown = read_tools(tools)
    for call in calls:
        name, _ = read_call(call)
        alike = {tool for tool, _ in shown if tool_key(tool) == tool_key(name)}
        if not alike:
            raise ValueError(f"the proposal calls {name[:80]!r}, which is not one of the tools")
        if len(alike) > 1:  # these are one tool to the comparison, and another one might run
            raise ValueError(
                f'the proposal calls {name[:80]!r}, and the name of another tool is equal but for "." and "_"'
            )
    parameters = {tool_key(tool): stated for tool, stated in shown}
    return write_action(calls, parameters, parsers or {}, must_declare=True)


def check_call(call: Mapping[str, Any], tools: Sequence[Any]) -> None:
    """Refuses, by a ValueError, a call that names no tool, or an argument that its tool would leave out; as written.

    What the tool's own parser makes of it is not compared with anything.
    """
    parsers = {tool_key(call["name"]): dict}
    try:
        check_proposal([call], tools=tools, parsers=parsers)
    except TypeError as error:
        raise ValueError(str(error)) from error


def has_proposals(responses: Sequence[Response]) -> bool:
    """Returns whether an agent with tools gave a response; also one that calls nothing is a proposal."""
    return any(response.get("calls") is not None for response in responses)


def compared_answer(response: Response) -> str:
    """Returns what is compared of a response to a question that is about actions.

    Of proposed calls it is the canonical action that is stored as the answer, which was written with the tools' schemas
    or parsers; where none is, that of the calls. A text that would be read as an action is changed: it was not proposed
    as one.
    """
    text = response["text"] if response["answer"] is None else response["answer"]
    calls = response.get("calls")
    if calls is None:
        is_action = read_action(text.strip()) is not None
        return f"(no proposal: {text!r})" if is_action else text
    if read_action(text) is not None:
        return text
    return canonical_action(calls)


def describe_action(action: str) -> str:
    """Returns a canonical action in words, on one line: `pay(sum=5, to="ann")`, or "no call".

    A structured answer is its JSON.
    """
    described = []
    for call in json.loads(action):
        if call["name"] == ANSWER:
            described.append(json.dumps(call["args"]))
            continue
        args = [f"{name}={json.dumps(value)}" for name, value in call["args"].items()]
        described.append(f"{call['name']}({', '.join(args)})")
    return " and ".join(described) or NO_CALL


def called_tools(action: str) -> list[str] | None:
    """Returns the names of the tools that a canonical action calls, each once; None of a text that is no action."""
    calls = read_action(action)
    if calls is None:
        return None
    return sorted({call["name"] for call in calls})


def argument_agreement(
    groups: Iterable[Mapping[str, str]], proposer: str
) -> dict[str, tuple[float, int]]:
    """Returns the share of others' values that are the proposer's, and their number, by "tool.argument", least first.

    Only agents that call the same tools are compared.

    Args:
        groups: For each question the canonical action of each agent, by name.
        proposer: The agent whose values are compared with those of the others.

    Example:
        >>> groups = [{"a": '[{"args":{"to":"Ann"},"name":"pay"}]', "b": '[{"args":{"to":"ann"},"name":"pay"}]'}]
        >>> argument_agreement(groups, "a")
        {'pay.to': (0.0, 1)}
    """
    agreeing: dict[str, list[bool]] = defaultdict(list)
    for group in groups:
        proposal = read_action(group.get(proposer, "")) or []
        for name, text in group.items():
            other = read_action(text) or []
            if name == proposer or list(map(_name, proposal)) != list(map(_name, other)):
                continue
            for call, peer in zip(proposal, other, strict=True):
                for argument in call["args"].keys() | peer["args"].keys():
                    is_equal = _argument_line(call, argument) == _argument_line(peer, argument)
                    agreeing[f"{call['name']}.{argument}"].append(is_equal)
    shares = {}
    for path, same in sorted(agreeing.items()):
        shares[path] = sum(same) / len(same), len(same)
    return dict(sorted(shares.items(), key=lambda share: share[1][0]))


_name = itemgetter("name")


def _argument_line(call: Mapping[str, Any], argument: str) -> str | None:
    if argument not in call["args"]:
        return None
    return to_line(call["args"][argument])
