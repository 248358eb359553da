"""Owns the commands `calibrate` and `drift`: choose a threshold for a stated risk, and check later that it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coe_agents._plurals import quantity
from coe_agents.checks import number
from coe_agents.cli.follow import follow_until_broken
from coe_agents.cli.options import (
    Exit,
    JsonOption,
    OptionalSamplesArgument,
    ProposerOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.recalibrate import recalibrate_on_rulings, without_rulings
from coe_agents.cli.score import check_proposer
from coe_agents.cli.setting import create_setting, judge_saved, print_judged
from coe_agents.cli.terminal import clean, print_json, print_lines

if TYPE_CHECKING:
    from coe_agents.evaluation import Judged
    from coe_agents.policy.calibrated import Calibration, GroupThreshold

_RARE, _ENOUGH, _LISTED = 0.1, 20, 5
"""The share of agreement up to which an argument is listed, its fewest comparisons, and the most that are listed."""
DRIFT_EPILOG = (
    f"Exit status: {Exit.ANSWERED} the calibration still holds, {Exit.ABSTAINED} it does not; 130 after Ctrl-C."
)


@expand_options
def calibrate(
    samples: SamplesArgument,
    risk: Annotated[
        float, typer.Option(help="Highest acceptable share of wrong answers among those given, in (0, 1).")
    ],
    out: Annotated[Path, typer.Option(help="Where to write the policy, as JSON.")],
    scoring: ScoringOptions,
    confidence: Annotated[float, typer.Option(help="Probability that the risk is kept, in (0, 1).")] = 0.9,
    gate: Annotated[
        Literal["threshold", "learned"],
        typer.Option(
            help="threshold: on CoE, or with --proposer on the support; learned: on a probability of error, learned "
            "from the samples."
        ),
    ] = "threshold",
    halves: Annotated[
        bool,
        typer.Option(
            "--halves",
            help="With --gate learned: fit it on one half and choose its threshold on the other. The risk is then "
            "guaranteed, but each half has less data.",
        ),
    ] = False,
    proposer: ProposerOption = None,
    current: Annotated[
        Path | None,
        typer.Option(
            help="The policy in use, whose threshold is chosen again on samples of harvest. It is never raised without "
            "audits; what measures the uncertainty stays."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="A file of the agents' weights; the policy then holds for these."),
    ] = None,
) -> None:
    """Choose the threshold that answers the most questions at a stated risk of wrong answers.

    It is chosen on saved responses that are labelled right or wrong, or that have reference answers. With --proposer it
    is one on the other agents' support of what this agent proposes: each tool that has enough samples gets its own, and
    so does calling none.
    """
    from coe_agents.evaluation import calibrate as calibrate_rows
    from coe_agents.evaluation.origin import origin_of
    from coe_agents.policy import AgentWeights
    from coe_agents.policy.gate import LearnedGate

    for name, share in (("--risk", risk), ("--confidence", confidence)):
        try:
            number(share, "it", above=0, below=1, advice="Pass a share such as 0.1")
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=name) from error
    if halves and gate != "learned":
        raise typer.BadParameter("it needs --gate learned", param_hint="--halves")
    if current is not None:
        if gate != "threshold" or proposer is not None or weights is not None:
            message = "it cannot be combined with --gate, --proposer or --weights: what is judged stays"
            raise typer.BadParameter(message, param_hint="--current")
        recalibrate_on_rulings(samples, scoring, current, out, risk=risk, confidence=confidence)
        return
    setting, judging = create_setting(scoring, samples)
    of_agents = None if weights is None else AgentWeights.load(weights).weights
    rows, n_silent = judge_saved(
        samples, setting, _CHECK, every_cluster=gate == "learned", proposer=proposer, weights=of_agents
    )
    check_proposer(proposer, {name for row in rows for name in row.measurement.agents})
    _check_verdicts(rows, n_silent)
    policy = calibrate_rows(
        rows,
        risk=risk,
        confidence=confidence,
        gate=gate,
        halves=halves,
        proposer=proposer,
        clusterer=type(setting.clusterer).__name__,
        correctness=setting.criterion.name,
        weights=of_agents,
        origin=origin_of(samples),
    )
    policy.save(out)
    calibration = policy.calibration
    if proposer is not None:
        _print_support(calibration)
        _print_disagreement([row.measurement.proposals for row in rows], proposer)
    elif calibration.threshold is None:
        print_lines(
            f"No threshold keeps a risk of {risk:g} with confidence {confidence:g} on "
            f"{quantity(calibration.n_questions, 'question')}: the policy always abstains. Raise the risk, or "
            "calibrate on more questions."
        )
    else:
        unit = "nats of CoE" if calibration.gate is None else "of the gate's score"
        n_questions, n_answered, n_wrong = calibration.n_questions, calibration.n_answered, calibration.n_wrong
        print_lines(
            f"Answer up to {calibration.threshold:.3g} {unit}: {n_answered} of {quantity(n_questions, 'question')} "
            f"({n_answered / n_questions:.1%}), {n_wrong} wrong "
            f"({n_wrong / n_answered:.1%}; at most {calibration.bound:.1%} with confidence {confidence:g})."
        )
    if isinstance(calibration.gate, LearnedGate):
        trust = ", ".join(
            f"{name} {weight:.2f}"
            for name, weight in zip(calibration.gate.agents, calibration.gate.weights, strict=True)
        )
        print_lines(f"The answer is chosen with these weights: {trust}.")
    if calibration.fit == "folds" and calibration.threshold is not None:
        print_lines(
            "The bound is empirical: five gates chose the threshold on questions that they were not fitted on, and the "
            "final gate is fitted on all. For a guarantee: --halves."
        )
    if calibration.n_ties:
        print_lines(f"Questions with a tied lead, which are never answered: {calibration.n_ties}.")
    _print_skipped(rows, n_silent)
    print_judged(judging)
    used = "" if weights is None else f', and [graph] weights = "{clean(weights.name)}"'
    print_lines(f'Wrote {out}. To use it: [policy] kind = "calibrated", path = "{out.name}"{used}')


@expand_options
def drift(
    policy: Annotated[Path, typer.Argument(help="The file that calibrate wrote.")],
    scoring: ScoringOptions,
    samples: OptionalSamplesArgument = None,
    follow: Annotated[
        Path | None,
        typer.Option(
            help="A file of labelled answers, one JSON object a line, to which they are appended. It is read until "
            "it breaks the stated risk; stop with Ctrl-C."
        ),
    ] = None,
    false_alarms: Annotated[
        float, typer.Option(help="With --follow: highest probability of ever being alarmed wrongly, in (0, 1).")
    ] = 0.05,
    min_seen: Annotated[
        float,
        typer.Option(help="With --follow: the lowest audit rate; 1 if every answer is judged."),
    ] = 1.0,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="With --follow: stop at the end of the file instead of waiting.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check on new samples, or on labelled answers as they come, whether a calibrated policy still fits."""
    from coe_agents.evaluation import check_drift
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.policy.gate import LearnedGate

    if follow is not None:
        if samples:
            raise typer.BadParameter("it reads no samples. Omit them, or omit --follow", param_hint="--follow")
        follow_until_broken(
            policy, follow, false_alarms=false_alarms, min_seen=min_seen, until_end=until_end, as_json=as_json
        )
    for name, is_given in (("--until-end", until_end), ("--min-seen", min_seen != 1.0)):
        if is_given:
            raise typer.BadParameter("it needs --follow. Add --follow FILE, or omit it", param_hint=name)
    if not samples:
        raise typer.BadParameter("files of saved responses are needed, or --follow FILE", param_hint="'samples'")
    setting, judging = create_setting(scoring, samples)
    calibrated = CalibratedPolicy.load(policy)
    rows, n_silent = judge_saved(
        samples,
        setting,
        _CHECK,
        every_cluster=isinstance(calibrated.calibration.gate, LearnedGate),
        proposer=calibrated.calibration.proposer,
        weights=calibrated.calibration.weights,
    )
    found = check_drift(calibrated, rows, clusterer=type(setting.clusterer).__name__)
    if as_json:
        print_json({**asdict(found), "holds": found.holds, "judged": judging.to_json()})
    else:
        moved = "have changed" if found.scores_changed else "show no change"
        print_lines(
            f"{quantity(found.n_questions, 'question')}: the uncertainties {moved} "
            f"(Kolmogorov-Smirnov {found.ks_statistic:.3f}, p = {found.p_value:.3g}); coverage {found.coverage:.1%}"
        )
        if found.risk_interval is not None:
            low, high = found.risk_interval
            judged = quantity(found.n_judged, "answer is", "answers are")
            print_lines(
                f"risk: {found.n_wrong} of {judged} wrong, {low:.1%} to {high:.1%} by one-sided "
                f"95 % bounds; the stated {calibrated.calibration.risk:.1%} is {_VERDICTS[found.risk]}"
            )
        if found.n_ties:
            print_lines(f"questions with a tied lead, which are never answered: {found.n_ties}")
        if n_silent:
            print_lines(f"questions without a {_TO_JUDGE}: {n_silent}")
        if found.n_unmeasurable:
            lacking = quantity(found.n_unmeasurable, "question lacks", "questions lack")
            print_lines(f"{lacking} an agent that the learned gate needs")
        for mismatch in found.mismatches:
            print_lines(f"mismatch: {mismatch}")
        print_judged(judging)
    raise typer.Exit(Exit.ANSWERED if found.holds else Exit.ABSTAINED)


def _print_support(calibration: "Calibration") -> None:
    """Prints the thresholds of a policy that judges one agent's proposals."""
    risk, confidence = f"{calibration.risk:g}", f"{calibration.confidence:g}"
    tools = sorted(calibration.tools.items())
    has_calls = bool(tools or calibration.no_call)
    others = "calls of all other tools" if tools else "calls" if has_calls else "proposals"
    groups: list[tuple[str, Calibration | GroupThreshold]] = [(f'calls of "{name}"', own) for name, own in tools]
    groups += [(others, calibration)] if calibration.n_questions else []
    groups += [("proposals that call nothing", calibration.no_call)] if calibration.no_call else []
    for what, own in groups:
        if own.threshold is None:
            print_lines(
                f"{what[0].upper()}{what[1:]}: no threshold keeps a risk of {risk} with confidence {confidence} on "
                f"{own.n_questions} of them; none passes."
            )
            continue
        least = 1.0 - own.threshold
        passing = (
            ("pass with any support" if least <= 0.0 else f"pass with a support of at least {least:.3g}")
            if calibration.gate is None
            else f"pass up to {own.threshold:.3g} of the learned probability of error"
        )
        print_lines(
            f"{what[0].upper()}{what[1:]} {passing}: {own.n_answered} of {own.n_questions} "
            f"({own.n_answered / own.n_questions:.1%}), {own.n_wrong} wrong ({own.n_wrong / own.n_answered:.1%}; at "
            f"most {own.bound:.1%} with confidence {confidence})."
        )
    if len(groups) > 1:
        print_lines(f"Each of these {len(groups)} statements holds with confidence {confidence} by itself.")


def _print_disagreement(groups: Sequence[Mapping[str, str]], proposer: str) -> None:
    """Prints the arguments that almost never agree: hardly any call with one of them has support."""
    from coe_agents.actions.agreement import argument_agreement

    found = argument_agreement(groups, proposer).items()
    rare = [
        f'"{clean(path, 80)}" in {share:.1%} of {n}' for path, (share, n) in found if share <= _RARE and n >= _ENOUGH
    ]
    if rare:
        rule = 'compare = { "tool.argument" = "text" }'
        print_lines(
            f"Arguments on which the others almost never agree with {clean(proposer)}: {', '.join(rare[:_LISTED])}. To "
            f"compare one less strictly, give it a rule in the clusterer's options, such as {rule}."
        )


def _check_verdicts(rows: "list[Judged]", n_silent: int) -> None:
    if all(row.correct is None for row in rows):
        found = f"{len(rows) + n_silent}, {n_silent} of these without a {_TO_JUDGE}"
        message = f"at least one question must have a verdict; got none of {found}. Add references or labels"
        raise typer.BadParameter(message, param_hint="'samples'")


def _print_skipped(rows: "list[Judged]", n_silent: int) -> None:
    for n, lacking in ((sum(row.correct is None for row in rows), "verdict"), (n_silent, _TO_JUDGE)):
        if n:
            skipped = quantity(n, f"question without a {lacking} was", f"questions without a {lacking} were")
            print_lines(f"{skipped} skipped.")


_CHECK = partial(without_rulings, argument="samples")
_TO_JUDGE = "response to judge"
_VERDICTS = {"kept": "kept", "broken": "broken", "open": "neither confirmed nor refuted"}
