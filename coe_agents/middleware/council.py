"""Owns the council inside LangChain agents: a group proposes, or vouches, before what a model wants is done."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from langchain.agents.middleware.types import (
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    OmitFromInput,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from coe_agents._removed import refuses_removed
from coe_agents._steps import Call, Steps, arun_steps, run_steps, start_call
from coe_agents.actions import ActionMatch
from coe_agents.actions.canonical import tool_key
from coe_agents.agents import ModelAgent
from coe_agents.checks import flag, has_method, integer, one_of, require
from coe_agents.clustering import (
    BidirectionalEntailment,
    Clusterer,
    EmbeddingSimilarity,
    NormalizedMatch,
)
from coe_agents.decision.data import view
from coe_agents.errors import AgentError, is_control_flow
from coe_agents.graph.on_decision import OnDecision, Recorder, check_on_decision, pass_on
from coe_agents.graph.people import drop_replies
from coe_agents.middleware.council_request import Replies, ToolSchemas, TurnRequest
from coe_agents.middleware.council_review import (
    PendingProposal,
    ReviewedProposal,
    apply_decisions,
    ask_about_proposal,
    canonical_among,
    give_up,
    is_own,
    mark_pending,
    take_back,
)
from coe_agents.middleware.deliberation import (
    DRIVER,
    CouncilDecision,
    CouncilResult,
    Deliberation,
    Mode,
    TurnProposals,
    check_reply,
    provider_of,
    usage_of,
)
from coe_agents.middleware.driver import AsyncHandler, Handler
from coe_agents.middleware.gated import Tools
from coe_agents.middleware.guard import (
    GuardsTools,
    OnUncertain,
    is_edited,
    is_same_call,
    not_vouched_for,
)
from coe_agents.middleware.marks import is_mark, is_shared, make_mark
from coe_agents.middleware.once import (
    INCOMPLETE,
    REGISTER,
    VouchedAction,
    has_checkpointer,
    new_action,
)
from coe_agents.middleware.open_calls import close_calls
from coe_agents.middleware.sealed import Sealed, TurnsChannel
from coe_agents.middleware.verdict import last_reply
from coe_agents.middleware.withheld import (
    block_calls,
    is_withheld,
    not_run,
    with_rule,
    withheld_answer,
)
from coe_agents.policy import CalibratedPolicy, Policy, SupportPolicy
from coe_agents.policy.base import majority
from coe_agents.policy.bounds import Spent, create_cost_budget
from coe_agents.presets import agents_of
from coe_agents.types import Agent, AgentReply, Cause, Usage

_KEY = "coe_council"


class _Vouched(TypedDict):
    """The calls of the last message that may run, together.

    Attributes:
        action_key: The key of the action that they are together; see `new_action`.
        forms: In which each was compared, by id; a person's edit has none. See `tool_forms`.
        mark: By which this council knows that it wrote this; see `make_mark`.
    """

    action_key: str
    ids: list[str]
    forms: dict[str, list[str]]
    decided_by: str
    mark: str


class _Turn(TypedDict, total=False):
    """What a council remembers of the agent's last turn, in private state.

    Attributes:
        vouched: The calls that may run; None if there are none.
        outputs: The names of the tools by which a structured answer is given.
        n_blocked: How many proposals were blocked one after another.
        jump: Where the agent continues after a withheld proposal; None after one that goes on.
        pending: The proposal on which a person is to decide, a `PendingProposal`; None without one.
        cost: What the members' requests of this run cost; None where it is not known.
    """

    vouched: _Vouched | None
    outputs: list[str]
    n_blocked: int
    jump: Literal["model", "end"] | None
    pending: Sealed | None
    cost: float | None


def _last(former: CouncilDecision | None, new: CouncilDecision | None) -> CouncilDecision | None:
    return new


class CouncilState(AgentState[Any]):
    """The agent's state with the last decision of a council, which no input can set, and each one's private memory.

    Several councils may write both in one step.
    """

    council: NotRequired[Annotated[CouncilDecision | None, OmitFromInput, _last]]
    coe_council: NotRequired[Annotated[dict[str, _Turn], PrivateStateAttr, TurnsChannel]]


class CouncilDecided(TypedDict):
    """The event "council_decided", in `stream_mode="custom"`: the decision on a turn, without what was proposed."""

    event: Literal["council_decided"]
    action: str
    decided_by: str
    proposer: str | None
    n_calls: int | None
    failed_agents: list[str]
    observed: bool


class CoECouncil(GuardsTools[CouncilState]):
    """Lets a proposal of an agent's model go on only if enough of a group of models propose the same.

    At each turn the agent's own model, the *driver*, and the members, shown the same messages, system prompt and tools,
    propose independently and at the same time. The members are not shown calls that were withheld, nor why. Nothing is
    run meanwhile, and nothing of a proposal is streamed. The gated calls of one message are one action; its other calls
    run or are withheld with them. A text is a proposal to call nothing, whatever it says: the council judges what is
    done, not what is said.

    A member *votes* for what more than half of its own samples propose. By default the driver's action needs the votes
    of a strict majority of all members. A member or a sample that fails counts as one that proposed something else, and
    a member of weight 0 does not count.

    The gate stays closed, also for a person, to messages with a call that cannot be read, does not fit the tools, or
    shares an id. It stays closed if the policy does not answer; if in "choose" proposals tie; and if comparing or
    measuring fails. What the driver raises is raised as without a council. Where a tool is called, its call is compared
    with the one that was vouched for, by thread, message, id, name and arguments: a call that other middleware has
    changed since, or added, does not run. The calls that were vouched for together run together, once (after a restart,
    too, with a `store`), or none of them does: each waits until all are at their tools. Who may write the agent's state
    cannot vouch for a call: a mark under a secret (`COE_GATE_SECRET`) does.

    Several councils in one agent, for example with other members for other tools, need names that differ. A call that
    several gate needs all of them.

    List it *last* in `middleware`; only those that wrap model calls alone (`ModelFallbackMiddleware`,
    `ModelRetryMiddleware`) may follow, so that a fallback does not ask the members again. The members then see what the
    driver sees, and a `HumanInTheLoopMiddleware` before it is asked only about what the council lets pass.

    Args:
        agents: The members, as agents, chat models or names such as "openai:gpt-5-mini"; their names differ, none is
            "driver", and none has the driver's own model. One whose model turns out to have given the driver's message,
            such as a fallback, fails in that turn: it has no vote on its own message. Each gives as many proposals as
            it has samples. A `ModelAgent` without a number of samples, or without a timeout, gives one, within 30
            seconds.
        mode: "verify": the driver's message goes on, or none; "choose": the message of whoever proposed the action that
            most propose, the driver's if it is among them.
        tools: The gated tools, by name or by a pattern of names ("delete_*"): a list, or a mapping to True, False or a
            condition, a function of LangChain's `ToolCallRequest`. It sees the arguments as the tool's function
            receives them, and is asked again about the call that reaches the tool; where it fails, or returns no bool,
            the call is gated. A name takes precedence over patterns. The driver is then asked first, and the members
            only if it makes a gated call; all its calls of these tools are then compared, and other messages pass. By
            default every turn is judged, final answers too.
        policy: Takes the place of the majority: it decides on the measurement, in which `proposer` is "driver" under
            "verify". In "verify", the driver's own action must be the one that the policy answers with. A
            `CalibratedPolicy` must be calibrated on calls: in "verify" on those of a proposer.
        min_votes: How many members must vote for the driver's action ("verify"), or how many participants other than
            its proposer ("choose"). It takes the place of the majority, too, and applies besides a policy: of its own
            number and the policy's, the larger one counts.
        adaptive: Whether the members are asked one after another, and no more of them once no vote can change what goes
            on. It is that of asking all. For "verify", and a `SupportPolicy` or no policy.
        clusterer: An `ActionMatch` whose rules compare the actions, of tools whose schemas the council knows; one of
            texts has no say over calls, as in a graph.
        on_uncertain: "block": the driver is told that its calls were not run and what is contested, without the values
            that others proposed, and goes on; a text that is withheld is replaced by a refusal, which ends the run.
            "observe": nothing is withheld, and nothing vouched for: the driver's message goes on, and the decision,
            with `observed`, is in the state, the event, the span and what `on_decision` is passed. "interrupt": a
            person is asked, in the form of LangChain's `HumanInTheLoopMiddleware` (`HITLRequest`), about each call of
            the message, or about its text (as an action "answer"). Resume with `{"decisions": [...]}`, one for each:
            `{"type": "approve"}`, `{"type": "reject", "message": "..."}` or `{"type": "edit", "edited_action": {"name":
            ..., "args": {...}}}`, of the same tool. Nobody is asked again, and the approved message goes on as it was.
            After a reply that does not fit, the person is asked again. This needs a checkpointer; without one the run
            ends there.
        max_blocked: After so many blocked proposals in a row the run ends with a refusal.
        escalate_after: After so many blocked proposals in a row of a run, or where fewer than a majority of the members
            give a proposal, a person is asked about the next one, as by "interrupt": their decision is about exactly
            these calls. `max_blocked` is then at least one more. Without a checkpointer the run ends, and says so.
        min_providers: Of so many providers at least must the members be that vote for what goes on. Providers are as
            LangChain names them; members whose provider is not known count as of one.
        cost_budget: The cost of the members' requests of a run, in the currency of their prices: once it is spent, no
            member is asked, and calls are withheld. The driver is then asked first. See `price_per_million`
            of `ModelAgent`.
        on_decision: What each judged turn is passed to, as in a graph: `coe_agents.rulings.Recording`, which keeps what
            an observing council would have blocked, and what people decide; or a function of the
            `coe_agents.decision.DecidedCase`.
        trust_edits: Whether a call that was vouched for and that a person then edited in a `HumanInTheLoopMiddleware`
            may run as edited.
        name: Distinguishes several councils in one agent; by default the name of the class.

    Raises:
        TypeError: If `agents` are not agents, or `tools` does not hold names.
        ValueError: If the parts do not fit together; at the first turn if a member has the driver's own model; at a
            tool call if the agent lacks a gated tool, since a misspelt name would gate nothing.

    The state's `council` is the last decision: see `CouncilDecision`.

    Example:
        >>> from langchain.agents import create_agent
        >>> from coe_agents import CoECouncil
        >>> from coe_agents.testing import ScriptedAgent
        >>> from coe_agents.testing.driver import ScriptedDriver
        >>> def pay(to: str, amount: int) -> str:
        ...     "Sends money."
        >>> def call(amount):
        ...     return {"name": "pay", "args": {"to": "Ann", "amount": amount}}
        >>> driver = ScriptedDriver(script=[AIMessage("", tool_calls=[{**call(100), "id": "1"}]), AIMessage("Done.")])
        >>> members = [ScriptedAgent(name, [[call(10)]]) for name in "ab"]
        >>> council = CoECouncil(members, tools=["pay"])
        >>> state = create_agent(driver, [pay], middleware=[council]).invoke({"messages": [("user", "Pay Ann 10.")]})
        >>> state["messages"][2].text.partition(":")[0], list(state["council"]["contested"]["arguments"])
        ('pay was not run', ['amount'])
    """

    state_schema = CouncilState

    @refuses_removed
    def __init__(
        self,
        agents: Sequence[str | BaseChatModel | Agent],
        *,
        mode: Mode = "verify",
        tools: Tools | None = None,
        policy: Policy | None = None,
        min_votes: int | None = None,
        adaptive: bool = False,
        clusterer: Clusterer | None = None,
        on_uncertain: OnUncertain = "block",
        max_blocked: int = 3,
        escalate_after: int | None = None,
        min_providers: int | None = None,
        on_decision: OnDecision | None = None,
        cost_budget: float | None = None,
        trust_edits: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name, tools, on_uncertain=on_uncertain)
        members = _check_agents(agents)
        one_of(mode, '"mode"', get_args(Mode))
        policy = _check_votes(members, policy, min_votes)
        _check_calibration(policy, mode)
        if adaptive and (mode != "verify" or type(policy) is not SupportPolicy):
            raise ValueError(
                '"adaptive" of CoECouncil must go with mode="verify" and a SupportPolicy or no policy, where a vote '
                f'more never closes the gate; got "{mode}" and {type(policy).__name__}. Omit it to ask all members'
            )
        if clusterer is not None:
            _check_clusterer(clusterer)
        if on_decision is not None:
            check_on_decision(on_decision, '"on_decision" of CoECouncil')
        _check_providers(members, min_providers)
        _check_blocked(max_blocked, escalate_after, observes=self._observes)

        self._agents = members
        self._policy = policy
        self._escalate_after = escalate_after
        self._max_blocked = max(max_blocked, (escalate_after or 0) + 1)
        self._on_decision = on_decision
        self._budget = create_cost_budget(cost_budget, members, '"cost_budget" of CoECouncil')
        self._trust_edits = flag(trust_edits, '"trust_edits" of CoECouncil')
        self._adaptive = flag(adaptive, '"adaptive" of CoECouncil')
        self._schemas = ToolSchemas()
        self._deliberation = Deliberation(
            members,
            mode=mode,
            policy=policy,
            clusterer=clusterer,
            min_votes=min_votes,
            min_providers=min_providers,
        )

    def _before_agent(self, state: CouncilState) -> dict[str, Any]:
        """Forgets the former run, too: what nobody decided on is not run any more."""
        if isinstance(self._on_decision, Recorder):
            self._on_decision.check()
        closed: dict[str, Any] = {}
        if not self._observes:
            closed = close_calls(state["messages"], self._gates) or {}
        turn = _Turn(vouched=None, outputs=[], n_blocked=0, jump=None, pending=None, cost=0.0)
        return {**closed, _KEY: {self.name: turn}, "council": None}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ExtendedModelResponse[Any]:
        """Asks the driver and the members, and passes on the message that the council lets pass."""
        if self._waits(request.state):
            return ExtendedModelResponse(ModelResponse([]))
        turn = self._prepare(request, is_async=False)
        over = self._over_budget(request.state)
        members = self._start(turn) if self._asks_at_once else []
        response = turn.ask_driver(handler)  # if it fails, what the members say is not waited for
        message = self._message_to_judge(turn, response)
        if message is None:
            return self._returned(turn, response, None)

        if over is not None:
            result = self._closed_by_budget(turn, message, response, over)
        elif self._adaptive:
            result = run_steps(self._ask_in_turn(turn, message, response))
        else:
            members = members or self._start(turn)
            replies = self._by_name([member.result() for member in members])
            result = self._deliberation.rule(self._proposals(turn, message, response, replies))
        settled = self._carry_out(turn, message, response, result)
        run_steps(self._pass_on(turn, message, result, settled))
        return settled

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ExtendedModelResponse[Any]:
        """Asks the driver and the members; see `wrap_model_call`."""
        if self._waits(request.state):
            return ExtendedModelResponse(ModelResponse([]))
        turn = self._prepare(request, is_async=True)
        over = self._over_budget(request.state)
        members = self._create_tasks(turn) if self._asks_at_once else []
        try:
            response = await turn.aask_driver(handler)
            message = self._message_to_judge(turn, response)
            if message is None:
                return self._returned(turn, response, None)

            if over is not None:
                result = self._closed_by_budget(turn, message, response, over)
            elif self._adaptive:
                result = await arun_steps(self._ask_in_turn(turn, message, response))
            else:
                members = members or self._create_tasks(turn)
                replies = self._by_name(await asyncio.gather(*members))
                proposals = self._proposals(turn, message, response, replies)
                # in a thread: a clusterer may ask a model
                result = await asyncio.to_thread(self._deliberation.rule, proposals)
        finally:
            unfinished = [member for member in members if not member.done()]
            for member in unfinished:
                member.cancel()
            if unfinished:
                await asyncio.gather(*unfinished, return_exceptions=True)
        settled = self._carry_out(turn, message, response, result)
        await arun_steps(self._pass_on(turn, message, result, settled))
        return settled

    def _after_model(
        self, state: CouncilState, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        turn = self._turn(state)
        pending = self._pending(state)
        if pending is None:
            return {"jump_to": turn["jump"]} if turn.get("jump") else None

        reviewed = self._reviewed(pending)
        if reviewed is None:
            # another task asks about it, in which no reply to a former request counts
            anew = mark_pending({**pending, "is_asked_anew": True}, self.name)
            drop_replies()
            return {_KEY: {self.name: {**turn, "pending": Sealed(anew)}}, "jump_to": "model"}

        why_not = None
        if reviewed.calls:
            # of several replies to one request, one counts
            reply = VouchedAction(f"{pending['action_key']} person", frozenset({"person"}))
            why_not = yield from REGISTER.start(reply, "person", None, runtime.store)
        if why_not is not None:
            reviewed = take_back(reviewed, why_not)
        _emit(runtime, reviewed.decision)
        if why_not is None:  # else the reply that counts has been passed on
            yield from self._pass_on_review(pending, reviewed.decision)
        forms = _forms_of(pending, reviewed.calls)
        vouched = self._vouch(
            pending["action_key"], reviewed.message_id, reviewed.calls, forms, "person"
        )
        now = {**turn, "vouched": vouched, "pending": None, "jump": None}
        return {**reviewed.update, _KEY: {self.name: now}, "council": reviewed.decision}

    def _reviewed(self, pending: PendingProposal) -> ReviewedProposal | None:
        """Returns what a person decided on a proposal; None where it is to be asked about anew.

        That is where the request bears no mark of this process. Once it has been asked anew, and no secret is shared
        with whatever process marked it, asking again would never end.
        """
        if is_own(pending, self.name):
            return apply_decisions(pending, ask_about_proposal(pending))
        if pending.get("is_asked_anew") and not is_shared():
            return give_up(pending)
        return None

    def _waits(self, state: Any) -> bool:
        """Returns whether a proposal waits for a person, who is asked about it anew: no model is asked again."""
        pending = self._pending(state)
        return pending is not None and is_own(pending, self.name)

    def _pending(self, state: Any) -> PendingProposal | None:
        sealed = self._turn(state).get("pending")
        if not isinstance(sealed, Sealed) or not sealed.contents:
            return None
        return cast("PendingProposal", sealed.contents)

    @property
    def _asks_at_once(self) -> bool:
        """Whether the members are asked while the driver is: all are, and about every turn.

        Not where they cost money: of a driver that fails, or that another council withholds, no state would hold it.
        """
        return self._gated.is_all and not self._adaptive and self._budget is None

    def _prepare(self, request: ModelRequest[Any], *, is_async: bool) -> TurnRequest:
        drivers = []
        for agent in self._agents:
            if isinstance(agent, ModelAgent) and agent.uses(request.model):
                drivers.append(agent.name)
        must = f'"agents" of {self.name} must have other models than the driver, which would vouch for itself'
        require(not drivers, must, drivers, "Give these members other models")
        schemas = self._schemas.of(request.tools)
        gated = None if self._gated.is_all else self._gated
        return TurnRequest(request, schemas, gated, is_async=is_async)

    def _ask(self, agent: Agent, turn: TurnRequest) -> Steps[AgentReply | Exception]:
        try:
            if turn.driver.is_of(agent):  # it would be asked in vain
                return _no_vote()
            arguments = turn.for_member(agent), turn.config
            reply: Any = yield Call(agent.sample, agent.asample, arguments)
            return check_reply(reply)
        except Exception as error:
            if is_control_flow(error):
                raise
            return error  # whatever a model's client raises: this member then supports nothing

    def _ask_in_turn(
        self, turn: TurnRequest, message: AIMessage, response: ModelResponse[Any]
    ) -> Steps[CouncilResult]:
        """Asks one member after another until no vote can change what goes on."""
        replies: Replies = {}
        for agent in [agent for agent in self._agents if agent.weight > 0]:
            replies[agent.name] = yield from self._ask(agent, turn)
            proposals = self._proposals(turn, message, response, replies)
            # a clusterer may ask a model: in a thread, where there is a loop
            is_settled = yield Call(self._deliberation.is_settled, None, (proposals,))
            if is_settled:
                break
        result: CouncilResult = yield Call(self._deliberation.rule, None, (proposals,))
        return result

    def _over_budget(self, state: Any) -> str | None:
        """Returns why no member is asked any more in this run; None where there is money left."""
        if self._budget is None:
            return None
        return self._budget.end(Spent(cost=self._turn(state).get("cost", 0.0)))

    def _closed_by_budget(
        self, turn: TurnRequest, message: AIMessage, response: ModelResponse[Any], why: str
    ) -> CouncilResult:
        error = AgentError(why, retryable=False)
        unasked: Replies = dict.fromkeys([agent.name for agent in self._agents], error)
        result = self._deliberation.rule(self._proposals(turn, message, response, unasked))
        decision = _closed(result.decision, "budget", why)
        return replace(result, message=None, decision={**decision, "n_asked": 0})

    def _cost_so_far(self, state: Any, decision: CouncilDecision | None) -> float | None:
        before = self._turn(state).get("cost", 0.0)
        if self._budget is None or decision is None or before is None:
            return before
        usages = [(name, used) for name, used in decision["tokens"].items() if name != DRIVER]
        added = self._budget.cost_of(usages)
        return None if added is None else before + added

    def _by_name(self, replies: Sequence[AgentReply | Exception]) -> Replies:
        names = [agent.name for agent in self._agents]
        return dict(zip(names, replies, strict=True))

    def _proposals(
        self, turn: TurnRequest, message: AIMessage, response: ModelResponse[Any], replies: Replies
    ) -> TurnProposals:
        """Returns what was proposed; a member whose model gave the driver's message counts as one that failed."""
        voting: Replies = {}
        for agent in self._agents:
            reply = replies.get(agent.name)
            if reply is None:
                continue
            messages = {} if isinstance(reply, Exception) else reply.get("messages", {})
            voting[agent.name] = reply
            if turn.driver.is_of(agent, [*messages.values()]):
                voting[agent.name] = _no_vote(usage_of(reply))
        return turn.proposals(message, response, voting)

    def _start(self, turn: TurnRequest) -> list[Future[AgentReply | Exception]]:
        return [start_call(run_steps, self._ask(agent, turn)) for agent in self._agents]

    def _create_tasks(self, turn: TurnRequest) -> list[asyncio.Task[AgentReply | Exception]]:
        return [asyncio.create_task(arun_steps(self._ask(agent, turn))) for agent in self._agents]

    def _message_to_judge(
        self, turn: TurnRequest, response: ModelResponse[Any]
    ) -> AIMessage | None:
        """Returns the driver's message if the council is to judge it."""
        if any(map(is_withheld, response.result)):
            return None  # another council behind this one has withheld it
        message = turn.message_of(response)
        if message is None or self._gated.is_all:
            return message
        for invalid in message.invalid_tool_calls:
            if self._gates(invalid["name"]):
                return message
        for call in message.tool_calls:
            if self._gated.has_all(call["name"]):
                return message
            if self._gates(call["name"]) and self._gated.has(turn.request_of(call, message)):
                return message
        return None

    def _carry_out(
        self,
        turn: TurnRequest,
        driver: AIMessage,
        response: ModelResponse[Any],
        result: CouncilResult,
    ) -> ExtendedModelResponse[Any]:
        """Returns the response with the message that goes on, or with what takes its place."""
        decision = result.decision
        message = result.message
        if self._observes:
            return self._returned(turn, response, {**decision, "observed": True})
        n_before = self._turn(turn.request.state).get("n_blocked", 0)
        asks_person = self._asks_person(result, n_before)
        waiting = driver if message is None and asks_person else message
        too_many = None if waiting is None else self._why_not_together(waiting, turn)
        if too_many is not None:
            asks_person = False
            message = None
            decision = _closed(decision, "limit_of_caller", too_many)
        if message is not None:
            chosen = response if message is driver else turn.respond(message)
            if chosen is not None:
                return self._returned(turn, chosen, decision, vouched=turn.message_of(chosen))
            reason = "the chosen message gives no structured answer that can be read"
            decision = _closed(decision, "invalid", reason)
        if asks_person and self._on_uncertain == "block" and not has_checkpointer():
            reason = f"{decision['reason']}; a person is to decide now, and the agent has no checkpointer"
            decision = {**decision, "reason": reason}
            withheld = ModelResponse[Any]([withheld_answer(decision)])
            return self._returned(turn, withheld, decision, jump="end")
        if asks_person:
            pending = self._pend(turn, driver, response, decision)
            if self._on_decision is not None:
                pending = mark_pending(
                    {**pending, "case": turn.case(self.name, driver, result)}, self.name
                )
            # if this is lost in a crash, the model is asked again: only a checkpoint holds what is sealed
            return self._returned(turn, ModelResponse([]), decision, pending=pending, jump="model")

        return self._block(turn, driver, decision, n_before + 1)

    def _why_not_together(self, message: AIMessage, turn: TurnRequest) -> str | None:
        """Returns why the gated calls of a message cannot run, where the run has not a place for each of them."""
        n_calls = len(self._gated_calls(message, turn))
        if n_calls <= turn.n_places:
            return None
        return (
            f"{n_calls} calls of one message would have to run together, and this run has places for "
            f'{turn.n_places:g} ("max_concurrency" of its config); propose fewer calls at once'
        )

    def _block(
        self, turn: TurnRequest, driver: AIMessage, decision: CouncilDecision, n_blocked: int
    ) -> ExtendedModelResponse[Any]:
        """Returns what takes the place of a proposal: replies to its calls, or the end of the run."""
        is_text = not driver.tool_calls and not driver.invalid_tool_calls
        if is_text or n_blocked >= self._max_blocked:
            withheld = ModelResponse[Any]([withheld_answer(decision)])
            return self._returned(turn, withheld, decision, n_blocked=n_blocked, jump="end")
        withheld = ModelResponse(list(block_calls(driver, decision)))
        return self._returned(turn, withheld, decision, n_blocked=n_blocked, jump="model")

    def _asks_person(self, result: CouncilResult, n_blocked: int) -> bool:
        """Returns whether a person decides on a proposal that is not let pass, after so many that were blocked."""
        if not result.is_readable:
            return False
        if self._on_uncertain == "interrupt" or self._escalate_after is None:
            return self._on_uncertain == "interrupt"
        members = [agent.name for agent in self._agents if agent.weight > 0]
        n_failed = len(result.decision["failed_agents"].keys() & {*members})
        has_quorum = len(members) - n_failed >= majority(len(members))
        return n_blocked >= self._escalate_after or not has_quorum

    def _pass_on(
        self,
        turn: TurnRequest,
        driver: AIMessage,
        result: CouncilResult,
        settled: ExtendedModelResponse[Any],
    ) -> Steps[None]:
        """Passes the case on, unless it waits for a person."""
        update: Any = getattr(settled.command, "update", None) or {}
        is_waiting = update[_KEY][self.name]["pending"] is not None
        if self._on_decision is None or is_waiting:
            return
        decided = replace(result, decision=update["council"])
        yield from pass_on(turn.case(self.name, driver, decided), self._on_decision)

    def _pass_on_review(self, pending: PendingProposal, decision: CouncilDecision) -> Steps[None]:
        case = pending.get("case")
        if self._on_decision is None or case is None:
            return
        gated = [call for call in decision["calls"] or [] if self._gates(call["name"])]
        is_rejected = not gated and case["leading"] != "[]"  # of its calls, others run
        answer = None
        if decision["action"] == "answer" and not is_rejected:
            answer = canonical_among(case["responses"], gated)
        decided: Any = {**case["decision"], **decision, "answer": answer}
        yield from pass_on({**case, "decision": decided}, self._on_decision)

    def _pend(
        self,
        turn: TurnRequest,
        driver: AIMessage,
        response: ModelResponse[Any],
        decision: CouncilDecision,
    ) -> PendingProposal:
        """Returns what a person is to decide on, marked."""
        called = {tool_key(call["name"]) for call in driver.tool_calls}
        tools = [tool for tool in turn.tools if tool_key(tool["function"]["name"]) in called]
        pending = PendingProposal(
            messages=[*response.result],
            structured_response=response.structured_response,
            outputs=[name for name in turn.outputs if tool_key(name) in called],
            tools=tools,
            decision=decision,
            action_key=new_action(self.name, driver.id),
            is_asked_anew=False,
            forms=turn.forms_of(self._gated_calls(driver, turn)),
            case=None,
            mark="",
        )
        return mark_pending(pending, self.name)

    def _returned(
        self,
        turn: TurnRequest,
        response: ModelResponse[Any],
        decision: CouncilDecision | None,
        *,
        vouched: AIMessage | None = None,
        n_blocked: int = 0,
        jump: Literal["model", "end"] | None = None,
        pending: PendingProposal | None = None,
    ) -> ExtendedModelResponse[Any]:
        """Returns a response with what the council remembers.

        `decision` is None where it was not asked: what the model call returned is passed on, and no gated call in it
        may run.
        """
        may_run = None
        if vouched is not None:
            calls = self._gated_calls(vouched, turn)
            action = new_action(self.name, vouched.id)
            may_run = self._vouch(action, vouched.id, calls, turn.forms_of(calls), "group")
        if decision is None:
            n_blocked = self._turn(turn.request.state).get("n_blocked", 0)
        memory = _Turn(
            vouched=may_run,
            outputs=[*turn.outputs],
            n_blocked=n_blocked,
            jump=jump,
            pending=None if pending is None else Sealed(pending),
            cost=self._cost_so_far(turn.request.state, decision),
        )
        update: dict[str, Any] = {_KEY: {self.name: memory}}
        if decision is not None:
            decision = with_rule(decision)
            update["council"] = decision
            if pending is not None:  # the values that were proposed are for the person who decides
                update["council"] = {**decision, "contested": None}
            _emit(turn.request.runtime, decision)
        return ExtendedModelResponse(response, Command(update=update))

    def _turn(self, state: Any) -> _Turn:
        turn: _Turn = (state.get(_KEY) or {}).get(self.name) or _Turn()
        return turn

    def _vouch(
        self,
        action: str,
        message_id: str | None,
        calls: Sequence[ToolCall],
        forms: Mapping[str, list[str]],
        decided_by: str,
    ) -> _Vouched | None:
        gated = [call for call in calls if self._gates(call["name"])]
        if not gated:
            return None
        ids = [call["id"] or "" for call in gated]
        of_gated = {id_: forms[id_] for id_ in ids if id_ in forms}
        mark = make_mark("vouched", self.name, message_id, gated, [action, of_gated, decided_by])
        return _Vouched(
            action_key=action, ids=ids, forms=of_gated, decided_by=decided_by, mark=mark
        )

    def _was_judged(self, request: ToolCallRequest) -> bool:
        vouched = self._turn(request.state).get("vouched")
        return vouched is not None and request.tool_call["id"] in vouched["ids"]

    def _outputs(self, state: Any) -> Collection[str]:
        return self._turn(state).get("outputs", ())

    def _missing_among(self, known: Collection[str]) -> dict[str, list[str]]:
        missing = super()._missing_among(known)
        if isinstance(self._policy, SupportPolicy):
            unknown = self._policy.tools.keys() - map(tool_key, known)
            missing[f"the policy of {self.name}"] = sorted(unknown)
        return missing

    def _gated_calls(self, message: AIMessage, turn: TurnRequest) -> list[ToolCall]:
        gated = []
        for call in message.tool_calls:
            if self._gates(call["name"]) and call["name"] not in turn.outputs:
                gated.append(call)
        return gated

    def _find_vouched(
        self, request: ToolCallRequest, call: ToolCall
    ) -> VouchedAction | ToolMessage:
        messages = request.state["messages"]
        vouched = self._turn(request.state).get("vouched")
        if vouched is None:
            return not_vouched_for(call, messages)
        key = vouched["action_key"]
        place, message = last_reply(messages)
        calls = [proposed for proposed in message.tool_calls if proposed["id"] in vouched["ids"]]
        decided = [key, vouched.get("forms"), vouched["decided_by"]]
        mark = make_mark("vouched", self.name, message.id, calls, decided)
        if not is_mark(vouched["mark"], mark):
            return not_vouched_for(call, messages)

        for reply in messages[place + 1 :]:
            if isinstance(reply, ToolMessage) and reply.tool_call_id in vouched["ids"]:
                REGISTER.close(key)
                return not_run(call, INCOMPLETE)
        for proposed in calls:
            if proposed["id"] == call["id"]:
                break
        else:  # it was added, and is no part of the action
            return not_vouched_for(call, messages)

        ids = frozenset(vouched["ids"])
        if is_same_call(proposed, call):
            return VouchedAction(key, ids, vouched["forms"].get(call["id"] or "", ()))
        if self._trust_edits and is_edited(call, request.state):
            return VouchedAction(key, ids)
        REGISTER.close(key)
        return not_vouched_for(call, messages)


def _closed(decision: CouncilDecision, cause: Cause, reason: str) -> CouncilDecision:
    """Returns a decision by which nothing goes on, though a proposal would have."""
    return {
        **decision,
        "action": "abstain",
        "cause": cause,
        "reason": reason,
        "proposer": None,
        "calls": None,
    }


def _no_vote(usage: Usage | None = None) -> AgentError:
    error = AgentError(
        "it is the driver's model, which has no vote on its own message", retryable=False
    )
    error.usage = usage
    return error


def _emit(runtime: Runtime[Any] | None, decision: CouncilDecision) -> None:
    writer = getattr(runtime, "stream_writer", None)
    if writer is not None:
        calls = decision["calls"]
        event: CouncilDecided = {
            **view(decision, CouncilDecided),
            "event": "council_decided",
            "n_calls": None if calls is None else len(calls),
            "failed_agents": [*decision["failed_agents"]],
        }
        writer(event)


def _check_agents(agents: object) -> list[Agent]:
    members: list[Any] = []
    if isinstance(agents, Sequence) and not isinstance(agents, str):
        members = agents_of(agents, where='"agents"')
    are_agents = all(isinstance(agent, Agent) and not isinstance(agent, type) for agent in members)
    if not members or not are_agents:
        raise TypeError(
            f'"agents" must be a list of at least one agent; got {agents!r:.200}. Pass ["openai:gpt-5-mini", ...]'
        )
    names = [agent.name for agent in members]
    must = f'the names of "agents" must differ, and none may be "{DRIVER}", the agent\'s own model'
    require(len({*names, DRIVER}) > len(names), must, names, "Rename one")
    weights = [agent.weight for agent in members]
    must = 'one of "agents" must have a weight above 0'
    require(any(weight > 0 for weight in weights), must, weights, "Omit them")
    return members


def _check_clusterer(clusterer: object) -> None:
    """Refuses what compares calls as prose, or by a rule that is made for scoring."""
    has_method(clusterer, "cluster", '"clusterer"', advice="Omit it for ActionMatch")
    if isinstance(clusterer, NormalizedMatch | BidirectionalEntailment | EmbeddingSimilarity):
        kind = type(clusterer).__name__
        rule = "Text()" if isinstance(clusterer, NormalizedMatch) else f"Meaning({kind}(...))"
        raise TypeError(
            f'"clusterer" must compare actions; {kind} reads calls as prose. Omit it, or pass '
            f"ActionMatch(compare={{...: {rule}}})"
        )
    if isinstance(clusterer, ActionMatch) and clusterer.is_loose:
        raise ValueError(
            '"clusterer" of CoECouncil must compare exactly; got ActionMatch(text="loose"), which is for '
            "scoring: it merges 4.9e-10 and 0. Give an argument the rule Text(), or Within(...)"
        )


def _forms_of(pending: PendingProposal, calls: Sequence[ToolCall]) -> dict[str, list[str]]:
    """Returns the forms in which calls were compared, by their ids; of a call that a person edited none is known."""
    proposed = list[ToolCall]()
    for message in pending["messages"]:
        if isinstance(message, AIMessage):
            proposed += message.tool_calls

    forms = {}
    for call in calls:
        id_ = call["id"] or ""
        if call in proposed and id_ in pending["forms"]:
            forms[id_] = pending["forms"][id_]
    return forms


def _check_votes(members: Sequence[Agent], policy: Policy | None, min_votes: int | None) -> Policy:
    """Returns the policy, by default that a strict majority of all members must vote for what goes on."""
    n_members = sum(agent.weight > 0 for agent in members)
    if policy is None:
        least = majority(n_members) if min_votes is None else min_votes
        policy = SupportPolicy(0.0, min_votes=least)
    has_method(policy, "decide", '"policy"', advice="Pass SupportPolicy(0.6), for example")
    numbers = {
        '"min_votes" of CoECouncil': min_votes,
        '"min_votes" of its policy': getattr(policy, "min_votes", None),
    }
    advice = "There are as many members of a weight above 0"
    for where, n_votes in numbers.items():
        if n_votes is not None:
            integer(n_votes, where, least=1, most=n_members, advice=advice)
    return policy


def _check_blocked(max_blocked: int, escalate_after: int | None, *, observes: bool) -> None:
    where = '"max_blocked" of CoECouncil'
    integer(max_blocked, where, least=1, advice="3 lets the driver try twice more")
    if escalate_after is not None:
        where = '"escalate_after" of CoECouncil'
        integer(escalate_after, where, least=1, advice="2 asks a person about the third call")
        must = f"{where} must go with a gate that withholds"
        require(not observes, must, "observe", 'Pass on_uncertain="block"')


def _check_providers(members: Sequence[Agent], min_providers: int | None) -> None:
    if min_providers is None:
        return
    providers = {provider_of(agent) for agent in members if agent.weight > 0}
    named = ", ".join(sorted(providers))
    integer(
        min_providers,
        '"min_providers" of CoECouncil',
        least=1,
        most=len(providers),
        advice=f"The members are of {named}; those whose provider is not known count as one",
    )


def _check_calibration(policy: Policy, mode: Mode) -> None:
    if isinstance(policy, CalibratedPolicy) and policy.calibration.proposer is None:
        is_of_calls = policy.calibration.clusterer == ActionMatch.__name__
        must = (
            '"policy" of CoECouncil must be calibrated on calls, in "verify" on those of a proposer'
        )
        advice = 'Run coe-agents calibrate SAMPLES... --clusterer actions, in "verify" with --proposer AGENT'
        require(mode == "choose" and is_of_calls, must, "one without a proposer", advice)
