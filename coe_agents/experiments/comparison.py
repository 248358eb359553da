"""Owns the comparison of policies: figures of each, and paired differences to the first on the same questions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from coe_agents.errors import SamplesError
from coe_agents.evaluation.metrics.bootstrap import Estimate, resamples, to_plain, with_interval
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.origin import Item, Run
from coe_agents.experiments.experiment import Experiment, Row, plain
from coe_agents.text import quantity

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


def _risk(outcome: Item) -> float | None:
    if not outcome.is_answered or outcome.correct is None:
        return None
    return 1.0 - outcome.correct


_FIGURES: Mapping[str, tuple[str, Callable[[Item], float | None]]] = {
    "coverage": ("answered", lambda outcome: float(outcome.is_answered)),
    "accuracy_answered": (
        "accuracy of answered",
        lambda outcome: outcome.correct if outcome.is_answered else None,
    ),
    "risk": ("risk", _risk),
    "accuracy_all": ("accuracy of all", lambda outcome: outcome.leading_correct),
    "tokens": ("tokens", lambda outcome: outcome.tokens),
    "requests": ("requests", lambda outcome: float(outcome.n_requests)),
    "seconds": ("seconds", lambda outcome: outcome.seconds),
    "rounds": ("rounds", lambda outcome: float(outcome.decision["n_rounds"])),
    "escalated": ("escalated", lambda outcome: float(outcome.is_escalated)),
    "conformity": ("conformity", lambda outcome: outcome.decision["conformity"]),
    "cost": ("cost of 1000", lambda outcome: outcome.cost),
}
"""What each figure is called, and what it is of a question; each is a mean over the questions for which it is known,
the cost that of 1000."""
FIGURES: Mapping[str, str] = {name: label for name, (label, _) in _FIGURES.items()}
_SHARES = ("coverage", "accuracy_answered", "risk", "accuracy_all", "escalated")
_FACTOR = {"cost": 1000.0}
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Policies side by side; the first is the reference."""

    policies: tuple[Compared, ...]
    n_resamples: int
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        policies = []
        for each in self.policies:
            plain_policy = {
                "name": each.name,
                "n_questions": each.n_questions,
                "n_failed": each.n_failed,
                "n_common": each.n_common,
                "figures": _to_json(each.figures),
                "decided_by": dict(each.decided_by),
                "differences": _to_json(each.differences),
                "notes": list(each.notes),
            }
            policies.append(plain_policy)
        return {
            "reference": self.policies[0].name,
            "n_resamples": self.n_resamples,
            "policies": policies,
        }


def _to_json(figures: Mapping[str, Estimate]) -> dict[str, dict[str, float | None]]:
    by_name = {}
    for name, estimate in figures.items():
        value, low, high = to_plain(estimate)
        by_name[name] = {"value": value, "low": low, "high": high}
    return by_name


def outcomes_of(run: Run, *, name: str | None = None) -> PolicyOutcomes:
    """Returns what a run's policy did; a SamplesError if it decided no question."""
    if not run.items:
        message = f"{name or run.name} decided no question"
        for reason in list(run.errors.values())[:1]:
            message += f"; the first failure: {reason}"
        raise SamplesError(message, hint="Rerun coe-agents run, which asks again")

    outcomes = {key: with_cost(item, run.prices) for key, item in run.items.items()}
    notes = []
    if run.errors:
        failed = quantity(len(run.errors), "question failed and is", "questions failed and are")
        notes.append(f"{failed} left out")
    n_missing = _n_missing(run)
    if n_missing:
        missing = quantity(n_missing, "question is", "questions are")
        notes.append(f"{missing} not decided yet: rerun coe-agents run")
    return PolicyOutcomes(name or run.name, outcomes, len(run.errors), notes)


def _n_missing(run: Run) -> int:
    """Returns how many questions a run was to decide and did not come to; 0 where its settings do not say."""
    dataset = run.settings.get("dataset")
    if not isinstance(dataset, dict):
        return 0
    total = dataset.get("n_questions")
    limit = dataset.get("limit")
    if not (isinstance(total, int) and isinstance(limit, int)):
        return 0
    n_chosen = min(limit, total) if limit else total  # a limit of 0 is none
    return max(0, n_chosen - len(run.items) - len(run.errors))


def with_cost(item: Item, prices: Prices) -> Item:
    """Returns the item with its cost: see `price_of`."""
    return item if item.usage is None else replace(item, cost=price_of(item.usage, prices))


def price_of(tokens: Sequence[tuple[str, float, float]], prices: Prices) -> float | None:
    """Returns what tokens cost: sum of (input price x input tokens + output price x output tokens) / 1,000,000.

    `tokens` are (agent, input tokens, output tokens). None where an agent that used some has no price.

    >>> price_of([("a", 1000, 500)], {"a": {"input": 1.0, "output": 4.0}})
    0.003
    """
    if not prices:
        return None
    cost = 0.0
    for name, n_input, n_output in tokens:
        if name in prices:
            cost += prices[name]["input"] * n_input + prices[name]["output"] * n_output
        elif n_input or n_output:
            return None
    return cost / 1e6


def compare(
    policies: Sequence[PolicyOutcomes],
    *,
    n_resamples: int = 1000,
    settings: Mapping[str, str] | None = None,
) -> Comparison:
    """Returns the figures of each policy with 95 % bootstrap intervals, and paired differences to the first.

    A share of none or of all has the interval of Clopper and Pearson.

    A figure is the mean over the questions for which it is known: risk and accuracy of answered over the answered
    questions with a verdict. Differences are over the questions that both policies have, resampled together, so they
    are far less noisy than their two sides. Of a figure, the intervals of all differences hold at once with 95 %: with
    k policies beside the first, each leaves out 5 % / k (Bonferroni).

    Raises:
        ValueError: If there is no policy, or one decided no question.
        SamplesError: If two policies were asked different questions of the same id.
    """
    empty = ", ".join(each.name for each in policies if not each.outcomes)
    if not policies or empty:
        raise ValueError(
            f'"policies" must hold decisions of at least one policy; got {empty or "none"} without any. Run it'
        )
    reference, *others = policies
    compared = [_alone(reference, n_resamples)]
    for policy in others:
        compared.append(_beside(policy, reference, n_resamples, n_intervals=len(others)))
    return Comparison(tuple(compared), n_resamples, settings or {})


def _alone(policy: PolicyOutcomes, n_resamples: int) -> Compared:
    outcomes = [policy.outcomes[key] for key in sorted(policy.outcomes)]
    deciders = Counter(outcome.decided_by for outcome in outcomes)
    return Compared(
        name=policy.name,
        n_questions=len(outcomes),
        n_failed=policy.n_failed,
        figures=_estimate(outcomes, n_resamples=n_resamples),
        differences={},
        n_common=0,
        decided_by={name: n / len(outcomes) for name, n in sorted(deciders.items())},
        notes=policy.notes,
        is_cut_short=policy.is_cut_short,
    )


def _beside(
    policy: PolicyOutcomes, reference: PolicyOutcomes, n_resamples: int, *, n_intervals: int
) -> Compared:
    own = []
    others = []
    for key in sorted(policy.outcomes.keys() & reference.outcomes.keys()):
        own.append(policy.outcomes[key])
        others.append(reference.outcomes[key])
        if own[-1].question != others[-1].question:
            what = f"were asked different questions of the id {key[:50]!r}"
            raise SamplesError(
                f"{policy.name} and {reference.name} {what}", hint="Compare runs of one dataset"
            )

    alone = _alone(policy, n_resamples)
    if not own:
        return alone
    return replace(
        alone,
        differences=_estimate(own, others, n_resamples=n_resamples, n_intervals=n_intervals),
        n_common=len(own),
        n_answers=min(_n_answers(own), _n_answers(others)),
        token_ratio=_token_ratio(own, others),
    )


def _n_answers(outcomes: Sequence[Item]) -> int:
    return sum(outcome.is_answered and outcome.correct is not None for outcome in outcomes)


def _token_ratio(own: Sequence[Item], others: Sequence[Item]) -> float:
    """Returns how many times the mean tokens of the others a policy takes; NaN where not known."""
    mean = _mean_tokens(own)
    mean_of_others = _mean_tokens(others)
    if not mean or not mean_of_others:
        return float("nan")
    return mean / mean_of_others


def _mean_tokens(outcomes: Sequence[Item]) -> float:
    known = [outcome.tokens for outcome in outcomes if outcome.tokens is not None]
    return fmean(known or [0.0])


def _estimate(
    outcomes: Sequence[Item],
    less: Sequence[Item] | None = None,
    *,
    n_resamples: int,
    n_intervals: int = 1,
) -> dict[str, Estimate]:
    values, known = _table(outcomes)
    others = None if less is None else _table(less)

    def means(counts: FloatArray) -> FloatArray:
        ratios = _ratio(counts, values, known)
        return ratios if others is None else ratios - _ratio(counts, *others)

    point = means(np.ones((1, len(outcomes))))[0]
    blocks = resamples(len(outcomes), n_resamples=n_resamples)
    drawn = np.concatenate([means(block.astype(float)) for block in blocks])

    estimates = {}
    for i, name in enumerate(FIGURES):
        estimates[name] = with_interval(point[i], drawn[:, i], n_intervals=n_intervals)
    return estimates if others is not None else estimates | _exact_shares(values, known)


def _exact_shares(values: FloatArray, known: FloatArray) -> dict[str, Estimate]:
    """Returns the shares that are 0 or 1, of which no resample differs, with the interval of Clopper and Pearson."""
    from scipy.stats import binomtest  # here: importing it takes long

    exact: dict[str, Estimate] = {}
    for place, name in enumerate(FIGURES):
        of_known = values[known[:, place] > 0, place]
        share = float(of_known.mean()) if of_known.size else float("nan")
        if name in _SHARES and share in (0.0, 1.0):
            interval = binomtest(int(of_known.sum()), of_known.size).proportion_ci(method="exact")
            exact[name] = (share, float(interval.low), float(interval.high))
    return exact


def _table(outcomes: Sequence[Item]) -> tuple[FloatArray, FloatArray]:
    """Returns the figures of each question, shape `(n, n_figures)`, 0 where not known; and whether they are known."""
    columns = []
    for name, (_, of_question) in _FIGURES.items():
        # as floats, in which None is NaN
        column = np.array([of_question(outcome) for outcome in outcomes], dtype=np.float64)
        columns.append(column * _FACTOR.get(name, 1.0))
    values = np.stack(columns, axis=1)
    return np.nan_to_num(values), (~np.isnan(values)).astype(float)


def _ratio(counts: FloatArray, values: FloatArray, known: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((counts @ values) / (counts @ known))


def to_experiment(comparison: Comparison) -> Experiment:
    """Returns the table: a line for each figure of each policy, with its interval and what it is less the first's."""
    policies = comparison.policies
    others = policies[1:]
    columns: tuple[str, ...] = ("figure", "policy", "value", "low", "high")
    if others:
        columns += ("less the first", "less low", "less high")

    rows: list[Row] = []
    for each in policies:
        rows.append(("questions", each.name, each.n_questions))
    for each in others:
        rows.append(("questions of both", each.name, each.n_common))
    for figure, label in FIGURES.items():
        if all(np.isnan(each.figures[figure][0]) for each in policies):
            continue
        for each in policies:
            difference = each.differences.get(figure, _UNKNOWN)
            rows.append((label, each.name, *map(plain, (*each.figures[figure], *difference))))

    deciders: set[str] = set()
    for each in policies:
        deciders.update(each.decided_by)
    if deciders != {"group"}:
        for who in sorted(deciders):
            for each in policies:
                rows.append((f"decided by {who}", each.name, each.decided_by.get(who, 0.0)))

    empty = (None,) * len(columns)
    return Experiment(
        name="compare",
        title="Policies side by side",
        columns=columns,
        n_keys=2,
        rows=tuple((*row, *empty)[: len(columns)] for row in rows),
        settings=comparison.settings,
        notes=_notes_of(comparison),
    )


def _notes_of(comparison: Comparison) -> list[str]:
    names_by_note: dict[str, list[str]] = {}
    for each in comparison.policies:
        for note in each.notes:
            names_by_note.setdefault(note, []).append(each.name)
    notes = [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]

    paired = "Differences are paired, on the questions of both."
    n_others = len(comparison.policies) - 1
    if n_others > 1:
        paired += f" Their intervals hold at once for all {n_others} policies (Bonferroni)."
    return [
        *notes,
        "Risk and accuracy of answered are over the answered questions. Accuracy of all: of the leading answer.",
        "Tokens, requests, seconds and rounds are means a question.",
        f"low, high: 95 % intervals, {quantity(comparison.n_resamples, 'bootstrap resample')}.",
        paired,
    ]


def in_words(comparison: Comparison) -> list[str]:
    """Returns a plain sentence for each policy after the first, or one for the only policy."""
    reference = comparison.policies[0]
    sentences = []
    for each in comparison.policies:
        coverage, _, _ = each.figures["coverage"]
        risk, _, _ = each.figures["risk"]
        wrong = "" if np.isnan(risk) else f" and is wrong in {risk:.1%} of its answers"
        sentence = f"{each.name} answers {coverage:.1%}{wrong}."
        if each is not reference:
            sentence += f"{_times(each, reference)}{_verdict(each)}"
        sentences.append(sentence)
    return sentences


def _times(each: Compared, reference: Compared) -> str:
    if np.isnan(each.token_ratio) or (each.is_cut_short and reference.is_cut_short):
        return ""
    bound = ""
    if each.is_cut_short:
        bound = "at least "
    elif reference.is_cut_short:
        bound = "at most "
    return f" It takes {bound}{each.token_ratio:.2f} times the tokens."


def _verdict(each: Compared) -> str:
    if not each.differences:
        return " It shares no question with the first."
    questions = quantity(each.n_common, "question")
    if each.n_common < _FEWEST:
        return f" They share {questions}, too few to compare."

    words = {"coverage": ("it answers more", "it answers fewer")}
    none_differs = "The coverage does not differ"
    too_few = f" Risks are not compared: one of them is of fewer than {_FEWEST} answers."
    if each.n_answers >= _FEWEST:
        words["risk"] = ("it has a higher risk", "it has a lower risk")
        none_differs = "Neither coverage nor risk differs"
        too_few = ""

    beyond_chance = []
    for name, (higher, lower) in words.items():
        _, low, high = each.differences[name]
        if low > 0:
            beyond_chance.append(higher)
        elif high < 0:
            beyond_chance.append(lower)
    if not beyond_chance:
        return f" {none_differs} beyond chance on the {questions} of both.{too_few}"
    return f" Beyond chance on the {questions} of both, {' and '.join(beyond_chance)}.{too_few}"
