"""Owns `create_coe_graph`: the checks of its parts, and which node leads to which."""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy
from typing_extensions import TypedDict

from coe_agents._removed import refuses_removed
from coe_agents.checks import at_field, has_method, instance, integer, one_of, require
from coe_agents.clustering import Clusterer, NormalizedMatch
from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.described import describe_clusterer
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.errors import CheckpointError
from coe_agents.graph.answer_judge import AnswerJudge
from coe_agents.graph.context import CoEContext, RunSettings
from coe_agents.graph.nodes.agent import agent_node, fan_out
from coe_agents.graph.nodes.another_round import another_round_node
from coe_agents.graph.nodes.claims import claims_node
from coe_agents.graph.nodes.clarify import clarify_node
from coe_agents.graph.nodes.cluster import cluster_node
from coe_agents.graph.nodes.coordinator import advice_on_sentences, coordinator_node
from coe_agents.graph.nodes.escalation import Escalation, escalation_node
from coe_agents.graph.nodes.finish import finish_node
from coe_agents.graph.nodes.measure import measure_node
from coe_agents.graph.nodes.prepare import History, prepare_node
from coe_agents.graph.on_decision import OnDecision, Recorder, check_on_decision
from coe_agents.graph.options import Canonicalize, GraphOptions
from coe_agents.graph.people import check_checkpointer
from coe_agents.graph.resuming import CoEStateGraph
from coe_agents.graph.runnables import BriefNode, of_this_version
from coe_agents.graph.shown_tools import check_tools
from coe_agents.graph.state import AskedRequest, CoEInput, CoEOutput, CoEState
from coe_agents.policy import FixedRounds, Policy, RegimePolicy, ThresholdPolicy
from coe_agents.policy.base import never_escalates, quorum, regime_thresholds
from coe_agents.policy.bounds import Bounds, create_cost_budget
from coe_agents.policy.calibrated import AskedAgent, UnkeptRiskWarning
from coe_agents.policy.fixed_rounds import rounds_of
from coe_agents.policy.guarantee import AskedGroup, hold_to_group
from coe_agents.policy.saved import check_weights
from coe_agents.policy.settle import Rules
from coe_agents.presets import agents_of, check_answers, short_answers
from coe_agents.rounds.strategies import Strategies
from coe_agents.rounds.strategy import Strategy
from coe_agents.text import quantity
from coe_agents.types import DECIDERS, Agent, Regime

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


class GraphArguments(TypedDict, total=False):
    """The arguments of `create_coe_graph`, which `ask` and `run` take, too, and which mean the same there."""

    answers: AnswerPreset | None
    clusterer: Clusterer | None
    policy: Policy | None
    max_rounds: int | None
    token_budget: int | None
    deadline: float | None
    min_agents: int | None
    strategies: Mapping[Regime, str | Strategy] | str | Strategy | None
    weights: Mapping[str, float] | None
    escalation: Escalation | None
    tools: Sequence[Any] | None
    history: History
    answer_judge: AnswerJudge | None
    on_decision: OnDecision | None
    options: GraphOptions | None


@refuses_removed
def create_coe_graph(
    agents: Sequence[str | BaseChatModel | Agent],
    *,
    answers: AnswerPreset | None = None,
    clusterer: Clusterer | None = None,
    policy: Policy | None = None,
    max_rounds: int | None = None,
    token_budget: int | None = None,
    deadline: float | None = None,
    min_agents: int | None = None,
    strategies: Mapping[Regime, str | Strategy] | str | Strategy | None = None,
    weights: Mapping[str, float] | None = None,
    escalation: Escalation | None = None,
    tools: Sequence[Any] | None = None,
    history: History = "conversation",
    answer_judge: AnswerJudge | None = None,
    on_decision: OnDecision | None = None,
    options: GraphOptions | None = None,
) -> StateGraph[CoEState, CoEContext, CoEInput, CoEOutput]:
    """Returns the graph, uncompiled: agents in parallel, clustering, Collaborative Entropy, and the gate.

    The input is `{"question": str}` or `{"messages": [...]}`, whose last human text is the question then; with
    `"choices": ["approve", "reject"]` a reply counts only if it consists of one of these, and with `"tools": [...]` the
    agents propose tool calls (see `CoEInput`): once the gate answers, `decision["calls"]` holds the calls to run, as
    does the last message. Append this message and the calls' results to the conversation, and ask again with it: the
    agents see the last question and all that follows, but for calls without a result. The output
    holds `decision` (see `coe_agents.decision.DecisionData`), `messages` with the answer or the refusal at the end,
    `responses` in canonical order with failures last, `labels`, the cluster of each response, and `former_responses`,
    which later rounds replaced. The context of a run may change agents, samples, thresholds and bounds: see
    `coe_agents.CoEContext`.

    Args:
        agents: The participants: names such as "openai:gpt-5-mini" or "transformers:FOLDER", chat models, or agents of
            your own, such as `ModelAgent`. The names of agents must differ.
        answers: How answers are asked for, read and compared: `short_answers()`, unless a `clusterer` is given; or
            `sentences(judge)`.
        clusterer: Decides which responses mean the same, in place of a preset, of which nothing is asked for then.
        policy: Decides what to do: by default `RegimePolicy()`, which answers in consensus only; or any object with
            `decide`. See `coe_agents.policy` for its optional hooks.
        max_rounds: After this many rounds "another_round" becomes "abstain"; by default 1, or as many as a
            `FixedRounds` asks for.
        token_budget: The tokens of all agents together, input and output, up to which a further round is asked. The
            first round is always asked. A further one is asked as far as the tokens of the rounds before it say that it
            fits, and not where servers tell no tokens. Where not one response of each agent fits, the policy's
            `otherwise` is done.
        deadline: "another_round" becomes the policy's `otherwise` after this many seconds for the question. Agents that
            are still sampling get the time that is left: a `ModelAgent` then returns what it has; another agent is cut
            off half a second later in an asynchronous run, and cannot be stopped in a synchronous one. If the policy
            answers, the answer is given even after the deadline. Time between a decision and the next round, such as
            waiting for a person, does not count; time lost to a crash in a round does.
        min_agents: Fewer answering agents lead to "abstain"; a majority of them by default.
        strategies: How another round is asked, always or by the regime that led to it: "resample", "debate", "clarify",
            an object of `coe_agents.rounds`, or a callable of your own. By default, "resample" for "ambiguous" and
            "consensus", "debate" for "conflict" and "unknown". A policy may name another for a round.
        weights: The weights of agents by name, in place of their own; agents that are not named keep theirs. From a
            file: `coe_agents.policy.AgentWeights.load(FILE).weights`.
        escalation: Decides what the policy escalates: an `Arbiter` (a stronger model), an `AskPerson`, or a function or
            Runnable of your own from an `EscalatedCase` to a `Ruling` (`coe_agents.types`). None ends the run with
            "escalate". To ask a person, the graph needs a checkpointer; without one, a run ends with an error before
            any agent is asked.
        tools: What every agent is shown where the input names no tools: LangChain tools, functions, or OpenAI's
            schemas. Where an input has `choices`, none are shown.
        history: What the agents see of a conversation: "conversation", all of it but the turns that the gate did not
            answer, question and refusal; or "question", its last question only, for models that know no conversations.
        answer_judge: `coe_agents.claims.Claims()` judges answers in texts claim by claim: of the draft with the most
            content that the other models support, these claims are given, and `decision["claims"]` holds each.
            It decides in place of `policy`, which remains for turns with choices or tools. None judges whole answers.
        on_decision: What each decided case is passed to: `coe_agents.rulings.Recording`, which keeps the cases on
            which people are to rule in the store with which the graph is compiled; or a function of the case: a
            dictionary with "id", "question", "conversation", "decision", "leading" (the leading answer), "responses"
            and "labels". If the function or the store fails, a warning says so, and the decision stands.
        options: What few users change: see `coe_agents.graph.GraphOptions`.

    Raises:
        TypeError: If a part is of the wrong kind: `clusterer="normalized"`, `policy=0.5`, a class instead of an object.
        ValueError: If the parts do not fit together.

    A run raises `GroupUnavailableError` where no agent replied, not even invalidly, and `on_unavailable` of the options
    is "raise".

    Warns:
        UserWarning: A `RegimePolicy` has a threshold out of reach, a `ThresholdPolicy` one that no split exceeds, a
            `CalibratedPolicy` was calibrated with another clusterer, another option or model of it, another group, or
            other weights, a policy that never escalates, as its `otherwise` or `actions` say, stands beside an
            `escalation`, or a `token_budget` or `cost_budget` stands beside one round, which it does not bound.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> graph = create_coe_graph([ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["It is Paris."])])
        >>> graph.compile().invoke({"question": "What is the capital of France?"})["decision"]["action"]
        'answer'
    """
    options = _check_options(options, history)
    answers, clusterer, canonicalize = _comparison(answers, clusterer, options)
    if policy is None:
        policy = RegimePolicy()
    _check_parts(clusterer, policy, answer_judge, on_decision)

    members = _check_agents(agents_of(agents, where='"agents"'))
    weight_of = _weights_of(members, weights)
    _check_quorum(min_agents, n_agents=len(members))

    group = _asked_group(members, clusterer, weight_of, answers)
    rounds = rounds_of(policy, max_rounds)
    fitted = _fit_policy(policy, group, has_escalation=escalation is not None)
    aleatoric, epistemic = regime_thresholds(fitted)
    bounds = Bounds(
        max_rounds=rounds,
        token_budget=token_budget,
        deadline=deadline,
        aleatoric_threshold=aleatoric,
        epistemic_threshold=epistemic,
    )
    cost_budget = create_cost_budget(options.cost_budget, members, '"cost_budget"')
    _warn_of_idle_budgets(rounds, token_budget=token_budget, cost_budget=options.cost_budget)
    rules = Rules(bounds=bounds, min_agents=min_agents, cost_budget=cost_budget)
    parts = _GraphParts(
        agents=members,
        settings=RunSettings(weight_of, fitted, rules, answers),
        clusterer=clusterer,
        canonicalize=canonicalize,
        strategies=Strategies(strategies),
        escalation=escalation,
        tools=None if tools is None else check_tools(tools, where='"tools"'),
        history=history,
        answer_judge=answer_judge,
        on_decision=on_decision,
        options=options,
    )
    return _connect(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GraphParts:
    """The parts of a graph, once they are known to fit; what may change in a run is in `settings`."""

    agents: Sequence[Agent]
    settings: RunSettings
    clusterer: Clusterer
    canonicalize: Canonicalize | None
    strategies: Strategies
    escalation: Escalation | None
    tools: list[dict[str, Any]] | None
    history: History
    answer_judge: AnswerJudge | None
    on_decision: OnDecision | None
    options: GraphOptions

    @property
    def names(self) -> list[str]:
        return [agent.name for agent in self.agents]

    @property
    def may_clarify(self) -> bool:
        return self.options.clarify or self.strategies.may_clarify


def _connect(parts: _GraphParts) -> CoEStateGraph:
    """Returns the graph of its parts."""
    graph = CoEStateGraph(
        CoEState, context_schema=CoEContext, input_schema=CoEInput, output_schema=CoEOutput
    )
    _add_question(graph, parts)
    _add_agents(graph, parts)
    _add_measurement(graph, parts)
    _add_further_rounds(graph, parts)
    _add_decision(graph, parts)
    return graph


def _add_question(graph: CoEStateGraph, parts: _GraphParts) -> None:
    """Adds the node that reads the question, and refuses a run that could not end well."""
    checks: list[Callable[[], None]] = []
    if parts.may_clarify or getattr(parts.escalation, "interrupts", False):
        checks.append(check_checkpointer)
    if isinstance(parts.on_decision, Recorder):
        checks.append(parts.on_decision.check)
    prepare = prepare_node(
        parts.options.max_question_chars,
        parts.settings,
        history=parts.history,
        checks=checks,
        tools=parts.tools,
    )
    graph.add_node("prepare", BriefNode(prepare, slow_with="answer_schema"))
    graph.add_edge(START, "prepare")


def _add_agents(graph: CoEStateGraph, parts: _GraphParts) -> None:
    """Adds a node for each agent, which leads to the clustering."""
    attempts = parts.options.retries + 1
    retry = RetryPolicy(
        max_attempts=attempts,
        initial_interval=0.2,
        retry_on=lambda error: not isinstance(error, CheckpointError),
    )
    reads_probabilities = parts.options.weighting != "frequency"
    for agent in parts.agents:
        node = agent_node(agent, parts.names, attempts=attempts, graded=reads_probabilities)
        graph.add_node(agent.name, node, input_schema=AskedRequest, retry_policy=retry)
        # one edge each: a barrier would wait forever for an agent that was not asked
        graph.add_edge(agent.name, "cluster")


def _add_measurement(graph: CoEStateGraph, parts: _GraphParts) -> None:
    """Adds the nodes from the responses to the numbers; where claims are judged, that comes last."""
    cluster = cluster_node(
        parts.clusterer, parts.canonicalize, compares_texts=parts.options.compares_texts
    )
    graph.add_node("cluster", of_this_version(cluster))
    graph.add_edge("cluster", "measure")
    measure = measure_node(
        parts.settings,
        weighting=parts.options.weighting,
        coordination=parts.options.coordination,
        clusterer=parts.clusterer,
    )
    graph.add_node("measure", of_this_version(measure))
    if parts.answer_judge is None:
        graph.add_edge("measure", "coordinator")
    else:
        judge = claims_node(parts.answer_judge, parts.settings)
        graph.add_node("claims", of_this_version(judge))
        graph.add_edge("measure", "claims")
        graph.add_edge("claims", "coordinator")


def _add_further_rounds(graph: CoEStateGraph, parts: _GraphParts) -> None:
    """Adds the nodes that open a further round, and the edges on which the agents are asked."""
    another_round = another_round_node(parts.settings, parts.strategies)
    graph.add_node("another_round", of_this_version(another_round))
    asking = ["prepare", "another_round"]
    if parts.may_clarify:
        clarify = clarify_node(parts.options.max_question_chars)
        graph.add_node("clarify", of_this_version(BriefNode(clarify)))
        asking.append("clarify")

    ask_agents = BriefNode(fan_out(parts.settings))
    agent_of_edge: dict[Hashable, str] = {f"asks {name}": name for name in parts.names}
    for source in asking:
        graph.add_conditional_edges(source, ask_agents, agent_of_edge)


def _add_decision(graph: CoEStateGraph, parts: _GraphParts) -> None:
    """Adds the coordinator, who decides after it, and the ends."""
    escalated = "escalate" if parts.escalation is None else "escalation"
    routes = {
        "answer": "action: answer",
        "abstain": "action: abstain",
        escalated: "action: escalate",
        "another_round": "action: another_round",
    }
    if parts.may_clarify:
        routes["clarify"] = "strategy: clarify"
    advice = ""
    if type(parts.clusterer) is NormalizedMatch:  # which compares words alone
        advice = advice_on_sentences(parts.agents)
    coordinator = coordinator_node(
        parts.settings,
        strategies=parts.strategies,
        routes=routes,
        on_unavailable=parts.options.on_unavailable,
        on_sentences=advice,
        judges_claims=parts.answer_judge is not None,
    )
    graph.add_node("coordinator", of_this_version(BriefNode(coordinator)), destinations=routes)

    if parts.escalation is not None:
        escalation = escalation_node(parts.escalation, parts.names)
        rulings = {end: f"ruling: {end}" for end in _ENDS}
        graph.add_node("escalation", of_this_version(escalation), destinations=rulings)
    for end in _ENDS:
        graph.add_node(end, of_this_version(finish_node(parts.on_decision)))
        graph.add_edge(end, END)


def _check_options(options: GraphOptions | None, history: str) -> GraphOptions:
    one_of(history, '"history"', get_args(History), advice='"conversation" shows all of it')
    if options is None:
        return GraphOptions()
    advice = "Pass coe_agents.graph.GraphOptions(...)"
    instance(options, GraphOptions, '"options"', what="GraphOptions", advice=advice)
    return options


def _comparison(
    answers: AnswerPreset | None, clusterer: Clusterer | None, options: GraphOptions
) -> tuple[AnswerPreset | None, Clusterer, Canonicalize | None]:
    """Returns the preset, if any, with the clusterer and what reads answers: its own, or those that were passed."""
    if answers is None and clusterer is not None:
        return None, clusterer, options.canonicalize

    if answers is None:
        answers = short_answers()
    check_answers(answers)
    doubled = None
    if clusterer is not None:
        doubled = "clusterer"
    elif options.canonicalize is not canonical_answer:
        doubled = "canonicalize"
    if doubled is not None:
        raise TypeError(
            f'"answers" comes with its own "{doubled}"; got both. Omit one of them; without "answers", '
            'pass a "clusterer", since short_answers() is the default'
        )
    return answers, answers.clusterer, answers.canonicalize


def _check_parts(
    clusterer: object, policy: object, answer_judge: object, on_decision: object
) -> None:
    has_method(clusterer, "cluster", '"clusterer"', advice="Pass NormalizedMatch(), for example")
    has_method(policy, "decide", '"policy"', advice="Pass ThresholdPolicy(0.5), for example")
    regime_thresholds(policy)
    if answer_judge is not None:
        has_method(answer_judge, "decide", '"answer_judge"', advice="Pass Claims()")
    if on_decision is not None:
        check_on_decision(on_decision, '"on_decision"')


def _check_agents(agents: Sequence[Agent]) -> Sequence[Agent]:
    where = 'each of "agents"'
    for agent in agents:
        has_method(agent, "sample", where, advice="Wrap a chat model: ModelAgent(name, model)")
        what = 'an agent, with a name, a weight and "sample"'
        instance(agent, Agent, where, what=what, advice="Give it what it lacks")

    require(bool(agents), '"agents" must hold at least one agent', [], "Pass ModelAgent objects")
    names: set[str] = set()
    for agent in agents:
        name = agent.name
        _check_name(name)
        if name in names:
            message = f'the names of "agents" must differ; got {name!r} twice. Rename one'
            raise at_field(ValueError(message), f"agents.{name}")
        names.add(name)
    return agents


def _check_quorum(min_agents: int | None, *, n_agents: int) -> None:
    at_least = quorum(n_agents, min_agents)
    integer(at_least, '"min_agents"', least=1, most=n_agents, advice="Omit it for a majority")


def _weights_of(agents: Sequence[Agent], weights: Mapping[str, float] | None) -> dict[str, float]:
    """Returns the weight of each agent: the one that is passed for it, or else its own."""
    weight_of = {agent.name: agent.weight for agent in agents}
    if weights is not None:
        check_weights(weights)
        unknown = [name for name in weights if name not in weight_of]
        if unknown:
            message = f'"weights" must name agents of the graph; got {unknown[0]!r:.80}. '
            message += f"Its agents are {', '.join(weight_of)}"
            raise at_field(ValueError(message), "weights")
        weight_of |= weights
    if not any(weight > 0 for weight in weight_of.values()):
        raise ValueError(
            '"agents" must hold one with a weight above 0; got only weights of 0. Raise one of them'
        )
    return weight_of


def _asked_group(
    agents: Sequence[Agent],
    clusterer: Clusterer,
    weights: Mapping[str, float],
    answers: AnswerPreset | None,
) -> AskedGroup:
    """Returns the group as the guarantee of a calibrated policy sees it."""
    name, options = describe_clusterer(clusterer)
    return AskedGroup(
        agents={agent.name: AskedAgent.of(agent) for agent in agents},
        clusterer=name,
        clusterer_options=options,
        weights=weights,
        answers="" if answers is None else answers.recorded,
    )


def _fit_policy(policy: Policy, group: AskedGroup, *, has_escalation: bool) -> Policy:
    """Returns the policy for this group, and warns where a part decides nothing, or no risk is kept."""
    fitted, differences = hold_to_group(policy, group)
    cautions: list[str | Warning] = list(_cautions_of(fitted, group))
    if has_escalation and never_escalates(fitted):
        of_policy = f'no action of {type(fitted).__name__} is "escalate"'
        advice = 'Set "otherwise" to it'
        if hasattr(fitted, "actions"):
            advice = 'Make it one of "actions"'
        cautions.append(
            f'{of_policy}, so "escalation" is never asked. {advice}, or omit "escalation"'
        )
    if differences:
        cautions.append(UnkeptRiskWarning("; ".join(differences)))
    for caution in cautions:
        warnings.warn(caution, stacklevel=4)  # of whoever calls, past `refuses_removed`
    return fitted


def _warn_of_idle_budgets(rounds: int, **budgets: float | None) -> None:
    """Warns of a budget of further rounds in a graph that has none."""
    given = [f'"{name}"' for name, budget in budgets.items() if budget is not None]
    if given and rounds == 1:
        why = '"max_rounds" is 1, and the first round is always asked'
        advice = 'Raise "max_rounds", or omit the budget'
        message = f"nothing is bounded by {' and '.join(given)}: {why}. {advice}"
        warnings.warn(message, stacklevel=4)  # of whoever calls, past `refuses_removed`


def _cautions_of(policy: Policy, group: AskedGroup) -> list[str]:
    """Returns what the user should know of a policy in a group: thresholds that decide nothing."""
    cautions: list[str] = []
    last = policy.then if isinstance(policy, FixedRounds) else policy
    n_agents = len(group.agents)
    if isinstance(last, RegimePolicy) and n_agents > 1:
        unreachable = last.unreachable(n_agents=n_agents)
        if unreachable:
            agents = quantity(n_agents, "agent")
            regimes = ", ".join(unreachable)
            cautions.append(f"with {agents}, {last!r} can never see the regimes {regimes}")
    if isinstance(last, ThresholdPolicy):
        caution = last.caution(list(group.weights.values()))
        if caution:
            cautions.append(caution)
    return cautions


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f'a name of "agents" must be a string; got {name!r}. Rename the agent')
    try:
        name.encode()
    except UnicodeEncodeError as error:  # no checkpointer could store it
        message = (
            f'a name of "agents" must be text that UTF-8 can encode; got {name!r}. Rename the agent'
        )
        raise at_field(ValueError(message), f"agents.{name}") from error
    is_reserved = name in (*_NODES, *DECIDERS) or name.startswith("__")
    if is_reserved or ":" in name or "|" in name:  # which LangGraph puts between the names of nodes
        message = (
            f'a name of "agents" must not be that of a node of the graph ({", ".join(_NODES)}), "group" or '
            f'"person", start with "__" or contain ":" or "|"; got {name!r}. Rename the agent'
        )
        raise at_field(ValueError(message), f"agents.{name}")
