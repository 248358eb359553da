"""Owns the command `report`: an evaluation as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from coe_agents.cli.options import ResamplesOption, ScoringOptions, expand_options
from coe_agents.cli.score import create_setting
from coe_agents.cli.terminal import clean, print_lines


@expand_options
def report(
    run: Annotated[list[Path], typer.Argument(help="The folder of a run of `sample`, or files of saved responses.")],
    scoring: ScoringOptions,
    out: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option(help="Heading of the page; default: the name of the folder or files.")
    ] = None,
    resamples: ResamplesOption = 1000,
) -> None:
    """Write scores, curves, adjustable thresholds and all questions to one HTML page that needs no network."""
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.html import create_page

    setting = create_setting(scoring)
    with Samples(run) as questions:
        page = create_page(
            questions,
            title=", ".join(path.resolve().name for path in run) if title is None else title,
            clusterer=setting.clusterer,
            weighting=setting.weighting,
            criterion=setting.criterion,
            entailment=setting.entailment,
            n_resamples=resamples,
        )
        count = len(questions)
    out.write_text(page, "utf-8", errors="replace", newline="\n")
    print_lines(f"{count} questions: {clean(str(out))}, {out.stat().st_size / 1e6:.1f} MB")
