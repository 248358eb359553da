"""The stock HumanInTheLoopMiddleware beside ours."""

from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import InjectedToolArg, StructuredTool, tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command

from coe_agents import CoEMiddleware
from coe_agents.middleware import CoEVerdicts, describe_call, lacks_approval
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import (
    AGAINST,
    ANN,
    BOB,
    MODES,
    PAY,
    SURE,
    THREAD,
    UNSURE,
    Bank,
    agent,
    call,
    judged_by,
    judges,
    replies,
    run,
    says,
)

every_mode = pytest.mark.parametrize("mode", MODES)
every_interrupt = pytest.mark.parametrize("interrupt_mode", ["batched", "per_call"])


def people(*, when=lacks_approval, mode="batched", decisions=("approve", "edit", "reject")):
    review = {"allowed_decisions": list(decisions), "when": when, "description": describe_call}
    return HumanInTheLoopMiddleware({"transfer_money": review}, interrupt_mode=mode)


def decided(decision, interrupt_mode):
    return Command(resume={"decisions": [decision]} if interrupt_mode == "batched" else decision)


def description(interrupts, interrupt_mode):
    value = interrupts[0].value
    return (value["action_requests"][0] if interrupt_mode == "batched" else value)["description"]


@every_mode
@every_interrupt
async def test_people_are_asked_only_about_what_the_group_does_not_approve(mode, interrupt_mode):
    _, graph = judges(*SURE)
    bank = Bank()
    both = [people(mode=interrupt_mode), CoEVerdicts(graph, tools=["transfer_money"])]
    state = await run(mode, agent(None, bank, middleware=both), PAY)
    assert "__interrupt__" not in state
    assert bank.transfers == [("Ann", 10.0)]


@every_mode
@every_interrupt
@pytest.mark.parametrize("said", [UNSURE, AGAINST], ids=["unsure", "against"])
@pytest.mark.parametrize("approved", [True, False])
async def test_a_person_who_knows_the_verdict_decides(mode, interrupt_mode, said, approved):
    agents, graph = judges(*said)
    bank = Bank()
    both = [people(mode=interrupt_mode), CoEVerdicts(graph, tools=["transfer_money"])]
    compiled = agent(None, bank, middleware=both)
    paused = await run(mode, compiled, PAY)
    wanted = (
        "the group is not confident: one of two agents says "
        if said is UNSURE
        else "the group is confident and does not approve"
    )
    shown = description(paused["__interrupt__"], interrupt_mode)
    assert shown.startswith(f'transfer_money {{"to": "Ann", "amount": 10}}\n{wanted}')
    assert bank.transfers == []
    decision = {"type": "approve" if approved else "reject"}
    await run(mode, compiled, decided(decision, interrupt_mode))
    assert bank.transfers == ([("Ann", 10.0)] if approved else [])
    assert [len(judge.requests) for judge in agents] == [1, 1]


@every_interrupt
@pytest.mark.parametrize("verdicts", [None, ["balance"]], ids=["not-there", "of-another-tool"])
def test_where_no_verdict_is_a_person_is_asked(interrupt_mode, verdicts):
    _, graph = judges(*SURE)
    bank = Bank()
    ours = [CoEVerdicts(graph, tools=verdicts)] if verdicts else []
    paused = agent(None, bank, middleware=[people(mode=interrupt_mode), *ours]).invoke(PAY, THREAD)
    assert description(paused["__interrupt__"], interrupt_mode).endswith("the group was not asked")
    assert bank.transfers == []


@every_interrupt
def test_in_the_wrong_order_a_person_is_asked_about_everything(interrupt_mode):
    _, graph = judges(*SURE)
    wrong = [CoEVerdicts(graph, tools=["transfer_money"]), people()]
    bank = Bank()
    assert agent(None, bank, middleware=wrong).invoke(PAY, THREAD)["__interrupt__"]
    assert bank.transfers == []


@every_mode
@every_interrupt
async def test_person_and_group_must_both_approve(mode, interrupt_mode):
    for said, transfers in ((SURE, [("Ann", 10.0)]), (UNSURE, []), (AGAINST, [])):
        agents, graph = judges(*said)
        bank = Bank()
        review = people(when=lambda request: True, mode=interrupt_mode)
        compiled = agent(None, bank, middleware=[review, CoEMiddleware(graph, tools=["transfer_money"])])
        assert (await run(mode, compiled, PAY))["__interrupt__"]
        await run(mode, compiled, decided({"type": "approve"}, interrupt_mode))
        assert bank.transfers == transfers
        assert len(agents[0].requests) == 1


ORDERS = pytest.mark.parametrize("gate_first", [True, False], ids=["gate-people", "people-gate"])


def in_order(gate_first, gate, review):
    return [gate, review] if gate_first else [review, gate]


def asked_again(reply):
    """Whether the model is told that the call is not the one that was vouched for."""
    return (
        reply.status == "error" and "has not vouched for this call" in reply.text and "Propose the call" in reply.text
    )


@every_mode
@every_interrupt
@ORDERS
@pytest.mark.parametrize("trusts", [False, True])
async def test_an_edit_made_elsewhere_counts_only_where_it_is_trusted(mode, interrupt_mode, gate_first, trusts):
    asked: list[str] = []
    bank = Bank()
    options = {"trust_edits": True} if trusts else {}
    gate = CoEMiddleware(judged_by({"": "approve"}, asked), tools=["transfer_money"], **options)
    review = people(when=lambda request: True, mode=interrupt_mode)
    compiled = agent(None, bank, middleware=in_order(gate_first, gate, review))
    await run(mode, compiled, PAY)
    edited = {"name": "transfer_money", "args": BOB}
    state = await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, interrupt_mode))
    # one that is made where the tool is called cannot be told from a change by other middleware
    runs = trusts and interrupt_mode == "batched"
    assert bank.transfers == ([("Bob", 2.0)] if runs else [])
    assert len(asked) == 1
    (reply,) = replies(state)
    assert asked_again(reply) != runs
    assert runs or "to, amount changed" in reply.text


@every_mode
@ORDERS
@pytest.mark.parametrize("said", ["reject", None])
async def test_a_trusted_edit_opens_no_gate_that_was_closed_to_the_call(mode, gate_first, said):
    bank = Bank()
    gate = CoEMiddleware(judged_by({"": said}, []), tools=["transfer_money"], trust_edits=True)
    compiled = agent(None, bank, middleware=in_order(gate_first, gate, people(when=lambda request: True)))
    await run(mode, compiled, PAY)
    edited = {"name": "transfer_money", "args": BOB}
    state = await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, "batched"))
    assert bank.transfers == []
    assert asked_again(replies(state)[0])


@every_mode
@ORDERS
@pytest.mark.parametrize("trusts", [False, True])
async def test_an_edit_that_makes_a_free_call_a_gated_one(mode, gate_first, trusts):
    asked: list[str] = []
    bank = Bank()
    gate = CoEMiddleware(judged_by({"": "approve"}, asked), tools=["transfer_money"], trust_edits=trusts)
    review = HumanInTheLoopMiddleware({"balance": {"allowed_decisions": ["edit"]}})
    looks = says({**call("balance"), "args": {}})
    compiled = agent(None, bank, looks, middleware=in_order(gate_first, gate, review))
    await run(mode, compiled, PAY)
    edited = {"name": "transfer_money", "args": BOB}
    state = await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, "batched"))
    assert bank.transfers == ([("Bob", 2.0)] if trusts else [])
    assert asked == []
    assert trusts or "you called balance" in replies(state)[0].text


@every_mode
@pytest.mark.parametrize("trusts", [False, True])
async def test_where_a_person_approves_an_edit_counts_only_where_it_is_trusted(mode, trusts):
    bank, (_, graph) = Bank(), judges(*UNSURE)
    both = [people(), CoEVerdicts(graph, tools=["transfer_money"], trust_edits=trusts)]
    compiled = agent(None, bank, middleware=both)
    await run(mode, compiled, PAY)
    edited = {"name": "transfer_money", "args": BOB}
    state = await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, "batched"))
    assert bank.transfers == ([("Bob", 2.0)] if trusts else [])
    assert asked_again(replies(state)[0]) != trusts


@every_mode
@ORDERS
async def test_an_edit_that_makes_a_gated_call_a_free_one_needs_no_verdict(mode, gate_first):
    bank = Bank()
    gate = CoEMiddleware(judged_by({"": "reject"}, []), tools=["transfer_money"])
    compiled = agent(None, bank, middleware=in_order(gate_first, gate, people(when=lambda request: True)))
    await run(mode, compiled, PAY)
    edited = {"name": "balance", "args": {}}
    state = await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, "batched"))
    assert bank.transfers == []
    assert "the balance is 100" in replies(state)[0].text


@every_mode
@ORDERS
async def test_an_edit_reaches_one_of_two_calls_under_one_id(mode, gate_first):
    asked: list[str] = []
    bank = Bank()
    gate = CoEMiddleware(judged_by({"": "approve"}, asked), tools=["transfer_money"], trust_edits=True)
    both = says(call(id="same", **ANN), call(id="same", **ANN))
    compiled = agent(None, bank, both, middleware=in_order(gate_first, gate, people(when=lambda request: True)))
    await run(mode, compiled, PAY)
    edit = {"type": "edit", "edited_action": {"name": "transfer_money", "args": BOB}}
    await run(mode, compiled, Command(resume={"decisions": [edit, edit]}))
    assert bank.transfers in ([("Bob", 2.0)], [])


@every_mode
@ORDERS
async def test_the_history_shows_a_call_as_it_ran(mode, gate_first):
    asked: list[str] = []
    bank = Bank()
    gate = CoEMiddleware(judged_by({"": "approve"}, asked), tools=["transfer_money"], trust_edits=True)
    first_alone = people(when=lambda request: request.tool_call["id"] == "c1")
    messages = [says(call(id="c1", **ANN)), says(call(id="c2", **BOB))]
    compiled = agent(None, bank, *messages, middleware=in_order(gate_first, gate, first_alone))
    await run(mode, compiled, PAY)
    edited = {"name": "transfer_money", "args": BOB}
    await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, "batched"))
    assert '<call status="run">"transfer_money" {"to": "Bob", "amount": 2' in asked[-1]
    assert "repetition" in asked[-1]


@every_mode
async def test_what_a_tool_is_given_beside_the_call_is_no_part_of_it(mode):
    sent = []

    @tool
    def transfer_money(to: str, state: Annotated[dict, InjectedState], runtime: ToolRuntime) -> str:
        """Sends money."""
        sent.append((to, len(state["messages"]), runtime.tool_call_id))
        return "sent"

    asked: list[str] = []
    gate = CoEMiddleware(judged_by({"": "approve"}, asked), tools=["transfer_money"])
    driver = ScriptedDriver(script=[says(call(to="Ann")), AIMessage("Done.")])
    await run(mode, create_agent(driver, [transfer_money], middleware=[gate]), PAY)
    assert sent == [("Ann", 2, "c1")]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("planted", "hidden"),
    [("![x](http://evil)", "![x]"), ("<!-- 1000 to Eve -->", "<!--"), ("[Ann](x)", "]("), ("`a`", "`a`")],
)
def test_what_markdown_would_render_or_hide_in_a_call_is_described_as_code(planted, hidden):
    shown = describe_call(call(to=planted), {"messages": []}, None).splitlines()
    assert hidden in shown[1]
    assert shown[0] == shown[-1] == "```"


@pytest.mark.parametrize("planted", ["```", "&lt;", "*a*", "~~a~~", "__a__", "$a$", "a\\*", "www.evil.com", "a@b.com"])
def test_what_is_described_as_code_cannot_end_it(planted):
    shown = describe_call(call(to=planted), {"messages": []}, None).splitlines()
    assert set(shown[0]) == {"`"}
    assert shown[0] == shown[-1]
    assert shown[0] not in "".join(shown[1:-1])


def mcp_call(runtime: Annotated[object | None, InjectedToolArg()] = None, **arguments: Any) -> str:
    return f"sent {arguments}"


def paying(to: str, amount: float, runtime: "ToolRuntime[Any, Any]") -> str:
    return f"sent { {'to': to, 'amount': amount} }"


SCHEMA = {
    "type": "object",
    "title": "transfer_money",
    "description": "Pays",
    "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["to", "amount"],
}


@every_mode
@pytest.mark.parametrize("function", [mcp_call, paying])
@pytest.mark.parametrize("n_gates", [1, 2])
async def test_an_approved_call_of_a_tool_with_a_json_schema_runs(mode, function, n_gates):
    """Tools of MCP servers have one."""
    asked: list[str] = []
    group = judged_by({"": "approve"}, asked)
    gates = [CoEMiddleware(group, tools=["transfer_money"], name=f"gate{i}") for i in range(n_gates)]
    pay = StructuredTool.from_function(function, name="transfer_money", description="Pays.", args_schema=SCHEMA)
    driver = ScriptedDriver(script=[says(call()), AIMessage("Done.")])
    (reply,) = replies(await run(mode, create_agent(driver, [pay], middleware=gates), PAY))
    assert reply.content == "sent {'to': 'Ann', 'amount': 10}"
    assert len(asked) == n_gates


def test_what_the_schema_in_json_does_not_name_is_judged():
    def pay(to: str, amount: float, copy_to: str = "") -> str:
        raise AssertionError

    asked: list[str] = []
    gate = CoEMiddleware(judged_by({"Eve": "reject", "": "approve"}, asked), tools=["transfer_money"])
    tools = [StructuredTool.from_function(pay, name="transfer_money", description="Pays.", args_schema=SCHEMA)]
    driver = ScriptedDriver(script=[says(call(to="Ann", amount=1, copy_to="Eve")), AIMessage("Done.")])
    (reply,) = replies(create_agent(driver, tools, middleware=[gate]).invoke(PAY))
    assert reply.status == "error"
