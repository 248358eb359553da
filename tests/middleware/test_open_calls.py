from langchain_core.messages import AIMessage, ToolMessage

from coe_agents.middleware.open_calls import ProposedCalls
from tests.middleware.calls import ANN, BOB, call


def test_a_call_that_was_replied_to_stays_so_when_another_one_is_given_an_id_of_its_own():
    calls = [call(**ANN, id="a"), call(**ANN, id="b"), call(**BOB, id="b")]
    reply = ToolMessage("sent", tool_call_id="a")
    state = {"messages": [AIMessage("", tool_calls=calls, id="m"), reply]}
    proposed = ProposedCalls(state, lambda name: True)
    first, second = proposed.calls
    assert (first["id"], first["args"]["to"]) == ("b", "Ann")
    assert second["args"]["to"] == "Bob"
    assert proposed.duplicates == [second["id"]]
    assert second["id"] not in ("a", "b")
