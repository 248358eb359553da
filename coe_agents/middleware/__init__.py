"""Owns the gate inside LangChain agents: a group is asked before a risky tool runs, or an answer is given.

A call goes one way, whoever judges it:

    message of the model -> judged -> decision under a mark -> at the tool: is this very call marked? -> started once

- `CoEMiddleware` (gate) judges calls and answers after the model: a graph says approve or reject. `verdict` is that
  data and its mark; `gate_review` asks people.
- `CoECouncil` (council) judges around the model: `council_request` asks, `deliberation` compares, `council_review` asks
  people; `withheld` and `open_calls` are what stands in place of a call.
- Both are a `GuardsTools` (guard), which stands before each tool. `_admit` decides there: `_find_vouched` of the gate
  finds the decision, `marks` tells who wrote it, `parsing` whether the tool reads the arguments as they were compared,
  and `REGISTER` (once) lets all calls of an action run once, or none.
"""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name

try:
    from coe_agents.middleware.council import CoECouncil
    from coe_agents.middleware.gate import CoEMiddleware
    from coe_agents.middleware.gate_review import describe_call
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "langchain":
        raise
    raise ImportError(
        'the middleware needs langchain; pip install "coe-agents[langchain]"'
    ) from error

__all__ = ["CoECouncil", "CoEMiddleware", "describe_call"]


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
