"""Owns `drift --follow`: labelled cases are read as they are appended, until they break the stated risk."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import typer

from coe_agents._plurals import quantity
from coe_agents.cli.interrupts import INTERRUPTED, clean_up_after_interrupt
from coe_agents.cli.options import Exit
from coe_agents.cli.terminal import clean, print_json, print_lines

if TYPE_CHECKING:
    from coe_agents.evaluation import AgentMonitor, RiskState
    from coe_agents.evaluation.samples.labelled import LabelledCase
    from coe_agents.policy import LostWeight

_Case: TypeAlias = tuple[str, str | None]
"""The id of a case, and its time where known."""
_PAUSE = 0.5
"""Seconds between two looks at a file that has not grown."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched: the file, the stated risk, and each agent's own, by name.

    Attributes:
        false_alarms: The highest acceptable probability of a false alarm; half of it is the agents' if they have risks.
        min_seen: The least probability of being judged.
        until_end: Whether to stop at the end of the file.
        out: Where to write the agents' weights when one loses weight; None for nowhere.
        weights: The agents' weights now, by name.
    """

    path: Path
    false_alarms: float
    min_seen: float
    until_end: bool
    out: Path | None = None
    risk: float = 0.5
    agents: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


def follow_until_broken(watch: Watch, *, as_json: bool) -> NoReturn:
    """Reads labelled cases until the risk is broken, and raises `typer.Exit` with the status of the command.

    Where agents are watched up to the end of the file, they are watched past the case at which the risk is broken, too.
    """
    from coe_agents.evaluation import AgentMonitor, RiskMonitor
    from coe_agents.evaluation.samples.labelled import follow_cases

    share = watch.false_alarms / 2.0 if watch.agents else watch.false_alarms
    monitor = RiskMonitor(watch.risk, false_alarms=share, min_seen=watch.min_seen)
    of_agents = AgentMonitor(watch.agents, false_alarms=share, min_seen=watch.min_seen) if watch.agents else None
    agents = _Agents(watch, of_agents)
    cases: list[_Case] = []
    is_following = False

    def wait() -> bool:
        nonlocal is_following
        if watch.until_end:
            return False
        if not is_following:  # all that was there has been read
            is_following = True
            print_lines(f"Following {clean(str(watch.path))}; Ctrl-C ends it.", to_stderr=True)
        time.sleep(_PAUSE)
        return True

    clean_up_after_interrupt()
    interrupted = False
    try:
        for case in follow_cases(watch.path, wait=wait):
            cases.append((case.id, case.time))
            _check_probability(case, watch)
            if not monitor.is_broken:
                monitor.observe(1.0 - case.correct, seen_probability=case.seen_probability)
            said = agents.take(case)
            if said and not as_json:
                print_lines("\n".join(said))
            if monitor.is_broken and not (watch.until_end and of_agents is not None):
                break
    except KeyboardInterrupt:
        interrupted = True
    state = monitor.state
    if as_json:
        shown = {"risk": watch.risk, **_with_cases(state, cases), "broken": state.broken, "agents": agents.found}
        print_json(shown | {"interrupted": interrupted})
    else:
        print_lines(_on_risk(watch, state, _with_cases(state, cases)))
        if interrupted:
            print_lines("Interrupted. Rerun the same command: it reads the file from its beginning.", to_stderr=True)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(Exit.ABSTAINED if state.broken or agents.found else Exit.ANSWERED)


class _Agents:
    """The agents as the cases show them; those in `found` have grown worse, and lose weight."""

    def __init__(self, watch: Watch, monitor: "AgentMonitor | None") -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._watch, self._monitor = watch, monitor
        self._cases: dict[str, list[_Case]] = {}
        self._lost: list[LostWeight] = []

    def take(self, case: "LabelledCase") -> list[str]:
        """Takes a case, writes the weights where one falls, and returns what to say of it."""
        if self._monitor is None:
            return []
        said = []
        for name in case.agents.keys() & self._watch.agents.keys():
            self._cases.setdefault(name, []).append((case.id, case.time))
        for name in self._monitor.update(case.agents, seen_probability=case.seen_probability):
            found = self.found[name] = _with_cases(self._monitor.states[name], self._cases[name])
            said.append(_on_agent(name, self._watch.agents[name], found))
            if self._watch.out is not None:
                weights = self._monitor.weights(self._watch.weights)
                found["weight"] = weights[name]
                self._lost.append(_lost_weight(name, self._watch, found))
                said.append(_write_weights(self._watch.out, weights, self._lost))
        return said


def _lost_weight(name: str, watch: Watch, found: Mapping[str, Any]) -> "LostWeight":
    from coe_agents.policy import LostWeight

    return LostWeight(
        agent=name,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        weight_before=watch.weights[name],
        weight=found["weight"],
        risk=watch.agents[name],
        risk_since=found["risk_since"],
        n_since=found["n_since"],
        since=(found["since_id"], found["since_time"]),
        found_at=(found["broken_at_id"], found["broken_at_time"]),
        evidence=found["evidence"],
        limit=found["limit"],
    )


def _write_weights(path: Path, weights: Mapping[str, float], lost: "list[LostWeight]") -> str:
    """Writes the weights where any is left, and returns what to say about it."""
    from coe_agents.policy import AgentWeights

    agent, before, weight = clean(lost[-1].agent), lost[-1].weight_before, lost[-1].weight
    change = f"The weight of {agent} falls from {before:.3g} to {weight:.3g}"
    if not any(weight > 0.0 for weight in weights.values()):
        return f"{change}. No agent has any weight left: {clean(str(path))} stays as it is. Replace the agents."
    AgentWeights(weights, tuple(lost)).save(path)
    return (
        f"{change}: wrote {clean(str(path))}. A policy holds for the weights of its calibration: calibrate again with "
        f"--weights {clean(str(path))}, and then set [graph] weights."
    )


def _check_probability(case: "LabelledCase", watch: Watch) -> None:
    if case.seen_probability < watch.min_seen * (1.0 - 1e-9):
        raise typer.BadParameter(
            f"the case {clean(case.id, 50)!r} was judged with probability {case.seen_probability:g}, below "
            f"{watch.min_seen:g}. Pass your lowest audit rate: it must be known before the cases are",
            param_hint="--min-seen",
        )


def _with_cases(state: "RiskState", cases: list[_Case]) -> dict[str, Any]:
    """Returns a state with the ids and times of the cases that it names by number."""
    found = asdict(state)
    for name, number in (("since", state.since), ("broken_at", state.broken_at)):
        known = None if number is None else cases[number - 1]
        found[f"{name}_id"], found[f"{name}_time"] = known or (None, None)
    return found


def _on_risk(watch: Watch, state: "RiskState", found: Mapping[str, Any]) -> str:
    if not state.n_cases:
        return f"No labelled case yet: nothing is known of the stated risk of {watch.risk:.3g}."
    limit = f"the limit {state.limit:.3g}"
    promise = f"A false alarm has a probability of at most {1.0 / state.limit:.3g}, however often you look."
    if not state.broken:
        return (
            f"After {quantity(state.n_cases, 'labelled answer')} there is no sufficient evidence that the stated risk "
            f"of {watch.risk:.3g} is broken.\n"
            f"The evidence is {state.evidence:.3g}, {limit}; its highest value was {state.strongest:.3g}.\n"
            "This does not show that the risk is kept: calibrate on new samples for that."
        )
    return (
        f"The stated risk of {watch.risk:.3g} is broken: answers are wrong more often.\n"
        f"{_since(found)}.\n"
        f"The evidence is {state.evidence:.3g}, at or above {limit}. {promise}\n"
        "Answer less until you have calibrated again."
    )


def _on_agent(name: str, risk: float, found: Mapping[str, Any]) -> str:
    return f"{clean(name)} has grown worse than the {risk:.3g} wrong that its calibration allows. {_since(found)}."


def _since(found: Mapping[str, Any]) -> str:
    n_since = found["n_since"]
    place = f"case {found['since']} ({_named(found, 'since')})"
    count = quantity(n_since, "labelled answer was", "labelled answers were")
    return (
        f"It probably began near {place}: since then {found['risk_since']:.1%} of {count} wrong, up to "
        f"case {found['broken_at']} ({_named(found, 'broken_at')})"
    )


def _named(found: Mapping[str, Any], name: str) -> str:
    time_known = found[f"{name}_time"]
    return clean(found[f"{name}_id"], 60) + (f", {clean(time_known, 40)}" if time_known else "")
