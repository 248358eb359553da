"""A person is asked where the models do not settle the question: `python examples/ask_a_person.py [REPLY]`.

REPLY is the number of a candidate, an answer of your own, or "reject"; "1" by default.
"""

import sys

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import AskPerson, RegimePolicy, create_coe_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer


def main(reply: str) -> None:
    policy = RegimePolicy(
        aleatoric_threshold=0.5, epistemic_threshold=0.3, actions={"conflict": "escalate"}
    )
    agents, clusterer = tinyworld_agents(), tinyworld_clusterer()
    graph = create_coe_graph(agents, clusterer=clusterer, policy=policy, escalation=AskPerson())
    compiled, thread = (
        graph.compile(checkpointer=InMemorySaver()),
        {"configurable": {"thread_id": "1"}},
    )

    result = compiled.invoke({"question": "What is the capital of Australia?"}, thread)
    request = result["__interrupt__"][
        0
    ].value  # the run has stopped; with a database it may go on next week
    print(f"{request['question']}\n  {request['reason']}")
    for candidate in request["candidates"]:
        print(f"  {candidate['number']}. {candidate['answer']} ({candidate['support']:.0%})")
    print(f"{request['asked']}\n> {reply}")

    result = compiled.invoke(Command(resume=read(reply)), thread)  # samples nobody again
    if waiting := result.get("__interrupt__"):
        raise SystemExit(f"  {waiting[0].value['problem']}")
    decision = result["decision"]
    print(
        f"  {decision['action']}, decided by {decision['decided_by']}: {decision['answer']}\n  {decision['reason']}"
    )


def read(reply: str) -> dict[str, object]:
    if reply.isdecimal():
        return {"type": "approve", "candidate": int(reply)}
    return {"type": "reject"} if reply == "reject" else {"type": "answer", "answer": reply}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "1")
