"""Owns the page as a whole: its parts, and what it may do in a browser.

Responses are untrusted. They are in the page as base64 of gzip, so no text of theirs is ever parsed as HTML, and are
shown as text nodes; names are escaped by the template. The page's policy lets only its own script run, by its hash,
and forbids every connection.
"""

import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from importlib import resources

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.html.rows import Rows, pack
from coe_agents.evaluation.html.summary import summarize
from coe_agents.evaluation.report import find_standout, report
from coe_agents.evaluation.samples import SampledQuestion
from coe_agents.evaluation.scoring import score
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion
from coe_agents.evaluation.scoring.score_names import BASELINE, group_scores, name_of
from coe_agents.policy import Weighting

_SCRIPT = ("base.js", "charts.js", "plane.js", "questions.js", "start.js")


def create_page(
    questions: Iterable[SampledQuestion],
    *,
    title: str,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    entailment: EntailmentModel | None = None,
    n_resamples: int = 1000,
) -> str:
    """Scores the questions as `score` does and returns the page, HTML in one piece; it may hold lone surrogates.

    `title` is the heading, and `n_resamples` is of the bootstrap behind every interval. The errors are those of
    `score`, and ImportError if Jinja is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise ImportError('a page needs Jinja; pip install "coe-agents[evaluation]"') from error
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    rows = Rows(criterion)
    scores = score(
        rows.keep_unanswered(questions),
        clusterer=clusterer,
        weighting=weighting,
        criterion=criterion,
        entailment=entailment,
        on_question=rows.add,
    )
    figures = report(scores, n_resamples=n_resamples)
    style, script = _join(["page.css"]), _join(_SCRIPT)
    return environment.from_string(_join(["page.html"])).render(
        title=title,
        report=figures,
        summary=summarize(rows.columns, figures),
        baseline=[name for name in BASELINE if name in figures["scores"]],
        groups=group_scores(figures["scores"]),
        name_of=name_of,
        standout=find_standout(figures["scores"]),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        overview=pack(rows.overview(scores)),
        blocks=rows.blocks(),
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _join(names: Iterable[str]) -> str:
    folder = resources.files(__package__ or "")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in names)


def _digest(source: str) -> str:
    """Returns a source's hash as a content security policy has it."""
    return f"sha256-{base64.b64encode(sha256(source.encode()).digest()).decode()}"
