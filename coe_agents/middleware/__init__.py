"""Owns the gate inside LangChain agents: a group is asked before a risky tool runs, or an answer is given."""

try:
    from coe_agents.middleware.council import CoECouncil
    from coe_agents.middleware.gate import CoEMiddleware
    from coe_agents.middleware.judged_calls import CoEVerdicts, describe_call, lacks_approval
    from coe_agents.middleware.verdict import Verdict
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "langchain":
        raise
    raise ImportError('the middleware needs langchain; pip install "coe-agents[langchain]"') from error

__all__ = [
    "CoECouncil",
    "CoEMiddleware",
    "CoEVerdicts",
    "Verdict",
    "describe_call",
    "lacks_approval",
]
