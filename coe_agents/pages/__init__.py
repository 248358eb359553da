"""Owns web pages that need no network: one of saved responses, one of a run."""

from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if TYPE_CHECKING:
    from coe_agents.pages.writing import report
else:
    __getattr__, __dir__ = on_first_use(__name__, {"writing": ("report",)})

__all__ = ["report"]
