"""Owns the tables of `score`, and of experiments and comparisons: how they look on a console of rich."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

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
from coe_agents.types import Fields

_KINDS = {"call": "a tool is called", "no_call": "no tool is called"}
_INDENT = 2
_GAP = 2


def show_report(console: Console, report: Fields, on_judging: str | None) -> None:
    """Prints the object of `score --json` as a table; a score is in bold if it stands out from all others.

    `on_judging` is a line on how answers are judged.
    """
    _print_counts(console, report)
    _print_agents(console, report["details"]["agents"])
    _print_judging(console, report, on_judging)
    console.print()

    scores = report["scores"]
    has_areas = any(figures["auroc"][0] is not None for figures in scores.values())
    if has_areas:
        console.print(_score_table(scores))
        _note(
            console,
            "--json (in Python: `figures`) has paired differences, and accuracies after rejection, too.",
        )
        console.print()
    elif scores:
        n_right = round(report["accuracy"] * report["n_scored"])
        right = quantity(report["n_scored"], "answer is right", "answers are right")
        console.print(f"{n_right} of {right}: no score can tell wrong answers from right ones.")
    if "by_kind" in report:
        console.print(_table_by_kind(report["by_kind"]))
        _note(
            console,
            "Whether to call a tool at all is another question than which call: where none should be called, models "
            "often agree to call one.",
        )
        console.print()
    _print_remarks(console, report, has_areas=has_areas)


def _note(console: Console, text: str) -> None:
    console.print(Text(text, style="dim"))


def _print_agents(console: Console, agents: Fields) -> None:
    for name, agent in agents.items():
        responses = quantity(agent["n_responses"], "response")
        questions = quantity(agent["n_questions"], "question")
        line = f"  {for_screen(name)}: {responses} to {questions}, by probability in {agent['by_probability']}"
        if agent["n_failures"]:
            line += f", {quantity(agent['n_failures'], 'failure')}"
        _note(console, line)


def _print_judging(console: Console, report: Fields, on_judging: str | None) -> None:
    """Prints the accuracy, how it was judged, and which part the answers lack."""
    details = report["details"]
    accuracy = "none" if report["accuracy"] is None else f"{report['accuracy']:.3f}"
    right = f"accuracy {accuracy}, right by {for_screen(report['correctness'])}"
    how = f"clusters by {details['clusterer']}, weighting {details['weighting']}"
    console.print(Text(f"{right}; {how}"))

    inside = inside_in_words(details["n_inside"], report["n_scored"], report["correctness"])
    lacking = lacking_in_words(details["agents"].values())
    if lacking:
        lacking += "."
    for line in (on_judging, inside, lacking):
        if line:
            console.print(Text(for_screen(line)))


def _print_remarks(console: Console, report: Fields, *, has_areas: bool) -> None:
    """Prints which scores are not computable, and how the tables are read."""
    details = report["details"]
    questions = quantity(report["n_scored"], "question")
    absent = []
    for name, n_absent in details["absent"].items():
        absent.append(f"{name_of(name).label} ({n_absent} of {questions})")
    if absent:
        _note(console, f"not computable: {', '.join(absent)}")
    if report["n_ties"]:
        _note(
            console,
            "A tie: several answers share the lead; the question counts by the share of them that is right.",
        )
    if has_areas:
        resamples = quantity(details["n_resamples"], "paired bootstrap resample")
        line = f"[low, high]: 95 % intervals, {resamples}."
        if _has_undefined(report):
            line += " - means undefined: its answers, or those of each resample, are all right or all wrong."
        _note(console, line)


def _has_undefined(report: Fields) -> bool:
    """Returns whether a table has a "-" in place of a figure."""
    shown = []
    for figures in report["scores"].values():
        shown += [figures["auroc"][0], figures["aurac"][0]]
    for of_kind in report.get("by_kind", {}).values():
        for figures in of_kind["scores"].values():
            shown.append(figures["auroc"][0])
    return None in shown


def _print_counts(console: Console, report: Fields) -> None:
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


def _create_table(*heads: str) -> Table:
    """Returns a table without lines, with columns that do not wrap."""
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, no_wrap=True)
    return table


def _score_table(scores: Fields) -> Table:
    table = _create_table("score", "AUROC", "AURAC")
    standout = find_standout(scores)
    for group, names in group_scores(scores).items():
        table.add_row(Text(group, style="dim"))
        for name in names:
            label = f"  {for_screen(name_of(name).label)}"
            auroc = _estimate(scores[name]["auroc"])
            aurac = _number(scores[name]["aurac"][0])
            style = "bold" if name == standout else ""
            table.add_row(Text(label), Text(auroc), Text(aurac), style=style)
    return table


def _table_by_kind(kinds: Fields) -> Table:
    table = _create_table("AUROC where", *(_KINDS[kind] for kind in kinds))
    reports = kinds.values()
    counts = [f"{report['n_scored']}, {_number(report['accuracy'])}" for report in reports]
    table.add_row(Text("  questions, accuracy", style="dim"), *counts)
    for name in (*PROPOSAL_SCORES, *BASELINE):
        if all(name in report["scores"] for report in reports):
            cells = [f"  {for_screen(name_of(name).label)}"]
            for report in reports:
                cells.append(_estimate(report["scores"][name]["auroc"]))
            table.add_row(*map(Text, cells))
    return table


def show_claim_figures(console: Console, figures: Fields) -> None:
    """Prints the object of `score --claims --json` as a table."""
    title = '"This claim is wrong", by the texts of the other agents'
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    agents = figures["agents"]
    has_own_samples = any(agent["auroc_within"] for agent in agents.values())
    columns = ["agent", "claims", "wrong", "AUROC"]
    if has_own_samples:
        columns.append("by its own samples")
    shares_kept = next(iter(agents.values()))["precision"]
    columns += [f"{float(share):.0%}" for share in shares_kept]
    for column in columns:
        table.add_column(column, justify="left" if column == "agent" else "right", overflow="fold")
    for name, agent in agents.items():
        n_claims = agent["n_claims"]
        share_wrong = agent["n_wrong"] / n_claims
        cells = [for_screen(name), str(n_claims), _number(share_wrong), _estimate(agent["auroc"])]
        if has_own_samples:
            cells.append(_estimate(agent["auroc_within"]))
        cells += map(_number, agent["precision"].values())
        table.add_row(*map(Text, cells))
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
    n_heads = len(experiment.heads)
    for n_columns in range(n_heads, 0, -1):
        table = _experiment_table(experiment, n_columns)
        width = console.measure(table, options=unlimited).maximum
        if width <= console.width - _INDENT:
            break
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
        note = Text(for_screen(text), style="dim")
        console.print(Padding(note, (0, 0, 0, _INDENT)))


def show_side_by_side(console: Console, experiment: Experiment) -> None:
    """Prints an experiment of two keys: a row for each first key, a column for each second one.

    The other columns are a value with its interval, and what it is less the first column's, with its interval. Columns
    that do not fit follow in further blocks. Rows in which no column differs are one sentence.
    """
    names = list(dict.fromkeys(str(row[1]) for row in experiment.rows))
    lines: list[_Line] = []
    same = []
    for key, group in groupby(experiment.rows, itemgetter(0)):
        label = for_screen(str(key))
        numbers = set()
        is_difference = False
        values: dict[str, Sequence[str]] = {}
        differences: dict[str, Sequence[str]] = {}
        for row in group:
            name = str(row[1])
            estimate = row[2:5]
            difference = row[5:8]
            numbers.add(row[2])
            is_difference |= any(difference)
            values[name] = _cell(estimate)
            differences[name] = _cell(difference, "+")

        if len(names) > 1 and len(numbers) == 1 and not is_difference:
            number, *_interval = next(iter(values.values()))
            same.append(f"{label} {number}")
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


def _blocks(names: Sequence[str], lines: Sequence[_Line], width: int) -> list[Table]:
    """Returns tables of `width` characters that have a column for each name; intervals are below where it is narrow."""
    longest_label = max(cell_len(label) for label, _ in lines)
    label_width = min(width // 3, longest_label)
    room = width - _INDENT - label_width - _GAP

    cells: list[Sequence[str]] = []
    for _, by_name in lines:
        cells += by_name.values()
    separator = " "
    widest = max(len(" ".join(cell)) for cell in cells)
    if (widest + _GAP) * len(names) > room:
        separator = "\n"
        widest = max(len(part) for cell in cells for part in cell)

    n_columns = min(len(names), max(1, room // (widest + _GAP)))
    longest = max(widest, *map(cell_len, names))
    column_width = max(1, min(longest, room // n_columns - _GAP))

    tables = []
    for start in range(0, len(names), n_columns):
        block = names[start : start + n_columns]
        table = _create_table()
        table.add_column("figure", width=label_width, overflow="fold")
        for name in block:
            table.add_column(Text(for_screen(name)), width=column_width, overflow="fold")
        for label, by_name in lines:
            texts = [separator.join(by_name.get(name, ())) for name in block]
            table.add_row(Text(label), *map(Text, texts))
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
    if len(texts) < 2:
        return texts
    value, *ends = texts
    return [value, f"[{', '.join(ends)}]"]


def _experiment_table(experiment: Experiment, n_columns: int) -> Table:
    table = _create_table(*map(for_screen, experiment.heads[:n_columns]))
    for line in experiment.lines():
        style = "yellow" if PAPER in line else ""
        cells = []
        for cell in line[:n_columns]:
            cells.append(Text(for_screen(format_cell(cell)), style=style))
        table.add_row(*cells)
    return table
