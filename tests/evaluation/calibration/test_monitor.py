import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.evaluation import RiskMonitor
from coe_agents.evaluation.calibration.drift import _BETS

LOSSES = st.lists(st.sampled_from([0.0, 0.3, 1.0]), max_size=30)


def run(monitor, losses, **options):
    for loss in losses:
        monitor.update(loss, **options)
    return monitor.state


def sum_over_starts(losses, probabilities, *, risk, least):
    n, total = len(losses), 0.0
    for bet in _BETS:
        factors = [
            1.0 + bet * least / risk * (x - risk) / p
            for x, p in zip(losses, probabilities, strict=True)
        ]
        for start in range(1, n + 1):
            weight = math.log(2) / math.log(1 + start) - math.log(2) / math.log(2 + start)
            total += weight * math.prod(factors[start - 1 :])
    return total / len(_BETS) + math.log(2) / math.log(2 + n)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.2, 0.5, 1.0])), max_size=25
    )
)
def test_the_recursion_is_the_sum_over_all_starts(cases):
    monitor = RiskMonitor(0.2, min_seen=0.2)
    for loss, probability in cases:
        monitor.update(loss, seen_probability=probability)
    losses, probabilities = ([case[i] for case in cases] for i in (0, 1))
    expected = sum_over_starts(losses, probabilities, risk=0.2, least=0.2)
    assert monitor.state.evidence == pytest.approx(expected, rel=1e-9)


@given(LOSSES, st.sampled_from([0.1, 0.5]))
def test_the_expected_evidence_under_audits_is_the_evidence(losses, dear):
    """A case is of one of two kinds, seen with probability 1 or `dear`, and an unseen one does not enter."""
    now = run(RiskMonitor(0.3, min_seen=dear), losses).evidence

    def after(loss, probability):
        monitor = RiskMonitor(0.3, min_seen=dear)
        run(monitor, losses)
        return monitor.update(loss, seen_probability=probability).evidence

    # wrong with 0.1 in the first kind, with 0.5 in the second: 0.3 in all. Errors that are seen have another share
    first = 0.1 * after(1.0, 1.0) + 0.9 * after(0.0, 1.0)
    second = dear * (0.5 * after(1.0, dear) + 0.5 * after(0.0, dear)) + (1 - dear) * now
    assert 0.5 * first + 0.5 * second == pytest.approx(now, rel=1e-9)


@pytest.mark.slow
def test_false_alarms_are_at_most_as_stated():
    generator, n_runs, alarms = np.random.default_rng(0), 100, 0
    for _ in range(n_runs):
        monitor = RiskMonitor(0.2, false_alarms=0.2)
        alarms += any(
            monitor.update(loss).broken
            for loss in (generator.random(200) < 0.2).astype(float).tolist()
        )
    assert alarms <= 0.2 * n_runs + 3 * math.sqrt(
        0.16 * n_runs
    )  # 3 standard errors above the stated rate
    assert alarms > 0


def test_a_late_change_is_found_and_dated():
    generator = np.random.default_rng(1)
    losses = np.concatenate([generator.random(2000) < 0.1, generator.random(600) < 0.3]).astype(
        float
    )
    state = run(RiskMonitor(0.1), losses.tolist())
    assert state.broken
    assert 2000 < state.broken_at < 2250
    assert abs(state.since - 2001) < 60
    assert state.n_since == state.broken_at - state.since + 1
    assert state.risk_since == pytest.approx(losses[state.since - 1 : state.broken_at].mean())
    assert state.risk_since > 0.2


def test_an_alarm_is_never_taken_back():
    monitor = RiskMonitor(0.1)
    before = run(monitor, [1.0] * 20)
    after = run(monitor, [0.0] * 2000)
    assert after.evidence < 1 < after.limit <= after.strongest
    assert (after.broken_at, after.since, after.n_since) == (before.broken_at, 1, before.broken_at)


@pytest.mark.parametrize(
    ("loss", "probability", "message"),
    [
        (1.5, 1.0, r'"loss" must be a number in \[0, 1\]'),
        (1.0, 0.0, '"seen_probability" must be a number above 1e-100'),
        (1.0, 0.1, '"seen_probability" must be at least "min_seen", 0.5; got 0.1'),
    ],
)
def test_a_case_that_cannot_be_leaves_the_monitor_as_it_was(loss, probability, message):
    monitor = RiskMonitor(0.1, min_seen=0.5)
    before = monitor.state
    with pytest.raises(ValueError, match=message):
        monitor.update(loss, seen_probability=probability)
    assert monitor.state == before
