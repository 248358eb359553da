"""Owns what each node of the graph does."""

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, Protocol

from langchain_core.messages import AnyMessage, HumanMessage, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from langgraph.types import Command, Overwrite, Send

from coe_agents.clustering import Clusterer, answer_kind, cluster_responses
from coe_agents.errors import AgentError
from coe_agents.graph import events
from coe_agents.graph.state import AgentTokens, CoEState
from coe_agents.policy import AgentMeasurement, Decision, Measurement, Policy, Weighting, measure
from coe_agents.policy.measurement import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    response_text,
)
from coe_agents.redaction import is_told, redacted, secrets_of
from coe_agents.types import Agent, AgentReply, AgentRequest, Response, in_canonical_order, usable

Canonicalize = Callable[[str], str]
Route = Literal["another_round", "answer", "abstain", "escalate"]


class StateNode(Protocol):
    """A node that reads the whole state."""

    def __call__(self, state: CoEState) -> Any: ...


def prepare_node(max_question_chars: int) -> StateNode:
    """Returns the node that settles the question and the conversation, and clears what a former turn left behind."""

    def prepare(state: CoEState) -> dict[str, Any]:
        settled = _settled(state)
        n_chars = len(settled["asked"])
        if n_chars > max_question_chars:
            raise ValueError(
                f'the question must have at most {max_question_chars} characters ("max_question_chars" of the graph); '
                f"{n_chars} came. Shorten it, or build the graph with a higher bound"
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
        "conversation": convert_to_openai_messages(conversation),
        "messages": asked,
        "last_seen": conversation[-1].id,
        "round": 0,
        "responses": Overwrite([]),
        "usages": Overwrite([]),
    }


def _added_this_turn(messages: Sequence[AnyMessage], last_seen: str | None) -> list[AnyMessage]:
    """Returns the messages after the last one of the former turn, without the answer that this graph gave to it."""
    places = [place for place, message in enumerate(messages) if message.id == last_seen and last_seen is not None]
    after = messages[places[-1] + 1 :] if places else messages
    return [message for message in after if not (places and "decision" in message.response_metadata)]


def fan_out(names: Sequence[str]) -> Callable[[CoEState], list[Send]]:
    """Returns the edge that asks every agent at once."""

    def ask_all(state: CoEState) -> list[Send]:
        request = AgentRequest(question=state["asked"], messages=state["conversation"], round=state["round"])
        return [Send(name, request) for name in names]

    return ask_all


def agent_node(agent: Agent, *, attempts: int) -> RunnableLambda[AgentRequest, dict[str, Any]]:
    """Returns the node that samples one agent; its last failure becomes a row, so that the others' answers stand."""

    def said(reply: AgentReply) -> dict[str, Any]:
        spent = AgentTokens(agent=agent.name, usage=reply["usage"], sampling=reply.get("sampling"))
        return {"responses": reply["responses"], "usages": [spent]}

    def failed(request: AgentRequest, error: Exception) -> dict[str, Any]:
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
            index=0,
            text="",
            answer=None,
            logprob=None,
            n_tokens=None,
            error=said_wrong,
        )
        return {"responses": [row]}

    def sample(request: AgentRequest, config: RunnableConfig) -> dict[str, Any]:
        try:
            return said(agent.sample(request, _unstreamed(config)))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return failed(request, error)

    async def asample(request: AgentRequest, config: RunnableConfig) -> dict[str, Any]:
        try:
            return said(await agent.asample(request, _unstreamed(config)))
        except GraphBubbleUp:
            raise
        except Exception as error:
            return failed(request, error)

    return RunnableLambda(events.told(sample, agent.name), afunc=events.atold(asample, agent.name), name=agent.name)


def _unstreamed(config: RunnableConfig) -> RunnableConfig:
    """Keeps an agent's samples out of `stream_mode="messages"`: nothing is shown before the gate."""
    return {**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]}


def cluster_node(clusterer: Clusterer, canonicalize: Canonicalize | None) -> RunnableLambda[CoEState, dict[str, Any]]:
    """Returns the node that gives each response a cluster.

    It also puts the responses in canonical order, failures last, so that `labels[i]` belongs to `responses[i]`.
    """

    def cluster(state: CoEState) -> dict[str, Any]:
        responses = [_with_answer(response, canonicalize) for response in usable(state["responses"])]
        texts = [response_text(response) for response in responses]
        labels = cluster_responses(texts, question=state["asked"], clusterer=clusterer)
        failures = in_canonical_order([response for response in state["responses"] if response["error"] is not None])
        events.emit(events.clustered(state["round"], labels))
        return {"responses": Overwrite([*responses, *failures]), "labels": labels}

    async def acluster(state: CoEState) -> dict[str, Any]:
        return await asyncio.to_thread(cluster, state)

    return RunnableLambda(cluster, afunc=acluster, name="cluster")


def measure_node(
    policy: Policy, weights: Mapping[str, float], *, weighting: Weighting, divergence: str, coordination: str | None
) -> StateNode:
    """Returns the node that computes Collaborative Entropy; None without a trusted agent."""
    thresholds: dict[str, Any] = {
        "aleatoric_threshold": getattr(policy, "aleatoric_threshold", DEFAULT_ALEATORIC_THRESHOLD),
        "epistemic_threshold": getattr(policy, "epistemic_threshold", DEFAULT_EPISTEMIC_THRESHOLD),
    }

    def measure_responses(state: CoEState) -> dict[str, Any]:
        responses = state["responses"][: len(state["labels"])]
        if not any(weights[response["agent"]] > 0 for response in responses):
            events.emit(events.measured(state["round"], None))
            return {"measured": None}
        measurement = measure(
            responses,
            state["labels"],
            weights=weights,
            weighting=weighting,
            divergence=divergence,
            coordination=coordination,
            **thresholds,
        )
        events.emit(events.measured(state["round"], measurement))
        return {"measured": _plain(measurement)}

    return measure_responses


def coordinate_node(policy: Policy, names: Sequence[str], *, max_rounds: int, min_agents: int) -> StateNode:
    """Returns the node that decides, by the policy and by what no policy can overrule."""

    def coordinate(state: CoEState) -> Command[Route]:
        measured = state["measured"]
        answering = {response["agent"] for response in state["responses"] if response["error"] is None}
        missing = [name for name in names if name not in answering]
        if len(answering) < min_agents:
            wanted = f"{len(answering)} of {len(names)} agents answered and {min_agents} must"
            decision = Decision("abstain", None, f"{wanted}; missing: {', '.join(missing)}")
        elif measured is None:
            decision = Decision("abstain", None, "no agent with a weight above 0 answered")
        else:
            decision = _decide(policy, _from_plain(measured), state["round"], max_rounds)
        events.emit(events.decided(state["round"], decision))
        return Command(goto=decision.action, update={"verdict": asdict(decision)})

    return coordinate


def another_round(state: CoEState) -> dict[str, Any]:
    """Opens the next round; its responses join the former ones."""
    return {"round": state["round"] + 1}


def _decide(policy: Policy, measurement: Measurement, round_: int, max_rounds: int) -> Decision:
    decision = policy.decide(measurement, round=round_, max_rounds=max_rounds)
    if not isinstance(decision, Decision):
        raise TypeError(
            f'"decide" of a policy must return a Decision; {type(policy).__name__} returned {type(decision).__name__}. '
            "Return coe_agents.policy.Decision(action, answer, reason)"
        )
    if decision.action == "another_round" and round_ + 1 >= max_rounds:
        return Decision("abstain", None, f"{decision.reason}; no round is left after {max_rounds}")
    if decision.action != "answer":
        return Decision(decision.action, None, decision.reason)
    answer = measurement.answer if decision.answer is None else decision.answer
    kind = measurement.answer_kind if answer == measurement.answer else answer_kind(answer)
    if kind != "answer":
        said = f'the agents decline to answer ("{answer}")' if kind == "refusal" else "the agents say nothing"
        return Decision("abstain", None, f"{said}; {decision.reason}")
    return Decision("answer", answer, decision.reason)


def _attempt() -> int:
    execution = get_runtime().execution_info
    return 1 if execution is None else execution.node_attempt


def _with_answer(response: Response, canonicalize: Canonicalize | None) -> Response:
    if canonicalize is None or response["answer"] is not None:
        return response
    answer = canonicalize(response["text"])
    return response if answer == response["text"] else Response({**response, "answer": answer})


def _plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields with lists for tuples, as a checkpointer would give them back."""
    fields = asdict(measurement)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _from_plain(measured: Mapping[str, Any]) -> Measurement:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    fields["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    return Measurement(**fields)
