"""Owns the commands `audit` and `harvest`: what people rule on recorded cases, and the samples that it becomes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.options import JsonOption
from coe_agents.cli.stores import open_store
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.graph.rulings import RecordedCase

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
        typer.Option(help="Where to append ruled audits that it does not hold yet, for `drift --follow`."),
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
    sources = f"{quantity(n_audits, 'audited answer')} and {quantity(len(used) - n_audits, 'escalation')}"
    print_lines(f"{clean(str(out))}: {sources}; {_waiting(len(found) - len(ruled))}.")
    if len(ruled) > len(used):
        print_lines(f"Left out, since the person abstained: {len(ruled) - len(used)}.")
    if not n_audits:
        print_lines(
            "Without audits nothing is known of the risk of the answers that were given, so that no threshold will be "
            "raised. To audit a share of them: create_coe_graph(..., recording=Recording(audit_rate=0.05))."
        )
    if cases is not None:
        new = _append(cases, labelled)
        print_lines(f"{clean(str(cases))}: {quantity(new, 'new labelled answer')}.")


def audit(
    store: StoreOption,
    rule: Annotated[
        str | None, typer.Option(help="Id of the case to rule on; without it, pending ones are shown.")
    ] = None,
    right: Annotated[bool, typer.Option("--right", help="The answer was right.")] = False,
    wrong: Annotated[bool, typer.Option("--wrong", help="The answer was wrong.")] = False,
    answer: Annotated[str | None, typer.Option(help="The right answer, where it was wrong.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the recorded cases that wait for a person's ruling, or rule on one of them."""
    from coe_agents.graph.rulings import pending_cases
    from coe_agents.graph.rulings import rule as record_ruling

    has_ruled = right or wrong or answer is not None
    if rule is None and has_ruled:
        raise typer.BadParameter("a ruling needs the id of a case. Add --rule ID", param_hint="--rule")
    if rule is not None and not has_ruled:
        message = "a ruling must say what is right. Add --right, --wrong or --answer"
        raise typer.BadParameter(message, param_hint="--rule")
    if right and wrong:
        raise typer.BadParameter("it cannot be combined with --right. Omit one of them", param_hint="--wrong")
    with open_store(store) as opened:
        if rule is None:
            _show(pending_cases(opened), as_json=as_json)
            return
        try:
            case = record_ruling(opened, rule, correct=right if right or wrong else None, answer=answer)
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
    from coe_agents.evaluation.samples.folder import sole_writer
    from coe_agents.evaluation.samples.labelled import follow_cases
    from coe_agents.files import append

    with sole_writer(path, path.with_name(f".{path.name}.lock")):  # two processes would append the same cases
        known = {case.id for case in follow_cases(path, wait=lambda: False)} if path.exists() else set()
        new = [row for row in rows if row["id"] not in known]
        if new:
            ends_open = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
            lines = "\n" * ends_open + "".join(json.dumps(row) + "\n" for row in new)
            with path.open("ab") as file:
                append(file.fileno(), lines.encode(), path=path)
    return len(new)
