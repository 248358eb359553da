"""Owns the state of the graph: plain data only, so that every checkpointer keeps it unchanged."""

import operator
from typing import Annotated, Any, NotRequired, cast

from langchain_core.messages import AnyMessage
from langgraph.channels import EphemeralValue
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from coe_agents.decision.data import AgentTokens, ClaimedAnswer, DecisionData
from coe_agents.errors import CheckpointError
from coe_agents.types import AgentRequest, Response, RoundData


class AskedRequest(AgentRequest):
    """What an agent's node is given.

    Attributes:
        started: When the round began; see `Clock`.
        seconds: How long after that the deadline passes.
    """

    state_version: int
    asked_agents: list[str]
    started: NotRequired[float]
    seconds: NotRequired[float]


class CoEInput(TypedDict, total=False):
    """A question, or a conversation whose last human text is the question; or both.

    Attributes:
        question: The question.
        messages: The conversation.
        choices: The only replies that count, such as "approve" and "reject". Each response is then read from its raw
            text by `clustering.answers.parse_choice`; no answer is extracted, and the clusterer is not asked.
        is_review: Whether the question asks for a verdict, in words other than `choices`: equal responses are then
            expected, and no reason to probe whether a model ignores its temperature.
        tools: What every agent is shown: OpenAI's function schemas, at most 128. The responses are then proposals
            (`Response["calls"]`), which nothing runs: they are compared as actions (`coe_agents.actions.ActionMatch`),
            with the rules of the graph's clusterer if it is an `ActionMatch`, or else without rules. A response of an
            agent that ignores the tools is a text, and equals no proposal. [] shows none, not even the graph's own.
            Not together with `choices`.
        answer_schema: The JSON schema of the object that an answer must be. Agents are asked for it; what does not fit
            counts as a failure. Answers are compared field by field, as the arguments of one call, and
            `decision["fields"]` has the confidence of each. Not together with `choices`.
    """

    question: Annotated[str, EphemeralValue]
    messages: Annotated[list[AnyMessage], add_messages]
    choices: Annotated[list[str], EphemeralValue]
    is_review: Annotated[bool, EphemeralValue]
    tools: Annotated[list[dict[str, Any]], EphemeralValue]
    answer_schema: Annotated[dict[str, Any], EphemeralValue]


class CoEOutput(TypedDict, total=False):
    """The result of a run.

    Attributes:
        decision: The outcome.
        messages: The conversation, with the answer or the refusal at the end.
        responses: The responses that were measured, in canonical order, and then the failures.
        labels: The cluster of each response that was measured.
        former_responses: The responses that later rounds replaced, failures included; see their `round`.
    """

    decision: DecisionData
    messages: Annotated[list[AnyMessage], add_messages]
    responses: Annotated[list[Response], operator.add]
    labels: list[int]
    former_responses: Annotated[list[Response], operator.add]


STATE_VERSION = 5
"""Raised with every change after which a run cannot be resumed from a checkpoint that was written before it."""


class Turn(TypedDict):
    """What one turn was asked with; no later turn of the thread uses it.

    Attributes:
        question: The question. That of the input is dropped after the first step; so are the next four.
        choices: The only replies that count; None where any reply counts.
        is_review: Whether the question asks for a verdict in words of its own.
        tools: The tools of the input, or the graph's own; None where the turn shows none.
        answer_schema: The schema of the object that an answer must be; None where it is a text.
        answers: The kind of the graph's preset of answers; None without one, and where `choices`, tools, a schema or a
            review say what a reply is.
        conversation: What the agents see.
        last_seen: The id of the conversation's last message: later messages belong to a later turn.
    """

    state_version: int
    context: dict[str, Any]
    question: str
    choices: list[str] | None
    is_review: bool
    tools: list[dict[str, Any]] | None
    answer_schema: NotRequired[dict[str, Any] | None]
    answers: str | None
    conversation: list[dict[str, Any]]
    last_seen: str | None


class Plan(TypedDict):
    """How a round is asked.

    Attributes:
        strategy: The strategy's name; None for the first round.
        overrides: How the request to each agent differs from the first one, by name; None repeats the first one.
        shows_answers: Whether the round shows the agents what was answered before it.
    """

    strategy: str | None
    overrides: dict[str, dict[str, Any]] | None
    shows_answers: bool


class Clock(TypedDict):
    """The time of a question.

    Attributes:
        started: When the round began, in seconds of the wall clock.
        elapsed: The seconds of the rounds before it.
    """

    started: float
    elapsed: float


class CoEState(CoEInput, CoEOutput, total=False):
    """All channels of the graph; the nodes of the agents write only `responses` and `usages`.

    Attributes:
        usages: The tokens of requests, and how they were sampled.
        measured: The fields of the `Measurement` but its `run`; None if nothing could be measured.
        verdict: What the policy decided, before it is carried out.
        former_labels: The cluster of each text that led in the round before.
        claimed: What is given of a long answer, where the graph judges claims and the turn has one.
    """

    turn: Turn
    round: int
    plan: Plan
    clock: Clock
    usages: Annotated[list[AgentTokens], operator.add]
    measured: dict[str, Any] | None
    verdict: dict[str, Any]
    trajectory: list[RoundData]
    former_labels: dict[str, int]
    claimed: ClaimedAnswer | None


class SavedState(dict[str, Any]):
    """A state in which a channel that is read and missing is a `CheckpointError`."""

    def __missing__(self, name: str) -> Any:
        raise CheckpointError(
            f'the checkpoint of this thread lacks "{name}", which this version of coe-agents reads',
            hint="Restore it, or ask the question again, which begins anew",
        )


def read_state(state: Any) -> Any:
    """Returns the state of a node or an edge; raises `CheckpointError` where another version wrote it, or it is cut."""
    check_version(state.get("turn"))
    return SavedState(state)


def check_request(asked: AskedRequest, agents: frozenset[str]) -> None:
    """Raises `CheckpointError` if a graph of another version, or of others than `agents`, wrote a request to one."""
    check_version(asked)
    asked = cast("AskedRequest", SavedState(asked))
    if not agents.issuperset(asked["asked_agents"]):
        missing = sorted({*asked["asked_agents"]} - agents)
        raise CheckpointError(
            f"the checkpoint of this thread asks agents that the graph does not have: {', '.join(missing)}; its agents "
            f"are {', '.join(sorted(agents))}",
            hint="Resume it with a graph that has them, or ask the question again, which begins anew",
        )


def check_version(written: Turn | AskedRequest | None) -> None:
    """Raises `CheckpointError` if another version of coe-agents wrote the checkpoint that a run is resumed from."""
    found = None if written is None else written.get("state_version")
    if found != STATE_VERSION:
        wrote = "an earlier version" if found is None else f"a version whose state is {found}"
        raise CheckpointError(
            f"the checkpoint of this thread was written by {wrote} of coe-agents; the state of this one is "
            f"{STATE_VERSION}",
            hint="Finish the run with the version that wrote it, or ask the question again, which begins anew",
        )
