"""Owns which strategy a round takes: by the policy's word, else by the regime."""

from collections.abc import Mapping

from coe_agents.policy.regime import REGIMES
from coe_agents.rounds.debate import Debate
from coe_agents.rounds.diversify import Diversify
from coe_agents.rounds.plan import Strategy
from coe_agents.rounds.resample import Resample
from coe_agents.types import Regime

DEFAULTS: Mapping[Regime, str] = {
    "consensus": "resample",
    "ambiguous": "resample",
    "conflict": "debate",
    "unknown": "debate",
}


class Strategies:
    """The strategies of a graph.

    Args:
        by_regime: The strategy of each regime, by name or as it is; those left out keep the default: more samples where
            the agents hesitate ("resample"), an exchange where they disagree ("debate").

    Raises:
        ValueError: If there is no such regime, or no strategy of that name.
        TypeError: If a strategy can't be called.
    """

    def __init__(self, by_regime: Mapping[Regime, str | Strategy] | None = None) -> None:
        chosen = {**DEFAULTS, **(by_regime or {})}
        self._by_name: dict[str, Strategy] = {"resample": Resample(), "diversify": Diversify(), "debate": Debate()}
        self._by_name |= {name_of(each): each for each in chosen.values() if not isinstance(each, str)}
        self._names: dict[str, str] = {}
        for regime, strategy in chosen.items():
            if regime not in REGIMES:
                raise ValueError(
                    f'the keys of "strategies" must be among {", ".join(REGIMES)}; {regime!r} came. Correct the key'
                )
            if not isinstance(strategy, str) and not callable(strategy):
                raise TypeError(
                    f'a strategy must be a name or a callable; {type(strategy).__name__} came for "{regime}". '
                    "Pass a function from RoundContext to RoundPlan"
                )
            self._names[regime] = strategy if isinstance(strategy, str) else name_of(strategy)
            self.named(self._names[regime])

    def of(self, regime: str, *, wanted: str | None = None) -> tuple[str, Strategy]:
        """Returns the strategy for a regime, or the `wanted` one, with its name.

        Raises:
            ValueError: If there is none of that name.
        """
        name = self._names[regime] if wanted is None else wanted
        return name, self.named(name)

    def named(self, name: str) -> Strategy:
        """Returns the strategy of a name.

        Raises:
            ValueError: If there is none.
        """
        if name not in self._by_name:
            raise ValueError(
                f"a strategy must be one of {', '.join(self._by_name)}; {name!r} came. Pass one of your own in "
                '"strategies", as a callable'
            )
        return self._by_name[name]


def name_of(strategy: Strategy) -> str:
    """Returns what a strategy is called: its `name`, else a function's own, else its class's."""
    own = getattr(strategy, "name", None) or getattr(strategy, "__name__", None)
    return own if isinstance(own, str) else type(strategy).__name__
