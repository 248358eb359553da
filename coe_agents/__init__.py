"""Several language models, one question, and a gate that knows when not to answer.

Names are imported when first used, so that `import coe_agents` and its numeric core stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coe_agents.agents import ModelAgent
    from coe_agents.graph import create_coe_graph
    from coe_agents.policy import CalibratedPolicy, Decision, Measurement, RegimePolicy, ThresholdPolicy

__version__ = "0.1.0"
__all__ = [
    "CalibratedPolicy",
    "Decision",
    "Measurement",
    "ModelAgent",
    "RegimePolicy",
    "ThresholdPolicy",
    "create_coe_graph",
]

_HOMES = {"ModelAgent": "agents", "create_coe_graph": "graph"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'policy')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
