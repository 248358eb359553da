import math
from dataclasses import replace

import pytest

from coe_agents import ThresholdPolicy
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.correctness import CRITERIA
from coe_agents.experiments.comparison import compare_outcomes, in_words
from coe_agents.experiments.replays import ReplayedPolicy, load_saved, replay
from coe_agents.policy import Decision
from coe_agents.policy.bounds import Bounds
from coe_agents.policy.settle import Rules
from coe_agents.rounds import Resample
from coe_agents.rounds.strategies import Strategies
from tests.evaluation.invented import row, write
from tests.graph.groups import Deciding

RIGHT = CRITERIA["reference"]


def saved(folder, *questions, **more):
    """Returns the saved responses of what each agent said to each question; Paris is right, all tokens count 2."""
    rows = []
    for number, said in enumerate(questions):
        for agent, texts in said.items():
            for index, text in enumerate(texts):
                response = row(str(number), agent, index, text, references=["Paris"], n_tokens=2)
                rows.append({**response, **more})
    with Samples([write(folder / "s.samples.jsonl", rows)]) as samples:
        return load_saved(samples, NormalizedMatch())


def policy(of=None, *, n=2, max_rounds=1, **more):
    of = of or ThresholdPolicy(0.1)
    rules = Rules(bounds=Bounds(max_rounds=max_rounds))
    return ReplayedPolicy(name="p", policy=of, n_samples={"a": n, "b": n}, rules=rules, **more)


def only(found):
    (outcome,) = found.outcomes.values()
    return outcome


def test_the_first_responses_stand_for_what_is_asked_for(tmp_path):
    held = saved(tmp_path, {"a": ["Paris", "Paris", "Lyon"], "b": ["Paris", "paris", "Rome"]})
    outcome = only(replay(held, policy(), RIGHT))
    assert outcome.is_answered
    assert outcome.correct == 1.0
    assert outcome.tokens == 8.0
    assert outcome.n_requests == 2

    outcome = only(replay(held, policy(n=3), RIGHT))
    assert not outcome.is_answered
    assert outcome.correct is None
    assert outcome.leading_correct == 1.0
    assert outcome.tokens == 12.0


def test_another_round_takes_the_next_responses_while_they_last(tmp_path):
    again = ThresholdPolicy(0.1, otherwise="another_round")
    strategies = Strategies({"conflict": Resample(growth=1)})
    held = saved(tmp_path, {"a": ["Paris"] * 3, "b": ["Lyon"] * 3})
    three_rounds = policy(again, n=1, max_rounds=3, strategies=strategies)
    outcome = only(replay(held, three_rounds, RIGHT))
    assert outcome.decision["n_rounds"] == 3
    assert outcome.n_requests == 6
    assert outcome.tokens == 12.0
    assert not outcome.is_answered

    nine_rounds = policy(again, n=2, max_rounds=9, strategies=strategies)
    found = replay(held, nine_rounds, RIGHT)
    assert only(found).decision["n_rounds"] == 2
    no_response = "1 question would ask again, and no response is left; it counts as not answered"
    assert no_response in found.notes
    assert "in 1 question fewer responses are saved than it would ask for" in found.notes


def test_tokens_of_what_cannot_be_replayed_are_a_bound_and_two_bounds_are_not_compared(tmp_path):
    held = saved(tmp_path, {"a": ["Paris"] * 4, "b": ["Lyon"] * 4})
    whole = replay(held, policy(), RIGHT)
    again = ThresholdPolicy(0.1, otherwise="another_round")
    debate = replay(held, policy(again, max_rounds=2), RIGHT)

    def words(*outcomes):
        _, sentence, *_ = in_words(compare_outcomes(outcomes, n_resamples=5))
        return sentence.rpartition("%. ")[2]

    assert "times the tokens" not in words(whole, whole)  # as many
    assert "takes at least 1.00 times the tokens" in words(whole, debate)
    assert "takes at most 1.00 times the tokens" in words(debate, whole)
    assert "tokens" not in words(debate, debate)


def test_a_policy_sees_the_rounds_before_in_a_replay(tmp_path):
    noting = Deciding(Decision("another_round"))
    strategies = Strategies({"conflict": Resample(growth=1)})
    held = saved(tmp_path, {"a": ["Paris"] * 3, "b": ["Lyon"] * 3})
    replay(held, policy(noting, n=1, max_rounds=3, strategies=strategies), RIGHT)

    seen = []
    for *_, measurement in noting.seen:
        history = measurement.run.history
        seen.append([(data["round"], data["epistemic"]) for data in history])
    split = pytest.approx(math.log(2))
    assert seen == [[], [(0, split)], [(0, split), (1, split)]]


def test_an_agent_without_weight_answers_nothing_by_itself(tmp_path):
    held = saved(tmp_path, {"a": ["Paris", "Paris"]})
    outcome = only(replay(held, policy(weights={"a": 0.0, "b": 1.0}), RIGHT))
    assert not outcome.is_answered
    assert outcome.tokens is None


def test_an_agent_that_answered_no_question_is_named_beside_those_there_are(tmp_path):
    of_a = {"a": ["Paris"]}
    of_b = {"b": ["Paris"]}
    held = saved(tmp_path, of_a, of_b)
    note = '"c" is not an agent of the samples, which have a, b'
    assert note not in replay(held, policy(), RIGHT).notes
    n_samples = {"a": 2, "c": 2}
    misnamed = replace(policy(), n_samples=n_samples)
    found = replay(held, misnamed, RIGHT)
    assert note in found.notes


def test_costs_are_of_the_tokens_and_each_request_pays_its_prompt(tmp_path):
    held = saved(tmp_path, {"a": ["Paris"] * 2, "b": ["Paris"] * 2}, input_tokens=100)
    prices = {name: {"input": 1.0, "output": 10.0} for name in "ab"}
    outcome = only(replay(held, policy(prices=prices), RIGHT))
    assert outcome.tokens == 2 * (100 + 4)
    assert outcome.cost == pytest.approx(2 * (100 + 40) / 1e6)


def test_a_replayed_policy_may_read_what_proposals_disagree_about(tmp_path):
    rows = []
    for number, name in enumerate("ab"):
        pays = {"name": "pay", "args": {"sum": number}}
        rows.append(row("0", name, 0, "", calls=[pays]))
    with Samples([write(tmp_path / "s.samples.jsonl", rows)]) as samples:
        (saved_question,) = load_saved(samples, NormalizedMatch())

    first_of_each = (("a", 1), ("b", 1))
    measurement = saved_question.measure(first_of_each, policy())
    assert measurement.proposals.contested is not None
