"""Owns the numbers of claims: from who supports them to support within and between models, and their entropy.

Everything here is NumPy: no text, no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coe_agents.types import Weights
from coe_agents.uncertainty import collaborative_entropy

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredClaims:
    """What was measured of the claims of one draft; each array has one entry for each claim.

    Attributes:
        agents: The names of the agents with a response other than the draft.
        shares: Shape `(n_claims, n_agents, 2)`: the mean share of each one's responses that support the claim, and that
            contradict it. The rest of 1 is silence.
        within: Support by the other responses of the draft's own model; NaN where it has none.
        between: Weighted mean of the other models' support; NaN without one of a weight above 0.
        coe: Collaborative Entropy of the agents' rows (support, rest), in nats; aleatoric + epistemic.
        aleatoric: Mean entropy of the rows, in nats, at most log 2.
        epistemic: Weighted divergence of the rows from their mean, in nats.
    """

    agents: tuple[str, ...]
    shares: FloatArray
    within: FloatArray
    between: FloatArray
    coe: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray


def measure_claims(
    judged: npt.ArrayLike, agents: Sequence[str], *, draft: int, weights: Weights | None = None
) -> MeasuredClaims:
    """Returns what the judgement of a draft's claims says.

    With s_r(c) the support of claim c by response r, agent i supports it by S_i(c), the mean over its responses but the
    draft itself. Then support within is S of the draft's own agent, support between the weighted mean of S over the
    others, and CoE that of the rows (S_i, 1 - S_i). Silence is no support, and no contradiction either.

    Args:
        judged: Shape `(n_claims, n_responses, 2)`, in [0, 1]: support and contradiction of each response.
        agents: Shape `(n_responses,)`: who gave each response.
        draft: Which of the responses is the draft.
        weights: Of the agents by name, at least 0; 1 where one is not named.

    Raises:
        ValueError: If the shapes differ, or a judgement is not in [0, 1].

    Two models say it, of which one is the draft's; the third is silent:

        >>> claims = measure_claims([[[1, 0], [1, 0], [0, 0]]], ["a", "b", "c"], draft=0)
        >>> claims.agents, claims.between.tolist(), claims.within.tolist(), claims.epistemic.round(3).tolist()
        (('b', 'c'), [0.5], [nan], [0.693])
    """
    rows = np.asarray(judged, dtype=np.float64)
    has_shape = rows.ndim == 3 and rows.shape[1:] == (len(agents), 2)
    are_shares = (rows >= 0.0) & (rows <= 1.0 + 1e-6)
    if not has_shape or not are_shares.all():
        raise ValueError(
            f'"judged" must be of shape (n_claims, {len(agents)}, 2) with shares in [0, 1]; got shape {rows.shape}. '
            "Return support and contradiction of each claim by each text"
        )

    # the draft is no evidence of itself
    evidence = dict[str, list[int]]()
    for place, agent in enumerate(agents):
        if place != draft:
            evidence.setdefault(agent, []).append(place)
    names = tuple(sorted(evidence))
    drafted_by = agents[draft]
    n_claims = len(rows)
    shares = np.zeros((n_claims, len(names), 2))
    for number, name in enumerate(names):
        of_agent = rows[:, evidence[name]]
        shares[:, number] = of_agent.mean(axis=1)
    shares = np.clip(shares, 0.0, 1.0)
    support = shares[..., 0]

    unknown = np.full(n_claims, np.nan)
    within = unknown
    if drafted_by in names:
        within = support[:, names.index(drafted_by)]

    weight_of = weights or {}
    weight = np.array([weight_of.get(name, 1.0) for name in names], dtype=np.float64)
    is_other = [name != drafted_by for name in names]
    weight_of_others = np.where(is_other, weight, 0.0)
    between = unknown
    if weight_of_others.sum() > 0.0:
        between = support @ weight_of_others / weight_of_others.sum()

    if not n_claims or not weight.sum() > 0.0:
        return MeasuredClaims(names, shares, within, between, unknown, unknown, unknown)
    distributions = np.stack([support, 1.0 - support], axis=-1)
    split = collaborative_entropy(distributions, weights=weight / weight.sum())
    return MeasuredClaims(
        names,
        shares,
        within,
        between,
        coe=np.asarray(split.total, dtype=np.float64),
        aleatoric=np.asarray(split.aleatoric, dtype=np.float64),
        epistemic=np.asarray(split.epistemic, dtype=np.float64),
    )
