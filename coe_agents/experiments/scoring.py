"""Owns `score`: how well scores tell wrong answers from right ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coe_agents._removed import refuses_removed
from coe_agents.checks import instance
from coe_agents.clustering import Clusterer
from coe_agents.errors import SamplesError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.frames import import_pandas
from coe_agents.evaluation.origin import ResolvedJudging
from coe_agents.evaluation.scoring.correctness import Criterion
from coe_agents.evaluation.scoring.scores import Scores, ScoringSetup, report, score_samples
from coe_agents.experiments.judging import (
    JudgingArguments,
    SavedSamples,
    check_proposer,
    check_resamples,
    create_setup,
    open_samples,
)
from coe_agents.experiments.progress import count_questions
from coe_agents.experiments.shown import Shown, create_axes
from coe_agents.experiments.tables import show_report
from coe_agents.measurement.estimators import Estimator, name_of
from coe_agents.measurement.weighting import Weighting
from coe_agents.text import quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from coe_agents.config.schema import Config

_MEASURES = ("auroc", "aurac", "aurc", "paper_aurac")


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """What `score` finds; printed as a table.

    Attributes:
        figures: The figures as plain data: those of `coe-agents score --json`.
        judging: How answers were compared and judged, and what said so.
    """

    figures: Mapping[str, Any]
    judging: ResolvedJudging

    def to_frame(self) -> Any:
        """Returns a pandas data frame, a row for each score: its areas with 95 % intervals, and accuracies."""
        rows = []
        for name, figures in self.figures["scores"].items():
            row = {"score": name}
            for measure in _MEASURES:
                row.update(_with_ends(measure, figures[measure]))
            for share, estimate in figures["rejection_accuracy"].items():
                row.update(_with_ends(f"accuracy_at_{share}", estimate))
            rows.append(row)
        return import_pandas().DataFrame(rows)

    def plot(self) -> "Figure":
        """Draws the AUROC of each score with its interval; needs Matplotlib, of the extra `plots`."""
        figure, (axes,) = create_axes()
        labels: list[str] = []
        for name, figures in self.figures["scores"].items():
            value, low, high = figures["auroc"]
            if value is not None:
                axes.plot([low, high], [len(labels)] * 2, color="0.6")
                axes.plot([value], [len(labels)], marker="o", color="tab:blue")
                labels.append(name_of(name).label)
        figure.set_figheight(1.4 + 0.25 * len(labels))
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.axvline(0.5, color="0.6", linestyle="--")
        # below the whole figure, since the names of scores leave the axes too little of its width
        across = "AUROC: 0.5 is chance,\n1 tells each wrong answer from each right one"
        figure.supxlabel(across, fontsize="medium")
        return figure

    def show(self, console: "Console") -> None:
        """Prints the table on a console of rich."""
        show_report(console, self.figures, self.judging.note())


def _with_ends(name: str, estimate: Any) -> dict[str, Any]:
    value, low, high = estimate
    return {name: value, f"{name}_low": low, f"{name}_high": high}


@refuses_removed
def score(
    samples: SavedSamples,
    *,
    clusterer: Clusterer | str | None = None,
    correctness: Criterion | str | None = None,
    config: "Config | str | Path | None" = None,
    weighting: Weighting = "auto",
    resamples: int = 1000,
    proposer: str | None = None,
    estimators: Mapping[str, Estimator] | None = None,
    progress: bool = True,
) -> Evaluation:
    """Returns how well each uncertainty score separates wrong answers from right ones, on saved responses.

    The measures are AUROC (of "this answer is wrong"), AURAC and the accuracy on the most certain questions, with 95 %
    bootstrap intervals.

    Args:
        samples: From `sample`, or files of samples, or the folder of a run. The references or a label of one question
            must be known.
        clusterer: Compares the responses: an object, or "normalized", "actions", "tinyworld". None: as the samples
            recorded it, else "normalized", and the table says so.
        correctness: When an answer is right: "reference", "label", "reference_or_label", "f1", "entailment", ..., or an
            object of your own. None: as the samples recorded it, else "reference_or_label".
        config: A configuration, or its file, whose clusterer and judge count.
        weighting: How responses count: "frequency", "probability", or "auto", by probability where an agent has it for
            all its responses.
        resamples: Bootstrap resamples behind each interval.
        proposer: The agent whose first response is judged, in place of the group's answer.
        estimators: Scores of your own, by name: functions of `Statistics`.
        progress: Whether the progress is shown.

    Raises:
        SamplesError: A file cannot be read, or holds no question that can be scored.
        ValueError: The arguments do not fit together, or to the samples.

    Example:
        >>> import pandas
        >>> from coe_agents.evaluation import Samples
        >>> said = [("1", "a", "Paris"), ("1", "b", "Paris"), ("2", "a", "Lima"), ("2", "b", "Rome")]
        >>> frame = pandas.DataFrame(said, columns=["id", "agent", "text"]).assign(references="Paris")
        >>> score(Samples.from_frame(frame), resamples=10).figures["scores"]["coe"]["auroc"][0]
        1.0
    """
    arguments = JudgingArguments(
        clusterer=clusterer, correctness=correctness, config=config, weighting=weighting
    )
    check_resamples(resamples)
    if estimators is not None:
        what = "a mapping from names to functions"
        advice = 'Write {"my_score": function}'
        instance(estimators, Mapping, '"estimators"', what=what, advice=advice)
    with open_samples(samples) as questions:
        setup, judging = create_setup(questions.paths, arguments, recorded=questions.clusterer)
        setup = replace(setup, estimators=estimators or {}, proposer=proposer)
        return score_with(questions, setup, judging, resamples=resamples, progress=progress)


def score_with(
    questions: Samples,
    setup: ScoringSetup,
    judging: ResolvedJudging,
    *,
    resamples: int,
    n_processes: int = 1,
    progress: bool,
) -> Evaluation:
    """Scores samples in one way; see `score`."""
    with count_questions(len(questions), is_shown=progress):
        scores = score_samples(questions, setup, n_processes=n_processes)
        check_proposer(setup.proposer, scores.agents)
        if not scores.correct.size:
            raise _nothing_scored(scores)
        figures = report(scores, n_resamples=resamples, n_processes=n_processes)
    return Evaluation({**figures, "judged": judging.to_json()}, judging)


def _nothing_scored(scores: Scores) -> SamplesError:
    questions = quantity(scores.n_questions, "question")
    hint = "Sample again; the samples hold the error of each request that failed"
    if scores.n_unjudged:
        hint = 'Give "references" or "correct"; where they have other names, --columns, "columns" in Python, maps them'
    return SamplesError(
        f"none of {questions} can be scored: {scores.n_unanswered} have no response, of {scores.n_unjudged} it is not "
        "known whether the answer is right",
        hint=hint,
    )
