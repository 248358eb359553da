"""Owns the shape of the graph: which node leads to which."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from coe_agents.clustering import Clusterer, canonical_answer
from coe_agents.graph import nodes
from coe_agents.graph.adaptive import TopUps
from coe_agents.graph.bounds import Bounds
from coe_agents.graph.clarify import clarify_node
from coe_agents.graph.clusters import Canonicalize, cluster_node
from coe_agents.graph.escalation import Escalation, escalation_node
from coe_agents.graph.forms import OneForm
from coe_agents.graph.interrupts import check_checkpointer
from coe_agents.graph.outcome import finish
from coe_agents.graph.rounds import another_round_node, fan_out
from coe_agents.graph.state import AskedRequest, CoEInput, CoEOutput, CoEState
from coe_agents.policy import Policy, Weighting
from coe_agents.rounds import AdaptiveSampling, Strategies, Strategy
from coe_agents.types import Agent, Regime
from coe_agents.uncertainty import collaborative_entropy, coordinate

_ENDS = ("answer", "abstain", "escalate")
_OWN_NODES = ("prepare", "cluster", "measure", "coordinate", "another_round", "clarify", "escalation", *_ENDS)


def create_coe_graph(
    agents: Sequence[Agent],
    *,
    clusterer: Clusterer,
    policy: Policy,
    max_rounds: int = 1,
    token_budget: int | None = None,
    deadline: float | None = None,
    strategies: Mapping[Regime, str | Strategy] | None = None,
    adaptive: AdaptiveSampling | None = None,
    min_agents: int | None = None,
    coordination: str | None = None,
    escalation: Escalation | None = None,
    clarify: bool = False,
    canonicalize: Canonicalize | None = canonical_answer,
    weighting: Weighting = "auto",
    divergence: str = "kl",
    retries: int = 1,
    max_question_chars: int = 100_000,
) -> StateGraph[CoEState, None, CoEInput, CoEOutput]:
    """Returns the graph, uncompiled: agents in parallel, clustering, Collaborative Entropy, and the gate.

    The input is `{"question": str}` or `{"messages": [...]}`, whose last human text is the question then; with
    `"choices": ["approve", "reject"]` a reply counts only if it consists of one of these (see `CoEInput`). The output
    holds `decision` (see `coe_agents.graph.DecisionData`), `messages` with the answer or the refusal at the end,
    `responses` in canonical order with failures last, `labels`, the cluster of each response, and `former_responses`,
    which later rounds replaced.

    Args:
        agents: The participants, with distinct names.
        clusterer: Tells which responses mean the same.
        policy: Decides; any object with `decide`.
        max_rounds: After this many rounds "another_round" becomes "abstain".
        token_budget: The same, once all agents together have used so many tokens, input and output. A round that is
            under way is finished, so the last one may go beyond.
        deadline: The same, after so many seconds for the question. What is under way is given the time that is left:
            a `ModelAgent` then gives what it has; another agent is cut off half a second later in an asynchronous run,
            and cannot be stopped in a synchronous one. An answer that is at hand is given, however late. The time
            between a decision and the next round (a person's, say) does not count; that of a crash in a round does.
        strategies: How another round is asked, by the regime that led to it: "resample", "diversify", "debate",
            "clarify", an object of `coe_agents.rounds`, or a callable of your own. By default, "resample" for
            "ambiguous" and "consensus", "debate" for "conflict" and "unknown". A policy may name another for a round.
        adaptive: Draws few responses first, and more only while they could change the decision; None draws all at once.
            `token_budget` and `deadline` end it, too: what is there then decides.
        min_agents: Fewer answering agents lead to "abstain"; a majority of them by default.
        coordination: A solver of Algorithm 1 ("greedy", "softmax", "genetic", "bayesian"), whose weights and
            distributions then choose the answer; the policy still sees CoE as it was measured.
        escalation: Decides what the policy escalates: an `Arbiter` (a stronger model), an `AskPerson`, or a function or
            Runnable of your own from an `EscalatedCase` to a `Ruling` (`coe_agents.types`). None ends the run with
            "escalate".
        clarify: Whether a policy may name the strategy "clarify", as it may where `strategies` has it: the user is
            asked what is meant (`coe_agents.graph.PersonRequest`; the reply is text), and the next round starts afresh.
            This, and an escalation to a person, need a checkpointer; without one a run is refused before anybody is
            asked.
        canonicalize: Extracts the short answer that is clustered from a response's text; None takes the text as it is.
        weighting: See `coe_agents.policy.measure`.
        divergence: "kl", "js", "hellinger" or "total_variation", which "wasserstein" is another name of here. Before it
            is compared with a threshold, the epistemic part is rescaled to the range that it has under "kl"
            (`coe_agents.uncertainty.epistemic_scale`); what is reported stays as it is.
        retries: How often an agent that failed is asked again before its failure counts, where its error leaves that
            open. A `ModelAgent` retries by itself, request by request, and is not asked again.
        max_question_chars: A longer question is refused before anybody is asked.

    Raises:
        TypeError: If an agent or a strategy is none.
        ValueError: If the parts do not fit together.

    Example:
        >>> from coe_agents import ThresholdPolicy
        >>> from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer
        >>> graph = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.5))
        >>> graph.compile().invoke({"question": "What is the capital of France?"})["decision"]["action"]
        'answer'
    """
    for agent in agents:
        if not isinstance(agent, Agent):
            raise TypeError(
                f'"agents" must hold agents, with a name, a weight and "sample"; {type(agent).__name__} came. '
                "Wrap a chat model: ModelAgent(name, model)"
            )
    names = [agent.name for agent in agents]
    _check_names(weighting=weighting, divergence=divergence, coordination=coordination)
    quorum = len(names) // 2 + 1 if min_agents is None else min_agents
    _check(agents, names, min_agents=quorum, retries=retries)
    bounds = Bounds(max_rounds, token_budget, deadline)
    if max_question_chars < 1:
        raise ValueError(
            f'"max_question_chars" must be at least 1; {max_question_chars} came. Leave it out for 100,000'
        )
    unreachable = getattr(policy, "unreachable", lambda **_: ())(n_agents=len(names))
    if unreachable:
        message = f"with {len(names)} agents the regimes {', '.join(unreachable)} are out of reach of {policy!r}"
        warnings.warn(message, stacklevel=2)

    table = Strategies(strategies)
    may_clarify = clarify or table.may_clarify
    may_interrupt = may_clarify or getattr(escalation, "interrupts", False)

    graph = StateGraph(CoEState, input_schema=CoEInput, output_schema=CoEOutput)
    graph.add_node(
        "prepare", OneForm(nodes.prepare_node(max_question_chars, check=check_checkpointer if may_interrupt else None))
    )
    retry = RetryPolicy(max_attempts=retries + 1, initial_interval=0.2, retry_on=Exception)
    for agent in agents:
        graph.add_node(
            agent.name,
            nodes.agent_node(agent, attempts=retries + 1, graded=weighting != "frequency"),
            input_schema=AskedRequest,
            retry_policy=retry,
        )
        # one edge each: a list barrier would wait for ever for an agent that was not asked
        graph.add_edge(agent.name, "cluster")
    graph.add_node("cluster", cluster_node(clusterer, canonicalize))
    weights = {agent.name: agent.weight for agent in agents}
    settings: dict[str, Any] = {"weighting": weighting, "divergence": divergence, "coordination": coordination}
    graph.add_node("measure", nodes.measure_node(policy, weights, **settings))
    ends = {"abstain", "answer", "escalate" if escalation is None else "escalation"}
    asking = ["another_round"]
    graph.add_node("another_round", another_round_node(names, table))
    if may_clarify:
        graph.add_node("clarify", clarify_node(max_question_chars))
        asking.append("clarify")
    if escalation is not None:
        graph.add_node("escalation", escalation_node(escalation, names), destinations=_ENDS)
    routes = {*ends, *asking}
    gate = nodes.coordinate_node(policy, names, bounds=bounds, min_agents=quorum, strategies=table, routes=routes)
    graph.add_node("coordinate", OneForm(gate), destinations=tuple(sorted(routes)))
    graph.add_edge(START, "prepare")
    if adaptive is None:
        asks = OneForm(fan_out(names, bounds))
        graph.add_edge("measure", "coordinate")
    else:
        measuring: dict[str, Any] = {"weights": weights, "weighting": weighting, "divergence": divergence}
        top_ups = TopUps(adaptive, agents, policy, bounds=bounds, min_agents=quorum, measuring=measuring)
        asks = OneForm(fan_out(names, bounds, top_ups.first))
        graph.add_conditional_edges("measure", top_ups.more, [*names, "coordinate"])
    for source in ("prepare", *asking):
        graph.add_conditional_edges(source, asks, names)
    graph.add_edge("cluster", "measure")
    for end in _ENDS:
        graph.add_node(end, OneForm(finish))
        graph.add_edge(end, END)
    return graph


def _check_names(*, weighting: str, divergence: str, coordination: str | None) -> None:
    if weighting not in get_args(Weighting):
        choices = ", ".join(get_args(Weighting))
        raise ValueError(f'"weighting" must be one of {choices}; {weighting!r} came. "auto" suits most')
    # asked with nothing at stake, so that a wrong name is not found out after all agents were paid for
    collaborative_entropy([[1.0]], divergence=divergence)
    if coordination is not None:
        coordinate([[1.0]], solver=coordination)


def _check(agents: Sequence[Agent], names: Sequence[str], *, min_agents: int, retries: int) -> None:
    if not names:
        raise ValueError('"agents" must hold at least one agent; none came. Pass ModelAgent objects')
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the names of "agents" must differ; {twice!r} came twice. Rename one')
    for name in names:
        if name in _OWN_NODES or any(character in name for character in ":|") or name.startswith("__"):
            raise ValueError(
                f"the name of an agent must not be a node of the graph's own ({', '.join(_OWN_NODES)}), start with "
                f'"__" or hold ":" or "|"; {name!r} came. Rename it'
            )
    if not any(agent.weight > 0 for agent in agents):
        raise ValueError('"agents" must hold one with a weight above 0; all have 0. Raise one of the weights')
    if not 1 <= min_agents <= len(names):
        raise ValueError(f'"min_agents" must lie in 1..{len(names)}; {min_agents} came. Leave it out for a majority')
    if retries < 0:
        raise ValueError(f'"retries" must be at least 0; {retries} came. 0 never asks a failed agent again')
