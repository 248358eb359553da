"""Owns the advice on a group from its own labelled samples, and whether it is right under given weights.

Each figure is out of fold, and comparisons are adjusted by Holm. Last, what blocking would have cost and saved where a
council only observed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from coe_agents._removed import refuses_removed
from coe_agents.checks import instance, require, several
from coe_agents.clustering.refusals import answer_kind
from coe_agents.evaluation.calibration.calibrate import Judged, learn_weights, with_all_agents
from coe_agents.evaluation.calibration.learned import fit_ridge, to_folds
from coe_agents.evaluation.metrics.bootstrap import (
    Estimate,
    mean_with_interval,
    resamples,
    with_interval,
)
from coe_agents.evaluation.metrics.tallies import (
    BoolArray,
    FloatArray,
    IntArray,
    Ranking,
    area_under_roc,
    join_ties,
)
from coe_agents.evaluation.scoring.correctness import mean_verdict
from coe_agents.measurement.estimators import DEFAULT_SCORE, score_of
from coe_agents.measurement.weighted_vote import (
    CONFIDENCE_VOTE_SHARE,
    TRUSTED_VOTE_SHARE,
    VOTE_SHARE,
    WeightsFrom,
    agreement_weights,
    distributions_of,
    fill_confidences,
    weighted_votes,
)
from coe_agents.types import SampledQuestion, Weights
from coe_agents.uncertainty.ties import TIE, shares_lead


def shares_right(rows: Sequence[Judged], weights: Weights | None = None) -> FloatArray:
    """Returns the share of each leading answer that is right under weights, shape `(n,)`, in [0, 1].

    Clusters that tie for the lead count by their mean; NaN where no verdict on them is known, or no agent of a weight
    above 0 responded. `rows` are those of `judge_samples(..., every_cluster=True)`; `weights` None: all equal.
    """
    shares = np.full(len(rows), np.nan)
    for i, row in enumerate(rows):
        names = list(row.measurement.agents)
        by_agent = np.ones(len(names))
        if weights is not None:
            by_agent = np.array([weights.get(name, 0.0) for name in names])
        if not by_agent.any():
            continue

        votes = by_agent @ distributions_of(row.measurement, names)
        leading = np.flatnonzero(shares_lead(votes))
        right = mean_verdict([row.verdicts[cluster] for cluster in leading])
        if right is not None:
            shares[i] = right
    return shares


@dataclass(frozen=True, slots=True)
class TrustCheck:
    """What weights change, on the labelled questions.

    Attributes:
        n_labelled: How many questions have a verdict under both.
        equal: The accuracy of the group's answer with equal weights; an answer that ties counts by its share.
        weighted: The accuracy with the weights.
        difference: `weighted` - `equal`, with its paired 95 % interval.
        agents: The accuracy of each agent by itself.
    """

    n_labelled: int
    equal: float
    weighted: float
    difference: Estimate
    agents: Mapping[str, float]

    @property
    def best(self) -> str:
        """The agent that is right most often; of equals the first by name."""
        return min(self.agents, key=lambda name: (-self.agents[name], name))


def check_weights(
    rows: Sequence[Judged], weights: Weights, *, n_resamples: int = 1000
) -> TrustCheck | None:
    """Compares the accuracy with `weights` to that with equal ones, on the labelled rows; None without labels.

    The weights must not come from these labels. `rows` are as in `shares_right`.
    """
    equal = shares_right(rows)
    weighted = shares_right(rows, weights)
    known = ~np.isnan(equal + weighted)
    if not known.any():
        return None

    agents = {}
    for name in weights:
        alone = shares_right(rows, {name: 1.0})
        if not np.isnan(alone).all():
            agents[name] = float(np.nanmean(alone))
    return TrustCheck(
        n_labelled=int(known.sum()),
        equal=float(equal[known].mean()),
        weighted=float(weighted[known].mean()),
        difference=mean_with_interval((weighted - equal)[known], n_resamples=n_resamples),
        agents=agents,
    )


FEWEST = 50
"""The fewest labelled questions: with fewer, a fold has hardly an error in it, and an interval says next to nothing."""
RISKS = (0.05, 0.1, 0.2)
ESCALATED = 0.2
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
_WEIGHTED = (VOTE_SHARE, CONFIDENCE_VOTE_SHARE)
"""The scores that take weights."""
_FEWEST_OF_EACH = 10.0
"""The fewest right and wrong answers for something to be learned: two of each in a fold."""
_TOLERANCE = 0.02
"""What fewer samples may lose at most, of AUROC and of accuracy, by the lower end of the interval."""


class Difference(NamedTuple):
    """A paired difference; interval and p-value are adjusted for the number of differences in its table.

    The intervals hold at once with 95 % (Bonferroni). p is of the normal distribution with the bootstrap's standard
    error, adjusted by Holm (1979).
    """

    value: float
    low: float
    high: float
    p: float


Table = Mapping[str, Difference]


@dataclass(frozen=True, slots=True)
class Advice:
    """What labelled samples say about a group: out of fold, with 95 % intervals.

    Attributes:
        n_questions: How many questions have all agents and a verdict on every cluster; all figures are of these.
        accuracy: Of the leading answer with equal weights; tied answers count by their mean.
        best: The agent that is right most often by itself; of equals the first by name.
        best_overall: How often it is right, on the very questions that say it is the best.
        best_accuracy: Of the agent alone that is the best one on the other folds, which may be another in each.
        over_best: The accuracy of the group with the advised weights less `best_accuracy`.
        score: The vote share, unless another score ranks better with p < 0.05; a score that takes weights where such
            are advised.
        scores: The AUROC within folds by score.
        score_gains: These less that of the vote share.
        weights: "equal", unless "agreement" (`agreement_weights`) or "learned" is more accurate with p < 0.05.
        weight_gains: Their accuracy less that with equal weights.
        confidence_gains: What "stated" and "token" confidence add, each by itself, to the AUROC of the vote share; {}
            without any.
        without: By agent: the accuracy of the group without it less that with it.
        order: Agents with the nats by which each lowers the log-loss of "the answer is right", the most first: a lower
            bound of the mutual information that it adds to those before it.
        n_samples: The fewest responses of each agent that lose at most .02, by their intervals.
        sample_losses: By number of responses, and by "auroc" and "accuracy": what they lose against all.
        coverage: By risk: the share answered at a threshold that the other folds chose to have this share wrong.
        realised: By risk: the share wrong among these answers.
        escalated_right: How often the group is right in the fifth with the lowest vote share.
        escalation_gain: What accuracy gains where that fifth is always answered rightly.
    """

    n_questions: int
    accuracy: Estimate
    best: str
    best_overall: float
    best_accuracy: Estimate
    over_best: Difference
    score: str
    scores: Mapping[str, float]
    score_gains: Table
    weights: WeightsFrom
    weight_gains: Mapping[WeightsFrom, Difference]
    confidence_gains: Table
    without: Table
    order: Sequence[tuple[str, float]]
    n_samples: int
    sample_losses: Mapping[int, Table]
    coverage: Mapping[float, Estimate]
    realised: Mapping[float, float]
    escalated_right: float
    escalation_gain: Estimate

    @property
    def useless(self) -> list[str]:
        """The agents without which the accuracy does not fall, and that add no nats or are shown to lower it."""
        nats = dict(self.order)
        useless = []
        for name, change in self.without.items():
            is_shown_to_lower = change.value > 0.0 and change.p < 0.05
            if change.value >= 0.0 and (nats[name] <= 0.0 or is_shown_to_lower):
                useless.append(name)
        return useless


_Drawn = tuple[float, FloatArray]
"""A figure, and that of each resample of the questions."""


class _Answers(NamedTuple):
    """The answers to all questions, out of fold: whether right, how uncertain, whether they can be given."""

    right: FloatArray
    uncertainty: FloatArray
    is_given: BoolArray


@refuses_removed
def advise(rows: Sequence[Judged], *, n_resamples: int = 1000) -> Advice:
    """Advises on a group: score, weights, confidence, agents, samples, coverage and escalation.

    Questions are dealt into five folds by a hash of their ids (`to_folds`). What is learned or chosen for a question
    comes from the other four folds, so that no figure is of what it was fitted to. A policy that is calibrated on the
    same rows with the advised score and weights has an empirical bound: for a guarantee, calibrate it on others.

    Args:
        rows: From `judge_samples(..., every_cluster=True)` without weights.
        n_resamples: Of each bootstrap over questions.

    Raises:
        ValueError: Fewer than 50 questions have all agents and a verdict on every cluster.
    """
    group = _Group(_complete(rows), n_resamples)
    right = group.right
    by_confidence = group.with_confidence()

    others = {"coe": group.score("coe")}
    if by_confidence:
        others[CONFIDENCE_VOTE_SHARE] = group.score(CONFIDENCE_VOTE_SHARE)
    others[TRUSTED_VOTE_SHARE] = group.by_trust()
    scores = {DEFAULT_SCORE: group.votes, **others}
    areas = {}
    for name, values in scores.items():
        areas[name], _ = group.auroc(right, values)
    score_gains = group.gain(others)

    fits: dict[WeightsFrom, _Fit] = {"agreement": _by_agreement}
    n_right = right.sum()
    n_wrong = right.size - n_right
    if min(n_right, n_wrong) >= _FEWEST_OF_EACH:
        fits["learned"] = learn_weights
    gains_of_fits = {}
    for source, fit in fits.items():
        gains_of_fits[source] = group.mean(group.answer(fit).right - right)
    weight_gains = _adjust(gains_of_fits)

    equal: WeightsFrom = "equal"
    weights = _best(weight_gains, equal)
    usable = score_gains
    if weights != equal:
        usable = {name: gain for name, gain in score_gains.items() if name in _WEIGHTED}
    score = _best(usable, DEFAULT_SCORE)
    answers = group.answer(fits.get(weights, _equally), score=score)
    if score not in _WEIGHTED:
        answers = answers._replace(uncertainty=join_ties(scores[score]))

    coverage, realised = group.coverages(answers)
    best, best_overall, right_alone = group.best_alone()
    gain_over_best = group.mean(answers.right - right_alone)
    losses = group.sample_losses()
    fifth = choose_escalated(group.votes, ESCALATED)
    return Advice(
        n_questions=len(group.rows),
        accuracy=with_interval(*group.mean(right)),
        best=best,
        best_overall=best_overall,
        best_accuracy=with_interval(*group.mean(right_alone)),
        over_best=_adjust({best: gain_over_best})[best],
        score=score,
        scores=areas,
        score_gains=score_gains,
        weights=weights,
        weight_gains=weight_gains,
        confidence_gains=group.gain(by_confidence),
        without=group.without_each(),
        order=group.by_information(),
        n_samples=_fewest_samples(losses),
        sample_losses=losses,
        coverage=coverage,
        realised=realised,
        escalated_right=float(fifth @ right / fifth.sum()),
        escalation_gain=with_interval(*group.mean(fifth * (1.0 - right))),
    )


def _complete(rows: Sequence[Judged]) -> list[Judged]:
    """Returns the rows that have all agents and a verdict on every cluster."""
    advice = "Pass samples.judge()"
    several(rows, '"rows"', of="judged questions", advice=advice)
    for row in rows:
        instance(row, Judged, 'each of "rows"', what="a judged question", advice=advice)
    complete = []
    for row in with_all_agents(rows):
        if row.verdicts and None not in row.verdicts:
            complete.append(row)
    must = f"of {len(rows)} questions at least {FEWEST} must be labelled and have responses of all agents"
    require(len(complete) >= FEWEST, must, len(complete), "Label more, or give references")
    return complete


def _fewest_samples(losses: Mapping[int, Table]) -> int:
    sizes = []
    for n, by_figure in losses.items():
        # a figure that is NaN loses nothing
        if not any(loss.low < -_TOLERANCE for loss in by_figure.values()):
            sizes.append(n)
    return min(sizes)


def choose_escalated(score: FloatArray, share: float) -> FloatArray:
    """Returns the probability with which each question is among the `share` of the highest scores; ties go by lot."""
    # groups of equal scores, the highest first
    _, places, sizes = np.unique(-join_ties(score), return_inverse=True, return_counts=True)
    n_before = np.cumsum(sizes) - sizes
    n_chosen = share * score.size
    share_of_group = np.clip((n_chosen - n_before) / sizes, 0.0, 1.0)
    return np.asarray(share_of_group[places])


_Name = TypeVar("_Name", bound=str)


def _best(gains: Mapping[_Name, Difference], usual: _Name) -> _Name:
    best = usual
    highest = 0.0
    for name, gain in gains.items():
        if gain.value > highest and gain.p < 0.05:
            best = name
            highest = gain.value
    return best


_Fit = Callable[[Sequence[Judged]], Weights]
"""From rows of the other folds to the agents' weights by name."""


def _equally(rows: Sequence[Judged]) -> Weights:
    agents = rows[0].measurement.agents
    return dict.fromkeys(agents, 1.0 / len(agents))


def _by_agreement(rows: Sequence[Judged]) -> Weights:
    try:
        return agreement_weights([row.measurement for row in rows], n_resamples=1).weights
    except ValueError:  # one agent alone, or none that ever agree
        return _equally(rows)


class _Group:
    """The complete questions of a group, dealt into folds; right, votes and support are with equal weights."""

    def __init__(self, rows: Sequence[Judged], n_resamples: int) -> None:
        self.rows = rows
        self.agents = sorted(rows[0].measurement.agents)
        self.right = shares_right(rows)
        self.votes = self.score(DEFAULT_SCORE)
        support = [_support(row, self.agents) for row in rows]
        self.support = np.array(support)
        self._counts = list(resamples(len(rows), n_resamples=n_resamples))

        # for each fold, the places of the questions outside and inside of it
        identifiers = [row.id for row in rows]
        fold = to_folds(identifiers, 1.0 - self.right)
        self._splits = []
        for k in range(fold.max() + 1):
            outside = np.flatnonzero(fold != k)
            inside = np.flatnonzero(fold == k)
            self._splits.append((outside, inside))

    def _rows_at(self, places: IntArray) -> list[Judged]:
        return [self.rows[place] for place in places.tolist()]

    def score(self, name: str) -> FloatArray:
        """Returns a score of each question."""
        scores = [score_of(row.measurement, name) for row in self.rows]
        return np.array(scores, dtype=np.float64)

    def answer(self, fit: _Fit, *, score: str = VOTE_SHARE) -> _Answers:
        """Answers each question by the weights that `fit` gives the agents on the other folds.

        The uncertainty is 1 - the vote share with these weights, and with confidences where the score reads them.
        """
        right = np.empty(len(self.rows))
        uncertainty = np.empty(len(self.rows))
        is_given = np.empty(len(self.rows), dtype=np.bool_)
        for outside, inside in self._splits:
            weights = fit(self._rows_at(outside))
            for i in inside.tolist():
                row = self.rows[i]
                votes = weighted_votes(row.measurement, weights, score=score)
                leading = np.flatnonzero(shares_lead(votes))
                verdicts = np.array(row.verdicts, dtype=np.float64)
                right[i] = verdicts[leading].mean()
                uncertainty[i] = 1.0 - votes.max()

                is_action = row.measurement.proposals.calls is not None
                text = row.measurement.representatives[leading[0]]
                is_answer = answer_kind(text) == "answer"
                is_given[i] = leading.size == 1 and (is_action or is_answer)
        return _Answers(right, join_ties(uncertainty), is_given)

    def by_trust(self) -> FloatArray:
        """Returns 1 - the support of the leading answer, where agents count by agreement on the other folds."""
        uncertainty = np.empty(len(self.rows))
        for outside, inside in self._splits:
            weights = _by_agreement(self._rows_at(outside))
            trust = np.array([weights[name] for name in self.agents])
            uncertainty[inside] = 1.0 - self.support[inside] @ trust
        return uncertainty

    def best_alone(self) -> tuple[str, float, FloatArray]:
        """Returns the agent that is right most often, how often, and how right the best one of the other folds is."""
        alone = [shares_right(self.rows, {name: 1.0}) for name in self.agents]
        right_of_each = np.array(alone)
        right_of_best = np.empty(len(self.rows))
        for outside, inside in self._splits:
            accuracies = right_of_each[:, outside].mean(axis=1)
            right_of_best[inside] = alone[accuracies.argmax()][inside]
        of_all = right_of_each.mean(axis=1)
        best = int(of_all.argmax())
        return self.agents[best], float(of_all[best]), right_of_best

    def choose_answered(self, answers: _Answers, risk: float) -> FloatArray:
        """Returns 1 for each question that is answered, at the highest threshold that keeps the risk on other folds."""
        is_answered = np.zeros(len(self.rows))
        for outside, inside in self._splits:
            usable = outside[answers.is_given[outside]]
            thresholds, places = np.unique(answers.uncertainty[usable], return_inverse=True)
            n_thresholds = thresholds.size
            wrong = 1.0 - answers.right[usable]
            n_wrong = np.bincount(places, wrong, minlength=n_thresholds).cumsum()
            n_answered = np.bincount(places, minlength=n_thresholds).cumsum()
            keeps_risk = n_wrong <= risk * n_answered + TIE
            threshold = thresholds[keeps_risk].max(initial=-np.inf)

            passes = answers.uncertainty[inside] <= threshold + TIE
            is_answered[inside] = answers.is_given[inside] & passes
        return is_answered

    def coverages(self, answers: _Answers) -> tuple[dict[float, Estimate], dict[float, float]]:
        """Returns by risk the share that is answered, and the share wrong among these answers."""
        wrong = 1.0 - answers.right
        coverage = {}
        realised = {}
        for risk in RISKS:
            is_answered = self.choose_answered(answers, risk)
            share, drawn = self.mean(is_answered)
            coverage[risk] = with_interval(share, drawn, n_intervals=len(RISKS))
            realised[risk] = float("nan")
            if is_answered.any():
                realised[risk] = float(is_answered @ wrong / is_answered.sum())
        return coverage, realised

    def auroc(self, right: FloatArray, uncertainty: FloatArray) -> _Drawn:
        """Returns the mean over folds of the AUROC within them, and that of each resample of the questions."""
        places = [inside for _, inside in self._splits]
        rankings = []
        areas = []
        for inside in places:
            ranking = Ranking(right[inside], join_ties(uncertainty[inside]))
            rankings.append(ranking)
            areas.append(area_under_roc(ranking.tally()))
        value = _mean_of_known(areas)

        drawn = []
        for counts in self._counts:
            areas = []
            for ranking, inside in zip(rankings, places, strict=True):
                tally = ranking.tally(counts[:, inside])
                areas.append(area_under_roc(tally))
            drawn.append(_mean_of_known(areas))
        return float(value[0]), np.concatenate(drawn)

    def mean(self, values: FloatArray) -> _Drawn:
        """Returns the mean of values, and that of each resample of the questions."""
        drawn = [counts @ values / values.size for counts in self._counts]
        return float(values.mean()), np.concatenate(drawn)

    def gain(self, scores: Mapping[str, FloatArray]) -> Table:
        """Returns the AUROC of each score less that of the vote share."""
        usual = self.auroc(self.right, self.votes)
        gains = {}
        for name, values in scores.items():
            gains[name] = _less(self.auroc(self.right, values), usual)
        return _adjust(gains)

    def without_each(self) -> Table:
        """Returns by agent the accuracy of the group without it less that with it."""
        changes = {}
        for name in self.agents:
            others = dict.fromkeys(set(self.agents) - {name}, 1.0)
            if others:
                right = shares_right(self.rows, others)
                changes[name] = self.mean(right - self.right)
        return _adjust(changes)

    def with_confidence(self) -> dict[str, FloatArray]:
        """Returns 1 - the vote share by each kind of confidence that an agent has, alone."""
        stated = []
        token = []
        for row in self.rows:
            agents = [row.measurement.agents[name] for name in self.agents]
            stated.append([agent.confidence if agent.states_all else None for agent in agents])
            token.append([agent.token_confidence for agent in agents])

        by_kind = {}
        for kind, confidences in (("stated", stated), ("token", token)):
            if any(of_row.count(None) < len(of_row) for of_row in confidences):
                by_kind[kind] = self._weighted_by(confidences)
        return by_kind

    def _weighted_by(self, confidences: Sequence[Sequence[float | None]]) -> FloatArray:
        """Returns 1 - the vote share where each agent counts by its confidence in the row."""
        n_agents = len(self.agents)
        uncertainty = np.empty(len(self.rows))
        for i, row in enumerate(self.rows):
            filled = fill_confidences(confidences[i], [None] * n_agents)
            votes = filled @ distributions_of(row.measurement, self.agents) / n_agents
            uncertainty[i] = 1.0 - votes.max()
        return uncertainty

    def _predict(self, features: FloatArray) -> FloatArray:
        """Returns P(wrong) of a ridge logistic regression that is fitted on the other folds."""
        wrong = 1.0 - self.right
        chances = np.empty(len(self.rows))
        for outside, inside in self._splits:
            known = wrong[outside]
            # without a right and a wrong answer there is nothing to fit
            if known.max() > 0.0 and known.min() < 1.0:
                slopes, intercept = fit_ridge(features[outside], known, penalty=1.0)
                log_odds = features[inside] @ slopes + intercept
                chances[inside] = 1.0 / (1.0 + np.exp(-log_odds))
            else:
                chances[inside] = known.mean()
        return chances

    def by_information(self) -> list[tuple[str, float]]:
        """Returns the agents in the order of `Advice.order`: chosen one by one for the lowest held-out log-loss."""
        wrong = 1.0 - self.right
        before = self._loss(np.full(wrong.size, wrong.mean()))
        remaining = list(range(len(self.agents)))
        chosen: list[int] = []
        order = []
        while remaining:
            losses = {}
            for i in remaining:
                features = self.support[:, [*chosen, i]]
                losses[i] = self._loss(self._predict(features))
            best = min(remaining, key=losses.__getitem__)
            order.append((self.agents[best], before - losses[best]))
            before = losses[best]
            chosen.append(best)
            remaining.remove(best)
        return order

    def _loss(self, predicted: FloatArray) -> float:
        chance = np.clip(predicted, 1e-12, 1.0 - 1e-12)
        if_wrong = np.log(chance)
        if_right = np.log(1.0 - chance)
        likelihoods = (1.0 - self.right) * if_wrong + self.right * if_right
        return float(-likelihoods.mean())

    def sample_losses(self) -> dict[int, dict[str, Difference]]:
        """Returns what the first n responses of each agent lose against all, by counts; n doubles up to all."""
        most = 0
        for row in self.rows:
            most = max(most, *map(len, row.said.values()))
        sizes = [n for n in _SIZES if n < most]
        sizes.append(most)

        figures = {}
        for n in sizes:
            right = np.empty(len(self.rows))
            uncertainty = np.empty(len(self.rows))
            for i, row in enumerate(self.rows):
                right[i], uncertainty[i] = _with_first(row, n)
            figures[n, "auroc"] = self.auroc(right, uncertainty)
            figures[n, "accuracy"] = self.mean(right)
        losses = {}
        for (n, name), figure in figures.items():
            losses[n, name] = _less(figure, figures[most, name])

        adjusted = _adjust(losses)
        by_size: dict[int, dict[str, Difference]] = {}
        for (n, name), difference in adjusted.items():
            by_size.setdefault(n, {})[name] = difference
        return by_size


def _less(figure: _Drawn, other: _Drawn) -> _Drawn:
    value, resampled = figure
    other_value, other_resampled = other
    return value - other_value, resampled - other_resampled


def _mean_of_known(of_folds: list[FloatArray]) -> FloatArray:
    values = np.array(of_folds)
    # a fold with right answers alone, or wrong ones, has none
    n_known = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / n_known)


def _support(row: Judged, agents: Sequence[str]) -> FloatArray:
    """Returns each agent's probability of the leading answer, the mean over answers that tie, shape `(n_agents,)`."""
    shares = distributions_of(row.measurement, agents)
    leading = shares_lead(shares.mean(axis=0))
    return np.asarray(shares[:, leading].mean(axis=1))


def _with_first(row: Judged, n: int) -> tuple[float, float]:
    """Returns the share of the leading answer that is right, and 1 - its vote share, by the first n of each agent."""
    n_clusters = len(row.verdicts)
    shares = []
    for said in row.said.values():
        counts = np.bincount(said[:n], minlength=n_clusters)
        shares.append(counts / counts.sum())
    support = np.mean(shares, axis=0)
    verdicts = np.array(row.verdicts, dtype=float)
    right = verdicts[shares_lead(support)].mean()
    return float(right), 1.0 - float(support.max())


_Key = TypeVar("_Key")


def _adjust(differences: Mapping[_Key, _Drawn]) -> dict[_Key, Difference]:
    """Returns differences, given with their resamples, adjusted for their number."""
    from scipy.stats import norm  # here: importing it takes long

    raw = dict.fromkeys(differences, 1.0)
    for key, (value, drawn) in differences.items():
        known = drawn[~np.isnan(drawn)]
        spread = float(known.std()) if known.size else 0.0
        if spread > 0.0:
            raw[key] = float(2.0 * norm.sf(abs(value) / spread))

    # Holm: the smallest of n is times n, the next times n - 1, and none is below the one before
    p_values = dict(raw)
    highest = 0.0
    for place, key in enumerate(sorted(raw, key=raw.__getitem__)):
        p_value = min(1.0, (len(raw) - place) * raw[key])
        highest = max(highest, p_value)
        p_values[key] = highest

    adjusted = {}
    for key, (value, drawn) in differences.items():
        interval = with_interval(value, drawn, n_intervals=len(differences))
        adjusted[key] = Difference(*interval, p_values[key])
    return adjusted


@dataclass(frozen=True, slots=True)
class Observed:
    """What people ruled on calls that ran while a council watched; as shares of all calls with its verdict.

    Attributes:
        n_lost: How many calls it would have blocked that were right.
        n_saved: How many calls it would have blocked that were wrong.
        n_passed: How many calls that it would have let pass people ruled on.
        wrong_passed: The share of all such calls that is wrong, by the rate at which they were recorded; None without
            any.
    """

    n_lost: int
    n_saved: int
    n_passed: int
    wrong_passed: float | None


def read_observed(questions: Iterable[SampledQuestion]) -> Observed | None:
    """Returns what the samples of `coe-agents harvest` say; None of other samples, or where no call was observed."""
    n_blocked = {True: 0, False: 0}
    n_passed = 0
    weight_of_passed = {True: 0.0, False: 0.0}
    for question in questions:
        by_agent = {row["agent"]: row for row in question.responses}
        proposed = by_agent.get("driver")
        kind = None if proposed is None else proposed.get("kind")
        if proposed is None or kind not in ("observed", "audit"):
            return None
        is_right = proposed["correct"]
        if is_right is None:
            continue
        if kind == "observed":
            n_blocked[is_right] += 1
        else:
            # each stands for as many as passed without being recorded
            seen_probability = float(str(proposed.get("seen_probability")))
            n_passed += 1
            weight_of_passed[is_right] += 1.0 / seen_probability
    if not n_passed and not any(n_blocked.values()):
        return None

    wrong_passed = None
    if n_passed:
        wrong_passed = weight_of_passed[False] / sum(weight_of_passed.values())
    return Observed(n_blocked[True], n_blocked[False], n_passed, wrong_passed)
