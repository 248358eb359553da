import json
import math
from itertools import count

import pytest

from coe_agents import AdaptiveSampling, RegimePolicy, ThresholdPolicy
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA, Samples
from coe_agents.experiments.comparison import compare, in_words
from coe_agents.experiments.frontier import find_frontier, halve
from coe_agents.experiments.replay import ReplayedPolicy, load_saved, replay
from coe_agents.policy import Bounds, CascadePolicy, Decision, Rules
from coe_agents.rounds import Resample, Strategies

RIGHT = CRITERIA["reference"]


@pytest.fixture
def saved(tmp_path):
    """Returns a function from what each agent said to each question to its saved responses; all tokens count 2."""
    numbers = count()

    def create(*questions, references=("Paris",), **more):
        path = tmp_path / f"{next(numbers)}.samples.jsonl"
        rows = [
            {"id": str(i), "agent": agent, "index": index, "text": text, "references": list(references), "n_tokens": 2}
            | more
            for i, said in enumerate(questions)
            for agent, texts in said.items()
            for index, text in enumerate(texts)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with Samples([path]) as samples:
            return load_saved(samples, NormalizedMatch())

    return create


def policy(of=None, *, n=2, max_rounds=1, **more):
    of, rules = of or ThresholdPolicy(0.1), Rules(bounds=Bounds(max_rounds=max_rounds))
    return ReplayedPolicy(name="p", policy=of, n_samples={"a": n, "b": n}, rules=rules, **more)


def only(found):
    (outcome,) = found.outcomes.values()
    return outcome


def test_the_first_responses_stand_for_what_is_asked_for(saved):
    held = saved({"a": ["Paris", "Paris", "Lyon"], "b": ["Paris", "paris", "Rome"]})
    outcome = only(replay(held, policy(), RIGHT))
    assert (outcome.is_answered, outcome.correct, outcome.tokens, outcome.n_requests) == (True, 1.0, 8.0, 2)
    outcome = only(replay(held, policy(n=3), RIGHT))
    assert (outcome.is_answered, outcome.correct, outcome.leading_correct) == (False, None, 1.0)
    assert outcome.tokens == 12.0


def test_another_round_takes_the_next_responses_while_they_last(saved):
    again = ThresholdPolicy(0.1, otherwise="another_round")
    plans = {"max_rounds": 3, "strategies": Strategies({"conflict": Resample(growth=1)})}
    held = saved({"a": ["Paris"] * 3, "b": ["Lyon"] * 3})
    found = replay(held, policy(again, n=1, **plans), RIGHT)
    outcome = only(found)
    assert (outcome.n_rounds, outcome.n_requests, outcome.tokens, outcome.is_answered) == (3, 6, 12.0, False)
    found = replay(held, policy(again, n=2, **{**plans, "max_rounds": 9}), RIGHT)
    assert only(found).n_rounds == 2
    assert "1 question would ask again, and no response is left; it counts as not answered" in found.notes
    assert "in 1 question fewer responses are saved than it would ask for" in found.notes


def test_a_debate_cannot_be_replayed_and_is_counted(saved):
    again = ThresholdPolicy(0.1, otherwise="another_round")
    found = replay(saved({"a": ["Paris"] * 4, "b": ["Lyon"] * 4}), policy(again, max_rounds=2), RIGHT)
    assert (only(found).n_rounds, only(found).is_answered) == (1, False)
    assert "1 question would go to a round that cannot be replayed; it counts as not answered" in found.notes


def test_tokens_of_what_cannot_be_replayed_are_a_bound_and_two_bounds_are_not_compared(saved):
    held = saved({"a": ["Paris"] * 4, "b": ["Lyon"] * 4})
    whole = replay(held, policy(), RIGHT)
    debate = replay(held, policy(ThresholdPolicy(0.1, otherwise="another_round"), max_rounds=2), RIGHT)
    says = {
        pair: in_words(compare([first, other], n_resamples=5))[1].rpartition("%. ")[2]
        for pair, (first, other) in {
            "whole": (whole, whole),
            "debate": (whole, debate),
            "whole to debate": (debate, whole),
            "two debates": (debate, debate),
        }.items()
    }
    assert "takes 1.00 times the tokens" in says["whole"]
    assert "takes at least 1.00 times the tokens" in says["debate"]
    assert "takes at most 1.00 times the tokens" in says["whole to debate"]
    assert "tokens" not in says["two debates"]


def test_an_escalation_stays_with_nobody(saved):
    held = saved({"a": ["Paris"] * 2, "b": ["Lyon"] * 2})
    found = replay(held, policy(ThresholdPolicy(0.1, otherwise="escalate"), has_arbiter=True), RIGHT)
    assert (only(found).is_escalated, only(found).decided_by) == (True, "nobody")
    assert "1 question would go to an arbiter, which cannot be replayed; it counts as escalated" in found.notes


def test_adaptive_sampling_stops_where_the_forecast_is_settled(saved):
    sure, unsure = {"a": ["Paris"] * 10, "b": ["Paris"] * 10}, {"a": ["Paris", "Lyon"] * 5, "b": ["Rome", "Oslo"] * 5}
    adaptive = {"adaptive": AdaptiveSampling(start=3, step=3, confidence=0.8)}
    found = replay(saved(sure, unsure), policy(ThresholdPolicy(1.0), n=10, **adaptive), RIGHT)
    whole = replay(saved(sure, unsure), policy(ThresholdPolicy(1.0), n=10), RIGHT)
    assert [each.is_answered for each in found.outcomes.values()] == [True, False]
    assert found.outcomes["0"].tokens < whole.outcomes["0"].tokens == 40


def test_a_tie_and_a_refusal_are_not_answered(saved):
    held = saved({"a": ["Paris"], "b": ["Lyon"]}, {"a": ["I don't know."], "b": ["I don't know."]})
    found = replay(held, policy(ThresholdPolicy(9.0), n=1), RIGHT)
    assert not any(each.is_answered for each in found.outcomes.values())


def test_other_agents_stand_in_and_that_is_said(saved):
    found = replay(saved({"x": ["Paris"] * 2, "y": ["Paris"] * 2}), policy(), RIGHT)
    assert only(found).is_answered
    assert "none of its agents is in the samples: theirs stand in, in 1 question" in found.notes


def test_costs_are_of_the_tokens_and_each_request_pays_its_prompt(saved):
    held = saved({"a": ["Paris"] * 2, "b": ["Paris"] * 2}, input_tokens=100)
    prices = {name: {"input": 1.0, "output": 10.0} for name in "ab"}
    outcome = only(replay(held, policy(prices=prices), RIGHT))
    assert outcome.tokens == 2 * (100 + 4)
    assert outcome.cost == pytest.approx(2 * (100 + 40) / 1e6)


def graded(n):
    """Returns questions of which the sure ones are right: the first tenth has one answer, the last one ten."""
    for number in range(n):
        wrong = number * 10 // n
        yield {name: [f"{name}{i}" if i < wrong else "Paris" for i in range(10)] for name in "ab"}


def test_the_frontier_is_swept_on_one_half_and_judged_on_the_other(saved):
    held = saved(*graded(80))
    calibration, test = halve(held)
    assert len(calibration) == len(test) == 40
    assert not {each.question.id for each in calibration} & {each.question.id for each in test}
    cheap = policy(ThresholdPolicy(0.5), n=4)
    found = find_frontier(held, [policy(n=10), cheap], RIGHT, risk=0.05, n_thresholds=6, n_resamples=20)
    assert found.unit == "tokens"
    assert found.chosen.is_pareto
    assert found.chosen.risk <= 0.05
    for point in found.points:
        others = [each for each in found.points if each.coverage >= point.coverage and each.price <= point.price]
        better = [each for each in others if each.risk < point.risk]
        assert point.is_pareto <= (not better)
    assert [each.name for each in found.judged.policies][1:] == ["p", "p"]
    assert found.judged.policies[0].n_questions == 40


def test_the_thresholds_of_a_cascade_are_swept_together(saved):
    held = saved(*graded(80))
    never = policy(CascadePolicy([["a"], ["b"]], [0.0, 0.0], otherwise="escalate"), n=10, max_rounds=2)
    found = find_frontier(held, [never], RIGHT, risk=0.05, n_thresholds=6, n_resamples=20)
    assert len(found.points) == 2  # the first agent alone, and both
    assert all(point.risk <= 0.05 for point in found.points)
    best = found.chosen.policy.policy
    assert found.chosen.thresholds == dict(zip(map("+".join, best.stages), best.cascade_thresholds, strict=True))
    assert best.otherwise == "escalate"
    chosen, configured = found.judged.policies
    assert chosen.figures["coverage"][0] > configured.figures["coverage"][0]


def test_a_cascade_is_swept_beyond_the_risk_too(saved):
    sure, unsure = dict.fromkeys("ab", ["Paris"] * 10), dict.fromkeys("ab", ["Lyon"] * 7 + ["Oslo"] * 3)
    held = saved(*[sure] * 20, *[unsure] * 20)
    cascade = policy(CascadePolicy([["a"], ["b"]], [0.0, 0.0]), n=10, max_rounds=2)
    found = find_frontier(held, [cascade], RIGHT, risk=0.05, n_thresholds=6, n_resamples=20)
    assert found.chosen.risk == 0
    # else a threshold on both agents would be marked as the best there, which a cascade beats
    assert max(point.coverage for point in found.points) == 1


def test_no_point_is_chosen_where_none_keeps_the_risk(saved):
    held = saved(*graded(8), references=["Oslo"])
    found = find_frontier(held, [policy(RegimePolicy(0.5, 0.5), n=10)], RIGHT, risk=0.1, n_thresholds=3)
    assert found.chosen is None
    assert found.in_words() == ["No policy keeps a risk of 0.1 on the calibration half at any threshold."]
    assert found.to_json()["judged"] is None


def test_a_policy_sees_the_rounds_before_in_a_replay(saved):
    seen = []

    class Noting:
        def decide(self, measurement, *, round, max_rounds):
            seen.append([(data["round"], data["epistemic"]) for data in measurement.history])
            return Decision("another_round")

    plans = {"max_rounds": 3, "strategies": Strategies({"conflict": Resample(growth=1)})}
    held = saved({"a": ["Paris"] * 3, "b": ["Lyon"] * 3})
    replay(held, policy(Noting(), n=1, **plans), RIGHT)
    split = pytest.approx(math.log(2))
    assert seen == [[], [(0, split)], [(0, split), (1, split)]]


def test_an_agent_without_weight_answers_nothing_by_itself(saved):
    held = saved({"a": ["Paris", "Paris"]})
    outcome = only(replay(held, policy(weights={"a": 0.0, "b": 1.0}), RIGHT))
    assert (outcome.is_answered, outcome.tokens) == (False, None)
