from langchain_core.messages import ToolMessage

from coe_agents.middleware.open_calls import ProposedCalls
from tests.middleware.calls import ANN, BOB, call, says


def test_a_call_that_was_replied_to_stays_so_when_another_one_is_given_an_id_of_its_own():
    message = says(call(**ANN, id="a"), call(**ANN, id="b"), call(**BOB, id="b"))
    state = {"messages": [message, ToolMessage("sent", tool_call_id="a")]}
    proposed = ProposedCalls(state, lambda name: True)
    [renamed] = proposed.duplicates
    _, kept, last = message.tool_calls
    assert renamed not in ("a", "b")
    assert proposed.calls == [kept, {**last, "id": renamed}]
