"""Owns experiments: many questions are asked, and the results are scored, compared and calibrated on.

Names are imported on first use, so that a command starts fast.
"""

from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if TYPE_CHECKING:
    from coe_agents.experiments.calibrating import calibrate
    from coe_agents.experiments.comparing import compare
    from coe_agents.experiments.evaluating import evaluate
    from coe_agents.experiments.running import arun, run
    from coe_agents.experiments.sampling import asample, sample
    from coe_agents.experiments.scoring import score

__all__ = ["arun", "asample", "calibrate", "compare", "evaluate", "run", "sample", "score"]

_NAMES = {
    "calibrating": ("calibrate",),
    "comparing": ("compare",),
    "evaluating": ("evaluate",),
    "running": ("arun", "run"),
    "sampling": ("asample", "sample"),
    "scoring": ("score",),
}
if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = on_first_use(__name__, _NAMES)
