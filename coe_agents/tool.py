"""Owns the tool that asks the group, for any agent that calls tools."""

from typing import Annotated, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import AfterValidator, BaseModel, Field

from coe_agents._removed import refuses_removed
from coe_agents._steps import Steps, arun_steps, invoke, run_steps
from coe_agents.decision import DecisionData
from coe_agents.errors import ConfigurationError
from coe_agents.graph.nodes.prepare import QuestionTooLongError
from coe_agents.graph.runnables import check_compiled

_DESCRIPTION = (
    "Asks several language models the same question and returns their answer if they are confident and agree. "
    "Otherwise it says that they are not, and why. Ask one self-contained question."
)


def _not_blank(question: str) -> str:
    if not question.strip():
        raise ValueError("the question must not be empty")
    return question


class _Arguments(BaseModel):
    question: Annotated[str, AfterValidator(_not_blank)] = Field(
        description="The question, with all it needs."
    )


@refuses_removed
def create_coe_tool(
    graph: Runnable[Any, Any], *, name: str = "ask_the_group", description: str | None = None
) -> BaseTool:
    """Returns a tool that asks the group a question.

    It returns the answer or, where the group withholds one, a text that says so and why. The whole decision
    (`coe_agents.decision.DecisionData`) is the artifact of the tool message. If the question is empty or longer than
    the graph accepts, the tool returns an error that the calling model can correct.

    Args:
        graph: A compiled graph of `create_coe_graph`, without a checkpointer of its own.
        name: The tool's name.
        description: What the calling model reads about the tool; by default its purpose and when it withholds.

    Raises:
        TypeError: If the graph is not compiled.
        ValueError: If it has a checkpointer of its own.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Lyon"])]
        >>> graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
        >>> withheld = create_coe_tool(graph).invoke({"question": "Capital of France?"})
        >>> print(withheld.partition(";")[0])
        The group withholds an answer: one of two agents says "Lyon", one says "Paris": a tie
    """
    group = check_compiled(graph)

    def steps(question: str, config: RunnableConfig) -> Steps[tuple[str, DecisionData]]:
        try:
            result = yield invoke(group, {"question": question}, config)
        except QuestionTooLongError as error:  # the calling model can correct it
            raise ToolException(str(error)) from error
        if "decision" not in result:  # it waits for a person, and could not be resumed from here
            hint = "a graph that asks a person needs an agent with a checkpointer"
            raise ConfigurationError("the group reached no decision", hint=hint)
        decision: DecisionData = result["decision"]
        if decision["action"] == "answer" and decision["answer"] is not None:
            return decision["answer"], decision
        return f"The group withholds an answer: {decision['reason']}.", decision

    def ask(question: str, config: RunnableConfig) -> tuple[str, DecisionData]:
        return run_steps(steps(question, config))

    async def aask(question: str, config: RunnableConfig) -> tuple[str, DecisionData]:
        return await arun_steps(steps(question, config))

    return StructuredTool.from_function(
        ask,
        aask,
        name=name,
        description=description or _DESCRIPTION,
        args_schema=_Arguments,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
