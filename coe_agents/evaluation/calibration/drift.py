"""Owns the check whether a calibrated policy still fits: its uncertainties against new ones, and its risk."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coe_agents.evaluation.calibration.calibrate import Judged, measurable_rows
from coe_agents.evaluation.calibration.risk_control import risk_bound, round_up
from coe_agents.evaluation.metrics.tallies import join_ties
from coe_agents.policy import CalibratedPolicy
from coe_agents.uncertainty.ties import TIE


@dataclass(frozen=True, slots=True)
class Drift:
    """What new samples say about a calibration.

    Attributes:
        n_questions: The new questions that could be measured as the policy needs it.
        n_unmeasurable: Those that could not, since an agent of a learned gate is missing.
        ks_statistic: The largest distance between the two distribution functions of the uncertainty, in [0, 1].
        p_value: Of the two-sample Kolmogorov-Smirnov test; ties make it too high, so changes are detected too seldom.
        scores_changed: Whether `p_value` is below 0.05.
        coverage: The share of the new questions that the policy answers.
        n_wrong: Of the judged answers, shares of mixed labels added up and rounded up.
        risk_interval: One-sided 95 % Clopper-Pearson bounds of the new risk; None where no answer was judged.
        risk: "kept" if the upper bound is at most the stated risk, "broken" if the lower bound exceeds it, else "open".
        mismatches: How agents, responses, divergence, clusterer or criterion differ from the calibration.
    """

    n_questions: int
    n_unmeasurable: int
    ks_statistic: float
    p_value: float
    scores_changed: bool
    coverage: float
    n_judged: int
    n_wrong: int
    risk_interval: tuple[float, float] | None
    risk: Literal["kept", "broken", "open"]
    mismatches: tuple[str, ...]
    n_ties: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing found here contradicts the calibration."""
        return not self.scores_changed and self.risk != "broken" and not self.mismatches


def check_drift(
    policy: CalibratedPolicy, rows: Sequence[Judged], *, clusterer: str, correctness: str | None = None
) -> Drift:
    """Compares new judged questions with what a policy was calibrated on.

    The rows are from `judge_samples`, with `every_cluster` for a learned gate, with the policy's proposer and weights,
    by the clusterer of that name and, where given, by the criterion `correctness`. Where their verdicts are missing,
    only the uncertainties are compared.

    Raises:
        ValueError: No question can be measured as the policy needs it.
    """
    calibration = policy.calibration
    usable = measurable_rows(calibration, rows)
    if not usable:
        raise ValueError('"rows" must hold questions with all agents of the policy; none has them. Sample them again')
    uncertainties = [calibration.uncertainty(row.measurement) for row in usable]
    joined = join_ties([*calibration.uncertainties, *uncertainties])  # so that summation noise is no difference
    from scipy.stats import beta, ks_2samp  # here, since importing it takes as long as scoring a thousand questions

    test = ks_2samp(*np.split(joined, [len(calibration.uncertainties)]))
    # the same decision as in production; what it warns of is reported once, below
    thresholds = [calibration.threshold_of(row.measurement) for row in usable]
    answered = [
        row
        for row, uncertainty, threshold in zip(usable, uncertainties, thresholds, strict=True)
        if threshold is not None
        and uncertainty <= threshold + TIE
        and calibration.can_answer(row.measurement)
        and row.measurement.divergence == calibration.divergence
    ]
    verdicts = [verdict for row in answered if (verdict := row.verdict(calibration)) is not None]
    wrong = sum(1.0 - verdict for verdict in verdicts)
    n_wrong, at_least = round_up(wrong), int(wrong + 1e-9)
    interval: tuple[float, float] | None = None
    risk: Literal["kept", "broken", "open"] = "open"
    if verdicts:
        low = float(beta.ppf(0.05, at_least, len(verdicts) - at_least + 1)) if at_least else 0.0
        high = risk_bound(n_wrong, len(verdicts), confidence=0.95)
        interval = (low, high)
        risk = "broken" if low > calibration.risk else "kept" if high <= calibration.risk else "open"
    mismatches = dict.fromkeys(text for row in rows for text in policy.mismatches(row.measurement))
    for name in sorted({row.measurement.divergence for row in rows} - {calibration.divergence}):
        mismatches[f'the divergence is "{name}", and "{calibration.divergence}" when calibrated'] = None
    if clusterer != calibration.clusterer:
        mismatches[f"clusters come from {clusterer}, and from {calibration.clusterer} when calibrated"] = None
    if correctness not in (None, calibration.correctness):
        mismatches[f"answers are judged by {correctness}, and by {calibration.correctness} when calibrated"] = None
    return Drift(
        n_questions=len(usable),
        n_unmeasurable=len(rows) - len(usable),
        ks_statistic=float(test.statistic),
        p_value=float(test.pvalue),
        scores_changed=bool(test.pvalue < 0.05),
        coverage=len(answered) / len(usable),
        n_judged=len(verdicts),
        n_wrong=n_wrong,
        risk_interval=interval,
        risk=risk,
        mismatches=tuple(mismatches),
        n_ties=sum(calibration.choose_cluster(row.measurement) is None for row in usable),
    )
