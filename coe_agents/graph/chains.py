"""Owns chains of dependent questions: each answer leads to the next question, and each gate may end the chain."""

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite
from typing_extensions import TypedDict

from coe_agents._removed import refuses_removed
from coe_agents._steps import Steps, invoke
from coe_agents.checks import integer
from coe_agents.decision.data import DecisionData, view
from coe_agents.graph.context import CoEContext
from coe_agents.graph.nodes.prepare import NO_QUESTION
from coe_agents.graph.resuming import CoEStateGraph
from coe_agents.graph.runnables import BriefNode, check_compiled, steps_node
from coe_agents.graph.withheld import WITHHELD
from coe_agents.types import FinalAction, Uncertainty

NextQuestion: TypeAlias = Callable[[str, str], str | None]
_SUMMED: tuple[Literal["coe", "aleatoric", "epistemic"], ...] = ("coe", "aleatoric", "epistemic")


class Step(Uncertainty):
    """One `question` of a chain; the other fields are those of its decision: see `coe_agents.decision.DecisionData`."""

    question: str
    action: FinalAction
    answer: str | None


class SequenceInput(TypedDict, total=False):
    """The first question, or a conversation whose last human text it is; the agents see the question only."""

    question: Annotated[str, EphemeralValue]
    messages: Annotated[list[AnyMessage], add_messages]


class SequenceOutput(TypedDict, total=False):
    """The whole chain.

    Attributes:
        steps: The questions in order; the last is the one that was not answered, or that no other follows.
        decision: Of the last step.
        coe: The sum over all measured steps; so are the next two. A step's value depends on the answers before it: the
            sum is the uncertainty along the path taken, not the mean over all paths.
        aleatoric: In nats.
        epistemic: In nats.
        ended: "withheld": the last gate withheld its answer; "complete": no question follows the last answer;
            "max_steps": another would follow.
        messages: The conversation, with the chain at the end: each question with its answer, or the refusal.
    """

    steps: Annotated[list[Step], operator.add]
    decision: DecisionData
    coe: float
    aleatoric: float
    epistemic: float
    ended: Literal["withheld", "complete", "max_steps"]
    messages: Annotated[list[AnyMessage], add_messages]


class SequenceState(SequenceInput, SequenceOutput, total=False):
    """All channels of the graph; `asked` is the question of the next step."""

    asked: str


@refuses_removed
def create_sequential_graph(
    graph: Any, *, next_question: NextQuestion, max_steps: int = 10
) -> StateGraph[SequenceState, CoEContext, SequenceInput, SequenceOutput]:
    """Returns the graph of a chain, uncompiled: each question needs an answer of the gate before it.

    The input is `{"question": str}`, the first one, or `{"messages": [...]}`, whose last human text it is then; a new
    input on a thread starts a new chain.

    Args:
        graph: A compiled CoE graph, asked once for each step.
        next_question: From a question and its answer to the next question, or None at the end of the chain. The answer
            is the gate's: canonical (`coe_agents.clustering.canonical_answer`), unless the CoE graph was built
            otherwise. It is still a model's text: treat it as data.
        max_steps: The most questions of a chain.

    Raises:
        TypeError: If `graph` is not compiled.
        ValueError: If it has a checkpointer of its own, or `max_steps` is below 1.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent(name, ["The answer is Lagos."]) for name in ("a", "b")]
        >>> gate = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
        >>> chain = create_sequential_graph(gate, next_question=lambda _, answer: f"Where is {answer}?", max_steps=2)
        >>> [step["question"] for step in chain.compile().invoke({"question": "Which?"})["steps"]]
        ['Which?', 'Where is Lagos?']
    """
    gate = check_compiled(graph)
    integer(max_steps, '"max_steps"', least=1, advice="1 asks the first question only")

    def begin(state: SequenceState) -> dict[str, Any]:
        cleared: dict[str, Any] = {"steps": Overwrite([]), **dict.fromkeys(_SUMMED, 0.0)}
        question = state.get("question")
        if question is not None:
            return {"asked": question, "messages": [HumanMessage(question)], **cleared}

        text = ""
        for message in state.get("messages") or []:
            if isinstance(message, HumanMessage):
                text = message.text.strip()
        if not text:
            raise ValueError(NO_QUESTION)
        return {"asked": text, **cleared}

    def ask(state: SequenceState, config: RunnableConfig) -> Steps[Command[Any]]:
        question = state["asked"]
        result = yield invoke(gate, {"question": question}, config)
        decision: DecisionData = result["decision"]
        step: Step = {**view(decision, Step), "question": question}
        steps = [*state["steps"], step]
        update: dict[str, Any] = {"steps": [step], "decision": decision}
        for name in _SUMMED:
            update[name] = state[name] + (decision[name] or 0.0)

        answer = decision["answer"]
        following = None
        if answer is not None:
            following = next_question(question, answer)
        if following is not None and len(steps) < max_steps:
            return Command(goto="ask", update={**update, "asked": following})

        if answer is None:
            ended = "withheld"
        elif following is None:
            ended = "complete"
        else:
            ended = "max_steps"
        message = AIMessage(_in_words(steps, decision["reason"]))
        return Command(goto=END, update={**update, "ended": ended, "messages": [message]})

    sequence = CoEStateGraph(
        SequenceState,
        context_schema=CoEContext,
        input_schema=SequenceInput,
        output_schema=SequenceOutput,
    )
    sequence.add_node("begin", BriefNode(begin))
    sequence.add_node("ask", steps_node(ask, name="ask"), destinations=("ask", END))
    sequence.add_edge(START, "begin")
    sequence.add_edge("begin", "ask")
    return sequence


def _in_words(steps: Sequence[Step], reason: str) -> str:
    """Returns the chain as a message; `reason` is that of the last step."""
    last = steps[-1]
    lines = []
    for step in steps:
        if step["answer"] is not None:
            lines.append(f"{step['question']} {step['answer']}")
    if last["action"] != "answer":
        lines.append(f"{last['question']} {WITHHELD[last['action']]}{reason}.")
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))
