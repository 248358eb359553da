"""What a checkpointer keeps: in memory, in SQLite and in PostgreSQL, sync and async, across a restart."""

import asyncio
import runpy
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent
from tests.postgres import programs, running_postgres

ROOT = Path(__file__).parent.parent.parent
open_saver = runpy.run_path(str(ROOT / "examples/persistent_answers.py"))["open_saver"]
THREAD = {"configurable": {"thread_id": "one"}}


@pytest.fixture(scope="session")
def server():
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    with running_postgres() as address:
        yield address


@asynccontextmanager
async def open_async(place):
    """The async savers, with the same settings."""
    if place.startswith("postgresql://"):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        check = AsyncConnectionPool.check_connection
        async with AsyncConnectionPool(place, min_size=1, max_size=4, check=check, kwargs=options, open=False) as pool:
            saver = AsyncPostgresSaver(pool)
            await saver.setup()
            yield saver
    else:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(place) as saver:
            yield saver


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def openers(request, tmp_path):
    """How the same saver is opened and opened again, sync and async."""
    if request.param == "memory":
        saver = InMemorySaver()
        return lambda: nullcontext(saver), lambda: nullcontext(saver)
    place = str(tmp_path / "kept.sqlite") if request.param == "sqlite" else request.getfixturevalue("server")
    if request.param == "postgres":
        _forget(place)
    return lambda: open_saver(place), lambda: open_async(place)


@pytest.fixture(params=["sync", "async"])
def sessions(request, openers):
    """Opens a session with a graph: `(ask, state)`, each call in the form under test."""
    opened, aopened = openers
    return (
        (lambda graph: _sync_session(graph, opened()))
        if request.param == "sync"
        else (lambda graph: _async_session(graph, aopened()))
    )


@contextmanager
def _sync_session(graph, opened):
    with opened as saver:
        compiled = graph.compile(checkpointer=saver)
        yield (lambda given, thread=THREAD: compiled.invoke(given, thread)), (lambda: compiled.get_state(THREAD).values)


@contextmanager
def _async_session(graph, opened: AbstractAsyncContextManager):
    with asyncio.Runner() as runner:
        saver = runner.run(opened.__aenter__())
        compiled = graph.compile(checkpointer=saver)
        try:
            yield (
                lambda given, thread=THREAD: runner.run(compiled.ainvoke(given, thread)),
                lambda: runner.run(compiled.aget_state(THREAD)).values,
            )
        finally:
            runner.run(opened.__aexit__(None, None, None))


def _forget(address):
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


class Again:
    """One more round, then an answer."""

    def decide(self, measurement, *, round, max_rounds):
        return ThresholdPolicy(100.0 if round else 0.0, otherwise="another_round").decide(
            measurement, round=round, max_rounds=max_rounds
        )


def agents():
    return [
        ScriptedAgent("a", ["Paris", "Lyon"], ["Paris"]),
        ScriptedAgent("b", ["Paris"]),
        ScriptedAgent("c", ConnectionError("refused")),
    ]


def graph_of(agents):
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=Again(), max_rounds=2, retries=0)


def test_a_decision_outlives_a_restart(sessions):
    expected = graph_of(agents()).compile().invoke({"question": "Capital of France?"})
    assert expected["decision"]["n_rounds"] == 2
    with sessions(graph_of(agents())) as (ask, _):
        result = ask({"question": "Capital of France?"})
    with sessions(graph_of(agents())) as (_, state):
        kept = state()
    for one in (result, kept):
        assert one["decision"] == expected["decision"]
        assert one["responses"] == expected["responses"]
        assert one["labels"] == expected["labels"]
    assert [message.text for message in kept["messages"]] == ["Capital of France?", "Paris"]
    assert kept["messages"][-1].response_metadata["decision"] == expected["decision"]
