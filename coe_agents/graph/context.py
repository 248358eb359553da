"""Owns `CoEContext`: what one run, or an assistant of a server, changes about a graph."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from pydantic import ConfigDict, StrictFloat, StrictInt

from coe_agents.checks import integer, number
from coe_agents.extensions import did_you_mean
from coe_agents.graph.limits import Bounds
from coe_agents.rounds.strategy import MOST_SAMPLES

THRESHOLDS = ("max_coe", "aleatoric_threshold", "epistemic_threshold")
LIMITS = ("max_rounds", "token_budget", "deadline")


@dataclass(frozen=True, kw_only=True)
class CoEContext:
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
        {'agents': ['a', 'b'], 'max_coe': 0.4}
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    agents: Sequence[str] | None = None
    """The names of the agents that are asked; each must be an agent of the graph."""
    n_samples: StrictInt | None = None
    """How many responses each agent gives in a round, from 1 to 500, unless a round's strategy sets a number."""
    max_coe: StrictFloat | StrictInt | None = None
    """The threshold of a `ThresholdPolicy`, in nats."""
    aleatoric_threshold: StrictFloat | StrictInt | None = None
    """In nats; above it the agents count as uncertain within themselves. Of a `RegimePolicy`, and in the report."""
    epistemic_threshold: StrictFloat | StrictInt | None = None
    """In nats; above it the agents count as disagreeing. Of a `RegimePolicy`, and in the report."""
    max_rounds: StrictInt | None = None
    """After this many rounds "another_round" becomes "abstain"."""
    token_budget: StrictInt | None = None
    """No round begins after all agents together have used this many tokens, input and output."""
    deadline: StrictFloat | StrictInt | None = None
    """The seconds for the question; see `create_coe_graph`."""

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
        if self.agents is not None:
            _check_agents(self.agents)
        if self.n_samples is not None:
            integer(
                self.n_samples, '"n_samples" of the context', least=1, most=MOST_SAMPLES, advice="5 to 10 are usual"
            )
        for name in THRESHOLDS:
            value = getattr(self, name)
            if value is not None:
                number(value, f'"{name}" of the context', least=0, advice="Pass a number of nats")
        Bounds(**{name: value for name in LIMITS if (value := getattr(self, name)) is not None})

    def changes(self) -> dict[str, Any]:
        """Returns the values that are not None, as plain data."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.agents is not None:
            given["agents"] = list(self.agents)
        return {name: value for name, value in given.items() if value is not None}


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
