"""Owns the stores of recorded cases for commands: how one is opened, and whether cases are recorded in it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents import _ring
from coe_agents.errors import StoreError

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore
    from langgraph.store.sqlite import SqliteStore

    from coe_agents.config.schema import Config

RecordOption = Annotated[
    str | None,
    typer.Option(
        "--record",
        help="Record escalations, and audits, in this store: the path of an SQLite file, which is made if need be, or "
        "postgresql://USER@HOST/NAME. Cases hold the users' texts. Default: [record] of the configuration.",
    ),
]
AuditRateOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="The share of answers that is recorded, too, for people to rule on; needs a store.",
    ),
]


@contextmanager
def open_recording(
    config: "Config | None", store: str | None, audit_rate: float | None
) -> Iterator[dict[str, Any]]:
    """Yields the options "on_decision" and "store" of a graph, by a command's options or else by its configuration.

    Where nothing is recorded, it yields no options.
    """
    usual_rate = 0.0
    if config is not None and config.record is not None:
        usual_rate = config.record.audit_rate
        if store is None:
            store = config.record.store
            if "://" not in store:
                store = str(config.folder / store)
    if store is None:
        if audit_rate is not None:
            raise typer.BadParameter(
                "it needs a store. Add --record FILE", param_hint="--audit-rate"
            )
        yield {}
        return
    recording = _ring.load("rulings:Recording")
    on_decision = recording(audit_rate=usual_rate if audit_rate is None else audit_rate)
    with open_store(store, may_be_new=True) as opened:
        yield {"on_decision": on_decision, "store": opened}


@contextmanager
def open_store(place: str, *, may_be_new: bool = False) -> "Iterator[BaseStore]":
    """Opens a store of SQLite or PostgreSQL; a StoreError if it cannot be read, or holds something else.

    It must exist unless it `may_be_new`.
    """
    failure: type[Exception] = sqlite3.Error
    if place.startswith(("postgresql://", "postgres://")):
        opened, failure = _postgres(place)
        shown = "the store in PostgreSQL"  # its address may hold a password
    else:
        path = Path(place.removeprefix("sqlite:///"))
        opened = _sqlite(path, may_be_new=may_be_new)
        shown = f"the store {path}"
    failures = (failure, LookupError, TypeError, UnicodeDecodeError, JSONDecodeError)
    try:
        with opened as store:
            if may_be_new:
                store.setup()
            yield store
    except failures as error:
        # the first failure, not that of ending the transaction
        cause: BaseException = error
        while isinstance(cause.__context__, failures):
            cause = cause.__context__
        hint = "Check its permissions and the free disk space, and that a graph with on_decision= wrote it"
        raise StoreError(
            f"{shown} cannot be read or written: {type(cause).__name__}: {cause}", hint=hint
        ) from error


def _postgres(address: str) -> tuple[Any, type[Exception]]:
    """Returns what opens a store in PostgreSQL, and the error of its client."""
    try:
        import psycopg
        from langgraph.store.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise ImportError(
            'a store in PostgreSQL needs pip install "coe-agents[postgres]"'
        ) from error
    return PostgresStore.from_conn_string(address), psycopg.Error


def _sqlite(path: Path, *, may_be_new: bool) -> Any:
    """Returns what opens a store in SQLite."""
    if not path.is_file() and not may_be_new:
        hint = "Pass the file of the graph's SqliteStore"
        raise StoreError(f"there is no store {path}", hint=hint)
    try:
        from langgraph.store.sqlite import SqliteStore
    except ModuleNotFoundError as error:
        raise ImportError('a store in SQLite needs pip install "coe-agents[sqlite]"') from error
    if may_be_new:
        return SqliteStore.from_conn_string(str(path))
    return _checked(path, SqliteStore)


@contextmanager
def _checked(path: Path, kind: "type[SqliteStore]") -> "Iterator[SqliteStore]":
    """Opens a store in SQLite; refuses a database without one, in which LangGraph would create its tables."""
    with kind.from_conn_string(str(path)) as store:
        tables = store.conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'")
        if tables.fetchone() is None:
            hint = (
                "Pass the file of the graph's SqliteStore; that of its checkpointer is another one"
            )
            raise StoreError(f"{path} holds no store", hint=hint)
        yield store
