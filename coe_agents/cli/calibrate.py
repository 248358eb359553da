"""Owns the command `calibrate`: the threshold for a stated risk, from labels, or from what people ruled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents import _ring
from coe_agents.checks import number
from coe_agents.cli.inputs import as_options, judging_arguments, open_samples
from coe_agents.cli.options import (
    ClaimsOption,
    Exit,
    PolicyEstimatorOption,
    ProposerOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import clean, counts_questions, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.experiments.calibrating import CalibrationResult
    from coe_agents.measurement.weighted_vote import WeightsFrom

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
    from coe_agents.experiments.calibrating import TO_JUDGE, calibrate_samples

    weights = _read_weights(options.weights)
    with open_samples(samples, scoring) as questions, as_options():
        result = calibrate_samples(
            questions,
            risk=options.risk,
            confidence=options.confidence,
            score=options.score,
            weights=weights,
            proposer=options.proposer,
            halves=options.halves,
            progress=counts_questions(),
            **judging_arguments(scoring),
        )
    rows = result.rows
    if result.is_usable:
        result.policy.save(options.out)
    _print_calibration(result)
    n_unjudged = len(rows) - rows.n_judged
    for n_skipped, lacking in ((n_unjudged, "verdict"), (rows.n_silent, TO_JUDGE)):
        if n_skipped:
            skipped = quantity(
                n_skipped,
                f"question without a {lacking} was",
                f"questions without a {lacking} were",
            )
            print_lines(f"{skipped} skipped.")
    for note in result.notes:
        print_lines(note)
    if not result.is_usable:
        end_without_policy(options.out)
    of_graph = ""
    if not isinstance(weights, str):
        of_graph = f', and [graph] weights = "{clean(Path(str(options.weights)).name)}"'
    print_use(options.out, of_graph)


def _read_weights(name: str | None) -> "Mapping[str, float] | WeightsFrom":
    from coe_agents.measurement.weighted_vote import WEIGHTS_FROM
    from coe_agents.policy import AgentWeights

    for weights_from in WEIGHTS_FROM:
        if name in (None, weights_from):
            return weights_from
    return AgentWeights.load(str(name)).weights


def _print_calibration(result: "CalibrationResult") -> None:
    calibration = result.policy.calibration
    print_lines("\n".join(map(clean, calibration.statements())))
    if calibration.proposer is not None:
        _print_disagreement(
            [row.measurement.proposals.by_agent for row in result.rows], calibration.proposer
        )
    if not result.is_usable:
        print_lines(result.shortfall)
    print_lines("\n".join(map(clean, calibration.remarks())))


def end_without_policy(out: Path) -> None:
    """Ends the command where no threshold keeps the risk; nothing was written."""
    kept = (
        "the former file stays as it was"
        if out.exists()
        else "no threshold is shown to keep the risk"
    )
    print_lines(f"No policy was written to {clean(str(out))}: {kept}.")
    raise typer.Exit(Exit.FAILED)


def print_use(out: Path, of_graph: str = "") -> None:
    """Says how to use the policy that was written; `of_graph` is what [graph] must say besides."""
    use = f'[policy] kind = "calibrated", path = "{clean(out.name)}"{of_graph}'
    print_lines(f"Wrote {clean(str(out))}. To use it: {use}")


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
