"""Decisions that outlive the process: `CHECKPOINTS=answers.sqlite python examples/persistent_answers.py`.

`CHECKPOINTS` may also be the address of a PostgreSQL server, `postgresql://...`. Without it, a temporary file is used.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer


@contextmanager
def open_saver(place: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """Opens the file, or the server, in which the graph keeps its state."""
    if not place.startswith("postgresql://"):
        with SqliteSaver.from_conn_string(place) as saver:
            yield saver
        return
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    with (
        ConnectionPool(
            place,
            min_size=1,
            max_size=4,
            check=ConnectionPool.check_connection,  # a connection that was dropped is replaced before it is used
            max_idle=300,  # seconds; below the limit of whatever stands between: firewalls, load balancers, the server
            max_lifetime=1800,
            kwargs={
                "autocommit": True,  # `setup` creates indexes that no transaction may hold
                "prepare_threshold": 0,  # None behind a PgBouncer that pools transactions
                "row_factory": dict_row,
                "connect_timeout": 10,
                "keepalives_idle": 60,
                "keepalives_interval": 10,
                "keepalives_count": 3,
            },
        ) as pool
    ):
        saver = PostgresSaver(pool)
        saver.setup()
        yield saver


def main(place: str) -> None:
    graph = create_coe_graph(
        tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.6)
    )
    thread: Any = {"configurable": {"thread_id": "a user's conversation"}}
    with open_saver(place) as saver:
        question = "What is the chemical symbol for gold?"
        # "sync": what one step made is on disk before the next begins, so a process that is killed asks nobody twice
        decision = graph.compile(checkpointer=saver).invoke(
            {"question": question}, thread, durability="sync"
        )["decision"]
        print(f"{question}\n  {decision['action']}: {decision['answer']}")
    with open_saver(place) as saver:  # as another process would, tomorrow
        remembered = graph.compile(checkpointer=saver).get_state(thread).values
        print(f"remembered: {remembered['decision'] == decision}")
        print("  ".join(f"[{message.type}] {message.text}" for message in remembered["messages"]))


if __name__ == "__main__":
    if "CHECKPOINTS" in os.environ:
        main(os.environ["CHECKPOINTS"])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(str(Path(folder) / "answers.sqlite"))
