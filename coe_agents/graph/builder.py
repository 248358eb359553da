"""Owns `create_coe_graph`: the checks of its parts, and which node leads to which."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Never, get_args

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from coe_agents._removed import refuse_arguments
from coe_agents.checks import has_method, instance, integer, number, one_of, require
from coe_agents.clustering import Clusterer, NormalizedMatch, canonical_answer
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.errors import CheckpointError
from coe_agents.graph.context import CoEContext, RunSettings
from coe_agents.graph.fan_out import fan_out
from coe_agents.graph.nodes.agent import agent_node
from coe_agents.graph.nodes.another_round import another_round_node
from coe_agents.graph.nodes.claims import ClaimJudge, claims_node
from coe_agents.graph.nodes.clarify import clarify_node
from coe_agents.graph.nodes.cluster import Canonicalize, cluster_node
from coe_agents.graph.nodes.coordinator import OnUnavailable, coordinator_node
from coe_agents.graph.nodes.escalation import Escalation, escalation_node
from coe_agents.graph.nodes.measure import measure_node
from coe_agents.graph.nodes.prepare import History, prepare_node
from coe_agents.graph.on_decision import OnDecision, Recorder, check_on_decision, finish_node
from coe_agents.graph.people import check_checkpointer
from coe_agents.graph.resuming import CoEStateGraph
from coe_agents.graph.runnables import OneForm, of_this_version
from coe_agents.graph.shown_tools import check_tools
from coe_agents.graph.state import AskedRequest, CoEInput, CoEOutput, CoEState
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import FixedRounds, Policy, RegimePolicy, ThresholdPolicy
from coe_agents.policy.base import quorum, regime_thresholds
from coe_agents.policy.bounds import THRESHOLDS, Bounds
from coe_agents.policy.calibrated import AskedAgent
from coe_agents.policy.guarantee import UNKEPT, AskedGroup, hold_to_group
from coe_agents.policy.saved import check_weights
from coe_agents.policy.settle import Rules
from coe_agents.rounds import Strategy
from coe_agents.rounds.strategies import Strategies
from coe_agents.text import quantity
from coe_agents.types import DECIDERS, Agent, Regime
from coe_agents.uncertainty import coordinate

_ENDS = ("answer", "abstain", "escalate")
_NODES = (
    "prepare",
    "cluster",
    "measure",
    "claims",
    "coordinator",
    "another_round",
    "clarify",
    "escalation",
    *_ENDS,
)


def create_coe_graph(
    agents: Sequence[Agent],
    *,
    clusterer: Clusterer | None = None,
    policy: Policy,
    answers: AnswerPreset | None = None,
    max_rounds: int = 1,
    token_budget: int | None = None,
    deadline: float | None = None,
    strategies: Mapping[Regime, str | Strategy] | str | Strategy | None = None,
    min_agents: int | None = None,
    coordination: str | None = None,
    escalation: Escalation | None = None,
    clarify: bool = False,
    canonicalize: Canonicalize | None = canonical_answer,
    weights: Mapping[str, float] | None = None,
    weighting: Weighting = "auto",
    retries: int = 1,
    history: History = "conversation",
    max_question_chars: int = 100_000,
    tools: Sequence[Any] | None = None,
    recording: OnDecision | None = None,
    on_unavailable: OnUnavailable = "abstain",
    claims: ClaimJudge | None = None,
    **removed: Never,
) -> StateGraph[CoEState, CoEContext, CoEInput, CoEOutput]:
    """Returns the graph, uncompiled: agents in parallel, clustering, Collaborative Entropy, and the gate.

    The input is `{"question": str}` or `{"messages": [...]}`, whose last human text is the question then; with
    `"choices": ["approve", "reject"]` a reply counts only if it consists of one of these, and with `"tools": [...]` the
    agents propose tool calls (see `CoEInput`): once the gate answers, `decision["calls"]` holds those to run, as does
    the last message. Append it and their results to the conversation, and ask again with it: the agents see the last
    question and all that follows. Calls without a result are left out of what they see. The output
    holds `decision` (see `coe_agents.decision.DecisionData`), `messages` with the answer or the refusal at the end,
    `responses` in canonical order with failures last, `labels`, the cluster of each response, and `former_responses`,
    which later rounds replaced. The context of a run may change agents, samples, thresholds and bounds: see
    `coe_agents.CoEContext`.

    Args:
        agents: The participants, with distinct names.
        clusterer: Decides which responses mean the same.
        policy: Decides what to do; any object with `decide`. See `coe_agents.policy` for its optional hooks.
        answers: How answers are asked for, read and compared: `short_answers()` or `sentences(judge)`, in place of
            `clusterer` and `canonicalize`.
        max_rounds: After this many rounds "another_round" becomes "abstain".
        token_budget: The most tokens of all agents together, input and output: a further round is asked for as far as
            the tokens of those before it say that it fits, and not where servers tell no tokens. Where not one response
            of each agent fits, the policy's `otherwise` is done. The first request of each agent is always sent.
        deadline: "another_round" becomes the policy's `otherwise` after this many seconds for the question. Agents that
            are still sampling get the time that is left: a `ModelAgent` then returns what it has; another agent is cut
            off half a second later in an asynchronous run, and cannot be stopped in a synchronous one. If the policy
            answers, the answer is given even after the deadline. Time between a decision and the next round, such as
            waiting for a person, does not count; time lost to a crash in a round does.
        strategies: How another round is asked, always or by the regime that led to it: "resample", "debate", "clarify",
            an object of `coe_agents.rounds`, or a callable of your own. By default, "resample" for "ambiguous" and
            "consensus", "debate" for "conflict" and "unknown". A policy may name another for a round.
        min_agents: Fewer answering agents lead to "abstain"; a majority of them by default.
        coordination: A solver of Algorithm 1 ("greedy", "softmax"), whose weights and distributions then choose the
            answer; the policy still sees the measured CoE.
        escalation: Decides what the policy escalates: an `Arbiter` (a stronger model), an `AskPerson`, or a function or
            Runnable of your own from an `EscalatedCase` to a `Ruling` (`coe_agents.types`). None ends the run with
            "escalate".
        clarify: Whether a policy may name the strategy "clarify" (`coe_agents.rounds.Clarify`), even if `strategies`
            does not contain it: the user is asked to clarify the question (`coe_agents.graph.PersonRequest`; the reply
            is text), and the next round starts afresh. This and an escalation to a person need a checkpointer; without
            one, a run ends with an error before any agent is asked.
        canonicalize: Extracts the short answer, which is clustered, from a response's text; None keeps the text.
        weights: The weights of agents by name, in place of their own; agents that are not named keep theirs. From a
            file: `coe_agents.policy.AgentWeights.load(FILE).weights`.
        weighting: See `coe_agents.policy.measure`.
        retries: How often a failed agent is asked again before its failure counts, unless its error is not retryable. A
            `ModelAgent` retries each request itself, and is not asked again.
        history: What the agents see of a conversation: "conversation", all of it but the turns that the gate did not
            answer, question and refusal; or "question", its last question only, for models that know no conversations.
        max_question_chars: A longer question is rejected before any agent is asked.
        tools: What every agent is shown where the input names no tools: LangChain tools, functions, or OpenAI's
            schemas. Where an input has `choices`, none are shown.
        recording: Who is told of each decided case: `coe_agents.rulings.Recording` records those on which people are
            to rule, in the store with which the graph is compiled; or a function of a
            `coe_agents.decision.case.DecidedCase`.
        on_unavailable: Where no agent replied: "abstain", with `coe` None and the reason; or "raise".
        claims: `coe_agents.claims.Claims()` judges answers in texts claim by claim: of the draft with the most
            content that the other models support, these claims are given, and `decision["claims"]` holds each.
            It decides in place of `policy`, which remains for turns with choices or tools. None judges whole answers.
        removed: Options of earlier versions; the error of each says what replaces it.

    Raises:
        TypeError: If a part is of the wrong kind: `clusterer="normalized"`, `policy=0.5`, a class instead of an object.
        ValueError: If the parts do not fit together.

    A run raises `GroupUnavailableError` where no agent replied, not even invalidly, and `on_unavailable` is "raise".

    Warns:
        UserWarning: A `RegimePolicy` has a threshold out of reach, a `ThresholdPolicy` one that no split exceeds, or a
            `CalibratedPolicy` was calibrated with another clusterer (by its class) or group, or with other weights.

    Example:
        >>> from coe_agents import ThresholdPolicy
        >>> from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer
        >>> graph = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.5))
        >>> graph.compile().invoke({"question": "What is the capital of France?"})["decision"]["action"]
        'answer'
    """
    refuse_arguments("create_coe_graph", removed)
    clusterer, canonicalize = _comparing(answers, clusterer, canonicalize)
    _check_parts(
        agents, clusterer=clusterer, policy=policy, canonicalize=canonicalize, claims=claims
    )
    _check_options(
        weighting, coordination, history, retries=retries, max_question_chars=max_question_chars
    )
    names = [agent.name for agent in agents]
    weight_of = _check_group(agents, names, weights, min_agents=quorum(len(names), min_agents))
    shown = None if tools is None else check_tools(tools, where='"tools"')
    group = AskedGroup(
        agents={agent.name: AskedAgent.of(agent) for agent in agents},
        clusterer=type(clusterer).__name__,
        weights=weight_of,
        answers="" if answers is None else answers.recorded,
    )
    policy, cautions = _fit_policy(policy, group, max_rounds)
    for caution in cautions:
        warnings.warn(caution, stacklevel=2)
    bounds = Bounds(max_rounds=max_rounds, token_budget=token_budget, deadline=deadline)
    bounds = bounds.change(**dict(zip(THRESHOLDS[1:], regime_thresholds(policy), strict=True)))
    settings = RunSettings(weight_of, policy, Rules(bounds=bounds, min_agents=min_agents), answers)
    table = Strategies(strategies)
    may_clarify = clarify or table.may_clarify
    may_interrupt = may_clarify or getattr(escalation, "interrupts", False)

    graph = CoEStateGraph(
        CoEState, context_schema=CoEContext, input_schema=CoEInput, output_schema=CoEOutput
    )
    checks = [check_checkpointer] if may_interrupt else []
    if recording is not None:
        check_on_decision(recording, '"recording"')
    if isinstance(recording, Recorder):
        checks.append(recording.check)
    prepare = prepare_node(
        max_question_chars, settings, history=history, checks=checks, tools=shown
    )
    graph.add_node("prepare", OneForm(prepare, slow_with="answer_schema"))
    retry = RetryPolicy(
        max_attempts=retries + 1,
        initial_interval=0.2,
        retry_on=lambda error: not isinstance(error, CheckpointError),
    )
    for agent in agents:
        graph.add_node(
            agent.name,
            agent_node(agent, names, attempts=retries + 1, graded=weighting != "frequency"),
            input_schema=AskedRequest,
            retry_policy=retry,
        )
        # one edge each: a barrier would wait forever for an agent that was not asked
        graph.add_edge(agent.name, "cluster")
    graph.add_node("cluster", of_this_version(cluster_node(clusterer, canonicalize)))
    before = _add_claims(graph, claims, settings)
    measuring = measure_node(
        settings, weighting=weighting, coordination=coordination, clusterer=clusterer
    )
    graph.add_node("measure", of_this_version(measuring))
    routes = {
        "answer": "action: answer",
        "abstain": "action: abstain",
        "escalate" if escalation is None else "escalation": "action: escalate",
        "another_round": "action: another_round",
    }
    graph.add_node("another_round", of_this_version(another_round_node(settings, table)))
    if may_clarify:
        graph.add_node("clarify", of_this_version(OneForm(clarify_node(max_question_chars))))
        routes["clarify"] = "strategy: clarify"
    if escalation is not None:
        ends = {end: f"ruling: {end}" for end in _ENDS}
        graph.add_node(
            "escalation", of_this_version(escalation_node(escalation, names)), destinations=ends
        )
    coordinator = coordinator_node(
        settings,
        strategies=table,
        routes=routes,
        on_unavailable=on_unavailable,
        compares_words=type(clusterer) is NormalizedMatch,
        judges_claims=claims is not None,
    )
    graph.add_node("coordinator", of_this_version(OneForm(coordinator)), destinations=routes)
    graph.add_edge(START, "prepare")
    graph.add_edge("measure", before)
    asks = OneForm(fan_out(settings))
    for source in ("prepare", *({"another_round", "clarify"} & graph.nodes.keys())):
        graph.add_conditional_edges(source, asks, {f"asks {name}": name for name in names})
    graph.add_edge("cluster", "measure")
    for end in _ENDS:
        graph.add_node(end, of_this_version(finish_node(recording)))
        graph.add_edge(end, END)
    return graph


def _add_claims(
    graph: StateGraph[Any, Any, Any, Any], claims: ClaimJudge | None, settings: RunSettings
) -> str:
    """Adds the node that judges claims, if any; returns the node that follows the measurement."""
    if claims is None:
        return "coordinator"
    graph.add_node("claims", of_this_version(claims_node(claims, settings)))
    graph.add_edge("claims", "coordinator")
    return "claims"


def _comparing(
    answers: AnswerPreset | None, clusterer: Clusterer | None, canonicalize: Canonicalize | None
) -> tuple[Clusterer, Canonicalize | None]:
    if answers is None:
        if clusterer is None:
            raise TypeError(
                'the graph needs "answers" or a "clusterer". Pass answers=short_answers(), for example'
            )
        return clusterer, canonicalize
    what, advice = "a preset", "Pass short_answers() or sentences(judge)"
    instance(answers, AnswerPreset, '"answers"', what=what, advice=advice)
    if clusterer is not None or canonicalize is not canonical_answer:
        given = "canonicalize" if clusterer is None else "clusterer"
        raise TypeError(f'"answers" comes with its own "{given}"; got both. Omit one of them')
    return answers.clusterer, answers.canonicalize


def _check_parts(
    agents: Sequence[Agent],
    *,
    clusterer: object,
    policy: object,
    canonicalize: object,
    claims: object,
) -> None:
    for agent in agents:
        has_method(
            agent, "sample", 'each of "agents"', advice="Wrap a chat model: ModelAgent(name, model)"
        )
        what, advice = 'an agent, with a name, a weight and "sample"', "Give it what it lacks"
        instance(agent, Agent, 'each of "agents"', what=what, advice=advice)
    for name, part, method, example in (
        ("clusterer", clusterer, "cluster", "NormalizedMatch()"),
        ("policy", policy, "decide", "ThresholdPolicy(0.5)"),
    ):
        has_method(part, method, f'"{name}"', advice=f"Pass {example}, for example")
    regime_thresholds(policy)
    if claims is not None:
        has_method(claims, "decide", '"claims"', advice="Pass Claims()")
    if canonicalize is not None and not callable(canonicalize):
        raise TypeError(
            f'"canonicalize" must be a function from a text to a text; got {canonicalize!r}. '
            "Pass None to cluster the texts as they are"
        )


def _check_options(
    weighting: str, coordination: str | None, history: str, *, retries: int, max_question_chars: int
) -> None:
    one_of(weighting, '"weighting"', get_args(Weighting), advice='"auto" suits most')
    one_of(history, '"history"', get_args(History), advice='"conversation" shows all of it')
    if coordination is not None:
        coordinate([[1.0]], solver=coordination)  # raises for an unknown name
    integer(retries, '"retries"', least=0, advice="0 never asks a failed agent again")
    number(
        max_question_chars,
        '"max_question_chars"',
        least=1,
        may_be_infinite=True,
        advice="Omit it for 100,000",
    )


def _check_group(
    agents: Sequence[Agent],
    names: Sequence[str],
    weights: Mapping[str, float] | None,
    *,
    min_agents: int,
) -> dict[str, float]:
    require(bool(names), '"agents" must hold at least one agent', [], "Pass ModelAgent objects")
    for name in names:
        _check_name(name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the names of "agents" must differ; got {twice!r} twice. Rename one')
    own = {agent.name: agent.weight for agent in agents}
    if weights is not None:
        check_weights(weights)
        if unknown := [name for name in weights if name not in own]:
            raise ValueError(
                f'"weights" must name agents of the graph; got {unknown[0]!r:.80}. Its agents are {", ".join(own)}'
            )
        own |= weights
    if not any(weight > 0 for weight in own.values()):
        raise ValueError(
            '"agents" must hold one with a weight above 0; got only weights of 0. Raise one of them'
        )
    integer(min_agents, '"min_agents"', least=1, most=len(names), advice="Omit it for a majority")
    return own


def _fit_policy(policy: Policy, group: AskedGroup, max_rounds: int) -> tuple[Policy, list[str]]:
    """Returns the policy for a group, and what the user should know about the two."""
    cautions = list[str]()
    n_agents, last = len(group.agents), policy.then if isinstance(policy, FixedRounds) else policy
    if (
        isinstance(last, RegimePolicy)
        and n_agents > 1
        and (unreachable := last.unreachable(n_agents=n_agents))
    ):
        agents = quantity(n_agents, "agent")
        cautions.append(
            f"with {agents}, {last!r} can never see the regimes {', '.join(unreachable)}"
        )
    if isinstance(last, ThresholdPolicy) and (passed := last.caution(list(group.weights.values()))):
        cautions.append(passed)
    if isinstance(policy, FixedRounds) and max_rounds < policy.n:
        need = f'"max_rounds" must be at least {policy.n} for {policy!r}'
        raise ValueError(f"{need}; got {max_rounds}. Pass max_rounds={policy.n}")
    held, differences = hold_to_group(policy, group)
    if differences:
        cautions.append(f"{UNKEPT}: {'; '.join(differences)}")
    return held, cautions


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f'a name of "agents" must be a string; got {name!r}. Rename the agent')
    try:
        name.encode()
    except UnicodeEncodeError as error:  # no checkpointer could store it
        message = (
            f'a name of "agents" must be text that UTF-8 can encode; got {name!r}. Rename the agent'
        )
        raise ValueError(message) from error
    if (
        name in (*_NODES, *DECIDERS)
        or any(character in name for character in ":|")
        or name.startswith("__")
    ):
        raise ValueError(
            f'a name of "agents" must not be that of a node of the graph ({", ".join(_NODES)}), "group" or '
            f'"person", start with "__" or contain ":" or "|"; got {name!r}. Rename the agent'
        )
