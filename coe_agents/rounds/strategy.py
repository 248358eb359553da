"""Owns the interface of a strategy: `RoundContext` in, `RoundPlan` out."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from typing_extensions import TypedDict

from coe_agents.measurement.measurement import Measurement
from coe_agents.prompts import rephrase
from coe_agents.types import MOST_SAMPLES


class RequestOverrides(TypedDict, total=False):
    """How the request to one agent differs from the first round's; see `coe_agents.types.AgentRequest`."""

    messages: list[dict[str, Any]]
    n_samples: int
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundContext:
    """What a strategy sees.

    Attributes:
        messages: The conversation as OpenAI-style dictionaries, the question in it.
        round: The number of the next round, from 1.
        measurement: The last measurement; the rounds before it are in its `run.history`.
        n_responses: How many responses each agent gave in the last round, of all that may be asked; 0 where it failed.
        proposals: The calls of each representative that is a proposal, in words, with the arguments as they were
            proposed: the representative itself is in canonical form, which no agent should copy.
    """

    question: str
    messages: Sequence[Mapping[str, Any]]
    round: int
    measurement: Measurement
    n_responses: Mapping[str, int]
    proposals: Mapping[str, str] = field(default_factory=dict)

    def rephrase(self, text: str) -> list[dict[str, Any]]:
        """Returns the conversation with `text` in place of the user's last text; its pictures stay."""
        return rephrase(self.messages, text)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The plan of a round.

    Attributes:
        overrides: The request to each agent, by name; an agent that is not named is not asked.
        replaces: Whether the former responses no longer count, because the new ones are of another kind.
        shows_answers: Whether the agents see former answers; a change to the leading answer then counts as conformity.
    """

    overrides: Mapping[str, RequestOverrides]
    replaces: bool = False
    shows_answers: bool = False


Strategy: TypeAlias = Callable[[RoundContext], RoundPlan]
"""Any function that plans a round; an asynchronous run calls it in a thread.

Policies and the trajectory use its `name`, if it has one."""


def check_plan(plan: Any, *, strategy: str, agents: Sequence[str]) -> RoundPlan:
    """Returns a strategy's plan if it can be carried out."""
    if not isinstance(plan, RoundPlan) or not isinstance(plan.overrides, Mapping):
        raise _nonsense("a RoundPlan with overrides by agent", strategy, type(plan).__name__)
    names = list(plan.overrides)
    if not names or not set(names) <= set(agents):
        named = ", ".join(map(repr, names)) or "no agent"
        raise _nonsense(f"a RoundPlan that asks some of {', '.join(agents)}", strategy, named)
    for name, overrides in plan.overrides.items():
        _check_overrides(overrides, name, strategy)
    return plan


def _check_overrides(overrides: Any, name: str, strategy: str) -> None:
    keys = RequestOverrides.__annotations__
    if not isinstance(overrides, Mapping) or not overrides.keys() <= keys.keys():
        must = f'"{name}" overrides among {", ".join(keys)}'
        raise _nonsense(must, strategy, repr(overrides))
    n_samples = overrides.get("n_samples", 1)
    if type(n_samples) is not int or not 1 <= n_samples <= MOST_SAMPLES:
        must = f'"{name}" a whole "n_samples" in 1..{MOST_SAMPLES}'
        raise _nonsense(must, strategy, repr(n_samples))
    temperature = overrides.get("temperature", 1.0)
    if type(temperature) not in (int, float) or not 0 <= temperature < math.inf:
        raise _nonsense(f'"{name}" a "temperature" of at least 0', strategy, repr(temperature))
    if "messages" in overrides:
        messages = overrides["messages"]
        is_list = isinstance(messages, list) and bool(messages)
        if not is_list or not all(map(_is_message, messages)):
            must = f'"{name}" "messages" with "role" and "content"'
            raise _nonsense(must, strategy, repr(messages)[:200])


def _nonsense(must: str, strategy: str, got: str) -> TypeError:
    return TypeError(
        f'the strategy "{strategy}" must return {must}; got {got}. '
        "Return coe_agents.rounds.RoundPlan({agent: {...}})"
    )


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    return isinstance(message.get("role"), str) and "content" in message
