"""Owns the step from what a policy settled on, and what was measured and spent, to the decision."""

from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.decision.data import AgentTokens, DecisionData, view
from coe_agents.decision.typed import GroupDecision
from coe_agents.types import RoundData, Sampling, Usage, add_usages


def create_decision(
    settled: Mapping[str, Any],
    measured: Mapping[str, Any] | None,
    *,
    choices: list[str] | None,
    calls: list[dict[str, Any]] | None,
    failed_agents: dict[str, str],
    spent: Sequence[AgentTokens],
    trajectory: list[RoundData],
    conformity: float | None,
) -> DecisionData:
    """Returns the decision.

    Args:
        settled: The fields of `coe_agents.policy.Decision`, and who decided.
        measured: The fields of `coe_agents.policy.Measurement`; None if nothing was measured.
        choices: The only replies that counted.
        calls: The tool calls to run.
        failed_agents: Why agents failed in the last round, by name.
        spent: What each request cost.
        trajectory: The record of each round.
        conformity: See `coe_agents.rounds.trajectory.conformity`.
    """
    found = measured or {}
    usages: dict[str, list[Usage]] = {}
    samplings: dict[str, list[Sampling]] = {}
    for each in spent:
        usages.setdefault(each["agent"], []).append(each["usage"])
        if each["sampling"] is not None:
            samplings.setdefault(each["agent"], []).append(each["sampling"])
    agents = {
        name: {**said, "sampling": sorted(samplings.get(name, []), key=lambda record: record["round"])}
        for name, said in found.get("agents", {}).items()
    }
    decided: dict[str, Any] = {
        "choices": choices,
        "calls": calls,
        "regime": settled.get("regime"),  # none without a quorum
        "support": dict(zip(found.get("representatives", ()), found.get("support", ()), strict=True)),
        "n_rounds": len(trajectory),
        "failed_agents": failed_agents,
        "agents": agents,
        "tokens": {name: add_usages(used) for name, used in usages.items()},
        "trajectory": trajectory,
        "conformity": conformity,
    }
    return GroupDecision(**{**view(found, DecisionData), **view(settled, DecisionData), **decided}).data
