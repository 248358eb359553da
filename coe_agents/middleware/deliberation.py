"""Owns the judgement of one turn of an agent: from the proposals of the driver and the members to a decision.

All of it is pure, but for the clusterer and the policy that are given.
"""

import json
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from langchain_core.messages import AIMessage, ToolCall

from coe_agents.actions.canonical import Parser, to_line, tool_key
from coe_agents.actions.match import compare_actions
from coe_agents.actions.proposals import check_proposal
from coe_agents.agents._requests.endings import IN_WORDS, judge_end
from coe_agents.agents._requests.parse import read_proposal
from coe_agents.clustering import Clusterer
from coe_agents.decision.data import Proposed
from coe_agents.errors import INVALID, InvalidReplyError, describe_error, is_control_flow
from coe_agents.policy import Decision, Measurement, Policy, measure, settle
from coe_agents.policy.base import regime_thresholds
from coe_agents.policy.bounds import Spent
from coe_agents.policy.settle import Rules, representative_of
from coe_agents.text import for_log, quantity
from coe_agents.types import (
    MOST_SAMPLES,
    Action,
    Agent,
    AgentReply,
    AnswerKind,
    End,
    Response,
    Usage,
    create_response,
    create_usage,
    end_of,
    usable,
)

logger = logging.getLogger(__name__)

Mode = Literal["verify", "choose"]

_OWN_BLOCKS = {
    *("text", "output_text", "text-plain", "refusal", "reasoning", "thinking", "redacted_thinking"),
    *(
        "tool_use",
        "tool_call",
        "invalid_tool_call",
        "function_call",
        "custom_tool_call",
        "input_json_delta",
    ),
    *("image", "image_url", "audio", "video", "file"),
}
"""The types of content that a model says, or calls: nothing has run."""

DRIVER = "driver"
"""The name under which the agent's own model takes part."""


class CouncilDecision(Proposed):
    """The decision of a council on one turn; plain data, so that every checkpointer keeps it.

    Attributes:
        action: "answer": a proposal goes on; else why none does, in the policy's words: "abstain", "escalate" or
            "another_round" (of which a council has none).
        decided_by: "group", or "person" where a person decided because the group was uncertain; nothing is `contested`
            then.
        mode: "verify" or "choose".
        proposer: Whose message goes on; None if none does.
        calls: Its tool calls, each with "name", "args" and "id"; [] of a text. None if none goes on.
        support: Of each participant that gave a proposal, how probable the others find what it proposed first: see
            `proposals.support` of `coe_agents.policy.Measurement`. None, like `contested`, if it was not measured.
        votes: Who besides its proposer is known to vote for what goes on, or else for the driver's proposal ("verify")
            or the leading one ("choose"). A vote is more than half of a participant's own samples. None if nothing was
            measured.
        n_asked: How many members were asked; fewer than all where the others could not change what goes on.
    """

    action: Action
    mode: Mode
    proposer: str | None
    support: dict[str, float] | None
    votes: list[str] | None
    n_asked: int


@dataclass(frozen=True, slots=True)
class CouncilResult:
    """What follows from the proposals of one turn.

    Attributes:
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
        replies: The reply of each member, or what was raised instead, by name; of those that were asked.
        tools: The tools that all were shown, or their schemas.
        parsers: As in `coe_agents.actions.canonical_action`.
        finishing: The tools whose call means the same as a text, since the driver's model gives a structured answer
            without a tool.
        gated: The gated tools, as `tool_key` writes their names: only their calls are compared. None for all tools.
    """

    driver: AIMessage
    replies: Mapping[str, AgentReply | Exception]
    tools: Sequence[Any]
    question: str
    parsers: Mapping[str, Parser] = field(default_factory=dict)
    finishing: Collection[str] = field(default=())
    gated: Collection[str] | None = None
    _known: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def check(self, calls: Sequence[Mapping[str, Any]]) -> str:
        """Returns the canonical form of calls; see `check_proposal`. Members often propose what the driver does."""
        written = json.dumps(calls)
        if written not in self._known:
            self._known[written] = check_proposal(calls, tools=self.tools, parsers=self.parsers)
        return self._known[written]


class Deliberation:
    """Decides on the proposals of one turn.

    Args:
        clusterer: Compares the proposals; by default `ActionMatch`.
        min_votes: How many members must vote for what goes on, whatever the policy says.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        mode: Mode,
        policy: Policy,
        clusterer: Clusterer | None,
        min_votes: int | None = None,
    ) -> None:
        self._agents, self._mode, self._policy, self._clusterer = agents, mode, policy, clusterer
        # what a message says beside its calls is not judged, and whoever fails is counted
        self._rules = Rules(min_agents=0, min_votes=min_votes, answerable=get_args(AnswerKind))
        self._aleatoric_threshold, self._epistemic_threshold = regime_thresholds(policy)
        self._weights = {agent.name: agent.weight for agent in agents} | {DRIVER: 1.0}

    def rule(self, proposals: Proposals) -> CouncilResult:
        """Returns the decision, with the message that goes on; nothing does if anything fails."""
        failed, rows = self._read_members(proposals)
        unasked = self._unasked(proposals)
        decision = CouncilDecision(
            action="abstain",
            reason="",
            decided_by="group",
            mode=self._mode,
            proposer=None,
            calls=None,
            support=None,
            votes=None,
            n_asked=len(proposals.replies),
            contested=None,
            failed_agents=failed,
            tokens=_tokens(proposals),
        )
        own: Response | None = None
        try:
            own = _read_driver(proposals)
        except InvalidReplyError as error:
            if self._mode == "verify":
                decision["reason"] = for_log(str(error).partition("\n")[0])
                return CouncilResult(decision, None, is_readable=False)
        blocked = CouncilResult(decision, None, is_readable=own is not None)
        driver = _failure(DRIVER, "it cannot be read") if own is None else own
        missing = [
            _failure(name, "it was not asked") for name in unasked
        ]  # `is_settled`: as any other votes
        try:
            measurement, found = self._decide([driver, *rows, *missing], proposals)
        except Exception as error:  # a user's clusterer or policy may raise anything
            if is_control_flow(error):
                raise
            logger.warning(
                "the council is closed: judging failed with %s",
                type(error).__name__,
                exc_info=error,
            )
            # only the type: the text of an error may reveal what the driving model must not read
            decision["reason"] = f"judging the proposals failed with {type(error).__name__}"
            return blocked
        decision["action"], decision["reason"] = found.action, for_log(found.reason)
        action = representative_of(measurement, found.answer)
        judged, besides = (
            (measurement.proposals.by_agent[DRIVER], DRIVER)
            if self._mode == "verify"
            else (action, None)
        )
        votes = decision["votes"] = measurement.proposals.voters(judged, besides=besides)
        if unasked:
            asked, others = (
                quantity(len(proposals.replies), "member"),
                quantity(len(unasked), "other"),
            )
            said = f"{len(votes)} of {asked} asked {'proposes' if len(votes) == 1 else 'propose'} the same"
            decision["reason"] = f"{said}, and the votes of {others} would not change the decision"
        else:
            support = measurement.proposals.support
            decision["support"] = {
                name: float(value) for name, value in support.items() if name not in failed
            }
            contested = measurement.proposals.contested
            decision["contested"] = None if contested is None else dict(contested)
        if found.action != "answer":
            if failed:
                self._tell_failures(decision, proposals, rows)
            if own is not None and own["calls"] and (names := _without_calls(rows, proposals)):
                servers = "its server" if len(names) == 1 else "their servers"
                decision["reason"] += (
                    f"; {for_log(', '.join(names))} called no tool: {servers} may ignore tools"
                )
            return blocked
        if own is not None and measurement.proposals.by_agent[DRIVER] == action:
            return _goes_on(decision, DRIVER, proposals.driver)
        return self._choose(
            blocked,
            action,
            most=measurement.proposals.writings.get(action),
            rows=rows,
            proposals=proposals,
        )

    def is_settled(self, proposals: Proposals) -> bool:
        """Returns whether no reply of the members that were not asked yet can change what goes on.

        That holds where it goes on without their votes, or does not even with all of them: a vote more never closes the
        gate of a `SupportPolicy`.
        """
        if not (unasked := self._unasked(proposals)):
            return True
        try:
            own = _read_driver(proposals)
            known = [own, *self._read_members(proposals)[1]]
            failing = [_failure(name, "") for name in unasked]
            agreeing: list[Response] = [{**own, "agent": name} for name in unasked]
            goes_on = [
                self._decide([*known, *rest], proposals)[1].action == "answer"
                for rest in (failing, agreeing)
            ]
        except Exception:  # `rule` meets it again, and says what failed
            return True
        return goes_on[0] or not goes_on[1]

    def _unasked(self, proposals: Proposals) -> list[str]:
        return [
            agent.name
            for agent in self._agents
            if agent.weight > 0 and agent.name not in proposals.replies
        ]

    def _decide(
        self, responses: Sequence[Response], proposals: Proposals
    ) -> tuple[Measurement, Decision]:
        clusterer = compare_actions(self._clusterer, proposals.tools)
        judged = responses[0]["answer"] if self._mode == "verify" else None
        actions = {row["answer"] or "" for row in responses if row["error"] is None}
        label_of = _cluster(clusterer, actions, judged, proposals.question)
        # whoever failed counts as one that proposed something that nobody else does
        keys = [
            row["agent"] if row["error"] is not None else label_of[row["answer"] or ""]
            for row in responses
        ]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        measurement = measure(
            responses,
            [numbers[key] for key in keys],
            weights=self._weights,
            aleatoric_threshold=self._aleatoric_threshold,
            epistemic_threshold=self._epistemic_threshold,
            proposer=DRIVER if self._mode == "verify" else None,
            clusterer=clusterer,
            question=proposals.question,
        )
        asked = [*self._weights]
        return measurement, settle(
            self._policy, measurement, self._rules, asked=asked, answered=asked, spent=Spent()
        )

    def _read_members(self, proposals: Proposals) -> tuple[dict[str, str], list[Response]]:
        """Returns why members that were asked gave no proposal, by name, and a row for each sample of them all."""
        failed: dict[str, str] = {}
        rows: list[Response] = []
        for agent in self._agents:
            if (reply := proposals.replies.get(agent.name)) is None:
                continue
            if isinstance(reply, Exception):
                own = [_failure(agent.name, describe_error(reply, agent))]
            else:
                given = reply["responses"]
                own = [
                    _as_proposal(row, agent.name, place, proposals)
                    for place, row in enumerate(given)
                ]
                match reply.get("sampling"):
                    case {
                        "n_requested": int(n_wanted),
                        "counted": "each",
                    }:  # what it failed to give is no vote
                        missing = range(len(own), min(n_wanted, MOST_SAMPLES))
                        own += [
                            _failure(agent.name, "it gave no response", place) for place in missing
                        ]
            rows += own
            if not usable(own):
                failed[agent.name] = own[0]["error"] or "it gave no response"
        return failed, rows

    def _tell_failures(
        self, decision: CouncilDecision, proposals: Proposals, rows: Sequence[Response]
    ) -> None:
        """Adds to the reason which members failed and why; what they proposed is not for the driver to read."""
        whys = list[str]()
        for name in decision["failed_agents"]:
            reply = proposals.replies[name]
            own = [row for row in rows if row["agent"] == name]
            if isinstance(reply, InvalidReplyError):
                own = (reply.reply or {}).get("responses", [])
            if isinstance(reply, Exception) and not isinstance(reply, InvalidReplyError):
                why = decision["failed_agents"][name]
            else:
                ends = [end for row in own if (end := end_of(row)) != "whole"]
                why = IN_WORDS[ends[0]] if ends else "it gave no valid proposal"
            whys.append(f"{name} failed: {why}")
        told = for_log("; ".join(whys))
        if len(whys) < len(proposals.replies):
            decision["reason"] += f"; {told}"
            return
        decision["reason"] = f"no member gave a proposal: {told}"
        logger.warning("the council is closed: no member gave a proposal: %s", told)

    def _choose(
        self,
        blocked: CouncilResult,
        action: str,
        *,
        most: Any,
        rows: Sequence[Response],
        proposals: Proposals,
    ) -> CouncilResult:
        """Returns the result that lets a member's message with this very action go on; `most` is how most write it."""
        reason = "no member's message has the chosen action"
        same = [
            row
            for row in usable(rows)
            if row["answer"] == action and self._weights[row["agent"]] > 0
        ]

        def rank(row: Response) -> tuple[bool, str, str, str]:
            # how most write it, else a text: no order of agents decides which of equal actions goes on
            return (line := to_line(row["calls"])) != to_line(most), line, row["text"], row["agent"]

        for row in sorted(same, key=rank):
            message = _message(row, proposals)
            if (problem := faulty_ids(message.tool_calls)) is None:
                return _goes_on(blocked.decision, row["agent"], message)
            reason = f"the message of the chosen action is invalid: {problem}"
        return replace(
            blocked, decision={**blocked.decision, "action": "abstain", "reason": reason}
        )


def faulty_ids(calls: Sequence[ToolCall]) -> str | None:
    """Returns what is wrong with the ids of calls, by which their results are told apart; None if nothing is."""
    ids = [call["id"] for call in calls]
    if not all(ids):
        return "a call has no id"
    return "two calls have the same id" if len(set(ids)) < len(ids) else None


def _read_driver(proposals: Proposals) -> Response:
    """Returns the driver's proposal.

    Raises:
        InvalidReplyError: It has calls that cannot be read or do not fit the tools, or may lack some: it is not whole.
            Or all tools are gated, and its provider ran one.
    """
    calls, action = read_proposal(proposals.driver, proposals.check)
    if calls and (ending := judge_end(proposals.driver)) != "whole":
        raise InvalidReplyError(f"{INVALID}: {IN_WORDS[ending]}", retryable=False)
    if proposals.gated is None and (ran := _run_by_provider(proposals.driver)):
        raise InvalidReplyError(
            f"{INVALID}: its provider ran {ran!r:.80} itself, which nobody judged", retryable=False
        )
    if (problem := faulty_ids(proposals.driver.tool_calls)) is not None:
        raise InvalidReplyError(f"{INVALID}: {problem}", retryable=False)
    compared, action = _compared(calls, action, proposals.gated)
    return create_response(DRIVER, str(proposals.driver.text), answer=action, calls=compared)


def _run_by_provider(message: AIMessage) -> str | None:
    """Returns the name or type of a tool that the model's provider ran; None where it ran none.

    Providers write it as blocks of many types, so each that is not the model's own counts.
    """
    blocks = message.content if isinstance(message.content, list) else []
    outputs: list[Any] = (
        message.additional_kwargs.get("tool_outputs") or []
    )  # earlier form of the Responses API
    for block in [*blocks, *outputs]:
        if isinstance(block, Mapping) and block.get("type") not in _OWN_BLOCKS:
            return str(block.get("name") or block.get("type"))
    return None


def check_reply(reply: Any) -> AgentReply:
    """Returns the reply of a member if it has the form of one; its responses are read one by one later."""
    match reply:
        case {
            "responses": [_, *_],
            "usage": {
                "input_tokens": int() | float() | None,
                "output_tokens": int() | float() | None,
            },
        }:
            if isinstance(reply.get("messages", {}), Mapping):
                return cast("AgentReply", reply)
    raise InvalidReplyError(
        "its reply must hold responses and their usage in tokens", retryable=False
    )


def _failure(agent: str, why: str, place: int = 0) -> Response:
    return create_response(agent, "", index=place, error=why)


def _compared(
    calls: Sequence[dict[str, Any]], action: str, gated: Collection[str] | None
) -> tuple[list[dict[str, Any]], str]:
    """Returns the part of calls and of their canonical action that is compared; the others run, or not, with them."""
    if gated is None:
        return [*calls], action
    kept, own = (
        [call for call in part if tool_key(call["name"]) in gated]
        for part in (calls, json.loads(action))
    )
    return kept, f"[{','.join(map(to_line, own))}]"


def _cluster(
    clusterer: Clusterer, actions: Collection[str], judged: str | None, question: str
) -> dict[str, int]:
    """Returns the cluster of each action.

    Each is compared with the judged one by itself. Under a tolerance, which is not transitive, a third proposal would
    else decide whether two are equal, and a vote more could cost another.
    """
    others = sorted({*actions} - {judged})
    label_of = {} if judged is None else {judged: 0}
    if judged is not None and others:
        pairs = clusterer.cluster([[judged, other] for other in others], [question] * len(others))
        label_of |= {
            other: 0 for other, (own, label) in zip(others, pairs, strict=True) if own == label
        }
    rest = [other for other in others if other not in label_of]
    [labels] = clusterer.cluster([rest], [question]) if len(rest) > 1 else [[0] * len(rest)]
    return label_of | {other: 1 + label for other, label in zip(rest, labels, strict=True)}


def _as_proposal(row: Response, agent: str, place: int, proposals: Proposals) -> Response:
    """Returns a member's response as a proposal; one that calls nothing is a proposal, too."""
    try:
        if row["error"] is not None:
            return _failure(agent, str(row["error"]) or "it says no reason", place)
        if (end := end_of(row)) != "whole":  # a call, or another one, may have followed
            known: End = end if end in IN_WORDS else "unknown"
            return {
                **_failure(agent, f"its reply does not count: {IN_WORDS[known]}", place),
                "end": known,
            }
        calls = _all_calls(row, proposals)
        compared, action = _compared(calls, proposals.check(calls), proposals.gated)
        match row:
            case {"text": str(text), "logprob": int() | float() | None, "n_tokens": int() | None}:
                read = create_response(agent, text, index=place, answer=action, calls=compared)
                said = {
                    "logprob": row["logprob"],
                    "n_tokens": row["n_tokens"],
                    "confidence": row.get("confidence"),
                }
                return cast("Response", {**read, **said})
        raise TypeError("the response has no text, or no number where one must be")
    except Exception as error:  # a member may return anything
        return _failure(agent, describe_error(error), place)


def _without_calls(rows: Sequence[Response], proposals: Proposals) -> list[str]:
    """Returns the members all of whose samples are texts, without a call of any tool."""
    failing = {row["agent"] for row in rows if row["error"] is not None}
    return [
        name
        for name, reply in proposals.replies.items()
        if not (
            name in failing
            or isinstance(reply, Exception)
            or any(row.get("calls") for row in reply["responses"])
        )
    ]


def _all_calls(row: Response, proposals: Proposals) -> list[dict[str, Any]]:
    return [call for call in row.get("calls") or [] if call["name"] not in proposals.finishing]


def _message(row: Response, proposals: Proposals) -> AIMessage:
    """Returns the message of a member's proposal: its own where the member gave it, else one with the same calls."""
    reply = cast("AgentReply", proposals.replies[row["agent"]])  # whoever failed has no proposal
    calls = _all_calls(reply["responses"][row["index"]], proposals)
    own = (reply.get("messages") or {}).get(row["index"])
    if isinstance(own, AIMessage) and not own.invalid_tool_calls:
        given = [{"name": call["name"], "args": call["args"]} for call in own.tool_calls]
        if to_line(given) == to_line(calls):  # True is not 1, which Python's `==` does not tell
            return own
    numbered = [
        ToolCall(
            name=call["name"], args=call["args"], id=f"call_{uuid.uuid4().hex}", type="tool_call"
        )
        for call in calls
    ]
    return AIMessage(row["text"], tool_calls=numbered)


def _goes_on(decision: CouncilDecision, proposer: str, message: AIMessage) -> CouncilResult:
    calls = [
        {"name": call["name"], "args": call["args"], "id": call["id"]}
        for call in message.tool_calls
    ]
    votes = [name for name in decision["votes"] or [] if name != proposer]
    return CouncilResult(
        {**decision, "proposer": proposer, "calls": calls, "votes": votes}, message
    )


def _tokens(proposals: Proposals) -> dict[str, Usage]:
    used: dict[str, Any] = {DRIVER: proposals.driver.usage_metadata}
    used |= {
        name: reply["usage"]
        for name, reply in proposals.replies.items()
        if not isinstance(reply, Exception)
    }
    return {
        name: create_usage(own["input_tokens"], own["output_tokens"])
        for name, own in used.items()
        if own
    }
