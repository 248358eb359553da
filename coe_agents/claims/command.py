"""Owns what `score` and `calibrate` do with files of labelled claims."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from coe_agents.cli.inputs import load_quietly
from coe_agents.cli.options import Exit
from coe_agents.cli.terminal import clean, create_console, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.claims.calibrate import JudgedClaims
    from coe_agents.claims.support import Support


def show_claim_scores(
    paths: Sequence[Path], claims: str, config: Path | None, *, n_resamples: int, as_json: bool
) -> None:
    """Prints how well the support of the other agents tells wrong claims from right ones."""
    from coe_agents.claims.calibrate import claim_figures

    judged, _ = _judge(paths, claims, config)
    figures = {"support": claims, **claim_figures(judged, n_resamples=n_resamples)}
    if as_json:
        print_json(figures)
    else:
        from coe_agents.experiments.tables import show_claim_figures

        show_claim_figures(create_console(), figures)


def calibrate_on_claims(
    paths: Sequence[Path],
    claims: str,
    config: Path | None,
    out: Path,
    *,
    risk: float,
    confidence: float,
) -> None:
    """Writes the policy that keeps the most claims at a stated risk."""
    from coe_agents.claims.calibrate import calibrate_claims

    judged, support = _judge(paths, claims, config)
    policy = calibrate_claims(
        judged, risk=risk, confidence=confidence, support=type(support).__name__
    )
    if policy is None or policy.calibration is None:
        of = quantity(len({each.entity for each in judged}), "question")
        print_lines(
            f"No threshold is shown to keep a risk of {risk:g} with confidence {confidence:g} on {of}."
        )
        print_lines(
            f"No policy was written to {clean(str(out))}. Raise --risk, or label more questions."
        )
        raise typer.Exit(Exit.FAILED)
    policy.save(out)
    print_lines(
        f"Keep claims with a support of at least {policy.min_support:.3g}: {policy.calibration}."
    )
    print_lines(
        f'Wrote {clean(str(out))}. To use it: Claims(policy=ClaimPolicy.load("{clean(out.name)}"))'
    )


def _judge(
    paths: Sequence[Path], claims: str, config: Path | None
) -> "tuple[list[JudgedClaims], Support]":
    from coe_agents.claims.calibrate import SUFFIXES, are_claims, judge_labelled, read_labelled
    from coe_agents.claims.support import EntailedBy, Overlap

    if not are_claims(paths):
        raise typer.BadParameter(
            f"with --claims they must be named *{SUFFIXES[0]}[.gz], or be passages of SelfCheckGPT",
            param_hint="'samples'",
        )
    support: Support = Overlap()
    if claims == "entailment":
        from coe_agents.clustering import BidirectionalEntailment
        from coe_agents.config.build import create_clusterer

        found = load_quietly(config)
        clusterer = None if found is None else create_clusterer(found)
        if not isinstance(clusterer, BidirectionalEntailment):
            message = "entailment needs a --config whose [clusterer] has an entailment model"
            raise typer.BadParameter(message, param_hint="--claims")
        support = EntailedBy(clusterer.model)
    judged = list(judge_labelled(read_labelled(paths), support))
    if not judged:
        raise typer.BadParameter(
            "at least one claim must have a label; got none", param_hint="'samples'"
        )
    return judged, support
