"""Owns the commands `advise` and `weights`: what to do with a group, and whom to trust, from its own samples."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from coe_agents.cli.inputs import create_setting, judge_saved, open_samples
from coe_agents.cli.options import (
    Exit,
    JsonOption,
    ResamplesOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import clean, print_json, print_lines, show_work, shows_progress
from coe_agents.text import quantity
from coe_agents.types import JsonObject

if TYPE_CHECKING:
    from coe_agents.advice.advice import Advice, Difference, Observed, TrustCheck
    from coe_agents.evaluation.calibration.calibrate import Judged
    from coe_agents.evaluation.origin import Origin
    from coe_agents.measurement.weighted_vote import Agreement
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.policy.calibrated import Calibration

_CONFIDENCE = 0.9
_POLICY_RISKS = (0.05, 0.1, 0.2, 0.3)
"""The policy keeps the lowest of these risks that can be shown, each tested at the fourth part of what may fail."""
_NONE = 1e-9
"""A difference below it comes from rounding alone."""
_OF_POLICY = (
    "risk",
    "confidence",
    "threshold",
    "n_questions",
    "n_answered",
    "n_wrong",
    "bound",
    "score",
    "trust",
)


@expand_options
def advise(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    out: Annotated[Path | None, typer.Option(help="Where to write the policy, as JSON.")] = None,
    as_json: JsonOption = False,
    resamples: ResamplesOption = 1000,
) -> None:
    """Say what to do with a group of agents, from labelled samples of it: ten lines, and the policy that follows.

    Which score, which weights, whether confidence helps, which agents add nothing, how many samples suffice, what a
    threshold answers, what escalation brings and what more labels would. It takes 50 labelled questions or more, of
    a gate that observes any number. Every figure is out of fold, and what is compared is adjusted for the number of
    comparisons. The policy's bound is empirical: the labels that it is calibrated on also chose its score and
    weights.

    Of samples that `harvest` wrote of a council that only observed, it says what blocking would have cost and saved.
    """
    from coe_agents.advice.advice import advise as advise_on
    from coe_agents.advice.advice import read_observed
    from coe_agents.evaluation.origin import origin_of
    from coe_agents.evaluation.scoring.correctness import on_inside
    from coe_agents.experiments.judging import judge_saved as judge_questions

    with open_samples(samples, scoring) as questions:
        observed = read_observed(questions)
        if observed is not None:
            _show_observed(observed, out, as_json=as_json)
            return

        setting, judging = create_setting(scoring, samples)
        rows, _ = judge_questions(questions, setting, progress=shows_progress(), every_cluster=True)
    with show_work("comparing scores, weights and agents"):
        advice = advise_on(rows, n_resamples=resamples)
        policy = calibrate_advised(
            rows,
            advice,
            clusterer=type(setting.clusterer).__name__,
            correctness=setting.criterion.name,
            origin=origin_of(samples),
        )
    calibration = None if policy is None else policy.calibration

    if as_json:
        print_json({**_to_json(advice, calibration), "judged": judging.to_json()})
    else:
        print_lines("\n".join(_in_words(advice, calibration)))
        print_lines(judging.note())
        print_lines(on_inside(rows, setting.criterion.name))

    if out is None:
        return
    if policy is None:
        _end_without_policy(out, "no threshold is shown to keep the risk", to_stderr=as_json)
    policy.save(out)
    use = f'[policy] kind = "calibrated", path = "{clean(out.name)}"'
    print_lines(f"Wrote {clean(str(out))}. To use it: {use}", to_stderr=as_json)


def _show_observed(observed: "Observed", out: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"observed": asdict(observed)})
    else:
        print_lines(_observed_in_words(observed))
    if out is not None:
        reason = "observed calls say what blocking costs, and calibrate no policy"
        _end_without_policy(out, reason, to_stderr=as_json)


def _to_json(advice: "Advice", calibration: "Calibration | None") -> JsonObject:
    plain: JsonObject = _plain(asdict(advice))
    plain["useless"] = advice.useless
    plain["policy"] = None
    if calibration is not None:
        plain["policy"] = {name: getattr(calibration, name) for name in _OF_POLICY}
    return plain


def _end_without_policy(out: Path, reason: str, *, to_stderr: bool) -> NoReturn:
    print_lines(f"No policy was written to {clean(str(out))}: {reason}.", to_stderr=to_stderr)
    raise typer.Exit(Exit.FAILED)


def calibrate_advised(
    rows: "list[Judged]",
    advice: "Advice",
    *,
    clusterer: str,
    correctness: str,
    origin: "Origin | None" = None,
) -> "CalibratedPolicy | None":
    """Returns the advised policy at the lowest risk that it can be shown to keep; None if at none."""
    from coe_agents.evaluation.calibration.calibrate import calibrate

    for risk in _POLICY_RISKS:
        policy = calibrate(
            rows,
            risk=risk,
            confidence=1.0 - (1.0 - _CONFIDENCE) / len(_POLICY_RISKS),
            score=advice.score,
            clusterer=clusterer,
            correctness=correctness,
            weights=advice.weights,
            origin=origin,
        )
        if policy.calibration.threshold is not None:
            return policy
    return None


def _plain(value: Any) -> Any:
    """Returns figures as JSON has them: names for numbers in keys, None for NaN, differences by name."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _in_words(advice: "Advice", calibration: "Calibration | None") -> list[str]:
    """Returns the ten lines."""
    questions = quantity(advice.n_questions, "labelled question")
    right = _with_interval(advice.accuracy, ".1%")
    auroc = f"{advice.scores['vote_share']:.3f}"
    order = ", ".join(f"{clean(name)} {nats:+.3f}" for name, nats in advice.order)
    fifth = f"{advice.escalated_right:.1%} of the fifth with the lowest vote share"
    gain = _with_interval(advice.escalation_gain, "+.1%")
    labels = quantity(3 * advice.n_questions, "more label")
    return [
        f"{questions}; the group is right in {right}. {_best_alone(advice)}.",
        f"Score: {clean(advice.score)}. AUROC within folds: vote_share {auroc}; {_gains(advice.score_gains)}.",
        f"Weights: {advice.weights}. Accuracy against equal weights: {_gains(advice.weight_gains)}.",
        f"Confidence: {_confidence(advice)}.",
        _agents(advice),
        f"What each adds to those before it, in nats: {order}.",
        f"Samples: {_samples(advice)}.",
        f"Coverage: {_coverage(advice)}.",
        f"Escalation: the group is right in {fifth}; an expert brings {gain} of accuracy.",
        f"Labels: {labels} would halve these intervals. {_policy(calibration)}",
    ]


def _best_alone(advice: "Advice") -> str:
    """Returns whether the group answers better than its best agent."""
    gain = advice.over_best
    right = _with_interval(advice.best_accuracy, ".1%")
    name = clean(advice.best)
    told = f"The best agent alone, {name}, is right in {right}"
    if not math.isclose(advice.best_accuracy[0], advice.best_overall):
        # another agent is the best one of some folds: the figure is not of the one that is named
        told = (
            f"The best agent alone, chosen for each fifth on the others, is right in {right} "
            f"({name}, the best of all, in {advice.best_overall:.1%})"
        )

    of_group = "the group's gain over it"
    if advice.weights != "equal":
        of_group += f", with {advice.weights} weights,"
    gained = f"({of_group} is {_difference(gain)})"
    if gain.p >= 0.05:
        return f"{told}: it is as good for an answer {gained}"
    better = "the group" if gain.value > 0.0 else "it"
    return f"{told}: {better} is better {gained}"


def _observed_in_words(observed: "Observed") -> str:
    n_blocked = observed.n_lost + observed.n_saved
    calls = quantity(n_blocked, "call")
    told = (
        f"Blocking would have stopped {calls} that people ruled on: {observed.n_lost} right (lost), "
        f"{observed.n_saved} wrong (saved)."
    )
    if observed.wrong_passed is None:
        return f"{told} Of what would have passed nothing is known: Recording(audit_rate=0.05) records a share."
    passed = quantity(observed.n_passed, "audited call")
    return f"{told} Of what would have passed, {observed.wrong_passed:.1%} are wrong, by {passed}."


def _with_interval(estimate: tuple[float, float, float], form: str) -> str:
    value, low, high = estimate
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def _gains(table: "Mapping[Any, Difference]") -> str:
    return "; ".join(f"{clean(name)} {_difference(gain)}" for name, gain in table.items())


def _confidence(advice: "Advice") -> str:
    gains = advice.confidence_gains
    if not gains:
        return "the samples have none"
    helps = any(gain.value > 0.0 and gain.p < 0.05 for gain in gains.values())
    verdict = "it helps" if helps else "no gain is shown"
    return f"{verdict}. AUROC with it: {_gains(gains)}"


def _agents(advice: "Advice") -> str:
    useless = ", ".join(map(clean, advice.useless)) or "none"
    changes = []
    for name, change in advice.without.items():
        changes.append(f"without {clean(name)} {_difference(change)}")
    accuracy = ", ".join(changes) or "of one agent cannot be compared"
    return f"Agents that add nothing: {useless}. Accuracy {accuracy}."


def _samples(advice: "Advice") -> str:
    losses = []
    for n, loss in advice.sample_losses.items():
        auroc = loss["auroc"].value
        losses.append(f"with {n} AUROC {auroc:+.3f}, accuracy {loss['accuracy'].value:+.3f}")
    del losses[-1]  # all samples lose nothing against all
    if not losses:
        return "each agent gave one"
    return f"{advice.n_samples} of each agent suffice; {'; '.join(losses)}"


def _coverage(advice: "Advice") -> str:
    lines = []
    for risk, answered in advice.coverage.items():
        share = advice.realised[risk]
        wrong = "none" if math.isnan(share) else f"{share:.1%}"
        lines.append(f"{_with_interval(answered, '.1%')} at {risk:.0%} wrong (then {wrong} were)")
    return "; ".join(lines)


def _policy(calibration: "Calibration | None") -> str:
    if calibration is None:
        return f"Policy: none, no risk of {_POLICY_RISKS[-1]:.0%} or less can be shown with confidence {_CONFIDENCE:g}."
    share = calibration.n_answered / calibration.n_questions
    return (
        f"Policy: risk {calibration.risk:.0%} with confidence {_CONFIDENCE:g}, answers {share:.1%}. This bound is "
        "empirical, since the same labels chose the score and the weights: for a guarantee, calibrate on other labels."
    )


def _difference(gain: "Difference") -> str:
    if max(abs(gain.value), abs(gain.low), abs(gain.high)) < _NONE:
        # such as scores that rank these questions alike: an interval without a width would look like a fault
        return "+0.000 in every resample"
    interval = _with_interval((gain.value, gain.low, gain.high), "+.3f")
    return f"{interval}, p {gain.p:.2g}"


@expand_options
def weights(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    out: Annotated[
        Path | None,
        typer.Option(help='Where to write them, for [graph] weights; TOML if it ends in ".toml".'),
    ] = None,
    as_json: JsonOption = False,
    resamples: ResamplesOption = 1000,
) -> None:
    """Weigh the agents without labels, by how probably the others agree with them.

    It is an offer: a group in which the best model is the odd one out gets worse. Where some questions have labels or
    references, the accuracy with these weights is compared with that of equal ones.
    """
    from coe_agents.advice.advice import check_weights
    from coe_agents.evaluation.scoring.correctness import on_inside
    from coe_agents.measurement.weighted_vote import agreement_weights
    from coe_agents.policy import AgentWeights

    setting, judging = create_setting(scoring, samples)
    rows, _ = judge_saved(samples, setting, scoring, every_cluster=True)
    agreement = agreement_weights([row.measurement for row in rows], n_resamples=resamples)
    check = check_weights(rows, agreement.weights, n_resamples=resamples)
    if out is not None:
        AgentWeights(agreement.weights).save(out)
    if as_json:
        plain = asdict(agreement)
        plain["odd_one_out"] = agreement.odd_one_out
        plain["check"] = None if check is None else asdict(check)
        plain["judged"] = judging.to_json()
        print_json(plain)
        return

    questions = quantity(agreement.n_questions, "question")
    print_lines(f"Weights of {len(agreement.weights)} agents, on {questions}, no labels used:")
    for name, weight in sorted(agreement.weights.items(), key=lambda item: -item[1]):
        interval = _with_interval((weight, *agreement.intervals[name]), ".3f")
        print_lines(f"{name}: {interval}, agreement {agreement.agreement[name]:.3f}")
    print_lines(_caution(agreement, check))
    print_lines(judging.note())
    print_lines(on_inside(rows, setting.criterion.name))
    if out is None:
        return
    use = f'To use it: [graph] weights = "{clean(out.name)}"'
    if check is not None and _are_harmful(agreement, check):
        use = "Keep equal weights: the labels advise against these."
    print_lines(f"Wrote {clean(str(out))}. {use}")


def _are_harmful(agreement: "Agreement", check: "TrustCheck") -> bool:
    """Returns whether labels advise against the weights: the best model counts least, or accuracy is shown to fall."""
    return _is_best_lightest(agreement, check) or check.difference[2] < 0


def _is_best_lightest(agreement: "Agreement", check: "TrustCheck") -> bool:
    lightest = min(agreement.weights, key=agreement.weights.__getitem__)
    return lightest == check.best and len(agreement.weights) > 2


def _caution(agreement: "Agreement", check: "TrustCheck | None") -> str:
    """Returns what the labels say, or else in which case the weights do harm."""
    harm = "These weights do harm where the best model is the odd one out."
    odd = agreement.odd_one_out
    if odd is not None:
        harm += f" Here {clean(odd)} agrees far less than the others with the rest."
    if check is None:
        return f"{harm} Whether that is so, only labels can tell: label some questions, and run this again."

    labelled = quantity(check.n_labelled, "labelled question")
    change = f"accuracy {check.equal:.3f} with equal weights, {check.weighted:.3f} with these"
    compared = f"On {labelled}: {change} ({_with_interval(check.difference, '+.3f')})."

    if _is_best_lightest(agreement, check):
        best = f"{clean(check.best)} (right in {check.agents[check.best]:.1%})"
        return f"{compared}\nThe best model, {best}, is the odd one out: do not use these weights."

    if check.difference[1] > 0:
        return f"{compared} They help."
    if _are_harmful(agreement, check):
        return f"{compared} They do harm here: do not use them."
    return f"{compared} No difference is shown.\n{harm}"
