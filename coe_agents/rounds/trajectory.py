"""Owns what a round changed: whose leading answer, and whether towards what the others had said."""

from collections.abc import Mapping, Sequence

import numpy as np

from coe_agents.clustering import answer_kind
from coe_agents.policy import Measurement
from coe_agents.policy.weighing import ranked
from coe_agents.types import RoundData
from coe_agents.uncertainty.answers import TIE, shares_lead


def leading_answers(measurement: Measurement) -> dict[str, str]:
    """Returns what each agent holds most probable: its own leading cluster's representative.

    Where several of its clusters tie, it is the one that the group supports most, and then the first by text. So an
    agent that is torn between its own answer and the group's counts as one of the group before a debate, and has not
    given way after it.
    """
    support = dict(zip(measurement.representatives, measurement.support, strict=True))

    def leading(distribution: Mapping[str, float]) -> str:
        highest = max(distribution.values())
        tops = [text for text, share in distribution.items() if share > highest - TIE]
        return ranked((text, support[text]) for text in tops)[0][0]

    return {name: leading(said.distribution) for name, said in measurement.agents.items()}


def _led(measurement: Measurement) -> list[str]:
    """Returns the representatives of the clusters with the most support, by text; several on a tie."""
    leaders = shares_lead(np.array(measurement.support))
    return sorted(text for text, leads in zip(measurement.representatives, leaders, strict=True) if leads)


def former_answers(former: RoundData | None) -> list[str]:
    """Returns the distinct texts of the former round that the next one is compared with."""
    return [] if former is None else list(dict.fromkeys([*former["led"], *sorted(former["leading"].values())]))


def round_data(
    measurement: Measurement | None,
    *,
    round: int,
    strategy: str | None,
    shows_answers: bool,
    former: RoundData | None,
    former_labels: Mapping[str, int],
    tokens: int,
    n_responses: int,
) -> RoundData:
    """Returns the account of a round.

    Args:
        measurement: What it came to; None if nothing was measured.
        round: The round, from 0.
        strategy: How it was asked.
        shows_answers: Whether the agents saw the former round's answers.
        former: The account of the round before; None for the first.
        former_labels: The cluster, among those of `measurement`, of each text of `former_answers`.
        tokens: What it cost.
        n_responses: What it brought.
    """
    if measurement is None:
        return RoundData(
            round=round,
            strategy=strategy,
            coe=None,
            aleatoric=None,
            epistemic=None,
            regime=None,
            answer=None,
            led=[],
            leading={},
            flips={},
            adopted={},
            tokens=tokens,
            n_responses=n_responses,
        )
    leading = leading_answers(measurement)
    flips, adopted = dict[str, bool](), dict[str, bool]()
    if former is not None:
        shown = {former_labels[text] for text in former["led"] if shows_answers and answer_kind(text) == "answer"}
        for name in sorted(leading.keys() & former["leading"].keys()):
            now = measurement.representatives.index(leading[name])
            flips[name] = former_labels[former["leading"][name]] != now
            if shows_answers:
                adopted[name] = flips[name] and now in shown
    return RoundData(
        round=round,
        strategy=strategy,
        coe=measurement.coe,
        aleatoric=measurement.aleatoric,
        epistemic=measurement.epistemic,
        regime=measurement.regime,
        answer=measurement.answer,
        led=_led(measurement),
        leading=leading,
        flips=flips,
        adopted=adopted,
        tokens=tokens,
        n_responses=n_responses,
    )


def conformity(trajectory: Sequence[RoundData]) -> float | None:
    """Returns the share of agents that gave way: that changed, in a round that showed them the answers, to what led.

    conformity = |agents that adopted in at least one such round| / |agents with a leading answer before and after one|

    It is in [0, 1]; None where no such round can be compared. An epistemic part that falls with a conformity of 0 fell
    by independent changes of mind; with a high one, the agents agree because they were told what to agree on.

    Args:
        trajectory: The rounds of one question, in order.
    """
    compared = {name for data in trajectory for name in data["adopted"]}
    gave_way = {name for data in trajectory for name, adopted in data["adopted"].items() if adopted}
    return len(gave_way) / len(compared) if compared else None
