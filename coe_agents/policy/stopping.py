"""Owns `StoppingPolicy`: another round only where a learned rule expects that it pays."""

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from coe_agents._files import write
from coe_agents.checks import are_finite, is_finite
from coe_agents.policy.base import (
    Decision,
    Policy,
    RegimeThresholds,
    StagedPolicy,
    TunablePolicy,
    check_threshold,
    without_tie,
)
from coe_agents.policy.gate import to_probability
from coe_agents.policy.measurement import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Measurement,
)
from coe_agents.policy.saved import load_saved, with_tuples
from coe_agents.types import Regime

STOPPING_FEATURES = ("round", "aleatoric", "epistemic", "fall", "conformity", "conflict", "ambiguous", "unknown")
"""What a rule reads after a round: see `stopping_features`."""
_FORMAT = "coe-agents stopping rule 1"
_REGIME_THRESHOLDS = ("aleatoric_threshold", "epistemic_threshold")


def stopping_features(
    *,
    round: int,
    aleatoric: float,
    epistemic: float,
    former_epistemic: float | None,
    conformity: float | None,
    regime: Regime,
) -> np.ndarray:
    """Returns what a rule reads after a round.

    Args:
        round: The round, from 0.
        aleatoric: After it, in nats.
        epistemic: After it, in the unit of the divergence.
        former_epistemic: The same after the round before; None in the first round.
        conformity: The share of agents that changed to the leading answer in a debate; None without a debate.
        regime: After it.

    Returns:
        Shape `(8,)`, in the order of `STOPPING_FEATURES`: the round, U_A, U_E, how much U_E fell since the round before
        (below 0 where it rose, 0 in the first round), the conformity (0 without a debate), and 1 for the regime in
        which the group is, "consensus" having none.

    >>> after = dict(aleatoric=0.4, epistemic=0.25, conformity=None, regime="consensus")
    >>> stopping_features(round=1, former_epistemic=0.5, **after)[3]  # U_E fell by half
    np.float64(0.25)
    """
    fall = 0.0 if former_epistemic is None else former_epistemic - epistemic
    regimes = (float(regime == name) for name in STOPPING_FEATURES[-3:])
    return np.array([round, aleatoric, epistemic, fall, conformity or 0.0, *regimes], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """Two logistic regressions: is the leading answer right now, and will it be right after another round?

    With x the features after a round:

        P(right now)   = 1 / (1 + exp(-(now_intercept + sum_j now_j x_j)))
        P(right after) = 1 / (1 + exp(-(after_intercept + sum_j after_j x_j)))
        gain           = P(right after) - P(right now)

    A round pays where the gain exceeds its price. The rule looks one round ahead.

    The methods take the features that `stopping_features` returns, shape `(8,)`.

    Attributes:
        now: Coefficients of P(right now), one for each of `STOPPING_FEATURES`.
        now_intercept: In log-odds.
        after: Coefficients of P(right after).
        after_intercept: In log-odds.
        price: What a round costs, as the share of questions that it must make right; at least 0.
        n_rounds: How many rounds each question had on which it was learned, at least 2. Later rounds count as the last
            one after which another was seen.
        n_questions: How many questions it was learned on.
        divergence: Of the measured CoE.
        aleatoric_threshold: The boundary of the regimes, in nats.
        epistemic_threshold: The same.

    Raises:
        ValueError: If a number is not finite or out of range, or there are not as many coefficients as features.
    """

    now: tuple[float, ...]
    now_intercept: float
    after: tuple[float, ...]
    after_intercept: float
    price: float
    n_rounds: int
    n_questions: int
    divergence: str = "kl"
    aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD
    epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD

    def __post_init__(self) -> None:
        for name in ("now", "after"):
            value = getattr(self, name)
            if not are_finite(value) or len(value) != len(STOPPING_FEATURES):
                raise ValueError(
                    f'"{name}" of a stopping rule must hold {len(STOPPING_FEATURES)} finite numbers; got others. '
                    "Learn it again"
                )
        if not is_finite(self.now_intercept) or not is_finite(self.after_intercept):
            raise ValueError("the intercepts of a stopping rule must be finite numbers; got others. Learn it again")
        if not is_finite(self.price) or self.price < 0:
            raise ValueError(
                f'"price" of a stopping rule must be a finite number of at least 0; got {self.price!r:.40}. '
                "0.01 asks a round to make one more question in 100 right"
            )
        for name, least in (("n_rounds", 2), ("n_questions", 1)):
            value = getattr(self, name)
            if not is_finite(value) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f'"{name}" of a stopping rule must be an integer of at least {least}; got {value!r:.40}. '
                    "Learn it again"
                )
        if not isinstance(self.divergence, str):
            raise ValueError(
                f'"divergence" of a stopping rule must be a name; got {self.divergence!r:.40}. Learn it again'
            )
        for name in _REGIME_THRESHOLDS:
            if check_threshold(getattr(self, name), where=f'"{name}" of a stopping rule') == math.inf:
                raise ValueError(f'"{name}" of a stopping rule must be finite; got inf. Learn it again')

    def chances(self, features: np.ndarray) -> tuple[float, float]:
        """Returns P(right now) and P(right after another round), each in [0, 1]."""
        read = np.concatenate([[min(float(features[0]), self.n_rounds - 2.0)], features[1:]])
        return (
            to_probability(self.now_intercept + float(np.array(self.now) @ read)),
            to_probability(self.after_intercept + float(np.array(self.after) @ read)),
        )

    def pays(self, features: np.ndarray) -> bool:
        """Returns whether the gain of another round exceeds its price."""
        now, after = self.chances(features)
        return after - now > self.price

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else.
        """
        hint = '"coe-agents learn-stopping RUN --out FILE" writes one'
        return load_saved(path, cls._from_json, what="stopping rule", formats=(_FORMAT,), hint=hint)

    @classmethod
    def _from_json(cls, record: dict[str, Any]) -> Self:
        del record["format"]
        if record.pop("features") != list(STOPPING_FEATURES):
            raise ValueError('"features" are not those of this version')
        return cls(**with_tuples(record))

    def save(self, path: str | Path) -> None:
        """Writes the rule as JSON, in one step: a graph may read the file at any time."""
        record = {"format": _FORMAT, "features": STOPPING_FEATURES, **asdict(self)}
        write(Path(path), f"{json.dumps(record, indent=1)}\n".encode())


class StoppingPolicy:
    """Asks another round where a learned rule expects it to pay, and else leaves the decision to another policy.

    The rule was learned from whole trajectories (`coe-agents learn-stopping`). Where it stops, and in the last round,
    `then` decides; an "another_round" of `then` becomes "abstain", since the rule has decided that. The rule reads the
    regimes at its own thresholds. It never asks another round where CoE was measured with another divergence.

    Args:
        rule: From `StoppingRule.load`, or `coe_agents.evaluation.calibration.learn_stopping`.
        then: Decides once no further round is asked.

    Raises:
        ValueError: If `then` asks agents in stages, or has other boundaries of the regimes than the rule.

    Example:
        >>> from coe_agents.policy import ThresholdPolicy
        >>> zeros = (0.0,) * len(STOPPING_FEATURES)
        >>> rule = StoppingRule(
        ...     now=zeros, now_intercept=0.0, after=zeros, after_intercept=1.0, price=0.01, n_rounds=3, n_questions=100
        ... )
        >>> StoppingPolicy(rule, ThresholdPolicy(0.6))
        StoppingPolicy(price=0.01, then=ThresholdPolicy(0.6, otherwise='abstain'))
    """

    def __init__(self, rule: StoppingRule, then: Policy) -> None:
        if isinstance(then, StagedPolicy):
            raise ValueError(
                f'"then" of StoppingPolicy must not ask in stages; got {type(then).__name__}. Pass a ThresholdPolicy'
            )
        if isinstance(then, RegimeThresholds):
            for name in _REGIME_THRESHOLDS:
                own, wanted = getattr(then, name), getattr(rule, name)
                if own != wanted:
                    raise ValueError(
                        f'"{name}" of "then" must be that of the rule, {wanted:g}; got {own:g}. '
                        "Learn the rule from a run with the same thresholds"
                    )
        self.rule, self.then = rule, then
        self.aleatoric_threshold, self.epistemic_threshold = rule.aleatoric_threshold, rule.epistemic_threshold

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "another_round" where it pays, or what `then` decides.

        Warns:
            UserWarning: CoE was measured with another divergence than the rule's.
        """
        if round + 1 < max_rounds and self._applies_to(measurement):
            features = _features_of(measurement, round)
            if self.rule.pays(features):
                now, after = self.rule.chances(features)
                return Decision(
                    "another_round",
                    None,
                    f"another round is expected to be right with {after:.3f} instead of {now:.3f}, which exceeds its "
                    f"price of {self.rule.price:g}",
                )
        decision = without_tie(
            self.then.decide(measurement, round=round, max_rounds=max_rounds), measurement, self.then
        )
        if decision.action != "another_round" or round + 1 >= max_rounds:
            return decision
        ends = "another round is not expected to pay"
        return Decision("abstain", None, f"{decision.reason}; {ends}" if decision.reason else ends)

    def _applies_to(self, measurement: Measurement) -> bool:
        if measurement.divergence == self.rule.divergence:
            return True
        warnings.warn(
            f'the stopping rule was learned with the divergence "{self.rule.divergence}", and is not used with '
            f'"{measurement.divergence}"',
            stacklevel=3,
        )
        return False

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Those of `then` but the boundaries of the regimes, which belong to the rule."""
        own = self.then.thresholds if isinstance(self.then, TunablePolicy) else ()
        return tuple(name for name in own if name not in _REGIME_THRESHOLDS)

    def with_thresholds(self, thresholds: Mapping[str, float]) -> Self:
        """Returns the same policy with other values of some of its `thresholds`."""
        then: Any = self.then
        return type(self)(self.rule, then.with_thresholds(thresholds)) if thresholds else self

    def __repr__(self) -> str:
        return f"StoppingPolicy(price={self.rule.price:g}, then={self.then!r})"


def _features_of(measurement: Measurement, round: int) -> np.ndarray:
    return stopping_features(
        round=round,
        aleatoric=measurement.aleatoric,
        epistemic=measurement.epistemic,
        former_epistemic=measurement.history[-1]["epistemic"] if measurement.history else None,
        conformity=measurement.conformity,
        regime=measurement.regime,
    )
