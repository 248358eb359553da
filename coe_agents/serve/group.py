"""Owns the group that a server asks: a configuration's, tinyworld's, or one of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from coe_agents.clustering import Clusterer
from coe_agents.config import Configuration
from coe_agents.errors import ConfigurationError
from coe_agents.graph import create_coe_graph
from coe_agents.policy import Policy
from coe_agents.policy.base import regime_thresholds
from coe_agents.policy.bounds import LIMITS, Bounds
from coe_agents.rounds.strategies import Strategies
from coe_agents.serve.limits import thresholds_of
from coe_agents.tinyworld import EXAMPLES, tinyworld_agents, tinyworld_clusterer, tinyworld_policy
from coe_agents.types import Agent

_MAX_QUESTION_CHARS = 100_000


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of agents that answers as one model.

    Attributes:
        name: The model's name for callers.
        agents: The agents' names.
        policy: The operator's gate.
        create_graph: Returns the uncompiled graph.
        limits: The operator's limits.
        is_adaptive: Whether sampling is adaptive.
        max_question_chars: A longer question is refused.
        is_toy: Whether its knowledge is invented.
        examples: Questions to try.
    """

    name: str
    agents: tuple[str, ...]
    policy: Policy
    create_graph: Callable[[], Any]
    limits: Bounds
    is_adaptive: bool = False
    max_question_chars: int = _MAX_QUESTION_CHARS
    is_toy: bool = False
    examples: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, agents: Sequence[Agent], *, clusterer: Clusterer, policy: Policy, name: str = "group", **options: Any
    ) -> Group:
        """Returns the group of these parts; `options` are further ones of `create_coe_graph`.

        Raises:
            ConfigurationError: If a run might stop to ask a person.
        """
        strategies, escalation = Strategies(options.get("strategies")), options.get("escalation")
        if strategies.may_clarify or options.get("clarify") or getattr(escalation, "interrupts", False):
            raise ConfigurationError(
                "a group that stops to ask a person cannot be served as a model",  # its caller cannot reply
                hint='Omit the strategy "clarify" and AskPerson, or serve the graph with the LangGraph server',
            )
        return cls(
            name=name,
            agents=tuple(agent.name for agent in agents),
            policy=policy,
            create_graph=partial(create_coe_graph, agents, clusterer=clusterer, policy=policy, **options),
            limits=thresholds_of(policy).change(
                **{limit: options.get(limit, default) for limit, default in LIMITS.items()}
            ),
            is_adaptive=options.get("adaptive") is not None,
            max_question_chars=options.get("max_question_chars", _MAX_QUESTION_CHARS),
        )

    @classmethod
    def from_configuration(cls, configuration: Configuration, *, name: str) -> Group:
        """Returns the group of a configuration.

        Raises:
            ConfigurationError: If a run might stop to ask a person.
        """
        agents, policy, options = configuration.agents, configuration.policy, configuration.settings.graph.model_dump()
        group = cls.of(agents, clusterer=configuration.clusterer, policy=policy, name=name, **options)
        return replace(group, create_graph=configuration.create_graph)

    @classmethod
    def from_tinyworld(cls, *, name: str = "tinyworld") -> Group:
        """Returns the group of the models that are shipped with the package."""
        group = cls.of(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy(), name=name)
        return replace(group, is_toy=True, examples=tuple(question for question, _ in EXAMPLES))

    def describe(self) -> dict[str, Any]:
        """Returns what the group is, as JSON."""
        return {
            "model": self.name,
            "agents": list(self.agents),
            "policy": self.describe_policy(),
            "max_rounds": self.limits.max_rounds,
            "is_toy": self.is_toy,
            "examples": list(self.examples),
        }

    def describe_policy(self, lower: Bounds | None = None) -> dict[str, Any]:
        """Returns the gate, with the lower limits of a request: its class, and the thresholds in nats.

        `max_coe` is None where the gate compares no CoE. The other two also divide the plane of the regimes.
        """
        aleatoric, epistemic = regime_thresholds(self.policy)
        thresholds = {
            "max_coe": self.limits.max_coe,
            "aleatoric_threshold": aleatoric,
            "epistemic_threshold": epistemic,
        }
        own = {name: getattr(lower, name, None) for name in thresholds}
        lowered = {name: value if own[name] is None else own[name] for name, value in thresholds.items()}
        return {"type": type(self.policy).__name__, **lowered}
