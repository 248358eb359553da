"""Owns what `score` and `calibrate` do with files of labelled claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coe_agents.cli.inputs import load_quietly
from coe_agents.cli.options import Exit
from coe_agents.cli.terminal import clean, create_console, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.claims.labelled import JudgedClaims
    from coe_agents.claims.support import Support

ClaimsOption = Annotated[
    Literal["overlap", "entailment"] | None,
    typer.Option(
        "--claims",
        help="The samples are files of labelled claims (*.claims.jsonl). Who supports a claim: overlap compares words "
        "and needs no model; entailment asks the entailment model of --config.",
    ),
]


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
        _show(figures)


def _show(figures: Mapping[str, Any]) -> None:
    from rich.table import Table

    title = '"This claim is wrong", by the texts of the other agents'
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    kept = [*next(iter(figures["agents"].values()))["precision"]]
    within = any(of["auroc_within"] for of in figures["agents"].values())
    columns = ["agent", "claims", "wrong", "AUROC", *(["by its own samples"] if within else [])]
    for column in (*columns, *(f"{float(share):.0%}" for share in kept)):
        table.add_column(column, justify="left" if column == "agent" else "right", overflow="fold")
    for name, of in figures["agents"].items():
        found = [of["auroc"], *([of["auroc_within"]] if within else [])]
        shares = [f"{value:.3f}" for value in of["precision"].values()]
        wrong = f"{of['n_wrong'] / of['n_claims']:.3f}"
        table.add_row(clean(name), str(of["n_claims"]), wrong, *map(_estimate, found), *shares)
    create_console().print(table)
    print_lines("Intervals: 95 %, over entities. The last columns: how many are right among so many of most support.")


def _estimate(found: Sequence[float | None] | None) -> str:
    if found is None or found[0] is None:
        return "-"
    value, low, high = found
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def calibrate_on_claims(
    paths: Sequence[Path], claims: str, config: Path | None, out: Path, *, risk: float, confidence: float
) -> None:
    """Writes the policy that keeps the most claims at a stated risk."""
    from coe_agents.claims.calibrate import calibrate_claims

    judged, support = _judge(paths, claims, config)
    policy = calibrate_claims(judged, risk=risk, confidence=confidence, support=type(support).__name__)
    if policy is None or policy.calibration is None:
        of = quantity(len({each.entity for each in judged}), "question")
        print_lines(f"No threshold is shown to keep a risk of {risk:g} with confidence {confidence:g} on {of}.")
        print_lines(f"No policy was written to {clean(str(out))}. Raise --risk, or label more questions.")
        raise typer.Exit(Exit.FAILED)
    policy.save(out)
    print_lines(f"Keep claims with a support of at least {policy.min_support:.3g}: {policy.calibration}.")
    print_lines(f'Wrote {clean(str(out))}. To use it: Claims(policy=ClaimPolicy.load("{clean(out.name)}"))')


def _judge(paths: Sequence[Path], claims: str, config: Path | None) -> "tuple[list[JudgedClaims], Support]":
    from coe_agents.claims.labelled import SUFFIXES, are_claims, judge_labelled, read_labelled

    if not are_claims(paths):
        raise typer.BadParameter(f"with --claims they must be named *{SUFFIXES[0]}[.gz]", param_hint="'samples'")
    support = _create_support(claims, config)
    judged = list(judge_labelled(read_labelled(paths), support))
    if not judged:
        raise typer.BadParameter("at least one claim must have a label; got none", param_hint="'samples'")
    return judged, support


def _create_support(claims: str, config: Path | None) -> "Support":
    from coe_agents.claims.support import EntailedBy, Overlap

    if claims == "overlap":
        return Overlap()
    from coe_agents.clustering import BidirectionalEntailment
    from coe_agents.config.build import create_clusterer

    found = load_quietly(config)
    clusterer = None if found is None else create_clusterer(found)
    if not isinstance(clusterer, BidirectionalEntailment):
        message = "entailment needs a --config whose [clusterer] has an entailment model"
        raise typer.BadParameter(message, param_hint="--claims")
    return EntailedBy(clusterer.model)
