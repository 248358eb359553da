"""Owns the command `report`: an evaluation, a run or two runs as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from coe_agents.cli.inputs import create_setting, load_quietly, names_of, without_rulings
from coe_agents.cli.options import ResamplesOption, ScoringOptions, expand_options
from coe_agents.cli.terminal import clean, print_lines
from coe_agents.files import write
from coe_agents.text import quantity


@expand_options
def report(
    run: Annotated[
        list[Path],
        typer.Argument(
            help="The folder of a run of `sample`, or files of saved responses; or a folder of `run`, or two of them."
        ),
    ],
    scoring: ScoringOptions,
    out: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    resamples: ResamplesOption = 1000,
) -> None:
    """Write one HTML page that needs no network: of saved responses, or of one run or two side by side.

    For saved responses it shows scores, curves, adjustable thresholds, which begin at those of the policy in --config,
    and all questions. For a run it shows what the
    policy did with each question, round by round; for two, which outcomes changed, and paired differences. The
    options of scoring are for saved responses.
    """
    from coe_agents.evaluation.run_decisions import DECISIONS

    decided = [(path / DECISIONS).is_file() for path in run]
    note = None
    if any(decided):
        page, count = _of_runs(run, resamples=resamples, are_decided=all(decided))
    else:
        page, count, note = _of_samples(run, scoring, resamples=resamples)
    write(out, page.encode(errors="replace"))
    print_lines(f"{quantity(count, 'question')}: {clean(str(out))}, {out.stat().st_size / 1e6:.1f} MB")
    print_lines(note)


def _of_samples(paths: list[Path], scoring: ScoringOptions, *, resamples: int) -> tuple[str, int, str | None]:
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.html.report_page import create_page

    setting, judging = create_setting(scoring, paths)
    policy = None
    if scoring.config is not None and (config := load_quietly(scoring.config)) is not None:
        from coe_agents.config.build import create_policy

        policy = create_policy(config)
    with Samples(paths) as questions:
        page = create_page(
            without_rulings(questions, argument="run"),
            setting,
            title=", ".join(path.resolve().name for path in paths),
            n_resamples=resamples,
            note=judging.note(),
            policy=policy,
        )
        return page, len(questions), judging.note()


def _of_runs(paths: list[Path], *, resamples: int, are_decided: bool) -> tuple[str, int]:
    from coe_agents.evaluation.run_decisions import read_run
    from coe_agents.experiments.run_page import create_run_page

    if not are_decided or len(paths) > 2:
        found = "saved responses among them" if not are_decided else f"{len(paths)}"
        raise typer.BadParameter(
            f"it must be one or two folders that coe-agents run wrote; got {found}. For more: coe-agents compare",
            param_hint="'run'",
        )
    names = names_of(paths)
    runs = [read_run(path) for path in paths]
    page = create_run_page(runs, title=" and ".join(names), names=names, n_resamples=resamples)
    return page, len({key for run in runs for key in (*run.items, *run.errors)})
