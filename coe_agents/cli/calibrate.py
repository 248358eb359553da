"""Owns the command `calibrate`: the threshold for a stated risk, from labels, or from what people ruled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents import _ring
from coe_agents.checks import number
from coe_agents.cli.inputs import check_proposer, create_setting, judge_saved
from coe_agents.cli.options import (
    ClaimsOption,
    Exit,
    PolicyEstimatorOption,
    ProposerOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import clean, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.evaluation.calibration.calibrate import Judged
    from coe_agents.evaluation.calibration.risk_control import Shortfall
    from coe_agents.measurement.weighted_vote import WeightsFrom
    from coe_agents.policy.calibrated import Calibration, GroupThreshold

_TO_JUDGE = "response to judge"
_RARE, _ENOUGH, _LISTED = 0.1, 20, 5
"""The share of agreement up to which an argument is listed, its fewest comparisons, and the most that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOptions:
    """What is calibrated, and how."""

    risk: Annotated[
        float,
        typer.Option(
            help="Highest acceptable share of wrong answers among those given, in (0, 1)."
        ),
    ]
    out: Annotated[Path, typer.Option(help="Where to write the policy, as JSON.")]
    confidence: Annotated[
        float, typer.Option(help="Probability that the risk is kept, in (0, 1).")
    ] = 0.9
    score: Annotated[
        str | None,
        typer.Option(
            help="What is compared with the threshold: vote_share, confidence_vote_share, trusted_vote_share, coe, or "
            "another score of `score` that needs nothing but the responses; or an estimator of yours, as "
            "package.module:name, whose code is run. Default: vote_share, and with --proposer support.",
            show_default=False,
        ),
    ] = None
    halves: Annotated[
        bool,
        typer.Option(
            "--halves",
            help="With weights that are fitted: fit them on one half and choose the threshold on the other. The risk "
            "is then guaranteed, but each half has less data.",
        ),
    ] = False
    proposer: ProposerOption = None
    claims: ClaimsOption = None
    current: Annotated[
        Path | None,
        typer.Option(
            help="The policy in use, whose threshold is chosen again on samples of harvest. It is never raised without "
            "audits; what measures the uncertainty stays."
        ),
    ] = None
    estimator: PolicyEstimatorOption = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="equal; agreement, by how far the agents agree with each other; learned, from the labels; or a file "
            "of the agents' weights, which [graph] weights then names, too.",
            show_default="equal",
        ),
    ] = None


@expand_options
def calibrate(
    samples: SamplesArgument, options: CalibrationOptions, scoring: ScoringOptions
) -> None:
    """Choose the threshold that answers the most questions at a stated risk of wrong answers.

    It is chosen on saved responses that are labelled right or wrong, or that have reference answers. With --proposer it
    is one on the other agents' support of what this agent proposes: each tool that has enough samples gets its own, and
    so does calling none. With --claims it is the support from which on a claim of a long answer is kept; the risk is
    then the mean share of wrong claims among the kept, over questions.
    """
    if options.estimator is not None and options.current is None:
        raise typer.BadParameter(
            "it needs --current. Name a new score with --score", param_hint="--estimator"
        )
    for name, share in (("--risk", options.risk), ("--confidence", options.confidence)):
        try:
            number(share, "it", above=0, below=1, advice="Pass a share such as 0.1")
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=name) from error
    risk: dict[str, float] = {"risk": options.risk, "confidence": options.confidence}
    if options.claims is not None:
        calibrate_on_claims = _ring.load("claims.command:calibrate_on_claims")
        calibrate_on_claims(samples, options.claims, scoring.config, options.out, **risk)
    elif options.current is not None:
        if (options.score, options.proposer, options.weights) != (None, None, None):
            message = (
                "it cannot be combined with --score, --proposer or --weights: what is judged stays"
            )
            raise typer.BadParameter(message, param_hint="--current")
        recalibrate = _ring.load("rulings.command:recalibrate_policy")
        recalibrate(samples, scoring, options.current, options.estimator, options.out, **risk)
    else:
        _choose_threshold(samples, scoring, options)


def _choose_threshold(
    samples: list[Path], scoring: ScoringOptions, options: CalibrationOptions
) -> None:
    from coe_agents.evaluation import calibrate as calibrate_rows
    from coe_agents.evaluation.origin import origin_of
    from coe_agents.evaluation.scoring.correctness import inside_in_words

    proposer = options.proposer
    weights = _read_weights(options.weights)
    of_file = None if isinstance(weights, str) else weights
    score, chooses_answer = _check_scoring(options, weights)
    setting, judging = create_setting(scoring, samples)
    rows, n_silent = judge_saved(
        samples,
        setting,
        scoring,
        every_cluster=chooses_answer,
        proposer=proposer,
        weights=of_file,
        score=score,
    )
    n_judged = _check_rows(rows, n_silent, proposer=proposer, weights=of_file)
    policy = calibrate_rows(
        rows,
        risk=options.risk,
        confidence=options.confidence,
        score=score,
        halves=options.halves,
        proposer=proposer,
        clusterer=type(setting.clusterer).__name__,
        correctness=setting.criterion.name,
        weights=weights,
        origin=origin_of(samples),
    )
    is_usable = any(group.threshold is not None for group in policy.calibration.groups)
    if is_usable:
        policy.save(options.out)
    _print_calibration(policy.calibration, rows, is_usable=is_usable)
    for n_skipped, lacking in ((len(rows) - n_judged, "verdict"), (n_silent, _TO_JUDGE)):
        if n_skipped:
            skipped = quantity(
                n_skipped,
                f"question without a {lacking} was",
                f"questions without a {lacking} were",
            )
            print_lines(f"{skipped} skipped.")
    print_lines(judging.note())
    n_inside = sum(row.is_inside for row in rows)
    print_lines(inside_in_words(n_inside, n_judged, setting.criterion.name))
    if not is_usable:
        end_without_policy(options.out)
    of_graph = ""
    if of_file is not None:
        of_graph = f', and [graph] weights = "{clean(Path(str(options.weights)).name)}"'
    print_use(options.out, of_graph)


def _read_weights(name: str | None) -> "Mapping[str, float] | WeightsFrom":
    from coe_agents.measurement.weighted_vote import WEIGHTS_FROM
    from coe_agents.policy import AgentWeights

    for weights_from in WEIGHTS_FROM:
        if name in (None, weights_from):
            return weights_from
    return AgentWeights.load(str(name)).weights


def _check_scoring(
    options: CalibrationOptions, weights: "Mapping[str, float] | WeightsFrom"
) -> tuple[str, bool]:
    """Returns the score, and whether it chooses the answer, so that each cluster must be judged."""
    from coe_agents.evaluation.calibration.calibrate import check_score, check_weights_from
    from coe_agents.measurement.weighted_vote import CONFIDENCE_VOTE_SHARE

    try:
        score = check_score(options.score, options.proposer)
    except ValueError as error:
        raise typer.BadParameter(clean(str(error)), param_hint="--score") from error
    try:
        weights_from = check_weights_from(weights, score=score, halves=options.halves)
    except ValueError as error:
        hint = "--halves" if options.halves else "--weights"
        raise typer.BadParameter(clean(str(error)), param_hint=hint) from error
    is_weighed = score == CONFIDENCE_VOTE_SHARE or weights_from != "equal"
    return score, is_weighed and options.proposer is None


def _check_rows(
    rows: "list[Judged]",
    n_silent: int,
    *,
    proposer: str | None,
    weights: Mapping[str, float] | None,
) -> int:
    """Returns how many of the questions have a verdict, one at least."""
    names = {name for row in rows for name in row.measurement.agents}
    check_proposer(proposer, names)
    if weights is not None and (different := sorted(names ^ weights.keys())):
        message = f'the file must name the agents of the samples; only one of the two has "{clean(different[0], 80)}"'
        raise typer.BadParameter(message, param_hint="--weights")
    n_judged = sum(row.correct is not None for row in rows)
    if not n_judged:
        counts = f"{len(rows) + n_silent}, {n_silent} of these without a {_TO_JUDGE}"
        message = f"at least one question must have a verdict; got none of {counts}. Add references or labels"
        raise typer.BadParameter(message, param_hint="'samples'")
    return n_judged


def _print_calibration(
    calibration: "Calibration", rows: "list[Judged]", *, is_usable: bool
) -> None:
    from coe_agents.evaluation.calibration.calibrate import nearest

    if calibration.proposer is None:
        print_lines(_threshold_in_words(calibration))
    else:
        _print_support(calibration)
        _print_disagreement(
            [row.measurement.proposals.by_agent for row in rows], calibration.proposer
        )
    if not is_usable:
        print_lines(_shortfall_in_words(nearest(calibration, rows), calibration.risk))
    _print_remarks(calibration)


def _threshold_in_words(calibration: "Calibration") -> str:
    questions, risk = quantity(calibration.n_questions, "question"), f"{calibration.risk:g}"
    confidence = f"confidence {calibration.confidence:g}"
    if calibration.threshold is None:
        return f"No threshold is shown to keep a risk of {risk} with {confidence} on {questions}."
    limit = calibration.limit_in_words(calibration.threshold)
    return f"Answer where {limit}: {_counts(calibration, questions)} with {confidence})."


def _shortfall_in_words(near: "Shortfall | None", risk: float) -> str:
    if near is None:
        return "No question has an answer that could be given."
    shown = f"{near.n_wrong} wrong, which shows a risk of at most {near.bound:.1%}"
    least = f"Nearest are the {near.n_surest} surest: {shown}."
    if near.bound <= risk:
        least += " But that set is chosen by its errors, and does not count: the search begins with another number."
    if near.n_more is None:
        return f"{least} They err too often for that risk, whatever the number of questions: raise --risk."
    more = quantity(near.n_more, "more labelled question")
    return f"{least} About {more} like these would show it; or raise --risk."


def end_without_policy(out: Path) -> None:
    """Ends the command where no threshold keeps the risk; nothing was written."""
    kept = "the former file stays as it was" if out.exists() else "it would never answer"
    print_lines(f"No policy was written to {clean(str(out))}: {kept}.")
    raise typer.Exit(Exit.FAILED)


def print_use(out: Path, of_graph: str = "") -> None:
    """Says how to use the policy that was written; `of_graph` is what [graph] must say besides."""
    use = f'[policy] kind = "calibrated", path = "{clean(out.name)}"{of_graph}'
    print_lines(f"Wrote {clean(str(out))}. To use it: {use}")


def _counts(of: "Calibration | GroupThreshold", questions: str) -> str:
    share, wrong = of.n_answered / of.n_questions, of.n_wrong / of.n_answered
    return f"{of.n_answered} of {questions} ({share:.1%}), {of.n_wrong} wrong ({wrong:.1%}; at most {of.bound:.1%}"


def _print_remarks(calibration: "Calibration") -> None:
    if calibration.trust is not None:
        shares = ", ".join(
            f"{clean(name)} {weight:.2f}" for name, weight in sorted(calibration.trust.items())
        )
        what = "The answer is chosen" if calibration.chooses_answer else "The score is computed"
        print_lines(f"{what} with these weights: {shares}.")
    if calibration.fit == "whole" and calibration.threshold is not None:
        print_lines(
            "The bound is empirical: the questions that chose the threshold also gave the weights. For a guarantee: "
            "--halves."
        )
    if calibration.n_ties:
        print_lines(f"Questions with a tied lead, which are never answered: {calibration.n_ties}.")


def _print_support(calibration: "Calibration") -> None:
    """Prints a statement on each kind of proposal: of each tool with enough samples, the others, and no call."""
    tools = sorted(calibration.tools.items())
    groups: list[tuple[str, Calibration | GroupThreshold]] = []
    for name, threshold in tools:
        groups.append((f'Calls of "{name}"', threshold))
    if calibration.n_questions:
        others = "Proposals"
        if tools:
            others = "Calls of all other tools"
        elif calibration.no_call:
            others = "Calls"
        groups.append((others, calibration))
    if calibration.no_call:
        groups.append(("Proposals that call nothing", calibration.no_call))

    confidence = f"confidence {calibration.confidence:g}"
    for kind, group in groups:
        if group.threshold is None:
            risk = f"no threshold keeps a risk of {calibration.risk:g} with {confidence}"
            print_lines(f"{kind}: {risk} on {group.n_questions} of them; none passes.")
        else:
            limit = calibration.limit_in_words(group.threshold)
            counts = _counts(group, str(group.n_questions))
            print_lines(f"{kind} pass where {limit}: {counts} with {confidence}).")
    if len(groups) > 1:
        print_lines(f"Each of these {len(groups)} statements holds with {confidence} by itself.")


def _print_disagreement(groups: Sequence[Mapping[str, str]], proposer: str) -> None:
    """Prints the arguments that almost never agree: hardly any call with one of them has support."""
    from coe_agents.actions.proposals import argument_agreement

    rare = []
    for path, (share, n_compared) in argument_agreement(groups, proposer).items():
        if share <= _RARE and n_compared >= _ENOUGH:
            rare.append(f'"{clean(path, 80)}" in {share:.1%} of {n_compared}')
    if rare:
        rule = 'compare = { "tool.argument" = "text" }'
        print_lines(
            f"Arguments on which the others almost never agree with {clean(proposer)}: {', '.join(rare[:_LISTED])}. To "
            f"compare one less strictly, give it a rule in the clusterer's options, such as {rule}."
        )
