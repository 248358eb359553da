"""Owns the forecast of Collaborative Entropy: its range once the remaining responses are sampled."""

from __future__ import annotations  # annotations would import `numpy.random` at every start

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number, require
from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.collaborative import decompose, mean_of
from coe_agents.uncertainty.distributions import OneQuestion, one_question
from coe_agents.uncertainty.divergences import Divergence, kernel
from coe_agents.uncertainty.intervals import Interval, canonical_order, typical_masses
from coe_agents.uncertainty.ties import shares_lead

_N_NEW = 8
"""How many clusters may be new; more would change little, since they share what is new."""
_N_SIMULATIONS = 400


@dataclass(frozen=True, slots=True)
class CoEForecast:
    """The range of CoE once the remaining responses are sampled, with U_E on the scale that was asked for.

    Attributes:
        total: Of CoE, as (low, high).
        aleatoric: Of U_A.
        epistemic: Of U_E.
        lead: The probability that the cluster that leads now will still lead, alone; 0 if several clusters share the
            lead now.
        confidence: The probability inside each interval.
    """

    total: Interval
    aleatoric: Interval
    epistemic: Interval
    lead: float
    confidence: float

    @property
    def keeps_lead(self) -> bool:
        """Whether the leading cluster stays with the confidence of the intervals."""
        return self.lead >= self.confidence


def coe_forecast(
    labels: npt.ArrayLike,
    agents: npt.ArrayLike,
    n_more: npt.ArrayLike,
    *,
    log_probs: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    divergence: Divergence = "kl",
    confidence: float = 0.95,
    epistemic_scale: float = 1.0,
) -> CoEForecast:
    """Forecasts CoE, U_A and U_E (equations 3 to 5) as they will be with `n_more` responses of each agent.

    The remaining responses are simulated. With n_i(c) the number of responses of agent i in cluster c,

        g ~ Dirichlet(sum_i n_i, 1),    p_i ~ Dirichlet(n_i + g),    those left ~ Multinomial(n_more_i, p_i)

    where the unseen clusters share the last 1, as if they were one response. So the next response of an agent repeats
    one of its own, repeats one of another agent, or is new; a new one is the less likely, the more responses agree:
    nine equal responses of three agents are better evidence than three of one. A bootstrap treats three equal responses
    as certainty; these intervals have a width there. They narrow as fewer responses remain, because they forecast the
    measurement, not the agents' true entropy. The ends are the (1 - confidence) / 2 and (1 + confidence) / 2 quantiles.

    Equal responses have the same forecast, in any order of responses or agents. The numbering of the clusters changes
    nothing either, unless different agents hold several clusters in the same way.

    Args:
        labels: Shape `(n_responses,)`: the cluster of each response, from 0.
        agents: Shape `(n_responses,)`: the agent that gave it, from 0.
        n_more: Shape `(n_agents,)`: how many responses each will still give, at least 0.
        log_probs: Shape `(n_responses,)`: as in `cluster_distributions`. A response not yet sampled weighs as much as
            the agent's in that cluster do on average, or all of the agent's where it has none there.
        weights: Shape `(n_agents,)`, summing to 1; None: 1 / n_agents each.
        divergence: As in `collaborative_entropy`; no ground metric, since new clusters may appear that it does not
            cover.
        confidence: In (0, 1).
        epistemic_scale: The factor of U_E, in CoE too, finite and above 0; see the function of that name.

    Raises:
        TypeError: An argument is of a wrong kind.
        ValueError: As `cluster_distributions` and `collaborative_entropy`, or `n_more`, `confidence` or
            `epistemic_scale` is out of range.

    Three equal responses of one agent leave more open than nine of three:

        >>> one, three = coe_forecast([0] * 3, [0] * 3, [7]), coe_forecast([0] * 9, [0, 1, 2] * 3, [7] * 3)
        >>> one.total[1] > three.total[1] > 0
        True

    Without remaining responses, the forecast is the measurement:

        >>> coe_forecast([0, 1], [0, 0], [0]).total == (np.log(2), np.log(2))
        True
    """
    question = one_question(labels, agents, log_probs, weights)
    rows, agent_weights = question.rows, question.weights
    left = _checks.integers(n_more, "n_more")
    must = f'"n_more" must hold one number for each of {rows.shape[0]} agents'
    require(left.shape == rows.shape[:1], must, left.shape, "Pass 0 for an agent that gives no more")
    share = number(confidence, '"confidence"', above=0, below=1, advice="Pass a share such as 0.95")
    scale = number(epistemic_scale, '"epistemic_scale"', above=0, advice="1.0 leaves the unit as it is")
    generator = np.random.default_rng(0)

    counts: FloatArray = np.zeros(rows.shape)
    np.add.at(counts, (question.agents, question.labels), 1.0)
    weighed = counts if question.log_probs is None else _weigh(question, question.log_probs)
    traits = list(zip(left, agent_weights, counts.tolist(), strict=True))
    by_agent, clusters = canonical_order(weighed, traits)
    clusters = clusters[counts.sum(axis=0)[clusters] > 0.0]
    left, agent_weights = left[by_agent], agent_weights[by_agent]
    room = (0, 0), (0, _N_NEW)
    counts, weighed = (np.pad(held[by_agent][:, clusters], room) for held in (counts, weighed))
    typical = typical_masses(weighed, counts)

    prior = counts.sum(axis=0)
    prior[clusters.size :] = 1.0 / _N_NEW
    shared = _dirichlet(np.broadcast_to(prior, (_N_SIMULATIONS, 1, prior.size)), generator)
    to_come = generator.multinomial(left, _dirichlet(counts + shared, generator))
    simulated = _shares(weighed + to_come * typical)

    split = decompose(simulated, agent_weights, kernel(divergence, None, prior.size))
    scaled = scale * split.epistemic
    parts = np.stack([split.aleatoric + scaled, split.aleatoric, scaled])
    low, high = np.quantile(parts, [(1.0 - share) / 2.0, (1.0 + share) / 2.0], axis=1)
    total, aleatoric, epistemic = zip(low.tolist(), high.tolist(), strict=True)
    now, then = (shares_lead(mean_of(each, agent_weights)) for each in (_shares(weighed), simulated))
    kept = (now == then).all(axis=1) & (now.sum() == 1)
    return CoEForecast(total, aleatoric, epistemic, float(kept.mean()), share)


def _weigh(question: OneQuestion, logs: FloatArray) -> FloatArray:
    """Returns what each agent's responses in a cluster weigh together; its heaviest response weighs 1."""
    labels, agents = question.labels, question.agents
    order = np.lexsort((logs, labels, agents))  # so that rounding is the same in any order of the responses
    labels, agents, logs = labels[order], agents[order], logs[order]
    n_agents, n_clusters = question.rows.shape
    weighed = np.zeros((n_agents, n_clusters))
    highest = np.full(n_agents, -np.inf)
    np.maximum.at(highest, agents, logs)
    np.add.at(weighed, (agents, labels), np.exp(logs - highest[agents]))
    return weighed


def _shares(masses: FloatArray) -> FloatArray:
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True))


def _dirichlet(shapes: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Returns a distribution over the last axis for each row of shapes, of which one is at least 1."""
    return _shares(generator.standard_gamma(shapes))
