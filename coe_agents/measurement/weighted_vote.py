"""Owns the one score: the group's vote share, with the agents' weights and how sure they are; and weights by agreement.

    s = sum_i w_i k_i p_i(c*) / sum_i w_i

p_i(c) is agent i's probability of cluster c, w_i its weight, k_i its confidence, and c* the cluster with the most. The
uncertainty is 1 - s, in [0, 1].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from coe_agents.checks import integer
from coe_agents.clustering.refusals import answer_kind
from coe_agents.measurement.measurement import Measurement
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.ties import shares_lead

WeightsFrom = Literal["equal", "agreement", "learned"]
"""Where the weights of the score are from: all 1, how far the agents agree, or labels."""
WEIGHTS_FROM: tuple[WeightsFrom, ...] = get_args(WeightsFrom)

VOTE_SHARE = "vote_share"
"""The score with k_i = 1."""
CONFIDENCE_VOTE_SHARE = "confidence_vote_share"
"""The score with the agents' confidences."""
TRUSTED_VOTE_SHARE = "trusted_vote_share"
"""The score with k_i = 1 and weights by agreement, where c* leads with equal weights."""
VOTE_SHARES = (VOTE_SHARE, CONFIDENCE_VOTE_SHARE, TRUSTED_VOTE_SHARE)


def distributions_of(measurement: Measurement, agents: Sequence[str]) -> FloatArray:
    """The agents' probabilities of each cluster, shape `(n_agents, n_clusters)`."""
    rows = []
    for name in agents:
        distribution = measurement.agents[name].distribution
        rows.append([distribution.get(text, 0.0) for text in measurement.representatives])
    return np.array(rows)


def fill_confidences(stated: Sequence[float | None], token: Sequence[float | None]) -> FloatArray:
    """Returns k of each agent to one question, shape `(n_agents,)`, in [0, 1].

    It is the product of what the agent stated and its mean token probability, as far as these are known. Of an agent of
    which neither is known it is the mean of the others' k, and 1 where none is known.

    >>> fill_confidences([0.5, None, None], [0.5, 0.75, None])
    array([0.25, 0.75, 0.5 ])
    """
    confidences = np.full(len(stated), np.nan)
    for place, parts in enumerate(zip(stated, token, strict=True)):
        known_parts = [part for part in parts if part is not None]
        if known_parts:
            confidences[place] = math.prod(known_parts)
    is_known = ~np.isnan(confidences)
    mean = confidences[is_known].mean() if is_known.any() else 1.0
    return np.where(is_known, confidences, mean)


def confidences_of(measurement: Measurement, agents: Sequence[str]) -> FloatArray:
    """Returns k of each agent: see `fill_confidences`."""
    stated: list[float | None] = []
    token: list[float | None] = []
    for name in agents:
        measured = measurement.agents[name]
        stated.append(measured.confidence if measured.states_all else None)
        token.append(measured.token_confidence)
    return fill_confidences(stated, token)


def weighted_votes(
    measurement: Measurement, weights: Mapping[str, float] | None, *, score: str = VOTE_SHARE
) -> FloatArray:
    """Returns sum_i w_i k_i p_i(c) / sum_i w_i of each cluster c, shape `(n_clusters,)`.

    Args:
        measurement: In which only agents that answered are.
        weights: Of agents by name; an agent without one does not count. None: those of the measurement.
        score: "confidence_vote_share" reads confidences; any other one has k_i = 1.
    """
    agents = list(measurement.agents)
    if weights is None:
        # equal weights of a measurement are {}
        weights = measurement.weights or dict.fromkeys(agents, 1.0)
    counted = np.array([weights.get(name, 0.0) for name in agents])
    total = counted.sum()
    if not total > 0.0:
        return np.zeros(len(measurement.representatives))
    if score == CONFIDENCE_VOTE_SHARE:
        counted = counted * confidences_of(measurement, agents)
    votes = counted @ distributions_of(measurement, agents)
    return np.asarray(votes / total)


def find_leaders(votes: FloatArray) -> list[int]:
    """Returns the clusters with the most votes: one, or several that tie; none if nobody votes."""
    if not votes.any():
        return []
    return np.flatnonzero(shares_lead(votes)).tolist()


_POWER = 3.0
"""On real groups of unequal models a power of 3 chooses more right answers than 1 or 2: `benchmarks/weights.py`."""
_FAR_BELOW = 0.75
"""An agent whose agreement is below this share of every other's is named: it is the worst of the group, or the best."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much the agents of a group agree with each other, and the weights that follow from it.

    Attributes:
        weights: By agent, in [0, 1], summing to 1.
        intervals: The 95 % interval of each weight, by bootstrap over the questions.
        agreement: By agent: the mean probability that another agent gives the same answer, in [0, 1].
        n_questions: How many questions at least two agents answered.
    """

    weights: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    agreement: Mapping[str, float]
    n_questions: int

    @property
    def odd_one_out(self) -> str | None:
        """The one agent that agrees with the rest far less than all others do; None if no agent does.

        It may be the worst of the group, or the best: without labels nobody can tell. If it is the best, these weights
        do harm. Of two agents each agrees as much as the other.
        """
        in_order = sorted(self.agreement.items(), key=lambda item: item[1])
        name, lowest = in_order[0]
        _, second_lowest = in_order[1]
        return name if lowest < _FAR_BELOW * second_lowest else None


def agreement_weights(measurements: Sequence[Measurement], *, n_resamples: int = 1000) -> Agreement:
    r"""Weighs agents without any labels, by how probably the others agree with them.

    With p_i(c) the probability that agent i gives to cluster c, and means over the n questions that i and another agent
    j responded to; refusals and empty texts are no answers, and agree with nothing:

        s_i = 1/n \sum \sum_c p_i(c) mean_{j != i} p_j(c),    w_i = s_i^3 / \sum_j s_j^3

    Wrong answers are more diverse than right ones, so an agent that is often right meets others more often. Where most
    agents share an error this fails: a single strong agent among weak ones that repeat each other loses its weight. So
    the weights are an offer; check them on labels, if there are some. `docs/results/weights.md` has what they gain.

    Args:
        measurements: Of questions, labelled or not. The order, and the weights by which they were measured, change
            nothing.
        n_resamples: Of the bootstrap over questions behind the intervals.

    Raises:
        ValueError: No question was answered by two agents, or no agent ever agrees with another.

    Example:
        >>> from coe_agents.policy import measure
        >>> from coe_agents.types import create_response
        >>> def question(*texts):
        ...     said = [create_response(name, text) for name, text in zip("abc", texts)]
        ...     return measure(said, [texts.index(text) for text in texts])
        >>> found = agreement_weights([question("Paris", "Paris", "Lyon"), question("4", "4", "4")])
        >>> {name: round(weight, 3) for name, weight in found.weights.items()}  # s: 3/4, 3/4, 1/2
        {'a': 0.435, 'b': 0.435, 'c': 0.129}
    """
    integer(n_resamples, '"n_resamples"', least=1, advice="1000 is the default")
    names = sorted({name for measurement in measurements for name in measurement.agents})
    shared = [measurement for measurement in measurements if len(measurement.agents) > 1]
    if not shared:
        raise ValueError(
            '"measurements" must hold questions that at least two agents answered; got none of '
            f"{len(measurements)}. Sample several agents"
        )
    # a row for each question, a column for each agent
    rows = np.array([_agreements(measurement, names) for measurement in shared])
    rows = rows[np.lexsort(rows.T)]  # so that the order of the questions changes no resample
    is_known = ~np.isnan(rows)
    for name, is_measured in zip(names, is_known.any(axis=0), strict=True):
        if not is_measured:
            raise ValueError(
                f'every agent of "measurements" must have answered a question with another agent; got "{name}" alone. '
                "Omit it"
            )
    values = np.nan_to_num(rows)
    known = is_known.astype(float)
    scores = values.sum(axis=0) / known.sum(axis=0)
    if not scores.any():
        raise ValueError(
            f'agents of "measurements" must sometimes agree; got {len(rows)} questions to which no two agents give the '
            "same answer. Check the clusterer"
        )

    n_questions = len(rows)
    generator = np.random.default_rng(0)
    resampled = np.empty((n_resamples, len(names)))
    for place in range(n_resamples):
        drawn = generator.integers(n_questions, size=n_questions)
        counts = np.bincount(drawn, minlength=n_questions)
        # an agent that answered none of the questions drawn has a score of 0
        n_known = np.maximum(counts @ known, 1.0)
        resampled[place] = to_weights(counts @ values / n_known)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0).tolist()

    weights = to_weights(scores).tolist()
    intervals = zip(low, high, strict=True)
    return Agreement(
        weights=dict(zip(names, weights, strict=True)),
        intervals=dict(zip(names, intervals, strict=True)),
        agreement=dict(zip(names, scores.tolist(), strict=True)),
        n_questions=n_questions,
    )


def _agreements(measurement: Measurement, names: Sequence[str]) -> list[float]:
    """Returns the agreement of each agent; NaN for an agent without a response."""
    proposes = measurement.proposals.calls is not None
    is_answer = [proposes or answer_kind(text) == "answer" for text in measurement.representatives]
    rows = distributions_of(measurement, list(measurement.agents))
    agreements = mean_agreements(rows, is_answer)
    by_name = dict(zip(measurement.agents, agreements, strict=True))
    return [by_name.get(name, np.nan) for name in names]


def mean_agreements(distributions: FloatArray, is_answer: Sequence[bool]) -> list[float]:
    """Returns sum_c p_i(c) mean_{j != i} p_j(c) of each agent i, over the clusters that are answers.

    `distributions` has shape `(n_agents, n_clusters)`, of two agents or more.
    """
    rows = distributions * is_answer
    pairs = rows @ rows.T
    sums_over_others = pairs.sum(axis=1) - pairs.diagonal()
    n_others = len(rows) - 1
    means: list[float] = (sums_over_others / n_others).tolist()
    return means


def to_weights(scores: FloatArray) -> FloatArray:
    """Returns scores^3, normalised; equal weights where all scores are 0."""
    raised = scores**_POWER
    if not raised.any():
        return np.full(scores.size, 1.0 / scores.size)
    return np.asarray(raised / raised.sum())
