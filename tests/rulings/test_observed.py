"""What a council that observes records of the calls that it would have blocked."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from coe_agents import CoECouncil
from coe_agents.errors import ConfigurationError
from coe_agents.rulings import Recording, pending_cases, rule
from coe_agents.rulings.recorded import NAMESPACE, cases
from coe_agents.testing.driver import ScriptedDriver
from tests.cli.command import run
from tests.middleware.agents import THREAD, Bank
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, call, says
from tests.middleware.council import Member, members
from tests.middleware.people import APPROVE, decide, edit


def run_recorded(script, *, audit_rate=0.0, **options):
    store = InMemoryStore()
    council = CoECouncil(
        members(script, script),
        on_decision=Recording(audit_rate=audit_rate),
        tools=["pay"],
        **options,
    )

    def pay(to: str, amount: int) -> str:
        """Pays."""
        return "Paid."

    made = {"name": "pay", "args": ANN, "id": "1"}
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[made]), AIMessage("Done.")])
    agent = create_agent(driver, [pay], middleware=[council], store=store)
    agent.invoke(PAY)
    return store


def test_what_would_be_blocked_is_recorded_and_ruled_on():
    store = run_recorded([[call("pay", **BOB)], "Done."], on_uncertain="observe")
    [case] = pending_cases(store)
    assert case["kind"] == "observed"
    assert case["answer"] == '[{"args":{"amount":1,"to":"Ann"},"name":"pay"}]'
    assert case["question"] == "Send 10 to Ann."
    assert [row["agent"] for row in case["responses"]] == ["driver", "member0", "member1"]
    assert case["labels"] == [0, 1, 1]
    with pytest.raises(ValueError, match="must say whether the answer was right"):
        rule(store, case["id"], answer="[]")
    assert rule(store, case["id"], correct=False)["status"] == "ruled"


@pytest.mark.parametrize(("rate", "kinds"), [(0.0, []), (1.0, ["audit"])])
def test_what_would_pass_is_recorded_at_the_audit_rate(rate, kinds):
    store = run_recorded([[call("pay", **ANN)], "Done."], audit_rate=rate, on_uncertain="observe")
    assert [case["kind"] for case in cases(store)] == kinds


def test_what_was_observed_is_no_escalation_where_it_is_harvested(tmp_path):
    store = run_recorded([[call("pay", **BOB)], "Done."], on_uncertain="observe")
    [case] = pending_cases(store)
    ruled = rule(store, case["id"], correct=False)
    path = tmp_path / "cases.sqlite"
    with SqliteStore.from_conn_string(str(path)) as kept:
        kept.setup()
        kept.put(NAMESPACE, case["id"], dict(ruled))
    done = run("harvest", "--store", path, "--out", tmp_path / "x.samples.jsonl")
    assert "0 audited cases, 1 observed block and 0 escalations" in done.stdout


ANN_PAID = '[{"args":{"amount":1.0,"to":"Ann"},"name":"transfer_money"}]'
BOB_PAID = '[{"args":{"amount":2.0,"to":"Bob"},"name":"transfer_money"}]'
CY_PAID = '[{"args":{"amount":3,"to":"Cy"},"name":"transfer_money"}]'


REJECT = {"type": "reject"}


def decided_by_a_person(on_decision, store=None, *, said=None, saver=None, **options):
    options = {
        "on_uncertain": "interrupt",
        "tools": ["transfer_money"],
        "on_decision": on_decision,
        **options,
    }
    council = CoECouncil(members([[call(**BOB)], "Done."]), **options)
    model = ScriptedDriver(script=[said or says(LOOKS, call(**ANN)), DONE])
    checkpointer = saver or InMemorySaver()
    return create_agent(
        model, Bank().tools, middleware=[council], store=store, checkpointer=checkpointer
    )


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (APPROVE, ANN_PAID),
        (REJECT, None),
        (edit(**BOB), BOB_PAID),
        (edit(to="Cy", amount=3), CY_PAID),
    ],
    ids=["approved", "rejected", "edited to another proposal", "edited"],
)
def test_what_a_person_lets_run_is_recorded_once_they_decided(decision, answer):
    store = InMemoryStore()
    asking = decided_by_a_person(Recording(), store)
    asking.invoke(PAY, THREAD)
    assert cases(store) == []
    asking.invoke(decide(APPROVE, decision), THREAD)
    [case] = cases(store)
    assert (case["kind"], case["status"]) == ("escalation", "ruled")
    assert case["answer"] == ANN_PAID  # what the person was shown
    assert case["ruling"]["answer"] == answer
    assert [row["agent"] for row in case["responses"]] == ["driver", "member0"]


@pytest.mark.parametrize(
    ("said", "decisions", "action", "answer"),
    [
        (DONE, [APPROVE], "answer", "[]"),
        (DONE, [edit("answer", text="Not yet.")], "answer", "[]"),
        (DONE, [REJECT], "abstain", None),
        (None, [REJECT, REJECT], "abstain", None),
    ],
    ids=["a text", "a text that was edited", "a text that was rejected", "calls"],
)
def test_what_a_person_says_of_a_text_or_of_all_calls_is_passed_on(said, decisions, action, answer):
    told = []
    tools = ["transfer_money"] if said is None else None
    asking = decided_by_a_person(told.append, said=said, tools=tools)
    asking.invoke(PAY, THREAD)
    asking.invoke(decide(*decisions), THREAD)
    decision = told[0]["decision"]
    assert (decision["action"], decision["answer"]) == (action, answer)


@pytest.mark.parametrize("is_told_before", [True, False])
def test_a_council_that_is_told_anew_or_no_more_whom_to_tell_carries_out_what_a_person_says(
    is_told_before,
):
    told = []
    saver = InMemorySaver()
    asking, resumed = (
        decided_by_a_person(told.append if is_told else None, saver=saver)
        for is_told in (is_told_before, not is_told_before)
    )
    asking.invoke(PAY, THREAD)
    state = resumed.invoke(decide(APPROVE, APPROVE), THREAD)
    assert told == []
    assert state["council"]["decided_by"] == "person"


def test_a_second_reply_to_one_request_is_passed_on_to_nobody():
    told = []
    asking = decided_by_a_person(told.append)
    asking.invoke(PAY, THREAD)
    waiting = asking.get_state(THREAD).config
    asking.invoke(decide(APPROVE, APPROVE), THREAD)
    asking.invoke(decide(APPROVE, APPROVE), waiting)
    [case] = told
    assert case["decision"]["answer"] == ANN_PAID


def test_two_councils_pass_on_one_turn_as_two_cases():
    told = []
    agents = members([[call(**ANN)], "Done."])
    options = {"tools": ["transfer_money"], "on_decision": told.append}
    councils = [CoECouncil(agents, name=name, **options) for name in ("one", "two")]
    model = ScriptedDriver(script=[says(call(**ANN)), DONE])
    create_agent(model, Bank().tools, middleware=councils, checkpointer=InMemorySaver()).invoke(
        PAY, THREAD
    )
    assert len({case["id"] for case in told}) == 2


def test_what_is_passed_on_has_the_decision_of_the_person():
    told = []
    asking = decided_by_a_person(told.append, None)
    asking.invoke(PAY, THREAD)
    assert told == []
    asking.invoke(decide(APPROVE, APPROVE), THREAD)
    [case] = told
    decision = case["decision"]
    assert (decision["action"], decision["decided_by"], decision["mode"]) == (
        "answer",
        "person",
        "verify",
    )
    assert [made["name"] for made in decision["calls"]] == ["balance", "transfer_money"]
    assert decision["n_rounds"] == 1
    assert case["question"] == "Send 10 to Ann."
    assert case["conversation"] == [{"role": "user", "content": "Send 10 to Ann."}]


@pytest.mark.parametrize(
    ("mode", "script", "action", "answer"),
    [
        ("verify", [[call(**BOB)]], "abstain", None),
        ("verify", [[call(**ANN)]], "answer", ANN_PAID),
        ("choose", [[call(**BOB)]], "answer", BOB_PAID),
    ],
)
def test_what_the_group_decides_is_passed_on_for_each_turn(mode, script, action, answer):
    told = []
    agents = [*members(script, script), Member("down", ConnectionError("down"))]
    options = {"tools": ["transfer_money"], "min_votes": 1, "mode": mode}
    council = CoECouncil(agents, on_decision=told.append, **options)
    model = ScriptedDriver(script=[says(call(**ANN)), says(call(id="c2", **ANN)), DONE])
    create_agent(model, Bank().tools, middleware=[council], checkpointer=InMemorySaver()).invoke(
        PAY, THREAD
    )
    first, second = told
    assert first["id"] != second["id"]
    decision = first["decision"]
    assert (decision["action"], decision["answer"]) == (action, answer)
    assert [row["agent"] for row in first["responses"]][-1] == "down"
    assert len(first["labels"]) == len(first["responses"]) - 1
    assert first["leading"] == (BOB_PAID if mode == "choose" else ANN_PAID)


def test_a_run_without_a_store_is_refused_before_a_model_is_asked():
    def drive(messages):
        raise AssertionError("nobody is asked")

    council = CoECouncil(members(["Done."]), on_decision=Recording())
    with pytest.raises(ConfigurationError, match="store"):
        create_agent(ScriptedDriver(script=drive), [], middleware=[council]).invoke(PAY)
