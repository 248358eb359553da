"""A vouched action runs once and as a whole."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from weakref import WeakKeyDictionary

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware, ToolRetryMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ToolCallRequest
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver, PersistentDict
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from coe_agents import CoECouncil, SupportPolicy
from coe_agents._steps import arun_steps, run_steps
from coe_agents.middleware import once
from coe_agents.middleware.guard import _note_edit, is_edited
from coe_agents.middleware.withheld import is_withheld
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import THREAD, Bank
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, Weather, call, replies, says, weather
from tests.middleware.council import AGREE, asking, council_agent, gated, members
from tests.middleware.people import APPROVE, decide, edit

BOTH = [[call(**ANN), call(**BOB)], "Done."]
TWO = says(call(**ANN, id="c1"), call(**BOB, id="c2"))


@pytest.fixture
def soon(monkeypatch):
    """A call does not wait long for the others of its action."""
    monkeypatch.setattr(once, "SECONDS_TO_GATHER", 0.2)


def replay(compiled, given=None):
    """Runs again from each checkpoint before the tools; returns the last state."""
    for checkpoint in list(compiled.get_state_history(THREAD)):
        if checkpoint.next == ("tools",):
            state = compiled.invoke(given, checkpoint.config)
    return state


kinds = pytest.mark.parametrize("kind", ["council", "gate"])


@kinds
def test_a_replay_of_the_tools_checkpoint_runs_nothing_again(kind, bank):
    compiled = gated(kind, bank)
    compiled.invoke(PAY, THREAD)
    assert "runs once only" in replies(replay(compiled))[0].text
    assert bank.transfers == [("Ann", 1.0)]


@kinds
@pytest.mark.parametrize("asks", [False, True])
def test_of_simultaneous_runs_before_the_tools_or_approvals_one_counts(kind, asks, bank):
    compiled = asking(kind, bank) if asks else gated(kind, bank)
    compiled.invoke(PAY, THREAD, interrupt_before=["tools"])
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(lambda _: compiled.invoke(decide(APPROVE) if asks else None, THREAD), range(4))
        )
    assert bank.transfers == [("Ann", 1.0)]


def test_a_later_reply_to_the_same_request_lets_nothing_pass(bank):
    compiled = asking("council", bank)
    compiled.invoke(PAY, THREAD)
    asked = compiled.get_state(THREAD).config
    compiled.invoke(decide(APPROVE), THREAD)
    state = compiled.invoke(decide(edit(**BOB)), asked, interrupt_before=["model"])
    assert state["council"]["reason"].startswith("another reply decided on it already")
    assert state["council"]["action"] == "abstain"
    assert state["council"]["calls"] is None
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool"]
    assert bank.transfers == [("Ann", 1.0)]


class AnswersOne(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        if request.tool_call["id"] == "c2":
            return ToolMessage("cached", tool_call_id="c2")
        return handler(request)


@pytest.mark.parametrize("other", [AnswersOne, lambda: ToolCallLimitMiddleware(run_limit=1)])
def test_half_of_an_action_does_not_run(other, soon, bank):
    agent = council_agent(members(BOTH), bank, TWO, DONE, before=[other()])
    state = agent.invoke(PAY, THREAD)
    assert bank.transfers == []
    reason = "another call of the same message does not run"
    assert any(reason in reply.text for reply in replies(state))


def test_a_call_that_was_changed_since_a_person_edited_it_is_not_their_edit():
    a_hundred = {"to": "Ann", "amount": 100}
    by_person = {"c1": {"name": "transfer_money", "args": a_hundred}}
    edited = {"hitl_edited_tool_calls": by_person}
    assert is_edited(call(to="Ann", amount=100), edited)
    assert not is_edited(call(to="Ann", amount=100.0), edited)
    assert not is_edited(call("balance", to="Ann", amount=100), edited)

    own = ToolMessage("x", tool_call_id="c1", response_metadata={"m": 1})
    other = ToolMessage("x", tool_call_id="c2", response_metadata={"m": 1})
    with_own = Command(update={"messages": own})
    without_messages = Command(update=[("x", 1)])
    request = ToolCallRequest(call(), None, edited, None)
    _note_edit([with_own, without_messages, other], request)
    assert len(own.response_metadata) == 2  # and what ran
    assert other.response_metadata == {"m": 1}


async def test_the_rest_of_an_action_does_not_run_when_one_of_its_calls_is_cancelled(
    monkeypatch, bank
):
    waiting = asyncio.Event()
    left = asyncio.Event()
    arrive = once.Register._arrive

    def observed(self, action, call_id, invocation, **options):
        waiting.set()
        return arrive(self, action, call_id, invocation, **options)

    class Impatient(AgentMiddleware):
        async def awrap_tool_call(self, request, handler):
            if request.tool_call["id"] == "c2":
                await left.wait()
                return await handler(request)
            reply = asyncio.ensure_future(handler(request))
            await waiting.wait()
            reply.cancel()
            await asyncio.gather(reply, return_exceptions=True)
            left.set()
            return ToolMessage("too slow", tool_call_id="c1")

    monkeypatch.setattr(once.Register, "_arrive", observed)
    state = await council_agent(members(BOTH), bank, TWO, DONE, before=[Impatient()]).ainvoke(
        PAY, THREAD
    )
    assert bank.transfers == []
    assert "another call of the same message does not run" in replies(state)[1].text


SAVER = InMemorySaver()
PAIR = once.VouchedAction("pair", frozenset({"c1", "c2"}))
ONE = once.VouchedAction("one", frozenset({"c1"}))


def starts(register, action, call_id, invocation=None):
    """Why a call may not run; None if it may."""
    return run_steps(register.start(action, call_id, invocation, None))


def test_equal_actions_of_one_thread_and_saver_have_one_key():
    def key(thread="1", saver=SAVER, **changed):
        config = {"configurable": {"thread_id": thread, CONFIG_KEY_CHECKPOINTER: saver}}
        with set_config_context(config) as context:
            return context.run(
                lambda: once.new_action(
                    **{"gate": "a", "message_id": "m", "call_id": "c", **changed}
                )
            )

    changes = [
        {"gate": "b"},
        {"message_id": "n"},
        {"call_id": "d"},
        {"thread": "2"},
        {"saver": InMemorySaver()},
    ]
    assert len({key(), *(key(**changed) for changed in changes)}) == 1 + len(changes)
    assert key() == key()
    assert key(saver=None) != key(saver=None)  # no thread is kept: each run is by itself


class Kept(InMemorySaver):
    """A saver of one's own."""


class Wrapping(BaseCheckpointSaver):
    """A saver that keeps nothing itself."""

    def __init__(self):
        super().__init__()
        self.inner = InMemorySaver()


class OnDisk(InMemorySaver):
    """As that of LangGraph's own server."""

    def __init__(self):
        super().__init__(factory=partial(PersistentDict, filename="threads"))


def sqlite_saver(path=":memory:"):
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    return sqlite.SqliteSaver(sqlite3.connect(path, check_same_thread=False))


def key_in(saver):
    with set_config_context(
        {"configurable": {"thread_id": "1", CONFIG_KEY_CHECKPOINTER: saver}}
    ) as context:
        return context.run(once.new_action, "gate", "m", "c")


@pytest.mark.parametrize("create", [InMemorySaver, Kept, Wrapping, sqlite_saver])
def test_threads_in_memory_belong_to_one_saver(create):
    one = create()
    other = create()
    same = create()
    assert key_in(one) == key_in(one) != key_in(other)
    if isinstance(same, InMemorySaver):
        same.storage = one.storage
        assert key_in(one) == key_in(same)


def test_threads_that_other_processes_can_open_belong_to_no_saver(tmp_path, monkeypatch):
    kept = [
        sqlite_saver(tmp_path / "a.db"),
        sqlite_saver(tmp_path / "a.db"),
        OnDisk(),
        BaseCheckpointSaver(),
    ]
    keys = set()
    for saver in kept:
        monkeypatch.setattr(once, "_MEMORIES", WeakKeyDictionary())  # as in another process
        keys.add(key_in(saver))
    assert len(keys) == 1


def test_what_comes_after_the_wait_is_over_does_not_run(monkeypatch):
    monkeypatch.setattr(once, "SECONDS_TO_GATHER", 0.0)
    register = once.Register()
    assert starts(register, PAIR, "c1") == once.INCOMPLETE
    assert starts(register, PAIR, "c2") == once.INCOMPLETE


async def test_a_call_whose_wait_ends_as_the_last_one_comes_runs_with_the_others(monkeypatch):
    monkeypatch.setattr(once, "SECONDS_TO_GATHER", 0.0)
    register = once.Register()
    first = asyncio.create_task(arun_steps(register.start(PAIR, "c1", None, None)))
    await asyncio.sleep(0)  # it waits; that its time is over is what the event loop comes to next
    assert starts(register, PAIR, "c1") == once.SPENT
    assert starts(register, PAIR, "c2") is None
    assert await first is None


async def test_a_call_does_not_come_for_one_of_another_action_of_the_same_message(monkeypatch):
    """A message was written again under its id, and vouched for: its call has the id of one that is waited for."""
    monkeypatch.setattr(once, "SECONDS_TO_GATHER", 0.1)
    register = once.Register()
    waiting = asyncio.create_task(arun_steps(register.start(PAIR, "c2", None, None)))
    await asyncio.sleep(0)
    alone = once.VouchedAction(PAIR.key, frozenset({"c1"}))
    assert await arun_steps(register.start(alone, "c1", None, None)) == once.INCOMPLETE
    assert await waiting == once.INCOMPLETE


def test_an_attack_on_an_action_that_runs_does_not_end_its_retries_nor_join_it():
    class Invocation:
        pass

    register = once.Register()
    invocation = Invocation()
    assert starts(register, ONE, "c1", invocation) is None
    register.close(ONE.key)
    assert starts(register, ONE, "c1", invocation) is None
    assert starts(register, ONE, "c1", Invocation()) == once.SPENT
    register = once.Register()
    assert starts(register, ONE, "c1") is None
    assert (
        starts(register, once.VouchedAction("one", frozenset({"c2"})), "c2", invocation)
        == once.SPENT
    )
    register._restore(
        PAIR, register._record(PAIR, sorted(PAIR.ids))
    )  # interrupted, in another process
    register.close(PAIR.key)
    assert starts(register, PAIR, "c1") is None


@kinds
def test_later_calls_with_the_ids_of_earlier_ones_run_too(kind, bank):
    both = [call(**ANN, id="c1"), call(**BOB, id="c2")]
    again = [call(**ANN, id="c1")]
    agent = gated(kind, bank, says(*both), says(*again), DONE, members_say=[both, again, "Done."])
    agent.invoke(PAY, THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Ann", 1.0), ("Bob", 2.0)]


async def test_a_second_try_does_not_run_before_the_rest_of_the_action_has_come(soon, bank):
    class Hasty(AgentMiddleware):
        async def awrap_tool_call(self, request, handler):
            if request.tool_call["id"] == "c2":
                return ToolMessage("cached", tool_call_id="c2")
            first, _ = await asyncio.gather(handler(request), handler(request))
            return first

    agent = council_agent(members(BOTH), bank, TWO, DONE, before=[Hasty()])
    await agent.ainvoke(PAY, THREAD)
    assert bank.transfers == []


def payments_to_ann(n):
    """Payments to Ann of 0, 1, 2, ..., each under an id of its own."""
    return [call(to="Ann", amount=amount, id=f"c{amount}") for amount in range(n)]


def first_decision(agent):
    """What the council decided on the first proposal of the thread."""
    states = [*agent.get_state_history(THREAD)]
    decisions = [state.values.get("council") for state in reversed(states)]
    return next(decision for decision in decisions if decision)


@pytest.mark.parametrize(
    ("agree", "on_uncertain"), [(True, "block"), (True, "interrupt"), (False, "interrupt")]
)
def test_more_calls_than_can_wait_for_each_other_are_refused_at_once(agree, on_uncertain, bank):
    calls = payments_to_ann(3)
    agents = members([calls if agree else [], "Done."])
    compiled = council_agent(agents, bank, says(*calls), DONE, on_uncertain=on_uncertain)
    state = compiled.invoke(PAY, {**THREAD, "max_concurrency": 2})
    assert bank.transfers == []
    assert [is_withheld(reply) for reply in replies(state)] == [True] * 3
    decision = first_decision(compiled)
    assert decision["cause"] == "limit_of_caller"
    assert "places for 2" in decision["reason"]
    compiled.invoke(PAY, {"configurable": {"thread_id": "2"}, "max_concurrency": 3})
    assert len(bank.transfers) == (3 if agree else 0)


def test_in_the_synchronous_form_there_are_as_many_places_as_threads(bank, monkeypatch):
    monkeypatch.setattr(once, "os", SimpleNamespace(cpu_count=lambda: 1))
    calls = payments_to_ann(6)
    agent = council_agent(members([calls, "Done."]), bank, says(*calls), DONE)
    state = agent.invoke(PAY, THREAD)
    assert [is_withheld(reply) for reply in replies(state)] == [True] * 6
    decision = first_decision(agent)
    assert decision["cause"] == "limit_of_caller"
    assert "places for 5" in decision["reason"]


def test_only_the_gated_calls_of_what_goes_on_need_places_and_no_structured_answer_does(bank):
    one = {**THREAD, "max_concurrency": 1}
    two = says(call(**ANN), call(id="c2", **BOB))
    options = {"mode": "choose", "tools": ["transfer_money"], "on_uncertain": "interrupt"}
    looks_and_pays = [[LOOKS, call(**ANN)]]
    group = members(looks_and_pays, looks_and_pays, looks_and_pays)
    agent = council_agent(group, bank, two, DONE, **options)
    agent.invoke(PAY, one)
    assert bank.transfers == [("Ann", 1.0)]

    both = [call(**ANN), weather("clear")]
    form = ToolStrategy(Weather)
    agent = council_agent(members([both]), bank, says(*both), response_format=form)
    agent.invoke(PAY, one)
    assert bank.transfers == [("Ann", 1.0)] * 2


async def test_in_async_only_max_concurrency_bounds_how_many_calls_run_together(bank):
    n_calls = 40  # more than a pool has threads
    assert once.n_places({}, is_async=False) == ThreadPoolExecutor()._max_workers
    calls = payments_to_ann(n_calls)
    compiled = council_agent(members([calls, "Done."]), bank, says(*calls), DONE)
    await compiled.ainvoke(PAY, THREAD)
    assert len(bank.transfers) == n_calls
    state = compiled.invoke(PAY, {"configurable": {"thread_id": "2"}})
    assert len(bank.transfers) == n_calls
    assert {reply.status for reply in replies(state)} == {"error"}


def stored(bank, store, *, before=(), behind=()):
    """An agent with a council, some middleware around it, and a store."""
    council = CoECouncil(members(AGREE), policy=SupportPolicy(0.6))
    return create_agent(
        ScriptedDriver(script=[says(call(**ANN)), DONE]),
        bank.tools,
        middleware=[*before, council, *behind],
        checkpointer=InMemorySaver(),
        store=store,
    )


@pytest.mark.parametrize("inside", [False, True])
def test_a_retry_inside_one_invocation_runs_the_tool_again(inside):
    tries = []
    bank = Bank()

    @tool
    def transfer_money(to: str, amount: float) -> str:
        """Sends money."""
        tries.append(to)
        if len(tries) < 3:
            raise ConnectionError("down")
        return "sent"

    bank.tools = [transfer_money]
    retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)
    place = "behind" if inside else "before"
    agent = stored(bank, None, **{place: [retry]})
    state = agent.invoke(PAY, THREAD)
    assert tries == ["Ann"] * 3
    assert replies(state)[0].text == "sent"


@pytest.fixture
def other_process(monkeypatch):
    """Continues as a process that knows what the store holds."""
    return lambda: monkeypatch.setattr(once.REGISTER, "_started", {})


def ask_before_sending(bank):
    """Gives the bank a tool that asks a person, and then sends."""

    @tool
    def transfer_money(to: str, amount: float) -> str:
        """Sends money."""
        bank.transfers.append((to, interrupt("sure?")))
        return "sent"

    bank.tools = [transfer_money]


class Chooses(AgentMiddleware):
    """Takes the tool from those of the agent."""

    def wrap_tool_call(self, request, handler):
        return handler(request.override(tool=request.runtime.tools[0]))


@pytest.mark.parametrize("behind", [(), (Chooses(),)], ids=["alone", "chosen"])
@pytest.mark.parametrize("store", [None, InMemoryStore()])
def test_a_tool_that_asks_a_person_is_called_again_when_the_run_is_resumed(
    store, behind, other_process, bank
):
    ask_before_sending(bank)
    compiled = stored(bank, store, behind=behind)
    yes = Command(resume="yes")
    for resume in (lambda: compiled.invoke(yes, THREAD), lambda: replay(compiled, yes)):
        if not bank.transfers:
            compiled.invoke(PAY, THREAD)
        if store is not None:
            other_process()
        resume()
        assert bank.transfers == [("Ann", "yes")]


class Shows(AgentMiddleware):
    """Shows the model a tool that the agent does not have."""

    def __init__(self, shown):
        self.shown = shown

    def wrap_model_call(self, request, handler):
        return handler(request.override(tools=[*request.tools, self.shown]))


class Brings(AgentMiddleware):
    """Brings the tool of a call."""

    def __init__(self, brought):
        self.brought = brought

    def wrap_tool_call(self, request, handler):
        return handler(request.override(tool=self.brought))


@pytest.mark.parametrize("store", [None, InMemoryStore()])
def test_a_brought_tool_that_asks_a_person_is_called_again_too_but_not_for_its_retry(
    store, other_process
):
    burnt = []

    @tool
    def burn(to: str) -> str:
        """Burns money."""
        burnt.append((to, interrupt("sure?")))
        return "burnt"

    def agent(*behind):
        """Its council admits the call before the tool is there, and again at the tool."""
        burns = call("burn", to="Ann")
        council = CoECouncil(members([[burns], "Done."]), policy=SupportPolicy(0.6))
        return create_agent(
            ScriptedDriver(script=[says(burns), DONE]),
            Bank().tools,
            middleware=[Shows(burn), council, *behind, Brings(burn)],
            checkpointer=InMemorySaver(),
            store=store,
        )

    def resume(compiled):
        if store is not None:
            other_process()
        return compiled.invoke(Command(resume="yes"), THREAD)

    once_called = agent()
    once_called.invoke(PAY, THREAD)
    resume(once_called)
    assert burnt == [("Ann", "yes")]

    burnt.clear()
    called_twice = agent(CallsTwice())
    called_twice.invoke(PAY, THREAD)
    resume(called_twice)
    state = resume(called_twice)
    assert once.SPENT in replies(state)[0].text
    assert burnt == [("Ann", "yes")]


class CallsTwice(AgentMiddleware):
    """Calls a tool again that has run, as a retry does."""

    def wrap_tool_call(self, request, handler):
        handler(request)
        return handler(request)


@pytest.mark.parametrize("store", [None, InMemoryStore()])
@pytest.mark.parametrize("place", ["before", "behind"])
def test_what_ran_is_not_called_again_because_its_retry_asks_a_person(
    store, place, other_process, bank
):
    ask_before_sending(bank)
    compiled = stored(bank, store, **{place: [CallsTwice()]})
    compiled.invoke(PAY, THREAD)
    for _ in range(2):
        if store is not None:
            other_process()
        state = compiled.invoke(Command(resume="yes"), THREAD)
    assert once.SPENT in replies(state)[0].text
    assert bank.transfers == [("Ann", "yes")]


KEPT = ("coe_gate", "started")


def altered(item, other):
    """What somebody who may write the store makes of a record: of another form, with more ids, of another action."""
    return [
        {"x": 1},
        {},
        {"interrupted": []},
        {"interrupted": ["c1"]},
        {**item, "interrupted": ["c1"]},
        {**item, "interrupted": "c1"},
        {**item, "mark": None},
        other,
    ]


def test_a_record_that_does_not_verify_counts_as_started_and_says_so(other_process, bank):
    store = InMemoryStore()
    compiled = stored(bank, store)
    compiled.invoke(PAY, {"configurable": {"thread_id": "2"}})
    [other] = store.search(KEPT)
    compiled.invoke(PAY, THREAD)
    [own] = [item for item in store.search(KEPT) if item.key != other.key]
    assert bank.transfers == [("Ann", 1.0)] * 2
    [before] = [one for one in compiled.get_state_history(THREAD) if one.next == ("tools",)]

    def replayed(value):
        store.put(KEPT, own.key, value)
        other_process()
        return replies(compiled.invoke(None, before.config))[0].text

    for value in altered(own.value, other.value):
        assert "COE_GATE_SECRET" in replayed(value), value
    assert len(bank.transfers) == 2
    assert once.SPENT in replayed(own.value)


def test_a_record_of_another_secret_counts_as_started(monkeypatch):
    store = InMemoryStore()
    monkeypatch.setenv("COE_GATE_SECRET", "one secret of all processes")
    assert run_steps(once.Register().start(ONE, "c1", None, store)) is None
    monkeypatch.setenv("COE_GATE_SECRET", "another one, since it was changed")
    assert "COE_GATE_SECRET" in run_steps(once.Register().start(ONE, "c1", None, store))


def test_a_record_of_other_calls_or_of_another_action_counts_as_started():
    store = InMemoryStore()
    register = once.Register()
    assert run_steps(register.start(ONE, "c1", None, store)) is None
    run_steps(register.interrupt(ONE, "c1", store))  # to be called again, but with these calls only
    more = once.VouchedAction(ONE.key, frozenset({"c1", "c2"}))
    assert "COE_GATE_SECRET" in run_steps(once.Register().start(more, "c1", None, store))
    store.put(KEPT, "other", store.get(KEPT, ONE.key).value)
    other = once.VouchedAction("other", ONE.ids)
    assert "COE_GATE_SECRET" in run_steps(once.Register().start(other, "c1", None, store))
    assert run_steps(once.Register().start(ONE, "c1", None, store)) is None


async def test_a_call_that_another_process_interrupted_runs_without_the_rest_of_its_action():
    class Id(str):
        """One whose place in a set differs, as from process to process."""

        def __hash__(self):
            return 0

    c1, c2 = map(Id, ("c1", "c2"))
    pair = once.VouchedAction("pair", frozenset([c1, c2]))
    store = InMemoryStore()
    register = once.Register()
    starting = [arun_steps(register.start(pair, id_, None, store)) for id_ in (c1, c2)]
    assert await asyncio.gather(*starting) == [None, None]
    run_steps(register.interrupt(pair, c2, store))
    resumed = once.VouchedAction("pair", frozenset([c2, c1]))
    async with asyncio.timeout(once.SECONDS_TO_GATHER / 2):
        assert await arun_steps(once.Register().start(resumed, c2, None, store)) is None


def test_what_was_started_is_in_no_index_of_the_store_and_does_not_expire():
    kept = []

    class Expiring(InMemoryStore):
        supports_ttl = True

        def batch(self, ops):
            kept.extend(op for op in ops if isinstance(op, PutOp))
            return super().batch(ops)

    def embed(texts):
        raise ConnectionError("no model embeds records")

    store = Expiring(index={"dims": 1, "embed": embed})
    store.ttl_config = {"default_ttl": 1.0}
    assert run_steps(once.Register().start(ONE, "c1", None, store)) is None
    [put] = kept
    assert put.ttl is None


def test_a_store_that_fails_closes_the_gate(bank):
    class Broken(InMemoryStore):
        def batch(self, ops):
            raise ConnectionError("down")

    assert (
        "the store of the runs failed"
        in replies(stored(bank, Broken()).invoke(PAY, THREAD))[0].text
    )
    assert bank.transfers == []
    register = once.Register()
    run_steps(register.start(ONE, "c1", None, Broken()))
    assert starts(register, ONE, "c1") == once.INCOMPLETE
