"""Owns `report`: one web page of saved responses, or of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coe_agents._removed import refuses_removed
from coe_agents.checks import has_method, require, to_path
from coe_agents.clustering import Clusterer
from coe_agents.evaluation.origin import DECISIONS, read_run
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.scoring.correctness import Criterion
from coe_agents.experiments.judging import (
    JudgingArguments,
    SavedSamples,
    check_resamples,
    create_setup,
    open_samples,
)
from coe_agents.experiments.progress import count_questions
from coe_agents.experiments.runs import Runs
from coe_agents.files import write
from coe_agents.measurement.weighting import Weighting
from coe_agents.pages.report_page import create_page
from coe_agents.pages.run_page import create_run_page
from coe_agents.policy import Policy

if TYPE_CHECKING:
    from coe_agents.config.schema import Config


@refuses_removed
def report(
    samples: SavedSamples | Runs,
    out: str | Path,
    *,
    clusterer: Clusterer | str | None = None,
    correctness: Criterion | str | None = None,
    config: "Config | str | Path | None" = None,
    weighting: Weighting = "auto",
    resamples: int = 1000,
    policy: Policy | None = None,
) -> Path:
    """Writes one HTML page that needs no network, and returns its path.

    Of samples it shows scores, curves, thresholds to move, and all questions; of a run, what the policy did with each
    question, round by round.

    Args:
        samples: From `coe_agents.sample` or `coe_agents.run`; files of samples, or the folder of either.
        out: Where to write the page.
        clusterer: As of `coe_agents.score`; so are the next four. A run is shown as it was judged.
        correctness: When an answer is right.
        config: A configuration, or its file.
        weighting: How responses count.
        resamples: Bootstrap resamples behind each interval.
        policy: Where the thresholds of the page begin.
    """
    arguments = JudgingArguments(
        clusterer=clusterer, correctness=correctness, config=config, weighting=weighting
    )
    check_resamples(resamples)
    if policy is not None:
        has_method(policy, "decide", '"policy"', advice="Pass ThresholdPolicy(0.5), for example")
    file = to_path(out, '"out"')
    page = create_report(samples, arguments, resamples=resamples, policy=policy)
    write(file, page.html.encode(errors="replace"))
    return file


@dataclass(frozen=True, slots=True)
class Page:
    """A page, how many questions it shows, and a line on how their answers are judged, if there is one."""

    html: str
    n_questions: int
    note: str | None = None


def create_report(
    samples: SavedSamples | Runs,
    arguments: JudgingArguments,
    *,
    resamples: int,
    policy: Policy | None = None,
    progress: bool = False,
) -> Page:
    """Returns the page of samples or of a run; see `report`."""
    if isinstance(samples, Runs):
        return _page_of_run(samples.path, resamples)
    folder = _folder_of_run(samples)
    if folder is not None:
        return _page_of_run(folder, resamples)
    with open_samples(samples) as questions:
        setup, judging = create_setup(questions.paths, arguments, recorded=questions.clusterer)
        titles = []
        for path in questions.paths:
            titles.append((path.parent if path.name == SAMPLES else path).resolve().name)
        with count_questions(len(questions), is_shown=progress):
            html = create_page(
                questions,
                setup,
                title=", ".join(titles),
                n_resamples=resamples,
                note=judging.note(),
                policy=policy,
            )
        return Page(html, len(questions), judging.note())


def _page_of_run(folder: Path, resamples: int) -> Page:
    run = read_run(folder)
    return Page(create_run_page(run, n_resamples=resamples), len(run.items) + len(run.errors))


def _folder_of_run(samples: Any) -> Path | None:
    """Returns the folder of a run that is named; None of samples, and of what is neither."""
    if isinstance(samples, str | Path):
        samples = [samples]
    if not isinstance(samples, Sequence) or isinstance(samples, bytes):
        return None
    paths = [Path(path) for path in samples if isinstance(path, str | Path)]
    decided = [path for path in paths if (path / DECISIONS).is_file()]
    must = '"samples" must be one folder where it is that of a run'
    advice = "Compare runs by coe_agents.compare"
    require(not decided or len(samples) == 1, must, len(samples), advice)
    return decided[0] if decided else None
