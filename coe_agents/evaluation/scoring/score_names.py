"""Owns how scores are shown: a label, a group and an explanation for each; the texts are in `score_names.toml`."""

import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import NamedTuple


class ScoreName(NamedTuple):
    """How a score is shown."""

    label: str
    group: str
    explanation: str


_SOURCE = resources.files("coe_agents.evaluation.scoring").joinpath("score_names.toml").read_text("utf-8")
_NAMES = {
    name: ScoreName(label, group, explanation)
    for group, names in tomllib.loads(_SOURCE).items()
    for name, (label, explanation) in names.items()
}

BASELINE = (
    "coe",
    "epistemic",
    "semantic_entropy",
    "best_single_model",
    "vote_share",
    "regular_entropy",
    "p_false",
)
"""The scores that reports show first."""


def name_of(score: str) -> ScoreName:
    """Returns how a score is shown; one that is not built in keeps its own name.

    Example:
        >>> name_of("vote_share").label, name_of("my_score").label
        ('Vote share', 'my_score')
    """
    return _NAMES.get(score) or ScoreName(score, "Other estimators", "registered by another package or by the caller")


def group_scores(scores: Iterable[str]) -> dict[str, list[str]]:
    """Returns scores by the group in which they are shown, groups and members in reading order."""
    places = {name: place for place, name in enumerate(_NAMES)}
    groups: dict[str, list[str]] = {}
    for score in sorted(scores, key=lambda name: places.get(name, len(places))):
        groups.setdefault(name_of(score).group, []).append(score)
    return groups
