"""Owns the tables of `score`, and of experiments and comparisons: how they look on a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.cli.terminal import clean, create_console, print_lines
from coe_agents.evaluation.scoring.correctness import inside_in_words
from coe_agents.evaluation.scoring.scores import find_standout
from coe_agents.experiments.experiment import PAPER, Experiment, caption_of, format_cell
from coe_agents.measurement.estimators import BASELINE, PROPOSAL_SCORES, group_scores, name_of
from coe_agents.text import quantity

_KINDS = {"call": "a tool is called", "no_call": "no tool is called"}


def show_report(report: Mapping[str, Any], told: str | None) -> None:
    """Prints the object of `score --json` as a table; a score is in bold if it stands out from all others.

    `told` is a line on how answers are judged.
    """
    console = create_console()

    def note(text: str) -> None:
        console.print(Text(text, style="dim"))

    details, n_ties = report["details"], report["n_ties"]
    counts = {
        "without a response": details["n_unanswered"],
        "without a verdict": details["n_unjudged"],
        "without a response of the proposer": details.get("n_without_proposal", 0),
    }
    notes = [f", {count} {what}" for what, count in counts.items() if count]
    if n_ties:
        notes.append(f", {quantity(n_ties, 'tie')}")
    if "proposer" in report:
        console.print(Text(f"Is the first response of {clean(report['proposer'])} wrong?"))
    console.print(
        f"{report['n_scored']} of {quantity(report['n_questions'], 'question')} scored{''.join(notes)}"
    )
    for name, agent in details["agents"].items():
        failed = f", {quantity(agent['n_failures'], 'failure')}" if agent["n_failures"] else ""
        note(
            f"  {clean(name)}: {quantity(agent['n_responses'], 'response')} to "
            f"{quantity(agent['n_questions'], 'question')}, by probability in {agent['by_probability']}{failed}"
        )
    accuracy = "none" if report["accuracy"] is None else f"{report['accuracy']:.3f}"
    right = f"accuracy {accuracy}, right by {clean(report['correctness'])}"
    console.print(
        Text(f"{right}; clusters by {details['clusterer']}, weighting {details['weighting']}")
    )
    for line in (
        told,
        inside_in_words(details["n_inside"], report["n_scored"], report["correctness"]),
    ):
        if line is not None:
            console.print(Text(clean(line)))
    console.print()
    if report["scores"]:
        console.print(_score_table(report["scores"]))
        note("--json has paired differences, and accuracies after rejection, too.")
        console.print()
    if "by_kind" in report:
        console.print(_table_by_kind(report["by_kind"]))
        note(
            "Whether to call a tool at all is another question than which call: where none should be called, models "
            "often agree to call one."
        )
        console.print()
    absent = ", ".join(
        f"{name_of(name).label} ({n} of {quantity(report['n_scored'], 'question')})"
        for name, n in details["absent"].items()
    )
    if absent:
        note(f"not computable: {absent}")
    if n_ties:
        note(
            "A tie: several answers share the lead; the question counts by the share of them that is right."
        )
    undefined = "- means undefined: all answers are right, or all are wrong."
    resamples = quantity(details["n_resamples"], "paired bootstrap resample")
    note(f"[low, high]: 95 % intervals, {resamples}. {undefined}")


def _score_table(scores: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("score", "AUROC", "AURAC"):
        table.add_column(head, no_wrap=True)
    standout = find_standout(scores)
    for group, names in group_scores(scores).items():
        table.add_row(Text(group, style="dim"))
        for name in names:
            auroc, aurac = _estimate(scores[name]["auroc"]), _number(scores[name]["aurac"][0])
            table.add_row(
                *map(Text, (f"  {clean(name_of(name).label)}", auroc, aurac)),
                style="bold" if name == standout else "",
            )
    return table


def _table_by_kind(kinds: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("AUROC where", *(_KINDS[kind] for kind in kinds)):
        table.add_column(head, no_wrap=True)
    table.add_row(
        Text("  questions, accuracy", style="dim"),
        *(f"{found['n_scored']}, {_number(found['accuracy'])}" for found in kinds.values()),
    )
    for name in [
        name
        for name in (*PROPOSAL_SCORES, *BASELINE)
        if all(name in found["scores"] for found in kinds.values())
    ]:
        cells = (_estimate(found["scores"][name]["auroc"]) for found in kinds.values())
        table.add_row(*map(Text, (f"  {clean(name_of(name).label)}", *cells)))
    return table


def show_claim_figures(figures: Mapping[str, Any]) -> None:
    """Prints the object of `score --claims --json` as a table."""
    title = '"This claim is wrong", by the texts of the other agents'
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    kept = [*next(iter(figures["agents"].values()))["precision"]]
    within = any(of["auroc_within"] for of in figures["agents"].values())
    columns = ["agent", "claims", "wrong", "AUROC", *(["by its own samples"] if within else [])]
    for column in (*columns, *(f"{float(share):.0%}" for share in kept)):
        table.add_column(column, justify="left" if column == "agent" else "right", overflow="fold")
    for name, of in figures["agents"].items():
        found = [of["auroc"], *([of["auroc_within"]] if within else [])]
        wrong = of["n_wrong"] / of["n_claims"]
        numbers = map(_number, (wrong, *of["precision"].values()))
        table.add_row(
            clean(name), str(of["n_claims"]), next(numbers), *map(_estimate, found), *numbers
        )
    create_console().print(table)
    print_lines(
        "Intervals: 95 %, over entities. The last columns: how many are right among so many of most support."
    )


def _estimate(estimate: Sequence[float | None] | None) -> str:
    value, low, high = estimate or (None, None, None)
    return "-" if value is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def show_experiment(experiment: Experiment, written: Sequence[Path] = ()) -> None:
    """Prints the title, the table with the paper's rows in another colour, the notes below it, and what was written.

    Columns that do not fit a narrow terminal are omitted, from the right, and counted.
    """
    console = create_console()
    n_heads = len(experiment.heads)
    wide = console.options.update(width=10_000)
    widths = {
        n: console.measure(_experiment_table(experiment, n), options=wide).maximum
        for n in range(n_heads, 1, -1)
    }
    n_shown = next((n for n, width in widths.items() if width <= console.width - 2), 1)
    console.print()
    console.print(Text(clean(experiment.title), style="bold"))
    console.print(Padding(_experiment_table(experiment, n_shown), (0, 0, 0, 2)))
    n_left = n_heads - n_shown
    left_out = (
        [f"{quantity(n_left, 'more column')} in a wider terminal and in the files"]
        if n_left
        else []
    )
    for text in (*left_out, *caption_of(experiment)):
        console.print(Padding(Text(clean(text), style="dim"), (0, 0, 0, 2)))
    for path in written:
        print_lines(f"  {path}")


def _experiment_table(experiment: Experiment, n_columns: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in experiment.heads[:n_columns]:
        table.add_column(clean(head), no_wrap=True)
    for line in experiment.lines():
        style = "yellow" if PAPER in line else ""
        table.add_row(*(Text(clean(format_cell(cell)), style=style) for cell in line[:n_columns]))
    return table
