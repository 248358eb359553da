"""Owns the threshold that follows the risk: adaptive conformal risk control."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coe_agents.checks import is_number
from coe_agents.evaluation.calibration.monitor import check_probability
from coe_agents.policy import CalibratedPolicy


class AdaptiveThreshold:
    r"""A threshold that falls after wrong answers and rises after right ones, so that the risk returns to its target.

    After each labelled answered case with the loss x_t in [0, 1] and the probability p_t of being labelled,

        theta_{t+1} = clip(theta_t - step (x_t - risk) / p_t, low, high).

    This is a subgradient step on (x_t - risk) (theta - u_t)_+ at the uncertainty u_t <= theta_t of an answered case.
    The guarantee holds for every sequence of cases, drifting or adversarial, with no assumption at all: since the steps
    telescope, with the weights W_n = \sum 1 / p_t and with L_n >= 0, the sum of what clipping at `low` added,

        \sum (x_t - risk) / p_t <= (theta_1 - theta_{n+1} + L_n) / step,

    so that the weighted mean loss is at most `risk` + (theta_1 - theta_{n+1} + L_n) / (step W_n): `mean_loss_bound`.
    Without clipping at `low`, where L_n = 0, it tends to the risk, or below it where `high` clips.

    Limits: it is a statement about the average over the labelled cases so far, not about the next answer, and with
    audits it is about the weighted average. A large step follows a drift fast and makes the coverage fluctuate; a small
    one does the opposite. Where even the most certain answers are wrong more often than the risk allows, the threshold
    stays at `low`, and the bound grows past the risk: abstain then. Below every uncertainty nothing is answered,
    nothing is learned, and it stays there; so choose a `low` that still answers something, or calibrate again.

    Args:
        risk: The target, in (0, 1).
        step: How far one case moves the threshold, in the unit of the uncertainty, above 0.
        start: The first threshold, in [low, high], such as that of a calibrated policy.
        low: The least threshold, at least 0.
        high: The greatest threshold, such as the greatest uncertainty that was seen in calibration.

    Raises:
        ValueError: An argument is out of its range.

    Sources: Gibbs and Candes, "Adaptive conformal inference under distribution shift" (2021); Feldman et al.,
    "Achieving risk control in online learning settings" (2023); Angelopoulos et al., "Conformal risk control" (2024).

    Example:
        >>> adaptive = AdaptiveThreshold(0.1, step=0.1, start=0.5, high=1.0)
        >>> round(adaptive.update(1.0), 3), round(adaptive.update(0.0), 3)  # one wrong answer weighs nine right ones
        (0.41, 0.42)
    """

    def __init__(self, risk: float, *, step: float, start: float, low: float = 0.0, high: float) -> None:
        if not (is_number(risk) and 0.0 < risk < 1.0):
            raise ValueError(f'"risk" must be above 0 and below 1; got {risk!r}. Pass 0.1, for example')
        if not (is_number(step) and 0.0 < step < float("inf")):
            raise ValueError(f'"step" must be above 0 and finite; got {step!r}. Pass a hundredth of the range')
        bounds = (low, start, high)
        if not (all(map(is_number, bounds)) and 0.0 <= low <= start <= high < float("inf") and low < high):
            raise ValueError(
                f'"low", "start" and "high" must ascend from at least 0; got {low!r}, {start!r}, {high!r}. '
                "Pass the threshold of the calibrated policy as start"
            )
        self.risk, self.step, self.low, self.high = float(risk), float(step), float(low), float(high)
        self.start = self.threshold = float(start)
        self._n_cases = 0
        self._weight = self._lifted = 0.0

    @property
    def n_cases(self) -> int:
        """How many labelled cases it has seen."""
        return self._n_cases

    @property
    def mean_loss_bound(self) -> float:
        """What the weighted mean loss so far is at most, whatever the cases were, at most 1; 1 before the first."""
        if not self._weight:
            return 1.0
        return min(1.0, self.risk + (self.start - self.threshold + self._lifted) / (self.step * self._weight))

    def update(self, loss: float, *, seen_probability: float = 1.0) -> float:
        """Takes one labelled case that was answered, and returns the threshold for the next.

        Args:
            loss: 1 for a wrong answer, 0 for a right one, or a share between them.
            seen_probability: The probability with which this case was chosen to be labelled.

        Raises:
            ValueError: An argument is out of its range.
        """
        if not (is_number(loss) and 0.0 <= loss <= 1.0):
            raise ValueError(
                f'"loss" must be in [0, 1]; got {loss!r}. Pass 1 for a wrong answer, and 0 for a right one'
            )
        check_probability(seen_probability, name="seen_probability")
        moved = self.threshold - self.step * (loss - self.risk) / seen_probability
        self._n_cases += 1
        self._weight += 1.0 / seen_probability
        self._lifted += max(0.0, self.low - moved)
        self.threshold = min(self.high, max(self.low, moved))
        return self.threshold

    def apply(self, policy: CalibratedPolicy) -> CalibratedPolicy:
        """Returns the policy with the present threshold; its other figures are those of the calibration."""
        adapted = replace(policy.calibration, threshold=self.threshold)
        return CalibratedPolicy(adapted, otherwise=policy.otherwise)

    def to_dict(self) -> dict[str, Any]:
        """Returns the threshold as JSON has it, from which `from_dict` continues."""
        names = ("risk", "step", "start", "low", "high", "threshold")
        own = {name: getattr(self, name) for name in names}
        return {**own, "n_cases": self._n_cases, "weight": self._weight, "lifted": self._lifted}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "AdaptiveThreshold":
        """Returns the threshold that `to_dict` saved.

        Raises:
            ValueError: The data are not from `to_dict`.
        """
        try:
            found = cls(data["risk"], step=data["step"], start=data["start"], low=data["low"], high=data["high"])
            counts = tuple(data[name] for name in ("n_cases", "weight", "lifted"))
            threshold = data["threshold"]
        except (KeyError, TypeError) as error:
            raise ValueError(f'"data" must be from "to_dict"; {error!r} is wrong. Pass what it returned') from error
        is_possible = is_number(threshold) and found.low <= threshold <= found.high
        if not (is_possible and all(is_number(count) and 0.0 <= count < float("inf") for count in counts)):
            raise ValueError(
                f'"data" must hold a threshold from low to high, and counts of at least 0; got {threshold!r:.40}, '
                f'{counts!r:.80}. Pass what "to_dict" returned'
            )
        found.threshold = threshold
        found._n_cases, found._weight, found._lifted = counts
        return found
