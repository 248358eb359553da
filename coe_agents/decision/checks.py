"""Owns the checks of a decision that another program may have written: each key holds what is read of it."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, get_args

from coe_agents import checks
from coe_agents.types import FinalAction, Regime

_ADVICE = "Pass the decision of a graph of create_coe_graph, or run it again"
amount = partial(checks.number, least=0, most=2**53, advice=_ADVICE)
count = partial(checks.integer, least=0, most=2**53, advice=_ADVICE)


def share(value: Any, where: str) -> float | None:
    """Returns a number in [0, 1], or None; raises as `coe_agents.checks.share` does."""
    return None if value is None else checks.share(value, where, advice=_ADVICE)


def check_decision(decision: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuses a decision that lacks one of these keys, or has something of another kind in one that is read.

    Raises:
        TypeError, ValueError: If it does.
    """
    for key in keys:
        checks.require(key in decision, f'a decision must have the key "{key}"', [*decision], _ADVICE)
        if key in _CHECKS:
            _CHECKS[key](decision[key], key)


def _text(value: object, where: str) -> None:
    checks.instance(value, str, where, what="a text", advice=_ADVICE)


def _each(check: Callable[[Any, str], object]) -> Callable[[Any, str], None]:

    def check_all(values: Any, where: str) -> None:
        checks.instance(values, Mapping, where, what="an object", advice=_ADVICE)
        for value in values.values():
            check(value, where)

    return check_all


def _agent(agent: Any, where: str) -> None:
    checks.instance(agent, Mapping, where, what="objects", advice=_ADVICE)
    _each(amount)(agent.get("distribution"), "distribution")


def _usage(usage: Any, _: str) -> None:
    for name in ("input_tokens", "output_tokens"):
        if usage[name] is not None:
            count(usage[name], name)


def _rounds(trajectory: Any, where: str) -> None:
    checks.several(trajectory, where, of="rounds", advice=_ADVICE)
    for data in trajectory:
        count(data["round"], "round")


_CHECKS: Mapping[str, Callable[[Any, str], object]] = {
    "action": partial(checks.one_of, known=get_args(FinalAction)),
    **dict.fromkeys(("answer", "reason", "decided_by", "divergence"), _text),
    "regime": partial(checks.one_of, known=get_args(Regime)),
    **dict.fromkeys(("coe", "aleatoric", "epistemic"), amount),
    "conformity": share,
    "n_rounds": count,
    "failed_agents": _each(_text),
    "agents": _each(_agent),
    "tokens": _each(_usage),
    "trajectory": _rounds,
}
