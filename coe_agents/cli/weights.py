"""Owns the command `weights`: trust in the agents without labels, and a check of it on whatever labels there are."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents.cli.inputs import create_setting, judge_saved
from coe_agents.cli.options import JsonOption, ResamplesOption, SamplesArgument, ScoringOptions, expand_options
from coe_agents.cli.terminal import clean, print_json, print_lines
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.evaluation.calibration.trust import TrustCheck
    from coe_agents.policy.agreement import Agreement


@expand_options
def weights(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    out: Annotated[
        Path | None, typer.Option(help='Where to write them, for [graph] weights; TOML if it ends in ".toml".')
    ] = None,
    as_json: JsonOption = False,
    resamples: ResamplesOption = 1000,
) -> None:
    """Weigh the agents without labels, by how probably the others agree with them.

    It is an offer: a group in which the best model is the odd one out gets worse. Where some questions have labels or
    references, the accuracy with these weights is compared with that of equal ones.
    """
    from coe_agents.evaluation.calibration.trust import check_weights
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
    print_lines(
        f"Weights of {len(found.weights)} agents, on {quantity(found.n_questions, 'question')}, no labels used:"
    )
    for name, weight in sorted(found.weights.items(), key=lambda item: -item[1]):
        low, high = found.intervals[name]
        print_lines(f"{name}: {weight:.3f} [{low:.3f}, {high:.3f}], agreement {found.agreement[name]:.3f}")
    print_lines(_caution(found, check))
    print_lines(judging.note())
    if out is not None:
        print_lines(f'Wrote {clean(str(out))}. To use it: [graph] weights = "{clean(out.name)}"')


def _caution(found: "Agreement", check: "TrustCheck | None") -> str:
    """Returns what the labels say, or else in which case the weights do harm."""
    odd = found.odd_one_out
    named = "" if odd is None else f" Here {clean(odd)} agrees far less than the others with the rest."
    case = f"These weights do harm where the best model is the odd one out.{named}"
    if check is None:
        return f"{case} Whether that is so, only labels can tell: label some questions, and run this again."
    value, low, high = check.difference
    change = f"accuracy {check.equal:.3f} with equal weights, {check.weighted:.3f} with these"
    compared = (
        f"On {quantity(check.n_labelled, 'labelled question')}: {change} ({value:+.3f} [{low:+.3f}, {high:+.3f}])."
    )
    if min(found.weights, key=lambda name: found.weights[name]) == check.best and len(found.weights) > 2:
        right = f"right in {check.agents[check.best]:.1%}"
        return (
            f"{compared}\nThe best model, {clean(check.best)} ({right}), is the odd one out: do not use these weights."
        )
    if high < 0 or low > 0:
        return f"{compared} {'They help.' if low > 0 else 'They do harm here: do not use them.'}"
    return f"{compared} No difference is shown.\n{case}"
