import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents.errors import InvalidReplyError
from coe_agents.graph.server import withhold
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import THREAD, graph, saying
from tests.graph.test_schemas import SERVED, served_graph


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_what_was_withheld_is_nowhere_and_an_answer_is_there(mode):
    agents = saying("Lyon", "Nice")
    public = withhold(graph(*agents).compile()).compile(checkpointer=InMemorySaver())
    events = []

    async def ask(**given):
        modes = {"stream_mode": ["custom", "values"]}
        if mode == "sync":
            parts = [*public.stream(given, THREAD, **modes)]
        else:
            parts = [part async for part in public.astream(given, THREAD, **modes)]
        events.extend(chunk["event"] for kind, chunk in parts if kind == "custom")
        assert not any(word in str(parts) for word in ("Lyon", "Nice"))  # nor on the way
        return parts[-1][1]

    state = await ask(question="Which is better?")
    assert state["decision"]["cause"] == "uncertain"
    assert state["decision"]["coe"] == pytest.approx(0.6931, abs=1e-4)
    assert events[-1] == "decided"
    for agent in agents:
        agent.rounds = [["Bern"]]
    state = await ask(messages=[("user", "What is the capital of Switzerland?")])
    assert state["decision"]["answer"] == "Bern"
    assert state["messages"][-1].content == "Bern"
    (message,) = agents[0].requests[-1]["messages"]
    assert message["content"] == "What is the capital of Switzerland?"


def test_an_event_of_a_failure_does_not_tell_what_the_model_replied():
    agents = [
        ScriptedAgent("a", ["Bern"]),
        ScriptedAgent("b", InvalidReplyError("no number: Lyon", retryable=False)),
    ]
    public = withhold(graph(*agents).compile()).compile()
    parts = [*public.stream({"question": "?"}, stream_mode=["custom", "values"])]
    failures = [part for kind, part in parts if kind == "custom" and part.get("error")]
    assert failures
    assert "Lyon" not in str(parts)


async def test_no_stream_shows_what_happens_inside_also_where_subgraphs_are_asked_for():
    public = withhold(graph(*saying("Lyon", "Nice")).compile()).compile()
    asked = {"question": "Which is better?"}
    for mode in ("values", "updates", "messages", "tasks", "debug", "custom"):
        parts = [*public.stream(asked, stream_mode=mode, subgraphs=True)]
        parts += [part async for part in public.astream(asked, stream_mode=mode, subgraphs=True)]
        assert parts
        assert not any(word in str(parts) for word in ("Lyon", "Nice"))
    events = [event async for event in public.astream_events(asked)]
    assert "withheld" in str(events)
    assert not any(word in str(events) for word in ("Lyon", "Nice"))


AUSTRALIA = "What is the capital of Australia?"
WITHHELD = ["Canberra", "Sydney"]
IVAN = {
    "type": "edit",
    "edited_action": {"name": "transfer", "args": {"name": "Ivan", "amount": 75}},
}
CASES = {
    "council": ("Please pay Ivan the sum of 75 euros.", IVAN, ["Ian"]),
    "debate": (AUSTRALIA, None, WITHHELD),
    "escalation_to_person": (AUSTRALIA, {"type": "reject", "message": "nobody knows"}, WITHHELD),
    "gated_answer": (AUSTRALIA, None, WITHHELD),
    "gated_tools_agent": (AUSTRALIA, None, WITHHELD),
    "sequential_agents": (AUSTRALIA, None, WITHHELD),
}
"""Of each graph that is served: a question, the reply of a person who is asked, and what is withheld."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
@pytest.mark.usefixtures("local_models")
def test_no_graph_that_is_served_tells_what_was_withheld(name):
    question, reply, withheld = CASES[name]
    served = served_graph(name).copy({"checkpointer": InMemorySaver()})
    options = {} if name == "council" else {"context": {"n_samples": 3}}
    result = served.invoke({"messages": [("user", question)]}, THREAD, **options)
    if reply is not None:
        assert all(
            word in str(result["__interrupt__"]) for word in withheld
        )  # the person is shown it
        result = served.invoke(Command(resume={"decisions": [reply]}), THREAD, **options)
    assert "__interrupt__" not in result
    assert not [word for word in withheld if word in str(result)]
    if name == "escalation_to_person":
        said = 'I will not answer this: a person rejected all 2 answers ("nobody knows").'
        assert result["messages"][-1].text == said
