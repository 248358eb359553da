"""A bound in money of a council: once it is spent, no member is asked, and nothing runs."""

import pytest

from coe_agents import CoECouncil
from tests.middleware.agents import MODES, agent, run
from tests.middleware.calls import ANN, DONE, PAY, call, replies, says
from tests.middleware.council import AGREE, members

PRICE = {"input": 1e5, "output": 1e5}
"""A reply of a member takes 5 and 1 tokens: 0.6."""


def council(*, budget, tools, **options):
    asked = members(AGREE, AGREE)
    for member in asked:
        member.price_per_million = PRICE
        member.script = [[call(**ANN)]]
    return asked, CoECouncil(asked, cost_budget=budget, tools=tools, **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("tools", [None, ["transfer_money"]], ids=["all", "named"])
async def test_once_the_money_is_spent_nobody_is_asked_and_nothing_runs(
    tools, mode, adaptive, bank
):
    asked, gate = council(budget=1.2, tools=tools, adaptive=adaptive)
    calls = [says(call(id=name, **ANN)) for name in "xyz"]
    paying = agent(None, bank, *calls, DONE, middleware=[gate])
    state = await run(mode, paying, PAY)
    assert bank.transfers == [("Ann", 1)]
    assert [len(member.requests) for member in asked] == [1, 1]
    assert state["council"]["cause"] == "budget"
    assert "cost_budget of 1.2" in replies(state)[1].text
