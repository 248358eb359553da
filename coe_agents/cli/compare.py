"""Owns the command `compare`: what policies did with the same questions, side by side."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents.cli.inputs import as_options, judging_arguments, names_of, open_samples
from coe_agents.cli.options import JsonOption, JudgingOptions, ResamplesOption, expand_options
from coe_agents.cli.terminal import (
    clean,
    counts_questions,
    create_console,
    print_json,
    print_lines,
    show_work,
)
from coe_agents.files import write

if TYPE_CHECKING:
    from coe_agents.experiments.comparison import Comparison


@expand_options
def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that `coe-agents run` wrote, the first is the reference; with --policies saved responses."
        ),
    ],
    scoring: JudgingOptions,
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the table as CSV.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="File for a picture of risk over coverage, such as risk.png; needs coe-agents[plots]."
        ),
    ] = None,
    resamples: ResamplesOption = 1000,
    policies: Annotated[
        str | None,
        typer.Option(
            help="Configuration files, separated by commas: replays their policies on saved responses, without a model."
        ),
    ] = None,
) -> None:
    """Show coverage, risk, tokens and cost of policies side by side, with paired intervals of the differences.

    Runs are compared on the questions that they share. A replay takes saved responses for what agents would say: more
    samples while they last, and no debate; --clusterer and --correctness are for it.
    """
    from coe_agents.experiments.comparing import compare as compare_runs
    from coe_agents.experiments.comparison import to_experiment
    from coe_agents.experiments.experiment import write_to
    from coe_agents.experiments.runs import Runs

    if policies is not None:
        comparison = _replay(paths, policies, scoring, resamples)
    elif scoring == JudgingOptions():
        named = zip(names_of(paths), paths, strict=True)
        runs = [Runs(path, name=name) for name, path in named]
        with show_work("comparing the runs"):
            comparison = compare_runs(*runs, resamples=resamples)
    else:
        advice = 'runs are compared as they were judged: "run --correctness" names how. Omit it, or add --policies'
        raise typer.BadParameter(advice, param_hint="--clusterer, --correctness and --fresh")

    written = [] if out is None else write_to(to_experiment(comparison), out)
    if plot is not None:
        _save_plot(comparison, plot)
        written.append(plot)
    if as_json:
        print_json(comparison.to_json())
        return
    comparison.show(create_console())
    for path in written:
        print_lines(f"  {path}")


def _save_plot(comparison: "Comparison", path: Path) -> None:
    picture = BytesIO()
    try:
        comparison.plot().savefig(picture, format=path.suffix.removeprefix(".") or "png", dpi=150)
    except ValueError as error:
        raise typer.BadParameter(f"{error}. Name a file.png", param_hint="--plot") from error
    write(path, picture.getvalue())


def _replay(
    paths: list[Path], policies: str, options: JudgingOptions, resamples: int
) -> "Comparison":
    from coe_agents.experiments.comparing import compare_policies
    from coe_agents.experiments.judging import JudgingArguments

    files = [Path(name.strip()) for name in policies.split(",") if name.strip()]
    if not files:
        raise typer.BadParameter("it must name at least one file", param_hint="--policies")
    misplaced = [path for path in paths if path.suffix == ".toml"]
    if misplaced:
        together = ",".join(map(str, [*files, *misplaced]))
        message = (
            f"it must name all configuration files, with commas and no blank between them; got {misplaced[0]} among "
            f"the samples. Pass --policies {together}"
        )
        raise typer.BadParameter(clean(message), param_hint="--policies")
    names = names_of(files, of="file", option="--policies")
    by_name = {}
    for name, file in zip(names, files, strict=True):
        by_name[name.removesuffix(".toml")] = file
    judging = JudgingArguments(**judging_arguments(options))
    with open_samples(paths, options) as questions, as_options():
        return compare_policies(
            questions, by_name, judging, None, resamples, progress=counts_questions()
        )
