"""Owns the step from cluster labels to cluster distributions (equation 8)."""

import numpy as np
import numpy.typing as npt

from coe_agents.checks import integer, require
from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray, IntArray


def cluster_distributions(
    labels: npt.ArrayLike,
    agents: npt.ArrayLike,
    *,
    log_probs: npt.ArrayLike | None = None,
    n_agents: int | None = None,
    n_clusters: int | None = None,
) -> FloatArray:
    """Each agent's distribution over the shared clusters (equation 8), p_i(c) = sum_{s in c} p(s) / sum_s p(s).

    p(s) is the length-normalised probability exp(logprob / n_tokens) (the paper says "log-probability", a slip:
    negative numbers do not form a distribution), or 1 without `log_probs`, which makes p_i(c) the share of responses in
    c. Every response counts, duplicates too. Sums run over exp(log p - highest log p of the agent), so that no row
    underflows; only differences between one agent's log-probabilities matter. So one constant for all responses of an
    agent means frequency for that agent: that is how to mix agents that give log-probabilities with some that do not.

    Args:
        labels: Shape `(n_responses,)` or `(..., n_responses)`: the cluster of each response, from 0.
        agents: Shape `(n_responses,)`: the agent that gave each response, from 0; shared by all leading dimensions.
        log_probs: Broadcast to the shape of `labels`: the *length-normalised* natural log-probability of each
            response, logprob / n_tokens. -inf is a response of no weight.
        n_agents: The number of agents; by default the highest of `agents` plus 1.
        n_clusters: The number of clusters; by default the highest of `labels` plus 1. With leading dimensions,
            questions that have fewer clusters are padded with zeros, which changes no entropy.

    Returns:
        Shape `(..., n_agents, n_clusters)`, in [0, 1]; rows sum to 1.

    Raises:
        TypeError: Labels or agents are not integers, or log-probabilities are not real numbers.
        ValueError: An argument is empty, shapes do not fit, an index is out of range, an agent has no response, a
            log-probability is NaN or +inf, or all of an agent's are -inf.

    Two of three responses of agent 0 mean the same, and agent 1 gave one response:

        >>> cluster_distributions([0, 0, 1, 1], [0, 0, 0, 1]).round(3)
        array([[0.667, 0.333],
               [0.   , 1.   ]])

    Log-probabilities that would underflow as probabilities still count:

        >>> cluster_distributions([0, 1], [0, 0], log_probs=[-5000.0, -5000.0])
        array([[0.5, 0.5]])
    """
    advice = "Pass a count such as 3"
    if n_agents is not None:
        n_agents = integer(n_agents, '"n_agents"', least=1, advice=advice)
    if n_clusters is not None:
        n_clusters = integer(n_clusters, '"n_clusters"', least=1, advice=advice)
    label_array = _checks.integers(labels, "labels", upper=n_clusters, upper_name="n_clusters")
    agent_array = _checks.integers(agents, "agents", upper=n_agents, upper_name="n_agents")
    have_axes = agent_array.ndim == 1 and label_array.ndim >= 1
    if not have_axes or label_array.shape[-1] != agent_array.size:
        raise ValueError(
            '"labels" must end in one label for each of "agents", which has one dimension; '
            f"got shapes {label_array.shape} and {agent_array.shape}. Pass the agent of every response"
        )

    n_rows = n_agents or int(agent_array.max()) + 1
    n_columns = n_clusters or int(label_array.max()) + 1
    per_agent = np.bincount(agent_array, minlength=n_rows)
    if (per_agent == 0).any():
        raise ValueError(
            f"every agent must have at least one response; got none from agent {np.argmin(per_agent)}. "
            "Omit it, number the others from 0, and renormalise the weights"
        )
    relative = None
    if log_probs is not None:
        relative = _relative(log_probs, label_array.shape, agent_array)

    # one flat bin per question, agent and cluster, so that a single bincount serves all questions
    n_questions = label_array.size // agent_array.size
    n_cells = n_rows * n_columns
    question_offsets = n_cells * np.arange(n_questions)[:, None]
    bins = question_offsets + n_columns * agent_array
    bins += label_array.reshape(n_questions, -1)
    sums = np.bincount(bins.ravel(), weights=relative, minlength=n_questions * n_cells)

    masses = sums.reshape(*label_array.shape[:-1], n_rows, n_columns)
    totals = per_agent if relative is None else masses.sum(axis=-1)
    return masses / totals[..., None]


def _relative(log_probs: npt.ArrayLike, shape: tuple[int, ...], agents: IntArray) -> FloatArray:
    """exp(log p - highest log p of the agent), flat; the highest of every agent is 1."""
    array = _checks.numbers(log_probs, "log_probs")
    fits = array.ndim > 0 and _checks.common_shape(array.shape, shape) == shape
    must = f'"log_probs" must fit the shape of "labels", {shape}'
    require(fits, must, array.shape, "Pass one log-probability per response")
    array = np.broadcast_to(array, shape)
    if not array.max() < np.inf:
        wrong = np.isnan(array) | (array == np.inf)
        agent = agents[np.argwhere(wrong)[0, -1]]
        raise ValueError(
            f'every value of "log_probs" must be finite or -inf; agent {agent} has {array[wrong][0]} at '
            f"{_checks.place(wrong, 'position')}. Pass one constant for an agent whose log-probabilities are not known"
        )

    by_agent = array
    is_sorted = (agents[1:] >= agents[:-1]).all()
    if not is_sorted:
        by_agent = array[..., np.argsort(agents)]
    n_own = np.bincount(agents)
    starts = n_own.cumsum() - n_own
    highest = np.maximum.reduceat(by_agent, starts, axis=-1)
    if highest.min() == -np.inf:
        missing = highest == -np.inf
        agent = np.argwhere(missing)[:, -1].min()
        at = f" in {_checks.place(missing[..., agent], 'question')}" if missing.ndim > 1 else ""
        raise ValueError(
            f"every agent must have a response of non-zero probability; all of agent {agent}'s are -inf{at}. "
            "Pass one constant for an agent whose log-probabilities are not known"
        )
    relative = array - highest[..., agents]
    return np.asarray(np.exp(relative, out=relative).ravel())
