"""Owns the command `report`: one page of saved responses, or of a run."""

from pathlib import Path
from typing import Annotated

import typer

from coe_agents.cli.inputs import create_setting, load_quietly, open_samples
from coe_agents.cli.options import ResamplesOption, ScoringOptions, expand_options
from coe_agents.cli.terminal import clean, print_lines
from coe_agents.files import write
from coe_agents.text import quantity


@expand_options
def report(
    run: Annotated[
        list[Path],
        typer.Argument(
            help="The folder of a run of `sample`, or files of saved responses; or the folder of a `run`."
        ),
    ],
    scoring: ScoringOptions,
    out: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    resamples: ResamplesOption = 1000,
) -> None:
    """Write one HTML page that needs no network: of saved responses, or of a run.

    For saved responses it shows scores, curves, adjustable thresholds, which begin at those of the policy in --config,
    and all questions. For a run it shows what the policy did with each question, round by round. The options of scoring
    are for saved responses. To compare runs: coe-agents compare.
    """
    from coe_agents.evaluation.origin import DECISIONS, read_run

    if any((path / DECISIONS).is_file() for path in run):
        if len(run) > 1:
            message = f"of decisions it must be one folder; got {len(run)} paths. To compare runs: coe-agents compare"
            raise typer.BadParameter(message, param_hint="'run'")
        from coe_agents.pages.run_page import create_run_page

        decided = read_run(run[0])
        n_questions = len(decided.items) + len(decided.errors)
        _write(create_run_page(decided, n_resamples=resamples), out, n_questions)
    else:
        _report_samples(run, scoring, out, resamples)


def _report_samples(paths: list[Path], scoring: ScoringOptions, out: Path, resamples: int) -> None:
    from coe_agents.pages.report_page import create_page

    config = None if scoring.config is None else load_quietly(scoring.config)
    setting, judging = create_setting(scoring, paths, config)
    policy = None
    if config is not None:
        from coe_agents.config.build import create_policy

        policy = create_policy(config)
    note = judging.note()
    title = ", ".join(path.resolve().name for path in paths)
    with open_samples(paths, scoring) as questions:
        n_questions = len(questions)
        page = create_page(
            questions, setting, title=title, n_resamples=resamples, note=note, policy=policy
        )
    _write(page, out, n_questions)
    print_lines(note)


def _write(page: str, out: Path, n_questions: int) -> None:
    write(out, page.encode(errors="replace"))
    size = f"{out.stat().st_size / 1e6:.1f} MB"
    print_lines(f"{quantity(n_questions, 'question')}: {clean(str(out))}, {size}")
