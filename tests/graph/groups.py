import asyncio
from dataclasses import fields

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from coe_agents import RegimePolicy, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import GraphOptions
from coe_agents.testing import ScriptedAgent

ESCALATE = RegimePolicy(0.5, 0.3, actions={"conflict": "escalate"})
THREAD = {"configurable": {"thread_id": "1"}}


class Deciding:
    """A policy of a user's own, which decides one of these a round, and the last one from then on."""

    def __init__(self, *decisions, **attributes):
        self.decisions = decisions
        self.seen = []
        vars(self).update(attributes)

    def decide(self, measurement, *, round, max_rounds):
        self.seen.append((round, max_rounds, measurement))
        return self.decisions[min(round, len(self.decisions) - 1)]


def graph(*agents, **arguments):
    """Returns a graph that compares words, answers up to a CoE of 0.5, and tries nothing again, unless told."""
    usual = {"clusterer": NormalizedMatch(), "policy": ThresholdPolicy(0.5), "retries": 0}
    return create_coe_graph(agents, **with_options({**usual, **arguments}))


def with_options(arguments):
    """Returns arguments of a graph with those of `GraphOptions` as one."""
    names = [field.name for field in fields(GraphOptions)]
    rare = {name: arguments.pop(name) for name in names if name in arguments}
    return {**arguments, "options": GraphOptions(**rare)}


def saved(*agents, **options):
    return graph(*agents, **options).compile(checkpointer=InMemorySaver())


class Parent(MessagesState, total=False):
    """The state of a graph around ours."""

    question: str
    decision: dict


def around(node, *, context_schema=None, **options):
    """Returns a compiled graph of this node alone."""
    outer = StateGraph(Parent, context_schema=context_schema)
    outer.add_node("gate", node)
    outer.add_edge(START, "gate")
    return outer.compile(**options)


def ask(built, **given):
    return built.compile().invoke({"question": "Q?", **given})


def decide(*agents, question="Q?", **options):
    return ask(graph(*agents, **options), question=question)["decision"]


def saying(*texts):
    """Returns agents "a", "b", ..., each of which says one text."""
    return [ScriptedAgent(name, [text]) for name, text in zip("abcdefg", texts, strict=False)]


def both(built, given):
    """Runs sync and async, with a checkpointer and without; all must decide the same."""
    plain = built.compile()
    kept = built.compile(checkpointer=InMemorySaver())
    threads = [{"configurable": {"thread_id": name}} for name in ("sync", "async")]
    first, *others = (
        plain.invoke(given),
        asyncio.run(plain.ainvoke(given)),
        kept.invoke(given, threads[0]),
        asyncio.run(kept.ainvoke(given, threads[1])),
    )
    for other in others:
        assert other["decision"] == first["decision"]
        assert other["responses"] == first["responses"]
    return first
