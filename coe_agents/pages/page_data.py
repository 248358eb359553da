"""Owns what pages hold, a line of each question, all responses in packed blocks, and curves; and how they are made.

What models wrote is untrusted. It is in a page as base64 of gzip, so no text of theirs is ever parsed as HTML, and is
shown as text nodes; names are escaped by the template. The page's policy lets only its own script run, by its hash,
and forbids every connection.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib import resources
from importlib.util import find_spec
from typing import Any

import numpy as np

from coe_agents.checks import is_finite
from coe_agents.clustering.refusals import answer_kind
from coe_agents.evaluation.metrics import accuracy_rejection_curve
from coe_agents.evaluation.metrics.tallies import FloatArray, Ranking
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, Prediction, judge
from coe_agents.evaluation.scoring.scores import Scores
from coe_agents.measurement.estimators import BASELINE, name_of
from coe_agents.measurement.statistics import Statistics
from coe_agents.policy import Policy
from coe_agents.text import printable, quantity
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    JsonObject,
    SampledQuestion,
)

BLOCK = 100
"""Questions whose responses are unpacked together, when one of them is opened."""
LONGEST = 4000
"""Characters that are shown of a response; a longer one is cut and marked."""
POINTS = 200
"""Of a curve, as many as a screen can show."""
_DIGITS = 7
_COLUMNS = ("id", "text", "answer", "kind", "correct", "coe", "aleatoric", "epistemic")


class Rows:
    """The questions in the order in which they are added; of their responses only the packed form is kept.

    A criterion that needs no model judges every cluster, another one only the cluster that leads.
    """

    def __init__(self, criterion: Criterion) -> None:
        self._criterion = criterion
        self.columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._waiting: list[JsonObject] = []
        self._blocks: list[str] = []

    def keep_unanswered(self, questions: Iterable[SampledQuestion]) -> Iterator[SampledQuestion]:
        """Passes the questions on, and keeps those without a response, which are not measured."""
        for question in questions:
            if not question.responses:
                self._line(question, None, None, None, None, None, None)
                self._detail({"references": question.references, "failures": _failures(question)})
            yield question

    def add(self, statistics: Statistics, correct: float | None) -> None:
        """Keeps a question that was measured; a tie has a kind of its own, since it is never answered."""
        if statistics.is_tied:
            answer = " | ".join(map(statistics.answer_of, statistics.leading))
            kind = "tie"
        elif not statistics.is_text:
            answer = statistics.measurement.answer
            kind = str(statistics.measurement.answer_kind)
        else:
            answer = statistics.answer_of(statistics.leading[0])
            kind = answer_kind(answer)

        uncertainty = []
        for part in ("coe", "aleatoric", "epistemic"):
            uncertainty.append(shorten(statistics.figures[part] or 0.0))
        self._line(statistics.question, cut(answer, 300), kind, correct, *uncertainty)
        detail = {
            "references": statistics.question.references,
            "clusters": self._clusters(statistics, correct),
            "agents": _agents(statistics),
            "responses": _responses(statistics),
            "failures": _failures(statistics.question),
        }
        self._detail(detail)

    def overview(self, scores: Scores, policy: Policy | None = None) -> JsonObject:
        """Returns what the page begins with; its thresholds are those of the policy, where it has any."""
        labels = {}
        values = {}
        for name, column in scores.values.items():
            labels[name] = name_of(name).label
            values[name] = list(map(shorten, column))

        return {
            "block": BLOCK,
            "thresholds": _thresholds_of(policy),
            "limit": _limit_of(policy, scores),
            "questions": self.columns,
            "labels": labels,
            "baseline": [name for name in BASELINE if name in scores.values],
            "scores": values,
            "curves": compute_curves(scores),
        }

    def blocks(self) -> list[str]:
        if not self._waiting:
            return self._blocks
        return [*self._blocks, pack(self._waiting)]

    def _clusters(self, statistics: Statistics, verdict: float | None) -> list[list[Any]]:
        """Returns of each cluster its answer, its share and the verdict on it, if any."""
        support = statistics.support.tolist()
        clusters = range(len(support))
        predictions = [Prediction.of(statistics, cluster=cluster) for cluster in clusters]
        verdicts: list[float | None] = [None] * len(support)
        if self._criterion in CRITERIA.values():
            verdicts = judge(predictions, self._criterion)
        if not statistics.is_tied:
            verdicts[statistics.leading[0]] = verdict

        lines = []
        for prediction, share, right in zip(predictions, support, verdicts, strict=True):
            lines.append([cut(prediction.answer, 300), shorten(share), right])
        return lines

    def _line(self, question: SampledQuestion, *values: Any) -> None:
        line = (question.id, cut(question.text), *values)
        for name, value in zip(_COLUMNS, line, strict=True):
            self.columns[name].append(value)

    def _detail(self, detail: JsonObject) -> None:
        self._waiting.append(detail)
        if len(self._waiting) == BLOCK:
            self._blocks.append(pack(self._waiting))
            self._waiting = []


def _thresholds_of(policy: Policy | None) -> list[float]:
    """Returns the aleatoric and the epistemic threshold of a policy, by default those of a regime."""
    aleatoric = getattr(policy, "aleatoric_threshold", None)
    epistemic = getattr(policy, "epistemic_threshold", None)
    return [
        aleatoric if is_finite(aleatoric) else DEFAULT_ALEATORIC_THRESHOLD,
        epistemic if is_finite(epistemic) else DEFAULT_EPISTEMIC_THRESHOLD,
    ]


def _limit_of(policy: Policy | None, scores: Scores) -> list[Any] | None:
    """Returns the score that a policy limits and the highest value that it answers; None if the page has no such."""
    name = "coe"
    limit = getattr(policy, "max_coe", None)
    if limit is None:
        name = getattr(policy, "score", "")
        limit = getattr(policy, "threshold", None)
    if is_finite(limit) and name in scores.values:
        return [name, limit]
    return None


def pack(value: Any) -> str:
    """Returns JSON, as base64 of gzip; the same for the same value."""
    plain = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(plain, mtime=0)).decode()


def _agents(statistics: Statistics) -> list[list[Any]]:
    """Each agent's name, number of responses, how they count, entropy and distribution over the clusters."""
    agents = []
    for place, name in enumerate(statistics.names):
        how = "probability" if statistics.counts_by_probability[place] else "frequency"
        entropy = shorten(statistics.entropies[place])
        distribution = list(map(shorten, statistics.distributions[place].tolist()))
        agents.append([name, statistics.n_responses[place], how, entropy, distribution])
    return agents


def _responses(statistics: Statistics) -> list[list[Any]]:
    """Each agent's different responses: agent, cluster, text, answer where it differs, verdict, how often, share."""
    counts: Counter[tuple[Any, ...]] = Counter()
    shares: dict[tuple[Any, ...], float] = {}
    for sample, agent, cluster, share in zip(
        statistics.responses,
        statistics.agents.tolist(),
        statistics.labels.tolist(),
        statistics.response_shares.tolist(),
        strict=True,
    ):
        text = sample["text"]
        answer = sample["answer"]
        if answer == text.strip():
            answer = None
        elif answer:
            answer = cut(answer)
        key = (agent, cluster, cut(text), answer, sample["correct"])
        counts[key] += 1
        shares[key] = shares.get(key, 0.0) + share
    return [[*key, n, shorten(shares[key])] for key, n in counts.items()]


def _failures(question: SampledQuestion) -> list[list[str]]:
    return [[sample["agent"], cut(sample["error"] or "")] for sample in question.failures]


def cut(text: str, longest: int = LONGEST) -> str:
    """Returns a text with U+FFFD for what does not show, cut and marked if it is longer than so many characters."""
    begin = printable(text[:longest], keep="\n\t")
    if len(text) <= longest:
        return begin
    return f"{begin}… ({len(text)} characters)"


def shorten(value: float) -> float:
    """Returns a number with the digits that a page shows."""
    return float(f"{value:.{_DIGITS}g}") + 0.0


def compute_curves(scores: Scores) -> dict[str, dict[str, list[list[float]]]]:
    """Returns by score the points, from left to right, of "accuracy" (rejected, value) and, of two classes, "roc"."""
    curves: dict[str, dict[str, list[list[float]]]] = {}
    if not scores.correct.size:
        return curves
    has_both = 0 < scores.correct.sum() < scores.correct.size
    for name, values in scores.values.items():
        kept = accuracy_rejection_curve(correct=scores.correct, uncertainty=values)
        rejected = 1.0 - kept.coverage[::-1]
        curves[name] = {"accuracy": _thin(rejected, kept.values[::-1])}
        if has_both:
            curves[name]["roc"] = _roc(scores.correct, values)
    return curves


def _roc(correct: FloatArray, values: FloatArray) -> list[list[float]]:
    """Returns the shares of the right and of the wrong answers that are at least so uncertain, from none to all."""
    tally = Ranking(correct, values).tally()
    [answers] = tally.answers
    [right] = tally.right
    n_right = right[-1] - right[::-1]
    n_wrong = (answers[-1] - answers[::-1]) - n_right
    return _thin(n_right / n_right[-1], n_wrong / n_wrong[-1])


def _thin(x: FloatArray, y: FloatArray) -> list[list[float]]:
    """Returns at most `POINTS` of the points, evenly spread, with both ends."""
    n_points = min(x.size, POINTS)
    even = np.linspace(0, x.size - 1, n_points)
    places = np.unique(even.round().astype(np.int64))
    return [np.round(values[places], 5).tolist() for values in (x, y)]


def check_jinja() -> None:
    """Raises ImportError if Jinja is not installed."""
    if find_spec("jinja2") is None:
        raise ImportError('a page needs Jinja; pip install "coe-agents[evaluation]"')


def _read(*names: str) -> str:
    """Returns parts of pages, one after the other: scripts are one module then."""
    folder = resources.files("coe_agents.pages").joinpath("html")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in names)


def _read_shared(name: str) -> str:
    """Returns a part that the page of `serve` has, too."""
    return resources.files("coe_agents").joinpath("page_parts", name).read_text("utf-8")


def render(
    template: str, *, styles: Sequence[str] = (), scripts: Sequence[str], **values: Any
) -> str:
    """Returns the page: a template in the frame of all pages ("frame.html"), with values, which are escaped.

    `styles` and `scripts` are the parts that it has beside those of all pages.

    The frame reads of them `title`, the heading; `topic`, what the page is about, beside its title in the browser; and
    `facts`, the sentences that it begins with. Both from `pack`: the script reads `overview` at once, and one of the
    `blocks` when a question is opened.
    """
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup

    style = _read_shared("parts.css") + _read("page.css", *styles)
    script = _read_shared("parts.js") + _read("base.js", "table.js", *scripts)
    frame = DictLoader({"frame.html": _read("frame.html")})
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, loader=frame
    )
    return environment.from_string(_read(template)).render(
        **values,
        quantity=quantity,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _digest(source: str) -> str:
    """Returns the hash of a style or a script, as a policy of contents writes it."""
    digest = sha256(source.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
