import asyncio

import pytest

from coe_agents import ThresholdPolicy
from coe_agents.graph.events import Event
from coe_agents.policy import Decision
from tests.doubles import ScriptedAgent
from tests.graph.groups import Deciding, graph, saying


def told(compiled):

    async def atold():
        return [event async for event in compiled.astream({"question": "Q?"}, stream_mode="custom")]

    events = list(compiled.stream({"question": "Q?"}, stream_mode="custom"))
    assert sorted(map(untimed, asyncio.run(atold()))) == sorted(map(untimed, events))
    return events


def untimed(event):
    return repr({key: value for key, value in event.items() if key != "seconds"})


def of(events, name):
    return [event for event in events if event["event"] == name]


@pytest.mark.parametrize(
    "reason", ["a tie: 'Paris', 'Lyon'", '"It is a long answer that is …"', "CoE is too high"]
)
def test_no_event_quotes_a_response(reason):
    policy = Deciding(Decision("abstain", None, reason))
    compiled = graph(
        *saying("Paris", "Lyon", "It is a long answer that is cut"), policy=policy
    ).compile()
    (decided,) = of(told(compiled), "decided")
    quoted = "the decision has the reason, which quotes a response"
    assert decided["reason"] == (reason if reason.startswith("CoE") else quoted)
    assert compiled.invoke({"question": "Q?"})["decision"]["reason"].endswith(reason)


def test_a_run_is_told_step_by_step_in_events_that_have_the_fields_of_their_type_and_nothing_more():
    types = {
        "agent_asked": {"agent"},
        "agent_sampled": {"agent", "n_responses", "seconds", "error"},
        "clustered": {"n_clusters", "sizes"},
        "measured": {"coe", "aleatoric", "epistemic", "regime"},
        "decided": {"action", "reason"},
        "ruled": {"action", "decided_by"},
    }
    policy = ThresholdPolicy(0.0, otherwise="escalate")
    agents = [ScriptedAgent("a", ["Paris", "Lyon"]), ScriptedAgent("b", OSError("gone"))]
    rule = {"action": "abstain", "reason": "no"}
    events = told(
        graph(*agents, policy=policy, min_agents=1, escalation=lambda case: rule).compile()
    )
    assert {event["event"] for event in events} == set(types)
    assert {event["agent"] for event in of(events, "agent_asked")} == {"a", "b"}
    sampled = {
        event["agent"]: (event["n_responses"], event["error"])
        for event in of(events, "agent_sampled")
    }
    assert sampled == {"a": (2, None), "b": (0, "OSError: gone")}
    assert all(event["seconds"] >= 0 for event in of(events, "agent_sampled"))
    clustered, measured, decided, ruled = events[-4:]
    assert clustered == {"event": "clustered", "round": 0, "n_clusters": 2, "sizes": [1, 1]}
    assert measured["event"] == "measured"
    assert measured["regime"] == "ambiguous"
    assert measured["epistemic"] == 0.0
    assert measured["coe"] == measured["aleatoric"] == pytest.approx(0.6931, abs=1e-4)  # log 2
    assert decided["event"] == "decided"
    assert decided["action"] == "escalate"
    assert decided["reason"]
    assert ruled["event"] == "ruled"
    assert ruled["action"] == "abstain"
    for event in events:
        assert (
            set(event) == {"event", "round", *types[event["event"]]} <= set(Event.__annotations__)
        )
