import math
from dataclasses import replace

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.measurement.estimators import (
    BASELINE,
    ESTIMATORS,
    RUN_TIME_SCORES,
    SCORES_OF_SETS,
    find_score,
    group_scores,
    name_of,
    score_of,
)
from coe_agents.measurement.measurement import Run
from coe_agents.measurement.statistics import statistics_of
from coe_agents.measurement.weighting import log_probabilities, shares
from coe_agents.policy import measure
from coe_agents.testing import create_response
from coe_agents.testing.doubles import TableEntailment
from coe_agents.uncertainty import (
    cluster_distributions,
    collaborative_entropy,
    entropy,
    semantic_entropy,
)
from tests.evaluation.invented import group, row, score, write

LOG2 = math.log(2)
DIVERGENCES = ("js", "hellinger", "wasserstein")


@pytest.fixture
def statistics(tmp_path):
    def of(rows, **options):
        with Samples([write(tmp_path / "s.jsonl", rows)]) as samples:
            return list(iter_statistics(samples, clusterer=NormalizedMatch(), **options))

    return of


def said(*texts, **fields):
    """One question; each argument is what one agent says, answer by answer."""
    rows = []
    for number, answers in enumerate(texts):
        for index, text in enumerate(answers.split()):
            rows.append(row("q", f"agent-{number}", index, text, **fields))
    return rows


def values(one):
    return {name: estimator(one) for name, estimator in ESTIMATORS.items()}


def test_by_hand_where_two_agents_are_sure_of_different_answers(statistics):
    (one,) = statistics(said("x x", "y y"))
    found = values(one)
    for name in ("coe", "epistemic", "pooled_semantic_entropy"):
        assert found[name] == pytest.approx(LOG2)
    for name in ("aleatoric", "semantic_entropy"):
        assert found[name] == 0.0
    assert found["vote_share"] == 0.5
    assert found["pooled_disagreement"] == 0.5
    assert found["coe_wasserstein"] == 0.5  # total variation from the mean
    for name in ("regular_entropy", "p_false"):
        assert found[name] is None
    for name in RUN_TIME_SCORES:
        assert found[name] == score_of(one.measurement, name)

    other = replace(one.measurement, run=Run(), coe=3.0, aleatoric=2.0, epistemic=1.0)
    assert score_of(other, "coe") == 3.0
    assert score_of(other, "aleatoric") == 2.0
    assert score_of(other, "epistemic") == 1.0
    assert score_of(other, "vote_share") == 0.5
    with_score = replace(other, run=Run(scores={"coe_js": 0.25}))
    assert score_of(with_score, "coe_js") == 0.25
    with pytest.raises(ValueError, match='must have the responses for "coe_js"'):
        score_of(other, "coe_js")


def test_a_figure_is_read_by_the_name_of_its_score(statistics):
    (one,) = statistics(said("x x y z", "y y w x", "z x y y"))
    distinct = {name: float(place) for place, name in enumerate(one.figures)}
    found = values(replace(one, figures=distinct))
    assert {name: found[name] for name in distinct} == distinct


def test_a_figure_of_a_measurement_is_that_of_its_responses(statistics):
    (one,) = statistics(said("x x y z", "y y w x", "z x y y"))
    bare = replace(one.measurement, run=Run())
    found = values(one)
    for name in (
        "coe",
        "aleatoric",
        "epistemic",
        "vote_share",
        "confidence_vote_share",
        "pooled_disagreement",
    ):
        assert score_of(bare, name) == pytest.approx(found[name])


def test_everything_is_lowest_at_consensus_and_an_entailment_model_sets_the_distances(statistics):
    (one,) = statistics(said("x x", "x x", logprob=0.0, n_tokens=1, p_false=0.0, confidence=1.0))
    lowest = dict.fromkeys(ESTIMATORS, 0.0)
    assert values(one) == pytest.approx(lowest, abs=1e-12)
    assert "-0.0" not in map(str, values(one).values())
    # p(entailment) is 0.8 one way and 0.1 the other: a distance of 0.55
    model = TableEntailment({("Q? x", "Q? y"): "entailment"}, default="neutral")
    (one,) = statistics(said("x x", "y y", question="Q?"), entailment=model)
    assert ESTIMATORS["coe_wasserstein"](one) == pytest.approx(0.5 * 0.55)
    assert [len(call) for call in model.calls] == [2]


def test_what_log_probabilities_say(statistics):
    rows = [
        row("q", "a", 0, "x", logprob=-1.0, n_tokens=2),
        row("q", "a", 1, "y", logprob=-3.0, n_tokens=3),
        row("q", "b", 0, "x", logprob=-4.0, n_tokens=1),
    ]
    (one,) = statistics(rows)
    found = values(one)
    assert found["regular_entropy"] == pytest.approx((2 + 4) / 2)
    p = math.exp(-0.5) / (math.exp(-0.5) + math.exp(-1.0))
    rows = [[p, 1 - p], [1, 0]]
    assert found["coe"] == pytest.approx(collaborative_entropy(rows).total)
    masses = np.exp([-0.5, -1.0, -4.0])
    pool = np.array([masses[0] + masses[2], masses[1]]) / masses.sum()
    assert found["pooled_semantic_entropy"] == pytest.approx(entropy(pool))

    rows = []
    for index, value in enumerate((0.25, 1.0, 2.0, "0.5", None, True)):
        rows.append(row("q", "a", index, "x", logprob=-1.0, p_false=value))
    (one,) = statistics(rows)
    found = values(one)
    assert found["regular_entropy"] == 1.0
    assert found["p_false"] == (0.25 + 1) / 2

    rows = [row("q", "a", text="paris"), row("q", "b", text="Paris"), row("q", "c", text="paris")]
    (other,) = statistics(rows, weights={"b": 3.0})
    assert other.answer_of(0) == "Paris"
    assert other.measurement.answer == "Paris"
    assert statistics_of(other.measurement).measurement is other.measurement

    (one,) = statistics([row("q", "a", text="", answer="Paris ")])
    assert one.answer_of(0) == "Paris"


def plain_figures(one):
    """What is computed for several questions at once, from this question's rows alone; the oracle."""
    pooled = one.log_probs if all(one.counts_by_probability) else None
    pool = cluster_distributions(one.labels, 0 * one.agents, log_probs=pooled)
    figures = {
        "semantic_entropy": np.mean(semantic_entropy(one.distributions)),
        "pooled_semantic_entropy": entropy(pool),
    }
    for name in DIVERGENCES:
        split = collaborative_entropy(one.distributions, divergence=name)
        figures[f"coe_{name}"] = split.total
    return figures


@pytest.mark.parametrize("weighting", ["auto", "frequency"])
def test_questions_measured_together_equal_each_alone(statistics, weighting):
    rows = group(60, agents=("a", "b", "c", "d"))
    lacking = []  # in two plans
    for each in rows:
        if each["agent"] != "b" or int(each["id"][1:]) % 3:
            lacking.append(each)
    for each in lacking[::97]:
        each["logprob"] = None
    found = statistics(lacking, weighting=weighting)
    assert [one.question.id for one in found] == sorted({each["id"] for each in lacking})
    assert len({one.distributions.shape for one in found}) > 4
    for one in found:
        measurement = one.measurement
        measured_alone = measurement.agents.values()
        by_cluster = []
        for agent in measured_alone:
            distribution = agent.distribution
            shares_of_agent = [distribution.get(text, 0.0) for text in measurement.representatives]
            by_cluster.append(shares_of_agent)
        np.testing.assert_array_equal(one.distributions, by_cluster)

        assert one.figures["coe"] == pytest.approx(measurement.coe, abs=1e-12)
        assert one.figures["aleatoric"] == pytest.approx(measurement.aleatoric, abs=1e-12)
        assert one.figures["epistemic"] == pytest.approx(measurement.epistemic, abs=1e-12)
        entropies = [agent.entropy for agent in measured_alone]
        assert one.entropies == pytest.approx(entropies, abs=1e-12)
        assert one.n_responses == [agent.n_responses for agent in measured_alone]
        by_probability = [agent.weighting == "probability" for agent in measured_alone]
        assert list(one.counts_by_probability) == by_probability
        assert one.names == tuple(one.measurement.agents)
        logs, _ = log_probabilities(one.responses, weighting)
        np.testing.assert_array_equal(one.response_shares, shares(logs, one.agents))
        if len(one.leading) == 1:
            assert one.answer_of(one.leading[0]) == one.measurement.answer
        own = values(one)
        for name, expected in plain_figures(one).items():
            assert own[name] == pytest.approx(expected, abs=1e-12), name


def agents_that_err(statistics):
    return float(len(statistics.question.failures))


def scored(tmp_path, **options):
    with Samples([write(tmp_path / "s.jsonl", group(40))]) as samples:
        return score(samples, clusterer=NormalizedMatch(), **options)


@pytest.mark.parametrize("value", [math.nan, "0.5"])
def test_what_an_estimator_must_return_under_a_name_of_its_own(tmp_path, value):
    message = r'estimator "x" must return None or a finite number for question \'q00000\''
    with pytest.raises(ValueError, match=message):
        scored(tmp_path, estimators={"x": lambda one: value})

    counted = scored(tmp_path, estimators={"x": agents_that_err})
    assert counted.values["x"].tolist() == [0.0] * 40
    unknown = scored(tmp_path, estimators={"x": lambda one: None})
    assert "x" not in unknown.values
    for name in ("best_single_model", "coe"):
        with pytest.raises(ValueError, match=f'a name of its own; got "{name}" twice'):
            scored(tmp_path, estimators={name: agents_that_err})
    with pytest.raises(ValueError, match='estimator "x" must be a callable; got 3'):
        scored(tmp_path, estimators={"x": 3})
    with pytest.raises(ValueError, match=r"computable of one new question: coe, .*; got 'p_false'"):
        find_score("p_false")


BUILT_IN = [*ESTIMATORS, *SCORES_OF_SETS]


class Longest:
    def __call__(self, statistics):
        return max(len(each["text"]) for each in statistics.responses)


nothing = None


def test_a_score_of_ones_own_is_found_by_its_module_and_of_a_class_an_instance():
    measurement = measure([create_response("a", "Lyon"), create_response("b", "Rouen")], [0, 1])
    assert score_of(measurement, f"{__name__}:Longest") == 5.0
    with pytest.raises(ValueError, match='nothing" must be a callable'):
        find_score(f"{__name__}:nothing")
    with pytest.raises(ValueError, match='a score must not be "renyi_3", which was removed'):
        find_score("renyi_3")
    with pytest.raises(ValueError, match=r'written as the "package\.module:name" it stood for'):
        find_score("a_name_that_was_an_entry_point")
    with pytest.raises(ValueError, match="a score must be computable of one new question"):
        find_score("p_false")


@pytest.mark.parametrize(
    ("weighting", "by_probability"), [("auto", (True, False)), ("frequency", (False, False))]
)
def test_of_a_measurement_only_what_a_new_question_has_is_seen(weighting, by_probability):
    known = {"id": "7", "question": "Old?", "references": ["Lyon"], "correct": True, "tools": []}
    of_a = create_response("a", "Lyon", logprob=-1.0, n_tokens=2)
    rows = [{**of_a, **known}, create_response("b", "Lyon")]
    measurement = measure(rows, [0, 0], question="Which?", weighting=weighting)
    found = statistics_of(measurement)
    unknown = {"id": "", "question": "Which?", "references": [], "correct": None, "tools": None}
    for response in found.responses:
        assert {name: response[name] for name in unknown} == unknown
    assert found.counts_by_probability == by_probability


def test_every_built_in_score_has_a_label_and_an_explanation_of_its_own():
    names = [name_of(score) for score in BUILT_IN]
    labels = [name.label for name in names]
    explanations = [name.explanation for name in names]
    assert len(set(labels)) == len(BUILT_IN)
    assert len(set(explanations)) == len(BUILT_IN)
    assert [score for score, label in zip(BUILT_IN, labels, strict=True) if label == score] == []
    assert set(BASELINE) < set(BUILT_IN)

    with_mine = ["mine", *BUILT_IN]
    groups = group_scores(with_mine)
    assert groups == group_scores(reversed(with_mine))
    grouped = [name for names in groups.values() for name in names]
    assert sorted(grouped) == sorted(with_mine)
    *_, last = groups.items()
    assert last == ("Other estimators", ["mine"])
    assert [*group_scores(["mine"]).items()] == [last]
