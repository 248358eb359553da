"""A bound in money: from the tokens that agents report and the prices that are known."""

import warnings

import pytest

from coe_agents import ModelAgent, create_coe_graph
from coe_agents.graph import GraphOptions
from coe_agents.policy import Decision, FixedRounds, ThresholdPolicy
from coe_agents.policy.bounds import CostBudget, Spent, create_cost_budget, price_of
from coe_agents.testing.driver import ScriptedDriver
from tests.doubles import ScriptedAgent

PRICE = {"input": 1.0, "output": 4.0}


@pytest.mark.parametrize(
    ("cost", "n_responses", "clause"),
    [
        (0.25, 2, None),
        (
            0.4,
            2,
            "0.4 is spent of a cost_budget of 0.5, and a response of each agent costs about 0.4",
        ),
        (None, 2, "not known how much is spent"),
        # before a response, it is not known what one costs
        (0.49, 0, None),
        (0.5, 0, "0.5 is spent"),
    ],
)
def test_a_budget_ends_where_a_response_of_each_has_no_room(cost, n_responses, clause):
    end = CostBudget(0.5, {}).end(Spent(cost=cost, n_responses=n_responses, n_agents=2))
    assert end is None if clause is None else clause in end


@pytest.mark.parametrize(
    ("n_input", "n_output", "cost"),
    [(1000, 500, 0.006), (None, 500, None), (1000, None, None), (0, 0, 0.003)],
)
def test_requests_cost_what_their_tokens_do_and_it_is_not_known_what_unknown_tokens_cost(
    n_input, n_output, cost
):
    # of b: 1000 x 1 + 500 x 4, by the million
    usages = [
        ("a", {"input_tokens": n_input, "output_tokens": n_output}),
        ("b", {"input_tokens": 1000, "output_tokens": 500}),
    ]
    assert CostBudget(1.0, dict.fromkeys("ab", PRICE)).cost_of(usages) == cost


def test_without_prices_it_is_not_known_what_anything_costs():
    assert price_of([("a", 0, 0)], {}) is None
    assert price_of([("a", 0, 0)], {"b": PRICE}) == 0.0
    assert price_of([("a", 1, 0)], {"b": PRICE}) is None
    assert price_of([("a", 0, 1)], {"b": PRICE}) is None


def test_a_cost_budget_has_the_price_of_each_agent_and_is_above_0():
    assert create_cost_budget(0.5, [agent("a"), agent("b")], "x").prices == dict.fromkeys(
        "ab", PRICE
    )
    with pytest.raises(ValueError, match="x must be a finite number above 0; got 0"):
        create_cost_budget(0, [agent("a")], "x")


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


@pytest.mark.parametrize("max_rounds", [None, 1])
def test_a_budget_of_further_rounds_warns_where_there_are_none(max_rounds):
    with pytest.warns(UserWarning, match='nothing is bounded by "cost_budget": "max_rounds" is 1'):
        create_coe_graph(
            [priced("a")], max_rounds=max_rounds, options=GraphOptions(cost_budget=1.0)
        )
    with pytest.warns(UserWarning, match='by "token_budget" and "cost_budget"'):
        create_coe_graph(
            [priced("a")],
            max_rounds=max_rounds,
            token_budget=9,
            options=GraphOptions(cost_budget=1.0),
        )


def test_a_policy_that_asks_a_number_of_rounds_has_further_ones():
    policy = FixedRounds(2, then=ThresholdPolicy(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_coe_graph([priced("a")], policy=policy, options=GraphOptions(cost_budget=1.0))


def test_a_member_whose_price_is_not_known_is_named():
    with pytest.raises(ValueError, match="needs the price of every agent; got none of b, c"):
        create_coe_graph(
            [agent("a"), agent("b", None), ScriptedAgent("c", ["x"])],
            options=GraphOptions(cost_budget=1.0),
        )
