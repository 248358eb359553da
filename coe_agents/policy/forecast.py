"""Owns the step from labelled responses to a forecast of the measurement after the remaining responses."""

from collections.abc import Mapping, Sequence

import numpy as np

from coe_agents.policy.measurement import cluster_texts
from coe_agents.policy.weighting import Weighting, log_probabilities, places_of, shares, weighed_agents
from coe_agents.types import Response
from coe_agents.uncertainty import CoEForecast, coe_forecast
from coe_agents.uncertainty.divergences import Divergence
from coe_agents.uncertainty.regimes import epistemic_scale


def forecast(
    responses: Sequence[Response],
    labels: Sequence[int],
    n_more: Mapping[str, int],
    *,
    weights: Mapping[str, float] | None = None,
    weighting: Weighting = "auto",
    divergence: Divergence = "kl",
    confidence: float = 0.95,
) -> CoEForecast:
    """Forecasts what `measure` will find after more responses; see `coe_agents.uncertainty.coe_forecast`.

    The epistemic part, also in the total, is on the scale of "kl": `comparable_coe` and `comparable_epistemic` of a
    `Measurement`, with which thresholds are compared. Names and the order of agents and responses change nothing.

    Args:
        responses: As in `measure`.
        labels: As in `measure`.
        n_more: How many more each agent will give, by name; 0 for agents not named.
        weights: As in `measure`.
        weighting: As in `measure`.
        divergence: As in `measure`.
        confidence: In (0, 1).

    Raises:
        ValueError: As `measure` and `coe_forecast`.

    Example:
        >>> from coe_agents.testing import create_response
        >>> said = [create_response(name, "Paris") for name in "aaabbb"]
        >>> found = forecast(said, [0] * 6, {"a": 2, "b": 2})
        >>> found.total[0] == 0.0 < found.total[1]
        True
    """
    names, agents, normalized = weighed_agents(responses, weights)
    log_probs, _ = log_probabilities(responses, weighting)
    more = [n_more.get(name, 0) for name in names]
    places = places_of(cluster_texts(responses, labels, normalized[agents] * shares(log_probs, agents)))
    return coe_forecast(
        places[np.asarray(labels)],
        agents,
        more,
        log_probs=log_probs,
        weights=normalized,
        divergence=divergence,
        confidence=confidence,
        epistemic_scale=epistemic_scale(normalized, divergence),
    )
