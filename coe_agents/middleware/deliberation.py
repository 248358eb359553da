"""Owns the judgement of one turn of an agent: from the proposals of the driver and the members to a decision.

All of it is pure, but for the clusterer and the policy that are given.
"""

import json
import logging
import uuid
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from langchain_core.messages import AIMessage, ToolCall

from coe_agents.actions.canonical import Parser, to_line
from coe_agents.actions.match import compare_actions
from coe_agents.actions.proposals import check_proposal
from coe_agents.agents.requests.endings import IN_WORDS, judge_end
from coe_agents.agents.requests.parse import read_proposal
from coe_agents.clustering import Clusterer
from coe_agents.clustering.protocols import by_first_appearance
from coe_agents.clustering.unjudged import note_unjudged
from coe_agents.decision.data import Proposed
from coe_agents.errors import (
    AgentError,
    InvalidReplyError,
    describe_error,
    invalid_proposal,
    is_control_flow,
)
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
    end_of,
    to_usage,
    usable,
)

logger = logging.getLogger(__name__)

Mode = Literal["verify", "choose"]

_OWN_BLOCKS = {
    "text",
    "output_text",
    "text-plain",
    "refusal",
    "reasoning",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_call",
    "invalid_tool_call",
    "function_call",
    "custom_tool_call",
    "input_json_delta",
    "image",
    "image_url",
    "audio",
    "video",
    "file",
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
        n_asked: How many members were asked; fewer than all where the others could not change what goes on. What is
            `contested` is then measured on those.
        observed: Whether this was only recorded: the driver's message went on, whatever the action is.
    """

    action: Action
    mode: Mode
    proposer: str | None
    support: dict[str, float] | None
    votes: list[str] | None
    n_asked: int
    observed: bool


@dataclass(frozen=True, slots=True)
class CouncilResult:
    """What follows from the proposals of one turn.

    Attributes:
        message: The message that goes on, unchanged: the driver's or, in "choose", a member's; None if none does.
        is_readable: Whether the driver's own message is a proposal that a person could approve.
        judged: The action that was judged, in canonical form; None if nothing was measured.
        responses: What was measured, then the failures; of the members that were asked, and the driver.
        labels: The cluster of each response that was measured.
    """

    decision: CouncilDecision
    message: AIMessage | None
    is_readable: bool = True
    judged: str | None = None
    responses: Sequence[Response] = ()
    labels: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TurnProposals:
    """The proposals of one turn.

    Attributes:
        replies: The reply of each member, or what was raised instead, by name; of those that were asked.
        tools: The tools that all were shown, or their schemas.
        parsers: As in `coe_agents.actions.canonical_action`.
        finishing: The tools whose call means the same as a text, since the driver's model gives a structured answer
            without a tool.
        gated: The tools of which some calls are gated: only their calls are compared. None for all tools.
    """

    driver: AIMessage
    replies: Mapping[str, AgentReply | Exception]
    tools: Sequence[Any]
    question: str
    parsers: Mapping[str, Parser] = field(default_factory=dict)
    finishing: Collection[str] = field(default=())
    gated: Container[str] | None = None
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
        min_providers: Of how many providers these members must be; None for any.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        mode: Mode,
        policy: Policy,
        clusterer: Clusterer | None,
        min_votes: int | None = None,
        min_providers: int | None = None,
    ) -> None:
        self._agents = agents
        self._min_providers = min_providers
        self._mode = mode
        self._policy = policy
        self._clusterer = clusterer
        # what a message says beside its calls is not judged, and whoever fails is counted
        self._rules = Rules(min_agents=0, min_votes=min_votes, answerable=get_args(AnswerKind))
        self._aleatoric_threshold, self._epistemic_threshold = regime_thresholds(policy)
        self._weights = {agent.name: agent.weight for agent in agents} | {DRIVER: 1.0}

    def rule(self, proposals: TurnProposals) -> CouncilResult:
        """Returns the decision, with the message that goes on; nothing does if anything fails."""
        failed, rows = self._read_members(proposals)
        decision = CouncilDecision(
            action="abstain",
            cause="unavailable",
            reason="",
            decided_by="group",
            mode=self._mode,
            proposer=None,
            calls=None,
            support=None,
            votes=None,
            n_asked=len(proposals.replies),
            observed=False,
            contested=None,
            failed_agents=failed,
            tokens=_tokens(proposals),
        )
        driver = _failure(DRIVER, "it cannot be read")
        try:
            driver = _read_driver(proposals)
        except InvalidReplyError as error:
            if self._mode == "verify":
                decision["cause"] = "invalid"
                decision["reason"] = for_log(str(error).partition("\n")[0])
                return CouncilResult(decision, None, is_readable=False)

        is_readable = driver["error"] is None
        blocked = CouncilResult(decision, None, is_readable=is_readable)
        unasked = self._unasked(proposals)
        # `is_settled`: the vote of whoever was not asked changes nothing
        missing = [_failure(name, "it was not asked") for name in unasked]
        try:
            with note_unjudged() as noted:
                measurement, settled, labels = self._decide([driver, *rows, *missing], proposals)
        except Exception as error:  # a user's clusterer or policy may raise anything
            if is_control_flow(error):
                raise
            kind = type(error).__name__
            logger.warning("the council is closed: judging failed with %s", kind, exc_info=error)
            # only the type: the text of an error may reveal what the driving model must not read
            decision["reason"] = f"judging the proposals failed with {kind}"
            return blocked

        decision["action"] = settled.action
        decision["cause"] = settled.cause
        decision["reason"] = for_log(settled.reason)
        action = representative_of(measurement, settled.answer)
        self._note_measured(decision, measurement, action, unasked=unasked)
        blocked = self._with_rows(blocked, measurement, action, rows=[driver, *rows], labels=labels)
        if settled.action != "answer":
            unjudged = noted.in_words(of="texts")
            self._tell_more(decision, proposals, rows, unjudged=unjudged, driver=driver)
            return blocked
        if is_readable and measurement.proposals.by_agent[DRIVER] == action:
            return _goes_on(blocked, DRIVER, proposals.driver)
        return self._choose(
            blocked,
            action,
            most=measurement.proposals.writings.get(action),
            rows=rows,
            proposals=proposals,
        )

    def _tell_more(
        self,
        decision: CouncilDecision,
        proposals: TurnProposals,
        rows: Sequence[Response],
        *,
        unjudged: str,
        driver: Response,
    ) -> None:
        """Adds to the reason of a block what was not judged, who failed, and who proposed no call."""
        if unjudged:
            decision["reason"] += f"; {unjudged}"
        if decision["failed_agents"]:
            self._tell_failures(decision, proposals, rows)
        if driver["calls"]:
            _tell_without_calls(decision, proposals, rows)

    def _with_rows(
        self,
        result: CouncilResult,
        measurement: Measurement,
        action: str,
        *,
        rows: Sequence[Response],
        labels: Sequence[int],
    ) -> CouncilResult:
        """Returns a result with what was judged, and the rows that it was judged on."""
        measured = list[Response]()
        failures = list[Response]()
        of_measured = list[int]()
        for row, label in zip(rows, labels, strict=False):  # those that were not asked come last
            if row["error"] is None:
                measured.append(row)
                of_measured.append(label)
            else:
                failures.append(row)
        judged = action
        if self._mode == "verify":
            judged = measurement.proposals.by_agent[DRIVER]
        return replace(result, judged=judged, responses=[*measured, *failures], labels=of_measured)

    def _note_measured(
        self,
        decision: CouncilDecision,
        measurement: Measurement,
        action: str,
        *,
        unasked: Sequence[str],
    ) -> None:
        """Adds who votes for what is judged, and how much of the rest was measured."""
        if self._mode == "verify":
            judged = measurement.proposals.by_agent[DRIVER]
            votes = measurement.proposals.voters(judged, besides=DRIVER)
        else:
            votes = measurement.proposals.voters(action)
        decision["votes"] = votes
        contested = measurement.proposals.contested
        if contested is not None:
            decision["contested"] = dict(contested)
        if unasked:
            n_members = quantity(decision["n_asked"], "member")
            others = quantity(len(unasked), "other")
            verb = "proposes" if len(votes) == 1 else "propose"
            decision["reason"] = (
                f"{len(votes)} of {n_members} asked {verb} the same, and the votes of {others} would not change "
                "the decision"
            )
            return
        support = {}
        for name, value in measurement.proposals.support.items():
            if name not in decision["failed_agents"]:
                support[name] = float(value)
        decision["support"] = support

    def is_settled(self, proposals: TurnProposals) -> bool:
        """Returns whether no reply of the members that were not asked yet can change what goes on.

        That holds where it goes on without their votes, or does not even with all of them: a vote more never closes the
        gate of a `SupportPolicy`.
        """
        unasked = self._unasked(proposals)
        if not unasked:
            return True
        try:
            driver = _read_driver(proposals)
            _, rows = self._read_members(proposals)
            failing = [_failure(name, "") for name in unasked]
            _, without_them, _ = self._decide([driver, *rows, *failing], proposals)
            agreeing: list[Response] = [{**driver, "agent": name} for name in unasked]
            _, with_all, _ = self._decide([driver, *rows, *agreeing], proposals)
        except Exception:  # `rule` meets it again, and says what failed
            return True
        return without_them.action == "answer" or with_all.action != "answer"

    def _unasked(self, proposals: TurnProposals) -> list[str]:
        unasked = []
        for agent in self._agents:
            if agent.weight > 0 and agent.name not in proposals.replies:
                unasked.append(agent.name)
        return unasked

    def _decide(
        self, responses: Sequence[Response], proposals: TurnProposals
    ) -> tuple[Measurement, Decision, list[int]]:
        is_verifying = self._mode == "verify"
        clusterer = compare_actions(self._clusterer, proposals.tools)
        judged = responses[0]["answer"] if is_verifying else None
        actions = {row["answer"] or "" for row in responses if row["error"] is None}
        label_of = _cluster(clusterer, actions, judged, proposals.question)
        keys = list[Any]()
        for row in responses:
            if row["error"] is None:
                keys.append(label_of[row["answer"] or ""])
            else:  # whoever failed counts as one that proposed something that nobody else does
                keys.append(row["agent"])
        labels = by_first_appearance(keys)
        measurement = measure(
            responses,
            labels,
            weights=self._weights,
            aleatoric_threshold=self._aleatoric_threshold,
            epistemic_threshold=self._epistemic_threshold,
            proposer=DRIVER if is_verifying else None,
            clusterer=clusterer,
            question=proposals.question,
        )
        names = [*self._weights]
        decision = settle(
            self._policy, measurement, self._rules, asked=names, answered=names, spent=Spent()
        )
        return measurement, self._check_providers(measurement, decision), labels

    def _check_providers(self, measurement: Measurement, decision: Decision) -> Decision:
        """Returns the decision, which lets nothing go on by the votes of too few providers."""
        least = self._min_providers
        if least is None or decision.action != "answer":
            return decision
        action = representative_of(measurement, decision.answer)
        voters = measurement.proposals.voters(action, besides=DRIVER)
        of_voters = {}
        for agent in self._agents:
            if agent.name in voters:  # which have a weight above 0
                of_voters[agent.name] = provider_of(agent)
        n_providers = len({*of_voters.values()})
        if n_providers >= least:
            return decision
        named = ", ".join(f"{name} of {provider}" for name, provider in of_voters.items())
        reason = (
            f"the votes come from {quantity(n_providers, 'provider')}, and {least} are required"
        )
        if named:
            reason += f": {named}"
        return replace(decision, action="abstain", answer=None, cause="providers", reason=reason)

    def _read_members(self, proposals: TurnProposals) -> tuple[dict[str, str], list[Response]]:
        """Returns why members that were asked gave no proposal, by name, and a row for each sample of them all."""
        failed: dict[str, str] = {}
        rows: list[Response] = []
        for agent in self._agents:
            reply = proposals.replies.get(agent.name)
            if reply is None:
                continue
            if isinstance(reply, Exception):
                members = [_failure(agent.name, describe_error(reply, agent))]
            else:
                members = _read_reply(reply, agent.name, proposals)
            rows += members
            if not usable(members):
                failed[agent.name] = members[0]["error"] or "it gave no response"
        return failed, rows

    def _tell_failures(
        self, decision: CouncilDecision, proposals: TurnProposals, rows: Sequence[Response]
    ) -> None:
        """Adds to the reason which members failed and why; what they proposed is not for the driver to read."""
        whys = list[str]()
        for name, error in decision["failed_agents"].items():
            reply = proposals.replies[name]
            responses: Sequence[Any] = [row for row in rows if row["agent"] == name]
            why = "it gave no valid proposal"
            if isinstance(reply, InvalidReplyError):
                responses = (reply.reply or {}).get("responses", [])
            elif isinstance(reply, Exception):
                responses = []
                why = error
            for ending in map(end_of, responses):
                if ending != "whole":
                    why = IN_WORDS[ending]
                    break
            whys.append(f"{name} failed: {why}")
        reasons = for_log("; ".join(whys))
        if len(whys) < len(proposals.replies):
            decision["reason"] += f"; {reasons}"
            return
        decision["cause"] = "unavailable"
        decision["reason"] = f"no member gave a proposal: {reasons}"
        logger.warning("the council is closed: no member gave a proposal: %s", reasons)

    def _choose(
        self,
        blocked: CouncilResult,
        action: str,
        *,
        most: Any,
        rows: Sequence[Response],
        proposals: TurnProposals,
    ) -> CouncilResult:
        """Returns the result that lets a member's message with this very action go on; `most` is how most write it."""
        same = list[Response]()
        for row in usable(rows):
            if row["answer"] == action and self._weights[row["agent"]] > 0:
                same.append(row)

        def rank(row: Response) -> tuple[bool, str, str, str]:
            # how most write it, else a text: no order of agents decides which of equal actions goes on
            line = to_line(row["calls"])
            return line != to_line(most), line, row["text"], row["agent"]

        reason = "no member's message has the chosen action"
        for row in sorted(same, key=rank):
            message = _message(row, proposals)
            fault = _fault_of(message, proposals)
            if fault is None:
                return _goes_on(blocked, row["agent"], message)
            reason = f"the message of the chosen action is invalid: {fault}"
        decision: CouncilDecision = {
            **blocked.decision,
            "action": "abstain",
            "cause": "invalid",
            "reason": reason,
        }
        return replace(blocked, decision=decision)


def faulty_ids(calls: Sequence[ToolCall]) -> str | None:
    """Returns what is wrong with the ids of calls, by which their results are told apart; None if nothing is."""
    ids = [call["id"] for call in calls]
    if not all(ids):
        return "a call has no id"
    if len(set(ids)) < len(ids):
        return "two calls have the same id"
    return None


def _read_driver(proposals: TurnProposals) -> Response:
    """Returns the driver's proposal.

    Raises:
        InvalidReplyError: It has calls that cannot be read or do not fit the tools, or may lack some: it is not whole.
            Or all tools are gated, and its provider ran one.
    """
    message = proposals.driver
    calls, action = read_proposal(message, proposals.check)
    fault = None
    if calls:
        ending = judge_end(message)
        if ending != "whole":
            fault = IN_WORDS[ending]
    fault = fault or _fault_of(message, proposals)
    if fault is not None:
        raise invalid_proposal(fault)

    compared, action = _compared(calls, action, proposals.gated)
    return create_response(DRIVER, str(message.text), answer=action, calls=compared)


def _fault_of(message: AIMessage, proposals: TurnProposals) -> str | None:
    """Returns why a message may not go on, whoever gave it; None if nothing is wrong with it."""
    if proposals.gated is None:
        tool = _run_by_provider(message)
        if tool:
            return f"its provider ran {tool!r:.80} itself, which nobody judged"
    return faulty_ids(message.tool_calls)


def _run_by_provider(message: AIMessage) -> str | None:
    """Returns the name or type of a tool that the model's provider ran; None where it ran none.

    Providers write it as blocks of many types, so each that is not the model's own counts.
    """
    blocks: list[Any] = [*message.content] if isinstance(message.content, list) else []
    # an earlier form of the Responses API has them beside the content
    outputs = message.additional_kwargs.get("tool_outputs")
    blocks += outputs if isinstance(outputs, list) else []
    for block in blocks:
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
    calls: Sequence[dict[str, Any]], action: str, gated: Container[str] | None
) -> tuple[list[dict[str, Any]], str]:
    """Returns the part of calls and of their canonical action that is compared; the others run, or not, with them."""
    if gated is None:
        return [*calls], action
    compared = [call for call in calls if call["name"] in gated]
    lines = []
    for call in json.loads(action):
        if call["name"] in gated:
            lines.append(to_line(call))
    return compared, f"[{','.join(lines)}]"


def _cluster(
    clusterer: Clusterer, actions: Collection[str], judged: str | None, question: str
) -> dict[str, int]:
    """Returns the cluster of each action.

    Each is compared with the judged one by itself. Under a tolerance, which is not transitive, a third proposal would
    else decide whether two are equal, and a vote more could cost another.
    """
    label_of = dict[str, int]()
    others = sorted({*actions} - {judged})
    rest = others
    if judged is not None:
        label_of[judged] = 0
        rest = []
        pairs = [[judged, other] for other in others]
        labels_of_pairs = clusterer.cluster(pairs, [question] * len(pairs)) if pairs else []
        for other, (of_judged, of_other) in zip(others, labels_of_pairs, strict=True):
            if of_other == of_judged:
                label_of[other] = 0
            else:
                rest.append(other)

    labels = [0] * len(rest)
    if len(rest) > 1:
        [labels] = clusterer.cluster([rest], [question])
    for other, label in zip(rest, labels, strict=True):
        label_of[other] = 1 + label
    return label_of


def _read_reply(reply: AgentReply, agent: str, proposals: TurnProposals) -> list[Response]:
    """Returns a row for each sample that a member was asked for."""
    rows = []
    for place, row in enumerate(reply["responses"]):
        rows.append(_as_proposal(row, agent, place, proposals))
    match reply.get("sampling"):
        case {"n_requested": int(n_wanted), "counted": "each"}:
            # what it failed to give is no vote
            for place in range(len(rows), min(n_wanted, MOST_SAMPLES)):
                rows.append(_failure(agent, "it gave no response", place))
    return rows


def _as_proposal(row: Response, agent: str, place: int, proposals: TurnProposals) -> Response:
    """Returns a member's response as a proposal; one that calls nothing is a proposal, too."""
    try:
        if row["error"] is not None:
            return _failure(agent, str(row["error"]) or "it says no reason", place)
        ending = end_of(row)
        if ending != "whole":  # a call, or another one, may have followed
            known: End = ending if ending in IN_WORDS else "unknown"
            failure = _failure(agent, f"its reply does not count: {IN_WORDS[known]}", place)
            return {**failure, "end": known}
        calls = _all_calls(row, proposals)
        compared, action = _compared(calls, proposals.check(calls), proposals.gated)
        match row:
            case {"text": str(text), "logprob": int() | float() | None, "n_tokens": int() | None}:
                proposal = create_response(agent, text, index=place, answer=action, calls=compared)
                proposal["logprob"] = row["logprob"]
                proposal["n_tokens"] = row["n_tokens"]
                proposal["confidence"] = row.get("confidence")
                return proposal
        raise TypeError("the response has no text, or no number where one must be")
    except Exception as error:  # a member may return anything
        return _failure(agent, describe_error(error), place)


def _tell_without_calls(
    decision: CouncilDecision, proposals: TurnProposals, rows: Sequence[Response]
) -> None:
    """Adds to the reason the members all of whose samples are texts, without a call of any tool."""
    failing = {row["agent"] for row in rows if row["error"] is not None}
    names = []
    for name, reply in proposals.replies.items():
        if name in failing or isinstance(reply, Exception):
            continue
        if not any(row.get("calls") for row in reply["responses"]):
            names.append(name)
    if names:
        servers = "its server" if len(names) == 1 else "their servers"
        decision["reason"] += (
            f"; {for_log(', '.join(names))} called no tool: {servers} may ignore tools"
        )


def _all_calls(row: Response, proposals: TurnProposals) -> list[dict[str, Any]]:
    return [call for call in row.get("calls") or [] if call["name"] not in proposals.finishing]


def _message(row: Response, proposals: TurnProposals) -> AIMessage:
    """Returns the message of a member's proposal: its own where the member gave it, else one with the same calls."""
    reply = cast("AgentReply", proposals.replies[row["agent"]])  # whoever failed has no proposal
    calls = _all_calls(reply["responses"][row["index"]], proposals)
    message = (reply.get("messages") or {}).get(row["index"])
    if isinstance(message, AIMessage) and not message.invalid_tool_calls:
        written = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
        if to_line(written) == to_line(calls):  # True is not 1, which Python's `==` does not tell
            return message
    numbered = []
    for call in calls:
        id_ = f"call_{uuid.uuid4().hex}"
        numbered.append(ToolCall(name=call["name"], args=call["args"], id=id_, type="tool_call"))
    return AIMessage(row["text"], tool_calls=numbered)


def plain_calls(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Returns the calls of a message as a decision has them: each with "name", "args" and "id"."""
    return [{"name": call["name"], "args": call["args"], "id": call["id"]} for call in calls]


def usage_of(reply: AgentReply | Exception) -> Usage | None:
    """Returns the tokens of a member's reply, also of one that does not count; None where it gave none."""
    if not isinstance(reply, Exception):
        return reply["usage"]
    return reply.usage if isinstance(reply, AgentError) else None


def provider_of(agent: Agent) -> str:
    """Returns the provider of an agent's model; those that are not known are one."""
    return getattr(agent, "provider", None) or "an unknown provider"


def _goes_on(blocked: CouncilResult, proposer: str, message: AIMessage) -> CouncilResult:
    decision = blocked.decision
    votes = [name for name in decision["votes"] or [] if name != proposer]
    calls = plain_calls(message.tool_calls)
    allowed: CouncilDecision = {**decision, "proposer": proposer, "calls": calls, "votes": votes}
    return replace(blocked, decision=allowed, message=message)


def _tokens(proposals: TurnProposals) -> dict[str, Usage]:
    reported: dict[str, Any] = {DRIVER: proposals.driver.usage_metadata}
    for name, reply in proposals.replies.items():
        reported[name] = usage_of(reply)
    tokens = {}
    for name, usage in reported.items():
        if usage:
            tokens[name] = to_usage(usage)
    return tokens
