"""Owns learning when another round pays: from trajectories to a `StoppingRule`."""

from collections.abc import Sequence

import numpy as np

from coe_agents.evaluation.calibration.learned import fit_ridge
from coe_agents.evaluation.calibration.trajectories import SeenRound
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.policy import StoppingRule
from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD

PENALTY = 1.0
"""The ridge penalty on the coefficients of standardised features."""
CHANGE_PENALTY = 10.0
"""The ridge penalty on how these change with another round: a prior standard deviation of 0.32."""


def learn_stopping(
    rounds: Sequence[Sequence[SeenRound]],
    *,
    price: float = 0.01,
    divergence: str = "kl",
    thresholds: tuple[float, float] = (DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD),
) -> StoppingRule:
    """Learns when another round pays.

    Each round but the last of a question is a row: what is known after it, whether the leading answer is right, and
    whether it is after the next round. A logistic regression on the standardised features gives the first probability,
    with a ridge penalty of `PENALTY`; the second one has the same coefficients but for changes with a penalty of
    `CHANGE_PENALTY`, so that few questions do not make a gain of chance.

    Args:
        rounds: Of each question, all of its rounds; each as many, at least 2.
        price: What a round costs, as the share of questions that it must make right.
        divergence: Of the measured CoE.
        thresholds: The boundaries of the regimes: aleatoric, epistemic.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: If there are fewer than two right or two wrong answers, before or after a further round.
    """
    lengths = {len(each) for each in rounds}
    if len(lengths) != 1 or min(lengths) < 2:
        raise ValueError(
            f'"rounds" must hold questions with equally many rounds, at least 2; got {sorted(lengths) or "none"}. '
            "Leave out the others"
        )
    features = np.array([seen.features for each in rounds for seen in each[:-1]])
    now = np.array([seen.correct for each in rounds for seen in each[:-1]])
    after = np.array([seen.correct for each in rounds for seen in each[1:]])
    for right in (now, after):
        if (right > 0).sum() < 2 or (right < 1).sum() < 2:
            raise ValueError(
                "the rounds must have at least two right and two wrong leading answers; "
                f"got {right.sum():g} right of {right.size}. Add questions"
            )
    (now_slopes, now_intercept), (after_slopes, after_intercept) = _fit(features, now, after)
    return StoppingRule(
        now=now_slopes,
        now_intercept=now_intercept,
        after=after_slopes,
        after_intercept=after_intercept,
        price=price,
        n_rounds=lengths.pop(),
        n_questions=len(rounds),
        divergence=divergence,
        aleatoric_threshold=thresholds[0],
        epistemic_threshold=thresholds[1],
    )


def _fit(features: FloatArray, now: FloatArray, after: FloatArray) -> list[tuple[tuple[float, ...], float]]:
    """Returns the coefficients and the intercept of P(right now), and of P(right after).

    Both are one regression: what it finds for "after" is what it finds for "now", and a change. A change is scaled
    down by sqrt(PENALTY / CHANGE_PENALTY) before it is fitted, so that the one penalty is the higher one for it.
    """
    spread, centre = features.std(axis=0), features.mean(axis=0)
    scale = np.where(spread > 1e-9, spread, np.inf)  # what does not vary gets the coefficient 0
    standardised = (features - centre) / scale
    shrunk = np.sqrt(PENALTY / CHANGE_PENALTY)
    changes = np.hstack([np.ones((now.size, 1)), standardised]) * shrunk
    rows = np.vstack([np.hstack([standardised, np.zeros_like(changes)]), np.hstack([standardised, changes])])
    fitted, intercept = fit_ridge(rows, np.concatenate([now, after]), penalty=PENALTY)
    slopes, shift, change = np.split(fitted, [scale.size, scale.size + 1])
    found = []
    for own, at in ((slopes, intercept), (slopes + shrunk * change, intercept + shrunk * float(shift[0]))):
        plain = own / scale  # of the features as they are
        found.append((tuple(plain.tolist()), float(at - plain @ centre)))
    return found
