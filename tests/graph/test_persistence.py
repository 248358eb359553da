import runpy
from pathlib import Path

import pytest

from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import THREAD, Deciding, graph
from tests.postgres import programs, running_postgres

ROOT = Path(__file__).parent.parent.parent
open_saver = runpy.run_path(str(ROOT / "examples/persistent_answers.py"))["open_saver"]


@pytest.fixture(scope="session")
def server():
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    with running_postgres() as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "kept.sqlite")
    import psycopg

    address = request.getfixturevalue("server")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return address


def asked_again():
    down = ScriptedAgent("c", ConnectionError("refused"))
    agents = [ScriptedAgent("a", ["Paris", "Lyon"], ["Paris"]), ScriptedAgent("b", ["Paris"]), down]
    return graph(
        *agents, policy=Deciding(Decision("another_round"), Decision("answer")), max_rounds=2
    )


def test_a_decision_outlives_a_restart(place):
    expected = asked_again().compile().invoke({"question": "Capital of France?"})
    assert expected["decision"]["n_rounds"] == 2
    with open_saver(place) as saver:
        result = (
            asked_again()
            .compile(checkpointer=saver)
            .invoke({"question": "Capital of France?"}, THREAD)
        )
    with open_saver(place) as saver:
        kept = asked_again().compile(checkpointer=saver).get_state(THREAD).values
    for one in (result, kept):
        assert one["decision"] == expected["decision"]
        assert one["responses"] == expected["responses"]
        assert one["labels"] == expected["labels"]
    assert [message.text for message in kept["messages"]] == ["Capital of France?", "Paris"]
    assert kept["messages"][-1].response_metadata["decision"] == expected["decision"]
