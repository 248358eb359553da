"""Agents with a gated tool, and the ways to run them."""

from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from coe_agents import CoEMiddleware, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.middleware import describe_call, lacks_approval
from coe_agents.testing.driver import ScriptedDriver
from tests.doubles import ScriptedAgent

MODES = ("invoke", "astream")
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}
PAY = {"messages": [("user", "Send 10 to Ann.")]}


def call(tool="transfer_money", /, id="c1", **args):
    return {"name": tool, "args": args or {"to": "Ann", "amount": 10}, "id": id}


def says(*calls, text="I will."):
    return AIMessage(text, tool_calls=list(calls))


DONE = says(text="Done.")
LOOKS = {"name": "balance", "args": {}, "id": "b1"}
APPROVE = {"type": "approve"}


def edit(name="transfer_money", /, **args):
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


def requests(state):
    """What a person is asked about, a request for each call."""
    (asked,) = state["__interrupt__"]
    return asked.value["action_requests"]


def judges(*replies):
    """One judge for each list of replies, and the graph that asks them."""
    agents = [ScriptedAgent(f"judge{place}", said) for place, said in enumerate(replies)]
    graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5), retries=0).compile()
    return agents, graph


ANN = {"to": "Ann", "amount": 1}
BOB = {"to": "Bob", "amount": 2}
SURE = ["approve", "Approve."], ["approve", "approve"]
UNSURE = ["approve", "approve"], ["reject", "Reject."]
AGAINST = ["reject", "reject."], ["Reject", "reject"]
DECLINING = ["I don't know."], ["I don't know."]


class Weather(BaseModel):
    """The weather."""

    sky: Literal["clear", "cloudy"]


def weather(sky, id="w1"):
    return {"name": "Weather", "args": {"sky": sky}, "id": id}


class Bank:
    """A tool with a side effect that can be counted."""

    def __init__(self):
        self.transfers = []

        @tool
        def transfer_money(to: str, amount: float) -> str:
            """Sends money."""
            self.transfers.append((to, amount))
            return f"sent {amount} to {to}"

        @tool
        def balance() -> str:
            """Tells the balance."""
            return "the balance is 100"

        self.tools = [transfer_money, balance]


def agent(graph, bank, *messages, middleware=None, saver=True, **options):
    gate = middleware or [CoEMiddleware(graph, tools=["transfer_money"], **options)]
    script = [*(messages or [says(call())]), AIMessage("Done.")]
    checkpointer = InMemorySaver() if saver else None
    return create_agent(ScriptedDriver(script=script), bank.tools, middleware=gate, checkpointer=checkpointer)


def people(*, when=lacks_approval, mode="batched"):
    """LangChain's own middleware, which asks a person about a transfer."""
    review = {"allowed_decisions": ["approve", "edit", "reject"], "when": when, "description": describe_call}
    return HumanInTheLoopMiddleware({"transfer_money": review}, interrupt_mode=mode)


async def run(mode, compiled, given, config=THREAD):
    """Returns the last state, in either mode: sync and whole, or async and streamed."""
    if mode == "invoke":
        return compiled.invoke(given, config)
    states = [state async for state in compiled.astream(given, config, stream_mode="values")]
    last = states[-1]
    interrupts = [one for state in states for one in state.get("__interrupt__", ())]
    return {**last, "__interrupt__": interrupts} if interrupts else last


def replies(state):
    """The tools' replies."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def judged_by(verdicts, asked):
    """A group that replies by what stands in the arguments it is asked about; `asked` keeps the questions."""

    def judge(question):
        asked.append(question["question"])
        arguments = question["question"].rpartition("<arguments>")[2]
        sure = next(reply for part, reply in verdicts.items() if part in arguments)
        numbers = {"regime": "consensus", "coe": 0.0, "aleatoric": 0.0, "epistemic": 0.0}
        action = "abstain" if sure is None else "answer"
        return {
            "decision": {
                "action": action,
                "answer": sure,
                "reason": "as told",
                "choices": question.get("choices"),
                **numbers,
            }
        }

    return RunnableLambda(judge)
