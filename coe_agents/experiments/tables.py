"""Owns the tables of `score`, and of experiments and comparisons: how they look on a console of rich."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.evaluation.scoring.correctness import inside_in_words
from coe_agents.evaluation.scoring.scores import find_standout
from coe_agents.experiments.experiment import PAPER, Cell, Experiment, caption_of, format_cell
from coe_agents.measurement.estimators import BASELINE, PROPOSAL_SCORES, group_scores, name_of
from coe_agents.measurement.wording import lacking_in_words
from coe_agents.text import for_screen, quantity

_KINDS = {"call": "a tool is called", "no_call": "no tool is called"}
_INDENT = 2


def show_report(console: Console, report: Mapping[str, Any], on_judging: str | None) -> None:
    """Prints the object of `score --json` as a table; a score is in bold if it stands out from all others.

    `on_judging` is a line on how answers are judged.
    """

    def note(text: str) -> None:
        console.print(Text(text, style="dim"))

    _print_counts(console, report)
    details = report["details"]
    for name, agent in details["agents"].items():
        failed = f", {quantity(agent['n_failures'], 'failure')}" if agent["n_failures"] else ""
        note(
            f"  {for_screen(name)}: {quantity(agent['n_responses'], 'response')} to "
            f"{quantity(agent['n_questions'], 'question')}, by probability in {agent['by_probability']}{failed}"
        )
    accuracy = "none" if report["accuracy"] is None else f"{report['accuracy']:.3f}"
    right = f"accuracy {accuracy}, right by {for_screen(report['correctness'])}"
    console.print(
        Text(f"{right}; clusters by {details['clusterer']}, weighting {details['weighting']}")
    )
    inside = inside_in_words(details["n_inside"], report["n_scored"], report["correctness"])
    lacking = lacking_in_words(details["agents"].values())
    for line in (on_judging, inside, lacking and f"{lacking}."):
        if line:
            console.print(Text(for_screen(line)))
    console.print()
    has_areas = any(of["auroc"][0] is not None for of in report["scores"].values())
    if has_areas:
        console.print(_score_table(report["scores"]))
        note(
            "--json (in Python: `figures`) has paired differences, and accuracies after rejection, too."
        )
        console.print()
    elif report["scores"]:
        n_right = round(report["accuracy"] * report["n_scored"])
        right = quantity(report["n_scored"], "answer is right", "answers are right")
        console.print(f"{n_right} of {right}: no score can tell wrong answers from right ones.")
    if "by_kind" in report:
        console.print(_table_by_kind(report["by_kind"]))
        note(
            "Whether to call a tool at all is another question than which call: where none should be called, models "
            "often agree to call one."
        )
        console.print()
    absent = []
    for name, n_absent in details["absent"].items():
        of = quantity(report["n_scored"], "question")
        absent.append(f"{name_of(name).label} ({n_absent} of {of})")
    if absent:
        note(f"not computable: {', '.join(absent)}")
    if report["n_ties"]:
        note(
            "A tie: several answers share the lead; the question counts by the share of them that is right."
        )
    if has_areas:
        undefined = "- means undefined: all answers are right, or all are wrong."
        resamples = quantity(details["n_resamples"], "paired bootstrap resample")
        note(f"[low, high]: 95 % intervals, {resamples}. {undefined}")


def _print_counts(console: Console, report: Mapping[str, Any]) -> None:
    """Prints what is judged, how many questions count, and how many of the others lack what."""
    if "proposer" in report:
        console.print(Text(f"Is the first response of {for_screen(report['proposer'])} wrong?"))
    questions = quantity(report["n_questions"], "question")
    line = f"{report['n_scored']} of {questions} scored"
    details = report["details"]
    for n_lacking, what in (
        (details["n_unanswered"], "a response"),
        (details["n_unjudged"], "a verdict"),
        (details.get("n_without_proposal", 0), "a response of the proposer"),
    ):
        if n_lacking:
            line += f", {n_lacking} without {what}"
    if report["n_ties"]:
        line += f", {quantity(report['n_ties'], 'tie')}"
    console.print(line)


def _score_table(scores: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("score", "AUROC", "AURAC"):
        table.add_column(head, no_wrap=True)
    standout = find_standout(scores)
    for group, names in group_scores(scores).items():
        table.add_row(Text(group, style="dim"))
        for name in names:
            auroc = _estimate(scores[name]["auroc"])
            aurac = _number(scores[name]["aurac"][0])
            cells = (f"  {for_screen(name_of(name).label)}", auroc, aurac)
            table.add_row(*map(Text, cells), style="bold" if name == standout else "")
    return table


def _table_by_kind(kinds: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("AUROC where", *(_KINDS[kind] for kind in kinds)):
        table.add_column(head, no_wrap=True)
    counts = [f"{of['n_scored']}, {_number(of['accuracy'])}" for of in kinds.values()]
    table.add_row(Text("  questions, accuracy", style="dim"), *counts)
    for name in (*PROPOSAL_SCORES, *BASELINE):
        if all(name in of["scores"] for of in kinds.values()):
            label = f"  {for_screen(name_of(name).label)}"
            aurocs = [_estimate(of["scores"][name]["auroc"]) for of in kinds.values()]
            table.add_row(*map(Text, (label, *aurocs)))
    return table


def show_claim_figures(console: Console, figures: Mapping[str, Any]) -> None:
    """Prints the object of `score --claims --json` as a table."""
    title = '"This claim is wrong", by the texts of the other agents'
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    agents = figures["agents"]
    has_own_samples = any(of["auroc_within"] for of in agents.values())
    columns = ["agent", "claims", "wrong", "AUROC"]
    if has_own_samples:
        columns.append("by its own samples")
    shares_kept = next(iter(agents.values()))["precision"]
    columns += [f"{float(share):.0%}" for share in shares_kept]
    for column in columns:
        table.add_column(column, justify="left" if column == "agent" else "right", overflow="fold")
    for name, of in agents.items():
        wrong = of["n_wrong"] / of["n_claims"]
        cells = [for_screen(name), str(of["n_claims"]), _number(wrong), _estimate(of["auroc"])]
        if has_own_samples:
            cells.append(_estimate(of["auroc_within"]))
        cells += map(_number, of["precision"].values())
        table.add_row(*cells)
    console.print(table)
    console.print(
        "Intervals: 95 %, over entities. The last columns: how many are right among so many of most support.",
        soft_wrap=True,
    )


def _estimate(estimate: Sequence[float | None] | None) -> str:
    value, low, high = estimate or (None, None, None)
    return "-" if value is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def show_experiment(console: Console, experiment: Experiment, written: Sequence[Path] = ()) -> None:
    """Prints the title, the table with the paper's rows in another colour, the notes below it, and what was written.

    Columns that do not fit a narrow terminal are omitted, from the right, and counted.
    """
    unlimited = console.options.update(width=10_000)
    n_heads = n_columns = len(experiment.heads)
    table = _experiment_table(experiment, n_columns)
    while (
        n_columns > 1
        and console.measure(table, options=unlimited).maximum > console.width - _INDENT
    ):
        n_columns -= 1
        table = _experiment_table(experiment, n_columns)
    notes = caption_of(experiment)
    if n_columns < n_heads:
        columns = quantity(n_heads - n_columns, "more column")
        notes = [f"{columns} in a wider terminal and in the files", *notes]
    _print_tables(console, experiment.title, [table], notes)
    for path in written:
        console.print(Text(f"  {for_screen(str(path))}"), soft_wrap=True)


def _print_tables(
    console: Console, title: str, tables: Sequence[Table], notes: Sequence[str]
) -> None:
    console.print()
    console.print(Text(for_screen(title), style="bold"))
    for table in tables:
        console.print(Padding(table, (0, 0, 0, _INDENT)))
    for text in filter(None, notes):
        console.print(Padding(Text(for_screen(text), style="dim"), (0, 0, 0, _INDENT)))


def show_side_by_side(console: Console, experiment: Experiment) -> None:
    """Prints an experiment of two keys: a row for each first key, a column for each second one.

    The other columns are a value with its interval, and what it is less the first column's, with its interval. Columns
    that do not fit follow in further blocks. Rows in which no column differs are one sentence.
    """
    names = list(dict.fromkeys(str(row[1]) for row in experiment.rows))
    lines: list[_Line] = []
    same = []
    for key, group in groupby(experiment.rows, itemgetter(0)):
        rows = list(group)
        label = for_screen(str(key))
        values = {str(row[1]): _cell(row[2:5]) for row in rows}
        differences = {str(row[1]): _cell(row[5:8], "+") for row in rows}
        is_difference = any(cell for row in rows for cell in row[5:])
        if len(names) > 1 and len({row[2] for row in rows}) == 1 and not is_difference:
            same.append(f"{label} {next(iter(values.values()))[0]}")
            continue
        lines.append((label, values))
        if any(differences.values()):
            lines.append(("  less the first", differences))

    notes = caption_of(experiment)
    if same:
        notes.insert(0, f"The same for all: {', '.join(same)}.")
    tables = _blocks(names, lines, console.width) if lines else []
    _print_tables(console, experiment.title, tables, notes)


_Line: TypeAlias = tuple[str, Mapping[str, Sequence[str]]]
"""A label, and by column a number and its interval, as far as they are known."""
_GAP = 2


def _blocks(names: Sequence[str], lines: Sequence[_Line], width: int) -> list[Table]:
    """Returns tables of `width` characters that have a column for each name; intervals are below where it is narrow."""
    labels = min(width // 3, max(cell_len(label) for label, _ in lines))
    room = width - _INDENT - labels - _GAP
    cells = [cell for _, by_name in lines for cell in by_name.values()]
    separator = " "
    widest = max(len(" ".join(cell)) for cell in cells)
    if (widest + _GAP) * len(names) > room:
        separator = "\n"
        widest = max(len(part) for cell in cells for part in cell)
    n_columns = min(len(names), max(1, room // (widest + _GAP)))
    longest = max(widest, *map(cell_len, names))
    column = max(1, min(longest, room // n_columns - _GAP))

    tables = []
    for start in range(0, len(names), n_columns):
        block = names[start : start + n_columns]
        table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
        table.add_column("figure", width=labels, overflow="fold")
        for name in block:
            table.add_column(Text(for_screen(name)), width=column, overflow="fold")
        for label, by_name in lines:
            texts = [separator.join(by_name.get(name, ())) for name in block]
            table.add_row(*map(Text, (label, *texts)))
        tables.append(table)
    return tables


def _cell(numbers: Sequence[Cell], sign: str = "") -> list[str]:
    """Returns a number and its interval, as far as they are known."""
    texts = []
    for number in numbers:
        if isinstance(number, float):
            digits = 3 if abs(number) < 10.0 else 1
            if abs(number) >= 1000.0:
                digits = 0
            texts.append(f"{number:{sign}.{digits}f}")
        elif number is not None:
            texts.append(str(number))
    interval = ", ".join(texts[1:])
    return [*texts[:1], f"[{interval}]"] if interval else texts


def _experiment_table(experiment: Experiment, n_columns: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in experiment.heads[:n_columns]:
        table.add_column(for_screen(head), no_wrap=True)
    for line in experiment.lines():
        style = "yellow" if PAPER in line else ""
        table.add_row(
            *(Text(for_screen(format_cell(cell)), style=style) for cell in line[:n_columns])
        )
    return table
