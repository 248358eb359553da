from coe_agents.rounds import Resample, RoundPlan
from tests.rounds.contexts import context


def test_the_number_grows_from_round_to_round_up_to_the_most():
    # 5 * 1.5 = 7.5 -> 8; 8 * 1.5 = 12; 12 * 1.5 = 18, and 15 are the most
    resample = Resample(growth=1.5, most=15)
    n = 5
    grown = [n := resample.n_samples(n) for _ in range(3)]
    assert grown == [8, 12, 15]


def test_a_factor_that_leads_beyond_all_doubles_asks_for_the_most():
    resample = Resample(growth=1e308, most=15)
    assert resample.n_samples(5) == 15


def test_an_agent_that_failed_is_asked_for_its_own_number():
    plan = Resample()(context(n_responses={"a": 3, "b": 0}))
    assert plan == RoundPlan({"a": {"n_samples": 6}, "b": {}}, replaces=False, shows_answers=False)
