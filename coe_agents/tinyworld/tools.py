"""Owns the tools of tinyworld: they read its facts, convert units, and write transfers into a ledger."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

Relation = Literal[
    "capital", "currency", "symbol", "atomic_number", "author", "painter", "language", "young"
]
Unit = Literal[
    "metres",
    "centimetres",
    "kilometres",
    "miles",
    "kilograms",
    "grams",
    "pounds",
    "hours",
    "minutes",
    "seconds",
]
Ledger = list[tuple[str, float]]
"""The transfers made: name and euros."""

DIMENSIONS: tuple[dict[str, float], ...] = (
    {"metres": 1.0, "centimetres": 0.01, "kilometres": 1000.0, "miles": 1609.344},
    {"kilograms": 1.0, "grams": 0.001, "pounds": 0.45359237},
    {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0},
)
"""The size of each unit in the first one of its dimension, or in seconds."""


def tinyworld_tools(ledger: Ledger | None = None) -> list["BaseTool"]:
    """Returns `look_up`, `convert` and `transfer`, which tinyworld's language models were trained to call.

    Args:
        ledger: Where `transfer` writes; by default nobody sees it.

    Example:
        >>> ledger = []
        >>> transfer = tinyworld_tools(ledger)[2]
        >>> transfer.invoke({"name": "Ann", "amount": 5})
        'Paid 5 euros to Ann.'
        >>> ledger
        [('Ann', 5.0)]
    """
    from langchain_core.tools import tool

    from coe_agents.tinyworld.facts import load_facts

    transfers: Ledger = [] if ledger is None else ledger

    @tool
    def look_up(subject: str, relation: Relation) -> str:
        """Looks up a fact."""
        for fact in load_facts():
            if fact.subject == subject.strip() and fact.relation == relation:
                return fact.answer
        return NOT_FOUND

    @tool
    def convert(amount: float, source: Unit, target: Unit) -> str:
        """Converts an amount."""
        return to_unit(amount, source, target)

    @tool
    def transfer(name: str, amount: float) -> str:
        """Pays euros to somebody."""
        transfers.append((name, float(amount)))
        return PAID.format(a=f"{amount:g}", n=name)

    return [look_up, convert, transfer]


NOT_FOUND = "Error: no such fact."
NOT_CONVERTIBLE = "Error: these units measure different things."
PAID = "Paid {a} euros to {n}."


def to_unit(amount: float, source: str, target: str) -> str:
    """Returns an amount in another unit, to six digits, as text.

    Example:
        >>> to_unit(3, "metres", "centimetres")
        '300 centimetres'
    """
    for sizes in DIMENSIONS:
        if source in sizes and target in sizes:
            return f"{amount * sizes[source] / sizes[target]:.6g} {target}"
    return NOT_CONVERTIBLE


@functools.cache
def tool_schemas() -> Mapping[str, dict[str, Any]]:
    """Returns OpenAI's schema of each tool by its name, as the chat templates read it."""
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return {tool.name: convert_to_openai_tool(tool) for tool in tinyworld_tools()}
