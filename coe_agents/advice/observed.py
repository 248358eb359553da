"""Owns what blocking would have cost and saved, by what people ruled on the calls that a council only observed."""

from collections.abc import Iterable
from dataclasses import dataclass

from coe_agents.types import SampledQuestion


@dataclass(frozen=True, slots=True)
class Observed:
    """What people ruled on calls that ran while a council watched; as shares of all calls with its verdict.

    Attributes:
        n_lost: How many calls it would have blocked that were right.
        n_saved: How many calls it would have blocked that were wrong.
        n_passed: How many calls that it would have let pass people ruled on.
        wrong_passed: The share of all such calls that is wrong, by the rate at which they were recorded; None without
            any.
    """

    n_lost: int
    n_saved: int
    n_passed: int
    wrong_passed: float | None


def read_observed(questions: Iterable[SampledQuestion]) -> Observed | None:
    """Returns what the samples of `coe-agents harvest` say; None of other samples, or where no call was observed."""
    blocked = list[bool]()
    passed = list[tuple[bool, float]]()
    for question in questions:
        by_agent = {row["agent"]: row for row in question.responses}
        proposed = by_agent.get("driver")
        if proposed is None or proposed.get("kind") not in ("observed", "audit"):
            return None
        is_right = proposed["correct"]
        if is_right is None:
            continue
        if proposed.get("kind") == "observed":
            blocked.append(is_right)
        else:
            passed.append((is_right, 1.0 / float(str(proposed.get("seen_probability")))))
    if not blocked and not passed:
        return None

    n_all = sum(weight for _, weight in passed)
    n_wrong = sum(weight for is_right, weight in passed if not is_right)
    return Observed(
        n_lost=blocked.count(True),
        n_saved=blocked.count(False),
        n_passed=len(passed),
        wrong_passed=n_wrong / n_all if passed else None,
    )
