"""Owns `CoEContext`, what one run, or an assistant of a server, changes about a graph, and the settings that result."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from langgraph.runtime import get_runtime
from pydantic import ConfigDict

from coe_agents.checks import number
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.extensions import did_you_mean
from coe_agents.graph.state import CoEState
from coe_agents.policy import Policy
from coe_agents.policy.base import change_thresholds, quorum
from coe_agents.policy.bounds import THRESHOLDS, Bounds
from coe_agents.policy.settle import Rules


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

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

    agents: Sequence[str] | None = None
    """The names of the agents that are asked; each must be an agent of the graph."""

    def __new__(cls, **values: Any) -> "CoEContext":
        """Refuses a key that does not exist, by name: LangGraph passes a dictionary's entries as arguments."""
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                message = f"the keys of a context must be among {', '.join(known)}; got {key!r}. Correct the key"
                near = did_you_mean(key, known)
                raise TypeError(f"{message}. {near}" if near else message)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in THRESHOLDS:
            value = getattr(self, name)
            if value is not None:
                number(value, f'"{name}" of the context', least=0, advice="Pass a number of nats")
        if self.agents is not None:
            _check_agents(self.agents)

    def changes(self) -> dict[str, Any]:
        """Returns the values that are not None, as plain data."""
        changes = self.to_dict()
        if self.agents is not None:
            changes["agents"] = list(self.agents)
        return changes


@dataclass(frozen=True, kw_only=True)
class CallersLimits(CoEContext):
    """Bounds of a caller who must not open the gate: they only make it stricter, whatever the policy.

    A deadline of theirs is not the graph's, where it would silence slow agents: a caller could choose who is heard.
    """

    def changes(self) -> dict[str, Any]:
        limits = {name: value for name, value in self.to_dict().items() if name != "deadline"}
        return {"limits": limits} if limits else {}


def _check_agents(agents: Any) -> None:
    is_list = isinstance(agents, Sequence) and not isinstance(agents, str | bytes)
    if not is_list or not all(isinstance(name, str) for name in agents):
        raise TypeError(
            f'"agents" of the context must be a list of names; got {reprlib.repr(agents)}. Write ["a", "b"]'
        )
    if not agents or len(set(agents)) < len(agents):
        raise ValueError(
            f'"agents" of the context must hold at least one name, each once; got {agents!r}. Omit it for all agents'
        )


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a context may change; made when the graph is built, and changed for each run by what its state holds.

    Attributes:
        weights: The weight of each agent that is asked, by name.
        rules: What holds whatever the policy says. The thresholds of its bounds are those of the regime that is
            reported.
        answers: How answers in words of their own are asked for and read; None for no preset.
    """

    weights: Mapping[str, float]
    policy: Policy
    rules: Rules
    answers: AnswerPreset | None = None

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self.weights)

    @property
    def quorum(self) -> int:
        return quorum(len(self.weights), self.rules.min_agents)

    @property
    def bounds(self) -> Bounds:
        return self.rules.bounds

    @property
    def regimes(self) -> dict[str, float | None]:
        """The thresholds of the regime that is reported, as options of `measure`."""
        return {name: getattr(self.bounds, name) for name in THRESHOLDS[1:]}

    def of(self, state: CoEState) -> "RunSettings":
        changes = state["turn"]["context"]
        return self.change(changes) if changes else self

    def change(self, changes: Mapping[str, Any]) -> "RunSettings":
        """Returns the settings with the changes of a context."""
        weights = self.weights
        if "agents" in changes:
            weights = self._select(changes["agents"])
        thresholds = {name: changes[name] for name in THRESHOLDS if name in changes}
        policy = self.policy
        if thresholds:
            policy = change_thresholds(policy, thresholds)
        limits = None
        if "limits" in changes:
            limits = Bounds(**changes["limits"])
        bounds = self.bounds.change(**changes)
        rules = replace(self.rules, bounds=bounds, limits=limits)
        return replace(self, weights=weights, policy=policy, rules=rules)

    def _select(self, names: list[str]) -> dict[str, float]:
        unknown = [name for name in names if name not in self.weights]
        if unknown:
            raise ValueError(
                f'"agents" of the context must name agents of the graph; it has no {", ".join(map(repr, unknown))}. '
                f"Its agents are {', '.join(self.weights)}"
            )
        selected = {name: weight for name, weight in self.weights.items() if name in names}
        if not any(weight > 0 for weight in selected.values()):
            raise ValueError(
                f'"agents" of the context must hold one with a weight above 0; got {names!r}. Add another agent'
            )
        if self.rules.min_agents is not None and self.rules.min_agents > len(selected):
            raise ValueError(
                f'"agents" of the context must hold at least "min_agents" of the graph, {self.rules.min_agents}; '
                f"got {len(selected)}. Add agents"
            )
        return selected


def read_changes(settings: RunSettings) -> dict[str, Any]:
    """Returns what the context of the present run changes, once it is known to fit; called inside a run."""
    context = get_runtime().context
    if not isinstance(context, CoEContext):
        return {}  # absent, or the context of a parent graph, whose keys have another meaning
    changes = context.changes()
    settings.change(changes)
    return changes
