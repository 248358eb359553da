"""Owns the record of a round: which agents changed their leading answer, and whether to the group's."""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, cast

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
        tied = [text for text, share in distribution.items() if share > highest - TIE]
        if len(tied) == 1:
            return tied[0]
        (best, _), *_ = rank_texts((text, support[text]) for text in tied)
        return best

    return {name: leading(agent.distribution) for name, agent in measurement.agents.items()}


def former_answers(former: RoundData | None) -> list[str]:
    """Returns the distinct texts of the former round with which the next one is compared."""
    if former is None:
        return []
    return list(dict.fromkeys([*former["led"], *sorted(former["leading"].values())]))


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
    record: dict[str, Any] = {
        "round": round,
        "strategy": strategy,
        "tokens": tokens,
        "n_responses": n_responses,
        "led": [],
        "leading": {},
        "entropies": {},
        "flips": {},
        "adopted": {},
    }
    for name in (*Uncertainty.__annotations__, "answer"):
        record[name] = getattr(measurement, name, None)
    data = cast("RoundData", record)
    if measurement is None:
        return data
    leads = shares_lead(np.array(measurement.support))
    data["led"] = sorted(compress(measurement.representatives, leads))
    data["leading"] = leading_answers(measurement)
    data["entropies"] = {name: agent.entropy for name, agent in measurement.agents.items()}
    if former is None:
        return data

    # a refusal is not shown
    shown_clusters = {
        former_labels[text] for text in former["led"] if answer_kind(text) == "answer"
    }
    for name in sorted(data["leading"].keys() & former["leading"].keys()):
        cluster = measurement.representatives.index(data["leading"][name])
        former_cluster = former_labels[former["leading"][name]]
        has_changed = former_cluster != cluster
        data["flips"][name] = has_changed
        if shows_answers:
            data["adopted"][name] = has_changed and cluster in shown_clusters
    return data


def conformity(trajectory: Sequence[RoundData]) -> float | None:
    """Returns the share of agents that changed to the leading answer in a round that showed them the answers.

    conformity = |agents that adopted in at least one such round| / |agents with a leading answer before and after one|

    It is in [0, 1]; None where no such round can be compared. If the epistemic part falls at a conformity of 0, the
    agents changed their answers independently; at a high one, they agree because they were shown what to agree on.
    """
    compared: set[str] = set()
    changed: set[str] = set()
    for data in trajectory:
        for name, has_adopted in data["adopted"].items():
            compared.add(name)
            if has_adopted:
                changed.add(name)
    return len(changed) / len(compared) if compared else None
