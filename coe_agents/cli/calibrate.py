"""Owns the commands `calibrate` and `drift`: choose a threshold for a stated risk, and check later whether it holds."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from coe_agents.cli.options import Exit, JsonOption
from coe_agents.cli.score import (
    ClustererOption,
    ConfigFileOption,
    CorrectnessOption,
    SamplesArgument,
    WeightingOption,
    to_setting,
)

DRIFT_EPILOG = f"Exit status: {Exit.ANSWERED} nothing speaks against the calibration, {Exit.ABSTAINED} something does."


def calibrate(
    samples: SamplesArgument,
    risk: Annotated[float, typer.Option(help="The highest share of wrong answers among those given, in (0, 1).")],
    out: Annotated[Path, typer.Option(help="Where to write the policy, as JSON.")],
    confidence: Annotated[float, typer.Option(help="The probability with which the risk is kept, in (0, 1).")] = 0.9,
    gate: Annotated[
        Literal["threshold", "learned"], typer.Option(help="A threshold on CoE, or on a learned probability of error.")
    ] = "threshold",
    halves: Annotated[
        bool,
        typer.Option(
            "--halves",
            help="Fit a learned gate on one half and choose its threshold on the other: a guarantee, less data.",
        ),
    ] = False,
    clusterer: ClustererOption = None,
    config: ConfigFileOption = None,
    weighting: WeightingOption = "auto",
    correctness: CorrectnessOption = "reference_or_label",
) -> None:
    """Choose the threshold with the most coverage that keeps a risk, on saved and labelled samples."""
    from coe_agents.evaluation import Samples, judged
    from coe_agents.evaluation import calibrate as calibrate_rows
    from coe_agents.policy.gate import LearnedGate

    for name, share in (("--risk", risk), ("--confidence", confidence)):
        if not 0.0 < share < 1.0:
            raise typer.BadParameter("it must be above 0 and below 1", param_hint=name)
    if halves and gate != "learned":
        raise typer.BadParameter("it needs --gate learned", param_hint="--halves")
    setting = to_setting(clusterer, config, correctness)
    with Samples(samples) as questions:
        rows = judged(
            questions,
            clusterer=setting.clusterer,
            weighting=weighting,
            criterion=setting.criterion,
            every_cluster=gate == "learned",
        )
    policy = calibrate_rows(
        rows,
        risk=risk,
        confidence=confidence,
        gate=gate,
        halves=halves,
        clusterer=type(setting.clusterer).__name__,
        correctness=setting.criterion.name,
    )
    policy.save(out)
    found = policy.calibration
    if found.threshold is None:
        print(
            f"No threshold keeps a risk of {risk:g} with confidence {confidence:g} on {found.n_questions} questions: "
            "the policy always abstains. Raise the risk, or calibrate on more questions."
        )
    else:
        unit = "nats of CoE" if found.gate is None else "of the gate's score"
        print(
            f"Answer up to {found.threshold:.3g} {unit}: {found.n_answered} of {found.n_questions} questions "
            f"({found.n_answered / found.n_questions:.1%}), {found.n_wrong} wrong "
            f"({found.n_wrong / found.n_answered:.1%}; at most {found.bound:.1%} with confidence {confidence:g})."
        )
    if isinstance(found.gate, LearnedGate):
        trust = ", ".join(
            f"{name} {weight:.2f}" for name, weight in zip(found.gate.agents, found.gate.weights, strict=True)
        )
        print(f"The answer is chosen with these weights: {trust}.")
    if found.fit == "folds" and found.threshold is not None:
        print(
            "The bound is empirical: five gates chose the threshold on questions that they were not fitted on, and the "
            "final gate is fitted on all. For a guarantee: --halves."
        )
    if found.n_ties:
        print(f"{found.n_ties} questions whose leading answers tie are never answered.")
    unjudged = sum(row.correct is None for row in rows)
    if unjudged:
        print(f"{unjudged} questions without a verdict were left out.")
    print(f'Wrote {out}. Use it: [policy] kind = "calibrated", path = "{out.name}"')


def drift(
    policy: Annotated[Path, typer.Argument(help="What calibrate wrote.")],
    samples: SamplesArgument,
    clusterer: ClustererOption = None,
    config: ConfigFileOption = None,
    weighting: WeightingOption = "auto",
    correctness: CorrectnessOption = "reference_or_label",
    as_json: JsonOption = False,
) -> None:
    """Check on new samples whether a calibrated policy still fits."""
    from coe_agents.evaluation import Samples, check_drift, judged
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.policy.gate import LearnedGate

    setting = to_setting(clusterer, config, correctness)
    calibrated = CalibratedPolicy.load(policy)
    with Samples(samples) as questions:
        rows = judged(
            questions,
            clusterer=setting.clusterer,
            weighting=weighting,
            criterion=setting.criterion,
            every_cluster=isinstance(calibrated.calibration.gate, LearnedGate),
        )
    found = check_drift(calibrated, rows, clusterer=type(setting.clusterer).__name__)
    if as_json:
        print(json.dumps({**asdict(found), "holds": found.holds}, allow_nan=False))
    else:
        moved = "have changed" if found.scores_changed else "show no change"
        print(
            f"{found.n_questions} questions: the uncertainties {moved} "
            f"(Kolmogorov-Smirnov {found.ks_statistic:.3f}, p = {found.p_value:.3g}); coverage {found.coverage:.1%}"
        )
        if found.risk_interval is not None:
            low, high = found.risk_interval
            print(
                f"risk: {found.n_wrong} of {found.n_judged} answers are wrong, {low:.1%} to {high:.1%} by one-sided "
                f"95 % bounds; the stated {calibrated.calibration.risk:.1%} is {_SAID[found.risk]}"
            )
        if found.n_ties:
            print(f"{found.n_ties} questions whose leading answers tie are never answered")
        if found.n_unmeasurable:
            print(f"{found.n_unmeasurable} questions lack an agent that the learned gate needs")
        for mismatch in found.mismatches:
            print(f"mismatch: {mismatch}")
    raise typer.Exit(Exit.ANSWERED if found.holds else Exit.ABSTAINED)


_SAID = {"kept": "kept", "broken": "broken", "open": "neither confirmed nor refuted"}
