"""Owns the check of what an entailment model returns: one distribution over the labels for each pair."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering.protocols import ENTAILMENT_LABELS, EntailmentModel


def checked_probabilities(returned: Any, *, n_pairs: int, model: EntailmentModel) -> NDArray[np.float64]:
    """Returns the rows as doubles, shape `(n_pairs, 3)`.

    Raises:
        ValueError: `returned`, the result of `model`, is anything else.
    """
    name = type(model).__name__
    try:
        probabilities = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'"predict" must return an array of numbers; {name} returned {type(returned).__name__}. '
            "Return a float array on the CPU"
        ) from error
    order = ", ".join(ENTAILMENT_LABELS)
    if probabilities.shape != (n_pairs, len(ENTAILMENT_LABELS)):
        raise ValueError(
            f'"predict" must return shape {(n_pairs, len(ENTAILMENT_LABELS))} for {n_pairs} pairs; '
            f"{name} returned {probabilities.shape}. Return one row per pair: {order}"
        )
    improper = ~np.isfinite(probabilities).all(axis=1) | (probabilities < 0).any(axis=1)
    improper |= ~(np.abs(probabilities.sum(axis=1, where=np.isfinite(probabilities)) - 1) <= 1e-3)
    if improper.any():
        row = int(np.argmax(improper))
        raise ValueError(
            f'every row that "predict" returns must hold probabilities that sum to 1; row {row} of {name} is '
            f"{probabilities[row].tolist()}. Apply a softmax over {order}"
        )
    return probabilities
