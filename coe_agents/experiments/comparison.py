"""Owns the comparison of policies: figures of each, and paired differences to the first on the same questions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from coe_agents.errors import SamplesError
from coe_agents.evaluation.frames import import_pandas
from coe_agents.evaluation.metrics.bootstrap import Estimate, resamples, to_plain, with_interval
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.origin import Item, Run
from coe_agents.evaluation.scoring.correctness import on_inside
from coe_agents.experiments.experiment import Experiment, Row, plain
from coe_agents.experiments.shown import Shown, create_axes
from coe_agents.experiments.tables import show_side_by_side
from coe_agents.policy.bounds import price_of
from coe_agents.text import for_screen, quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

Prices = Mapping[str, Mapping[str, float]]
"""Price per million tokens of each agent, as {"input": ..., "output": ...}."""


@dataclass(frozen=True, slots=True)
class PolicyOutcomes:
    """What one policy did with each question, by id.

    Attributes:
        notes: What a reader must know of it.
        is_cut_short: Whether a question ended where the policy would have gone on, so that its tokens are the least
            that it takes.
    """

    name: str
    outcomes: Mapping[str, Item]
    n_failed: int = 0
    notes: Sequence[str] = ()
    is_cut_short: bool = False


def _correct(outcome: Item) -> float | None:
    return outcome.correct if outcome.is_answered else None


def _risk(outcome: Item) -> float | None:
    correct = _correct(outcome)
    return None if correct is None else 1.0 - correct


def _cost_of_1000(outcome: Item) -> float | None:
    return None if outcome.cost is None else 1000.0 * outcome.cost


_FIGURES: Mapping[str, tuple[str, Callable[[Item], float | None]]] = {
    "coverage": ("answered", lambda outcome: float(outcome.is_answered)),
    "accuracy_answered": ("accuracy of answered", _correct),
    "risk": ("risk", _risk),
    "accuracy_all": ("accuracy of all", lambda outcome: outcome.leading_correct),
    "tokens": ("tokens", lambda outcome: outcome.tokens),
    "requests": ("requests", lambda outcome: float(outcome.n_requests)),
    "seconds": ("seconds", lambda outcome: outcome.seconds),
    "rounds": ("rounds", lambda outcome: float(outcome.decision["n_rounds"])),
    "escalated": ("escalated", lambda outcome: float(outcome.is_escalated)),
    "conformity": ("conformity", lambda outcome: outcome.decision["conformity"]),
    "cost": ("cost of 1000", _cost_of_1000),
}
"""What each figure is called, and what it is of a question; each is a mean over the questions for which it is known."""
_SHARES = ("coverage", "accuracy_answered", "risk", "accuracy_all", "escalated")
_UNKNOWN: Estimate = (float("nan"),) * 3
_FEWEST = 5
"""The fewest shared questions for a sentence on what differs beyond chance, and the fewest answers for one on the risk.

The interval of fewer, all right or all wrong, would have no width."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy beside the others.

    Attributes:
        figures: By name: the value with its 95 % interval; NaN where it is not known for any question.
        differences: To the first policy, paired, on the `n_common` questions that both have; empty for the first. Their
            intervals allow for the number of policies.
        n_answers: How many answers to them can be judged, of the policy that has fewer.
        token_ratio: How many times the tokens of the first it takes on them; NaN where not known.
        decided_by: The share of questions that each decided.
    """

    name: str
    n_questions: int
    n_failed: int
    figures: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]
    n_common: int
    decided_by: Mapping[str, float]
    n_answers: int = 0
    token_ratio: float = float("nan")
    notes: Sequence[str] = ()
    is_cut_short: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "n_questions": self.n_questions,
            "n_failed": self.n_failed,
            "n_common": self.n_common,
            "figures": _to_json(self.figures),
            "decided_by": dict(self.decided_by),
            "differences": _to_json(self.differences),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Policies side by side; the first is the reference.

    Attributes:
        judged: How the answers were judged, as JSON has it.
        note: A line on it, where they were judged otherwise than recorded, or in different ways.
    """

    policies: tuple[Compared, ...]
    n_resamples: int
    settings: Mapping[str, str] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None

    def show(self, console: "Console") -> None:
        """Prints a sentence on each policy, and the table."""
        for line in in_words(self):
            console.print(for_screen(line), markup=False)
        show_side_by_side(console, to_experiment(self))
        if self.note is not None:
            console.print(for_screen(self.note), markup=False)

    def to_frame(self) -> Any:
        """Returns a pandas data frame, a row for each figure of each policy, with its interval and its difference."""
        table = to_experiment(self)
        return import_pandas().DataFrame(table.rows, columns=table.columns)

    def plot(self) -> "Figure":
        """Draws risk over coverage and, where a policy asks people, wrong answers over people asked; needs Matplotlib.

        The step line joins the policies that no other beats in both. Of policies in one place the first is a dot, and
        each further one a ring around those before it. A policy of no known risk, which may answer nothing, stands in
        the legend alone. Wrong answers are a share of all questions.
        """
        asks_people = any(each.figures["escalated"][0] > 0.0 for each in self.policies)
        figure, (frontier, *others) = create_axes(2 if asks_people else 1)
        self._draw_frontier(frontier)
        for people in others:
            self._draw_people(people)
        return figure

    def _draw_frontier(self, frontier: Any) -> None:
        points = []
        dots = _Dots(frontier)
        for place, each in enumerate(self.policies):
            mark = _mark(place, each)
            coverage, *ends = each.figures["coverage"]
            risk, low, high = each.figures["risk"]
            if np.isnan(risk):
                # it has no place in the plane, so it is named without one
                lacks = "no answer" if coverage == 0.0 else "no answer is judged"
                label = f"{mark['label']}: {lacks}"
                frontier.plot([], [], **{**mark, "label": label})
                continue
            frontier.plot(ends, [risk, risk], color="0.8")
            frontier.plot([coverage, coverage], [low, high], color="0.8")
            dots.draw(coverage, risk, **mark)
            points.append((coverage, risk))
        coverages = []
        risks = []
        for coverage, risk in _undominated(points):
            coverages.append(coverage)
            risks.append(risk)
        frontier.step(coverages, risks, where="pre", color="0.4")
        _finish(frontier, "coverage", "risk")

    def _draw_people(self, people: Any) -> None:
        dots = _Dots(people)
        for place, each in enumerate(self.policies):
            escalated, *_ = each.figures["escalated"]
            coverage, *_ = each.figures["coverage"]
            risk, *_ = each.figures["risk"]
            # without an answer there is no risk, and none is wrong
            wrong = np.nan_to_num(coverage * risk)
            dots.draw(escalated, wrong, **_mark(place, each))
        people.set_xlim(left=0)
        across = "share of questions that a person is asked"
        _finish(people, across, "share of questions answered wrong")

    def to_json(self) -> dict[str, Any]:
        return {
            "reference": self.policies[0].name,
            "n_resamples": self.n_resamples,
            "policies": [each.to_json() for each in self.policies],
            "judged": dict(self.judged),
        }


def _mark(place: int, policy: Compared) -> dict[str, Any]:
    """Returns how a policy is drawn: in one colour wherever it is, and whole on an edge."""
    return {
        "marker": "o",
        "linestyle": "",
        "color": f"C{place}",
        "label": for_screen(policy.name),
        "clip_on": False,
    }


def _finish(axes: Any, across: str, up: str) -> None:
    """Labels axes whose points have labels, and starts them at 0."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[0]:
        for text in axes.legend(frameon=False, fontsize=8).get_texts():
            text.set_parse_math(False)


_DOT, _RING = 6.0, 5.0
"""Points: how wide a dot is, and how much wider each ring around it."""
_ONE_PLACE = 0.005


class _Dots:
    """The dots of policies in a picture; one that would cover those in its place is a ring around them."""

    def __init__(self, axes: Any) -> None:
        self._axes = axes
        self._places: list[tuple[float, float]] = []

    def draw(self, across: float, up: float, **mark: Any) -> None:
        n_covered = 0
        for x, y in self._places:
            if abs(x - across) <= _ONE_PLACE and abs(y - up) <= _ONE_PLACE:
                n_covered += 1
        if n_covered:
            mark |= {"fillstyle": "none", "markeredgewidth": 1.5}
        size = _DOT + _RING * n_covered
        self._axes.plot([across], [up], markersize=size, **mark)
        self._places.append((across, up))


def _undominated(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the points that no other has at least the coverage of at a lower risk, by coverage."""
    best = []
    for coverage, risk in sorted(set(points)):
        if not any(x >= coverage and y < risk for x, y in points):
            best.append((coverage, risk))
    return best


def _to_json(figures: Mapping[str, Estimate]) -> dict[str, dict[str, float | None]]:
    plain_figures = {}
    for name, estimate in figures.items():
        value, low, high = to_plain(estimate)
        plain_figures[name] = {"value": value, "low": low, "high": high}
    return plain_figures


def outcomes_of(run: Run, *, name: str | None = None) -> PolicyOutcomes:
    """Returns what a run's policy did; a SamplesError if it decided no question."""
    if not run.items:
        message = f"{name or run.name} decided no question"
        for reason in list(run.errors.values())[:1]:
            message += f"; the first failure: {reason}"
        raise SamplesError(message, hint="Rerun coe-agents run, which asks again")
    outcomes = {key: with_cost(item, run.prices) for key, item in run.items.items()}
    notes = list[str]()
    if run.errors:
        notes.append(
            f"{quantity(len(run.errors), 'question failed and is', 'questions failed and are')} left out"
        )
    if n_missing := _n_missing(run):
        notes.append(
            f"{quantity(n_missing, 'question is', 'questions are')} not decided yet: rerun coe-agents run"
        )
    inside = on_inside(outcomes.values(), run.criterion)
    if inside is not None:
        notes.append(inside)
    return PolicyOutcomes(name or run.name, outcomes, len(run.errors), notes)


def _n_missing(run: Run) -> int:
    """Returns how many questions a run was to decide and did not come to; 0 where its settings do not say."""
    dataset = run.settings.get("dataset")
    if not isinstance(dataset, dict):
        return 0
    n_questions = dataset.get("n_questions")
    limit = dataset.get("limit")
    if not (isinstance(n_questions, int) and isinstance(limit, int)):
        return 0
    # 0 stands for no limit
    if limit:
        n_questions = min(limit, n_questions)
    return max(0, n_questions - len(run.items) - len(run.errors))


def with_cost(item: Item, prices: Prices) -> Item:
    """Returns the item with its cost: see `price_of`."""
    usage = item.usage
    if usage is None:
        return item
    return replace(item, cost=price_of(usage, prices))


def compare_outcomes(
    policies: Sequence[PolicyOutcomes],
    *,
    n_resamples: int = 1000,
    settings: Mapping[str, str] | None = None,
    judged: Mapping[str, Any] | None = None,
    note: str | None = None,
) -> Comparison:
    """Returns the figures of each of one or more policies with 95 % bootstrap intervals, and differences to the first.

    A share of none or of all has the interval of Clopper and Pearson.

    A figure is the mean over the questions for which it is known: risk and accuracy of answered over the answered
    questions with a verdict. Differences are over the questions that both policies have, resampled together, so they
    are far less noisy than their two sides. Of a figure, the intervals of all differences hold at once with 95 %: with
    k policies beside the first, each leaves out 5 % / k (Bonferroni).

    Raises:
        SamplesError: If two policies were asked different questions of the same id.
    """
    first, *others = policies
    compared = [_describe_alone(first, n_resamples)]
    for each in others:
        alone = _describe_alone(each, n_resamples)
        outcomes, references = _in_common(each, first)
        if not outcomes:
            compared.append(alone)
            continue

        differences = _estimate(
            outcomes, references, n_resamples=n_resamples, n_intervals=len(others)
        )
        compared.append(
            replace(
                alone,
                differences=differences,
                n_common=len(outcomes),
                n_answers=min(_n_answers(outcomes), _n_answers(references)),
                token_ratio=_token_ratio(outcomes, references),
            )
        )
    return Comparison(tuple(compared), n_resamples, settings or {}, judged or {}, note)


def _describe_alone(policy: PolicyOutcomes, n_resamples: int) -> Compared:
    """Returns the figures of a policy, without differences."""
    # by id, so that the order of the questions changes no resample
    in_order = [policy.outcomes[key] for key in sorted(policy.outcomes)]
    n_by_decider = Counter(outcome.decided_by for outcome in in_order)
    n_questions = len(in_order)
    return Compared(
        name=policy.name,
        n_questions=n_questions,
        n_failed=policy.n_failed,
        figures=_estimate(in_order, n_resamples=n_resamples),
        differences={},
        n_common=0,
        decided_by={who: n / n_questions for who, n in sorted(n_by_decider.items())},
        notes=policy.notes,
        is_cut_short=policy.is_cut_short,
    )


def _in_common(policy: PolicyOutcomes, first: PolicyOutcomes) -> tuple[list[Item], list[Item]]:
    """Returns what each of both did with the questions that both have, by id."""
    outcomes = []
    references = []
    for key in sorted(policy.outcomes.keys() & first.outcomes.keys()):
        outcome = policy.outcomes[key]
        reference = first.outcomes[key]
        if outcome.question != reference.question:
            what = f"were asked different questions of the id {key[:50]!r}"
            raise SamplesError(
                f"{policy.name} and {first.name} {what}", hint="Compare runs of one dataset"
            )
        outcomes.append(outcome)
        references.append(reference)
    return outcomes, references


def _mean_tokens(outcomes: Sequence[Item]) -> float:
    """Returns the mean over the questions for which it is known; 0 where it is for none."""
    known = [item.tokens for item in outcomes if item.tokens is not None]
    return fmean(known) if known else 0.0


def _token_ratio(outcomes: Sequence[Item], references: Sequence[Item]) -> float:
    tokens = _mean_tokens(outcomes)
    tokens_of_references = _mean_tokens(references)
    if not (tokens and tokens_of_references):
        return float("nan")
    return tokens / tokens_of_references


def _n_answers(outcomes: Sequence[Item]) -> int:
    return sum(outcome.is_answered and outcome.correct is not None for outcome in outcomes)


def _estimate(
    outcomes: Sequence[Item],
    less: Sequence[Item] | None = None,
    *,
    n_resamples: int,
    n_intervals: int = 1,
) -> dict[str, Estimate]:
    """Returns the figures, or what they are less those of other outcomes to the same questions, with intervals."""
    values, known = _table(outcomes)
    subtracted = None if less is None else _table(less)

    def means(counts: FloatArray) -> FloatArray:
        """Returns the figures of each resample, shape `(n_resamples, n_figures)`."""
        ratios = _ratio(counts, values, known)
        if subtracted is None:
            return ratios
        return ratios - _ratio(counts, *subtracted)

    n_questions = len(outcomes)
    once = np.ones((1, n_questions))
    point = means(once)[0]
    blocks = []
    for counts in resamples(n_questions, n_resamples=n_resamples):
        blocks.append(means(counts.astype(float)))
    drawn = np.concatenate(blocks)

    estimates = {}
    for place, name in enumerate(_FIGURES):
        estimates[name] = with_interval(point[place], drawn[:, place], n_intervals=n_intervals)
    if subtracted is None:
        estimates.update(_exact_shares(values, known))
    return estimates


def _exact_shares(values: FloatArray, known: FloatArray) -> dict[str, Estimate]:
    """Returns the shares that are 0 or 1, of which no resample differs, with the interval of Clopper and Pearson."""
    from scipy.stats import binomtest  # here: importing it takes long

    shares = dict[str, Estimate]()
    for place, name in enumerate(_FIGURES):
        of_known = values[known[:, place] > 0, place]
        if name not in _SHARES or not of_known.size:
            continue
        share = float(of_known.mean())
        if share in (0.0, 1.0):
            test = binomtest(int(of_known.sum()), of_known.size)
            interval = test.proportion_ci(method="exact")
            shares[name] = (share, float(interval.low), float(interval.high))
    return shares


def _table(outcomes: Sequence[Item]) -> tuple[FloatArray, FloatArray]:
    """Returns the figures of each question, shape `(n, n_figures)`, 0 where not known; and whether they are known."""
    rows = []
    for outcome in outcomes:
        rows.append([of_question(outcome) for _, of_question in _FIGURES.values()])
    # as floats, in which None is NaN
    values = np.array(rows, dtype=np.float64)
    is_known = ~np.isnan(values)
    return np.nan_to_num(values), is_known.astype(float)


def _ratio(counts: FloatArray, values: FloatArray, known: FloatArray) -> FloatArray:
    """Returns the mean of each figure over the questions for which it is known; NaN where for none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((counts @ values) / (counts @ known))


def to_experiment(comparison: Comparison) -> Experiment:
    """Returns the table: a line for each figure of each policy, with its interval and what it is less the first's."""
    policies_by_note: dict[str, list[str]] = {}
    for each in comparison.policies:
        for note in each.notes:
            policies_by_note.setdefault(note, []).append(each.name)
    notes = [f"{', '.join(names)}: {note}" for note, names in policies_by_note.items()]
    notes += [
        "Risk and accuracy of answered are over the answered questions. Accuracy of all: of the leading answer.",
        "Tokens, requests, seconds and rounds are means a question.",
        f"Intervals: 95 %, {quantity(comparison.n_resamples, 'bootstrap resample')}.",
    ]

    columns = ["figure", "policy", "value", "low", "high"]
    n_others = len(comparison.policies) - 1
    if n_others:
        columns += ["less the first", "less low", "less high"]
        paired = "Differences are paired, on the questions of both."
        if n_others > 1:
            paired += f" Their intervals hold at once for all {n_others} policies (Bonferroni)."
        notes.append(paired)
    return Experiment(
        name="compare",
        title="Policies side by side",
        columns=tuple(columns),
        n_keys=2,
        rows=tuple(row[: len(columns)] for row in _rows(comparison)),
        settings=comparison.settings,
        notes=notes,
    )


def _rows(comparison: Comparison) -> list[Row]:
    """Returns the lines of the table, with differences also where there is one policy only."""
    policies = comparison.policies
    rows: list[Row] = []
    for each in policies:
        rows.append(_count("questions", each.name, each.n_questions))
    for each in policies[1:]:
        rows.append(_count("questions of both", each.name, each.n_common))
    for figure, (label, _) in _FIGURES.items():
        if all(np.isnan(each.figures[figure][0]) for each in policies):
            continue
        for each in policies:
            estimate = each.figures[figure]
            difference = each.differences.get(figure, _UNKNOWN)
            rows.append((label, each.name, *map(plain, estimate), *map(plain, difference)))

    deciders = set[str]().union(*[each.decided_by for each in policies])
    if deciders != {"group"}:
        for who in sorted(deciders):
            for each in policies:
                share = each.decided_by.get(who, 0.0)
                rows.append(_count(f"decided by {who}", each.name, share))
    return rows


def _count(label: str, policy: str, value: float) -> Row:
    """Returns a line of a value without an interval and without a difference."""
    return (label, policy, value, *[None] * 5)


def in_words(comparison: Comparison) -> list[str]:
    """Returns a plain sentence for each policy after the first, or one for the only policy."""
    first = comparison.policies[0]
    sentences = []
    for each in comparison.policies:
        coverage, *_ = each.figures["coverage"]
        risk, *_ = each.figures["risk"]
        sentence = f"{each.name} answers {coverage:.1%}"
        if not np.isnan(risk):
            sentence += f" and is wrong in {risk:.1%} of its answers"
        sentence += "."
        if each is not first:
            sentence += _times(each, first) + _verdict(each)
        sentences.append(sentence)
    return sentences


def _times(each: Compared, first: Compared) -> str:
    if np.isnan(each.token_ratio) or (each.is_cut_short and first.is_cut_short):
        return ""
    bound = ""
    if each.is_cut_short:
        bound = "at least "
    elif first.is_cut_short:
        bound = "at most "
    ratio = f"{each.token_ratio:.2f}"
    if ratio == "1.00" and not bound:
        return ""
    return f" It takes {bound}{ratio} times the tokens."


def _verdict(each: Compared) -> str:
    if not each.differences:
        return " It shares no question with the first."
    if each.n_common < _FEWEST:
        return f" They share {quantity(each.n_common, 'question')}, too few to compare."
    words = {"coverage": ("it answers more", "it answers fewer")}
    too_few = f" Risks are not compared: one of them is of fewer than {_FEWEST} answers."
    none_differs = "The coverage does not differ"
    if each.n_answers >= _FEWEST:
        words["risk"] = ("it has a higher risk", "it has a lower risk")
        too_few = ""
        none_differs = "Neither coverage nor risk differs"
    beyond_chance = []
    for name, (higher, lower) in words.items():
        _, low, high = each.differences[name]
        if low > 0:
            beyond_chance.append(higher)
        elif high < 0:
            beyond_chance.append(lower)
    questions = quantity(each.n_common, "question")
    if not beyond_chance:
        return f" {none_differs} beyond chance on the {questions} of both.{too_few}"
    return f" Beyond chance on the {questions} of both, {' and '.join(beyond_chance)}.{too_few}"
