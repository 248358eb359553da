"""Owns whether a calibration still holds: on new samples, and over labelled cases in their order, at any time.

Labelled cases are one JSON object a line for each answered question that was judged.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import numpy as np

from coe_agents._removed import refuses_removed
from coe_agents.checks import number, require, share
from coe_agents.clustering import Clusterer
from coe_agents.clustering.described import describe_clusterer, differing_options
from coe_agents.errors import SamplesError
from coe_agents.evaluation.calibration.calibrate import Judged, measurable_rows
from coe_agents.evaluation.calibration.risk_control import risk_bound, round_up
from coe_agents.evaluation.metrics.tallies import FloatArray, join_ties
from coe_agents.evaluation.samples.line import parse_object
from coe_agents.evaluation.scoring.scores import in_second_half
from coe_agents.evaluation.tables import RecordFile, read_records
from coe_agents.policy import CalibratedPolicy
from coe_agents.policy.calibrated import Calibration
from coe_agents.uncertainty.ties import TIE

_NEAR = 0.9
"""How alike a misspelt name is to the right one, by `difflib`."""
_FORM = '{"id": "...", "correct": true}, and "seen_probability" where not every answer is judged'


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """One answered question, and whether its answer was right.

    Attributes:
        correct: In [0, 1]; 1 for a right answer.
        seen_probability: The probability with which it was chosen to be judged, in (0, 1].
        time: When it was answered, as the file has it; None where not known.
    """

    id: str
    correct: float
    seen_probability: float = 1.0
    time: str | None = None


def read_cases(path: str | Path) -> Iterator[LabelledCase]:
    """Yields the labelled cases of a file, in the order of its lines.

    A line holds `id` and `correct`, which are required, and `seen_probability` and `time`; other fields are ignored. A
    SamplesError if a line is malformed, or an id occurs twice.
    """
    file = RecordFile(Path(path), "lines")
    ids = set()
    try:
        for number, line in read_records(file):
            place = file.place(number)
            case = _case(line, place)
            if case.id in ids:
                message = f"{place}: there is a case {case.id[:50]!r} already"
                raise SamplesError(message, hint="Each case counts once; omit the line")
            ids.add(case.id)
            yield case
    except OSError as error:
        raise SamplesError(f"{path} cannot be read: {error}", hint="Check the path") from error


def _case(raw: str | bytes, place: str) -> LabelledCase:
    try:
        record = parse_object(raw, form=_FORM, is_strict=True)
    except ValueError as error:
        raise SamplesError(f"{place}: {error}") from error

    identifier = record.get("id")
    if not isinstance(identifier, str):
        raise SamplesError(f'{place}: "id" must be a string', hint=f"Write every line as {_FORM}")

    time = record.get("time")
    if not (time is None or isinstance(time, str)):
        raise SamplesError(
            f'{place}: "time" must be a string or null', hint="Write it as in 2026-01-31T12:00:00Z"
        )

    if "seen_probability" not in record:
        misspelt = get_close_matches("seen_probability", record, n=1, cutoff=_NEAR)
        if misspelt:
            raise SamplesError(
                f'{place}: the field "{misspelt[0]}" is not read. Did you mean "seen_probability"?',
                hint="Without it the case counts as if every answer were judged",
            )

    correct = record.get("correct")
    if isinstance(correct, bool):
        correct = float(correct)
    where = f'{place}: "correct", if it is not true or false,'
    try:
        return LabelledCase(
            id=identifier,
            correct=share(correct, where, advice=f"Write {_FORM}"),
            seen_probability=number(
                record.get("seen_probability", 1.0),
                f'{place}: "seen_probability"',
                above=0,
                most=1,
                advice="Omit it where every answer is judged",
            ),
            time=time,
        )
    except (TypeError, ValueError) as error:
        raise SamplesError(str(error)) from error


Risk = Literal["kept", "broken", "open"]


@dataclass(frozen=True, slots=True)
class Drift:
    """What new samples say about a calibration.

    Attributes:
        n_questions: The new questions that could be measured as the policy needs it.
        n_unmeasurable: Those that could not, since an agent of the learned support is missing.
        ks_statistic: The largest distance between the two distribution functions of the uncertainty, in [0, 1].
        p_value: Of the two-sample Kolmogorov-Smirnov test; ties make it too high, so changes are detected too seldom.
        scores_changed: Whether `p_value` is below 0.05.
        coverage: The share of the new questions that the policy answers.
        n_wrong: Of the judged answers, shares of mixed labels added up and rounded up.
        risk_interval: One-sided 95 % Clopper-Pearson bounds of the new risk; None where no answer was judged.
        risk: "kept" if the upper bound is at most the stated risk, "broken" if the lower bound exceeds it, else "open".
        mismatches: How agents, responses, clusterer or criterion differ from the calibration.
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
    risk: Risk
    mismatches: tuple[str, ...]
    n_ties: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing found here contradicts the calibration."""
        return not self.scores_changed and self.risk != "broken" and not self.mismatches


@refuses_removed
def check_drift(
    policy: CalibratedPolicy,
    rows: Sequence[Judged],
    *,
    clusterer: str | Clusterer,
    correctness: str | None = None,
) -> Drift:
    """Compares new judged questions with what a policy was calibrated on.

    The rows are from `judge_samples`, with `every_cluster` where the score chooses the answer, with the policy's
    proposer and weights, by that clusterer, or one of that name, and, where given, by the criterion `correctness`.
    Where their verdicts are missing, only the uncertainties are compared.

    Raises:
        ValueError: No question can be measured as the policy needs it.
    """
    calibration = policy.calibration
    usable = measurable_rows(calibration, rows)
    if not usable:
        raise ValueError(
            '"rows" must hold questions with all agents of the policy; none has them. Sample them again'
        )
    uncertainties = [calibration.uncertainty(row.measurement) for row in usable]
    # joined, so that summation noise is no difference
    joined = join_ties([*calibration.uncertainties, *uncertainties])
    # here, since importing it takes as long as scoring a thousand questions
    from scipy.stats import ks_2samp

    test = ks_2samp(*np.split(joined, [len(calibration.uncertainties)]))

    n_answered = 0
    n_ties = 0
    verdicts = []
    for row, uncertainty in zip(usable, uncertainties, strict=True):
        n_ties += calibration.choose_cluster(row.measurement) is None
        # the same decision as in production; what it warns of is reported once, below
        threshold = calibration.threshold_of(row.measurement)
        if threshold is None or uncertainty > threshold + TIE:
            continue
        if calibration.can_answer(row.measurement):
            n_answered += 1
            verdict = row.verdict(calibration)
            if verdict is not None:
                verdicts.append(verdict)

    wrong = sum(1.0 - verdict for verdict in verdicts)
    interval: tuple[float, float] | None = None
    risk: Risk = "open"
    if verdicts:
        interval = _risk_interval(wrong, len(verdicts))
        risk = _compare_risk(interval, calibration.risk)

    return Drift(
        n_questions=len(usable),
        n_unmeasurable=len(rows) - len(usable),
        ks_statistic=float(test.statistic),
        p_value=float(test.pvalue),
        scores_changed=bool(test.pvalue < 0.05),
        coverage=n_answered / len(usable),
        n_judged=len(verdicts),
        n_wrong=round_up(wrong),
        risk_interval=interval,
        risk=risk,
        mismatches=_mismatches(policy, rows, clusterer, correctness),
        n_ties=n_ties,
    )


def _risk_interval(wrong: float, n: int) -> tuple[float, float]:
    """Returns the one-sided bounds; a sum of shares is rounded away from the bound that it is for."""
    from scipy.stats import beta

    low = 0.0
    at_least = int(wrong + 1e-9)
    if at_least:
        low = float(beta.ppf(0.05, at_least, n - at_least + 1))
    return low, risk_bound(round_up(wrong), n, confidence=0.95)


def _compare_risk(interval: tuple[float, float], stated: float) -> Risk:
    low, high = interval
    if low > stated:
        return "broken"
    return "kept" if high <= stated else "open"


def _mismatches(
    policy: CalibratedPolicy,
    rows: Sequence[Judged],
    clusterer: str | Clusterer,
    correctness: str | None,
) -> tuple[str, ...]:
    lines: dict[str, None] = {}
    for row in rows:
        lines |= dict.fromkeys(policy.mismatches(row.measurement))
    lines |= dict.fromkeys(judged_otherwise(policy.calibration, clusterer, correctness))
    return tuple(lines)


def are_own_questions(calibration: Calibration, rows: Sequence[Judged]) -> bool:
    """Returns whether the uncertainties of these rows are, one for one, those that a policy was calibrated on.

    No file names the questions of a calibration. Of a hundred others, all uncertainties will hardly be the same.
    """
    # a calibration leaves out what has no verdict
    judged = [row for row in rows if row.correct is not None] or rows
    measurable = measurable_rows(calibration, judged)
    if calibration.fit == "halves":
        measurable = [row for row in measurable if in_second_half(row.id)]

    uncertainties = sorted(calibration.uncertainty(row.measurement) for row in measurable)
    if not uncertainties or len(uncertainties) != len(calibration.uncertainties):
        return False
    return bool(np.allclose(uncertainties, calibration.uncertainties, rtol=0.0, atol=TIE))


def judged_otherwise(
    calibration: Calibration, clusterer: str | Clusterer, correctness: str | None
) -> list[str]:
    """Returns a line on each part by which answers are judged otherwise than a policy was calibrated.

    What the policy does not know is "", and no other one.
    """
    name, options = describe_clusterer(clusterer)
    lines = differing_options(options, calibration.clusterer_options)
    if calibration.clusterer not in ("", name):
        lines = [f"clusters come from {name}, and from {calibration.clusterer} when calibrated"]
    if correctness is not None and calibration.correctness not in ("", correctness):
        line = (
            f"answers are judged by {correctness}, and by {calibration.correctness} when calibrated"
        )
        lines.append(line)
    return lines


_BETS = np.array([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64])
"""The shares of its capital that a test may lose with one right answer; each is a test, and the tests are averaged.

A share k is the best one against answers of which r + k (1 - r) are wrong, where r is the stated risk.
"""

_LEAST = 1e-100
"""A probability of being seen is above it: sums of the inverse of a lower one may overflow."""


@dataclass(frozen=True, slots=True)
class RiskState:
    """What a monitor knows after the cases so far.

    Attributes:
        n_cases: How many labelled cases it has seen.
        evidence: The e-value now, at least 0. Under the stated risk its expected value is at most 1 at any time.
        strongest: The largest e-value so far. Its inverse, at most 1, is a p-value that is valid at any time.
        limit: 1 / `false_alarms`. The risk counts as broken from the first case at which `evidence` reaches it.
        broken_at: The number of that case, from 1; None while there was none. It is never taken back.
        since: The number of the case from which on one bet, on its own, has gained most: an estimate of when the change
            began, and no part of the test. As of `broken_at` where that is set; None before the first case.
        n_since: How many cases there were from `since` on, when it was last estimated.
        risk_since: The estimated risk in these, weighted by 1 / probability of being seen.
    """

    n_cases: int
    evidence: float
    strongest: float
    limit: float
    broken_at: int | None
    since: int | None
    n_since: int
    risk_since: float | None

    @property
    def broken(self) -> bool:
        """Whether the stated risk is broken: true with probability at most `false_alarms` where it never was."""
        return self.broken_at is not None


class RiskMonitor:
    r"""Tests at any time whether answers are wrong more often than stated, over labelled answered cases as they come.

    The null hypothesis is that each case, given all before it, is wrong with probability at most `risk`. The loss of
    case t is x_t in [0, 1], and p_t is the probability with which it was chosen to be labelled. A case that was not
    chosen does not enter. A bet against the risk r from case s on has the capital

        K_s(n) = \prod_{t=s}^{n} (1 + b (c / r) (x_t - r) / p_t),    0 < b < 1,

    where c <= p_t is the least probability. Each factor is at least 1 - b > 0, and its expected value, given the past,
    is at most 1: E[chosen / p_t (x_t - r)] = E[x_t] - r <= 0. This holds for weighted errors, of which a binomial bound
    would be wrong. The evidence is the average over seven bets b and over all starts s,

        E(n) = \sum_b 1/7 \sum_s w_s K_s(n),    w_s = log 2 / log(1 + s) - log 2 / log(2 + s),

    with K_s(n) = 1 for s > n. The weights w_s add up to 1 and fall hardly faster than 1 / s, so that a late change is
    found, too. E is a non-negative supermartingale that starts at 1, so that by Ville's inequality

        P(E(n) >= 1 / false_alarms for some n) <= false_alarms:

    the monitor may be read after every case, for years. As a bet is the same from all starts, their sum needs one
    number for each bet, S(n) = (S(n - 1) + w_n) (1 + ...), and nothing is pruned.

    What it does not say: evidence below the limit does not show that the risk is kept; calibration shows that. The
    cases must come in an order that does not depend on whether they are right: if people rule on the suspicious ones
    first, the claim does not hold for them.

    Args:
        risk: The stated risk r, in (0, 1).
        false_alarms: The highest acceptable probability that it ever counts as broken though it is kept, in (0, 1).
        min_seen: The least probability of being labelled that a case may have, in (0, 1]: the audit rate, or 1 where
            every answered case is labelled. It must be set before the cases are seen.

    Raises:
        TypeError: An argument is no number.
        ValueError: It is out of its range.

    Sources: Ville (1939); Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024);
    Shin, Ramdas and Rinaldo, "E-detectors" (2024).

    Example:
        >>> monitor = RiskMonitor(0.1)
        >>> for _ in range(200):
        ...     state = monitor.update(0.0)
        >>> for _ in range(7):
        ...     state = monitor.update(1.0)
        >>> state.broken_at, state.since
        (207, 201)
    """

    @refuses_removed
    def __init__(self, risk: float, *, false_alarms: float = 0.05, min_seen: float = 1.0) -> None:
        for name, value in (("risk", risk), ("false_alarms", false_alarms)):
            number(value, f'"{name}"', above=0, below=1, advice="Pass 0.05, for example")
        check_probability(min_seen, name="min_seen")
        self.risk = float(risk)
        self.false_alarms = float(false_alarms)
        self.min_seen = float(min_seen)

        self._bets = _BETS * self.min_seen / self.risk
        self._log_sums: FloatArray = np.full(len(_BETS), -np.inf)
        self._log_best: FloatArray = np.zeros(len(_BETS))
        # for each bet: the start that speaks most clearly, and the weighted losses and the weights since
        self._starts = np.zeros(len(_BETS), dtype=np.int64)
        self._counts: FloatArray = np.zeros((2, len(_BETS)))

        self._n_cases = 0
        self._strongest = 0.0
        self._broken_at: int | None = None
        self._change: tuple[int | None, int, float | None] = (None, 0, None)

    @property
    def state(self) -> RiskState:
        """What is known after the cases so far."""
        since, n_since, risk_since = self._change
        return RiskState(
            n_cases=self._n_cases,
            evidence=_exp(self._log_evidence()),
            strongest=_exp(self._strongest),
            limit=1.0 / self.false_alarms,
            broken_at=self._broken_at,
            since=since,
            n_since=n_since,
            risk_since=risk_since,
        )

    def update(self, loss: float, *, seen_probability: float = 1.0) -> RiskState:
        """Takes one labelled case, and returns what is known then.

        Args:
            loss: 1 for a wrong answer, 0 for a right one, or a share between them.
            seen_probability: The probability with which this case was chosen to be labelled, at least `min_seen`.

        Raises:
            TypeError: An argument is no number; the monitor is as before, also below.
            ValueError: It is out of its range.
        """
        share(loss, '"loss"', advice="Pass 1 for a wrong answer, and 0 for a right one")
        check_probability(seen_probability, name="seen_probability")
        is_known = seen_probability >= self.min_seen * (1.0 - 1e-9)
        must = f'"seen_probability" must be at least "min_seen", {self.min_seen:g}'
        require(is_known, must, seen_probability, "Create the monitor with the lowest audit rate")

        self._n_cases += 1
        n = self._n_cases
        weight = 1.0 / seen_probability

        # S(n) = (S(n - 1) + w_n) (1 + ...), as logarithms
        log_start = math.log(_mass_after(n - 1) - _mass_after(n))
        growth = np.log1p(self._bets * weight * (loss - self.risk))
        self._log_sums = np.logaddexp(self._log_sums, log_start) + growth

        # a bet that has gained nothing since its start had better start here
        begins = self._log_best <= 0.0
        self._starts[begins] = n
        self._counts[:, begins] = 0.0
        self._counts += [[weight * loss], [weight]]
        self._log_best = np.maximum(self._log_best, 0.0) + growth

        evidence = self._log_evidence()
        self._strongest = max(self._strongest, evidence)
        if self._broken_at is None:
            best = int(self._log_best.argmax())
            since = int(self._starts[best])
            wrong, total = self._counts[:, best].tolist()
            self._change = (since, n - since + 1, wrong / total)
            if evidence >= -math.log(self.false_alarms):
                self._broken_at = n
        return self.state

    def _log_evidence(self) -> float:
        log_started = float(np.logaddexp.reduce(self._log_sums)) - math.log(len(_BETS))
        return float(np.logaddexp(log_started, math.log(_mass_after(self._n_cases))))


def _mass_after(n: int) -> float:
    """The weight of all starts after case n: log 2 / log(2 + n)."""
    return math.log(2.0) / math.log(2.0 + n)


def check_probability(value: object, *, name: str) -> float:
    """Returns a probability of being seen; refuses anything else."""
    return number(
        value, f'"{name}"', above=_LEAST, most=1, advice="Pass the probability of being seen"
    )


def _exp(log_value: float) -> float:
    """The exponential of a logarithm; the largest double where it is more."""
    return math.exp(min(log_value, 709.0))
