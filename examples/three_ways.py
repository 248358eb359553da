"""A chain of three agents, a debate of three, and one agent asked more often, at equal tokens.

    python examples/three_ways.py [QUESTIONS]

A debate reads more than it writes, so the others give more responses. The questions and the models are those that are
shipped with the package; put your own in place of "tinyworld" and `tinyworld_agents()`.
"""

import sys
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from coe_agents import ThresholdPolicy, compare, create_coe_graph, run
from coe_agents.policy import FixedRounds
from coe_agents.prompts import debate as with_answers
from coe_agents.rounds import Debate
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy
from coe_agents.tinyworld.facts import DEBATE
from coe_agents.tinyworld.questions import tinyworld_criterion

clusterer = tinyworld_clusterer()
always = ThresholdPolicy(float("inf"))


class Chain(TypedDict, total=False):
    """What the agents of the chain pass on: the question as the next one is asked it, and the last decision."""

    question: str
    asked: str
    decision: dict[str, Any]


def create_chain() -> StateGraph[Chain]:
    """Returns a graph in which each agent sees what the one before it answered; the last one's gate decides."""
    chain = StateGraph(Chain)
    before = START
    *first, last = tinyworld_agents(n_samples=13)
    for agent in (*first, last):
        policy = tinyworld_policy() if agent is last else always
        gate = create_coe_graph([agent], clusterer=clusterer, policy=policy).compile()

        async def step(state: Chain, config: RunnableConfig, gate: Any = gate) -> Chain:
            question = state.get("asked", state["question"])
            decision = (await gate.ainvoke({"question": question}, config))["decision"]
            answers = list(decision["support"].items())[:1]
            asked = with_answers(state["question"], answers, wording=DEBATE)
            return {"asked": asked, "decision": decision}

        chain.add_node(agent.name, step)
        chain.add_edge(before, agent.name)
        before = agent.name
    return chain


def main(n_questions: int) -> None:
    asked: dict[str, Any] = {
        "questions": "tinyworld",
        "limit": n_questions,
        "correctness": tinyworld_criterion(),
        "at_once": 4,
        "progress": False,
    }
    debate = run(
        tinyworld_agents(n_samples=4),
        clusterer=clusterer,
        policy=FixedRounds(2, then=tinyworld_policy()),
        strategies=Debate(prompt=DEBATE),
        **asked,
    )
    chain = run(create_chain(), **asked)
    alone = run(
        tinyworld_agents(n_samples=41)[:1], clusterer=clusterer, policy=tinyworld_policy(), **asked
    )
    for name, runs in (("debate", debate), ("chain", chain), ("alone", alone)):
        runs.name = name
    print(compare(debate, chain, alone))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
