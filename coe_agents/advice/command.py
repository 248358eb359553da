"""Owns the commands `advise` and `weights`: what to do with a group, and whom to trust, from its own samples."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.inputs import create_setting, judge_saved
from coe_agents.cli.options import (
    Exit,
    JsonOption,
    ResamplesOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.advice.advice import Advice, Difference, TrustCheck
    from coe_agents.evaluation.calibration.calibrate import Judged
    from coe_agents.evaluation.scoring.scores import ScoringSetup
    from coe_agents.measurement.weighted_vote import Agreement
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.policy.calibrated import Calibration

_POLICY_RISKS, _CONFIDENCE = (0.05, 0.1, 0.2, 0.3), 0.9
"""The policy keeps the lowest of these risks that can be shown, each tested at the fourth part of what may fail."""
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
    threshold answers, what escalation brings and what more labels would. It takes 50 labelled questions or more. Every
    figure is out of fold, and what is compared is adjusted for the number of comparisons. The policy's bound is
    empirical: the labels that it is calibrated on also chose its score and weights.
    """
    from coe_agents.advice.advice import advise as advise_on

    setting, judging = create_setting(scoring, samples)
    rows, _ = judge_saved(samples, setting, every_cluster=True)
    found = advise_on(rows, n_resamples=resamples)
    policy = _calibrate(samples, setting, rows, found)
    calibration = None if policy is None else policy.calibration
    if as_json:
        chosen = calibration and {name: getattr(calibration, name) for name in _OF_POLICY}
        print_json(
            {
                **_plain(asdict(found)),
                "useless": found.useless,
                "policy": chosen,
                "judged": judging.to_json(),
            }
        )
    else:
        print_lines("\n".join(_in_words(found, calibration)))
        print_lines(judging.note())
    if out is None:
        return
    if policy is None:
        print_lines(
            f"No policy was written to {clean(str(out))}: it would never answer.", to_stderr=as_json
        )
        raise typer.Exit(Exit.FAILED)
    policy.save(out)
    use = f'[policy] kind = "calibrated", path = "{clean(out.name)}"'
    print_lines(f"Wrote {clean(str(out))}. To use it: {use}", to_stderr=as_json)


def _calibrate(
    samples: list[Path], setting: "ScoringSetup", rows: "list[Judged]", found: "Advice"
) -> "CalibratedPolicy | None":
    """Returns the advised policy at the lowest risk that it can be shown to keep; None if at none."""
    from coe_agents.evaluation import calibrate
    from coe_agents.evaluation.origin import origin_of

    for risk in _POLICY_RISKS:
        policy = calibrate(
            rows,
            risk=risk,
            confidence=1.0 - (1.0 - _CONFIDENCE) / len(_POLICY_RISKS),
            score=found.score,
            clusterer=type(setting.clusterer).__name__,
            correctness=setting.criterion.name,
            weights=found.weights,
            origin=origin_of(samples),
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
    return None if isinstance(value, float) and math.isnan(value) else value


def _in_words(found: "Advice", calibration: "Calibration | None") -> list[str]:
    """Returns the ten lines."""
    tables = (found.score_gains, found.weight_gains, found.confidence_gains)
    scores, weights, known = (
        "; ".join(f"{clean(name)} {_difference(gain)}" for name, gain in table.items())
        for table in tables
    )
    helps = any(gain.value > 0.0 and gain.p < 0.05 for gain in found.confidence_gains.values())
    order = ", ".join(f"{clean(name)} {nats:+.3f}" for name, nats in found.order)
    useless = ", ".join(map(clean, found.useless)) or "none"
    absent = ", ".join(
        f"without {clean(name)} {_difference(change)}" for name, change in found.without.items()
    )
    fewer = [
        f"with {n} AUROC {each['auroc'].value:+.3f}, accuracy {each['accuracy'].value:+.3f}"
        for n, each in found.sample_losses.items()
        if n < max(found.sample_losses)
    ]
    samples = (
        f"{found.n_samples} of each agent suffice; {'; '.join(fewer)}"
        if fewer
        else "each agent gave one"
    )
    realised = {
        risk: "none" if math.isnan(share) else f"{share:.1%}"
        for risk, share in found.realised.items()
    }
    coverage = [
        f"{value:.1%} [{low:.1%}, {high:.1%}] at {risk:.0%} wrong (then {realised[risk]} were)"
        for risk, (value, low, high) in found.coverage.items()
    ]
    accuracy, low, high = found.accuracy
    gain, least, most = found.escalation_gain
    right, labels = (
        f"{accuracy:.1%} [{low:.1%}, {high:.1%}]",
        quantity(3 * found.n_questions, "more label"),
    )
    fifth = (
        f"the group is right in {found.escalated_right:.1%} of the fifth with the lowest vote share"
    )
    expert = f"an expert brings {gain:+.1%} [{least:+.1%}, {most:+.1%}] of accuracy"
    verdict = "it helps" if helps else "no gain is shown"
    shown = f"{verdict}. AUROC with it: {known}" if known else "the samples have none"
    return [
        f"{quantity(found.n_questions, 'labelled question')}; the group is right in {right}.",
        f"Score: {clean(found.score)}. AUROC of vote_share {found.scores['vote_share']:.3f}; {scores}.",
        f"Weights: {found.weights}. Accuracy against equal weights: {weights}.",
        f"Confidence: {shown}.",
        f"Agents that add nothing: {useless}. Accuracy {absent or 'of one agent cannot be compared'}.",
        f"What each adds to those before it, in nats: {order}.",
        f"Samples: {samples}.",
        f"Coverage: {'; '.join(coverage)}.",
        f"Escalation: {fifth}; {expert}.",
        f"Labels: {labels} would halve these intervals. {_policy(calibration)}",
    ]


def _policy(calibration: "Calibration | None") -> str:
    if calibration is None:
        return f"Policy: none, no risk of {_POLICY_RISKS[-1]:.0%} or less can be shown with confidence {_CONFIDENCE:g}."
    share = calibration.n_answered / calibration.n_questions
    return (
        f"Policy: risk {calibration.risk:.0%} with confidence {_CONFIDENCE:g}, answers {share:.1%}. This bound is "
        "empirical, since the same labels chose the score and the weights: for a guarantee, calibrate on other labels."
    )


def _difference(gain: "Difference") -> str:
    return f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], p {gain.p:.2g}"


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
    from coe_agents.policy import AgentWeights, agreement_weights

    setting, judging = create_setting(scoring, samples)
    rows, _ = judge_saved(samples, setting, every_cluster=True)
    found = agreement_weights([row.measurement for row in rows], n_resamples=resamples)
    check = check_weights(rows, found.weights, n_resamples=resamples)
    if out is not None:
        AgentWeights(found.weights).save(out)
    if as_json:
        compared = None if check is None else asdict(check)
        more = {"odd_one_out": found.odd_one_out, "check": compared, "judged": judging.to_json()}
        print_json({**asdict(found), **more})
        return
    questions = quantity(found.n_questions, "question")
    print_lines(f"Weights of {len(found.weights)} agents, on {questions}, no labels used:")
    for name, weight in sorted(found.weights.items(), key=lambda item: -item[1]):
        low, high = found.intervals[name]
        print_lines(
            f"{name}: {weight:.3f} [{low:.3f}, {high:.3f}], agreement {found.agreement[name]:.3f}"
        )
    print_lines(_caution(found, check))
    print_lines(judging.note())
    if out is not None:
        print_lines(f'Wrote {clean(str(out))}. To use it: [graph] weights = "{clean(out.name)}"')


def _caution(found: "Agreement", check: "TrustCheck | None") -> str:
    """Returns what the labels say, or else in which case the weights do harm."""
    odd = found.odd_one_out
    named = (
        "" if odd is None else f" Here {clean(odd)} agrees far less than the others with the rest."
    )
    case = f"These weights do harm where the best model is the odd one out.{named}"
    if check is None:
        return f"{case} Whether that is so, only labels can tell: label some questions, and run this again."
    value, low, high = check.difference
    change = f"accuracy {check.equal:.3f} with equal weights, {check.weighted:.3f} with these"
    labelled, difference = (
        quantity(check.n_labelled, "labelled question"),
        f"{value:+.3f} [{low:+.3f}, {high:+.3f}]",
    )
    compared = f"On {labelled}: {change} ({difference})."
    if (
        min(found.weights, key=lambda name: found.weights[name]) == check.best
        and len(found.weights) > 2
    ):
        best = f"{clean(check.best)} (right in {check.agents[check.best]:.1%})"
        return f"{compared}\nThe best model, {best}, is the odd one out: do not use these weights."
    if high < 0 or low > 0:
        return f"{compared} {'They help.' if low > 0 else 'They do harm here: do not use them.'}"
    return f"{compared} No difference is shown.\n{case}"
