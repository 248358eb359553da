from coe_agents.actions.proposals import check_proposal
from coe_agents.tinyworld import tinyworld_tools
from tools.tinyworld.requests import CONFUSED, tinyworld_requests


def test_the_right_calls_fit_the_tools():
    for request in tinyworld_requests()[::25]:
        check_proposal(request.action, tools=tinyworld_tools())
        assert [call["name"] for call in request.action] == (
            [] if request.kind == "no_tool" else [request.kind]
        )
        for call in request.action:
            said = [value for key, value in call["args"].items() if key != "relation"]
            assert all(str(value) in request.question for value in said)
    assert all(CONFUSED[CONFUSED[name]] == name != CONFUSED[name] for name in CONFUSED)
