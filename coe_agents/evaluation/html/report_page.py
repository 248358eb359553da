"""Owns the page of saved responses: its parts, put together."""

from collections.abc import Iterable

from coe_agents.evaluation.html.page_data import Rows, pack
from coe_agents.evaluation.html.render import SCRIPT, STYLE, check_jinja, read_parts, render
from coe_agents.evaluation.html.summary import summarize
from coe_agents.evaluation.score_report import find_standout, report
from coe_agents.evaluation.scoring.scored_question import ScoringSetup, score_each
from coe_agents.evaluation.scoring.scores import to_scores
from coe_agents.policy import Policy
from coe_agents.policy.score_names import BASELINE, group_scores, name_of
from coe_agents.types import SampledQuestion

_SCRIPT = (*SCRIPT, "charts.js", "plane.js", "questions.js", "start.js")


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
    scores = to_scores(score_each(rows.keep_unanswered(questions), setup, on_question=rows.add), setup)
    figures = report(scores, n_resamples=n_resamples)
    return render(
        read_parts("page.html"),
        style=read_parts(*STYLE),
        script=read_parts(*_SCRIPT),
        title=title,
        topic="uncertainty of a group of models",
        facts=[*summarize(rows.columns, figures), *([] if note is None else [note])],
        report=figures,
        baseline=[name for name in BASELINE if name in figures["scores"]],
        groups=group_scores(figures["scores"]),
        name_of=name_of,
        standout=find_standout(figures["scores"]),
        overview=pack(rows.overview(scores, policy)),
        blocks=rows.blocks(),
    )
