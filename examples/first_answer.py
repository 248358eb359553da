"""A question in, a gated answer out, on the models that come with the package: `python examples/first_answer.py`."""

import asyncio

from coe_agents import RegimePolicy, create_coe_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer


async def main() -> None:
    # sure of different answers: a case for somebody who can look it up
    policy = RegimePolicy(
        aleatoric_threshold=0.5, epistemic_threshold=0.3, actions={"conflict": "escalate"}
    )
    graph = create_coe_graph(
        tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=policy
    ).compile()
    questions = ("What is the chemical symbol for gold?", "What is the capital of Australia?")
    for question, result in zip(
        questions,
        await graph.abatch([{"question": question} for question in questions]),
        strict=True,
    ):
        decision = result["decision"]
        print(f"{question}\n  {decision['action']}: {decision['answer']}\n  {decision['reason']}")


if __name__ == "__main__":
    asyncio.run(main())
