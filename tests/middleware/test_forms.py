"""Each form of a call, once for each gate: what is supported runs, what is not does not, and a person may decide."""

import pytest
from langchain.agents.middleware import after_model

from coe_agents import CoECouncil, CoEMiddleware
from tests.middleware.agents import MODES, SURE, UNSURE, Bank, agent, judges, run
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, call, replies, says
from tests.middleware.council import members
from tests.middleware.people import APPROVE, decide, requests

GATES = ("gate", "gate interrupt", "council", "council interrupt", "council in turn")
every_gate = pytest.mark.parametrize("gate", GATES)
every_mode = pytest.mark.parametrize("mode", MODES)


def middleware(gate, is_supported, **options):
    """The gate, before a group that supports the payment to Ann or is uncertain about it."""
    on_uncertain = "interrupt" if "interrupt" in gate else "block"
    if gate.startswith("council"):
        proposed = call(**ANN if is_supported else BOB)
        agents = members(*[[[proposed], [], "Done."]] * 2)
        adaptive = gate.endswith("turn")
        return [
            CoECouncil(
                agents, tools=["transfer_money"], on_uncertain=on_uncertain, adaptive=adaptive
            )
        ]
    _, graph = judges(*SURE if is_supported else UNSURE)
    return [CoEMiddleware(graph, tools=["transfer_money"], on_uncertain=on_uncertain, **options)]


@every_mode
@every_gate
async def test_a_supported_call_runs_once_and_a_free_one_beside_the_gate(mode, gate, bank):
    compiled = agent(
        None, bank, says(call(**ANN)), says(LOOKS), middleware=middleware(gate, is_supported=True)
    )
    state = await run(mode, compiled, PAY)
    assert bank.transfers == [("Ann", 1.0)]
    assert [reply.text for reply in replies(state)] == ["sent 1.0 to Ann", "the balance is 100"]
    assert state["messages"][-1].text == DONE.text
    if mode == "invoke":  # streams show every channel
        assert not [key for key in state if key.startswith("coe_")]


@every_mode
@every_gate
async def test_an_unsupported_call_runs_only_if_a_person_approves_it(mode, gate, bank):
    compiled = agent(None, bank, says(call(**ANN)), middleware=middleware(gate, is_supported=False))
    state = await run(mode, compiled, PAY)
    assert bank.transfers == []
    if "interrupt" in gate:
        (request,) = requests(state)
        assert request["name"] == "transfer_money"
        assert request["args"] == ANN
        state = await run(mode, compiled, decide(APPROVE))
        assert bank.transfers == [("Ann", 1.0)]
    else:
        (reply,) = replies(state)
        assert reply.status == "error"
        assert reply.tool_call_id == "c1"
        assert reply.name == "transfer_money"
        assert reply.text.startswith("transfer_money was not run: ")
    assert state["messages"][-1].text == DONE.text


@after_model(can_jump_to=["end"])
def unreviewed(state, runtime):
    """Skips what comes after the model, so that the answer is first seen at the end of the run."""
    return {"jump_to": "end"}


@every_mode
@pytest.mark.parametrize("behind", [[], [unreviewed]], ids=["after the model", "at the end"])
@pytest.mark.parametrize("is_supported", [True, False])
async def test_a_final_answer_is_given_only_if_the_group_approves(mode, is_supported, behind):
    gate = middleware("gate", is_supported, final_answer=True)
    state = await run(
        mode, agent(None, Bank(), says(text="Paris."), middleware=[*gate, *behind]), PAY
    )
    assert (state["messages"][-1].text == "Paris.") is is_supported
    assert ("Paris" in str(state["messages"])) is is_supported
