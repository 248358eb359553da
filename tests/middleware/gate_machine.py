"""The state machine of a gated agent, with an oracle of its own of what may run.

The rules are what drivers, members, people, clients of a server and other middleware do, and what befalls a process.
After each of them one invariant holds: every effect was vouched for, whole, once, with these arguments, by at least
the votes that were asked for. The oracle knows only what each of them was made to say, never what the gate keeps.
"""

import asyncio
import json
import re
import secrets
from collections import Counter, defaultdict
from contextlib import ExitStack
from contextvars import ContextVar
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, Literal, NamedTuple
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware, ToolRetryMiddleware
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from coe_agents import CoECouncil, CoEMiddleware, ThresholdPolicy, create_coe_graph
from coe_agents.actions import ActionMatch, Text, canonical_action
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import people
from coe_agents.middleware import marks, once
from coe_agents.middleware.verdict import create_unmeasured, fingerprint
from coe_agents.testing import create_response
from coe_agents.testing.driver import ScriptedDriver

COUNCILS = [f"council {asks} {mode}" for asks in ("block", "interrupt") for mode in ("verify", "choose")]
KINDS = (*COUNCILS, "gate block", "gate interrupt")
EVIL = 666.0
"""An amount that nobody proposes or vouches for, but an attacker and, at times, a person."""
N_MEMBERS = 3

THREADS = ("1", "2")
CHANGES = {"other": {"amount": 7}, "cased": {"unit": "mG"}, "otherwise": {"how": {"dry_run": False}}}
BEHAVIOURS = ("agree", "agree", "agree", "other", "alike", "cased", "otherwise", "half", "text", "fail", "copy")


class Key(NamedTuple):
    """A call as it runs."""

    name: str
    to: str
    amount: float
    ref: str
    more: str = ""

    @staticmethod
    def of(call):
        args = call["args"]
        more = str(args.get("unit", args.get("how", "")))
        return Key(call["name"], args.get("to", ""), float(args.get("amount", 0)), args["ref"], more)


class Turn(NamedTuple):
    """What the driver says at one turn, and how each member behaves."""

    calls: tuple
    votes: tuple

    def proposal(self, behaviour):
        """What a member with this behaviour proposes; None if it fails."""
        if behaviour == "fail":
            return None
        if behaviour in ("text", "copy") or not self.calls:  # a copy finds no call like this in what it is shown
            return ()
        if behaviour == "half":
            return self.calls[1:] or (self.calls[0], _changed(self.calls[0], to="Cy"))
        if behaviour == "alike":
            return tuple(_changed(one, to=f" {one['args'].get('to')}".upper()) for one in self.calls)
        return tuple(_changed(one, **CHANGES.get(behaviour, {})) for one in reversed(self.calls))


def _changed(call, **args):
    """A call with other arguments, of those that it has."""
    return {**call, "args": {**call["args"], **{name: args[name] for name in args if name in call["args"]}}}


SAYS_DONE = Turn((), ("agree",) * N_MEMBERS)
_TURN = ContextVar("turn", default=SAYS_DONE)
_INVOCATION = ContextVar[Any]("invocation", default=None)


class Note(BaseModel):
    text: str


class Wipe(BaseModel):
    dry_run: bool


class World:
    """An agent with a gate, and the log of what was proposed, vouched for and done."""

    def __init__(self, kind, loop, others=(), *, inner=False, stored=False, asks=False, narrow=False, clusterer=None):
        self.kind, self.loop, self.asks, self.clusterer = kind, loop, asks, clusterer
        self.is_council = kind.startswith("council")
        self.can_ask = asks or "interrupt" in kind
        self.gated = {"pay", "wire"} if narrow or not self.is_council else {"pay", "wire", "look"}
        self.narrow = narrow
        self.store = InMemoryStore() if stored else None
        self.lock = Lock()
        self.plan, self.meddling, self.failing = [], None, 0  # of the present run: see `run`
        self.n_refs = 0
        self.turns = {}  # by ref: the turn
        self.capacity = Counter()  # by thread and family: how often it was proposed there
        self.vouched = defaultdict(list)  # by thread and family: what votes let pass, each once
        self.approved = defaultdict(set)  # by thread and family: what a person, or a group of judges, let pass
        self.started, self.interrupted, self.invocations = Counter(), Counter(), set()
        meddler = Meddler(self)
        gate = [*self._gate(), meddler] if inner else [meddler, *self._gate()]
        middleware = [Observer(self), *others, *gate]
        kept = {"checkpointer": InMemorySaver(), "store": self.store}
        driver = ScriptedDriver(script=self.drive)
        self.agent = create_agent(driver, self._tools(), middleware=middleware, **kept)

    def _gate(self):
        interrupts = "interrupt" if "interrupt" in self.kind else "block"
        if self.is_council:
            members = [Member(self, place) for place in range(N_MEMBERS)]
            tools = sorted(self.gated) if self.narrow else None
            mode = self.kind.split()[2]
            yield CoECouncil(members, mode=mode, tools=tools, on_uncertain=interrupts, clusterer=self.clusterer)
            return
        judges = [Judge(self, place) for place in range(N_MEMBERS)]
        policy = ThresholdPolicy(0.01)
        graph = create_coe_graph(judges, clusterer=NormalizedMatch(), policy=policy, retries=0).compile()
        yield CoEMiddleware(graph, tools=self.gated, on_uncertain=interrupts)

    def _tools(self):
        @tool
        def pay(to: str, amount: float, ref: str, unit: Literal["Mg", "mG"]) -> str:
            """Sends money."""
            return self.act(Key("pay", to, amount, ref, unit))

        @tool
        def wire(to: str, amount: float, ref: str, how: Note | Wipe) -> str:
            """Wires money."""
            return self.act(Key("wire", to, amount, ref, str(how.model_dump())))

        @tool
        def look(ref: str) -> str:
            """Looks."""
            return self.act(Key("look", "", 0.0, ref))

        return [pay, wire, look]

    def act(self, key):
        """The effect of a tool, once for each invocation: retries inside one are the same effect."""
        place = (thread_id(), key)
        with self.lock:
            is_retry = (place, _INVOCATION.get()) in self.invocations
            self.invocations.add((place, _INVOCATION.get()))
            if not is_retry:
                counter, n = (self.interrupted, -1) if self.interrupted[place] else (self.started, 1)
                counter[place] += n
        if self.asks and key.name == "pay":
            try:
                interrupt("sure?")
            except GraphInterrupt:
                with self.lock:
                    self.interrupted[place] += not is_retry
                raise
        with self.lock:
            if self.failing:
                self.failing -= 1
                raise ConnectionError("down")
        return "done"

    # what the models say

    def take_turn(self):
        """The turn that a model call is; its calls bear references that no other turn has, unless it repeats one."""
        with self.lock:
            turn = self.plan.pop(0) if self.plan else SAYS_DONE
            if turn.calls and "ref" not in turn.calls[0]["args"]:
                self.n_refs += 1
                calls = tuple(
                    {**one, "args": {**one["args"], "ref": f"r{self.n_refs}.{place}"}, "id": f"c{self.n_refs}.{place}"}
                    for place, one in enumerate(turn.calls)
                )
                turn = Turn(calls, turn.votes)
            if turn.calls:
                refs = [one["args"]["ref"] for one in turn.calls]
                refs.append(of_an_added_call(refs[0]))
                self.turns |= dict.fromkeys(refs, turn)
                self.make_room(thread_id(), refs)
                if self.is_council and (group := self.action(self.winner(turn))):
                    self.vouched[thread_id(), self.family(refs[0])].append(group)
        return turn

    def make_room(self, thread, refs):
        """A message with these calls comes onto a thread: so often may they run, if they are let pass."""
        self.capacity.update({(thread, self.family(ref)) for ref in refs})

    def note_judged(self, ref, amount):
        """What a group of judges let pass, or did not."""
        first, *_ = calls = self.turns[ref].calls
        if ref == of_an_added_call(ref):  # it is judged, too, though the model did not propose it
            calls = [{**first, "args": {**first["args"], "ref": ref}}]
        written = {"amount": EVIL} if amount == EVIL else {}  # what a client wrote is judged as he wrote it
        group = self.action([{**one, "args": {**one["args"], **written}} for one in calls if one["args"]["ref"] == ref])
        if group and self.ruling(ref, amount) == "approved":
            self.approved[thread_id(), ref].add(group)

    def action(self, calls):
        """The gated ones of some calls, each with how often it is there, in no order."""
        return frozenset(Counter(Key.of(one) for one in calls if one["name"] in self.gated).items())

    def family(self, ref):
        """What is let pass, or not, together: by a council a whole turn, by judges one call."""
        return ref.split(".")[0] if self.is_council else ref

    def winner(self, turn):
        """The calls of the action that the members' votes let pass; () if none does."""
        given = [one for one in map(turn.proposal, turn.votes) if one is not None]
        votes, own = Counter(map(self.action, given)), self.action(turn.calls)
        if "verify" in self.kind:
            return turn.calls if votes[own] > N_MEMBERS / 2 else ()
        votes[own] += 1
        [(best, n_votes), *rest] = votes.most_common()
        if n_votes - 1 <= N_MEMBERS / 2 or (rest and rest[0][1] == n_votes):
            return ()
        return next(one for one in [turn.calls, *given] if self.action(one) == best)

    def say(self, ref, place, amount):
        """What a judge says of a call; None if it fails."""
        behaviour = self.turns[ref].votes[(int(ref.split(".")[1]) + place) % N_MEMBERS]
        if behaviour == "fail":
            return None
        return {"agree": "approve", "copy": "Perhaps."}.get(behaviour, "reject") if amount != EVIL else "reject"

    def ruling(self, ref, amount):
        """What judges find of a call."""
        said = [self.say(ref, place, amount) for place in range(N_MEMBERS)]
        given = {one for one in said if one is not None}
        if len(given) != 1 or sum(one is not None for one in said) <= N_MEMBERS / 2:
            return "uncertain"
        return {"approve": "approved", "reject": "rejected"}.get(given.pop(), "uncertain")

    def drive(self, messages):
        calls = _TURN.get().calls
        return AIMessage("I will." if calls else "Done.", tool_calls=[*calls])

    # how it is run

    def run(self, given, config, *, sync, n=1, plan=(), meddling=None, failing=0, patient=False, **options):
        """The results, or what was raised, of n runs at the same time; `patient` where no call may miss the others."""
        self.plan, self.meddling, self.failing = [*plan], meddling, failing
        start = partial(asyncio.to_thread, self.agent.invoke) if sync else self.agent.ainvoke

        async def together():
            return await asyncio.gather(*(start(given, config, **options) for _ in range(n)), return_exceptions=True)

        with mock.patch.object(once, "SECONDS_TO_GATHER", 60.0 if patient else 0.05):
            return self.loop.run_until_complete(together())

    def decide(self, thread, requests, replies):
        """Notes what a person lets pass of what is asked."""
        passed = []
        for request, one in zip(requests, replies, strict=True):
            is_edit = one["type"] == "edit"
            args = one["edited_action"]["args"] if is_edit else request["args"]
            if one["type"] == "reject" or args["ref"] not in self.turns:
                continue
            if is_edit and self.kind.startswith("gate") and self.ruling(args["ref"], args["amount"]) == "rejected":
                continue
            passed.append({"name": request["name"], "args": args})
        for calls in filter(None, [passed] if self.is_council else [[one] for one in passed]):
            if group := self.action(calls):
                self.approved[thread, self.family(calls[0]["args"]["ref"])].add(group)

    # what may have run

    def let_pass(self):
        """What was let pass by votes, and by a person or judges: the thread, the family and the group of each."""
        found = [*self.vouched.items(), *self.approved.items()]
        return [(thread, family, group) for (thread, family), groups in found for group in groups]

    def check(self):
        started = defaultdict(Counter)
        for (thread, key), n in self.started.items():
            if key.name in self.gated:
                started[thread, self.family(key.ref)][key] += n
        for (thread, family), counts in started.items():
            votes, person = self.vouched[thread, family], self.approved[thread, family]
            allowed = _covers(counts, votes, person, self.capacity[thread, family])
            assert allowed, f"ran on thread {thread}: {dict(counts)}; vouched for: {votes}, approved: {person}"


def _covers(counts, votes, person, capacity):
    """Whether counts are a sum of whole groups: each vote once, and of all groups together `capacity`."""
    if not +counts:
        return True
    options = [(group, [*votes[:place], *votes[place + 1 :]]) for place, group in enumerate(votes)]
    options += [(group, votes) for group in person]
    return capacity > 0 and any(
        all(counts[key] >= n for key, n in group) and _covers(counts - Counter(dict(group)), rest, person, capacity - 1)
        for group, rest in options
    )


def _caught(call):
    try:
        return call()
    except Exception as error:  # what LangGraph raises at an attack is no matter here
        return error


def at(thread):
    return {"configurable": {"thread_id": thread}}


def of_an_added_call(ref):
    """The reference of a call that other middleware adds: it may run beside the one it is like, if a person says so."""
    return ref.split(".")[0] + ".9"


def thread_id():
    return get_config()["configurable"]["thread_id"]


class Observer(AgentMiddleware):
    """Knows which turn a model call is, and which invocation a tool call."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    def wrap_model_call(self, request, handler):
        _TURN.set(self.world.take_turn())
        return handler(request)

    async def awrap_model_call(self, request, handler):
        _TURN.set(self.world.take_turn())
        return await handler(request)

    def wrap_tool_call(self, request, handler):
        _INVOCATION.set(object())
        return handler(request)

    async def awrap_tool_call(self, request, handler):
        _INVOCATION.set(object())
        return await handler(request)


class Meddler(AgentMiddleware):
    """Other middleware, which changes, answers, adds or drops calls."""

    MODES = ("change", "answer", "twice", "rename", "identify", "add", "drop")

    def __init__(self, world):
        super().__init__()
        self.world = world

    def _requests(self, request):
        """What comes to the tool in place of a request."""
        call, mode = request.tool_call, self.world.meddling
        if mode == "twice":
            return [request, request]
        if not call["args"]["ref"].endswith(".0"):
            return [request]
        if mode == "answer":
            return []
        if mode == "change":
            return [request.override(tool_call={**call, "args": {**call["args"], "amount": EVIL}})]
        if mode == "identify":
            return [request.override(tool_call={**call, "id": call["id"].replace(".0", ".1")})]
        if mode == "rename" and call["name"] != "look":
            found = next(one for one in request.runtime.tools if one.name not in ("look", call["name"]))
            args = {**call["args"], "unit": "Mg", "how": {"dry_run": True}}
            return [request.override(tool_call={**call, "name": found.name, "args": args}, tool=found)]
        return [request]

    def wrap_tool_call(self, request, handler):
        cached = ToolMessage("cached", tool_call_id=request.tool_call["id"])
        return [cached, *[handler(one) for one in self._requests(request)]][-1]

    async def awrap_tool_call(self, request, handler):
        cached = ToolMessage("cached", tool_call_id=request.tool_call["id"])
        return [cached, *[await handler(one) for one in self._requests(request)]][-1]

    def after_model(self, state, runtime):
        message = state["messages"][-1]
        if not isinstance(message, AIMessage) or not message.tool_calls:
            return None
        [first, *rest] = message.tool_calls
        if self.world.meddling == "add":
            args = {**first["args"], "amount": EVIL, "ref": of_an_added_call(first["args"]["ref"])}
            added = {**first, "id": first["id"] + "x", "args": args}
            return {"messages": [message.model_copy(update={"tool_calls": [first, *rest, added]})]}
        if self.world.meddling == "drop" and rest:
            return {"messages": [message.model_copy(update={"tool_calls": rest})]}
        return None


class Member:
    """A member of a council, which proposes what the turn says."""

    weight = 1.0

    def __init__(self, world, place):
        self.world, self.place, self.name = world, place, f"member{place}"

    def respond(self, request):
        turn = _TURN.get()
        calls = turn.proposal(turn.votes[self.place])
        if calls is None:
            raise ConnectionError("down")
        if turn.votes[self.place] == "copy":
            shown = [one for one in request["messages"] if one["role"] == "assistant" and one.get("tool_calls")]
            copied = [one["function"] for one in shown[-1]["tool_calls"]] if shown else []
            calls = [{"name": one["name"], "args": json.loads(one["arguments"])} for one in copied]
        calls = [{"name": one["name"], "args": one["args"]} for one in calls]
        return create_response(self.name, "", answer=canonical_action(calls), calls=calls)

    def sample(self, request, config=None):
        return {"responses": [self.respond(request)], "usage": {"input_tokens": 5, "output_tokens": 1}}

    async def asample(self, request, config=None):
        return self.sample(request, config)


class Judge(Member):
    """A judge of a tool gate, which approves or rejects as the turn says."""

    def respond(self, request):
        shown = request["question"].rpartition("<arguments>")[2].partition("</arguments>")[0]
        ref = re.search(r'"ref": "(r\d+\.\d+)"', shown)[1]
        amount = EVIL if f'"amount": {EVIL}' in shown else 0.0
        if self.place == 0:
            self.world.note_judged(ref, amount)
        if (said := self.world.say(ref, self.place, amount)) is None:
            raise ConnectionError("down")
        return create_response(self.name, said)


ARGUMENTS = st.fixed_dictionaries({"to": st.sampled_from(["Ann", "Bob"]), "amount": st.sampled_from([1, 2.0, 3])})
CALLS = st.lists(
    st.one_of(
        ARGUMENTS.map(lambda args: {"name": "pay", "args": {**args, "unit": "Mg"}}),
        ARGUMENTS.map(lambda args: {"name": "wire", "args": {**args, "how": {"dry_run": True}}}),
        st.just({"name": "look", "args": {}}),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
VOTES = st.runner().flatmap(
    lambda machine: st.just(("agree",) * N_MEMBERS) | st.tuples(*[st.sampled_from(machine.behaviours)] * N_MEMBERS)
)
DECISIONS = st.just(["approve"] * 3) | st.lists(
    st.sampled_from(["approve", "reject", "edit", "evil"]), min_size=3, max_size=3
)
MALFORMED = ("yes", {}, {"decisions": []}, {"decisions": [{"type": "approve"}] * 4}, {"decisions": [{"type": "allow"}]})
thread, sync = st.sampled_from(THREADS), st.booleans()
used = st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.used)))
times = st.sampled_from([1, 1, 2, 3])
N_BACK = 13
back = st.integers(0, N_BACK - 1)
PROPOSAL = {
    "thread": thread,
    "calls": CALLS,
    "votes": VOTES,
    "meddling": st.none() | st.none() | st.sampled_from(Meddler.MODES),
    "failing": st.sampled_from([0, 0, 0, 1]),
    "stop": st.sampled_from([False, False, True]),
    "sync": sync,
}


class GateMachine(RuleBasedStateMachine):
    """An agent with a gate of one kind, on two threads.

    What can be drawn must follow from what was drawn before, and from nothing else: which of simultaneous runs is first
    differs from one run of the same steps to the next, and Hypothesis ends with `FlakyStrategyDefinition`.
    """

    kind, behaviours = KINDS[0], BEHAVIOURS
    loose = None  # the clusterer of a planted fault

    def __init__(self):
        super().__init__()
        self.patches = ExitStack()
        for patch in (
            mock.patch.object(marks, "_DRAWN", secrets.token_bytes(32)),
            mock.patch.object(once.REGISTER, "_started", {}),
            mock.patch("coe_agents.graph.people._REPLIES_TO_OTHERS", {}),
        ):
            self.patches.enter_context(patch)
        self.loop = self.patches.enter_context(asyncio.Runner()).get_loop()
        self.untouched = set(THREADS)
        self.used = set()  # by a rule, whether or not it came to a run

    @initialize(
        other=st.sampled_from([None, None, None, "limit", "retry"]),
        inner=st.booleans(),
        stored=st.booleans(),
        asks=st.sampled_from([False, False, False, True]),
        narrow=st.booleans(),
        own_clusterer=st.booleans(),
        first=st.fixed_dictionaries(PROPOSAL),
    )
    def begin(self, other, own_clusterer, first, **options):
        others = {
            "limit": [ToolCallLimitMiddleware(run_limit=1)],
            "retry": [ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)],
        }.get(other, [])
        self.is_limited = other == "limit"
        # people may type units as they like, but an enum is one
        clusterer = self.loose or (ActionMatch(compare={"pay.unit": Text()}) if own_clusterer else None)
        self.world = World(self.kind, self.loop, others, clusterer=clusterer, **options)
        self.propose(**first)  # without one, nothing can follow

    def teardown(self):
        self.patches.close()

    @invariant()
    def every_effect_was_vouched_for(self):
        self.world.check()

    def must_have_run(self, thread, group):
        for key, n in group:
            assert self.world.started[thread, key] >= n, f"was let pass, and did not run: {key}"

    @rule(**PROPOSAL)
    def propose(self, *, thread, calls, votes, meddling, failing, stop, sync):
        """The driver proposes; members agree, differ or fail; other middleware changes, adds or answers a call."""
        world = self.world
        self.used.add(thread)
        is_plain = meddling is None and not failing and not self.is_limited
        if not is_plain:
            self.untouched.discard(thread)
        asked = {"plan": [Turn(calls, votes)], "meddling": meddling, "failing": failing, "patient": is_plain}
        stops = {"interrupt_before": ["tools"]} if stop else {}
        [outcome] = world.run({"messages": [HumanMessage("Pay.")]}, at(thread), sync=sync, **asked, **stops)
        if is_plain and not stop and not world.asks and thread in self.untouched:
            assert isinstance(outcome, dict), outcome
            if world.is_council or world.kind == "gate block":  # nobody is asked about what is let pass
                for place, family, group in world.let_pass():
                    if place == thread and family.split(".")[0] == f"r{world.n_refs}":
                        self.must_have_run(thread, group)

    @rule(thread=thread, votes=VOTES, sync=sync)
    def propose_again(self, thread, votes, sync):
        """The driver repeats, on one thread or another, a call that was withheld."""
        world = self.world
        passed = {family.split(".")[0] for _, family, _ in world.let_pass()}
        withheld = [turn for ref, turn in world.turns.items() if ref.split(".")[0] not in passed]
        if withheld:
            calls, former = withheld[-1]
            again = Turn(calls, votes if world.is_council else former)
            world.run({"messages": [HumanMessage("Pay.")]}, at(thread), plan=[again], sync=sync)

    @rule(thread=used, n=times, sync=sync, failing=st.sampled_from([0, 0, 1]))
    def go_on(self, thread, n, sync, failing):
        """Runs of a thread are resumed, one or several at the same time; a tool may fail."""
        self.untouched.discard(thread)
        self.world.run(None, at(thread), n=n, sync=sync, failing=failing)

    def reply(self, thread, config, decisions):
        """What a person replies to what is asked at a checkpoint; None if nothing is."""
        snapshot = _caught(lambda: self.world.agent.get_state(config))
        asked = getattr(snapshot, "interrupts", ())  # none where attacks have made a thread unreadable
        by_gates = [one.value for one in asked if isinstance(one.value, dict) and "action_requests" in one.value]
        if len(by_gates) < len(asked):
            return Command(resume={one.id: "yes" for one in asked if one.value not in by_gates})
        if not asked:
            return None
        if isinstance(decisions, int):
            return Command(resume=MALFORMED[decisions])
        requests = by_gates[0]["action_requests"]
        allowed = {one["action_name"]: one["allowed_decisions"] for one in by_gates[0]["review_configs"]}
        replies = []
        for request, one in zip(requests, decisions, strict=False):
            if one in ("edit", "evil") and "edit" in allowed[request["name"]] and "amount" in request["args"]:
                args = {**request["args"], "amount": EVIL if one == "evil" else 5}
                replies.append({"type": "edit", "edited_action": {"name": request["name"], "args": args}})
            else:
                replies.append({"type": "reject" if one == "reject" else "approve"})
        if len(replies) == len(requests):
            self.world.decide(thread, requests, replies)
        return Command(resume={"decisions": replies})

    @precondition(lambda self: self.world.can_ask)
    @rule(thread=used, decisions=DECISIONS | st.integers(0, len(MALFORMED) - 1), n=times, sync=sync)
    def resume(self, thread, decisions, n, sync):
        """A person approves, rejects or edits, or replies nonsense, once or several times at the same time."""
        world = self.world
        reply = self.reply(thread, at(thread), decisions)
        if reply is None:  # nothing is asked
            self.untouched.discard(thread)
        is_plain = thread in self.untouched and n == 1 and not self.is_limited and decisions == ["approve"] * 3
        world.run(reply, at(thread), n=n, sync=sync, patient=is_plain)
        if is_plain and not world.asks and world.is_council:
            for (place, _), groups in world.approved.items():
                if place == thread and len(groups) == 1:
                    self.must_have_run(thread, *groups)

    @rule(thread=used, back=back, decisions=DECISIONS, n=times, sync=sync)
    def replay(self, thread, back, decisions, n, sync):
        """Runs continue from an older checkpoint, with a reply where it asks."""
        self.untouched.discard(thread)
        if history := self.history(thread, N_BACK):
            config = history[back % len(history)].config
            self.world.run(self.reply(thread, config, decisions), config, n=n, sync=sync)

    def history(self, thread, n=None, *, holds=lambda values: True):
        """The newest n snapshots of a thread whose values are such; none of one that attacks have made unreadable."""
        snapshots = self.world.agent.get_state_history(at(thread))
        found = _caught(lambda: list(islice((one for one in snapshots if holds(one.values)), n)))
        return [] if isinstance(found, Exception) else found

    @rule(
        thread=thread,
        source=used,
        back=back,
        change=st.sampled_from(["same", "same", "evil", "half", "other id"]),
        rewrite=st.booleans(),
        private=st.sampled_from(["copied", "tampered", "invented", "omitted"]),
        to=st.sampled_from(["tools", "send", "send half", "send state", "model", "after", "nowhere", "update"]),
        replying=st.none() | DECISIONS,
        n=times,
        sync=sync,
    )
    def forge(self, *, thread, source, back, change, rewrite, private, to, replying, n, sync):
        """A client writes what any thread held, altered or invented, into a thread, or a fork, and jumps."""
        world = self.world
        self.used.add(thread)
        proposing = self.history(source, N_BACK, holds=_proposals)
        if not proposing:
            return
        self.untouched.discard(thread)
        values = proposing[back % len(proposing)].values
        last = _proposals(values)[-1]
        before, message = values["messages"][:last], values["messages"][last]
        calls = [{**one, "args": dict(one["args"])} for one in message.tool_calls]
        if change == "evil":
            calls[0]["args"]["amount"] = EVIL
        if change == "half":
            del calls[1:]
        forged = message.model_copy(update={"tool_calls": calls})
        if change == "other id":
            forged.id = secrets.token_hex(4)
        if not self.history(thread, 1, holds=lambda held: forged.id in {one.id for one in held.get("messages", [])}):
            world.make_room(thread, [one["args"]["ref"] for one in calls])
        written = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *before, forged] if rewrite else [forged]}
        kept, channel = {key: values[key] for key in values if key in PRIVATE}, CHANNELS[not world.is_council]
        written |= {
            "copied": kept,
            "tampered": tampered(kept, forged),
            "invented": {channel: invented(forged)[channel]},
            "omitted": {},
        }[private]
        seen = {**values, **written, "messages": [*before, forged]}
        nodes = [node for node in world.agent.nodes if node.endswith("after_model")]
        if to == "update":
            mine = self.history(thread, N_BACK)
            fork = mine[back % len(mine)].config if rewrite and mine else at(thread)
            as_node = [*nodes, "model", "tools"][back % (len(nodes) + 2)]
            if not isinstance(_caught(lambda: world.agent.update_state(fork, written, as_node=as_node)), Exception):
                world.run(None, at(thread), n=n, sync=sync)
            return
        sends = [Send("tools", [one]) for one in calls]
        with_state = [{"__type": "tool_call_with_context", "tool_call": one, "state": seen} for one in calls]
        targets = {"tools": "tools", "send": sends, "send half": sends[:1], "model": "model"}
        targets |= {"send state": [Send("tools", one) for one in with_state], "after": nodes[back % len(nodes)]}
        command = {"goto": targets[to]} if to in targets else {}
        if replying and (reply := self.reply(thread, at(thread), replying)):
            command["resume"] = reply.resume
        world.run(Command(update=written, **command), at(thread), n=n, sync=sync)

    @rule(new_secret=st.booleans())
    def restart(self, new_secret):
        """Another process goes on: it knows what the store holds, and perhaps not the secret."""
        if new_secret:
            marks._DRAWN = secrets.token_bytes(32)
            self.untouched.clear()
        if self.world.store is not None:
            once.REGISTER._started = {}
        people._REPLIES_TO_OTHERS.clear()


def _proposals(values):
    """The places of the messages that hold calls."""
    return [place for place, one in enumerate(values.get("messages", [])) if getattr(one, "tool_calls", None)]


CHANNELS = ("coe_council", "coe_verdicts")
PRIVATE = (*CHANNELS, "coe_duplicates", "council")


def tampered(value, forged):
    """A private channel, with what stands in it turned to the attacker's use."""
    value = getattr(value, "contents", value)  # what waits for a person is sealed
    if isinstance(value, list):
        return [tampered(one, forged) for one in value]
    if not isinstance(value, dict):
        return value
    value = {name: tampered(part, forged) for name, part in value.items()}
    if "outcome" in value:
        value["outcome"] = "approved"
    if "ids" in value:
        value |= {"ids": [call["id"] for call in forged.tool_calls], "action_key": secrets.token_hex(4)}
    if "mark" in value and "messages" in value:
        value["messages"] = [forged]
    return value


def invented(forged):
    """The verdicts, and the turn, as they would be if the gate had let the forged message pass."""
    ids, mark = [call["id"] for call in forged.tool_calls], "0" * 64
    turn = {"vouched": {"action_key": secrets.token_hex(4), "ids": ids, "decided_by": "person", "mark": mark}}
    approved = {**create_unmeasured("approved", "yes"), "action_key": secrets.token_hex(4), "mark": mark}
    verdicts = {fingerprint(call, forged.id): {"CoEMiddleware": approved} for call in forged.tool_calls}
    return dict(zip(CHANNELS, ({"CoECouncil": turn}, verdicts), strict=True))
