"""Owns how much each agent counts, each response within its agent, and which text of a cluster stands for it."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from coe_agents.types import Response

Weighting = Literal["auto", "frequency", "probability"]


def weighed_agents(
    responses: Sequence[Response], weights: Mapping[str, float] | None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns the agents' names by first appearance, the place of each response's agent there, and their weights.

    Raises:
        ValueError: If all weights are 0.
    """
    places: dict[str, int] = {}
    agents = np.array([places.setdefault(response["agent"], len(places)) for response in responses])
    names = list(places)
    given = np.array([1.0 if weights is None else weights[name] for name in names])
    if not given.sum() > 0:
        raise ValueError(
            f'"weights" must leave an agent with a weight above 0; all of {", ".join(names)} have 0. Raise one of them'
        )
    return names, agents, given / given.sum()


def log_probabilities(responses: Sequence[Response], weighting: Weighting) -> tuple[np.ndarray, dict[str, bool]]:
    """Returns length-normalised log-probabilities, 0 for each response of an agent that counts by frequency.

    Also returns which agents count by probability.

    Raises:
        ValueError: If "probability" is asked for and an agent lacks log-probabilities.
    """
    normalized = [
        None if response["logprob"] is None or not response["n_tokens"] else response["logprob"] / response["n_tokens"]
        for response in responses
    ]
    complete = {response["agent"]: True for response in responses}
    for response, value in zip(responses, normalized, strict=True):
        complete[response["agent"]] &= value is not None
    if weighting == "probability" and not all(complete.values()):
        lacking = ", ".join(name for name, known in complete.items() if not known)
        raise ValueError(
            f'"probability" weighting needs a log-probability for every response; {lacking} lacks some. '
            'Use "auto" or "frequency"'
        )
    used = {name: known and weighting != "frequency" for name, known in complete.items()}
    return np.array(
        [
            value if used[r["agent"]] and value is not None else 0.0
            for r, value in zip(responses, normalized, strict=True)
        ]
    ), used


def shares(log_probs: np.ndarray, agents: np.ndarray) -> np.ndarray:
    """Returns each response's part of its agent's distribution; an agent's parts sum to 1."""
    top = np.full(agents.max() + 1, -np.inf)
    np.maximum.at(top, agents, log_probs)
    unnormalized = np.exp(log_probs - top[agents])
    return np.asarray(unnormalized / np.bincount(agents, unnormalized)[agents])


def most_probable(texts: Sequence[str | None], response_shares: np.ndarray) -> str:
    """Returns the text with the largest share of the ensemble mean, its repetitions together; the first on a tie."""
    total: dict[str, float] = {}
    for text, share in zip(texts, response_shares.tolist(), strict=True):
        if text is not None:
            total[text.strip()] = total.get(text.strip(), 0.0) + share
    return max(total, key=lambda text: total[text])
