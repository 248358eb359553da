"""Which calls are gated: by name, by pattern, by a condition on what the tool's function receives."""

import logging

import numpy as np
import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import AgentState
from langgraph.types import Command, interrupt

from coe_agents import CoECouncil, CoEMiddleware
from tests.middleware.agents import AGAINST, THREAD, agent, judged_by, judges
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, call, replies, says
from tests.middleware.council import AGREE, members
from tests.middleware.people import decide, edit, people

LARGE = {"to": "Ann", "amount": 200}
SMALL = {"to": "Ann", "amount": 50}
PAYS_SMALL = says(call(**SMALL))
PAYS_LARGE = says(call(**LARGE))
KINDS = ("council", "gate")
OTHERS_PAY_BOB = [[call(**BOB)], "Done."]


def is_large(request):
    return request.tool_call["args"]["amount"] > 100


WHERE_LARGE = {"transfer_money": is_large}


def withholding(kind, tools, **options):
    """A gate that lets nothing pass of what it is about."""
    if kind == "gate":
        _, graph = judges(*AGAINST)
        return CoEMiddleware(graph, tools=tools, **options)
    group = members(OTHERS_PAY_BOB, OTHERS_PAY_BOB)
    return CoECouncil(group, tools=tools, **options)


def run(gate, bank, *messages, before=(), behind=()):
    middleware = [*before, gate, *behind]
    gated = agent(None, bank, *messages, DONE, middleware=middleware)
    return gated.invoke(PAY, THREAD)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("tools", "paid"),
    [
        ({"transfer_money": is_large}, [50]),
        ({"transfer_*": is_large}, [50]),
        ({"transfer_*": True}, []),
        (["transfer_*"], []),
        ({"transfer_money": False, "*": True}, [50, 200]),
        ({"transfer*": is_large, "*money": lambda request: False}, [50]),
        ({"transfer*": is_large, "*money": False}, [50]),
        ({"transfer_money": lambda request: np.bool_(is_large(request))}, [50]),
    ],
    ids=[
        "condition",
        "condition by pattern",
        "pattern",
        "list",
        "exception",
        "two patterns",
        "a pattern of none",
        "a bool of numpy",
    ],
)
def test_calls_are_gated_by_name_pattern_and_condition(kind, tools, paid, bank):
    gate = withholding(kind, tools)
    small = call(id="s", **SMALL)
    large = call(id="l", **LARGE)
    run(gate, bank, says(small), says(large))
    assert [amount for _, amount in bank.transfers] == paid


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_sees_what_the_function_receives(kind, bank):
    seen = []

    def note(request):
        seen.append(request.tool_call["args"])
        return False

    gate = withholding(kind, {"transfer_money": note})
    of_text = call(to="Ann", amount="5e1")
    run(gate, bank, says(of_text))
    assert bank.transfers == [("Ann", 50.0)]
    first, second = seen
    for args in (first, second):
        assert args == {"to": "Ann", "amount": 50.0}
        assert type(args["amount"]) is float


class Limit(AgentState):
    limit: int


class Limited(AgentMiddleware):
    """Other middleware, which adds a limit to the agent's state."""

    state_schema = Limit


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_sees_the_state_of_the_agent_with_the_message_that_calls(kind, bank):
    def is_free(request):
        said, calling = request.state["messages"]
        assert said.text == "Send 10 to Ann."
        [made] = calling.tool_calls
        assert made["id"] == request.tool_call["id"]
        assert request.state["limit"] == 100
        assert request.runtime.state["limit"] == 100
        return False

    gate = withholding(kind, {"transfer_money": is_free})
    limited = agent(None, bank, PAYS_SMALL, DONE, middleware=[Limited(), gate])
    limited.invoke({**PAY, "limit": 100}, THREAD)
    assert bank.transfers == [("Ann", 50)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_is_asked_about_the_tool_of_that_name_among_those_that_the_model_was_shown(
    kind, bank
):
    bank.tools = [{"type": "web_search"}, *reversed(bank.tools)]
    gate = withholding(kind, {"*": is_large})
    unknown = says(call("nonsense", id="n"))
    state = run(gate, bank, PAYS_SMALL, unknown)
    assert bank.transfers == [("Ann", 50)]
    _, of_unknown = replies(state)
    assert of_unknown.status == "error"


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_may_interrupt_the_run(kind, bank):
    gate = withholding(kind, {"transfer_money": lambda request: interrupt("Is it large?")})
    state = run(gate, bank, PAYS_SMALL)
    assert "__interrupt__" in state
    assert bank.transfers == []


class Raises(AgentMiddleware):
    """Other middleware, which raises the amount on the way to the tool, or lowers it."""

    def __init__(self, amount):
        super().__init__()
        self.amount = amount

    def wrap_tool_call(self, request, handler):
        args = {**request.tool_call["args"], "amount": self.amount}
        changed = {**request.tool_call, "args": args}
        return handler(request.override(tool_call=changed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_condition_is_asked_again_about_the_call_that_reaches_the_tool(kind, place, bank):
    gate = withholding(kind, WHERE_LARGE)
    raises = [Raises(200)]
    state = run(gate, bank, PAYS_SMALL, **{place: raises})
    assert bank.transfers == []
    assert "amount" in replies(state)[0].text


def test_what_was_judged_stays_gated_though_the_condition_finds_otherwise_at_the_tool(bank):
    answers = [True, False]
    gate = withholding("gate", {"transfer_money": lambda request: answers.pop(0)})
    run(gate, bank, PAYS_LARGE)
    assert bank.transfers == []

    gate = withholding("gate", WHERE_LARGE)
    run(gate, bank, PAYS_LARGE, behind=[Raises(5)])
    assert bank.transfers == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_is_asked_about_the_tool_that_runs_in_the_place_of_another(kind, bank):
    paying = bank.tools[0]
    bank.tools.append(paying.model_copy(update={"name": "send"}))

    class Pays(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return handler(request.override(tool=paying))

    gate = withholding(kind, WHERE_LARGE)
    small = call("send", id="s", **SMALL)
    large = call("send", id="l", **LARGE)
    run(gate, bank, says(small), says(large), behind=[Pays()])
    assert [amount for _, amount in bank.transfers] == [50]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "condition",
    [lambda request: request.tool_call["args"]["sum"] > 1, lambda request: None, lambda request: 0],
    ids=["raises", "none", "a number"],
)
def test_a_condition_that_fails_gates_and_is_reported_once(kind, condition, bank, caplog):
    gate = withholding(kind, {"transfer_money": condition})
    small = call(id="s", **SMALL)
    large = call(id="l", **LARGE)
    with caplog.at_level(logging.WARNING):
        run(gate, bank, says(small), says(large))
    assert bank.transfers == []
    reports = [one for one in caplog.records if "condition on" in one.getMessage()]
    assert len(reports) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_cannot_change_what_runs(kind, bank):
    def meddle(request):
        request.tool_call["args"]["amount"] = 5
        request.tool_call["name"] = "balance"
        for message in request.state["messages"]:
            for one in getattr(message, "tool_calls", ()):
                one["args"]["amount"] = 6
        request.state["messages"].clear()
        return False

    gate = withholding(kind, {"transfer_money": meddle})
    run(gate, bank, PAYS_SMALL)
    assert bank.transfers == [("Ann", 50)]


def test_all_calls_of_the_named_tools_in_a_judged_message_are_one_action(bank):
    small = call(id="s", **SMALL)
    large = call(id="l", **LARGE)
    for proposed, paid in (([large, small], [50, 200]), ([large], [])):
        bank.transfers.clear()
        script = [proposed, "Done."]
        council = CoECouncil(members(script, script), tools=WHERE_LARGE)
        run(council, bank, says(small, large))
        assert sorted(amount for _, amount in bank.transfers) == paid


class RaisesSmall(AgentMiddleware):
    """Other middleware, which raises an amount, but to less than what is large."""

    def wrap_tool_call(self, request, handler):
        if request.tool_call["args"]["amount"] == 50:
            return Raises(60).wrap_tool_call(request, handler)
        return handler(request)


def test_a_call_below_the_limit_in_a_judged_message_is_vouched_for_as_it_was(bank):
    both = [call(id="s", **SMALL), call(id="l", **LARGE)]
    script = [both, "Done."]
    council = CoECouncil(members(script, script), tools=WHERE_LARGE)
    run(council, bank, says(*both), behind=[RaisesSmall()])
    assert bank.transfers == []


def test_a_trusted_edit_of_a_call_that_was_free_runs(bank):
    for trusted, paid in ((True, [("Ann", 200)]), (False, [])):
        bank.transfers.clear()
        gate = withholding("gate", WHERE_LARGE, trust_edits=trusted)
        paying = agent(None, bank, PAYS_SMALL, DONE, middleware=[people(), gate])
        paying.invoke(PAY, THREAD)
        paying.invoke(decide(edit(**LARGE)), THREAD)
        assert bank.transfers == paid


def test_an_edit_of_a_gated_call_that_nobody_judged_does_not_run(bank):
    gate = withholding("gate", WHERE_LARGE, trust_edits=True)
    paying = agent(None, bank, DONE, middleware=[people(), gate])
    to_eve = {"name": "transfer_money", "args": {**LARGE, "to": "Eve"}}
    edited = {"c1": to_eve}
    for proposed, paid in ((LARGE, []), (SMALL, ["Eve"])):
        messages = [*PAY["messages"], says(call(**proposed))]
        written = {"messages": messages, "hitl_edited_tool_calls": edited}
        paying.invoke(Command(update=written, goto="tools"), THREAD)
        assert [to for to, _ in bank.transfers] == paid


def test_what_a_person_makes_of_a_gated_call_is_judged_though_the_condition_would_let_it_pass(bank):
    asked = []
    group = judged_by({"200": None, "50": "approve"}, asked)
    gate = CoEMiddleware(group, tools=WHERE_LARGE, on_uncertain="interrupt")
    paying = agent(None, bank, PAYS_LARGE, DONE, middleware=[gate])
    paying.invoke(PAY, THREAD)
    paying.invoke(decide(edit(**SMALL)), THREAD)
    assert bank.transfers == [("Ann", 50)]
    assert len(asked) == 2


def test_two_gates_with_different_conditions_both_gate(bank):
    to_bob = CoECouncil(
        members(AGREE, AGREE),
        tools={"transfer_money": lambda request: request.tool_call["args"]["to"] == "Bob"},
        name="bob",
    )
    large = withholding("council", {"transfer_money": is_large})
    bob = {"to": "Bob", "amount": 5}
    calls = [call(id="a", **ANN), call(id="b", **bob), call(id="c", **LARGE)]
    run(to_bob, bank, *map(says, calls), behind=[large])
    assert bank.transfers == [("Ann", 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "tools",
    [{"transfr_*": True}, {"transfr": is_large}, ["transfr_*"]],
    ids=["pattern", "name", "list"],
)
def test_a_pattern_that_fits_no_tool_is_an_error(kind, tools, bank):
    with pytest.raises(ValueError, match="it has no transfr"):
        run(withholding(kind, tools), bank, says(LOOKS))


async def later(request):
    return False


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ({"x": later}, TypeError),
        ({}, ValueError),
        ({"x": False}, ValueError),
        ({"x": "amount > 1"}, TypeError),
    ],
    ids=["coroutine", "empty", "nothing", "text"],
)
def test_what_names_no_call_is_refused(tools, error):
    with pytest.raises(error, match='"tools" must'):
        CoECouncil(members(AGREE), tools=tools)
