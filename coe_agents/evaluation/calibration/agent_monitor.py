"""Owns the watch over agents: which of them has grown worse than it was when calibrated, since when, and its weight."""

from collections.abc import Mapping, Sequence

import numpy as np

from coe_agents.checks import is_number
from coe_agents.evaluation.calibration.calibrate import Judged
from coe_agents.evaluation.calibration.monitor import RiskMonitor, RiskState
from coe_agents.evaluation.calibration.threshold import risk_bound, round_up


def agent_risks(rows: Sequence[Judged], *, confidence: float = 0.95) -> dict[str, float]:
    """Returns an upper confidence bound of each agent's own error, by name: the risks of an `AgentMonitor`.

    An agent errs on a question by the probability that it gives to wrong clusters, sum_c p(c) (1 - verdict(c)). The
    bound is Clopper-Pearson's (`risk_bound`) of the sum over questions, rounded up, with its `confidence` shared among
    the agents, so that all bounds hold together: 1 - (1 - confidence) / n_agents each.

    Args:
        rows: From `judge_samples` with `every_cluster`. An agent's questions are those on which every cluster that it
            answered with has a verdict.
        confidence: The probability that all bounds hold, in (0, 1).

    Raises:
        ValueError: No agent has such a question.
    """
    errors: dict[str, list[float]] = {}
    for row in rows:
        verdicts = dict(zip(row.measurement.representatives, row.verdicts, strict=False))
        for name, agent in row.measurement.agents.items():
            judged = [(share, verdicts.get(answer)) for answer, share in agent.distribution.items() if share > 0.0]
            wrong = [share * (1.0 - verdict) for share, verdict in judged if verdict is not None]
            if len(wrong) == len(judged):
                errors.setdefault(name, []).append(sum(wrong))
    if not errors:
        raise ValueError(
            '"rows" must hold verdicts on every cluster; none has them. Pass every_cluster=True to "judge_samples", '
            "and samples with references or labels"
        )
    each = 1.0 - (1.0 - confidence) / len(errors)
    return {
        name: risk_bound(round_up(float(np.sum(wrong))), len(wrong), confidence=each)
        for name, wrong in sorted(errors.items())
    }


class AgentMonitor:
    """Tests at any time whether an agent is wrong more often than it was, and lowers its weight only by that evidence.

    Each agent has a `RiskMonitor` at its own calibrated risk, with `false_alarms` shared among the agents: the
    probability that any agent is ever reported though none has grown worse is at most `false_alarms` (Bonferroni over
    Ville's inequality), for risks that hold: those of `agent_risks` do with their confidence.

    Args:
        risks: The highest share of wrong answers that each agent is known to have, by name.
        false_alarms: The highest acceptable probability of any false report, in (0, 1).
        min_seen: As in `RiskMonitor`.

    Raises:
        ValueError: There is no agent, or an argument is out of its range.

    Example:
        >>> monitor = AgentMonitor({"a": 0.2, "b": 0.3})
        >>> for _ in range(50):
        ...     reported = monitor.update({"a": False, "b": True})
        >>> monitor.states["a"].broken_at, monitor.states["b"].broken_at
        (6, None)
        >>> monitor.weights({"a": 1.0, "b": 1.0})
        {'a': 0.0, 'b': 1.0}
    """

    def __init__(self, risks: Mapping[str, float], *, false_alarms: float = 0.05, min_seen: float = 1.0) -> None:
        if not risks:
            raise ValueError('"risks" must hold at least one agent; got none. Pass what "agent_risks" returns')
        self.risks = dict(risks)
        self.false_alarms = false_alarms
        share = false_alarms / len(risks) if is_number(false_alarms) else false_alarms
        # an agent that may always be wrong cannot grow worse
        self._monitors = {
            name: RiskMonitor(risk, false_alarms=share, min_seen=min_seen) for name, risk in risks.items() if risk != 1
        }

    def update(self, correct: Mapping[str, float], *, seen_probability: float = 1.0) -> list[str]:
        """Takes one labelled case, and returns the agents that it newly shows to have grown worse, sorted.

        Args:
            correct: Whether each agent was right, in [0, 1], by name; agents that are missing gave no answer, and
                those without a calibrated risk are ignored.
            seen_probability: As in `RiskMonitor.update`.

        Raises:
            ValueError: A value is out of its range; an agent that comes before it by name has taken the case then.
        """
        found = []
        for name in sorted(correct.keys() & self._monitors.keys()):
            monitor, right = self._monitors[name], correct[name]
            if not 0.0 <= right <= 1.0:
                raise ValueError(f'"correct" must be in [0, 1]; got {right!r} of {name!r}. Pass True or False')
            was_broken = monitor.is_broken
            if monitor.observe(1.0 - float(right), seen_probability=seen_probability) and not was_broken:
                found.append(name)
        return found

    @property
    def states(self) -> dict[str, RiskState]:
        """What is known of each agent, by name."""
        return {name: monitor.state for name, monitor in self._monitors.items()}

    def weights(self, given: Mapping[str, float]) -> dict[str, float]:
        """Returns the agents' weights, lowered for those that have grown worse.

        The weight of such an agent is multiplied by (1 - risk since the change) / (1 - calibrated risk), at most 1.
        That risk was estimated when the change was found, and is then rather too high. All other weights stay as they
        are: without evidence nothing changes.
        """
        found = dict(given)
        for name, monitor in self._monitors.items():
            state = monitor.state
            if name in found and state.broken and state.risk_since is not None:
                found[name] *= min(1.0, (1.0 - state.risk_since) / (1.0 - monitor.risk))
        return found
