"""Owns the state graph: agents in parallel, clusters, Collaborative Entropy, the gate, and who decides after it."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.graph.builder import create_coe_graph
from coe_agents.graph.chains import create_sequential_graph
from coe_agents.graph.context import CoEContext
from coe_agents.graph.options import GraphOptions
from coe_agents.graph.people import AskPerson

__all__ = ["AskPerson", "CoEContext", "GraphOptions", "create_coe_graph", "create_sequential_graph"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
