"""The gate behind a node of a graph whose state looks different: it answers, declines, or hands over to a person."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from coe_agents import RegimePolicy, create_coe_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer


class Ticket(TypedDict, total=False):
    """A state that knows nothing of questions and decisions."""

    text: str
    reply: str
    for_a_person: bool


# it answers in consensus; where each model is confident of another answer, a person can tell who is right
policy = RegimePolicy(actions={"conflict": "escalate"})
gate = create_coe_graph(
    tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=policy
).compile()


async def answer(ticket: Ticket) -> Ticket:
    decision = (await gate.ainvoke({"question": ticket["text"]}))["decision"]
    if decision["action"] == "answer":
        return {"reply": decision["answer"], "for_a_person": False}
    if decision["action"] == "escalate":
        return {"reply": f"A colleague will answer. ({decision['reason']})", "for_a_person": True}
    return {"reply": "We do not know. Can you tell us more?", "for_a_person": False}


builder = StateGraph(Ticket)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()


async def main() -> None:
    questions = (
        "What is the chemical symbol for gold?",
        "What is the capital of Australia?",
        "Who am I?",
    )
    tickets: list[Ticket] = [{"text": question} for question in questions]
    for ticket in await graph.abatch(tickets):
        print(f"{ticket['text']}\n  {ticket['reply']}  for_a_person={ticket['for_a_person']}")


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
