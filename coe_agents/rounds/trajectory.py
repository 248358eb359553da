"""Owns the record of a round: which agents changed their leading answer, and whether to the group's."""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import cast

import numpy as np

from coe_agents.clustering.refusals import answer_kind
from coe_agents.measurement.measurement import Measurement
from coe_agents.measurement.weighting import rank_texts
from coe_agents.types import RoundData, Uncertainty
from coe_agents.uncertainty.ties import TIE, shares_lead


def leading_answers(measurement: Measurement) -> dict[str, str]:
    """Returns the representative of each agent's own leading cluster.

    Among its tied clusters, it is the one with the most support in the group, then the first by text. So an agent that
    is split between its own answer and the group's counts as agreeing before a debate, and has not changed its answer
    after it.
    """
    support = dict(zip(measurement.representatives, measurement.support, strict=True))

    def leading(distribution: Mapping[str, float]) -> str:
        highest = max(distribution.values())
        tops = [text for text, share in distribution.items() if share > highest - TIE]
        return (
            tops[0] if len(tops) == 1 else rank_texts((text, support[text]) for text in tops)[0][0]
        )

    return {name: leading(said.distribution) for name, said in measurement.agents.items()}


def former_answers(former: RoundData | None) -> list[str]:
    """Returns the distinct texts of the former round with which the next one is compared."""
    return (
        []
        if former is None
        else list(dict.fromkeys([*former["led"], *sorted(former["leading"].values())]))
    )


def round_data(
    measurement: Measurement | None,
    *,
    round: int,
    strategy: str | None,
    shows_answers: bool,
    former: RoundData | None,
    former_labels: Mapping[str, int],
    tokens: int | None,
    n_responses: int,
) -> RoundData:
    """Returns the record of a round; see `RoundData`.

    `measurement` is None if nothing was measured, and `former`, the record of the round before, for the first round.
    `former_labels`: the cluster, among those of `measurement`, of each text of `former_answers`.
    """
    numbers = {
        name: getattr(measurement, name, None) for name in (*Uncertainty.__annotations__, "answer")
    }
    given = {"round": round, "strategy": strategy, "tokens": tokens, "n_responses": n_responses}
    by_agent: dict[str, object] = {
        name: {} for name in ("leading", "entropies", "flips", "adopted")
    }
    data = cast("RoundData", {**given, **numbers, "led": [], **by_agent})
    if measurement is None:
        return data
    data["led"] = sorted(
        compress(measurement.representatives, shares_lead(np.array(measurement.support)))
    )
    data["leading"] = leading_answers(measurement)
    data["entropies"] = {name: said.entropy for name, said in measurement.agents.items()}
    if former is not None:
        shown = {
            former_labels[text]
            for text in former["led"]
            if shows_answers and answer_kind(text) == "answer"
        }
        for name in sorted(data["leading"].keys() & former["leading"].keys()):
            now = measurement.representatives.index(data["leading"][name])
            data["flips"][name] = former_labels[former["leading"][name]] != now
            if shows_answers:
                data["adopted"][name] = data["flips"][name] and now in shown
    return data


def conformity(trajectory: Sequence[RoundData]) -> float | None:
    """Returns the share of agents that changed to the leading answer in a round that showed them the answers.

    conformity = |agents that adopted in at least one such round| / |agents with a leading answer before and after one|

    It is in [0, 1]; None where no such round can be compared. If the epistemic part falls at a conformity of 0, the
    agents changed their answers independently; at a high one, they agree because they were shown what to agree on.
    """
    compared = {name for data in trajectory for name in data["adopted"]}
    changed = {name for data in trajectory for name, adopted in data["adopted"].items() if adopted}
    return len(changed) / len(compared) if compared else None
