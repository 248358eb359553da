"""Several language models, one question, and a gate that knows when not to answer.

Names are imported when first used, so that `import coe_agents` and its numeric core stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coe_agents.agents import Arbiter, ModelAgent
    from coe_agents.graph import AskPerson, candidates, create_coe_graph
    from coe_agents.group_decision import GroupDecision, plot_regimes
    from coe_agents.middleware import CoEMiddleware
    from coe_agents.policy import CalibratedPolicy, Decision, Measurement, RegimePolicy, ThresholdPolicy
    from coe_agents.rounds import AdaptiveSampling
    from coe_agents.shortcuts import aask, ask
    from coe_agents.tool import create_coe_tool

__version__ = "0.1.0"
__all__ = [
    "AdaptiveSampling",
    "Arbiter",
    "AskPerson",
    "CalibratedPolicy",
    "CoEMiddleware",
    "Decision",
    "GroupDecision",
    "Measurement",
    "ModelAgent",
    "RegimePolicy",
    "ThresholdPolicy",
    "aask",
    "ask",
    "candidates",
    "create_coe_graph",
    "create_coe_tool",
    "plot_regimes",
]

_HOMES = {
    "AdaptiveSampling": "rounds",
    "Arbiter": "agents",
    "AskPerson": "graph",
    "CoEMiddleware": "middleware",
    "GroupDecision": "group_decision",
    "ModelAgent": "agents",
    "aask": "shortcuts",
    "ask": "shortcuts",
    "candidates": "graph",
    "create_coe_graph": "graph",
    "create_coe_tool": "tool",
    "plot_regimes": "group_decision",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'policy')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
