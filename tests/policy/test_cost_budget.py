"""A bound in money: from the tokens that agents report and the prices that are known."""

import pytest

from coe_agents import ModelAgent, create_coe_graph
from coe_agents.graph import GraphOptions
from coe_agents.policy import Decision
from coe_agents.policy.bounds import CostBudget, Spent
from coe_agents.testing.driver import ScriptedDriver
from tests.doubles import ScriptedAgent

PRICE = {"input": 1.0, "output": 4.0}


def spent(cost, n_responses=2):
    return Spent(cost=cost, n_responses=n_responses, n_agents=2)


@pytest.mark.parametrize(
    ("cost", "clause"),
    [
        (0.25, None),
        (0.4, "0.4 is spent of a cost_budget of 0.5, and a response of each agent costs about 0.4"),
        (None, "not known how much is spent"),
    ],
)
def test_a_budget_ends_where_a_response_of_each_has_no_room(cost, clause):
    end = CostBudget(0.5, {}).end(spent(cost))
    assert end is None if clause is None else clause in end


class Asks:
    """A policy that always wants another round."""

    def decide(self, measurement, *, round, max_rounds):
        return Decision("another_round", None, "more", cause="uncertain")


def agent(name, price=PRICE):
    model = ScriptedDriver(script=[])
    return ModelAgent(name, model, price_per_million=price)


def priced(name):
    scripted = ScriptedAgent(name, ["Paris", "Lyon"])
    scripted.price_per_million = {"input": 1e6, "output": 1e6}
    return scripted


def test_a_graph_ends_where_the_money_is_spent():
    agents = [priced("a"), priced("b")]
    graph = create_coe_graph(
        agents, policy=Asks(), max_rounds=5, options=GraphOptions(cost_budget=1.0)
    ).compile()
    decision = graph.invoke({"question": "?"})["decision"]
    assert (decision["cause"], decision["n_rounds"]) == ("budget", 1)
    assert "cost_budget of 1" in decision["reason"]


def test_a_member_whose_price_is_not_known_is_named():
    with pytest.raises(ValueError, match="needs the price of every agent; got none of b, c"):
        create_coe_graph(
            [agent("a"), agent("b", None), ScriptedAgent("c", ["x"])],
            options=GraphOptions(cost_budget=1.0),
        )
