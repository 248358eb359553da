"""Owns the command `report`: one page of saved responses, or of a run."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from coe_agents.cli.inputs import as_options, judging_arguments, open_samples
from coe_agents.cli.options import ResamplesOption, ScoringOptions, expand_options
from coe_agents.cli.terminal import clean, print_lines, shows_progress
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
    from coe_agents.evaluation.origin import DECISIONS
    from coe_agents.experiments.judging import JudgingArguments
    from coe_agents.pages.writing import create_report

    if len(run) > 1 and any((path / DECISIONS).is_file() for path in run):
        message = f"of decisions it must be one folder; got {len(run)} paths. To compare runs: coe-agents compare"
        raise typer.BadParameter(message, param_hint="'run'")
    named = judging_arguments(scoring)
    arguments = JudgingArguments(**named)
    policy = None
    if named["config"] is not None:
        from coe_agents.config.build import create_policy

        policy = create_policy(named["config"])
    with ExitStack() as stack:
        shown: Any = run[0]
        if not (run[0] / DECISIONS).is_file():
            shown = stack.enter_context(open_samples(run, scoring))
        stack.enter_context(as_options())
        page = create_report(
            shown, arguments, resamples=resamples, policy=policy, progress=shows_progress()
        )
    write(out, page.html.encode(errors="replace"))
    kilobytes = out.stat().st_size / 1e3
    size = f"{kilobytes / 1e3:.1f} MB" if kilobytes >= 100 else f"{kilobytes:.1f} kB"
    print_lines(f"{quantity(page.n_questions, 'question')}: {clean(str(out))}, {size}")
    print_lines(page.note)
