"""A gate that only observes: it never blocks, never vouches, and records what it would have ruled."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import CoECouncil, CoEMiddleware
from tests.middleware.agents import AGAINST, SURE, THREAD, agent, judges
from tests.middleware.calls import ANN, BOB, DONE, PAY, call, says
from tests.middleware.council import AGREE, council_agent, members

DISAGREE = [[call(**BOB)], "Done."]
FAIL = [ConnectionError("down")]


def observing(*scripts, **options):
    return CoECouncil(members(*scripts), on_uncertain="observe", name="observing", **options)


def observing_gate(said, **options):
    """A gate of every call, whose judges say so."""
    _, graph = judges(*said)
    return CoEMiddleware(graph, tools=None, on_uncertain="observe", **options)


def paying_ann(gate, bank):
    return agent(None, bank, says(call(**ANN)), DONE, middleware=[gate])


@pytest.mark.parametrize("mode", ["verify", "choose"])
@pytest.mark.parametrize("tools", [None, ["transfer_money"]], ids=["all", "named"])
@pytest.mark.parametrize(
    "scripts", [[DISAGREE] * 2, [FAIL] * 2, [AGREE] * 2], ids=["no", "down", "yes"]
)
def test_an_observing_council_never_blocks_and_never_vouches(mode, tools, scripts, bank):
    council = observing(*scripts, mode=mode, tools=tools)
    paying = paying_ann(council, bank)
    state = paying.invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1)]
    assert state["messages"][-1].text == "Done."
    assert state["council"]["observed"]
    for snapshot in paying.get_state_history(THREAD):
        turns = snapshot.values.get("coe_council") or {}
        turn = turns.get("observing", {})
        assert turn.get("vouched") is None


@pytest.mark.parametrize("kind", ["council", "gate"])
def test_it_runs_what_cannot_be_read_and_what_comes_twice_as_it_is(kind, bank):
    pays = call(id="c", **ANN)
    gate = observing(DISAGREE)
    if kind == "gate":
        gate = observing_gate(AGAINST)
    observed = agent(None, bank, says(pays, pays), DONE, middleware=[gate])

    state = observed.invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1)] * 2
    first, second = state["messages"][1].tool_calls
    assert first["id"] == "c"
    assert second["id"] == "c"


@pytest.mark.parametrize("said", [AGAINST, SURE], ids=["against", "sure"])
async def test_an_observing_gate_never_blocks_and_its_verdicts_have_no_mark(said, bank):
    gate = observing_gate(said, final_answer=True)
    paying = paying_ann(gate, bank)
    events = [one async for one in paying.astream(PAY, THREAD, stream_mode="custom")]
    assert bank.transfers == [("Ann", 1)]
    state = paying.get_state(THREAD).values
    assert state["messages"][-1].text == "Done."

    observed = [one for one in events if one.get("event") == "gate_observed"]
    outcome = "approved" if said == SURE else "rejected"
    event = {
        "event": "gate_observed",
        "gate": "CoEMiddleware",
        "outcome": outcome,
        "cause": "confident",
    }
    of_call, of_answer = observed
    assert of_call == {**event, "tool": "transfer_money"}
    assert of_answer == {**event, "tool": None}

    marks = set()
    for snapshot in paying.get_state_history(THREAD):
        verdicts = snapshot.values.get("coe_verdicts") or {}
        for by_gate in verdicts.values():
            marks.update(verdict["mark"] for verdict in by_gate.values())
    assert marks == {""}


def test_what_an_observing_council_saw_is_vouched_for_by_no_later_council(bank):
    """The agent is built again, with a council of the same name that blocks: it finds no mark."""
    saver = InMemorySaver()
    pays_ann = says(call(**ANN))
    group = members(AGREE, AGREE)
    watching = council_agent(group, bank, pays_ann, DONE, saver=saver, on_uncertain="observe")
    watching.invoke(PAY, THREAD, interrupt_before=["tools"])

    group = members(AGREE, AGREE)
    blocking = council_agent(group, bank, DONE, saver=saver, tools=["transfer_money"])
    blocking.invoke(None, THREAD)
    assert bank.transfers == []


@pytest.mark.parametrize("kind", ["council", "gate"])
def test_an_observing_gate_answers_no_call_that_the_user_left_undecided(kind, bank):
    gate = observing(AGREE)
    if kind == "gate":
        gate = observing_gate(SURE)
    paying = paying_ann(gate, bank)
    paying.invoke(PAY, THREAD, interrupt_before=["tools"])
    never_mind = {"messages": [("user", "Never mind.")]}
    paying.invoke(never_mind, THREAD, interrupt_before=["model"])
    messages = paying.get_state(THREAD).values["messages"]
    assert [message.type for message in messages] == ["human", "ai", "human"]


def test_the_event_says_that_it_was_observed(bank):
    council = observing(DISAGREE, tools=["transfer_money"])
    paying = paying_ann(council, bank)
    [event] = paying.stream(PAY, THREAD, stream_mode="custom")
    assert event["action"] == "abstain"
    assert event["observed"] is True
