"""Owns the bounds of a run: thresholds, samples, rounds, tokens and time, in one value wherever they are set.

A *bound* is a value of `Bounds`. A *limit* is a bound that a caller sets, beside the operator's: it only makes a run
stricter (`Rules.limits`). A *budget* is a bound of what further rounds may spend: `token_budget`, and `CostBudget` in
money.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from coe_agents.checks import integer, number
from coe_agents.types import MOST_SAMPLES, Cause, Usage

MOST_ROUNDS = 1000
"""So many rounds may be asked of a question; LangGraph ends a run after some ten times as many steps."""
THRESHOLDS = ("max_coe", "aleatoric_threshold", "epistemic_threshold")
"""The bounds that are compared with CoE and its parts, in nats."""

_WHOLE = {
    "n_samples": (MOST_SAMPLES, "5 to 10 are usual"),
    "max_rounds": (MOST_ROUNDS, "1 asks each agent once, 2 or 3 are usual"),
    "token_budget": (None, "Omit it for no bound"),
}


def _bound(description: str) -> Any:
    """Returns a field that is None by default; pydantic reads the description, and takes no text for a number."""
    return field(default=None, metadata={"description": description, "strict": True})


@dataclass(frozen=True, slots=True)
class Spent:
    """What a question has cost so far.

    Attributes:
        round: The present round, from 0.
        tokens: Of all requests, input and output; None where not known.
        cost: Of these tokens, in the currency of the prices; None where not known.
        seconds: Of the rounds, without the time in which a person is awaited.
        n_responses: How many responses were given.
        n_agents: How many agents a further round asks.
    """

    round: int = 0
    tokens: float | None = 0
    seconds: float = 0.0
    n_responses: int = 0
    n_agents: int = 0
    cost: float | None = None

    @property
    def per_response(self) -> float:
        """How many tokens, input and output, a response has taken on average; 0 where that is not known."""
        if self.tokens is None or self.n_responses == 0:
            return 0.0
        return self.tokens / self.n_responses


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The bounds of a run; None leaves a bound open.

    `max_rounds`, `token_budget` and `deadline` end the rounds. The other fields end nothing, and stand here since they
    are set in the same places: the thresholds, which a policy and the reported regime compare with CoE and its parts,
    and `n_samples`, the size of a round.

    Raises:
        TypeError: If a value is no number, or no whole one where it must be.
        ValueError: If a value is out of range.

    Example:
        >>> Bounds(max_rounds=2).end_of_rounds(Spent(round=1))
        'no round is left after 2'
    """

    n_samples: int | None = _bound(
        "How many responses each agent gives in a round, from 1 to 500, unless a round's strategy sets a number."
    )
    max_coe: float | None = _bound("The threshold of a `ThresholdPolicy`, in nats.")
    aleatoric_threshold: float | None = _bound(
        "In nats; above it the agents count as uncertain within themselves. Of a `RegimePolicy`, and in the report."
    )
    epistemic_threshold: float | None = _bound(
        "In nats; above it the agents count as disagreeing. Of a `RegimePolicy`, and in the report."
    )
    max_rounds: int | None = _bound('After this many rounds "another_round" becomes "abstain".')
    token_budget: int | None = _bound(
        "The tokens of all agents together, input and output. A further round that would use more tokens than are left "
        "is made smaller, or not begun, as far as the rounds before tell. If a server tells no tokens, none is begun."
    )
    deadline: float | None = _bound("The seconds for the question; see `create_coe_graph`.")

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            where = f'"{name}"'
            if name in _WHOLE:
                most, advice = _WHOLE[name]
                integer(value, where, least=1, most=most, advice=advice)
            elif name == "deadline":
                number(value, f"{where} in seconds", above=0, advice="Omit it for no bound")
            else:
                number(
                    value,
                    f"{where} in nats",
                    least=0,
                    may_be_infinite=True,
                    advice="Omit it for no bound",
                )

    def to_dict(self) -> dict[str, Any]:
        """Returns the bounds that are not None, by name."""
        values = {}
        for name in NAMES:
            value = getattr(self, name)
            if value is not None:
                values[name] = value
        return values

    def change(self, **values: Any) -> Self:
        """Returns these bounds, changed by the bounds among some values, such as the arguments of a graph."""
        bounds = {name: value for name, value in values.items() if name in NAMES}
        return replace(self, **bounds)

    def end_of_rounds(self, spent: Spent) -> str | None:
        """Returns which bound forbids another round, with its numbers; None if one is allowed."""
        return self.end_by_number(spent) or self.end_of_tokens(spent) or self.end_of_time(spent)

    def cause_of_end(self, spent: Spent) -> Cause:
        """Returns the cause that goes with `end_of_rounds`."""
        if self.end_by_number(spent):
            return "rounds"
        return "budget" if self.end_of_tokens(spent) else "deadline"

    def end_by_number(self, spent: Spent) -> str | None:
        """Returns a clause if the last round has been asked, else None."""
        if self.max_rounds is None or spent.round + 1 < self.max_rounds:
            return None
        return f"no round is left after {self.max_rounds}"

    def end_of_tokens(self, spent: Spent) -> str | None:
        """Returns a clause if the budget has no room for a response of each agent, else None."""
        left = self.tokens_left(spent)
        needed = spent.per_response * spent.n_agents
        budget = f"of a token_budget of {self.token_budget}"
        if left is None and self.token_budget is not None:
            return f"it is not known how many tokens are used {budget}"
        if left == 0.0:
            return f"no tokens are left: {spent.tokens} are used {budget}"
        if left is not None and left < needed:
            next_round = f"a response of each agent takes about {needed:.0f}"
            return f"too few tokens are left: {left:.0f} are left {budget}, and {next_round}"
        return None

    def tokens_left(self, spent: Spent) -> float | None:
        """Returns how many tokens the budget leaves, at least 0; None without a budget, or where it is not known."""
        if self.token_budget is None or spent.tokens is None:
            return None
        return max(0.0, self.token_budget - spent.tokens)

    def fit(self, wanted: Mapping[str, int], spent: Spent) -> dict[str, int]:
        """Returns how many responses each agent is asked for: fewer than wanted where the tokens left are too few."""
        left = self.tokens_left(spent)
        needed = spent.per_response * sum(wanted.values())
        share = 1.0
        if left is not None and left < needed:
            share = left / needed
        fitted = {}
        for agent, n_wanted in wanted.items():
            fitted[agent] = max(1, int(n_wanted * share))
        return fitted

    def end_of_time(self, spent: Spent) -> str | None:
        """Returns a clause if the deadline has passed, else None."""
        if self.deadline is None or spent.seconds < self.deadline:
            return None
        return (
            f"no time is left: {spent.seconds:.2f} s are used of a deadline of {self.deadline:g} s"
        )


Price = Mapping[str, float]
"""The price of a million tokens, as {"input": ..., "output": ...}."""


def price_of(
    tokens: Sequence[tuple[str, float, float]], prices: Mapping[str, Price]
) -> float | None:
    """Returns what tokens cost: sum of (input price x input tokens + output price x output tokens) / 1,000,000.

    `tokens` are (agent, input tokens, output tokens). None where an agent that used some has no price.

    >>> price_of([("a", 1000, 500)], {"a": {"input": 1.0, "output": 4.0}})
    0.003
    """
    if not prices:
        return None
    total = 0.0
    for name, n_input, n_output in tokens:
        price = prices.get(name)
        if price:
            total += price["input"] * n_input + price["output"] * n_output
        elif n_input or n_output:
            return None
    return total / 1e6


@dataclass(frozen=True, slots=True)
class CostBudget:
    """What the agents' requests may cost, by the price of each.

    Attributes:
        most: In the currency of the prices.
        prices: By the agent's name.
    """

    most: float
    prices: Mapping[str, Price]

    def cost_of(self, usages: Iterable[tuple[str, Usage]]) -> float | None:
        """Returns what the requests of agents cost; None where an agent does not say how many tokens it used."""
        tokens = list[tuple[str, float, float]]()
        for agent, usage in usages:
            n_input = usage["input_tokens"]
            n_output = usage["output_tokens"]
            if n_input is None or n_output is None:
                return None
            tokens.append((agent, n_input, n_output))
        return price_of(tokens, self.prices)

    def end(self, spent: Spent) -> str | None:
        """Returns a clause if the budget has no room for a response of each agent, else None."""
        of_budget = f"of a cost_budget of {self.most:g}"
        if spent.cost is None:
            return f"it is not known how much is spent {of_budget}"
        next_round = 0.0
        if spent.n_responses:
            next_round = spent.cost / spent.n_responses * spent.n_agents
        if spent.cost + next_round > self.most or spent.cost >= self.most:
            return (
                f"too little money is left: {spent.cost:.4g} is spent {of_budget}, and a response of each agent costs "
                f"about {next_round:.4g}"
            )
        return None


def create_cost_budget(most: float | None, agents: Iterable[Any], where: str) -> CostBudget | None:
    """Returns the budget of a group of agents, by the prices that they know; None for no budget.

    Raises:
        ValueError: The price of an agent is not known.
    """
    if most is None:
        return None
    number(most, where, above=0, advice="0.05 is five cents, where prices are in dollars")
    prices = {}
    unknown = []
    for agent in agents:
        price = getattr(agent, "price_per_million", None)
        if price is None:
            unknown.append(agent.name)
        else:
            prices[agent.name] = price
    if unknown:
        raise ValueError(
            f"{where} needs the price of every agent; got none of {', '.join(unknown)}. Pass "
            'ModelAgent(..., price_per_million={"input": 0.25, "output": 2.0}), or the same in [[agents]]'
        )
    return CostBudget(most, prices)


NAMES = tuple(each.name for each in fields(Bounds))
"""The names of all bounds."""
