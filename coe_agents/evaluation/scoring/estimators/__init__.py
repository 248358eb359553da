"""Owns the estimators of uncertainty by name: pure functions of one question's statistics, higher = less sure.

Each returns None where it cannot be computed; a score is reported only if it can be for every question that is scored.

To add one of your own, write a callable that takes `Statistics` and returns a float or None. Pass it to
`score(..., estimators={"my_score": my_score})`, name it in `coe-agents score --estimator my_package.module:my_score`,
or register it in the `pyproject.toml` of an installed package; every `coe-agents score` then reports it:

    [project.entry-points."coe_agents.estimators"]
    my_score = "my_package.my_module:my_score"
"""

from collections.abc import Callable, Mapping

from coe_agents.checks import is_finite, require
from coe_agents.evaluation.scoring.estimators import proposals, responses
from coe_agents.evaluation.scoring.score_names import BEST_SINGLE_MODEL, GROUP_SCORES, PROPOSAL_SCORES
from coe_agents.evaluation.scoring.statistics import Statistics
from coe_agents.extensions import find_registered, load_extension

Estimator = Callable[[Statistics], float | None]


def _figure(name: str) -> Estimator:
    """Returns the estimator of a score that is computed for many questions at once, with the statistics."""
    return lambda statistics: statistics.figures[name]


ESTIMATORS: Mapping[str, Estimator] = {name: getattr(responses, name, None) or _figure(name) for name in GROUP_SCORES}
"""The built-in estimators."""

PROPOSAL_ESTIMATORS: Mapping[str, Estimator] = {name: getattr(proposals, name) for name in PROPOSAL_SCORES}
"""The built-in estimators of whether the proposal of `Statistics.proposer` is wrong."""

CONFIDENCES = ("vote_share", "self_consistency", "p_false", "verbal_confidence")
"""Scores that are 1 - a claimed probability of being right, so that a calibration error can be computed."""


def find_estimators(further: Mapping[str, Estimator], *, of_proposal: bool = False) -> dict[str, Estimator]:
    """Returns the built-in estimators, those that installed packages register, and further ones, in this order.

    Values of estimators that are not built in are checked: each must be None or a finite number.

    Args:
        further: By name.
        of_proposal: Whether one agent's proposal is judged; the estimators of that come first.

    Raises:
        ConfigurationError: An entry point cannot be imported.
        ValueError: A name is taken, or what is named is not callable.
    """
    found = {**(PROPOSAL_ESTIMATORS if of_proposal else {}), **ESTIMATORS}
    installed = [(entry.name, load_extension(entry)) for entry in find_registered("estimator")]
    for name, estimator in (*installed, *further.items()):
        if name in found or name == BEST_SINGLE_MODEL:
            raise ValueError(f'every estimator must have a name of its own; got "{name}" twice. Rename yours')
        if not callable(estimator):
            raise ValueError(
                f'estimator "{name}" must be a callable; got {estimator!r}. Write one that takes `Statistics` and '
                "returns a float or None"
            )
        found[name] = _check_values(name, estimator)
    return found


def _check_values(name: str, estimator: Estimator) -> Estimator:
    def compute(statistics: Statistics) -> float | None:
        value = estimator(statistics)
        if value is None:
            return None
        must = f'estimator "{name}" must return None or a finite number for question {statistics.question.id!r}'
        require(is_finite(value), must, value, "Return None where it cannot be computed")
        return float(value)

    return compute


__all__ = [
    "BEST_SINGLE_MODEL",
    "CONFIDENCES",
    "ESTIMATORS",
    "PROPOSAL_ESTIMATORS",
    "Estimator",
    "find_estimators",
]
