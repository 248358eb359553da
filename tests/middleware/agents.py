"""Agents with a gated tool, and the ways to run them."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import CoEMiddleware, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import GraphOptions
from coe_agents.testing.driver import ScriptedDriver
from tests.doubles import ScriptedAgent
from tests.middleware.calls import call, says

MODES = ("invoke", "astream")
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}


def judges(*replies):
    """One judge for each list of replies, and the graph that asks them."""
    agents = [ScriptedAgent(f"judge{place}", said) for place, said in enumerate(replies)]
    graph = create_coe_graph(
        agents,
        clusterer=NormalizedMatch(),
        policy=ThresholdPolicy(0.5),
        options=GraphOptions(retries=0),
    ).compile()
    return agents, graph


SURE = ["approve", "Approve."], ["approve", "approve"]
UNSURE = ["approve", "approve"], ["reject", "Reject."]
AGAINST = ["reject", "reject."], ["Reject", "reject"]
DECLINING = ["I don't know."], ["I don't know."]


@tool
def transfer_money(to: str, amount: float) -> str:
    """Sends money."""
    raise NotImplementedError("a bank brings its own function")


@tool
def balance() -> str:
    """Tells the balance."""
    return "the balance is 100"


class Bank:
    """A tool with a side effect that can be counted."""

    def __init__(self):
        self.transfers = []
        # copies, since to infer a schema takes as long as to run an agent
        transfer = transfer_money.model_copy(update={"func": self._transfer})
        self.tools = [transfer, balance.model_copy()]

    def _transfer(self, to, amount):
        self.transfers.append((to, amount))
        return f"sent {amount} to {to}"


def agent(graph, bank, *messages, driver=None, middleware=None, saver=True, **options):
    gate = middleware or [CoEMiddleware(graph, tools=["transfer_money"], **options)]
    script = [*(messages or [says(call())]), AIMessage("Done.")]
    checkpointer = InMemorySaver() if saver else None
    model = driver or ScriptedDriver(script=script)
    return create_agent(model, bank.tools, middleware=gate, checkpointer=checkpointer)


async def run(mode, compiled, given, config=THREAD):
    """Returns the last state, in either mode: sync and whole, or async and streamed."""
    if mode == "invoke":
        return compiled.invoke(given, config)
    states = [state async for state in compiled.astream(given, config, stream_mode="values")]
    last = states[-1]
    interrupts = [one for state in states for one in state.get("__interrupt__", ())]
    return {**last, "__interrupt__": interrupts} if interrupts else last


def judged_by(verdicts, asked):
    """A group that replies by what stands in the arguments it is asked about; `asked` keeps the questions."""

    def judge(question):
        asked.append(question["question"])
        arguments = question["question"].rpartition("<arguments>")[2]
        sure = next(reply for part, reply in verdicts.items() if part in arguments)
        found = {
            "action": "abstain" if sure is None else "answer",
            "answer": sure,
            "reason": "as told",
        }
        numbers = {"regime": "consensus", "coe": 0.0, "aleatoric": 0.0, "epistemic": 0.0}
        return {"decision": {**found, "choices": question.get("choices"), **numbers}}

    return RunnableLambda(judge)
