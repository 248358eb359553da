"""Owns the judgement of one turn of an agent: from the proposals of the driver and the members to a ruling.

All of it is pure, but for the clusterer and the policy that are given.
"""

import json
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, ToolCall

from coe_agents.actions import check_proposal, compare_actions
from coe_agents.actions.canonical import Parser, to_line
from coe_agents.agents.proposals import read_proposal
from coe_agents.clustering import Clusterer
from coe_agents.errors import InvalidReplyError, is_control_flow
from coe_agents.group_decision import Proposed
from coe_agents.policy import Decision, Measurement, Policy, Rules, Spent, measure, settle
from coe_agents.policy.base import quorum, regime_thresholds
from coe_agents.policy.settle import representative_of
from coe_agents.redaction import redact, secrets_of
from coe_agents.text import for_log
from coe_agents.types import Action, Agent, AgentReply, AnswerKind, Response, Usage, create_response, usable

logger = logging.getLogger(__name__)

Mode = Literal["verify", "choose"]

DRIVER = "driver"
"""The name under which the agent's own model takes part."""
_NO_ID = "a call has no id"
_SAME_ID = "two calls have the same id"


class CouncilDecision(Proposed):
    """The decision of a council on one turn; plain data, so that every checkpointer keeps it.

    Attributes:
        action: "answer": a proposal goes on; else why none does, in the policy's words: "abstain", "escalate" or
            "another_round" (of which a council has none).
        decided_by: "group", or "person" where a person decided because the group was uncertain.
        mode: "verify" or "choose".
        proposer: Whose message goes on; None if none does.
        calls: Its tool calls, each with "name", "args" and "id"; [] of a text. None if none goes on.
        support: Of each participant, how probable the others find what it proposed first: see `proposal_support` of
            `coe_agents.policy.Measurement`. Empty if nothing was measured.
    """

    action: Action
    mode: Mode
    proposer: str | None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows from the proposals of one turn.

    Attributes:
        decision: The decision.
        message: The message that goes on, unchanged: the driver's or, in "choose", a member's; None if none does.
        is_readable: Whether the driver's own message is a proposal that a person could approve.
    """

    decision: CouncilDecision
    message: AIMessage | None
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Proposals:
    """The proposals of one turn.

    Attributes:
        driver: The driver's message.
        replies: The reply of each member, or what was raised instead, by name.
        tools: The tools that all were shown, as OpenAI's function schemas.
        question: The last text of the user.
        parsers: As in `coe_agents.actions.canonical_action`.
        finishing: The tools whose call means the same as a text, since the driver's model gives a structured answer
            without a tool.
    """

    driver: AIMessage
    replies: Mapping[str, AgentReply | Exception]
    tools: Sequence[dict[str, Any]]
    question: str
    parsers: Mapping[str, Parser] = field(default_factory=dict)
    finishing: Collection[str] = field(default=())


class Deliberation:
    """Rules on the proposals of one turn.

    Args:
        agents: The members.
        mode: "verify" or "choose".
        policy: Decides on the measurement.
        clusterer: Compares the proposals; by default `ActionMatch`.
    """

    def __init__(self, agents: Sequence[Agent], *, mode: Mode, policy: Policy, clusterer: Clusterer | None) -> None:
        self._agents, self._mode, self._policy, self._clusterer = agents, mode, policy, clusterer
        self._aleatoric_threshold, self._epistemic_threshold = regime_thresholds(policy)
        self._weights = {agent.name: agent.weight for agent in agents} | {DRIVER: 1.0}

    def rule(self, proposals: Proposals) -> Ruling:
        """Returns the ruling; nothing goes on if anything fails."""
        failed, rows = self._read_members(proposals)
        decision = CouncilDecision(
            action="abstain",
            reason="",
            decided_by="group",
            mode=self._mode,
            proposer=None,
            calls=None,
            support={},
            contested=None,
            failed_agents=failed,
            tokens=_tokens(proposals),
        )
        own: Response | None
        try:
            own = _read_driver(proposals)
        except InvalidReplyError as error:
            if self._mode == "verify":
                return Ruling({**decision, "reason": _plain(str(error).partition("\n")[0])}, None, is_readable=False)
            own = None
        try:
            measurement, found = self._decide([*([] if own is None else [own]), *rows], proposals)
        except Exception as error:  # a user's clusterer or policy may raise anything
            if is_control_flow(error):
                raise
            logger.warning("the council is closed: judging failed with %s", type(error).__name__, exc_info=error)
            # only the type: the text of an error may reveal what the driving model must not read
            reason = f"judging the proposals failed with {type(error).__name__}"
            return Ruling({**decision, "reason": reason}, None, is_readable=own is not None)
        decision["action"], decision["reason"] = found.action, _plain(found.reason)
        if measurement is not None:
            decision["support"] = {name: float(value) for name, value in measurement.proposal_support.items()}
            decision["contested"] = None if measurement.contested is None else dict(measurement.contested)
        if found.action != "answer" or measurement is None:
            return Ruling(decision, None, is_readable=own is not None)
        action = representative_of(measurement, found.answer)
        if own is not None and measurement.proposals[DRIVER] == action:
            return _goes_on(decision, DRIVER, proposals.driver)
        return self._choose(decision, action, measurement, rows, proposals, own=own)

    def _decide(self, responses: Sequence[Response], proposals: Proposals) -> tuple[Measurement | None, Decision]:
        """Returns the decision, and what it is on; None without a quorum of the members."""
        trusted = [agent.name for agent in self._agents if agent.weight > 0]
        answered = {row["agent"] for row in responses if row["agent"] in trusted}
        has_quorum = len(answered) >= quorum(len(trusted), None)
        measurement = self._measure(responses, proposals) if has_quorum else None
        rules = Rules(answerable=get_args(AnswerKind))  # what a message says beside its calls is not judged
        return measurement, settle(self._policy, measurement, rules, asked=trusted, answered=answered, spent=Spent())

    def _measure(self, responses: Sequence[Response], proposals: Proposals) -> Measurement:
        clusterer = compare_actions(self._clusterer, proposals.tools)
        actions = [row["answer"] or "" for row in responses]
        labels = [0] * len(actions)
        if len(set(actions)) > 1:  # an `ActionMatch` needs no order, and there are no refusals among actions
            [labels] = clusterer.cluster([actions], [proposals.question])
        return measure(
            responses,
            labels,
            weights=self._weights,
            n_resamples=0,
            aleatoric_threshold=self._aleatoric_threshold,
            epistemic_threshold=self._epistemic_threshold,
            proposer=DRIVER if self._mode == "verify" else None,
            clusterer=clusterer,
            question=proposals.question,
        )

    def _read_members(self, proposals: Proposals) -> tuple[dict[str, str], list[Response]]:
        """Returns why members gave no proposal, by name, and the proposals of the others."""
        failed: dict[str, str] = {}
        rows: list[Response] = []
        known: dict[str, str] = {}
        for agent in self._agents:
            reply = proposals.replies[agent.name]
            if isinstance(reply, Exception):
                failed[agent.name] = redact(f"{type(reply).__name__}: {reply}", secrets_of(agent))
                continue
            own = [
                _as_proposal(row, agent.name, place, proposals, known) for place, row in enumerate(reply["responses"])
            ]
            if good := usable(own):
                rows += good
            else:
                failed[agent.name] = own[0]["error"] or "" if own else "it gave no response"
        return failed, rows

    def _choose(
        self,
        decision: CouncilDecision,
        action: str,
        measurement: Measurement,
        rows: Sequence[Response],
        proposals: Proposals,
        *,
        own: Response | None,
    ) -> Ruling:
        """Returns the ruling that lets a member's message with this very action go on."""
        reason = "no member's message has the chosen action"
        same = [row for row in rows if row["answer"] == action and self._weights[row["agent"]] > 0]
        most = measurement.writings.get(action)

        def rank(row: Response) -> tuple[bool, str, str, str]:
            # how most write it, else a text: no order of agents decides which of equal actions goes on
            return (
                to_line(row["calls"]) != to_line(most),
                json.dumps(row["calls"], sort_keys=True),
                row["text"],
                row["agent"],
            )

        for row in sorted(same, key=rank):
            message = _message(row, proposals)
            if (problem := faulty_ids(message.tool_calls)) is None:
                return _goes_on(decision, row["agent"], message)
            reason = f"the message of the chosen action is invalid: {problem}"
        return Ruling({**decision, "action": "abstain", "reason": reason}, None, is_readable=own is not None)


def faulty_ids(calls: Sequence[ToolCall]) -> str | None:
    """Returns what is wrong with the ids of calls, by which their results are told apart; None if nothing is."""
    ids = [call["id"] for call in calls]
    if not all(ids):
        return _NO_ID
    return _SAME_ID if len(set(ids)) < len(ids) else None


def _read_driver(proposals: Proposals) -> Response:
    """Returns the driver's proposal.

    Raises:
        InvalidReplyError: If it cannot be read, or does not fit the tools.
    """
    calls, action = read_proposal(proposals.driver, proposals.tools, parsers=proposals.parsers)
    if (problem := faulty_ids(proposals.driver.tool_calls)) is not None:
        raise InvalidReplyError(f"the proposal is invalid: {problem}", retryable=False)
    return create_response(DRIVER, str(proposals.driver.text), answer=action, calls=calls)


def _as_proposal(row: Response, agent: str, place: int, proposals: Proposals, known: dict[str, str]) -> Response:
    """Returns a member's response as a proposal; one that calls nothing is a proposal, too.

    `known`: the canonical forms of calls that were checked already; members often propose the same.
    """
    row = {**row, "agent": agent, "round": 0, "index": place}
    if row["error"] is not None:
        return row
    calls = [call for call in row.get("calls") or [] if call["name"] not in proposals.finishing]
    try:
        written = json.dumps(calls)
        if written not in known:
            known[written] = check_proposal(calls, tools=proposals.tools, parsers=proposals.parsers)
        return {**row, "calls": calls, "answer": known[written]}
    except (ValueError, TypeError) as error:
        return {**row, "calls": None, "error": f"{type(error).__name__}: {error}"}


def _message(row: Response, proposals: Proposals) -> AIMessage:
    """Returns the message of a member's proposal: its own where the member gave it, else one with the same calls."""
    reply = proposals.replies[row["agent"]]
    calls = row["calls"] or []
    own = None if isinstance(reply, Exception) else (reply.get("messages") or {}).get(row["index"])
    if isinstance(own, AIMessage) and not own.invalid_tool_calls:
        given = [{"name": call["name"], "args": call["args"]} for call in own.tool_calls]
        if to_line(given) == to_line(calls):  # True is not 1, which Python's `==` does not tell
            return own
    numbered = [
        ToolCall(name=call["name"], args=call["args"], id=f"call_{uuid.uuid4().hex}", type="tool_call")
        for call in calls
    ]
    return AIMessage(row["text"], tool_calls=numbered)


def _goes_on(decision: CouncilDecision, proposer: str, message: AIMessage) -> Ruling:
    calls = [{"name": call["name"], "args": call["args"], "id": call["id"]} for call in message.tool_calls]
    return Ruling({**decision, "proposer": proposer, "calls": calls}, message)


def _plain(text: str) -> str:
    """Returns a reason, which may quote what a model said, on one line in which everything is visible."""
    return for_log(text)


def _tokens(proposals: Proposals) -> dict[str, Usage]:
    usage = proposals.driver.usage_metadata
    used = (
        {}
        if usage is None
        else {DRIVER: Usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"])}
    )
    return used | {
        name: reply["usage"] for name, reply in proposals.replies.items() if not isinstance(reply, Exception)
    }
