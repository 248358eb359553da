"""Owns how often a group is right under given weights of its agents, on judged questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coe_agents.evaluation.calibration.calibrate import Judged
from coe_agents.evaluation.metrics.bootstrap import Estimate, mean_with_interval
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.scoring.correctness import mean_verdict
from coe_agents.policy.learned_gates import distributions_of
from coe_agents.uncertainty.ties import shares_lead


def shares_right(rows: Sequence[Judged], weights: Mapping[str, float] | None = None) -> FloatArray:
    """Returns the share of each leading answer that is right under weights, shape `(n,)`, in [0, 1].

    Clusters that tie for the lead count by their mean; NaN where no verdict on them is known, or no agent of a weight
    above 0 responded. `rows` are those of `judge_samples(..., every_cluster=True)`; `weights` None: all equal.
    """
    found = []
    for row in rows:
        names = list(row.measurement.agents)
        own = np.array([1.0 if weights is None else weights.get(name, 0.0) for name in names])
        if not own.any():
            found.append(np.nan)
            continue
        leading = np.flatnonzero(shares_lead(own @ distributions_of(row.measurement, names)))
        right = mean_verdict([row.verdicts[cluster] for cluster in leading])
        found.append(np.nan if right is None else right)
    return np.array(found)


@dataclass(frozen=True, slots=True)
class TrustCheck:
    """What weights change, on the labelled questions.

    Attributes:
        n_labelled: How many questions have a verdict under both.
        equal: The accuracy of the group's answer with equal weights; an answer that ties counts by its share.
        weighted: The accuracy with the weights.
        difference: `weighted` - `equal`, with its paired 95 % interval.
        agents: The accuracy of each agent by itself.
    """

    n_labelled: int
    equal: float
    weighted: float
    difference: Estimate
    agents: Mapping[str, float]

    @property
    def best(self) -> str:
        """The agent that is right most often; of equals the first by name."""
        return min(self.agents, key=lambda name: (-self.agents[name], name))


def check_weights(
    rows: Sequence[Judged], weights: Mapping[str, float], *, n_resamples: int = 1000
) -> TrustCheck | None:
    """Compares the accuracy with `weights` to that with equal ones, on the labelled rows; None if there are none.

    The weights must not come from these labels. `rows` are as in `shares_right`.
    """
    equal, weighted = shares_right(rows), shares_right(rows, weights)
    known = ~np.isnan(equal + weighted)
    if not known.any():
        return None
    own = {name: shares_right(rows, {name: 1.0}) for name in weights}
    return TrustCheck(
        int(known.sum()),
        float(equal[known].mean()),
        float(weighted[known].mean()),
        mean_with_interval((weighted - equal)[known], n_resamples=n_resamples),
        {name: float(np.nanmean(right)) for name, right in own.items() if not np.isnan(right).all()},
    )
