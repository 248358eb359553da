"""Simulates years of traffic with a drift in the middle: when the monitor speaks, and what brings the risk back.

    python benchmarks/drift_year.py [--repetitions N] [--plot FILE.png] [--write FILE]

A question has a difficulty d, uniform on [0, 1], and its answer is wrong with probability 0.4 d. In the first half of
the year the uncertainty is d: up to 0.5, half of the questions are answered, and 0.1 of these wrongly. Then an update
makes the agents repeat themselves: the same errors at half the uncertainty. Up to 0.5 everything is answered, 0.2 of it
wrongly; the best threshold is 0.25.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from result_page import result_page
from scipy.stats import binom

from coe_agents.evaluation import RiskMonitor
from coe_agents.evaluation.calibration.calibrate import Judged
from coe_agents.evaluation.calibration.risk_control import choose_threshold
from coe_agents.measurement.measurement import AgentMeasurement
from coe_agents.policy import CalibratedPolicy, Measurement
from coe_agents.policy.calibrated import Calibration
from coe_agents.rulings.audits import Seen, recalibrate

DAYS, PER_DAY, CHANGE = 365, 200, 183
RISK, CONFIDENCE, FALSE_ALARMS = 0.1, 0.9, 0.05
N_CALIBRATION = 2000
WINDOW = 28
"""Days between two recalibrations after an alarm."""
AUDIT_AFTER = 0.5
"""The audit rate after an alarm."""
TYPICAL = 5
"""The year that is drawn."""
DAY = np.arange(DAYS * PER_DAY) // PER_DAY


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    n = options.repetitions
    print(
        f"{n} years of {DAYS} days with {PER_DAY} questions each; stated risk {RISK}, false alarms at most "
        f"{FALSE_ALARMS}"
    )
    with ProcessPoolExecutor(2) as pool:
        print_false_alarms(pool, n)
        print_delays(pool, n)
        print_loop(pool, n)
    if options.plot:
        plot(options.plot)


def traffic(seed, *, drifts=True):
    """Returns the uncertainty of each question, and whether its answer is wrong, in the order of the year."""
    generator = np.random.default_rng(seed)
    difficulty = generator.random(DAYS * PER_DAY)
    wrong = generator.random(difficulty.size) < 0.4 * difficulty
    uncertainty = np.where((DAY >= CHANGE) & drifts, difficulty / 2.0, difficulty)
    return uncertainty, wrong, generator


def calibrated(generator):
    """Returns the threshold that a calibration before the year chooses."""
    u = generator.random(N_CALIBRATION)
    right = generator.random(N_CALIBRATION) >= 0.4 * u
    return choose_threshold(
        correct=right, uncertainty=u, risk=RISK, confidence=CONFIDENCE
    ).threshold


def true_risk(threshold, *, after):
    """The risk of answering up to a threshold."""
    return 0.4 * min(threshold, 0.5) if after else 0.2 * min(threshold, 1.0)


def coverage_of(threshold, *, after):
    return min(1.0, 2.0 * threshold) if after else min(1.0, threshold)


AUDITS = {
    "audits, 0.1": lambda u: np.full_like(u, 0.1),
    "audits, 0.05 and 0.2": lambda u: np.where(u < 0.25, 0.05, 0.2),
}


def alarm(seed, *, audits, drifts, threshold=None):
    """Returns the day of the alarm, its estimated begin, and the number of labels, of one year; None without alarm."""
    u, wrong, generator = traffic(seed, drifts=drifts)
    limit = calibrated(generator) if threshold is None else threshold
    p = audits(u) if callable(audits) else np.full_like(u, audits)
    seen = np.flatnonzero((u <= limit) & (generator.random(u.size) < p))
    monitor = RiskMonitor(RISK, false_alarms=FALSE_ALARMS, min_seen=float(p.min()))
    for place, loss, probability in zip(
        seen.tolist(), wrong[seen].astype(float).tolist(), p[seen].tolist(), strict=True
    ):
        if monitor.update(loss, seen_probability=probability).broken:
            state = monitor.state
            return int(DAY[place]), int(DAY[seen[state.since - 1]]), state.n_cases
    return None


def false_alarm(seed, *, name):
    return alarm(seed, audits=AUDITS[name], drifts=False, threshold=0.5) is not None


def print_false_alarms(pool, n):
    most = int(binom.ppf(0.95, n, FALSE_ALARMS))
    print(
        "\nNo drift, at a threshold whose risk is exactly the stated one: the hardest case for a test of it"
    )
    print(
        "labels                 years with an alarm   share   within binomial error of the stated rate"
    )
    for name in AUDITS:
        found = sum(pool.map(partial(false_alarm, name=name), range(n), chunksize=25))
        print(
            f"{name:22} {found:19d} {found / n:7.3f}   {'yes' if found <= most else 'NO'} (at most {most})"
        )


def print_delays(pool, n):
    print(
        f"\nDrift on day {CHANGE}, at a calibrated threshold: alarms before it, years without one, and in days the\n"
        "delay and the error of the estimated begin"
    )
    print("audit rate  before  never  median delay  90 % within  median error of the begin")
    for rate in (0.02, 0.05, 0.1, 0.2):
        found = list(pool.map(partial(alarm, audits=rate, drifts=True), range(n), chunksize=25))
        early = sum(each is not None and each[0] < CHANGE for each in found)
        days = [
            np.inf if each is None else each[0] - CHANGE
            for each in found
            if each is None or each[0] >= CHANGE
        ]
        errors = [abs(each[1] - CHANGE) for each in found if each is not None and each[0] >= CHANGE]
        never = sum(each is None for each in found)
        late = np.quantile(days, 0.9, method="higher")
        within = f"{late:.0f}" if np.isfinite(late) else "never"
        print(
            f"{rate:10.2f} {early:7d} {never:6d} {np.median(days):13.0f} {within:>12} {np.median(errors):26.0f}"
        )


def judged(place, u, wrong):
    """Returns a question as a policy sees it, whose CoE is its uncertainty."""
    agent = AgentMeasurement(
        n_responses=1, weighting="frequency", entropy=0.0, distribution={"answer": 1.0}
    )
    measurement = Measurement(
        coe=u,
        aleatoric=u,
        epistemic=0.0,
        regime="consensus",
        n_agents=1,
        support=(1.0,),
        representatives=("answer",),
        answer="answer",
        answer_kind="answer",
        surprisal=0.0,
        agents={"a": agent},
    )
    return Judged(str(place), measurement, 0.0 if wrong else 1.0)


def policy_with(threshold):
    return CalibratedPolicy(
        Calibration(
            risk=RISK,
            confidence=CONFIDENCE,
            threshold=threshold,
            n_questions=0,
            n_answered=0,
            n_wrong=0,
            bound=RISK,
            agents={},
            clusterer="",
            correctness="",
            date="",
            uncertainties=(1.0,),
        )
    )


def loop(seed):
    """Returns the thresholds of one year, and the days of the alarm and of each recalibration.

    Audits of 0.1. At the alarm the threshold is cut to a quarter, and half of the answers are audited. After every 28
    days it is chosen again on what people have ruled since the alarm: these audits, and all escalations.
    """
    u, wrong, generator = traffic(seed)
    policy = policy_with(calibrated(generator))
    draws = generator.random(u.size)
    thresholds = np.empty(u.size)
    monitor, alarmed, recalibrated = (
        RiskMonitor(RISK, false_alarms=FALSE_ALARMS, min_seen=0.1),
        None,
        [],
    )
    rows, seen = [], {}
    for day in range(DAYS):
        if alarmed is not None and day > alarmed and (day - alarmed) % WINDOW == 0:
            found = recalibrate(policy, rows, seen, risk=RISK, confidence=CONFIDENCE)
            if found.policy.calibration.threshold is not None:
                policy = found.policy
                recalibrated.append(day)
        threshold, rate = policy.calibration.threshold, 0.1 if alarmed is None else AUDIT_AFTER
        places = np.arange(day * PER_DAY, (day + 1) * PER_DAY)
        thresholds[places] = threshold
        for place in places.tolist():
            is_answer = u[place] <= threshold
            if alarmed is not None and (not is_answer or draws[place] < rate):
                rows.append(judged(place, float(u[place]), bool(wrong[place])))
                seen[str(place)] = Seen(rate, "audit") if is_answer else Seen(1.0, "escalation")
            elif alarmed is None and is_answer and draws[place] < rate:
                monitor.update(float(wrong[place]), seen_probability=rate)
        if alarmed is None and monitor.state.broken:
            alarmed = day
            policy = policy_with(threshold / 4.0)
    return thresholds, alarmed, recalibrated


def looped(seed):
    thresholds, alarmed, recalibrated = loop(seed)
    if alarmed is None or not CHANGE <= alarmed < DAYS - 3 * WINDOW or not recalibrated:
        return None
    spans = (
        (0, CHANGE),
        (CHANGE, alarmed + 1),
        (alarmed + 1, recalibrated[0]),
        (recalibrated[0], DAYS),
    )
    found = []
    for begin, end in spans:
        own = thresholds[(begin <= DAY) & (end > DAY)]
        after = begin >= CHANGE
        coverage = np.minimum(1.0, 2.0 * own) if after else own
        risk = 0.4 * np.minimum(own, 0.5) if after else 0.2 * own
        found += [float((risk * coverage).sum() / coverage.sum()), float(coverage.mean())]
    return [
        *found,
        recalibrated[0] - CHANGE,
        float(thresholds[-1]),
        true_risk(thresholds[-1], after=True) > RISK,
    ]


def print_loop(pool, n):
    n = max(1, n // 5)
    found = [each for each in pool.map(looped, range(n), chunksize=5) if each is not None]
    means = np.mean(found, axis=0)
    print(
        f"\nAt the alarm a quarter of the threshold, {AUDIT_AFTER} of the answers audited, recalibration every "
        f"{WINDOW} days: {n} years,\nin {len(found)} of which the alarm comes after the drift and 84 days before the "
        "end, and a threshold is found"
    )
    print("                          risk  coverage")
    names = ("before the drift", "until the alarm", "until recalibration", "recalibrated")
    for name, risk, coverage in zip(names, means[:8:2], means[1:8:2], strict=True):
        print(f"{name:24} {risk:6.3f} {coverage:9.3f}")
    print(f"{'best possible':24} {RISK:6.3f} {coverage_of(0.25, after=True):9.3f}")
    print(
        f"first recalibrated {means[8]:.0f} days after the drift on average; the last threshold of the year is "
        f"{means[9]:.3f} on average,\nand its true risk exceeds the stated one in {means[10]:.3f} of the years "
        f"(allowed {1 - CONFIDENCE:.1f} at each recalibration)"
    )


def plot(path, seed=TYPICAL):
    """Draws one year: true risk, the monitor's evidence, and coverage, of two ways to go on."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    looping, alarmed, recalibrated = loop(seed)
    u, wrong, generator = traffic(seed)
    threshold = calibrated(generator)
    draws = generator.random(u.size)
    monitor, days, evidence = RiskMonitor(RISK, false_alarms=FALSE_ALARMS, min_seen=0.1), [], []
    for place in np.flatnonzero((u <= threshold) & (draws < 0.1)).tolist():
        days.append(DAY[place])
        evidence.append(monitor.update(float(wrong[place]), seen_probability=0.1).evidence)
    ways = {
        "fixed threshold": (np.full(u.size, threshold), "tab:red"),
        "alarm, harvest, recalibration": (looping, "tab:green"),
    }
    figure, (top, middle, bottom) = pyplot.subplots(
        3, 1, figsize=(8, 8), sharex=True, layout="constrained"
    )
    after = np.arange(DAYS) >= CHANGE
    for name, (thresholds, colour) in ways.items():
        daily = thresholds.reshape(DAYS, PER_DAY).mean(axis=1)
        top.plot(
            np.where(after, 0.4 * np.minimum(daily, 0.5), 0.2 * daily),
            color=colour,
            label=name,
            linewidth=1.5,
        )
        bottom.plot(
            np.where(after, np.minimum(1.0, 2.0 * daily), daily),
            color=colour,
            label=name,
            linewidth=1.5,
        )
    top.axhline(RISK, color="black", linestyle=":", label="stated risk")
    top.set(ylabel="true risk of answers", ylim=(0, 0.24))
    top.legend(loc="upper left", frameon=False, fontsize=9)
    middle.semilogy(days, evidence, color="tab:purple", linewidth=1.5)
    middle.axhline(1 / FALSE_ALARMS, color="black", linestyle=":")
    middle.text(
        2,
        1.3 / FALSE_ALARMS,
        f"limit {1 / FALSE_ALARMS:.0f}: false alarms at most {FALSE_ALARMS}",
        fontsize=9,
    )
    middle.set(ylabel="evidence that the\nstated risk is broken", ylim=(0.05, 1e6))
    bottom.axhline(0.5, color="black", linestyle=":")
    bottom.text(2, 0.56, "best at the stated risk (dotted)", fontsize=9)
    bottom.set(ylabel="coverage", xlabel="day of the year", ylim=(0, 1.05), xlim=(0, DAYS))
    for axes in (top, middle, bottom):
        axes.axvline(CHANGE, color="grey", linewidth=1)
        if alarmed is not None:
            axes.axvline(alarmed, color="tab:purple", linewidth=1, linestyle="--")
        axes.spines[["top", "right"]].set_visible(False)
    middle.annotate(
        "drift",
        (CHANGE, 2e5),
        (-6, 0),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        color="grey",
    )
    if alarmed is not None:
        middle.annotate(
            f"alarm, {alarmed - CHANGE} days later",
            (alarmed, 0.1),
            (6, 0),
            textcoords="offset points",
            fontsize=9,
            color="tab:purple",
        )
    for day in recalibrated:
        bottom.plot(day, looping[day * PER_DAY] * 2, marker="o", color="tab:green", markersize=5)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    with result_page():
        main()
