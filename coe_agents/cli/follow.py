"""Owns `drift --follow`: labelled cases are read as they are appended, until they break the stated risk."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from coe_agents.cli.interrupts import INTERRUPTED, clean_up_after_interrupt
from coe_agents.cli.options import Exit
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.evaluation.calibration.monitor import RiskState

_PAUSE = 0.5
"""Seconds between two looks at a file that has not grown."""


def follow_until_broken(
    policy: Path, path: Path, *, false_alarms: float, min_seen: float, until_end: bool, as_json: bool
) -> NoReturn:
    """Reads labelled cases until they break the risk of a policy, and raises `typer.Exit` with the command's status.

    Args:
        policy: Its file.
        path: The file of the cases.
        false_alarms: The highest acceptable probability of a false alarm.
        min_seen: The least probability of being judged.
        until_end: Whether to stop at the end of the file.
        as_json: Whether to print one JSON object.
    """
    from coe_agents.evaluation import RiskMonitor
    from coe_agents.evaluation.samples.labelled import follow_cases
    from coe_agents.policy import CalibratedPolicy

    risk = CalibratedPolicy.load(policy).calibration.risk
    try:
        monitor = RiskMonitor(risk, false_alarms=false_alarms, min_seen=min_seen)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    cases = list[tuple[str, str | None]]()  # the id of each, and its time where known
    is_following = False

    def wait() -> bool:
        nonlocal is_following
        if until_end:
            return False
        if not is_following:  # all that was there has been read
            is_following = True
            print_lines(f"Following {clean(str(path))}; Ctrl-C ends it.", to_stderr=True)
        time.sleep(_PAUSE)
        return True

    clean_up_after_interrupt()
    interrupted = False
    try:
        for case in follow_cases(path, wait=wait):
            cases.append((case.id, case.time))
            try:
                state = monitor.update(1.0 - case.correct, seen_probability=case.seen_probability)
            except ValueError as error:
                message = f"the case {clean(case.id, 50)!r}: {error}"
                raise typer.BadParameter(message, param_hint="--min-seen") from error
            if state.broken:
                break
    except KeyboardInterrupt:
        interrupted = True
    state = monitor.state
    found = asdict(state)
    for name in ("since", "broken_at"):
        known = (None, None) if found[name] is None else cases[found[name] - 1]
        found[f"{name}_id"], found[f"{name}_time"] = known
    if as_json:
        print_json({"risk": risk, **found, "broken": state.broken, "interrupted": interrupted})
    else:
        print_lines(_on_risk(risk, state, found))
        if interrupted:
            print_lines("Interrupted. Rerun the same command: it reads the file from its beginning.", to_stderr=True)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(Exit.ABSTAINED if state.broken else Exit.ANSWERED)


def _on_risk(risk: float, state: "RiskState", found: Mapping[str, Any]) -> str:
    if not state.n_cases:
        return f"No labelled case yet: nothing is known of the stated risk of {risk:.3g}."
    limit = f"the limit {state.limit:.3g}"
    promise = f"A false alarm has a probability of at most {1.0 / state.limit:.3g}, however often you look."
    if not state.broken:
        return (
            f"After {quantity(state.n_cases, 'labelled answer')} there is no sufficient evidence that the stated risk "
            f"of {risk:.3g} is broken.\n"
            f"The evidence is {state.evidence:.3g}, {limit}; its highest value was {state.strongest:.3g}.\n"
            "This does not show that the risk is kept: calibrate on new samples for that."
        )
    count = quantity(found["n_since"], "labelled answer was", "labelled answers were")
    return (
        f"The stated risk of {risk:.3g} is broken: answers are wrong more often.\n"
        f"It probably began near {_place(found, 'since')}: since then {found['risk_since']:.1%} of {count} wrong, up "
        f"to {_place(found, 'broken_at')}.\n"
        f"The evidence is {state.evidence:.3g}, at or above {limit}. {promise}\n"
        "Answer less until you have calibrated again."
    )


def _place(found: Mapping[str, Any], name: str) -> str:
    when = found[f"{name}_time"]
    said = clean(found[f"{name}_id"], 60) + (f", {clean(when, 40)}" if when else "")
    return f"case {found[name]} ({said})"
