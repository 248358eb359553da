import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from coe_agents.graph.context import CallersLimits
from coe_agents.policy import Decision
from coe_agents.policy.bounds import Bounds
from coe_agents.serve.api_error import ApiError
from tests.serve.groups import AGREEING, SlowAgent, complete, create_group, group_of

OPERATOR = Bounds(
    max_coe=0.6, aleatoric_threshold=0.5, max_rounds=3, token_budget=100, deadline=9.0
)
HALF = (["x", "y"], ["x"], ["x"])
"""One agent is split, so that CoE is 0.451 = 0.231 + 0.220 and x leads."""


def tighten_by(**given):
    return replace(create_group(*AGREEING), agents=("a", "b"), limits=OPERATOR).tighten(given)


def test_lower_limits_are_kept():
    given = {
        "max_coe": 0.2,
        "max_rounds": 1,
        "token_budget": 50,
        "deadline": 2.0,
        "epistemic_threshold": 5.0,
    }
    assert tighten_by(**given) == CallersLimits(**given)
    assert str(tighten_by(max_coe=-0.0).max_coe) == "0.0"
    assert (
        tighten_by()
        == tighten_by(max_coe=None, agents=None)
        == tighten_by(agents=["b", "a"])
        == CallersLimits()
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("max_coe", 0.7, "at most 0.6, the operator's; got 0.7"),
        ("max_coe", math.nan, "must be a number of at least 0"),
        ("max_rounds", 4, "at most 3, the operator's; got 4"),
        ("token_budget", 101, "at most 100, the operator's"),
        ("deadline", 10, "at most 9, the operator's"),
        ("n_samples", 1, "set by the operator"),
        ("agents", ["a"], "must be all agents, a, b"),
        ("max_co", 0.1, 'not an option of "coe". Did you mean "max_coe"?'),
    ],
)
def test_what_is_not_tighter_is_refused(option, value, message):
    with pytest.raises(ApiError, match=re.escape(message)) as refused:
        tighten_by(**{option: value})
    assert refused.value.param == f"coe.{option}"


@pytest.mark.parametrize(
    ("coe", "action"),
    [({}, "answer"), ({"max_coe": 0.44}, "abstain"), ({"epistemic_threshold": 0.21}, "abstain")],
)
async def test_the_gate_of_one_request(coe, action):
    reply = (await complete(create_group(*HALF), coe=coe)).json()
    assert reply["coe"]["action"] == action
    assert reply["coe"]["coe"] == pytest.approx(0.451, abs=0.001)
    if action == "abstain":
        assert reply["coe"]["cause"] == "limit_of_caller"


async def test_a_deadline_silences_nobody_but_all():
    agents = [
        SlowAgent("a", ["x"], seconds=0),
        SlowAgent("b", ["x"], seconds=0),
        SlowAgent("c", ["y"], seconds=600),
    ]
    reply = (await complete(group_of(*agents), coe={"deadline": 1.0})).json()
    message = reply["choices"][0]["message"]
    assert message["content"] == message["refusal"]
    assert reply["coe"]["action"] == "abstain"
    assert reply["coe"]["coe"] is None
    assert reply["usage"] is None
    assert (agents[2].n_started, agents[2].n_ended) == (1, 0)


async def test_fewer_rounds_do_not_make_a_policy_answer_earlier():
    def decide(measurement, *, round, max_rounds):
        return Decision(
            "answer" if round + 1 == max_rounds else "another_round", measurement.answer
        )

    group = create_group(["x"], ["x"], policy=SimpleNamespace(decide=decide), max_rounds=3)
    assert (await complete(group)).json()["coe"]["action"] == "answer"
    reply = (await complete(group, coe={"max_rounds": 1})).json()
    assert reply["coe"]["action"] == "abstain"
    assert reply["coe"]["n_rounds"] == 1
