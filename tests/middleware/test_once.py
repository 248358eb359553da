"""A vouched action runs once and as a whole."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware, ToolRetryMiddleware
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt

from coe_agents import CoECouncil, CoEMiddleware, SupportPolicy
from coe_agents._steps import arun_steps, run_steps
from coe_agents.middleware import once
from coe_agents.middleware.guard import is_edited
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import ANN, BOB, PAY, SURE, THREAD, UNSURE, Bank, agent, call, judges, replies, says
from tests.middleware.council import council_agent, members

DONE = says(text="Done.")
AGREE = [[call(**ANN)], "Done."]
BOTH = [[call(**ANN), call(**BOB)], "Done."]
TWO = says(call(**ANN, id="c1"), call(**BOB, id="c2"))
APPROVE = Command(resume={"decisions": [{"type": "approve"}]})


@pytest.fixture
def soon(monkeypatch):
    """A call does not wait long for the others of its action."""
    monkeypatch.setattr(once, "SECONDS_TO_GATHER", 0.2)


def gated(kind, bank, **options):
    if kind == "council":
        return council_agent(members(AGREE), bank, says(call(**ANN)), DONE, **options)
    return agent(judges(*SURE)[1], bank, says(call(**ANN)), **options)


kinds = pytest.mark.parametrize("kind", ["council", "gate"])


@kinds
def test_a_replay_of_the_tools_checkpoint_runs_nothing_again(kind):
    bank = Bank()
    compiled = gated(kind, bank)
    compiled.invoke(PAY, THREAD)
    for checkpoint in list(compiled.get_state_history(THREAD)):
        if checkpoint.next == ("tools",):
            state = compiled.invoke(None, checkpoint.config)
    assert bank.transfers == [("Ann", 1.0)]
    assert "runs once only" in replies(state)[0].text


@kinds
def test_of_simultaneous_runs_before_the_tools_one_runs(kind):
    bank = Bank()
    compiled = gated(kind, bank)
    compiled.invoke(PAY, THREAD, interrupt_before=["tools"])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: compiled.invoke(None, THREAD), range(4)))
    assert bank.transfers == [("Ann", 1.0)]


@kinds
async def test_of_simultaneous_asynchronous_runs_one_runs(kind):
    bank = Bank()
    compiled = gated(kind, bank)
    await compiled.ainvoke(PAY, THREAD, interrupt_before=["tools"])
    await asyncio.gather(*(compiled.ainvoke(None, THREAD) for _ in range(4)))
    assert bank.transfers == [("Ann", 1.0)]


@pytest.mark.parametrize("kind", ["council", "gate"])
def test_of_three_approvals_at_the_same_time_one_counts(kind):
    bank = Bank()
    if kind == "council":
        compiled = council_agent(
            members([[call(**BOB)], "Done."]), bank, says(call(**ANN)), DONE, on_uncertain="interrupt"
        )
    else:
        compiled = agent(judges(*UNSURE)[1], bank, says(call(**ANN)), on_uncertain="interrupt")
    compiled.invoke(PAY, THREAD)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: compiled.invoke(APPROVE, THREAD), range(3)))
    assert bank.transfers == [("Ann", 1.0)]


def test_a_later_reply_to_the_same_request_lets_nothing_pass():
    bank = Bank()
    compiled = council_agent(members([[call(**BOB)], "Done."]), bank, says(call(**ANN)), DONE, on_uncertain="interrupt")
    compiled.invoke(PAY, THREAD)
    asked = compiled.get_state(THREAD).config
    compiled.invoke(APPROVE, THREAD)
    edited = {"name": "transfer_money", "args": BOB}
    reply = Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]})
    state = compiled.invoke(reply, asked, interrupt_before=["model"])
    assert state["council"]["reason"].startswith("another reply decided on it already")
    assert bank.transfers == [("Ann", 1.0)]


def test_calls_that_were_vouched_for_together_run_together():
    bank = Bank()
    council_agent(members(BOTH), bank, TWO, DONE).invoke(PAY, THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Bob", 2.0)]


async def test_calls_that_were_vouched_for_together_run_together_in_async():
    bank = Bank()
    await council_agent(members(BOTH), bank, TWO, DONE).ainvoke(PAY, THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Bob", 2.0)]


class ChangesOne(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        if request.tool_call["id"] == "c2":
            request = request.override(tool_call={**request.tool_call, "args": {"to": "Eve", "amount": 2}})
        return handler(request)


class AnswersOne(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        if request.tool_call["id"] == "c2":
            return ToolMessage("cached", tool_call_id="c2")
        return handler(request)


@pytest.mark.parametrize("other", [ChangesOne, AnswersOne, lambda: ToolCallLimitMiddleware(run_limit=1)])
def test_half_of_an_action_does_not_run(other, soon):
    bank = Bank()
    state = council_agent(members(BOTH), bank, TWO, DONE, before=[other()]).invoke(PAY, THREAD)
    assert bank.transfers == []
    assert any("another call of the same message does not run" in one.text for one in replies(state))


@kinds
def test_another_tool_does_not_run_with_the_arguments_of_a_vouched_call(kind):
    bank = Bank()

    @tool
    def burn_money(to: str, amount: float) -> str:
        """Burns money."""
        bank.transfers.append("burnt")
        return "burnt"

    class Renames(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            now = {**request.tool_call, "name": "burn_money"}
            return handler(request.override(tool_call=now, tool=burn_money))

    bank.tools = [*bank.tools, burn_money]
    if kind == "council":
        compiled = council_agent(members(AGREE), bank, says(call(**ANN)), DONE, before=[Renames()])
    else:
        gate = CoEMiddleware(judges(*SURE)[1], tools=["transfer_money", "burn_money"])
        compiled = agent(None, bank, says(call(**ANN)), middleware=[Renames(), gate])
    compiled.invoke(PAY, THREAD)
    assert bank.transfers == []


def test_a_call_that_was_changed_since_a_person_edited_it_is_not_their_edit():
    edited = {"hitl_edited_tool_calls": {"c1": {"name": "transfer_money", "args": {"to": "Ann", "amount": 100}}}}
    assert is_edited(call(to="Ann", amount=100), edited)
    assert not is_edited(call(to="Ann", amount=100.0), edited)
    assert not is_edited(call("balance", to="Ann", amount=100), edited)


def test_a_jump_to_one_of_two_calls_runs_none(soon):
    bank = Bank()
    compiled = council_agent(members(BOTH), bank, TWO, DONE)
    compiled.invoke(PAY, THREAD, interrupt_before=["tools"])
    compiled.invoke(Command(goto=Send("tools", [{**call(**ANN, id="c1"), "type": "tool_call"}])), THREAD)
    assert bank.transfers == []


async def test_the_rest_of_an_action_does_not_run_when_one_of_its_calls_is_cancelled(monkeypatch):
    waiting, left = asyncio.Event(), asyncio.Event()
    arrive = once.Register._arrive

    def observed(self, action, call_id, invocation):
        waiting.set()
        return arrive(self, action, call_id, invocation)

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
    bank = Bank()
    state = await council_agent(members(BOTH), bank, TWO, DONE, before=[Impatient()]).ainvoke(PAY, THREAD)
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
            return context.run(lambda: once.new_action(**{"gate": "a", "message_id": "m", "call_id": "c", **changed}))

    changes = [{"gate": "b"}, {"message_id": "n"}, {"call_id": "d"}, {"thread": "2"}, {"saver": InMemorySaver()}]
    assert len({key(), *(key(**changed) for changed in changes)}) == 1 + len(changes)
    assert key() == key()
    assert key(saver=None) != key(saver=None)  # no thread is kept: each run is by itself


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
    assert starts(register, PAIR, "c2") is None
    assert await first is None


def test_a_call_that_was_not_vouched_for_with_the_others_does_not_join_an_action_that_runs():
    register = once.Register()
    assert starts(register, ONE, "c1") is None
    assert starts(register, once.VouchedAction("one", frozenset({"c2"})), "c2") == once.SPENT


def test_an_attack_on_an_action_that_runs_does_not_end_its_retries():
    class Invocation:
        pass

    register, invocation = once.Register(), Invocation()
    assert starts(register, ONE, "c1", invocation) is None
    register.refuse(ONE.key)
    assert starts(register, ONE, "c1", invocation) is None
    assert starts(register, ONE, "c1", Invocation()) == once.SPENT


@kinds
def test_later_calls_with_the_ids_of_earlier_ones_run_too(kind):
    bank = Bank()
    script = [says(call(**ANN, id="c1"), call(**BOB, id="c2")), says(call(**ANN, id="c1")), DONE]
    if kind == "council":
        agents = members([script[0].tool_calls, script[1].tool_calls, "Done."])
        council_agent(agents, bank, *script).invoke(PAY, THREAD)
    else:
        agent(judges(*SURE)[1], bank, *script).invoke(PAY, THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Ann", 1.0), ("Bob", 2.0)]


async def test_a_second_try_does_not_run_before_the_rest_of_the_action_has_come(soon):
    class Hasty(AgentMiddleware):
        async def awrap_tool_call(self, request, handler):
            if request.tool_call["id"] == "c2":
                return ToolMessage("cached", tool_call_id="c2")
            first, _ = await asyncio.gather(handler(request), handler(request))
            return first

    bank = Bank()
    await council_agent(members(BOTH), bank, TWO, DONE, before=[Hasty()]).ainvoke(PAY, THREAD)
    assert bank.transfers == []


@pytest.mark.parametrize("on_uncertain", ["block", "interrupt"])
@pytest.mark.parametrize("agree", [True, False])
def test_more_calls_than_can_wait_for_each_other_are_refused_at_once(on_uncertain, agree):
    bank = Bank()
    calls = [call(to="Ann", amount=amount, id=f"c{amount}") for amount in range(3)]
    agents = members([calls if agree else [], "Done."])
    compiled = council_agent(agents, bank, says(*calls), DONE, on_uncertain=on_uncertain)
    state = compiled.invoke(PAY, {**THREAD, "max_concurrency": 2})
    assert bank.transfers == []
    if agree or on_uncertain == "interrupt":
        assert "has places for 2" in replies(state)[0].text
        assert "max_concurrency" in replies(state)[0].text
    elsewhere = {"configurable": {"thread_id": "2"}, "max_concurrency": 3}
    compiled.invoke(PAY, elsewhere)
    assert len(bank.transfers) == (3 if agree else 0)


async def test_in_async_only_max_concurrency_bounds_how_many_calls_run_together():
    n_calls = 40  # more than a pool has threads
    bank = Bank()
    calls = [call(to="Ann", amount=amount, id=f"c{amount}") for amount in range(n_calls)]
    compiled = council_agent(members([calls, "Done."]), bank, says(*calls), DONE)
    await compiled.ainvoke(PAY, THREAD)
    assert len(bank.transfers) == n_calls
    state = compiled.invoke(PAY, {"configurable": {"thread_id": "2"}})
    assert len(bank.transfers) == n_calls
    assert "would have to run together" in replies(state)[0].text


def test_a_retry_inside_one_invocation_runs_the_tool_again():
    tries = []

    @tool
    def transfer_money(to: str, amount: float) -> str:
        """Sends money."""
        tries.append(to)
        if len(tries) < 3:
            raise ConnectionError("down")
        return "sent"

    for inside in (False, True):
        tries.clear()
        bank = Bank()
        bank.tools = [transfer_money]
        retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)
        council = CoECouncil(members(AGREE), policy=SupportPolicy(0.6))
        order = [council, retry] if inside else [retry, council]
        compiled = create_agent(ScriptedDriver(script=[says(call(**ANN)), DONE]), bank.tools, middleware=order)
        state = compiled.invoke(PAY)
        assert tries == ["Ann"] * 3
        assert replies(state)[0].text == "sent"


@pytest.mark.parametrize("store", [None, InMemoryStore()])
def test_a_tool_that_asks_a_person_is_called_again_when_the_run_is_resumed(store, monkeypatch):
    sent = []

    @tool
    def transfer_money(to: str, amount: float) -> str:
        """Sends money."""
        sent.append((to, interrupt("sure?")))
        return "sent"

    driver = ScriptedDriver(script=[says(call(**ANN)), DONE])
    council = CoECouncil(members(AGREE), policy=SupportPolicy(0.6))
    compiled = create_agent(driver, [transfer_money], middleware=[council], checkpointer=InMemorySaver(), store=store)
    compiled.invoke(PAY, THREAD)
    if store is not None:  # another process knows what the store holds
        monkeypatch.setattr(once.REGISTER, "_started", {})
    compiled.invoke(Command(resume="yes"), THREAD)
    assert sent == [("Ann", "yes")]
    if store is not None:
        monkeypatch.setattr(once.REGISTER, "_started", {})
    for checkpoint in list(compiled.get_state_history(THREAD)):
        if checkpoint.next == ("tools",):
            compiled.invoke(Command(resume="yes"), checkpoint.config)
    assert sent == [("Ann", "yes")]


def test_what_was_started_is_known_to_another_process_by_the_store(monkeypatch):
    bank, store = Bank(), InMemoryStore()
    driver = ScriptedDriver(script=[says(call(**ANN)), DONE])
    council = CoECouncil(members(AGREE), policy=SupportPolicy(0.6))
    compiled = create_agent(driver, bank.tools, middleware=[council], checkpointer=InMemorySaver(), store=store)
    compiled.invoke(PAY, THREAD)
    monkeypatch.setattr(once.REGISTER, "_started", {})
    for checkpoint in list(compiled.get_state_history(THREAD)):
        if checkpoint.next == ("tools",):
            compiled.invoke(None, checkpoint.config)
    assert bank.transfers == [("Ann", 1.0)]


def test_a_store_that_fails_closes_the_gate():
    class Broken(InMemoryStore):
        def batch(self, ops):
            raise ConnectionError("down")

    bank = Bank()
    driver = ScriptedDriver(script=[says(call(**ANN)), DONE])
    council = CoECouncil(members(AGREE), policy=SupportPolicy(0.6))
    compiled = create_agent(driver, bank.tools, middleware=[council], store=Broken())
    state = compiled.invoke(PAY)
    assert bank.transfers == []
    assert "the store of the runs failed" in replies(state)[0].text
