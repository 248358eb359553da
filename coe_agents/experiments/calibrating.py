"""Owns `calibrate`: from samples to a policy that keeps a stated risk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from typing_extensions import TypeIs

from coe_agents.checks import at_field, flag
from coe_agents.clustering import Clusterer
from coe_agents.errors import NoThresholdError
from coe_agents.evaluation.calibration.calibrate import (
    Judged,
    check_score,
    check_weights_from,
    nearest,
)
from coe_agents.evaluation.calibration.calibrate import calibrate as calibrate_rows
from coe_agents.evaluation.calibration.risk_control import Shortfall
from coe_agents.evaluation.origin import Judging, Origin, ResolvedJudging
from coe_agents.evaluation.scoring.correctness import Criterion, on_inside
from coe_agents.experiments.blocking import check_arguments, with_signature
from coe_agents.experiments.judging import (
    JudgedSamples,
    JudgingArguments,
    SavedSamples,
    check_proposer,
    judge,
    open_samples,
)
from coe_agents.measurement.estimators import Estimator
from coe_agents.measurement.weighted_vote import CONFIDENCE_VOTE_SHARE, WeightsFrom
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import CalibratedPolicy
from coe_agents.policy.calibrated import Calibration, check_risk
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.config.schema import Config

TO_JUDGE = "response to judge"


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """A calibrated policy, which may have no threshold, with the rows that it was calibrated on."""

    policy: CalibratedPolicy
    rows: JudgedSamples

    @property
    def is_usable(self) -> bool:
        """Whether a threshold keeps the risk."""
        return any(group.threshold is not None for group in self.policy.calibration.groups)

    @property
    def shortfall(self) -> str:
        """How near the data are to a threshold, in words."""
        calibration = self.policy.calibration
        return _shortfall_in_words(nearest(calibration, self.rows), calibration)

    @property
    def notes(self) -> list[str]:
        """What is judged otherwise than recorded, and whether another criterion may suit the answers."""
        correctness = self.policy.calibration.correctness
        notes = [self.rows.judging.note(), on_inside(self.rows, correctness)]
        return [note for note in notes if note]


def calibrate_samples(
    samples: SavedSamples | Sequence[Judged],
    *,
    risk: float,
    confidence: float = 0.9,
    score: str | None = None,
    weights: Mapping[str, float] | WeightsFrom = "equal",
    proposer: str | None = None,
    halves: bool = False,
    clusterer: Clusterer | str | None = None,
    correctness: Criterion | str | None = None,
    config: "Config | str | Path | None" = None,
    weighting: Weighting = "auto",
    estimator: Estimator | None = None,
    progress: bool = True,
) -> CalibrationResult:
    """Returns the policy that answers the most questions at a stated risk of wrong answers.

    Its threshold is chosen on saved responses that are labelled, or that have references. What the policy must know of
    the group, the clusterer, the criterion and how the agents were asked, is what the samples recorded
    (`samples.origin`). The guarantee, and how weights are learned, are explained in
    `coe_agents.evaluation.calibration.calibrate.calibrate`.

    Args:
        samples: From `sample`, or files of samples, or the folder of a run; or the rows of `Samples.judge`.
        risk: Highest acceptable share of wrong answers among those given, in (0, 1).
        confidence: Probability that the risk is kept, in (0, 1).
        score: What is compared with the threshold: "vote_share", and "support" with a proposer; or another score of
            `score` that needs nothing but the responses; or an estimator of yours, as "package.module:name".
        weights: "equal", "agreement" or "learned", or the agents' weights by name.
        proposer: The agent whose first response is judged, in place of the group's answer.
        halves: Whether weights that are fitted are fitted on one half, and the threshold is chosen on the other.
        clusterer: As of `score`; of rows it is the name that the policy records.
        correctness: As of `score`; of rows it is the name that the policy records.
        config: As of `score`.
        weighting: As of `score`.
        estimator: Computes the score, where it is your own and its name is no "package.module:name".
        progress: As of `score`.

    Raises:
        NoThresholdError: No threshold keeps the risk; the message says how near to one the data are.
        ValueError: An argument is out of range, the arguments do not fit together, or no question has a verdict.

    Example:
        >>> import pandas
        >>> from coe_agents.evaluation import Samples
        >>> said = [(str(n), agent, "Paris") for n in range(30) for agent in ("a", "b")]
        >>> frame = pandas.DataFrame(said, columns=["id", "agent", "text"]).assign(references="Paris")
        >>> policy = calibrate(Samples.from_frame(frame), risk=0.1)
        >>> policy.calibration.n_answered, policy.calibration.clusterer
        (30, 'NormalizedMatch')
    """
    check_risk(risk, confidence)
    try:
        judged_by = check_score(score, proposer, estimator)
    except ValueError as error:
        raise at_field(error, "score") from None
    weights_from = _check_weights(weights, judged_by, halves=halves)

    judging = JudgingArguments(
        clusterer=clusterer, correctness=correctness, config=config, weighting=weighting
    )
    if isinstance(samples, JudgedSamples):
        rows = samples
    elif _are_judged(samples):
        rows = _named(samples, str(clusterer or ""), str(correctness or ""))
    else:
        is_weighed = judged_by == CONFIDENCE_VOTE_SHARE or weights_from != "equal"
        with open_samples(samples) as questions:
            rows = judge(
                questions,
                judging,
                every_cluster=is_weighed and proposer is None,
                proposer=proposer,
                weights=weights if isinstance(weights, Mapping) else None,
                score=judged_by,
                estimator=estimator,
                progress=progress,
            )
    _check_rows(rows, proposer, weights)
    compared_by, judged_right_by = _judged_by(rows)
    policy = calibrate_rows(
        rows,
        risk=risk,
        confidence=confidence,
        score=judged_by,
        halves=halves,
        proposer=proposer,
        clusterer=compared_by,
        correctness=judged_right_by,
        weights=weights,
        origin=rows.origin,
        estimator=estimator,
    )
    return CalibrationResult(policy, rows)


def _check_weights(
    weights: Mapping[str, float] | WeightsFrom, score: str, *, halves: bool
) -> WeightsFrom:
    """Returns where the weights come from; the field of an error is the argument at fault."""
    flag(halves, '"halves"')
    try:
        return check_weights_from(weights, score=score, halves=halves)
    except ValueError as error:
        raise at_field(error, "halves" if halves else "weights") from None


def _judged_by(rows: JudgedSamples) -> tuple[str | Clusterer, str]:
    """Returns the clusterer and the criterion that a policy records."""
    if rows.setup is None:
        return str(rows.judging.used.clusterer), rows.judging.used.correctness
    return rows.setup.clusterer, rows.setup.criterion.name


_Arguments = ParamSpec("_Arguments")


def _with_threshold(
    calibrates: Callable[_Arguments, CalibrationResult],
) -> Callable[_Arguments, CalibratedPolicy]:

    @wraps(calibrates)
    def calibrate(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> CalibratedPolicy:
        check_arguments("calibrate", calibrates, args, kwargs)
        result = calibrates(*args, **kwargs)
        if not result.is_usable:
            said = " ".join(result.policy.calibration.statements())
            raise NoThresholdError(said, hint=" ".join([result.shortfall, *result.notes]))
        return result.policy

    return with_signature(calibrate, "calibrate", returns=CalibratedPolicy)


calibrate = _with_threshold(calibrate_samples)


def _named(rows: Sequence[Judged], clusterer: str, correctness: str) -> JudgedSamples:
    """Returns rows that were judged before, under the names of what judged them."""
    judging = ResolvedJudging(Judging(clusterer, correctness), {})
    return JudgedSamples(rows, None, judging, Origin(), n_silent=0)


def _are_judged(samples: SavedSamples | Sequence[Judged]) -> TypeIs[Sequence[Judged]]:
    """Returns whether these are rows that were judged before."""
    return isinstance(samples, list | tuple) and isinstance(next(iter(samples), None), Judged)


def _check_rows(
    rows: JudgedSamples, proposer: str | None, weights: Mapping[str, float] | WeightsFrom
) -> None:
    names = {name for row in rows for name in row.measurement.agents}
    check_proposer(proposer, names)
    if isinstance(weights, Mapping):
        different = sorted(names ^ weights.keys())
        if different:
            message = f'"weights" must name the agents of the samples; only one of the two has "{different[0]:.80}"'
            raise at_field(ValueError(message), "weights")
    if not rows.n_judged:
        n_all = len(rows) + rows.n_silent
        counts = f"{n_all}, {rows.n_silent} of these without a {TO_JUDGE}"
        message = f"at least one question must have a verdict; got none of {counts}. Add references or labels"
        raise at_field(ValueError(message), "samples")


def _shortfall_in_words(near: Shortfall | None, calibration: Calibration) -> str:
    if near is None:
        return "No question has an answer that could be given."
    wanted = f"where {calibration.risk:.1%} is wanted"
    surest = f"the {near.n_surest} surest, {near.n_wrong} of them wrong,"
    named = surest
    if near.first is None:
        have = quantity(near.n_answerable, "question has", "questions have")
        start = (
            f"{have} an answer that could be given: too few for the search to begin. Of {surest} the risk is at most "
            f"{near.bound:.1%}, {wanted}."
        )
        named = "these,"
    else:
        start = (
            f"The search begins with the {near.first.n_answered} surest answers: {near.first.n_wrong} wrong, a risk of "
            f"at most {near.first.bound:.1%}, {wanted}."
        )
        if near.bound <= calibration.risk:
            start += (
                f" It ends there, though that of {surest} is at most {near.bound:.1%}: fewer, surer ones must pass "
                "first."
            )
            named = "these,"
    if near.n_more is None:
        return f"{start} If further ones err as often as {named} no number of them will do: raise the risk."
    # of halves, every second question chooses the threshold
    n_more = 2 * near.n_more if calibration.fit == "halves" else near.n_more
    more = quantity(n_more, "more labelled question")
    return (
        f"{start} If further ones err as rarely as {named} about {more} will do; or raise the risk. A run of more "
        "questions needs a new folder."
    )
