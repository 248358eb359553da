"""Owns which calls a gate is about: by a tool's name, by a pattern of names, or by a condition on the call."""

import copy
import json
import logging
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any

import numpy as np
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.tools import BaseTool

from coe_agents.actions.canonical import tool_key
from coe_agents.errors import is_control_flow
from coe_agents.middleware.parsing import received_arguments
from coe_agents.middleware.verdict import last_reply

logger = logging.getLogger(__name__)

Condition = Callable[[ToolCallRequest], bool]
"""Whether a call is gated, by its arguments as the tool's function receives them."""
Tools = Collection[str] | Mapping[str, bool | Condition]
"""The gated tools by name or pattern, all calls of them or those that meet a condition."""

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(rf"\A\s*([\w.]+)\s*({'|'.join(_SIGNS)})\s*(.+)\Z")
_USAGE = 'Write tools=["transfer_money"] or tools={"transfer_money": True}'


class GatedTools:
    """Which calls a gate is about; what is given is read once, since an iterator would be empty the next time.

    A "*" in a name stands for any characters. Where an entry has the very name of a tool, it decides alone; else a call
    is gated if any pattern that fits its tool's name says so. `name in gated` is whether a call of this tool may be
    gated.

    Args:
        tools: As a user gives them; None for all.
        gate: The name of the gate.
    """

    def __init__(self, tools: Tools | None, gate: str) -> None:
        self._gate = gate
        self._failing = set[str]()
        self.is_all = tools is None
        self._given = _read(tools)
        self._exact = dict[str, bool | Condition]()
        self._patterns = list[tuple[re.Pattern[str], bool | Condition]]()
        for name, condition in self._given.items():
            if "*" in name:
                self._patterns.append((_compile(name), condition))
            else:
                self._exact[tool_key(name)] = condition

    @property
    def is_none(self) -> bool:
        """Whether no call can be gated."""
        return not self.is_all and all(condition is False for condition in self._given.values())

    def __contains__(self, name: object) -> bool:
        conditions = self._conditions(name if isinstance(name, str) else "")
        return any(condition is not False for condition in conditions)

    def has_all(self, name: str) -> bool:
        """Returns whether each call of a tool is gated, whatever its arguments are."""
        return any(condition is True for condition in self._conditions(name))

    def has(self, request: ToolCallRequest, tool: BaseTool | None = None) -> bool:
        """Returns whether a call is gated; it is where a condition fails, or returns something else than a bool.

        Args:
            request: The call, and the state of the agent, whose last reply of the model proposes it.
            tool: What will run; by default the request's own tool. A condition sees the arguments as it parses them, or
                as they are where no tool is known.
        """
        call = request.tool_call
        return any(
            self._meets(condition, request, tool or request.tool)
            for condition in self._conditions(call["name"])
        )

    def missing_among(self, names: Collection[str]) -> list[str]:
        """Returns the entries that no tool of these names fits: they would gate nothing."""
        missing = []
        for given in self._given:
            pattern = _compile(given)
            if not any(pattern.fullmatch(tool_key(name)) for name in names):
                missing.append(given)
        return sorted(missing)

    def _conditions(self, name: str) -> list[bool | Condition]:
        key = tool_key(name)
        if self.is_all:
            return [True]
        if key in self._exact:
            return [self._exact[key]]
        return [condition for pattern, condition in self._patterns if pattern.fullmatch(key)]

    def _meets(
        self, condition: bool | Condition, request: ToolCallRequest, tool: BaseTool | None
    ) -> bool:
        if isinstance(condition, bool):
            return condition
        name = request.tool_call["name"]
        try:
            meets: object = condition(_shown(request, tool))
        except Exception as error:  # a user's function, or a tool's validator, may raise anything
            if is_control_flow(error):
                raise
            self._warn(name, f"failed with {type(error).__name__}")
            return True
        if isinstance(meets, bool | np.bool_):
            return bool(meets)
        self._warn(name, f"returned {type(meets).__name__}, and no bool")
        return True

    def _warn(self, name: str, what: str) -> None:
        if name in self._failing:
            return
        self._failing.add(name)
        logger.warning(
            '%s gates all calls for which the condition on "%s" fails: it %s',
            self._gate,
            name,
            what,
        )


def read_condition(text: str) -> Condition:
    """Returns the condition that an argument compares so with a JSON value, as in "amount > 100" or 'to == "Ann"'.

    An argument inside another one is "order.amount"; the signs are ==, !=, <, <=, > and >=.

    Raises:
        ValueError: The text is no such comparison.
    """
    try:
        [(path, sign, value)] = _COMPARISON.findall(text)
        expected = json.loads(value)
    except ValueError as error:
        raise ValueError(
            f'a condition must compare an argument with a JSON value; got {text!r:.80}. Write "amount > 100"'
        ) from error

    def meets(request: ToolCallRequest) -> bool:
        found: Any = request.tool_call["args"]
        for part in path.split("."):
            found = found[part]
        return bool(_SIGNS[sign](found, expected))

    return meets


def _shown(request: ToolCallRequest, tool: BaseTool | None) -> ToolCallRequest:
    """Returns a request of which nothing that runs, or is compared, can be changed."""
    call = request.tool_call
    arguments = received_arguments(tool, call)
    messages = [*request.state["messages"]]
    place, reply = last_reply(messages)
    if place < len(messages):
        messages[place] = copy.deepcopy(reply)
    state = {**request.state, "messages": messages}
    shown: Any = replace(request.runtime, state=state)
    return ToolCallRequest(
        tool_call={**call, "args": arguments}, tool=tool, state=state, runtime=shown
    )


def _read(tools: object) -> dict[str, bool | Condition]:
    entries = list[tuple[Any, Any]]()
    if isinstance(tools, Mapping):
        entries += tools.items()
    elif isinstance(tools, Iterable) and not isinstance(tools, str):
        entries += [(name, True) for name in tools]
    elif tools is not None:
        raise _not_tools(tools)
    for name, condition in entries:
        is_condition = callable(condition) and not iscoroutinefunction(condition)
        if not isinstance(name, str) or not (isinstance(condition, bool) or is_condition):
            raise _not_tools(tools)
    return dict(entries)


def _not_tools(tools: object) -> TypeError:
    return TypeError(
        '"tools" must be a list of names of tools, or a mapping from names to True, False or a plain function of the '
        f"call; got {tools!r:.200}. {_USAGE}"
    )


def _compile(pattern: str) -> re.Pattern[str]:
    parts = map(re.escape, tool_key(pattern).split("*"))
    return re.compile(".*".join(parts), re.DOTALL)
