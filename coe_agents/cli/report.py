"""Owns the command `report`: an evaluation as one page for a browser."""

from pathlib import Path
from typing import Annotated

import typer

from coe_agents.cli.score import (
    ClustererOption,
    ConfigFileOption,
    CorrectnessOption,
    ResamplesOption,
    WeightingOption,
    to_setting,
)


def report(
    run: Annotated[list[Path], typer.Argument(help="The folder of a run of `sample`, or files of saved responses.")],
    out: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Its heading; default: the name of what is reported.")] = None,
    clusterer: ClustererOption = None,
    config: ConfigFileOption = None,
    weighting: WeightingOption = "auto",
    correctness: CorrectnessOption = "reference_or_label",
    resamples: ResamplesOption = 1000,
) -> None:
    """Write scores, curves, thresholds to try and all questions into one page that needs no network."""
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.html import create_page
    from coe_agents.redaction import clean

    setting = to_setting(clusterer, config, correctness)
    with Samples(run) as questions:
        page = create_page(
            questions,
            title=", ".join(path.resolve().name for path in run) if title is None else title,
            clusterer=setting.clusterer,
            weighting=weighting,
            criterion=setting.criterion,
            entailment=setting.entailment,
            n_resamples=resamples,
        )
        count = len(questions)
    out.write_text(page, "utf-8", errors="replace", newline="\n")
    print(f"{count} questions: {clean(str(out))}, {out.stat().st_size / 1e6:.1f} MB")
