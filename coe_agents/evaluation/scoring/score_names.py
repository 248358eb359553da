"""Owns the built-in estimators by name, and how reports show scores: a label, a group and an explanation for each."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from coe_agents.evaluation.scoring.statistics import Statistics

Estimator = Callable[[Statistics], float | None]
_Built = TypeVar("_Built", bound=Estimator)


class ScoreName(NamedTuple):
    """How a score is shown."""

    label: str
    group: str
    explanation: str


ESTIMATORS: dict[str, Estimator] = {}
"""The built-in estimators; `estimator` adds them."""

PROPOSAL_ESTIMATORS: dict[str, Estimator] = {}
"""The built-in estimators of whether one agent's proposal is wrong; `proposal_estimator` adds them."""

BEST_SINGLE_MODEL = "best_single_model"
"""The one score that no estimator computes, as it is chosen over all questions."""

_GROUPS = (
    "The judged proposal",
    "Collaborative Entropy and its parts",
    "Entropies",
    "Agreement",
    "Graphs",
    "Log-probabilities",
    "Stated by the agents",
    "Other estimators",
)
_NAMES = {
    BEST_SINGLE_MODEL: ScoreName(
        "Semantic entropy, best agent", "Entropies", "of the agent that ranked answers best on the other half"
    )
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


def estimator(group: str, label: str, explanation: str) -> Callable[[_Built], _Built]:
    """Makes a function a built-in estimator, its score named as the function.

    Args:
        group: Under which heading reports show the score.
        label: What they call it.
        explanation: What it measures, in a line.
    """
    return _register(ESTIMATORS, ScoreName(label, group, explanation))


def proposal_estimator(label: str, explanation: str) -> Callable[[_Built], _Built]:
    """Makes a function a built-in estimator of whether the proposal of `Statistics.proposer` is wrong."""
    return _register(PROPOSAL_ESTIMATORS, ScoreName(label, _GROUPS[0], explanation))


def _register(estimators: dict[str, Estimator], shown: ScoreName) -> Callable[[_Built], _Built]:
    def register(built: _Built) -> _Built:
        estimators[built.__name__] = built
        _NAMES[built.__name__] = shown
        return built

    return register


def name_of(score: str) -> ScoreName:
    """Returns how a score is shown; one that is not built in keeps its own name.

    Example:
        >>> name_of("vote_share").label, name_of("my_score").label
        ('Vote share', 'my_score')
    """
    return _NAMES.get(score) or ScoreName(score, _GROUPS[-1], "registered by another package or by the caller")


def group_scores(scores: Iterable[str]) -> dict[str, list[str]]:
    """Returns scores by the group in which they are shown, groups and members in reading order."""
    places = {name: place for place, name in enumerate([*PROPOSAL_ESTIMATORS, *ESTIMATORS, BEST_SINGLE_MODEL])}
    groups: dict[str, list[str]] = {group: [] for group in _GROUPS}
    for score in sorted(scores, key=lambda name: places.get(name, len(places))):
        groups[name_of(score).group].append(score)
    return {group: names for group, names in groups.items() if names}
