"""People decide where the group is uncertain, or write another message instead."""

import json
from datetime import date

import pytest
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import GraphOptions
from coe_agents.graph.people import Edit, _as_proposed
from coe_agents.graph.state import CoEState
from coe_agents.middleware.council_review import _check_edit
from coe_agents.middleware.open_calls import close_calls
from tests.doubles import ScriptedAgent
from tests.middleware.agents import AGAINST, SURE, THREAD, UNSURE, Bank, agent, judged_by, judges
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, Weather, call, replies, says, weather
from tests.middleware.council import Member, council_agent, members
from tests.middleware.people import APPROVE, decide, edit, requests

NINE = [[call(to="Ann", amount=9)], "Done."]
REJECT = {"type": "reject", "message": "too much"}
ASKING = {"on_uncertain": "interrupt"}
KEEPING = JsonPlusSerializer(allowed_msgpack_modules=[Weather])


def asking_gate(*messages, verdicts=None, graph=None, **options):
    """A gate with a group that is uncertain, the questions that it was asked, and the bank."""
    bank = Bank()
    asked = list[str]()
    graph = graph or judged_by(verdicts or {"": None}, asked)
    return agent(graph, bank, *messages, **ASKING, **options), asked, bank


def asking_council(*messages, agents=None, **options):
    """A council whose members propose 9 where the driver proposes 10, the members, and the bank."""
    bank = Bank()
    agents = agents or members(NINE, NINE)
    messages = messages or [says(call())]
    compiled = council_agent(agents, bank, *messages, DONE, **ASKING, **options)
    return compiled, agents, bank


# what a person is asked


def test_a_person_is_asked_in_langchains_form_and_the_group_is_not_asked_again():
    agents, graph = judges(*UNSURE)
    compiled, _, bank = asking_gate(graph=graph)
    paused = compiled.invoke(PAY, THREAD)
    value = paused["__interrupt__"][0].value
    assert set(value) == {"action_requests", "review_configs"}
    (request,) = requests(paused)
    assert request["name"] == "transfer_money"
    assert request["args"] == {"to": "Ann", "amount": 10}
    [config] = value["review_configs"]
    assert config["action_name"] == "transfer_money"
    assert config["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    for part in (
        'transfer_money {"to": "Ann", "amount": 10}',
        "the group is not confident: ",
        "judge0: approve 100%\njudge1: reject 100%",
        '<arguments>{"to": "Ann", "amount": 10}</arguments>\nIs this call right',
    ):
        assert part in request["description"]
    compiled.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 10.0)]
    assert [len(judge.requests) for judge in agents] == [1, 1]


@pytest.mark.parametrize("policy", [0.5, float("inf")])
def test_a_person_is_asked_where_the_replies_are_no_verdict(policy):
    said = [
        ScriptedAgent("a", ["It went well."]),
        ScriptedAgent("b", ["It went well."]),
        ScriptedAgent("c", ["reject"]),
    ]
    graph = create_coe_graph(
        said[: 2 if policy == 0.5 else 3],
        clusterer=NormalizedMatch(),
        policy=ThresholdPolicy(policy),
    )
    compiled, _, bank = asking_gate(graph=graph.compile())
    (request,) = requests(compiled.invoke(PAY, THREAD))
    assert "the group is not confident: most replies are no verdict" in request["description"]
    assert bank.transfers == []
    compiled.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 10.0)]


def test_a_council_asks_about_the_very_message_that_goes_on_and_a_strict_checkpointer_keeps_it(
    caplog,
):
    text = {"type": "text", "text": "I pay."}
    reasoning = {"type": "reasoning", "reasoning": "Ten."}
    blocks = [text, reasoning]
    said = AIMessage(blocks, tool_calls=[call(to="Ann", amount=10)], id="m1")
    without_modules = JsonPlusSerializer(allowed_msgpack_modules=None)
    strict = InMemorySaver(serde=without_modules)
    compiled, agents, bank = asking_council(said, saver=strict)
    paused = compiled.invoke(PAY, THREAD)
    (request,) = requests(paused)
    assert request["name"] == "transfer_money"
    assert request["args"] == {"to": "Ann", "amount": 10}
    (config,) = paused["__interrupt__"][0].value["review_configs"]
    assert config == {
        "action_name": "transfer_money",
        "allowed_decisions": ["approve", "edit", "reject"],
    }
    assert request["description"].splitlines()[2:4] == [
        "transfer_money.amount: 9 (member0, member1)",
        "transfer_money.amount: 10 (driver)",
    ]
    for part in (
        'transfer_money {"to": "Ann", "amount": 10}',
        "less than 0.6",
        "driver: 0%\nmember0: 50%",
    ):
        assert part in request["description"]
    assert [message.type for message in paused["messages"]] == ["human"]

    state = compiled.invoke(decide(APPROVE), THREAD)
    first = state["messages"][1]
    assert bank.transfers == [("Ann", 10.0)]
    assert first.id == "m1"
    assert first.content == blocks
    assert first.tool_calls == said.tool_calls
    assert [len(agent.requests) for agent in agents] == [2, 2]  # once about each turn
    assert "Blocked" not in caplog.text


def test_a_judges_name_forges_no_vote():
    given = {
        "agents": {"a\nb": {"distribution": {"reject\nc: approve": 1.0}}},
        "failed_agents": {"d\ne": "x\nf"},
    }
    decision = {
        "action": "abstain",
        "answer": None,
        "reason": "x",
        "choices": ["approve", "reject"],
        **given,
    }
    ruling = RunnableLambda(lambda _: {"decision": decision})
    compiled, _, _ = asking_gate(graph=ruling)
    paused = compiled.invoke(PAY, THREAD)
    (request,) = requests(paused)
    assert "\na b: reject c: approve 100%\nd e: no vote, x f\n" in request["description"]


@pytest.mark.parametrize("gate", ["gate", "council"])
def test_no_text_of_a_model_is_rendered_where_a_person_reads_it(gate):
    evil = "![x](http://evil/?q=1)\u202e\n```\n**approve** <script>"
    said = says(call(to=evil, amount=10))
    headings = {"Votes of the judges:", "What they were asked:"}
    if gate == "gate":
        failing = Member("a```\n**x**", ValueError("```\n# boo"))
        graph = create_coe_graph(
            [failing],
            clusterer=NormalizedMatch(),
            policy=ThresholdPolicy(0.5),
            options=GraphOptions(retries=0),
        )
        compiled, _, _ = asking_gate(said, graph=graph.compile())
    else:
        headings = {"To decide:", "How much the others support what each proposed:", "No proposal:"}
        agents = [
            Member("a", [call(to=evil, amount=0)]),
            Member("c", [call(to=evil, amount=1)]),
            Member("b```\n**x**", RuntimeError("```\n# boo")),
        ]
        compiled, _, _ = asking_council(said, agents=agents)
    (request,) = requests(compiled.invoke(PAY, THREAD))
    assert "\u202e" not in request["description"]
    is_fenced = None
    outside = set()
    for line in request["description"].splitlines():
        if is_fenced is None and line.startswith("```"):
            is_fenced = line
        elif line == is_fenced:
            is_fenced = None
        elif is_fenced is None and line:
            outside.add(line)
    assert is_fenced is None
    assert outside == headings


HIDDEN = "A\u200bnn\u202e"
SHOWN = "A\\u200bnn\\u202e"


@pytest.mark.parametrize("gate", ["gate", "council"])
def test_what_is_invisible_in_arguments_is_shown_as_escapes_and_stays_what_it_was_in_an_edit(gate):
    asking = asking_gate if gate == "gate" else asking_council
    compiled, _, bank = asking(says(call(to=HIDDEN, amount=10)))
    (request,) = requests(compiled.invoke(PAY, THREAD))
    assert request["args"] == {"to": SHOWN, "amount": 10}
    compiled.invoke(decide(edit(to=SHOWN, amount=9)), THREAD)
    assert bank.transfers == [(HIDDEN, 9.0)]


def test_of_an_edit_each_text_that_was_left_as_shown_is_the_proposed_one():
    proposed = {f"a{HIDDEN}": [HIDDEN, {"b": HIDDEN}, HIDDEN], "c": True, "d": HIDDEN}
    changed = ["x", {"b": SHOWN, "new": SHOWN}, SHOWN, SHOWN]
    edited = {f"a{SHOWN}": changed, "c": 1, "d": [SHOWN]}
    assert _as_proposed(edited, proposed) == {
        f"a{HIDDEN}": ["x", {"b": HIDDEN, "new": SHOWN}, HIDDEN, SHOWN],
        "c": 1,
        "d": [SHOWN],
    }
    assert _as_proposed([SHOWN], [HIDDEN, HIDDEN]) == [HIDDEN]


# what follows from the decisions


@pytest.mark.parametrize("gate", ["gate", "council"])
def test_all_uncertain_calls_of_a_message_are_one_interrupt(gate):
    ann = call(id="c1", **ANN)
    bob = call(id="c2", **BOB)
    cy = call(id="c3", to="Cy", amount=3)
    three = says(ann, bob, cy)
    if gate == "gate":
        compiled, _, bank = asking_gate(three, verdicts={"Bob": "approve", "": None})
    else:
        compiled, _, bank = asking_council(three)
    paused = compiled.invoke(PAY, THREAD)
    people = [request["args"]["to"] for request in requests(paused)]
    assert people == (["Ann", "Cy"] if gate == "gate" else ["Ann", "Bob", "Cy"])
    assert bank.transfers == []  # nothing runs before all are settled

    approvals = [APPROVE] * (len(people) - 1)
    state = compiled.invoke(decide(REJECT, *approvals), THREAD)
    assert sorted(bank.transfers) == [("Bob", 2.0), ("Cy", 3.0)]
    told = {reply.tool_call_id: reply for reply in replies(state)}
    assert told["c1"].status == "error"
    assert told["c2"].status == "success"
    assert told["c3"].status == "success"
    assert told["c1"].text.startswith("transfer_money was not run: a person rejected it: too much.")
    assert state["messages"][-1].text == "Done."


@pytest.mark.wording
def test_the_word_of_a_person_is_followed_by_one_full_stop():
    for gate in (asking_gate, asking_council):
        compiled, *_ = gate()
        compiled.invoke(PAY, THREAD)
        rejection = {"type": "reject", "message": "No."}
        state = compiled.invoke(decide(rejection), THREAD)
        (reply,) = replies(state)
        assert "a person rejected it: No. Do not repeat the call unchanged." in reply.text


def test_a_person_may_answer_in_the_tools_place_and_an_edit_to_a_free_tool_needs_no_verdict():
    compiled, asked, bank = asking_gate(says(call()), says(call(id="c2")))
    compiled.invoke(PAY, THREAD)
    in_cash = {"type": "respond", "message": "I paid her in cash."}
    state = compiled.invoke(decide(in_cash), THREAD)
    assert bank.transfers == []
    [reply] = replies(state)
    assert reply.text == "I paid her in cash."
    assert reply.status == "success"
    assert '<call status="blocked">' in asked[1]

    compiled, asked, bank = asking_gate()
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke(decide(edit("balance")), THREAD)
    assert [reply.text for reply in replies(state)] == ["the balance is 100"]
    assert bank.transfers == []
    assert len(asked) == 1


WRONG_EDITS = [
    edit("transfer_money", amount=5, too="Bob"),
    edit("transfer_money", to="Ann", amount=date(2026, 1, 1)),
    edit("pay"),
]


def test_an_edit_is_taken_where_it_is_not_known_which_tools_there_are():
    """As in another process than the one that asked the model."""
    compiled, _, _ = asking_gate(verdicts={"": None})
    compiled.invoke(PAY, THREAD)
    anew, _, bank = asking_gate(verdicts={"": None})
    anew.checkpointer = compiled.checkpointer
    anew.invoke(decide(edit(to="Bob", amount=2)), THREAD)
    assert bank.transfers == [("Bob", 2.0)]


@pytest.mark.parametrize("wrong", WRONG_EDITS)
def test_an_edit_that_fits_no_tool_is_asked_for_again(wrong):
    compiled, _, bank = asking_gate()
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke(decide(wrong), THREAD)
    (asked,) = requests(state)
    assert "Your last reply could not be used" in asked["description"]
    compiled.invoke(decide(APPROVE), THREAD)
    assert len(bank.transfers) == 1


def test_of_two_calls_under_one_id_a_person_is_asked_about_the_first_alone():
    compiled, _, bank = asking_gate(says(call(**ANN), call(**BOB)))
    paused = compiled.invoke(PAY, THREAD)
    [request] = requests(paused)
    assert request["args"] == ANN
    compiled.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 1.0)]


@pytest.mark.parametrize(
    ("bob", "transfers"), [("approve", [("Bob", 2.0)]), ("reject", []), (None, [("Bob", 2.0)])]
)
def test_an_edited_call_is_judged_as_it_then_is_and_runs_unless_the_group_is_against_it(
    bob, transfers
):
    compiled, asked, bank = asking_gate(verdicts={"Ann": None, "Bob": bob})
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke(decide(edit(**BOB)), THREAD)
    assert "__interrupt__" not in state
    assert bank.transfers == transfers
    assert len(asked) == 2
    [edited] = state["messages"][1].tool_calls
    assert edited["args"] == BOB


def test_of_two_calls_a_person_approves_one_and_edits_the_other(bank):
    both = says(LOOKS, call(id="c1", **ANN), call(id="c2", **BOB))
    group = judged_by({"Ann": None, "Bob": None, "Cy": "approve"}, [])
    compiled = agent(group, bank, both, on_uncertain="interrupt")
    paused = compiled.invoke(PAY, THREAD)
    assert len(requests(paused)) == 2

    to_cy = edit(to="Cy", amount=3)
    compiled.invoke(decide(APPROVE, to_cy), THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Cy", 3.0)]


@pytest.mark.parametrize(("said", "transfers"), [(SURE, [("Ann", 10.0)]), (AGAINST, [])])
def test_a_person_is_not_asked_what_the_group_is_sure_of(said, transfers):
    _, graph = judges(*said)
    compiled, _, bank = asking_gate(graph=graph)
    state = compiled.invoke(PAY, THREAD)
    assert "__interrupt__" not in state
    assert bank.transfers == transfers


def test_at_a_council_an_edited_call_runs_as_edited_and_a_text_beside_rejected_ones_is_withheld():
    second = call(id="c2", **ANN)
    compiled, _, bank = asking_council(says(call(), second))
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke(decide(edit(**BOB), APPROVE), THREAD, interrupt_before=["tools"])
    decision = state["council"]
    assert decision["action"] == "answer"
    assert decision["decided_by"] == "person"
    assert decision["proposer"] == "driver"
    assert decision["contested"] is None
    assert decision["calls"] == [call(**BOB), second]
    assert decision["cause"] == "person"

    state = compiled.invoke(None, THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Bob", 2.0)]
    edited, _ = state["messages"][1].tool_calls
    assert edited["args"] == BOB
    assert edited["id"] == "c1"

    pays_and_says_so = says(call(), text="I paid.")
    compiled, _, bank = asking_council(pays_and_says_so, tools=["transfer_money"])
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke(decide(REJECT), THREAD, interrupt_before=["model"])
    assert state["council"]["action"] == "abstain"
    assert state["council"]["calls"] is None

    state = compiled.invoke(None, THREAD)
    assert bank.transfers == []
    texts = [message.text for message in state["messages"] if message.type == "ai"]
    assert texts == ["", "Done."]


def test_at_a_council_what_waits_is_decided_so_far_without_the_values_that_others_proposed():
    said = says(LOOKS, call())
    compiled, _, bank = asking_council(said, tools=["transfer_money"])
    waiting = compiled.invoke(PAY, THREAD)["council"]
    assert waiting["action"] == "abstain"
    assert waiting["contested"] is None
    compiled.invoke(decide(APPROVE, APPROVE), THREAD)
    assert bank.transfers == [("Ann", 10.0)]


def test_at_a_council_a_person_decides_on_each_proposal_of_a_run():
    twice_nine = [NINE[0], NINE[0], "Done."]
    pays_ann = says(call(**ANN))
    compiled, _, bank = asking_council(
        pays_ann,
        pays_ann,
        agents=members(twice_nine),
        tools=["transfer_money", "Weather"],
        response_format=ToolStrategy(Weather),
    )
    for resume in (PAY, decide(APPROVE), decide(APPROVE)):
        compiled.invoke(resume, THREAD)
    assert bank.transfers == [("Ann", 1.0)] * 2


def test_an_edit_is_taken_as_it_is_though_the_schema_of_the_tool_reads_it_in_two_ways():
    either = {"anyOf": [{"properties": {"n": {"default": n}}} for n in (1, 2)]}
    tool = {"name": "f", "parameters": {"properties": {"x": either}}}
    own = Edit.model_validate(edit("f", x={}))
    _check_edit("f", own, {"tools": [tool]}, is_text=False)


TEXTS = [(APPROVE, "I have paid."), (edit("answer", text="Not yet."), "Not yet.")]


@pytest.mark.parametrize(("decision", "text"), [*TEXTS, (REJECT, None)])
def test_a_person_decides_on_a_text(decision, text):
    compiled, _, _ = asking_council(AIMessage("I have paid."))
    paused = compiled.invoke(PAY, THREAD)
    (request,) = requests(paused)
    assert request["name"] == "answer"
    assert request["args"] == {"text": "I have paid."}
    assert [message.type for message in paused["messages"]] == ["human"]
    for unfit in ({"text": 3}, {}, {"text": "Not yet.", "memo": "x"}):
        state = compiled.invoke(decide(edit("answer", **unfit)), THREAD)
        assert "__interrupt__" in state
    state = compiled.invoke(decide(decision), THREAD)
    (message,) = state["messages"][1:]
    assert message.type == "ai"
    is_withheld = "coe_withheld" in message.response_metadata
    assert is_withheld is (text is None)
    if text is not None:
        assert message.text == text
    if decision is REJECT:
        assert state["council"]["action"] == "abstain"
        assert state["council"]["calls"] is None
    else:
        assert state["council"]["action"] == "answer"
        assert state["council"]["calls"] == []


@pytest.mark.parametrize(
    ("decision", "given"), [(APPROVE, True), (edit("answer", text="{}"), False), (REJECT, False)]
)
def test_a_structured_answer_in_a_text_waits_for_the_person(decision, given):
    saver = InMemorySaver(serde=KEEPING)
    form = ProviderStrategy(Weather)
    clear = AIMessage('{"sky": "clear"}')
    compiled, _, _ = asking_council(clear, response_format=form, saver=saver)
    paused = compiled.invoke(PAY, THREAD)
    assert paused.get("structured_response") is None

    state = compiled.invoke(decide(decision), THREAD)
    has_answer = state.get("structured_response") is not None
    assert has_answer is given


@pytest.mark.parametrize("decision", [APPROVE, edit("Weather", sky="cloudy"), REJECT])
def test_a_structured_answer_waits_for_the_person(decision):
    says_clear = says(weather("clear"))
    compiled, _, _ = asking_council(
        says_clear,
        says_clear,
        agents=members([[weather("cloudy")]]),
        response_format=ToolStrategy(Weather),
        saver=InMemorySaver(serde=KEEPING),
    )
    paused = compiled.invoke(PAY, THREAD)
    assert paused.get("structured_response") is None
    assert [message.type for message in paused["messages"]] == ["human"]
    (config,) = paused["__interrupt__"][0].value["review_configs"]
    assert config == {"action_name": "Weather", "allowed_decisions": ["approve", "reject"]}
    state = compiled.invoke(decide(decision), THREAD, interrupt_before=["model"])
    is_allowed = decision in (APPROVE, REJECT)
    assert ("__interrupt__" in state) is not is_allowed
    answer = Weather(sky="clear") if decision is APPROVE else None
    assert state.get("structured_response") == answer
    assert len(replies(state)) == is_allowed


# replies that cannot be used

UNFIT = {
    "a text": "approve",
    "too few": {"decisions": []},
    "too many": {"decisions": [APPROVE, APPROVE]},
    "no list": {"decisions": "approve"},
    "a list of texts": {"decisions": ["approve"]},
    "another type": {"decisions": [{"type": "approved"}]},
    "more than a type": {
        "decisions": [{**APPROVE, "edited_action": {"name": "transfer_money", "args": BOB}}]
    },
    "an edit without an action": {"decisions": [{"type": "edit"}]},
    "an edit without arguments": {
        "decisions": [{"type": "edit", "edited_action": {"name": "transfer_money"}}]
    },
    "a tool without a name": {
        "decisions": [{"type": "edit", "edited_action": {"name": "", "args": {}}}]
    },
    "no message": {"decisions": [{"type": "respond"}]},
}
UNFIT_FOR_A_COUNCIL = {
    "a text": "approve",
    "an answer": {"decisions": [{"type": "respond", "message": "done"}]},
    "another tool": {"decisions": [edit("balance")]},
    "an unknown argument": {"decisions": [edit(to="Bob", amount=2, memo="x")]},
    "not a number": {"decisions": [edit(to="Bob", amount=float("nan"))]},
    "no JSON": {"decisions": [edit(to=b"Bob", amount=2)]},
    "too deep": {"decisions": [edit(to=json.loads("[" * 40 + "]" * 40), amount=1)]},
}


@pytest.mark.parametrize(
    ("asking", "unfit"), [(asking_gate, UNFIT), (asking_council, UNFIT_FOR_A_COUNCIL)]
)
def test_after_a_reply_that_does_not_fit_the_person_is_asked_again(asking, unfit):
    compiled, asked, bank = asking()
    compiled.invoke(PAY, THREAD)
    for reply in unfit.values():
        again = compiled.invoke(Command(resume=reply), THREAD)
        (request,) = requests(again)
        assert request["description"].startswith("**Your last reply could not be used: ")
    assert bank.transfers == []
    compiled.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 10.0)]
    if asking is asking_gate:
        assert len(asked) == 1
    else:
        # a council about the last turn, too
        assert [len(member.requests) for member in asked] == [2, 2]


@pytest.mark.parametrize("type", ["respond", "nonsense"])
def test_a_person_is_told_the_decisions_that_are_allowed_and_no_others(type):
    """A council takes no answer in place of a call, so its form and its errors name none."""
    compiled, _, _ = asking_council()
    paused = compiled.invoke(PAY, THREAD)
    (asked,) = paused["__interrupt__"]
    assert "respond" not in json.dumps(asked.response_schema).casefold()
    reply = {"decisions": [{"type": type, "message": "done"}]}
    again = compiled.invoke(Command(resume=reply), THREAD)
    (request,) = requests(again)
    notice, *_ = request["description"].splitlines()
    told = f'"type" of decisions.0 must be one of approve, edit, reject; got "{type}". Choose one of them'
    assert told in notice


def test_a_group_that_asks_a_person_itself_is_resumed_without_being_sampled_again():
    agents, group = judges(*SURE)

    class Reply(BaseModel):
        answer: str

    def person(state):
        asked = interrupt({"question": state["asked_of_person"]}, response_schema=Reply)
        by_person = {"answer": asked.answer, "decided_by": "person"}
        return {"decision": {**state["decision"], **by_person}}

    class State(CoEState):
        asked_of_person: str
        choices: list[str]  # handed on to the group

    def keep(state):
        return {"asked_of_person": state["question"], "question": state["question"]}

    outer = StateGraph(State)
    outer.add_node("keep", keep)
    outer.add_node("group", group)
    outer.add_node("person", person)
    outer.add_edge(START, "keep")
    outer.add_edge("keep", "group")
    outer.add_edge("group", "person")
    both = says(call(id="c1", **ANN), call(id="c2", **BOB))
    for options in ({}, ASKING):
        bank = Bank()
        for judge in agents:
            judge.requests.clear()
        asks = {**options, "question": lambda request: request.tool_call["args"]["to"]}
        compiled = agent(outer.compile(), bank, both, **asks)
        (asked,) = compiled.invoke(PAY, THREAD)["__interrupt__"]
        assert asked.value == {"question": "Ann"}
        with pytest.raises(ValidationError):  # not taken for a failure of the gate
            compiled.invoke(Command(resume="approve"), THREAD)
        paused = compiled.invoke(Command(resume={"answer": "approve"}), THREAD)
        (asked,) = paused["__interrupt__"]
        assert asked.value == {"question": "Bob"}
        compiled.invoke(Command(resume={"answer": "reject"}), THREAD)
        assert bank.transfers == [("Ann", 1.0)]
        questions = [request["question"] for request in agents[0].requests]
        assert questions == ["Ann", "Bob"]


# another message instead

TYPED = ("user", "approve")
INVENTED = ToolMessage("Handled.", tool_call_id="c1", name="transfer_money", id="do-not-render-1")
"""What Agent Chat UI adds before the message that the user typed."""
NOT_DECIDED = (
    "transfer_money was not run: the user wrote another message instead of deciding on it."
)


@pytest.mark.parametrize("asking", [asking_gate, asking_council])
def test_without_a_checkpointer_a_person_is_asked_in_vain(asking):
    compiled, _, bank = asking(saver=False)
    assert compiled.invoke(PAY)["__interrupt__"]
    assert bank.transfers == []


@pytest.mark.parametrize(
    "added", [[TYPED], [INVENTED, TYPED]], ids=["plain client", "Agent Chat UI"]
)
async def test_the_call_is_closed_and_does_not_run(added):
    compiled, _, bank = asking_gate()
    assert "__interrupt__" in compiled.invoke(PAY, THREAD)
    state = await compiled.ainvoke({"messages": added}, THREAD)
    assert "__interrupt__" not in state
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "human", "ai"]
    _, _, closed, _, _ = state["messages"]
    assert closed.text == NOT_DECIDED
    assert closed.status == "error"
    assert closed.tool_call_id == "c1"
    assert bank.transfers == []


def test_what_nobody_decided_on_at_a_council_is_forgotten_with_the_next_message():
    compiled, _, bank = asking_council(says(call()), says(call()))
    compiled.invoke(PAY, THREAD)
    paused = compiled.invoke({"messages": [("user", "Never mind.")]}, THREAD)
    # the driver proposes it again in this script; it is another proposal, asked about anew
    assert [message.type for message in paused["messages"]] == ["human", "human"]
    state = compiled.invoke(decide(REJECT), THREAD)
    assert bank.transfers == []
    types = [message.type for message in state["messages"]]
    assert types[:4] == ["human", "human", "ai", "tool"]


def test_each_call_gets_its_own_reply_where_a_provider_expects_it_and_a_conversation_with_all_stays():
    is_gated = ["transfer_money"].__contains__
    sent = ToolMessage("sent", tool_call_id="c1", name="transfer_money")
    done = [HumanMessage("Pay."), says(call()), sent, HumanMessage("Again.")]
    # a reply that a client invented is kept
    handled = ToolMessage("Handled.", tool_call_id="b1", name="balance", id="do-not-render-1")
    of_another_tool = [says(LOOKS), handled, HumanMessage("And?")]
    not_the_users_turn = [HumanMessage("Pay."), says(call(), LOOKS), sent]
    for messages in (done, of_another_tool, not_the_users_turn, []):
        assert close_calls(messages, is_gated) is None

    answered = ToolMessage("the balance is 100", tool_call_id="b1")
    written = [says(call(), LOOKS), answered, HumanMessage("approve")]
    remove, *closed = close_calls(written, is_gated)["messages"]
    assert remove.type == "remove"
    told = [(one.type, getattr(one, "tool_call_id", None)) for one in closed]
    assert told == [("ai", None), ("tool", "c1"), ("tool", "b1"), ("human", None)]
