"""Owns the graph that returns the outcome only: for callers, such as MCP clients, that read all that they are given."""

from typing import Annotated, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from coe_agents._steps import Steps, invoke
from coe_agents.decision.data import Answer, view
from coe_agents.graph.context import CoEContext
from coe_agents.graph.runnables import check_compiled, steps_node


class QuestionInput(TypedDict):
    """A question, with all that it needs."""

    question: Annotated[str, EphemeralValue]


class GatedAnswer(Answer, total=False):
    """What became of a question: `action`, `answer`, and why.

    Attributes:
        reason: Which agents gave which answer, quoted and shortened, and why the policy decided so.
        coe: Collaborative Entropy; None if nothing was measured.
    """

    reason: str
    coe: float | None


class _State(QuestionInput, GatedAnswer, total=False):
    """All channels of the graph."""


def create_outcome_graph(graph: Runnable[Any, Any]) -> StateGraph[_State, CoEContext, QuestionInput, GatedAnswer]:
    """Returns a graph, uncompiled, that asks another one and returns the outcome without the responses.

    The input is `{"question": str}`; the output is an `GatedAnswer`. A thread's questions do not see each other.

    Args:
        graph: A compiled CoE graph.

    Raises:
        TypeError: If `graph` is not compiled.
        ValueError: If it has a checkpointer of its own.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent(name, ["Lagos"]) for name in ("a", "b")]
        >>> group = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
        >>> outcome = create_outcome_graph(group).compile().invoke({"question": "Which?"})
        >>> outcome["action"], outcome["answer"], outcome["coe"]
        ('answer', 'Lagos', 0.0)
    """
    group = check_compiled(graph)

    def ask(state: _State, config: RunnableConfig) -> Steps[GatedAnswer]:
        if "question" not in state:
            raise ValueError('the input must hold a "question"; got none. Call the graph with {"question": "..."}')
        result = yield invoke(group, {"question": state["question"]}, config)
        return view(result["decision"], GatedAnswer)

    slim = StateGraph(_State, context_schema=CoEContext, input_schema=QuestionInput, output_schema=GatedAnswer)
    slim.add_node("ask", steps_node(ask, name="ask"))
    slim.add_edge(START, "ask")
    slim.add_edge("ask", END)
    return slim
