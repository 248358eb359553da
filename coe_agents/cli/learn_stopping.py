"""Owns the command `learn-stopping`: when another round pays, learned from the trajectories of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents._plurals import quantity
from coe_agents.cli.options import JsonOption, ResamplesOption
from coe_agents.cli.terminal import clean, create_console, print_json, print_lines

if TYPE_CHECKING:
    from coe_agents.experiments.stopping import StoppingComparison


def learn_stopping(
    run: Annotated[
        Path, typer.Argument(help="Folder that `coe-agents run` wrote, under a policy that always goes on to the end.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the rule, as JSON.")],
    price: Annotated[
        float, typer.Option(min=0.0, help="What a round costs: the share of questions that it must make right.")
    ] = 0.01,
    max_coe: Annotated[
        float,
        typer.Option(min=0.0, help="In nats: the rule is compared with one that goes on while CoE exceeds this."),
    ] = 0.7,
    judge: Annotated[
        Path | None,
        typer.Option(help="A run on other questions, on which the rule is judged; default: five folds of RUN."),
    ] = None,
    resamples: ResamplesOption = 1000,
    as_json: JsonOption = False,
) -> None:
    """Learn when another round pays, and show what the rule does beside always, never and a threshold on CoE.

    The rule reads the regime, both parts of CoE, how much the epistemic part fell, the conformity and the round. Use it
    as [policy] with kind = "stopping". It needs a run in which each question had all rounds: kind = "regime" with
    another_round for each regime.
    """
    from coe_agents.evaluation.calibration.trajectories import trajectories_of
    from coe_agents.evaluation.decisions import read_run
    from coe_agents.experiments.stopping import compare_stopping

    learned_on = trajectories_of(read_run(run))
    found = compare_stopping(learned_on, max_coe=max_coe, price=price, n_resamples=resamples)
    if judge is not None:
        others = trajectories_of(read_run(judge))
        if both := learned_on.rounds.keys() & others.rounds.keys():
            raise typer.BadParameter(
                f"it must hold other questions; {len(both)} are in both runs. Omit it to judge in folds",
                param_hint="--judge",
            )
        found = compare_stopping(others, max_coe=max_coe, rule=found.rule, n_resamples=resamples)
    found.rule.save(out)
    if as_json:
        print_json(found.to_json())
        return
    _show(found)
    print_lines(f'Wrote {clean(str(out))}. To use it: [policy] kind = "stopping", path = "{clean(out.name)}"')


def _show(found: "StoppingComparison") -> None:
    from rich.table import Table
    from rich.text import Text

    from coe_agents.cli.compare import show_cells

    for line in found.in_words():
        print_lines(line)
    show_cells(found.comparison)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("another round", "rounds", "right before", "right after", "gain", "the rule asks"):
        table.add_column(head)
    for each in found.gains:
        gain, low, high = each.gain
        table.add_row(
            Text(each.of),
            str(each.n),
            f"{each.before:.3f}",
            f"{each.after:.3f}",
            Text(f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"),
            str(each.asked),
        )
    console = create_console()
    console.print(table)
    console.print()
    console.print(
        Text(
            f"[low, high]: 95 % intervals, {quantity(found.comparison.n_resamples, 'bootstrap resample')}; "
            "differences are paired.",
            style="dim",
        )
    )
