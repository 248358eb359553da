import pytest

from coe_agents import AskPerson, ThresholdPolicy
from coe_agents.config import load
from coe_agents.errors import ConfigurationError
from coe_agents.policy import FixedRounds
from coe_agents.policy.bounds import Bounds
from coe_agents.rounds.strategies import Clarify
from coe_agents.serve import Group
from tests.serve.groups import AGREEING, complete, create_group
from tests.serve.live import written


def test_a_configuration_sets_the_operators_limits(tmp_path):
    def configured(more):
        return Group.from_configuration(load(written(tmp_path, more=more)), name="coe")

    limits = "max_rounds = 3\ntoken_budget = 500\ndeadline = 30\nmax_question_chars = 50\n"
    group = configured(f'otherwise = "another_round"\n[graph]\n{limits}')
    assert group.limits == Bounds(max_coe=0.5, max_rounds=3, token_budget=500, deadline=30.0)
    assert group.name == "coe"
    assert group.agents == ("served",)
    assert group.max_question_chars == 50


@pytest.mark.parametrize(
    "options",
    [{"escalation": AskPerson()}, {"clarify": True}, {"strategies": {"conflict": Clarify()}}],
    ids=lambda options: next(iter(options)),
)
def test_parts_that_ask_a_person_are_refused(options):
    with pytest.raises(ConfigurationError, match="stops to ask a person"):
        create_group(*AGREEING, max_rounds=2, **options)


def test_the_limit_of_rounds_is_what_the_policy_asks_for():
    twice = FixedRounds(2, then=ThresholdPolicy(0.5))
    assert create_group(*AGREEING, policy=twice).limits.max_rounds == 2


async def test_a_decided_case_is_passed_on():
    decided = []
    group = create_group(*AGREEING, on_decision=decided.append)
    assert (await complete(group)).json()["choices"][0]["message"]["content"] == "Paris"
    assert [case["leading"] for case in decided] == ["Paris"]
