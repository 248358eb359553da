"""Owns the estimators of uncertainty by name, and what reports call them: higher = less sure.

They are pure functions of one question's statistics.

Each returns None where it cannot be computed; a score is reported only if it can be for every question that is scored.

To add one of your own, write a callable that takes `Statistics` and returns a float or None, or a class whose instances
do, made without arguments. Pass it to `score(..., estimators={"my_score": my_score})`, or name it in
`coe-agents score --estimator my_package.module:my_score`. `coe-agents calibrate --score` takes that name, too, and
`CalibratedPolicy.load(path, estimator=my_score)` computes it of each new question: the file does not name code.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from coe_agents._removed import replacement_of
from coe_agents.checks import is_finite, is_number, require
from coe_agents.extensions import NO_ENTRY_POINTS, did_you_mean, is_reference, load_extension
from coe_agents.measurement.measurement import Measurement
from coe_agents.measurement.statistics import Statistics, statistics_of, support_figures
from coe_agents.measurement.weighted_vote import (
    CONFIDENCE_VOTE_SHARE,
    TRUSTED_VOTE_SHARE,
    VOTE_SHARE,
    fill_confidences,
    weighted_votes,
)
from coe_agents.measurement.weighting import stated_confidences, token_confidences

Estimator = Callable[[Statistics], float | None]
"""Computes a score of one question: higher = less sure; None where it cannot be computed."""

BEST_SINGLE_MODEL = "best_single_model"


def support(statistics: Statistics) -> float | None:
    """Lack of support: 1 - the mean over the other agents of their probability of the proposal's cluster, in [0, 1].

    CoE does not know whose answer is judged; this does. Higher = less sure. None if there is no other agent, or no
    proposal.
    """
    share = statistics.measurement.proposals.support.get(statistics.proposer or "")
    return None if share is None else 1.0 - share


def own_entropy(statistics: Statistics) -> float | None:
    """Semantic entropy of the proposer's own responses, in nats; higher = less sure.

    0 of an agent with one response, which then separates nothing (an AUROC of 0.5). None if it gave none.
    """
    entropies = dict(zip(statistics.names, statistics.entropies, strict=True))
    return entropies.get(statistics.proposer or "")


def regular_entropy(statistics: Statistics) -> float | None:
    """Predictive entropy, the mean over agents of the mean of -logprob, in nats; higher = less sure.

    The Monte Carlo estimate of the entropy of an agent's distribution over whole texts (Kadavath et al., 2022). Long
    responses have a higher entropy. None if an agent has no log-probability.
    """
    surprisals: list[float | None] = []
    for sample in statistics.responses:
        logprob = sample["logprob"]
        surprisals.append(None if logprob is None else -logprob)
    means = _means(statistics, surprisals)
    return fmean(means) if len(means) == len(statistics.names) else None


def p_false(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of the samples' field `p_false`, in [0, 1]; higher = less sure.

    `p_false` is an agent's probability that its response is false (Kadavath et al., 2022). Agents without the field are
    omitted, and so are values that are no probabilities; None if no agent is left.
    """
    means = _means(statistics, _probabilities_of_falsity(statistics))
    return fmean(means) if means else None


def confidence_vote_share(statistics: Statistics) -> float:
    """1 - the vote share by the agents' confidences, in [0, 1]; higher = less sure.

    The score of `coe_agents.measurement.weighted_vote` with the weights of the statistics. Without any confidence the
    score is "vote_share".
    """
    stated: dict[str, float] = {}
    for name, values in stated_confidences(statistics.responses).items():
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            stated[name] = fmean(known)
    of_tokens = token_confidences(statistics.responses)
    if not stated and not of_tokens:  # mostly
        return statistics.figures[VOTE_SHARE] or 0.0
    names = statistics.names
    weights = np.array([statistics.weights.get(name, 1.0) for name in names])
    confidences = fill_confidences(
        [stated.get(name) for name in names], [of_tokens.get(name) for name in names]
    )
    votes = (weights * confidences) @ statistics.distributions / weights.sum()
    return float(1.0 - votes.max())


def _probabilities_of_falsity(statistics: Statistics) -> list[float | None]:
    values = [sample.get("p_false") for sample in statistics.responses]
    if values.count(None) == len(values):  # mostly
        return []
    probabilities: list[float | None] = []
    for value in values:
        if is_number(value) and 0.0 <= value <= 1.0:
            probabilities.append(float(value))
        else:
            probabilities.append(None)
    return probabilities


def _means(statistics: Statistics, values: Sequence[float | None]) -> list[float]:
    """Returns the mean of each agent's known values, of agents that have any; `values` has one of each response."""
    if values.count(None) == len(values):
        return []
    by_agent: dict[int, list[float]] = {}
    for agent, value in zip(statistics.agents.tolist(), values, strict=True):
        if value is not None:
            by_agent.setdefault(agent, []).append(value)
    return list(map(fmean, by_agent.values()))


def _figure(name: str, statistics: Statistics) -> float | None:
    return statistics.figures[name]  # computed for many questions at once


def _support_figure(name: str, measurement: Measurement) -> float:
    return float(support_figures(np.array(measurement.support))[name])


def _confidence_vote_share_of(measurement: Measurement) -> float:
    return float(1.0 - weighted_votes(measurement, None, score=CONFIDENCE_VOTE_SHARE).max())


class _Score(NamedTuple):
    """A row of the table of scores.

    Attributes:
        label: What reports call the score.
        explanation: What the score measures, in a line.
        estimator: Computes the score of one question's statistics. None for a score that needs all questions at once:
            those are computed in `coe_agents.evaluation.scoring`.
        of_measurement: Computes the score of a measurement, which may lack the responses; None of a score that takes
            the responses.
    """

    label: str
    explanation: str
    estimator: Estimator | None
    of_measurement: Callable[[Measurement], float] | None = None


_PROPOSAL, _OTHER = "The judged proposal", "Other estimators"
_GROUPS: Mapping[str, Mapping[str, _Score]] = {
    _PROPOSAL: {
        "support": _Score(
            "Support of the others",
            "lack of support: 1 - the other agents' mean probability of what is proposed",
            support,
        ),
        "own_entropy": _Score(
            "Entropy of the proposer",
            "semantic entropy of the proposer's own responses",
            own_entropy,
        ),
    },
    "Collaborative Entropy and its parts": {
        "coe": _Score(
            "CoE",
            "Collaborative Entropy: the aleatoric plus the epistemic part, in nats",
            partial(_figure, "coe"),
            of_measurement=attrgetter("coe"),
        ),
        "coe_js": _Score(
            "CoE, Jensen-Shannon",
            "CoE with this divergence between the agents",
            partial(_figure, "coe_js"),
        ),
        "coe_hellinger": _Score(
            "CoE, Hellinger",
            "CoE with this distance between the agents",
            partial(_figure, "coe_hellinger"),
        ),
        "coe_wasserstein": _Score(
            "CoE, Wasserstein",
            "CoE with this distance; meanings are 1 apart without an entailment model",
            partial(_figure, "coe_wasserstein"),
        ),
        "aleatoric": _Score(
            "Aleatoric part of CoE",
            "how unsure each agent is by itself; the mean of agents",
            partial(_figure, "aleatoric"),
            of_measurement=attrgetter("aleatoric"),
        ),
        "epistemic": _Score(
            "Epistemic part of CoE",
            "how much the agents differ from one another",
            partial(_figure, "epistemic"),
            of_measurement=attrgetter("epistemic"),
        ),
    },
    "Entropies": {
        "semantic_entropy": _Score(
            "Semantic entropy, mean of agents",
            "entropy of each agent's meanings; equals the aleatoric part",
            partial(_figure, "semantic_entropy"),
        ),
        "pooled_semantic_entropy": _Score(
            "Semantic entropy, pooled",
            "entropy of the meanings of all responses, as if of one agent",
            partial(_figure, "pooled_semantic_entropy"),
        ),
        BEST_SINGLE_MODEL: _Score(
            "Semantic entropy, best agent",
            "of the agent that ranked answers best on the other half",
            None,
        ),
    },
    "Agreement": {
        VOTE_SHARE: _Score(
            "Vote share",
            "1 - the leading meaning's share of the group",
            partial(_figure, VOTE_SHARE),
            of_measurement=partial(_support_figure, VOTE_SHARE),
        ),
        TRUSTED_VOTE_SHARE: _Score(
            "Trusted vote share",
            "vote share in which agents count by how far the others agree with them",
            None,
        ),
        CONFIDENCE_VOTE_SHARE: _Score(
            "Vote share by confidence",
            "vote share in which agents count by how sure they are",
            confidence_vote_share,
            of_measurement=_confidence_vote_share_of,
        ),
        "pooled_disagreement": _Score(
            "Disagreement, pooled",
            "chance that any two responses of the group differ",
            partial(_figure, "pooled_disagreement"),
            of_measurement=partial(_support_figure, "pooled_disagreement"),
        ),
    },
    "Log-probabilities": {
        "regular_entropy": _Score(
            "Regular entropy",
            "mean negative log-probability of whole responses, whatever they mean",
            regular_entropy,
        )
    },
    "Stated by the agents": {
        "p_false": _Score(
            "P(False)", "the probability that an agent gives to its response being false", p_false
        )
    },
    _OTHER: {},
}
"""All built-in scores, by group and name, in reading order."""

_TABLE: Mapping[str, _Score] = {
    name: score for scores in _GROUPS.values() for name, score in scores.items()
}
_GROUP_OF = {name: group for group, scores in _GROUPS.items() for name in scores}

SCORES_OF_SETS = tuple(name for name, score in _TABLE.items() if score.estimator is None)
"""The scores that no estimator computes: they need all questions, not one."""
_ALL_ESTIMATORS: Mapping[str, Estimator] = {
    name: score.estimator for name, score in _TABLE.items() if score.estimator is not None
}

PROPOSAL_ESTIMATORS: Mapping[str, Estimator] = {
    name: _ALL_ESTIMATORS[name] for name in _GROUPS[_PROPOSAL]
}
"""The built-in estimators of whether the proposal of `Statistics.proposer` is wrong: its first response."""
PROPOSAL_SCORES = tuple(PROPOSAL_ESTIMATORS)
"""The scores of whether one agent's proposal is wrong."""
ESTIMATORS: Mapping[str, Estimator] = {
    name: estimator
    for name, estimator in _ALL_ESTIMATORS.items()
    if name not in PROPOSAL_ESTIMATORS
}
"""All other built-in estimators."""
RUN_TIME_SCORES = tuple(name for name in ESTIMATORS if name != p_false.__name__)
"""The built-in scores that can be computed of one new question; P(False) needs a further request to each agent."""
DEFAULT_SCORE = VOTE_SHARE
"""What `calibrate` compares with a threshold: it ranks best on saved responses, see `benchmarks/defaults.py`."""


BASELINE = (
    "coe",
    "epistemic",
    "semantic_entropy",
    "best_single_model",
    "vote_share",
    "regular_entropy",
    "p_false",
)
"""The scores that reports show first."""


class _ScoreName(NamedTuple):
    label: str
    group: str
    explanation: str


def name_of(score: str) -> _ScoreName:
    """Returns how a score is shown; a score that is not built in keeps its own name."""
    known = _TABLE.get(score)
    if known is None:
        return _ScoreName(score, _OTHER, "an estimator of the caller's own")
    return _ScoreName(known.label, _GROUP_OF[score], known.explanation)


def group_scores(scores: Iterable[str]) -> dict[str, list[str]]:
    """Returns scores by the group in which they are shown, groups and members in reading order."""
    places = {name: place for place, name in enumerate(_TABLE)}
    groups: dict[str, list[str]] = {group: [] for group in _GROUPS}
    for score in sorted(scores, key=lambda name: places.get(name, len(places))):
        groups[name_of(score).group].append(score)
    return {group: names for group, names in groups.items() if names}


def score_of(measurement: Measurement, name: str) -> float | None:
    """Returns a score of uncertainty, higher = less sure; None where it cannot be computed.

    Args:
        measurement: Of the responses to one question.
        name: One of `RUN_TIME_SCORES`, or the name of an estimator. `find_score` runs the estimator's code, so that no
            name from a file may come here. CoE and its parts are read from the measurement.

    Raises:
        ValueError: The score is computed of responses, which the measurement does not have, and was not before.

    >>> from coe_agents.policy import measure
    >>> from coe_agents.types import create_response
    >>> said = [create_response(agent, text) for agent, text in (("a", "Lyon"), ("b", "Lyon"), ("c", "Nice"))]
    >>> round(score_of(measure(said, [0, 0, 1]), "vote_share"), 4)
    0.3333
    """
    known = _TABLE.get(name)
    if known is not None and known.of_measurement is not None:
        return known.of_measurement(measurement)
    if name in measurement.run.scores:
        return measurement.run.scores[name]
    return compute_score(measurement, name, find_score(name))


def compute_score(measurement: Measurement, name: str, estimator: Estimator) -> float | None:
    """Returns what an estimator gives for the responses of a measurement; `name` is for the error without them."""
    statistics = statistics_of(measurement)
    if statistics is None:
        must = f'the measurement must have the responses for "{name}"'
        raise ValueError(f'{must}; got one without. Pass score="{name}" to "judge_samples"')
    return estimator(statistics)


_OF_SCORE_ALONE = {
    p_false.__name__: "P(False) takes a further request to each agent",
    BEST_SINGLE_MODEL: "The best single model is chosen on all questions at once",
}
"""The scores that no new question has, and why."""


def find_score(name: str, *, folder: Path | None = None, further: Sequence[str] = ()) -> Estimator:
    """Returns the estimator of a score that can be computed of one new question.

    Args:
        name: One of `RUN_TIME_SCORES`, or "package.module:name", whose code is run.
        folder: Where Python looks for such a module last.
        further: The names that the caller takes, too, and that an error has to list.

    Raises:
        ConfigurationError: The estimator cannot be imported.
        ValueError: There is none of this name, or it needs more than the responses.
    """
    if name in RUN_TIME_SCORES:
        return ESTIMATORS[name]
    instead = replacement_of("score", name)
    if instead is not None:
        raise ValueError(f'a score must not be "{name}", which was removed. {instead}')
    if not is_reference(name):
        known = [*RUN_TIME_SCORES, *further]
        advice = did_you_mean(name, known) or NO_ENTRY_POINTS
        if name in _OF_SCORE_ALONE:
            advice = f"{_OF_SCORE_ALONE[name]}: it is for `score` alone. Name another"
        usual = ", ".join(known)
        raise ValueError(
            f"a score must be computable of one new question: {usual}, or your own; got {name!r:.80}. {advice}"
        )
    return _load_once(name, folder)


@lru_cache(maxsize=64)
def _load_once(name: str, folder: Path | None) -> Estimator:
    return load_estimator(name, folder=folder)


def load_estimator(name: str, *, folder: Path | None = None) -> Estimator:
    """Returns the estimator of "package.module:name", whose code is run; see `check_estimator`."""
    return check_estimator(name, load_extension("estimator", name, folder=folder))


def find_estimators(
    further: Mapping[str, Estimator], *, of_proposal: bool = False
) -> dict[str, Estimator]:
    """Returns the built-in estimators, and further ones; see `check_estimator`.

    With `of_proposal` one agent's proposal is judged, and the estimators of that come first. A ValueError if a name is
    taken.
    """
    estimators: dict[str, Estimator] = {}
    if of_proposal:
        estimators.update(PROPOSAL_ESTIMATORS)
    estimators.update(ESTIMATORS)
    for name, estimator in further.items():
        if name in estimators or name in SCORES_OF_SETS:
            raise ValueError(
                f'every estimator must have a name of its own; got "{name}" twice. Rename yours'
            )
        estimators[name] = check_estimator(name, estimator)
    return estimators


def check_estimator(name: str, source: Any) -> Estimator:
    """Returns an estimator, or of a class an instance, whose values are checked: each None or a finite number.

    Raises:
        ValueError: If it is not callable.
    """
    estimator = source() if isinstance(source, type) else source
    advice = "Write one that takes `Statistics` and returns a float or None"
    require(callable(estimator), f'estimator "{name}" must be a callable', estimator, advice)

    def compute(statistics: Statistics) -> float | None:
        value = estimator(statistics)
        if value is None:
            return None
        must = f'estimator "{name}" must return None or a finite number for question {statistics.question.id!r}'
        require(is_finite(value), must, value, "Return None where it cannot be computed")
        return float(value)

    return compute
