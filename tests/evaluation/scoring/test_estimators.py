import math

import numpy as np
import pytest
from scipy.linalg import eigh, expm

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples, score
from coe_agents.evaluation.scoring.estimators import CONFIDENCES, ESTIMATORS
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.policy.weighting import log_probabilities, shares
from coe_agents.testing import TableEntailment
from coe_agents.uncertainty import (
    cluster_distributions,
    collaborative_entropy,
    entropy,
    kl_divergence,
    semantic_entropy,
)
from tests.evaluation.invented import group, row, write

LOG2 = math.log(2)


@pytest.fixture
def statistics(tmp_path):
    def of(rows, **options):
        with Samples([write(tmp_path / "s.jsonl", rows)]) as samples:
            return list(iter_statistics(samples, clusterer=NormalizedMatch(), **options))

    return of


def said(*texts, **fields):
    """One question; each argument is what one agent says, answer by answer."""
    return [
        row("q", f"agent-{i}", index, text, **fields)
        for i, own in enumerate(texts)
        for index, text in enumerate(own.split())
    ]


def values(one):
    return {name: estimator(one) for name, estimator in ESTIMATORS.items()}


def test_by_hand_where_two_agents_are_sure_of_different_answers(statistics):
    (one,) = statistics(said("x x", "y y"))
    found = values(one)
    for name in ("coe", "epistemic", "pooled_semantic_entropy", "coe_by_frequency"):
        assert found[name] == pytest.approx(LOG2)
    for name in ("aleatoric", "semantic_entropy", "self_consistency", "semantic_entropy_by_frequency"):
        assert found[name] == 0.0
    assert found["vote_share"] == found["pooled_disagreement"] == found["degree_matrix"] == 0.5
    assert found["disagreement"] == 1.0
    assert found["coe_wasserstein"] == 0.5  # total variation from the mean
    assert found["graph_eigenvalues"] == pytest.approx(2)
    assert found["divergence_subset"] == 0.0  # the second agent would add log 2
    for name in ("coe_by_probability", "regular_entropy", "length_normalised_entropy", "p_false", "verbal_confidence"):
        assert found[name] is None


def test_everything_is_lowest_at_consensus(statistics):
    (one,) = statistics(said("x x", "x x", logprob=0.0, n_tokens=1, p_false=0.0, verbal_conf=1.0))
    lowest = dict.fromkeys(ESTIMATORS, 0.0) | {"graph_eigenvalues": 1.0}
    # the heat kernel of one cluster of m = 4: eigenvalues 1 and three times exp(-0.3 * 4). Its diagonal is constant, so
    # a unit diagonal is only another scale
    heat = np.array([1.0, *[math.exp(-1.2)] * 3])
    lowest["kernel_language_entropy"] = entropy(heat / heat.sum())
    assert values(one) == pytest.approx(lowest, abs=1e-12)
    assert math.copysign(1, values(one)["regular_entropy"]) == 1  # 0.0, not -0.0


def test_what_log_probabilities_say(statistics):
    rows = [
        row("q", "a", 0, "x", logprob=-1.0, n_tokens=2),
        row("q", "a", 1, "y", logprob=-3.0, n_tokens=3),
        row("q", "b", 0, "x", logprob=-4.0, n_tokens=1),
    ]
    (one,) = statistics(rows)
    found = values(one)
    assert found["regular_entropy"] == pytest.approx((2 + 4) / 2)
    assert found["length_normalised_entropy"] == pytest.approx((0.75 + 4) / 2)
    p = math.exp(-0.5) / (math.exp(-0.5) + math.exp(-1.0))
    rows = [[p, 1 - p], [1, 0]]
    assert found["coe"] == found["coe_by_probability"] == pytest.approx(collaborative_entropy(rows).total)
    assert found["coe_by_frequency"] == pytest.approx(collaborative_entropy([[0.5, 0.5], [1, 0]]).total)
    masses = np.exp([-0.5, -1.0, -4.0])
    pool = np.array([masses[0] + masses[2], masses[1]]) / masses.sum()
    assert found["pooled_semantic_entropy"] == pytest.approx(entropy(pool))
    assert found["pooled_semantic_entropy_by_frequency"] == pytest.approx(entropy([2 / 3, 1 / 3]))


def test_an_entailment_model_sets_the_distances(statistics):
    # p(entailment) is 0.8 one way and 0.1 the other: an affinity of 0.45
    model = TableEntailment({("Q? x", "Q? y"): "entailment"}, default="neutral")
    (one,) = statistics(said("x x", "y y", question="Q?"), entailment=model)
    np.testing.assert_allclose(one.affinity, [[1, 0.45], [0.45, 1]])
    assert ESTIMATORS["coe_wasserstein"](one) == pytest.approx(0.5 * 0.55)
    assert ESTIMATORS["degree_matrix"](one) == pytest.approx(1 - (1 + 0.45) / 2)
    # blocks of ones and of 0.45: the scaled adjacency has the eigenvalues 1 and 0.55 / 1.45
    assert ESTIMATORS["graph_eigenvalues"](one) == pytest.approx(1 + 0.55 / 1.45)
    assert [len(call) for call in model.calls] == [2]


def dense(one):
    """The graph scores from the m x m matrix of edges, as the papers write them; the oracle."""
    edges = one.affinity[np.ix_(one.labels, one.labels)]
    degrees = edges.sum(axis=1)
    scaled, vectors = eigh(np.eye(len(edges)) - edges / np.sqrt(np.outer(degrees, degrees)))
    embedding = vectors[:, scaled < 0.9]
    heat = expm(-0.3 * (np.diag(degrees) - edges))
    kernel = heat / np.sqrt(np.outer(np.diag(heat), np.diag(heat))) / len(edges)
    eigenvalues = np.maximum(np.linalg.eigvalsh(kernel), 0.0)
    return {
        "degree_matrix": np.trace(len(edges) * np.eye(len(edges)) - np.diag(degrees)) / len(edges) ** 2,
        "graph_eigenvalues": np.maximum(0.0, 1.0 - scaled).sum(),
        "eccentricity": np.linalg.norm(embedding - embedding.mean(axis=0)),
        "kernel_language_entropy": entropy(eigenvalues / eigenvalues.sum()),
    }


def test_graph_scores_equal_those_of_the_whole_matrix(statistics):
    generator = np.random.default_rng(0)
    for one in statistics(group(10, n_samples=7)):
        drawn = generator.random(one.affinity.shape)
        blurred = one.with_affinity(np.where(np.eye(len(drawn)), 1.0, (drawn + drawn.T) / 2.0))
        for each in (one, blurred):
            found = values(each)
            for name, expected in dense(each).items():
                assert found[name] == pytest.approx(expected, abs=1e-12), name


def counted(one, weighting):
    """Whether each agent counts by probability, and the distributions."""
    log_probs, by_probability = log_probabilities(one.responses, weighting)
    return by_probability, cluster_distributions(one.labels, one.agents, log_probs=log_probs)


def plain_figures(one):
    """What is computed for several questions at once, from this question's rows alone; the oracle."""
    counts, frequencies = counted(one, "frequency")
    counts, probabilities = counted(one, "auto")
    by_probability = collaborative_entropy(probabilities) if all(counts.values()) else None
    return {
        "coe_js": collaborative_entropy(one.distributions, divergence="js").total,
        "coe_hellinger": collaborative_entropy(one.distributions, divergence="hellinger").total,
        "coe_wasserstein": collaborative_entropy(one.distributions, divergence="wasserstein").total,
        "coe_by_frequency": collaborative_entropy(frequencies).total,
        "coe_by_probability": by_probability and by_probability.total,
        "semantic_entropy": np.mean(semantic_entropy(one.distributions)),
        "semantic_entropy_by_frequency": np.mean(semantic_entropy(frequencies)),
        "semantic_entropy_by_probability": by_probability and by_probability.aleatoric,
        "divergence_subset": compatible_subset(one),
    }


def compatible_subset(one):
    rows = one.distributions
    entropies = np.atleast_1d(semantic_entropy(rows))
    distances = np.atleast_1d(kl_divergence(rows, rows.mean(axis=0)))
    order = sorted(range(len(rows)), key=lambda i: (*np.round([entropies[i], distances[i]], 8), *np.round(-rows[i], 8)))
    chosen = order[:1]
    for agent in order[1:]:
        before, after = (collaborative_entropy(one.distributions[rows]) for rows in (chosen, [*chosen, agent]))
        if after.epistemic - before.epistemic <= 0.05:
            chosen = [*chosen, agent]
    return collaborative_entropy(one.distributions[chosen]).total


@pytest.mark.parametrize("weighting", ["auto", "frequency"])
def test_questions_measured_together_equal_each_alone(statistics, weighting):
    rows = group(60, agents=("a", "b", "c", "d"))
    lacking = [each for each in rows if each["agent"] != "b" or int(each["id"][1:]) % 3]  # two plans
    for each in lacking[::97]:
        each["logprob"] = None
    found = statistics(lacking, weighting=weighting)
    assert [one.question.id for one in found] == sorted({each["id"] for each in lacking})
    assert len({one.distributions.shape for one in found}) > 4
    for one in found:
        measured_alone = one.measurement.agents.values()
        by_cluster = [
            [agent.distribution.get(each, 0.0) for each in one.measurement.representatives] for agent in measured_alone
        ]
        np.testing.assert_array_equal(one.distributions, by_cluster)
        parts = one.measurement.coe, one.measurement.aleatoric, one.measurement.epistemic
        assert [one.figures[name] for name in ("coe", "aleatoric", "epistemic")] == pytest.approx(parts, abs=1e-12)
        assert one.entropies == pytest.approx([agent.entropy for agent in measured_alone], abs=1e-12)
        assert one.n_responses == [agent.n_responses for agent in measured_alone]
        by_probability = [agent.weighting == "probability" for agent in measured_alone]
        assert list(one.counts_by_probability) == by_probability
        assert one.names == tuple(one.measurement.agents)
        np.testing.assert_array_equal(
            one.response_shares, shares(log_probabilities(one.responses, weighting)[0], one.agents)
        )
        if len(one.leading) == 1:
            assert one.answer_of(one.leading[0]) == one.measurement.answer
        lacks_one = any(response["logprob"] is None for response in one.responses)
        assert (one.figures["coe_by_probability"] is None) == lacks_one
        own = values(one)
        for name, expected in plain_figures(one).items():
            assert own[name] == pytest.approx(expected, abs=1e-12), name


def test_ranges(statistics):
    for one in statistics(group(30)):
        found = {name: value for name, value in values(one).items() if value is not None}
        assert all(value >= 0 for value in found.values())
        assert all(found[name] <= 1 for name in (*CONFIDENCES, "disagreement", "degree_matrix") if name in found)


def agents_that_err(statistics):
    return float(len(statistics.question.failures))


def scored(tmp_path, **options):
    with Samples([write(tmp_path / "s.jsonl", group(40))]) as samples:
        return score(samples, clusterer=NormalizedMatch(), **options)


def test_an_installed_estimator_is_a_score_like_the_others(tmp_path, register):
    register("coe_agents.estimators", agents_that_err=f"{__name__}:agents_that_err")
    assert scored(tmp_path).values["agents_that_err"].tolist() == [0.0] * 40
    register("coe_agents.estimators", extra=f"{__name__}:LOG2")
    with pytest.raises(ValueError, match=r'estimator "extra" must be a callable; got 0\.69'):
        scored(tmp_path)


def test_a_name_that_is_taken(tmp_path):
    with pytest.raises(ValueError, match='a name of its own; got "best_single_model" twice'):
        scored(tmp_path, estimators={"best_single_model": agents_that_err})


@pytest.mark.parametrize("value", [math.nan, "0.5"])
def test_what_an_estimator_must_return(tmp_path, value):
    with pytest.raises(ValueError, match=r'estimator "x" must return None or a finite number for question \'q00000\''):
        scored(tmp_path, estimators={"x": lambda one: value})
