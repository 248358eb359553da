"""Owns the choice of a round's strategy: the one that the policy names, else the one of the regime."""

from collections.abc import Mapping

from coe_agents.checks import one_of
from coe_agents.policy.regime import REGIMES
from coe_agents.rounds.clarify import Clarify
from coe_agents.rounds.debate import Debate
from coe_agents.rounds.diversify import Diversify
from coe_agents.rounds.resample import Resample
from coe_agents.rounds.strategy import Strategy
from coe_agents.types import Regime

DEFAULTS: Mapping[Regime, str] = {
    "consensus": "resample",
    "ambiguous": "resample",
    "conflict": "debate",
    "unknown": "debate",
}

CLARIFY = Clarify.name
_OURS: Mapping[str, Strategy] = {own.name: own for own in (Resample(), Diversify(), Debate(), Clarify())}


class Strategies:
    """The strategies of a graph.

    Args:
        by_regime: The strategy of each regime, one of the package by name or a callable; regimes left out keep the
            default: more samples where the agents are uncertain ("resample"), an exchange where they disagree
            ("debate").

    Raises:
        ValueError: If a regime or a name is unknown.
        TypeError: If a strategy cannot be called, or is a class.
    """

    def __init__(self, by_regime: Mapping[Regime, str | Strategy] | None = None) -> None:
        self._by_regime: dict[str, tuple[str, Strategy]] = {}
        self._by_name: dict[str, Strategy] = {}
        given = by_regime or {}
        for regime, strategy in {**given, **DEFAULTS, **given}.items():  # in the order given
            one_of(regime, 'a key of "strategies"', REGIMES)
            if isinstance(strategy, str):
                self._by_regime[regime] = strategy, _named(strategy, _OURS)
            elif isinstance(strategy, type):
                raise TypeError(
                    f"a strategy must be an object, not a class; got {strategy.__name__}. Call it, or pass its name"
                )
            elif callable(strategy):
                name = name_of(strategy)
                self._by_regime[regime] = name, strategy
                self._by_name.setdefault(name, strategy)
            else:
                raise TypeError(
                    f'a strategy must be a name or a callable; got {type(strategy).__name__} for "{regime}". '
                    "Pass a function from RoundContext to RoundPlan"
                )

    @property
    def may_clarify(self) -> bool:
        """Whether the strategy of some regime asks the user what is meant."""
        return any(isinstance(strategy, Clarify) for _, strategy in self._by_regime.values())

    def of(self, regime: str, *, wanted: str | None = None) -> tuple[str, Strategy]:
        """Returns the strategy for a regime, with its name; or the `wanted` one, the first given under that name.

        Raises:
            ValueError: If no strategy has that name.
        """
        return self._by_regime[regime] if wanted is None else (wanted, _named(wanted, {**_OURS, **self._by_name}))


def name_of(strategy: Strategy) -> str:
    """Returns a strategy's name: its `name`, else the function's, else its class's."""
    own = getattr(strategy, "name", None) or getattr(strategy, "__name__", None)
    return own if isinstance(own, str) else type(strategy).__name__


def _named(name: str, known: Mapping[str, Strategy]) -> Strategy:
    return known[one_of(name, "a strategy", known, advice='Pass one of your own in "strategies", as a callable')]
