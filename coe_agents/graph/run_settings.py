"""Owns what a graph was built with and a run may change by its `CoEContext`: agents, samples, policy and bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langgraph.runtime import get_runtime

from coe_agents.graph.context import CoEContext
from coe_agents.graph.state import CoEState
from coe_agents.policy import Policy
from coe_agents.policy.base import change_thresholds, quorum
from coe_agents.policy.bounds import NAMES, THRESHOLDS, Bounds
from coe_agents.policy.settle import Rules


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a context may change; made when the graph is built, and changed for each run by what its state holds.

    Attributes:
        weights: The weight of each agent that is asked, by name.
        policy: Decides.
        rules: What holds whatever the policy says. The thresholds of its bounds are those of the regime that is
            reported.
    """

    weights: Mapping[str, float]
    policy: Policy
    rules: Rules

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that are asked, in the order of the graph."""
        return tuple(self.weights)

    @property
    def quorum(self) -> int:
        """How many agents must answer."""
        return quorum(len(self.weights), self.rules.min_agents)

    @property
    def bounds(self) -> Bounds:
        """The bounds of the run."""
        return self.rules.bounds

    @property
    def regimes(self) -> dict[str, float | None]:
        """The thresholds of the regime that is reported, as options of `measure`."""
        return {name: getattr(self.bounds, name) for name in THRESHOLDS[1:]}

    def of(self, state: CoEState) -> "RunSettings":
        """Returns the settings of a run."""
        changes = state["turn"]["context"]
        return self.change(changes) if changes else self

    def change(self, changes: Mapping[str, Any]) -> "RunSettings":
        """Returns the settings with the changes of a context.

        Raises:
            ValueError: If they do not fit the graph.
        """
        thresholds = {name: changes[name] for name in THRESHOLDS if name in changes}
        limits = Bounds(**changes["limits"]) if "limits" in changes else None
        return replace(
            self,
            weights=self._select(changes["agents"]) if "agents" in changes else self.weights,
            policy=change_thresholds(self.policy, thresholds) if thresholds else self.policy,
            rules=replace(
                self.rules,
                bounds=self.bounds.change(**{name: changes[name] for name in NAMES if name in changes}),
                limits=limits,
            ),
        )

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
    """Returns what the context of the present run changes, once it is known to fit; called inside a run.

    Raises:
        ValueError: If it does not fit the graph.
    """
    context = get_runtime().context
    if not isinstance(context, CoEContext):  # none, or that of a parent graph, which means something else
        return {}
    changes = context.changes()
    settings.change(changes)
    return changes
