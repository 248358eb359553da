"""Owns learning whose support of a proposal counts how much; scikit-learn fits, NumPy applies."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coe_agents._plurals import quantity
from coe_agents.evaluation.calibration.learned import fit_ridge
from coe_agents.policy import Measurement
from coe_agents.policy.support_gate import SupportGate, support_features

SUPPORT_PENALTY = 1.0
"""The ridge penalty on all slopes. Between 0.1 and 10 the AUROC on real tool calls differs by less than 0.002."""


def fit_support(
    measurements: Sequence[Measurement],
    correct: npt.ArrayLike,
    *,
    proposer: str,
    penalty: float = SUPPORT_PENALTY,
) -> SupportGate:
    """Learns a logistic regression of "the first response of `proposer` is wrong" from what the others propose.

    Where models share the urge to act, plain support counts their agreement on a call in full. This regression sees for
    each other agent whether it proposes the same and whether it calls nothing, and learns who of them is worth
    following.

    Args:
        measurements: Of the calibration questions; those that lack one of the agents are left out.
        correct: Shape `(n,)`: the share of each proposal that is right, in [0, 1].
        proposer: The agent whose proposals are judged.
        penalty: The ridge penalty: `penalty` / 2 times the squared slopes is added to the negative log-likelihood.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: There is no other agent, or fewer than two right or two wrong proposals to questions that have all
            agents.
    """
    agents = {name for measurement in measurements for name in measurement.agents}
    others = tuple(sorted(agents - {proposer}))
    if not others or proposer not in agents:
        raise ValueError(
            f'"measurements" must have "{proposer}" and another agent; got {", ".join(sorted(agents)) or "none"}'
        )
    usable = [
        (support_features(measurement, proposer, others), 1.0 - right)
        for measurement, right in zip(measurements, np.asarray(correct, dtype=np.float64).tolist(), strict=True)
        if agents <= measurement.agents.keys()
    ]
    wrong = np.array([share for _, share in usable])
    if (wrong > 0.0).sum() < 2 or (wrong < 1.0).sum() < 2:
        raise ValueError(
            f'there must be at least two right and two wrong proposals of "{proposer}" beside those of the '
            f"{quantity(len(others), 'other')}; got {wrong.size}, {wrong.sum():g} of them wrong. Add questions"
        )
    slopes, intercept = fit_ridge(np.array([features for features, _ in usable]), wrong, penalty=penalty)
    same, nothing, (rival, tool, calls_nothing) = np.split(slopes, [len(others), 2 * len(others)])
    return SupportGate(
        proposer,
        others,
        same=tuple(same.tolist()),
        nothing=tuple(nothing.tolist()),
        rival=float(rival),
        tool=float(tool),
        calls_nothing=float(calls_nothing),
        intercept=intercept,
    )
