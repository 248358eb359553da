"""Owns what each node of the graph does."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any, Protocol

from langchain_core.messages import AnyMessage, HumanMessage, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from langgraph.types import Command

from coe_agents.clustering import answer_kind
from coe_agents.errors import AgentError, IgnoredTemperatureError, InvalidReplyError
from coe_agents.graph import events
from coe_agents.graph.bounds import Bounds, seconds_used
from coe_agents.graph.clusters import graded_options
from coe_agents.graph.forms import TwoForms
from coe_agents.graph.measured import measurement_of, to_plain
from coe_agents.graph.rounds import account, counted, cut_off, in_time, opening
from coe_agents.graph.state import AgentTokens, AskedRequest, CoEState
from coe_agents.policy import Decision, Measurement, Policy, Weighting, measure
from coe_agents.policy.base import without_tie
from coe_agents.policy.measurement import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
)
from coe_agents.policy.wording import who_says_what
from coe_agents.redaction import is_told, redacted, secrets_of
from coe_agents.rounds import CLARIFY, Strategies
from coe_agents.types import Agent, AgentReply, Response

MAX_QUESTION_CHARS = "max_question_chars"
"""The option that the refusal of a long question names; a tool tells that refusal by it from other errors."""


class StateNode(Protocol):
    """A node that reads the whole state."""

    def __call__(self, state: CoEState) -> Any: ...


def prepare_node(max_question_chars: int, *, check: Callable[[], None] | None = None) -> StateNode:
    """Returns the node that settles the question and the conversation, and clears what a former turn left behind.

    `check` is called first, and raises where the run must not start.
    """

    def prepare(state: CoEState) -> dict[str, Any]:
        if check is not None:
            check()
        settled = _settled(state)
        n_chars = len(settled["asked"])
        if n_chars > max_question_chars:
            raise ValueError(
                f"the question must have at most {max_question_chars} characters "
                f'("{MAX_QUESTION_CHARS}" of the graph); {n_chars} came. '
                "Shorten it, or build the graph with a higher bound"
            )
        return settled

    return prepare


def _settled(state: CoEState) -> dict[str, Any]:
    given, messages = state.get("question"), list(state.get("messages") or [])
    added = _added_this_turn(messages, state.get("last_seen"))
    texts = [message.text.strip() for message in added if isinstance(message, HumanMessage)]
    question = given.strip() if given is not None else next((text for text in reversed(texts) if text), "")
    if not question:
        raise ValueError(
            'the input must hold a "question", or "messages" with a text of the user; neither came. '
            'Call the graph with {"question": "..."}'
        )
    is_last = bool(added) and isinstance(added[-1], HumanMessage) and texts[-1] == question
    asked = [] if given is None or is_last else [HumanMessage(question, id=str(uuid.uuid4()))]
    conversation = [*messages, *asked] if added else asked
    return {
        "asked": question,
        "allowed": _choices(state.get("choices")),
        "conversation": convert_to_openai_messages(conversation),
        "messages": asked,
        "last_seen": conversation[-1].id,
        **opening(),
    }


def _choices(given: Any) -> list[str] | None:
    if given is None:
        return None
    words = [choice.strip().lower() for choice in given if isinstance(choice, str)] if isinstance(given, list) else []
    if not isinstance(given, list) or len(words) < len(given) or len(set(words) - {""}) < max(len(given), 2):
        raise ValueError(
            f'"choices" of the input must be a list of at least two words that differ; got {given!r}. '
            'Write {"question": "...", "choices": ["approve", "reject"]}'
        )
    return given


def _added_this_turn(messages: Sequence[AnyMessage], last_seen: str | None) -> list[AnyMessage]:
    """Returns the messages after the last one of the former turn, without the answer that this graph gave to it."""
    places = [place for place, message in enumerate(messages) if message.id == last_seen and last_seen is not None]
    after = messages[places[-1] + 1 :] if places else messages
    return [message for message in after if not (places and "decision" in message.response_metadata)]


def agent_node(agent: Agent, *, attempts: int, graded: bool = True) -> TwoForms:
    """Returns the node that samples one agent; its last failure becomes a row, so that the others' answers stand.

    `graded` tells whether the agent may give probabilities of choices in place of samples.
    """

    def said(request: AskedRequest, reply: AgentReply) -> dict[str, Any]:
        spent = AgentTokens(agent=agent.name, usage=reply["usage"], sampling=reply.get("sampling"))
        if not reply["responses"]:
            raise InvalidReplyError(f'"{agent.name}" gave no response', retryable=False)
        # numbered here as well, for an agent may not know of `first_index`
        rows = enumerate(reply["responses"], start=request.get("first_index", 0))
        responses: list[Response] = [{**row, "index": index} for index, row in rows]
        return {"responses": responses, "usages": [spent]}

    def failed(request: AskedRequest, error: Exception) -> dict[str, Any]:
        may_retry = getattr(error, "retryable", not isinstance(error, ValueError | TypeError | ImportError))
        secrets = secrets_of(agent)
        said_wrong = redacted(f"{type(error).__name__}: {error}", secrets)
        if may_retry and _attempt() < attempts:
            if is_told(error, secrets):  # LangGraph logs what it retries, with the whole chain of causes
                raise AgentError(said_wrong, retryable=True) from None
            raise error
        row = Response(
            agent=agent.name,
            round=request["round"],
            index=request.get("first_index", 0),
            text="",
            answer=None,
            logprob=None,
            n_tokens=None,
            error=said_wrong,
        )
        if (
            isinstance(error, IgnoredTemperatureError) and error.usage is not None
        ):  # it did respond, and what that cost counts
            spent = AgentTokens(agent=agent.name, usage=error.usage, sampling=error.sampling)
            return {"responses": [row], "usages": [spent]}
        return {"responses": [row]}

    def sample(asked: AskedRequest, config: RunnableConfig) -> dict[str, Any]:
        try:
            request, _ = in_time(asked, graded=graded)  # a call in this thread cannot be cut off
            return said(asked, agent.sample(request, unstreamed(config)))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return failed(asked, error)

    async def asample(asked: AskedRequest, config: RunnableConfig) -> dict[str, Any]:
        try:
            request, seconds = in_time(asked, graded=graded)
            async with nullcontext() if seconds is None else cut_off(seconds):
                return said(asked, await agent.asample(request, unstreamed(config)))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return failed(asked, error)

    return TwoForms(events.told(sample, agent.name), events.atold(asample, agent.name), name=agent.name)


def unstreamed(config: RunnableConfig) -> RunnableConfig:
    """Keeps an agent's samples out of `stream_mode="messages"`: nothing is shown before the gate."""
    return {**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]}


def measure_node(
    policy: Policy, weights: Mapping[str, float], *, weighting: Weighting, divergence: str, coordination: str | None
) -> TwoForms:
    """Returns the node that computes Collaborative Entropy; None without a trusted agent."""
    thresholds: dict[str, Any] = {
        "aleatoric_threshold": getattr(policy, "aleatoric_threshold", DEFAULT_ALEATORIC_THRESHOLD),
        "epistemic_threshold": getattr(policy, "epistemic_threshold", DEFAULT_EPISTEMIC_THRESHOLD),
    }

    def measure_responses(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        responses = state["responses"][: len(state["labels"])]
        if not any(weights[response["agent"]] > 0 for response in responses):
            events.emit(events.measured(state["round"], None))
            return {"measured": None, "trajectory": account(state, None)}
        measurement = measure(
            responses,
            state["labels"],
            weights=weights,
            weighting=weighting,
            divergence=divergence,
            coordination=coordination,
            **graded_options(state),
            **thresholds,
        )
        events.emit(events.measured(state["round"], measurement))
        return {"measured": to_plain(measurement), "trajectory": account(state, measurement)}

    async def ameasure_responses(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        if coordination is None:  # about a millisecond: less than what a thread costs among many questions
            return measure_responses(state, config)
        return await asyncio.to_thread(measure_responses, state, config)

    return TwoForms(measure_responses, ameasure_responses, name="measure")


def coordinate_node(
    policy: Policy,
    names: Sequence[str],
    *,
    bounds: Bounds,
    min_agents: int,
    strategies: Strategies,
    routes: Collection[str],
) -> StateNode:
    """Returns the node that decides, by the policy and by what no policy can overrule, and goes to one of `routes`."""

    def coordinate(state: CoEState) -> Command[str]:
        answering = {response["agent"] for response in state["responses"] if response["error"] is None}
        who, regime = "", None  # without a quorum there is no group to be in one
        if len(answering) < min_agents:
            greedy = counted(state, "not")
            missing = [
                f"{name} (its temperature has no effect)" if name in greedy else name
                for name in names
                if name not in answering
            ]
            wanted = f"{len(answering)} of {len(names)} agents answered and {min_agents} must"
            late = bounds.passed(state)
            reason = f"{wanted}; missing: {', '.join(missing)}{f'; {late}' if late else ''}"
            decision = Decision("abstain", None, reason)
        elif state["measured"] is None:
            decision = Decision("abstain", None, "no agent with a weight above 0 answered")
        else:
            measurement = measurement_of(state)
            decision, regime = _decide(policy, measurement, state, bounds), measurement.regime
            who = who_says_what(measurement, n_agents=len(names))
        # an event holds nothing of a response, so who says what is left to the decision
        events.emit(events.decided(state["round"], decision))
        verdict = asdict(decision) | {"reason": "; ".join(filter(None, (who, decision.reason))), "regime": regime}
        goto = _next_node(decision, state["measured"], strategies, routes)
        return Command(goto=goto, update={"verdict": verdict, "elapsed": seconds_used(state)})

    return coordinate


def _next_node(
    decision: Decision, measured: Mapping[str, Any] | None, strategies: Strategies, routes: Collection[str]
) -> str:
    """Returns the node named like the action, or the one that stands before it."""
    if decision.action == "escalate" and "escalation" in routes:
        return "escalation"
    if decision.action == "another_round" and measured is not None:
        name, _ = strategies.of(measured["regime"], wanted=decision.strategy)
        if name == CLARIFY and CLARIFY in routes:
            return CLARIFY
    return decision.action


_NO_ANSWER = {"refusal": "a refusal is not an answer", "empty": "an empty response is not an answer"}


def _decide(policy: Policy, measurement: Measurement, state: CoEState, bounds: Bounds) -> Decision:
    """Returns the policy's decision, within what no policy can overrule: ties, refusals, and the bounds."""
    decision = policy.decide(measurement, round=state["round"], max_rounds=bounds.max_rounds)
    if not isinstance(decision, Decision):
        raise TypeError(
            f'"decide" of a policy must return a Decision; {type(policy).__name__} returned {type(decision).__name__}. '
            "Return coe_agents.policy.Decision(action, answer, reason)"
        )
    decision = without_tie(decision, measurement, policy)
    if decision.action == "another_round" and (bound := bounds.reached(state)):
        return Decision("abstain", None, "; ".join(filter(None, (decision.reason, bound))))
    if decision.action != "answer":
        return replace(decision, answer=None)
    answer = measurement.answer if decision.answer is None else decision.answer
    kind = measurement.answer_kind if answer == measurement.answer else answer_kind(answer)
    if kind != "answer":
        return Decision("abstain", None, "; ".join(filter(None, (_NO_ANSWER[kind], decision.reason))))
    return replace(decision, answer=answer)


def _attempt() -> int:
    execution = get_runtime().execution_info
    return 1 if execution is None else execution.node_attempt
