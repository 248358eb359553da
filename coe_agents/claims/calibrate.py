"""Owns the choice of a `ClaimPolicy` from labelled claims, and the figures by which a support is judged."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number
from coe_agents.claims.labelled import JudgedClaims
from coe_agents.claims.policy import ClaimCalibration, ClaimPolicy
from coe_agents.evaluation.calibration.risk_control import last_passing, log_evidence, weighted_risk_bound
from coe_agents.evaluation.metrics.bootstrap import resamples, to_plain, with_interval
from coe_agents.evaluation.metrics.tallies import Ranking, area_under_roc
from coe_agents.uncertainty.ties import TIE

FloatArray = npt.NDArray[np.float64]
_FIRST = 0.1
"""The share of claims, those of most support, at which the tests begin."""
KEPT_SHARES = (0.25, 0.5, 0.75, 1.0)
"""The shares of claims at which the precision of the kept is shown."""


def calibrate_claims(
    judged: Sequence[JudgedClaims], *, risk: float, confidence: float = 0.9, support: str = "Overlap"
) -> ClaimPolicy | None:
    """Returns the policy that keeps the most claims at a stated share of wrong ones; None if no threshold keeps it.

    The risk of a threshold t on the support is the expected share of wrong claims among those that are kept, with the
    claims of all answers to a question together:

        R(t) = E[wrong kept claims of a question / kept claims of it],    0 where none is kept,

    the false discovery rate of Benjamini and Hochberg (1995). Questions are the independent units, not claims: those of
    one entity are one. The shares of the questions lie in [0, 1]; their mean is bounded from above by
    `coe_agents.evaluation.calibration.risk_control.weighted_risk_bound` (Waudby-Smith and Ramdas, 2024). Thresholds are
    tested one after the other, from the tenth of the claims with the most support on, in steps of a fiftieth, and the
    last before the first failure is chosen. Which are tested does not depend on labels, so that the risk is kept with
    `confidence` if it rises with the threshold (Angelopoulos et al., "Learn then test", 2021).

    The claims of all answers count; the gate gives only the draft of most support, whose claims are wrong less often.

    Args:
        judged: The labelled claims; an answer is one element.
        risk: In (0, 1).
        confidence: In (0, 1).
        support: The class of the support, which a gate compares with its own.

    Raises:
        ValueError: If a share is not in (0, 1), there are no claims, or nothing but one agent's.
    """
    for name, value in (("risk", risk), ("confidence", confidence)):
        number(value, f'"{name}"', above=0, below=1, advice="Pass 0.2, for example")
    claims = [each for each in judged if not np.isnan(each.between).any()]
    if not claims:
        raise ValueError('"judged" must hold claims that another agent could support; got none. Add agents or labels')
    uncertainty, wrong, question = (np.concatenate(part) for part in zip(*map(_of_answer, claims), strict=True))
    units = {name: place for place, name in enumerate(dict.fromkeys(each.entity for each in claims))}
    unit = np.array([units[name] for name in question])

    def losses(threshold: float) -> FloatArray:
        kept = uncertainty <= threshold + TIE
        n_kept = np.bincount(unit[kept], minlength=len(units))
        n_wrong = np.bincount(unit[kept], weights=wrong[kept], minlength=len(units))
        return np.divide(n_wrong, n_kept, out=np.zeros(len(units)), where=n_kept > 0)

    def passes(n: int) -> bool:
        return log_evidence(losses(float(rising[n - 1])), alike, risk) >= -math.log(1.0 - confidence) - 1e-9

    alike = np.ones(len(units))
    rising = np.sort(uncertainty)
    start = max(1, round(_FIRST * rising.size))
    found = last_passing(rising, start, passes)
    if found is None:
        return None
    threshold, n_kept = found
    is_kept = uncertainty <= threshold + TIE
    calibration = ClaimCalibration(
        risk=risk,
        confidence=confidence,
        bound=min(risk, weighted_risk_bound(losses(threshold), alike, confidence=confidence)),
        n_claims=int(rising.size),
        n_questions=len(units),
        n_kept=n_kept,
        n_wrong=int(wrong[is_kept].sum()),
        n_answers=len(claims),
        n_given=sum(bool((1.0 - each.between <= threshold + TIE).any()) for each in claims),
        support=support,
    )
    return ClaimPolicy(max(0.0, 1.0 - threshold), None, calibration)


def _of_answer(claims: JudgedClaims) -> tuple[FloatArray, FloatArray, list[str]]:
    return 1.0 - claims.between, 1.0 - claims.right.astype(np.float64), [claims.entity] * claims.right.size


def claim_figures(judged: Sequence[JudgedClaims], *, n_resamples: int = 1000) -> dict[str, Any]:
    """Returns how well support between models tells claims that are not supported from others, agent by agent.

    Returns:
        `{"agents": {name: {...}}}`: "n_claims" with a label, "n_answers" and "n_wrong" among them; "auroc" of "this
        claim is wrong" by 1 - support, and "auroc_within" by the agent's own samples (None without), each as [value,
        low, high] with a 95 % bootstrap interval over entities; and "precision": the share of right claims among the
        kept, by the share of claims that is kept, ties in part.
    """
    of_agent: dict[str, list[JudgedClaims]] = {}
    for each in judged:
        of_agent.setdefault(each.agent, []).append(each)
    return {"agents": {name: _figures(of, n_resamples) for name, of in sorted(of_agent.items())}}


def _figures(claims: Sequence[JudgedClaims], n_resamples: int) -> dict[str, Any]:
    right = np.concatenate([each.right for each in claims])
    entities = {name: place for place, name in enumerate(dict.fromkeys(each.entity for each in claims))}
    entity = np.concatenate([np.full(each.right.size, entities[each.entity]) for each in claims])
    between = 1.0 - np.concatenate([each.between for each in claims])
    within = 1.0 - np.concatenate([each.within for each in claims])
    return {
        "n_claims": int(right.size),
        "n_answers": len(claims),
        "n_wrong": int((~right).sum()),
        "auroc": _auroc(right, between, entity, n_resamples),
        "auroc_within": None if np.isnan(within).any() else _auroc(right, within, entity, n_resamples),
        "precision": {} if np.isnan(between).any() else _precision(right, between),
    }


def _auroc(
    right: npt.NDArray[np.bool_], uncertainty: FloatArray, entity: npt.NDArray[np.int_], n_resamples: int
) -> list[float | None]:
    if np.isnan(uncertainty).any():
        return [None, None, None]
    ranking = Ranking(right, uncertainty)
    blocks = resamples(int(entity.max()) + 1, n_resamples=n_resamples)
    drawn = [area_under_roc(ranking.tally(counts[:, entity])) for counts in blocks]
    return to_plain(with_interval(float(area_under_roc(ranking.tally())[0]), np.concatenate(drawn)))


def _precision(right: npt.NDArray[np.bool_], uncertainty: FloatArray) -> Mapping[str, float]:
    from coe_agents.evaluation.metrics import rejection_accuracy

    shares = {f"{share:g}": share for share in KEPT_SHARES}
    return {
        name: rejection_accuracy(correct=right, uncertainty=uncertainty, retention=share)
        for name, share in shares.items()
    }
