"""Owns `calibrate --current`: the threshold of a policy in use is chosen again on what people ruled."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from coe_agents._plurals import quantity
from coe_agents.cli.options import ScoringOptions
from coe_agents.cli.setting import create_setting, judge_saved, print_judged
from coe_agents.cli.terminal import clean, print_lines
from coe_agents.errors import SamplesError

if TYPE_CHECKING:
    from coe_agents.evaluation import SampledQuestion
    from coe_agents.evaluation.calibration.audits import Recalibration, Seen

_PROBABILITY = "seen_probability"


def without_rulings(questions: "Iterable[SampledQuestion]", *, argument: str) -> "Iterator[SampledQuestion]":
    """Yields the questions; refuses cases that were seen with unequal probabilities, which no count may pool.

    `argument` is the command's argument that names them.
    """
    for question in questions:
        if any(_PROBABILITY in sample for sample in (*question.responses, *question.failures)):
            raise typer.BadParameter(
                f"the case {clean(question.id, 50)!r} was seen with a probability of its own, and its errors cannot "
                "be counted like others. For samples of harvest: calibrate --current POLICY",
                param_hint=f"'{argument}'",
            )
        yield question


def recalibrate_on_rulings(
    samples: list[Path], scoring: ScoringOptions, current: Path, out: Path, *, risk: float, confidence: float
) -> None:
    """Chooses the threshold of a policy again on samples of `harvest`, and writes the policy."""
    from coe_agents.evaluation.calibration.audits import recalibrate
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.policy.gate import LearnedGate

    setting, judging = create_setting(scoring, samples)
    policy = CalibratedPolicy.load(current)
    if (name := type(setting.clusterer).__name__) != policy.calibration.clusterer:
        raise typer.BadParameter(
            f"the policy was calibrated with {clean(policy.calibration.clusterer)}; got {name}. Name the same one",
            param_hint="--clusterer",
        )
    seen: dict[str, Seen] = {}
    rows, _ = judge_saved(
        samples,
        setting,
        lambda questions: _noted(questions, seen),
        every_cluster=isinstance(policy.calibration.gate, LearnedGate),
        weights=policy.calibration.weights,
    )
    found = recalibrate(policy, rows, seen, risk=risk, confidence=confidence)
    found.policy.save(out)
    for mismatch in dict.fromkeys(text for row in rows for text in policy.mismatches(row.measurement)):
        print_lines(f"mismatch: {mismatch}")
    print_lines(_describe(found, policy.calibration.threshold, risk=risk, confidence=confidence))
    if found.n_below:
        print_lines(
            f"note: {quantity(found.n_below, 'escalation lies', 'escalations lie')} at or below the present threshold, "
            "escalated by a former, lower one or by another part, such as a guard before the policy. Thresholds were "
            "chosen with and without them, and the lower one is used."
        )
    print_judged(judging)
    print_lines(f'Wrote {clean(str(out))}. To use it: [policy] kind = "calibrated", path = "{clean(out.name)}"')


def _noted(questions: "Iterable[SampledQuestion]", seen: "dict[str, Seen]") -> "Iterator[SampledQuestion]":
    """Yields the questions, and notes how each came to be seen."""
    from coe_agents.evaluation.calibration.audits import Seen

    for question in questions:
        try:
            first, *others = {Seen.of(sample): None for sample in (*question.responses, *question.failures)}
            if others:
                raise ValueError(f"its samples must agree how it was seen; got {first} and {others[0]}")
            seen[question.id] = first
        except (TypeError, ValueError) as error:
            raise SamplesError(
                f"the case {question.id[:50]!r}: {error}", hint="Pass samples that `coe-agents harvest` wrote"
            ) from error
        yield question


def _describe(found: "Recalibration", before: float | None, *, risk: float, confidence: float) -> str:
    calibration = found.policy.calibration
    escalations = quantity(found.n_escalations, "escalation")
    cases = f"{quantity(found.n_audits, 'audited answer')} and {escalations}"
    if found.outcome == "unaudited":
        return (
            f"The threshold stays: no answer was audited, and {escalations} cannot show the "
            "risk of answers.\nAudit a share of them: create_coe_graph(..., record=True, audit_rate=0.05)."
        )
    if found.outcome == "few":
        return f"The threshold stays: {cases} are too few to show a risk of {risk:g} with confidence {confidence:g}."
    if calibration.threshold is None:
        return (
            f"No threshold keeps a risk of {risk:g} with confidence {confidence:g} on {cases}: the policy always "
            "abstains. Raise the risk, or audit more answers."
        )
    threshold = f"{calibration.threshold:.3g}"
    moved = f"stays at {threshold}" if found.outcome == "same" else f"is {found.outcome} to {threshold}"
    since = "" if before is None or found.outcome == "same" else f" from {before:.3g}"
    return (
        f"The threshold {moved}{since}, on {cases}: the risk is at most {calibration.bound:.1%} with confidence "
        f"{confidence:g}."
    )
