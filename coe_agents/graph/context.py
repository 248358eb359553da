"""Owns `CoEContext`: what one run, or an assistant of a server, changes about a graph."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from pydantic import ConfigDict

from coe_agents.checks import number
from coe_agents.extensions import did_you_mean
from coe_agents.policy.bounds import THRESHOLDS, Bounds


@dataclass(frozen=True, kw_only=True)
class CoEContext(Bounds):
    """What a run changes: `graph.invoke(..., context={"max_coe": 0.4})`; None leaves what the graph was built with.

    It is the `context_schema` of the graph, so that a server's client, or an assistant, can set it. An unknown key is
    an error. Inside a parent graph that has a `CoEContext` the graph uses the parent's; a parent's context of another
    kind is ignored. A run that is resumed keeps the context with which it began.

    Whoever may set the context may open the gate: `max_coe=10` answers nearly everything.

    Raises:
        TypeError: If there is another key, or a value is of the wrong kind.
        ValueError: If a value is out of range.

    Example:
        >>> CoEContext(max_coe=0.4, agents=["a", "b"]).changes()
        {'max_coe': 0.4, 'agents': ['a', 'b']}
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    agents: Sequence[str] | None = None
    """The names of the agents that are asked; each must be an agent of the graph."""

    def __new__(cls, **given: Any) -> "CoEContext":
        """Refuses a key that does not exist, by name: LangGraph passes a dictionary's entries as arguments."""
        known = [field.name for field in fields(cls)]
        for key in given:
            if key not in known:
                message = f"the keys of a context must be among {', '.join(known)}; got {key!r}. Correct the key"
                near = did_you_mean(key, known)
                raise TypeError(f"{message}. {near}" if near else message)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Refuses values that no graph could use."""
        super().__post_init__()
        for name in THRESHOLDS:
            if (value := getattr(self, name)) is not None:
                number(value, f'"{name}" of the context', least=0, advice="Pass a number of nats")
        if self.agents is not None:
            _check_agents(self.agents)

    def changes(self) -> dict[str, Any]:
        """Returns the values that are not None, as plain data."""
        return self.to_dict() | ({} if self.agents is None else {"agents": list(self.agents)})


@dataclass(frozen=True, kw_only=True)
class CallersLimits(CoEContext):
    """Bounds of a caller who must not open the gate: they only make it stricter, whatever the policy.

    A deadline of theirs is not the graph's, where it would silence slow agents: a caller could choose who is heard.
    """

    def changes(self) -> dict[str, Any]:
        """Returns the limits, as plain data."""
        limits = {name: value for name, value in self.to_dict().items() if name != "deadline"}
        return {"limits": limits} if limits else {}


def _check_agents(agents: object) -> None:
    is_text = isinstance(agents, str | bytes)
    if is_text or not isinstance(agents, Sequence) or not all(isinstance(name, str) for name in agents):
        raise TypeError(
            f'"agents" of the context must be a list of names; got {reprlib.repr(agents)}. Write ["a", "b"]'
        )
    if not agents or len(set(agents)) < len(agents):
        raise ValueError(
            f'"agents" of the context must hold at least one name, each once; got {agents!r}. Omit it for all agents'
        )
