"""What a council that observes records of the calls that it would have blocked."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from coe_agents import CoECouncil
from coe_agents.errors import ConfigurationError
from coe_agents.rulings import Recording, pending_cases, rule
from coe_agents.rulings.recorded import NAMESPACE, cases
from coe_agents.testing.driver import ScriptedDriver
from tests.cli.command import run
from tests.middleware.calls import ANN, BOB, PAY, call
from tests.middleware.council import members


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
    create_agent(driver, [pay], middleware=[council], store=store).invoke(PAY)
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
    assert "0 audited answers, 1 observed call and 0 escalations" in done.stdout


def test_a_run_without_a_store_is_refused_before_a_model_is_asked():
    def drive(messages):
        raise AssertionError("nobody is asked")

    council = CoECouncil(members(["Done."]), on_decision=Recording())
    with pytest.raises(ConfigurationError, match="store"):
        create_agent(ScriptedDriver(script=drive), [], middleware=[council]).invoke(PAY)
