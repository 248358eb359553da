"""Owns the tables of `score`, and of experiments and comparisons: how they look on a console of rich."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.evaluation.scoring.correctness import inside_in_words
from coe_agents.evaluation.scoring.scores import find_standout
from coe_agents.experiments.experiment import PAPER, Experiment, caption_of, format_cell
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
        note("--json, or `figures`, has paired differences, and accuracies after rejection, too.")
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
    console.print()
    console.print(Text(for_screen(experiment.title), style="bold"))
    console.print(Padding(table, (0, 0, 0, _INDENT)))
    notes = caption_of(experiment)
    if n_columns < n_heads:
        columns = quantity(n_heads - n_columns, "more column")
        notes = [f"{columns} in a wider terminal and in the files", *notes]
    for text in notes:
        console.print(Padding(Text(for_screen(text), style="dim"), (0, 0, 0, _INDENT)))
    for path in written:
        console.print(Text(f"  {for_screen(str(path))}"), soft_wrap=True)


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
