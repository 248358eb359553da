"""The gate behind a node of a graph whose state looks different: the node translates."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from coe_agents import create_coe_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy


class Ticket(TypedDict, total=False):
    """A state that knows nothing of questions and decisions."""

    text: str
    reply: str
    for_a_person: bool


gate = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()).compile()


async def answer(ticket: Ticket) -> Ticket:
    decision = (await gate.ainvoke({"question": ticket["text"]}))["decision"]
    if decision["action"] == "answer":
        return {"reply": decision["answer"], "for_a_person": False}
    return {"reply": f"A colleague will answer. ({decision['reason']})", "for_a_person": True}


builder = StateGraph(Ticket)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()


async def main() -> None:
    tickets: list[Ticket] = [{"text": "What is the chemical symbol for gold?"}, {"text": "Who am I?"}]
    for ticket in await graph.abatch(tickets):
        print(f"{ticket['text']}\n  {ticket['reply']}  for_a_person={ticket['for_a_person']}")


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
