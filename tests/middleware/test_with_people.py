"""The stock HumanInTheLoopMiddleware beside a gate."""

from typing import Annotated, Any

import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.tools import InjectedToolArg, StructuredTool, tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from pydantic import create_model
from pydantic.v1 import create_model as create_model_v1

from coe_agents import CoEMiddleware
from coe_agents.middleware import describe_call
from coe_agents.middleware.parsing import injected_arguments
from tests.middleware.agents import AGAINST, SURE, THREAD, UNSURE, Bank, agent, judged_by, judges
from tests.middleware.calls import ANN, BOB, LOOKS, PAY, call, replies, says
from tests.middleware.people import decide, edit, people

GATED = ["transfer_money"]
every_interrupt = pytest.mark.parametrize("interrupt_mode", ["batched", "per_call"])
every_order = pytest.mark.parametrize(
    "gate_first", [True, False], ids=["gate-people", "people-gate"]
)


def decided(decision, interrupt_mode):
    return decide(decision) if interrupt_mode == "batched" else Command(resume=decision)


def shown(paused, interrupt_mode):
    (asked,) = paused["__interrupt__"]
    return (asked.value["action_requests"][0] if interrupt_mode == "batched" else asked.value)[
        "description"
    ]


@every_interrupt
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (SURE, "the group approves: "),
        (UNSURE, "the group is not confident: "),
        (AGAINST, "the group is confident and does"),
    ],
)
def test_a_person_is_shown_the_verdict_of_the_group(interrupt_mode, said, why, bank):
    _, graph = judges(*said)
    compiled = agent(
        None, bank, middleware=[people(mode=interrupt_mode), CoEMiddleware(graph, tools=GATED)]
    )
    description = shown(compiled.invoke(PAY, THREAD), interrupt_mode)
    assert description.startswith(f'transfer_money {{"to": "Ann", "amount": 10}}\n{why}')


@pytest.mark.parametrize("middleware", ["no gate", "gate of another tool", "gate that comes later"])
def test_a_person_knows_where_no_verdict_is(middleware, bank):
    review = people()
    tools = ["balance"] if middleware == "gate of another tool" else GATED
    gate = CoEMiddleware(judges(*SURE)[1], tools=tools)
    in_order = [review, gate]
    if middleware == "no gate":
        in_order = [review]
    elif middleware == "gate that comes later":
        in_order = [gate, review]
    paused = agent(None, bank, middleware=in_order).invoke(PAY, THREAD)
    assert shown(paused, "batched").endswith("the group was not asked")
    assert bank.transfers == []


@pytest.mark.parametrize(
    ("said", "transfers"), [(SURE, [("Ann", 10.0)]), (UNSURE, []), (AGAINST, [])]
)
def test_person_and_group_must_both_approve(said, transfers, bank):
    agents, graph = judges(*said)
    gate = CoEMiddleware(graph, tools=GATED)
    compiled = agent(None, bank, middleware=[people(), gate])
    assert compiled.invoke(PAY, THREAD)["__interrupt__"]
    compiled.invoke(decide({"type": "approve"}), THREAD)
    assert bank.transfers == transfers
    assert len(agents[0].requests) == 1


def after_edit(
    verdict, change, *messages, gate_first=True, review=None, interrupt_mode="batched", trusts=False
):
    """The transfers, the reply and the questions, where a person makes this of a call."""
    asked: list[str] = []
    bank = Bank()
    gate = CoEMiddleware(judged_by({"": verdict}, asked), tools=GATED, trust_edits=trusts)
    review = review or people(mode=interrupt_mode)
    in_order = [gate, review] if gate_first else [review, gate]
    compiled = agent(None, bank, *messages, middleware=in_order)
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke(decided(change, interrupt_mode), THREAD)
    (reply, *_) = replies(state)
    return bank.transfers, reply.text, asked


def is_asked_for_again(text):
    return "has not vouched for this call" in text and "Propose the call" in text


@every_interrupt
@every_order
@pytest.mark.parametrize("trusts", [False, True])
def test_an_edit_made_elsewhere_counts_only_where_it_is_trusted(interrupt_mode, gate_first, trusts):
    options = {"gate_first": gate_first, "interrupt_mode": interrupt_mode, "trusts": trusts}
    transfers, told, asked = after_edit("approve", edit(**BOB), **options)
    # one that is made where the tool is called cannot be told from a change by other middleware
    runs = trusts and interrupt_mode == "batched"
    assert transfers == ([("Bob", 2.0)] if runs else [])
    assert len(asked) == 1
    assert is_asked_for_again(told) != runs
    assert runs or "to, amount changed" in told


@every_order
@pytest.mark.parametrize("said", ["reject", None])
def test_a_trusted_edit_opens_no_gate_that_was_closed_to_the_call(gate_first, said):
    transfers, told, _ = after_edit(said, edit(**BOB), gate_first=gate_first, trusts=True)
    assert transfers == []
    assert is_asked_for_again(told)


@every_order
@pytest.mark.parametrize("trusts", [False, True])
def test_an_edit_that_makes_a_free_call_a_gated_one(gate_first, trusts):
    review = HumanInTheLoopMiddleware({"balance": {"allowed_decisions": ["edit"]}})
    options = {"gate_first": gate_first, "review": review, "trusts": trusts}
    transfers, told, asked = after_edit("approve", edit(**BOB), says(LOOKS), **options)
    assert transfers == ([("Bob", 2.0)] if trusts else [])
    assert asked == []
    assert trusts or "you called balance" in told


def test_all_free_calls_that_a_trusted_person_makes_gated_ones_run_at_each_of_several_gates(bank):
    gates = [
        CoEMiddleware(judged_by({}, []), tools=GATED, trust_edits=True, name=name)
        for name in ("one", "two")
    ]
    review = HumanInTheLoopMiddleware({"balance": {"allowed_decisions": ["edit"]}})
    looks_twice = says(LOOKS, {**LOOKS, "id": "b2"})
    compiled = agent(None, bank, looks_twice, looks_twice, middleware=[*gates, review])
    to_both = decide(edit(**ANN), edit(**BOB))
    for resume in (PAY, to_both, to_both):
        compiled.invoke(resume, THREAD)
    to_ann = ("Ann", 1.0)
    to_bob = ("Bob", 2.0)
    assert sorted(bank.transfers) == [to_ann, to_ann, to_bob, to_bob]


@every_order
def test_an_edit_that_makes_a_gated_call_a_free_one_needs_no_verdict(gate_first):
    transfers, told, _ = after_edit("reject", edit("balance"), gate_first=gate_first)
    assert transfers == []
    assert "the balance is 100" in told


@every_order
def test_an_edit_reaches_one_of_two_calls_under_one_id(gate_first, bank):
    gate = CoEMiddleware(judged_by({"": "approve"}, []), tools=GATED, trust_edits=True)
    review = people()
    in_order = [gate, review] if gate_first else [review, gate]
    pays = call(id="same", **ANN)
    compiled = agent(None, bank, says(pays, pays), middleware=in_order)
    compiled.invoke(PAY, THREAD)
    compiled.invoke(decide(edit(**BOB), edit(**BOB)), THREAD)
    assert bank.transfers in ([("Bob", 2.0)], [])


@pytest.mark.parametrize(
    "planted",
    [
        "![x](http://evil)",
        "<!-- 1000 to Eve -->",
        "[Ann](x)",
        "`a`",
        "```",
        "&lt;",
        "*a*",
        "~~a~~",
        "__a__",
        "$a$",
        "a\\*",
        "www.evil.com",
        "a@b.com",
    ],
)
def test_what_markdown_would_render_or_hide_in_a_call_is_described_as_code_that_it_cannot_end(
    planted,
):
    described = describe_call(call(to=planted), {"messages": []}, None)
    first, *inner, last = described.splitlines()
    assert set(first) == {"`"}
    assert first == last
    assert first not in "".join(inner)


# arguments beside the call


def test_what_a_tool_is_given_beside_the_call_is_no_part_of_it():
    sent = []
    asked = list[str]()
    bank = Bank()

    @tool
    def transfer_money(to: str, state: Annotated[dict, InjectedState], runtime: ToolRuntime) -> str:
        """Sends money."""
        sent.append((to, len(state["messages"]), runtime.tool_call_id))
        return "sent"

    bank.tools = [transfer_money]
    paying_ann = says(call(to="Ann"))
    approving = judged_by({"": "approve"}, asked)
    agent(approving, bank, paying_ann).invoke(PAY, THREAD)
    assert sent == [("Ann", 2, "c1")]
    assert len(asked) == 1

    class Renames(AgentMiddleware):
        """Of a call of another tool its own values are replaced, not those of this one."""

        def wrap_tool_call(self, request, handler):
            args = {"to": "Ann", "state": {"messages": []}, "runtime": request.runtime}
            renamed = {**request.tool_call, "name": "balance", "args": args}
            return handler(request.override(tool_call=renamed))

    gate = CoEMiddleware(judged_by({"": "approve"}, []), tools=GATED)
    compiled = agent(None, bank, paying_ann, middleware=[gate, Renames()])
    compiled.invoke(PAY, THREAD)
    assert len(sent) == 1


def mcp_call(runtime: Annotated[object | None, InjectedToolArg()] = None, **arguments: Any) -> str:
    return f"sent {arguments}"


def paying(to: str, amount: float, runtime: "ToolRuntime[Any, Any]") -> str:
    return f"sent { {'to': to, 'amount': amount} }"


def stateful(to: str, amount: float, state: Annotated[dict[str, Any], InjectedState]) -> str:
    return f"sent { {'to': to, 'amount': amount} }"


def marked(to: str, amount: float, state: Annotated[dict[str, Any], InjectedState()]) -> str:
    return f"sent { {'to': to, 'amount': amount} }"


PROPERTIES = {"to": {"type": "string"}, "amount": {"type": "number"}}
SCHEMA = {
    "type": "object",
    "title": "transfer_money",
    "description": "Pays",
    "required": ["to", "amount"],
}
SCHEMA["properties"] = PROPERTIES


def test_the_arguments_that_an_agent_replaces_are_found_by_a_schema_or_the_function():
    def pay(to: str, runtime: object): ...

    pay.__annotations__["to"] = "Unknown"
    own = create_model("Own", to=str, state=Annotated[dict, InjectedState])
    optional = create_model("Optional", to=str, seen=Annotated[dict, InjectedState] | None)
    plain = create_model("Plain", to=str, state=dict)
    only_to = create_model("Only", to=str)
    of_version_1 = create_model_v1("Old", to=(str, ...))
    for schema, func, replaced in (
        (own, None, {"state"}),
        (of_version_1, None, set()),
        (SCHEMA, pay, {"runtime"}),
        # the schema does not name what the function is passed
        (only_to, stateful, {"state"}),
        (only_to, paying, {"runtime"}),
        (optional, stateful, {"seen", "state"}),
        # what the schema declares comes from the model, whatever the function says
        (plain, stateful, set()),
    ):
        tool = StructuredTool(name="f", description="f", args_schema=schema, func=func)
        assert injected_arguments(tool) == replaced


@pytest.mark.parametrize("function", [mcp_call, paying, stateful, marked])
def test_an_approved_call_of_a_tool_with_a_json_schema_runs_and_what_that_does_not_name_is_judged(
    function,
):
    """Tools of MCP servers have one."""
    asked: list[str] = []
    group = judged_by({"Eve": "reject", "": "approve"}, asked)
    gates = [CoEMiddleware(group, tools=GATED, name=name) for name in ("one", "two")]
    bank = Bank()
    options = {"name": "transfer_money", "description": "Pays.", "args_schema": SCHEMA}
    bank.tools = [StructuredTool.from_function(function, **options)]
    pays = says(call())
    with_a_copy = says(call(**ANN, copy_to="Eve"))
    compiled = agent(None, bank, pays, with_a_copy, middleware=gates)
    first, second = replies(compiled.invoke(PAY, THREAD))
    assert first.text == "sent {'to': 'Ann', 'amount': 10}"
    assert second.status == "error"
    assert len(asked) == 4


async def unmarked(to: str, amount: float, runtime: Any) -> str:
    return f"sent { {'to': to, 'amount': amount} }"


async def plain(to: str, amount: float, given: ToolRuntime) -> str:
    return f"sent { {'to': to, 'amount': amount} }"


async def generic(to: str, amount: float, given: ToolRuntime[Any, Any]) -> str:
    return f"sent { {'to': to, 'amount': amount} }"


@pytest.mark.parametrize("function", [unmarked, plain, generic])
async def test_an_approved_call_of_an_asynchronous_tool_with_a_json_schema_runs(function, bank):
    options = {"name": "transfer_money", "description": "Pays.", "args_schema": SCHEMA}
    bank.tools = [StructuredTool.from_function(coroutine=function, **options)]
    approving = judged_by({"": "approve"}, [])
    state = await agent(approving, bank).ainvoke(PAY, THREAD)
    [reply] = replies(state)
    assert reply.text == "sent {'to': 'Ann', 'amount': 10}"


@every_order
def test_a_trusted_edit_of_a_closed_call_does_not_run_because_another_one_of_the_message_is_open(
    gate_first, bank
):
    group = judged_by({"Ann": "approve", "": "reject"}, [])
    gate = CoEMiddleware(group, tools=GATED, trust_edits=True)
    review = people()
    in_order = [gate, review] if gate_first else [review, gate]
    both = says(call(id="c1", **ANN), call(id="c2", **BOB))
    compiled = agent(None, bank, both, middleware=in_order)
    compiled.invoke(PAY, THREAD)
    to_cy = edit(to="Cy", amount=3)
    state = compiled.invoke(decide({"type": "reject"}, to_cy), THREAD)
    assert bank.transfers == []
    assert any(is_asked_for_again(reply.text) for reply in replies(state))


@pytest.mark.parametrize("said", [("approve", "reject"), ("reject", "approve")])
def test_of_two_groups_a_person_is_shown_the_verdict_that_does_not_approve(said, bank):
    gates = []
    for verdict in said:
        group = judged_by({"": verdict}, [])
        gates.append(CoEMiddleware(group, tools=GATED, name=f"of {verdict}"))
    compiled = agent(None, bank, middleware=[people(), *gates])
    paused = compiled.invoke(PAY, THREAD)
    assert "the group is confident and does not approve" in shown(paused, "batched")
    assert bank.transfers == []
