"""Owns the state of the graph, and what it tells of the rounds so far: their measurement, and what they have cost.

It is plain data only, so that every checkpointer keeps it unchanged.
"""

import operator
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, cast

from langchain_core.messages import AnyMessage
from langgraph.channels import EphemeralValue
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from coe_agents.decision.data import AgentTokens, ClaimedAnswer, DecisionData
from coe_agents.errors import CheckpointError
from coe_agents.measurement.measurement import AgentMeasurement, Run, Sampled
from coe_agents.measurement.proposals import Proposals
from coe_agents.policy import Decision, Measurement
from coe_agents.policy.bounds import CostBudget, Spent
from coe_agents.rounds.trajectory import conformity, round_data
from coe_agents.types import AgentRequest, Response, RoundData, add_counts, add_usages


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
            text by `clustering.answers.parse_choice`; no answer is extracted, and the clusterer is not asked. Of other
            replies only equal ones share a cluster; with the choices "approve" and "reject", a review, all others do.
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


class PlanData(TypedDict):
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
        settled: What `policy.settle` decided, before it is carried out.
        former_labels: The cluster of each text that led in the round before.
        unjudged: How many pairs of answers the judge of their meaning could not judge, in words; "" if all could be.
            Absent from an earlier version's.
        claimed: What is given of a long answer, where the graph judges claims and the turn has one.
    """

    turn: Turn
    round: int
    plan: PlanData
    clock: Clock
    usages: Annotated[list[AgentTokens], operator.add]
    measured: dict[str, Any] | None
    settled: dict[str, Any]
    trajectory: list[RoundData]
    former_labels: dict[str, int]
    unjudged: str
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
    version = None if written is None else written.get("state_version")
    if version != STATE_VERSION:
        wrote = "an earlier version" if version is None else f"a version whose state is {version}"
        raise CheckpointError(
            f"the checkpoint of this thread was written by {wrote} of coe-agents; the state of this one is "
            f"{STATE_VERSION}",
            hint="Finish the run with the version that wrote it, or ask the question again, which begins anew",
        )


def spent_of(state: CoEState, budget: CostBudget | None = None) -> Spent:
    """Returns the cost of a question so far; in money where there is a budget."""
    cost = None
    if budget is not None:
        cost = budget.cost_of((spent["agent"], spent["usage"]) for spent in state["usages"])
    rows = [*state["responses"], *state["former_responses"]]
    return Spent(
        state["round"],
        tokens_used(state),
        seconds_used(state),
        n_responses=[row["error"] for row in rows].count(None),
        n_agents=len({row["agent"] for row in new_responses(state)}),
        cost=cost,
    )


def begin_round(elapsed: float = 0.0) -> Clock:
    """Returns the clock of a round that begins now."""
    started = time.time()
    _begun(started)  # from here on, `seconds_since` counts
    return Clock(started=started, elapsed=elapsed)


def seconds_since(started: float) -> float:
    """Returns how long ago a round began; a clock that is set changes nothing in a process that has asked before."""
    return time.monotonic() - _begun(started)


@lru_cache(maxsize=10_000)
def _begun(started: float) -> float:
    """Returns when a round began, on the monotonic clock of this process; kept for the latest rounds.

    Where another process began it, the wall clock alone tells how long ago that was when this process first asks.
    """
    return time.monotonic() - max(0.0, time.time() - started)


def tokens_used(state: CoEState) -> int | None:
    """Returns what all requests have cost so far, input and output; None where that is not known."""
    total = add_usages(spent["usage"] for spent in state["usages"])
    return add_counts([total["input_tokens"], total["output_tokens"]])


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    The time between a decision and the next round, such as a person's, does not count.
    """
    return state["clock"]["elapsed"] + seconds_since(state["clock"]["started"])


def account(state: CoEState, measurement: Measurement | None) -> list[RoundData]:
    """Returns the trajectory with the round just measured, once, however often the agents were asked."""
    former = before(state)
    used = tokens_used(state)
    used_before = add_counts([each["tokens"] for each in former])
    tokens = None
    if used is not None and used_before is not None:
        tokens = used - used_before
    data = round_data(
        measurement,
        round=state["round"],
        strategy=state["plan"]["strategy"],
        shows_answers=state["plan"]["shows_answers"],
        former=former[-1] if former else None,
        former_labels=state["former_labels"],
        tokens=tokens,
        n_responses=len(new_responses(state)),
    )
    return [*former, data]


def agents_counted_as(state: CoEState, how: Literal["once", "not"]) -> set[str]:
    """Returns the agents that ignore their temperature and whose responses count in this way."""
    agents: set[str] = set()
    for request in state["usages"]:
        sampling = request["sampling"]
        if sampling is not None and sampling.get("counted") == how:
            agents.add(request["agent"])
    return agents


def before(state: CoEState) -> list[RoundData]:
    """Returns the trajectory of the rounds before this one."""
    return state["trajectory"][: state["round"]]


def new_responses(state: CoEState) -> list[Response]:
    """Returns the responses of the round, without failures."""
    now = state["round"]
    return [row for row in state["responses"] if row["round"] == now and row["error"] is None]


def measurement_of(state: CoEState, *, tokens_left: float | None = None) -> Measurement:
    """Returns the last round's measurement with the earlier rounds, as policies and strategies see it."""
    measured = state["measured"] or {}
    fields = _with_tuples(measured)
    fields["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    fields["proposals"] = Proposals(**_with_tuples(measured["proposals"]))
    labels = state["labels"]
    fields["run"] = Run(
        history=tuple(state["trajectory"][:-1]),
        tokens_left=tokens_left,
        conformity=conformity(state["trajectory"]),
        sampled=Sampled(state["turn"]["question"], state["responses"][: len(labels)], labels),
    )
    return Measurement(**fields)


def to_plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields, with lists for tuples, as a checkpointer would return them.

    `run` is omitted: it follows from the rest of the state.
    """
    plain = _with_lists(fields_of(measurement))
    plain["agents"] = {name: fields_of(agent) for name, agent in measurement.agents.items()}
    plain["proposals"] = _with_lists(fields_of(measurement.proposals))
    del plain["run"]
    return plain


def _with_lists(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }


def fields_of(instance: Measurement | AgentMeasurement | Proposals | Decision) -> dict[str, Any]:
    """Returns the fields as `dataclasses.asdict` does, without copying the values."""
    return {name: getattr(instance, name) for name in instance.__dataclass_fields__}
