"""Owns the group behind LangChain's decision models: what their middleware asks, several members answer."""

try:
    from coe_agents.decisions.decision_model import (
        CoEClassifierResponse,
        CoEDecisionModel,
        QuestionDecision,
    )
except ModuleNotFoundError as error:
    if error.name != "langchain_core.decisions":
        raise
    needed = (
        'coe_agents.decisions needs langchain-core 1.8 or later; pip install "langchain-core>=1.8"'
    )
    raise ImportError(needed) from error

__all__ = ["CoEClassifierResponse", "CoEDecisionModel", "QuestionDecision"]
