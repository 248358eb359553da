"""Owns the command `calibrate`: the threshold for a stated risk, from labels, or from what people ruled."""

from collections.abc import Mapping, Sequence
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
    from coe_agents.evaluation.calibration.risk_control import Shortfall
    from coe_agents.measurement.weighted_vote import WeightsFrom
    from coe_agents.policy.calibrated import Calibration, GroupThreshold

_TO_JUDGE = "response to judge"
_RARE, _ENOUGH, _LISTED = 0.1, 20, 5
"""The share of agreement up to which an argument is listed, its fewest comparisons, and the most that are listed."""


@expand_options
def calibrate(
    samples: SamplesArgument,
    risk: Annotated[
        float,
        typer.Option(
            help="Highest acceptable share of wrong answers among those given, in (0, 1)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write the policy, as JSON.")],
    scoring: ScoringOptions,
    confidence: Annotated[
        float, typer.Option(help="Probability that the risk is kept, in (0, 1).")
    ] = 0.9,
    score: Annotated[
        str | None,
        typer.Option(
            help="What is compared with the threshold: vote_share, confidence_vote_share, trusted_vote_share, coe, or "
            "another score of `score` that needs nothing but the responses; or an estimator of yours, as "
            "package.module:name, whose code is run. Default: vote_share, and with --proposer support.",
            show_default=False,
        ),
    ] = None,
    halves: Annotated[
        bool,
        typer.Option(
            "--halves",
            help="With weights that are fitted: fit them on one half and choose the threshold on the other. The risk "
            "is then guaranteed, but each half has less data.",
        ),
    ] = False,
    proposer: ProposerOption = None,
    claims: ClaimsOption = None,
    current: Annotated[
        Path | None,
        typer.Option(
            help="The policy in use, whose threshold is chosen again on samples of harvest. It is never raised without "
            "audits; what measures the uncertainty stays."
        ),
    ] = None,
    estimator: PolicyEstimatorOption = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="equal; agreement, by how far the agents agree with each other; learned, from the labels; or a file "
            "of the agents' weights, which [graph] weights then names, too.",
            show_default="equal",
        ),
    ] = None,
) -> None:
    """Choose the threshold that answers the most questions at a stated risk of wrong answers.

    It is chosen on saved responses that are labelled right or wrong, or that have reference answers. With --proposer it
    is one on the other agents' support of what this agent proposes: each tool that has enough samples gets its own, and
    so does calling none. With --claims it is the support from which on a claim of a long answer is kept; the risk is
    then the mean share of wrong claims among the kept, over questions.
    """
    from coe_agents.evaluation import calibrate as calibrate_rows
    from coe_agents.evaluation.calibration.calibrate import nearest
    from coe_agents.evaluation.origin import origin_of
    from coe_agents.evaluation.scoring.correctness import inside_in_words

    _check_options(risk, confidence, estimator, current)
    if claims is not None:
        calibrate_on_claims = _ring.load("claims.command:calibrate_on_claims")
        calibrate_on_claims(samples, claims, scoring.config, out, risk=risk, confidence=confidence)
        return
    if current is not None:
        if score is not None or proposer is not None or weights is not None:
            message = (
                "it cannot be combined with --score, --proposer or --weights: what is judged stays"
            )
            raise typer.BadParameter(message, param_hint="--current")
        recalibrate = _ring.load("rulings.command:recalibrate_policy")
        recalibrate(samples, scoring, current, estimator, out, risk=risk, confidence=confidence)
        return
    used = _read_weights(weights)
    score, chooses_answer = _check_scoring(score, used, proposer=proposer, halves=halves)
    setting, judging = create_setting(scoring, samples)
    of_agents = None if isinstance(used, str) else used
    rows, n_silent = judge_saved(
        samples,
        setting,
        every_cluster=chooses_answer,
        proposer=proposer,
        weights=of_agents,
        score=score,
    )
    check_proposer(proposer, {name for row in rows for name in row.measurement.agents})
    _check_weights(of_agents, {name for row in rows for name in row.measurement.agents})
    n_unjudged = sum(row.correct is None for row in rows)
    if n_unjudged == len(rows):
        found = f"{len(rows) + n_silent}, {n_silent} of these without a {_TO_JUDGE}"
        message = f"at least one question must have a verdict; got none of {found}. Add references or labels"
        raise typer.BadParameter(message, param_hint="'samples'")
    policy = calibrate_rows(
        rows,
        risk=risk,
        confidence=confidence,
        score=score,
        halves=halves,
        proposer=proposer,
        clusterer=type(setting.clusterer).__name__,
        correctness=setting.criterion.name,
        weights=used,
        origin=origin_of(samples),
    )
    calibration = policy.calibration
    is_found = any(group.threshold is not None for group in calibration.groups)
    if is_found:
        policy.save(out)
    if proposer is not None:
        _print_support(calibration)
        _print_disagreement([row.measurement.proposals.by_agent for row in rows], proposer)
    else:
        print_lines(_threshold_in_words(calibration))
    if not is_found:
        print_lines(_shortfall_in_words(nearest(calibration, rows), calibration.risk))
    _print_remarks(calibration)
    _print_skipped(n_unjudged, n_silent)
    print_lines(judging.note())
    print_lines(
        inside_in_words(
            sum(row.is_inside for row in rows), len(rows) - n_unjudged, setting.criterion.name
        )
    )
    if not is_found:
        end_without_policy(out)
    graph = (
        "" if of_agents is None else f', and [graph] weights = "{clean(Path(str(weights)).name)}"'
    )
    print_lines(f'Wrote {out}. To use it: [policy] kind = "calibrated", path = "{out.name}"{graph}')


def _print_skipped(n_unjudged: int, n_silent: int) -> None:
    for n, lacking in ((n_unjudged, "verdict"), (n_silent, _TO_JUDGE)):
        if n:
            skipped = quantity(
                n, f"question without a {lacking} was", f"questions without a {lacking} were"
            )
            print_lines(f"{skipped} skipped.")


def _check_scoring(
    score: str | None,
    weights: "Mapping[str, float] | WeightsFrom",
    *,
    proposer: str | None,
    halves: bool,
) -> tuple[str, bool]:
    """Returns the score, and whether it chooses the answer, so that each cluster must be judged."""
    from coe_agents.evaluation.calibration.calibrate import check_score, check_weights_from
    from coe_agents.measurement.weighted_vote import CONFIDENCE_VOTE_SHARE

    try:
        score = check_score(score, proposer)
    except ValueError as error:
        raise typer.BadParameter(clean(str(error)), param_hint="--score") from error
    try:
        weights_from = check_weights_from(weights, score=score, halves=halves)
    except ValueError as error:
        hint = "--halves" if halves else "--weights"
        raise typer.BadParameter(clean(str(error)), param_hint=hint) from error
    return score, proposer is None and (score == CONFIDENCE_VOTE_SHARE or weights_from != "equal")


def _read_weights(given: str | None) -> "Mapping[str, float] | WeightsFrom":
    from coe_agents.measurement.weighted_vote import WEIGHTS_FROM
    from coe_agents.policy import AgentWeights

    for name in WEIGHTS_FROM:
        if given in (None, name):
            return name
    return AgentWeights.load(str(given)).weights


def _check_weights(weights: Mapping[str, float] | None, names: set[str]) -> None:
    if weights is not None and (different := sorted(names ^ weights.keys())):
        message = f'the file must name the agents of the samples; only one of the two has "{clean(different[0], 80)}"'
        raise typer.BadParameter(message, param_hint="--weights")


def _check_options(
    risk: float, confidence: float, estimator: str | None, current: Path | None
) -> None:
    if estimator is not None and current is None:
        raise typer.BadParameter(
            "it needs --current. Name a new score with --score", param_hint="--estimator"
        )
    for name, share in (("--risk", risk), ("--confidence", confidence)):
        try:
            number(share, "it", above=0, below=1, advice="Pass a share such as 0.1")
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=name) from error


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
    found = f"{near.n_wrong} wrong, which shows a risk of at most {near.bound:.1%}"
    least = f"Nearest are the {near.n_surest} surest: {found}."
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
    risk, confidence = f"{calibration.risk:g}", f"{calibration.confidence:g}"
    tools = sorted(calibration.tools.items())
    has_calls = bool(tools or calibration.no_call)
    others = "calls of all other tools" if tools else "calls" if has_calls else "proposals"
    groups: list[tuple[str, Calibration | GroupThreshold]] = [
        (f'calls of "{name}"', own) for name, own in tools
    ]
    groups += [(others, calibration)] if calibration.n_questions else []
    groups += [("proposals that call nothing", calibration.no_call)] if calibration.no_call else []
    for what, own in groups:
        if own.threshold is None:
            print_lines(
                f"{what[0].upper()}{what[1:]}: no threshold keeps a risk of {risk} with confidence {confidence} on "
                f"{own.n_questions} of them; none passes."
            )
            continue
        counts, limit = (
            _counts(own, str(own.n_questions)),
            calibration.limit_in_words(own.threshold),
        )
        print_lines(
            f"{what[0].upper()}{what[1:]} pass where {limit}: {counts} with confidence {confidence})."
        )
    if len(groups) > 1:
        print_lines(
            f"Each of these {len(groups)} statements holds with confidence {confidence} by itself."
        )


def _print_disagreement(groups: Sequence[Mapping[str, str]], proposer: str) -> None:
    """Prints the arguments that almost never agree: hardly any call with one of them has support."""
    from coe_agents.actions.proposals import argument_agreement

    found = argument_agreement(groups, proposer).items()
    rare = [
        f'"{clean(path, 80)}" in {share:.1%} of {n}'
        for path, (share, n) in found
        if share <= _RARE and n >= _ENOUGH
    ]
    if rare:
        rule = 'compare = { "tool.argument" = "text" }'
        print_lines(
            f"Arguments on which the others almost never agree with {clean(proposer)}: {', '.join(rare[:_LISTED])}. To "
            f"compare one less strictly, give it a rule in the clusterer's options, such as {rule}."
        )
