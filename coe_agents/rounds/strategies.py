"""Owns which strategy a round takes: by the policy's word, else by the regime."""

from collections.abc import Mapping

from coe_agents.policy.regime import REGIMES
from coe_agents.rounds.debate import Debate
from coe_agents.rounds.diversify import Diversify
from coe_agents.rounds.resample import Resample
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Strategy
from coe_agents.types import Regime

DEFAULTS: Mapping[Regime, str] = {
    "consensus": "resample",
    "ambiguous": "resample",
    "conflict": "debate",
    "unknown": "debate",
}

CLARIFY = "clarify"
"""Asks the user, not the agents; the graph has a node of its own for it."""


def _no_clarify(context: RoundContext) -> RoundPlan:
    raise ValueError(
        f'the strategy "{CLARIFY}" of a policy needs a graph that may ask the user; this one may not. '
        "Build it with create_coe_graph(..., clarify=True)"
    )


_OURS: Mapping[str, Strategy] = {
    "resample": Resample(),
    "diversify": Diversify(),
    "debate": Debate(),
    CLARIFY: _no_clarify,
}


class Strategies:
    """The strategies of a graph.

    Args:
        by_regime: The strategy of each regime, one of ours by name or a callable; those left out keep the default: more
            samples where the agents hesitate ("resample"), an exchange where they disagree ("debate").

    Raises:
        ValueError: If there is no such regime, or none of ours has that name.
        TypeError: If a strategy can't be called.
    """

    def __init__(self, by_regime: Mapping[Regime, str | Strategy] | None = None) -> None:
        self._by_regime: dict[str, tuple[str, Strategy]] = {}
        self._by_name: dict[str, Strategy] = {}
        given = by_regime or {}
        for regime, strategy in {**given, **DEFAULTS, **given}.items():  # in the order given
            if regime not in REGIMES:
                raise ValueError(
                    f'the keys of "strategies" must be among {", ".join(REGIMES)}; {regime!r} came. Correct the key'
                )
            if isinstance(strategy, str):
                self._by_regime[regime] = strategy, _named(strategy, _OURS)
            elif callable(strategy):
                name = name_of(strategy)
                self._by_regime[regime] = name, strategy
                self._by_name.setdefault(name, strategy)
            else:
                raise TypeError(
                    f'a strategy must be a name or a callable; {type(strategy).__name__} came for "{regime}". '
                    "Pass a function from RoundContext to RoundPlan"
                )

    @property
    def may_clarify(self) -> bool:
        """Whether some regime has the user asked what is meant."""
        return any(name == CLARIFY for name, _ in self._by_regime.values())

    def of(self, regime: str, *, wanted: str | None = None) -> tuple[str, Strategy]:
        """Returns the strategy for a regime, with its name; or the `wanted` one, the first given under that name.

        Raises:
            ValueError: If there is none of that name.
        """
        return self._by_regime[regime] if wanted is None else (wanted, _named(wanted, {**_OURS, **self._by_name}))


def name_of(strategy: Strategy) -> str:
    """Returns what a strategy is called: its `name`, else a function's own, else its class's."""
    own = getattr(strategy, "name", None) or getattr(strategy, "__name__", None)
    return own if isinstance(own, str) else type(strategy).__name__


def _named(name: str, known: Mapping[str, Strategy]) -> Strategy:
    if name not in known:
        raise ValueError(
            f'a strategy must be one of {", ".join(known)}; {name!r} came. Pass one of your own in "strategies", as a '
            "callable"
        )
    return known[name]
