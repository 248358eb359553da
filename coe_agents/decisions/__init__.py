"""Owns the group behind LangChain's decision models: what their middleware asks, several members answer."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name

try:
    from coe_agents.decisions.decision_model import CoEDecisionModel
except ModuleNotFoundError as error:
    if error.name != "langchain_core.decisions":
        raise
    needed = (
        'coe_agents.decisions needs langchain-core 1.8 or later; pip install "langchain-core>=1.8"'
    )
    raise ImportError(needed) from error

__all__ = ["CoEDecisionModel"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
