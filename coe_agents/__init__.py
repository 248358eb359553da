"""Asks several language models one question, measures their uncertainty, and answers only where it is low.

Names are imported on first use, so that `import coe_agents` and its numeric core stay light.
"""

from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if TYPE_CHECKING:
    from coe_agents.agents import Arbiter, ModelAgent, load_model
    from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
    from coe_agents.decision import GroupDecision
    from coe_agents.experiments import (
        arun,
        asample,
        calibrate,
        compare,
        evaluate,
        run,
        sample,
        score,
    )
    from coe_agents.graph import AskPerson, CoEContext, create_coe_graph, create_sequential_graph
    from coe_agents.middleware import CoECouncil, CoEMiddleware
    from coe_agents.observability import CoETelemetry
    from coe_agents.policy import CalibratedPolicy, RegimePolicy, SupportPolicy, ThresholdPolicy
    from coe_agents.presets import mathematics, sentences, short_answers
    from coe_agents.rounds import Debate
    from coe_agents.rulings import Recording
    from coe_agents.shortcuts import aask, ask
    from coe_agents.tool import create_coe_tool

__version__ = "0.2.0"
__all__ = [
    "Arbiter",
    "AskPerson",
    "BidirectionalEntailment",
    "CalibratedPolicy",
    "CoEContext",
    "CoECouncil",
    "CoEMiddleware",
    "CoETelemetry",
    "Debate",
    "GroupDecision",
    "ModelAgent",
    "NormalizedMatch",
    "Recording",
    "RegimePolicy",
    "SupportPolicy",
    "ThresholdPolicy",
    "aask",
    "arun",
    "asample",
    "ask",
    "calibrate",
    "compare",
    "create_coe_graph",
    "create_coe_tool",
    "create_sequential_graph",
    "evaluate",
    "load_model",
    "mathematics",
    "run",
    "sample",
    "score",
    "sentences",
    "short_answers",
]

_NAMES = {
    "agents": ("Arbiter", "ModelAgent", "load_model"),
    "clustering": ("BidirectionalEntailment", "NormalizedMatch"),
    "decision": ("GroupDecision",),
    "experiments": (
        "arun",
        "asample",
        "calibrate",
        "compare",
        "evaluate",
        "run",
        "sample",
        "score",
    ),
    "graph": ("AskPerson", "CoEContext", "create_coe_graph", "create_sequential_graph"),
    "middleware": ("CoECouncil", "CoEMiddleware"),
    "observability": ("CoETelemetry",),
    "policy": ("CalibratedPolicy", "RegimePolicy", "SupportPolicy", "ThresholdPolicy"),
    "presets": ("mathematics", "sentences", "short_answers"),
    "rounds": ("Debate",),
    "rulings": ("Recording",),
    "shortcuts": ("aask", "ask"),
    "tool": ("create_coe_tool",),
}
if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = on_first_use(__name__, _NAMES)
