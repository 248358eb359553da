"""Owns the page of saved responses: the sentences that it begins with, and its parts, put together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coe_agents.evaluation.scoring.correctness import inside_in_words
from coe_agents.evaluation.scoring.scores import (
    ScoringSetup,
    find_standout,
    report,
    score_each,
    to_scores,
)
from coe_agents.measurement.estimators import BASELINE, group_scores, name_of
from coe_agents.measurement.wording import lacking_in_words
from coe_agents.pages.page_data import Rows, check_jinja, pack, render
from coe_agents.policy import Policy
from coe_agents.text import quantity
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Fields,
    SampledQuestion,
)


def create_page(
    questions: Iterable[SampledQuestion],
    setup: ScoringSetup,
    *,
    title: str,
    n_resamples: int = 1000,
    note: str | None = None,
    policy: Policy | None = None,
) -> str:
    """Scores the questions as `score` does and returns the page, HTML in one piece; it may hold lone surrogates.

    `title` is the heading, `n_resamples` is of the bootstrap behind every interval, and `note` is one more sentence at
    the beginning. The thresholds that a reader can move begin at those of the `policy`. The errors are those of
    `score`, and ImportError if Jinja is not installed.
    """
    check_jinja()
    rows = Rows(setup.criterion)
    scored = score_each(rows.keep_unanswered(questions), setup, on_question=rows.add)
    scores = to_scores(scored, setup)
    figures = report(scores, n_resamples=n_resamples)
    facts = summarize(rows.columns, figures)
    if lacking := lacking_in_words(figures["details"]["agents"].values()):
        facts.append(f"{lacking}.")
    inside = inside_in_words(
        figures["details"]["n_inside"], figures["n_scored"], figures["correctness"]
    )
    if inside is not None:
        facts.append(inside)
    if note is not None:
        facts.append(note)
    return render(
        "page.html",
        scripts=["charts.js", "plane.js", "questions.js", "start.js"],
        title=title,
        topic="uncertainty of a group of models",
        facts=facts,
        report=figures,
        baseline=[name for name in BASELINE if name in figures["scores"]],
        groups=group_scores(figures["scores"]),
        name_of=name_of,
        standout=find_standout(figures["scores"]),
        overview=pack(rows.overview(scores, policy)),
        blocks=rows.blocks(),
    )


def summarize(questions: Mapping[str, Sequence[Any]], figures: Fields) -> list[str]:
    """Returns plain sentences on the group's answers.

    `questions` are the columns of `Rows`, and `figures` is what `report` returns on the same questions.
    """
    n = figures["n_scored"]
    if not n:
        return ["No answer could be judged."]
    n_right = round(figures["accuracy"] * n, 1)
    of_all = f"{n_right:g} of {quantity(n, 'question')} ({_percent(n_right / n)})"
    facts = [f"The group is right on {of_all}."]
    if n_right != round(n_right):
        facts.append("A tie, or an answer whose labels differ, counts by the share that is right.")

    auroc, low, high = figures["scores"]["coe"]["auroc"]
    if auroc is not None:
        facts.append(
            f"CoE is higher for a wrong answer than for a right one in {_percent(auroc)} of pairs "
            f"({_percent(0.95)} interval {_percent(low)} to {_percent(high)}; chance is {_percent(0.5)})."
        )

    # as floats, in which None is NaN, and no comparison with it is true
    correct = np.array(questions["correct"], dtype=np.float64)
    aleatoric = np.array(questions["aleatoric"], dtype=np.float64)
    epistemic = np.array(questions["epistemic"], dtype=np.float64)
    is_wrong_answer = (np.array(questions["kind"]) == "answer") & (correct == 0)
    is_low = aleatoric <= DEFAULT_ALEATORIC_THRESHOLD
    is_low &= epistemic <= DEFAULT_EPISTEMIC_THRESHOLD
    n_certain = int((is_wrong_answer & is_low).sum())
    if n_certain:
        facts.append(
            f"{quantity(n_certain, 'wrong answer')} looked certain: both parts of CoE are low "
            f"(aleatoric at most {DEFAULT_ALEATORIC_THRESHOLD:g}, epistemic at most {DEFAULT_EPISTEMIC_THRESHOLD:g} "
            "nats). The list of questions begins with such answers."
        )
    return facts


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"
