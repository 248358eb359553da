"""Owns recorded cases for commands: their stores, whether one is written, and `audit` and `harvest`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.options import JsonOption
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.graph.rulings import RecordedCase

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

    Both are None where nothing is recorded.
    """
    section = None if config is None else config.record
    if store is None and section is not None and config is not None:
        store = section.store if "://" in section.store else str(config.folder / section.store)
    if store is None:
        if audit_rate is not None:
            raise typer.BadParameter(
                "it needs a store. Add --record FILE", param_hint="--audit-rate"
            )
        yield {"on_decision": None, "store": None}
        return
    from coe_agents.graph.recording import Recording

    usual = 0.0 if section is None else section.audit_rate
    with open_store(store, may_be_new=True) as opened:
        yield {
            "on_decision": Recording(audit_rate=usual if audit_rate is None else audit_rate),
            "store": opened,
        }


@contextmanager
def open_store(place: str, *, may_be_new: bool = False) -> "Iterator[BaseStore]":
    """Opens a store of SQLite or PostgreSQL; a StoreError if it cannot be read, or holds something else.

    It must exist unless it `may_be_new`.
    """
    import sqlite3

    from coe_agents.errors import StoreError

    failures: tuple[type[Exception], ...] = (
        sqlite3.Error,
        LookupError,
        TypeError,
        UnicodeDecodeError,
        JSONDecodeError,
    )
    if place.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
            from langgraph.store.postgres import PostgresStore
        except ModuleNotFoundError as error:
            raise ImportError(
                'a store in PostgreSQL needs pip install "coe-agents[postgres]"'
            ) from error
        failures = (*failures, psycopg.Error)
        opened: Any = PostgresStore.from_conn_string(place)
        shown = "the store in PostgreSQL"  # its address may hold a password
    else:
        path = Path(place.removeprefix("sqlite:///"))
        if not path.is_file() and not may_be_new:
            raise StoreError(
                f"there is no store {path}", hint="Pass the file of the graph's SqliteStore"
            )
        try:
            from langgraph.store.sqlite import SqliteStore
        except ModuleNotFoundError as error:
            raise ImportError('a store in SQLite needs pip install "coe-agents[sqlite]"') from error
        opened = (
            SqliteStore.from_conn_string(str(path)) if may_be_new else _checked(path, SqliteStore)
        )
        shown = f"the store {path}"
    try:
        with opened as store:
            if may_be_new:
                store.setup()
            yield store
    except failures as error:
        cause: BaseException = error
        while isinstance(
            cause.__context__, failures
        ):  # the first failure, not that of ending the transaction
            cause = cause.__context__
        hint = "Check its permissions and the free disk space, and that a graph with on_decision= wrote it"
        raise StoreError(
            f"{shown} cannot be read or written: {type(cause).__name__}: {cause}", hint=hint
        ) from error


@contextmanager
def _checked(path: Path, kind: "type[SqliteStore]") -> "Iterator[SqliteStore]":
    """Opens a store in SQLite; refuses a database without one, in which LangGraph would create its tables."""
    from coe_agents.errors import StoreError

    with kind.from_conn_string(str(path)) as store:
        if (
            store.conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'").fetchone()
            is None
        ):
            hint = (
                "Pass the file of the graph's SqliteStore; that of its checkpointer is another one"
            )
            raise StoreError(f"{path} holds no store", hint=hint)
        yield store


StoreOption = Annotated[
    str,
    typer.Option(
        help="The store in which a graph recorded cases: the path of an SQLite file, or postgresql://USER@HOST/NAME."
    ),
]


def harvest(
    store: StoreOption,
    out: Annotated[Path, typer.Option(help="Where to write the samples, as FILE.samples.jsonl.")],
    cases: Annotated[
        Path | None,
        typer.Option(
            help="Where to append ruled audits that it does not hold yet, for `drift --follow`."
        ),
    ] = None,
) -> None:
    """Write what people ruled on recorded cases as samples, for `calibrate --current`.

    Each sample has the probability with which its case was seen: the audit rate for an answer, 1 for an escalation.
    """
    from coe_agents.files import write
    from coe_agents.graph.rulings import case_row, sample_rows
    from coe_agents.graph.rulings import cases as recorded

    with open_store(store) as opened:
        found = recorded(opened)  # all of them, so that an unknown status is an error
        ruled = [case for case in found if case["status"] == "ruled"]
        rows = {case["id"]: list(sample_rows(case)) for case in ruled}
        labelled = [row for case in ruled if (row := case_row(case)) is not None]
    used = [case for case in ruled if rows[case["id"]]]
    content = "".join(json.dumps(row) + "\n" for case in used for row in rows[case["id"]])
    write(out, content.encode())
    n_audits = sum(case["kind"] == "audit" for case in used)
    sources = (
        f"{quantity(n_audits, 'audited answer')} and {quantity(len(used) - n_audits, 'escalation')}"
    )
    print_lines(f"{clean(str(out))}: {sources}; {_waiting(len(found) - len(ruled))}.")
    if len(ruled) > len(used):
        print_lines(f"Left out, since the person abstained: {len(ruled) - len(used)}.")
    if not n_audits:
        print_lines(
            "Without audits nothing is known of the risk of the answers that were given, so that no threshold will be "
            "raised. To audit a share of them: create_coe_graph(..., on_decision=Recording(audit_rate=0.05))."
        )
    if cases is not None:
        new = _append(cases, labelled)
        print_lines(f"{clean(str(cases))}: {quantity(new, 'new labelled answer')}.")


def audit(
    store: StoreOption,
    rule: Annotated[
        str | None,
        typer.Option(help="Id of the case to rule on; without it, pending ones are shown."),
    ] = None,
    right: Annotated[bool, typer.Option("--right", help="The answer was right.")] = False,
    wrong: Annotated[bool, typer.Option("--wrong", help="The answer was wrong.")] = False,
    answer: Annotated[
        str | None, typer.Option(help="The right answer, where it was wrong.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the recorded cases that wait for a person's ruling, or rule on one of them."""
    from coe_agents.graph.rulings import pending_cases
    from coe_agents.graph.rulings import rule as record_ruling

    has_ruled = right or wrong or answer is not None
    if rule is None and has_ruled:
        raise typer.BadParameter(
            "a ruling needs the id of a case. Add --rule ID", param_hint="--rule"
        )
    if rule is not None and not has_ruled:
        message = "a ruling must say what is right. Add --right, --wrong or --answer"
        raise typer.BadParameter(message, param_hint="--rule")
    if right and wrong:
        raise typer.BadParameter(
            "it cannot be combined with --right. Omit one of them", param_hint="--wrong"
        )
    with open_store(store) as opened:
        if rule is None:
            _show(pending_cases(opened), as_json=as_json)
            return
        try:
            case = record_ruling(
                opened, rule, correct=right if right or wrong else None, answer=answer
            )
        except (KeyError, ValueError) as error:
            raise typer.BadParameter(clean(str(error.args[0])), param_hint="--rule") from error
    if as_json:
        print_json(case)
    else:
        print_lines(f"Recorded the ruling on {clean(rule)}.")


def _show(waiting: "list[RecordedCase]", *, as_json: bool) -> None:
    if as_json:
        print_json({"pending": waiting})
        return
    print_lines(f"{_waiting(len(waiting))}:" if waiting else "No case waits for a ruling.")
    for case in waiting:
        said = "was answered" if case["kind"] == "audit" else "was escalated; the leading answer is"
        print_lines(f"\n{case['id']}  {case['time']}\n  {clean(case['question'], 500)}")
        print_lines(f"  {said}: {clean(str(case['answer']), 500)}")


def _waiting(n: int) -> str:
    return f"{quantity(n, 'case waits', 'cases wait')} for a ruling"


def _append(path: Path, rows: list[dict[str, Any]]) -> int:
    from coe_agents.evaluation.calibration.drift import follow_cases
    from coe_agents.evaluation.samples.store import sole_writer
    from coe_agents.files import append

    with sole_writer(
        path, path.with_name(f".{path.name}.lock")
    ):  # two processes would append the same cases
        known = (
            {case.id for case in follow_cases(path, wait=lambda: False)} if path.exists() else set()
        )
        new = [row for row in rows if row["id"] not in known]
        if new:
            ends_open = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
            lines = "\n" * ends_open + "".join(json.dumps(row) + "\n" for row in new)
            with path.open("ab") as file:
                append(file.fileno(), lines.encode(), path=path)
    return len(new)
