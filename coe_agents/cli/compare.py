"""Owns the command `compare`: what policies did with the same questions, side by side."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.options import JsonOption, ResamplesOption
from coe_agents.cli.terminal import clean, create_console, print_json, print_lines

if TYPE_CHECKING:
    from coe_agents.experiments import Experiment
    from coe_agents.experiments.chain_figures import ChainFigures
    from coe_agents.experiments.comparison import Comparison


def compare(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders that `coe-agents run` wrote; the first is the reference.")
    ],
    as_json: JsonOption = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the tables as CSV and LaTeX, and the pictures as PNG and SVG.")
    ] = None,
    resamples: ResamplesOption = 1000,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="TOML file whose price_per_million of each agent replaces that of the run."
        ),
    ] = None,
) -> None:
    """Show coverage, risk, tokens and cost of policies side by side, with paired intervals of the differences.

    Runs are compared on the questions that they share.
    """
    from coe_agents.evaluation.decisions import read_run
    from coe_agents.experiments.chain_figures import chain_figures
    from coe_agents.experiments.comparison import compare as compare_policies
    from coe_agents.experiments.comparison import outcomes_of

    runs = dict(zip(_names_of(paths), map(read_run, paths), strict=True))
    settings = {"questions": "; ".join(dict.fromkeys(_source(run.settings) for run in runs.values()))}
    comparison = compare_policies(
        [outcomes_of(run, name=name, prices=prices_of(config)) for name, run in runs.items()],
        n_resamples=resamples,
        settings=settings,
    )
    chains = [found for name, run in runs.items() if (found := chain_figures(run, name=name)) is not None]
    show(comparison, chains, as_json=as_json, out=out)


def prices_of(path: Path | None) -> dict[str, dict[str, float]]:
    """Returns the prices in a configuration, by agent."""
    if path is None:
        return {}
    from coe_agents.config.schema import AgentConfig, ArbiterConfig, load_config

    config = load_config(path)
    parts: list[AgentConfig | ArbiterConfig] = [*config.agents, *([config.escalation] if config.escalation else [])]
    return {part.name: part.price_per_million.model_dump() for part in parts if part.price_per_million is not None}


def show(comparison: "Comparison", chains: "Sequence[ChainFigures]" = (), *, as_json: bool, out: Path | None) -> None:
    """Prints a comparison, and writes its tables and pictures."""
    from coe_agents.experiments.chain_figures import to_experiment
    from coe_agents.experiments.comparison import to_experiments

    experiments = [*to_experiments(comparison), *([to_experiment(chains)] if chains else [])]
    written = [_write(experiment, out) for experiment in experiments] if out is not None else []
    if as_json:
        more = {"chains": [each.to_json() for each in chains]} if chains else {}
        print_json({**comparison.to_json(), **more})
        return
    _show_table(comparison, chains)
    for path in written:
        print_lines(f"{clean(str(path))}.csv, .tex, .png, .svg")


def _show_table(comparison: "Comparison", chains: "Sequence[ChainFigures]") -> None:
    from rich.table import Table
    from rich.text import Text

    from coe_agents.cli.display.experiment import show_experiment
    from coe_agents.experiments.chain_figures import to_experiment
    from coe_agents.experiments.comparison import cells_of, in_words

    for line in (*in_words(comparison), *(each.in_words() for each in chains)):
        print_lines(line)
    heads, lines = cells_of(comparison)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(clean(head))
    for label, *cells in lines:
        style = "dim" if str(label).startswith(" ") else ""
        table.add_row(*(Text(clean(str(cell)) if cell else "") for cell in (label, *cells)), style=style)
    console = create_console()
    console.print()
    console.print(table)
    console.print()
    notes = [f"{each.name}: {note}" for each in comparison.policies for note in each.notes]
    notes.append(f"[low, high]: 95 % intervals, {comparison.n_resamples} bootstrap resamples; differences are paired.")
    for note in notes:
        console.print(Text(clean(note), style="dim"))
    if chains:
        show_experiment(to_experiment(chains))


def _write(experiment: "Experiment", folder: Path) -> Path:
    from coe_agents.experiments import draw_to, to_csv, to_latex

    folder.mkdir(parents=True, exist_ok=True)
    for text, kind in ((to_csv(experiment), "csv"), (to_latex(experiment), "tex")):
        (folder / f"{experiment.name}.{kind}").write_text(text, encoding="utf-8", errors="replace")
    draw_to(experiment, folder)
    return folder / experiment.name


def _names_of(paths: Sequence[Path]) -> list[str]:
    """Returns the last part of each path, or as many as tell them apart."""
    resolved = [Path(os.path.abspath(path)) for path in paths]
    if len(set(resolved)) < len(resolved):
        raise typer.BadParameter("each folder must be given once. Remove the repetition", param_hint="PATHS")
    n_parts = 1
    while True:
        names = ["/".join(path.parts[-n_parts:]) for path in resolved]
        if len(set(names)) == len(names):
            return names
        n_parts += 1


def _source(settings: dict[str, Any] | Any) -> str:
    dataset = settings.get("dataset")
    return str(dataset.get("source")) if isinstance(dataset, dict) else "not recorded"
