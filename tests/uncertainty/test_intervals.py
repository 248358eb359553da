import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coe_agents.uncertainty import coe_interval, collaborative_entropy, intervals
from coe_agents.uncertainty.distributions import one_question
from tests.uncertainty.strategies import questions

LABELS = [0, 0, 0, 1, 1, 2, 2, 1, 1, 1, 0, 1]
AGENTS = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
LOGS = [-0.1, -0.2, -0.4, -1.0, -3.0, -2.0, -0.3, -0.2, -0.9, -0.1, -5.0, -0.2]


def evidence_of(labels, agents, log_probs=None, weights=None):
    return intervals._evidence(one_question(labels, agents, log_probs, weights))


def resampled(evidence, table, n_draws, seed):
    return np.concatenate(
        [*intervals._resample(evidence, table, n_draws, np.random.default_rng(seed))]
    )


def one_by_one(labels, agents, logs, seed, n_resamples):
    """Draws each response of each resample by itself, agent by agent and cluster by cluster."""
    generator = np.random.default_rng(seed)
    kept = sorted(
        (a, label, log)
        for a, label, log in zip(agents, labels, logs, strict=True)
        if log > -math.inf
    )
    rows = np.zeros((n_resamples, max(agents) + 1, max(labels) + 1))
    for resample in rows:
        drawn = []
        for agent, _, _ in kept:
            own = [response for response in kept if response[0] == agent]
            drawn.append(own[int(generator.random() * len(own))])
        for agent, label, log in drawn:
            resample[agent, label] += math.exp(
                log - max(other for a, _, other in drawn if a == agent)
            )
    return rows / rows.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("block", [1, 32_768])
@pytest.mark.parametrize(
    "logs",
    [
        None,
        [0.0] * 12,
        LOGS,
        [LOGS[0], -math.inf, -math.inf, *LOGS[3:]],
        [1e4 * log for log in LOGS],
    ],
)
def test_a_seed_stands_for_the_same_draws_however_they_are_made(monkeypatch, logs, block):
    monkeypatch.setattr(intervals, "_BLOCK", block)
    # two, three and seven responses; agents and clusters are numbered in the order in which they enter the draws
    labels = np.array([0, 1, 2, 2, 0, 0, 1, 1, 1, 2, 2, 2])
    agents = np.repeat([0, 1, 2], [2, 3, 7])
    if logs is not None:
        logs = np.array(logs)
    masses = np.zeros((3, 3))
    highest = 0.0 if logs is None else [logs[agents == a].max() for a in agents]
    np.add.at(masses, (agents, labels), 1.0 if logs is None else np.exp(logs - highest))
    by_agent, clusters = intervals._canonical_order(masses, [()] * 3)
    given = np.argsort(by_agent)[agents], np.argsort(clusters)[labels]
    evidence = evidence_of(labels, agents, logs)
    own = resampled(evidence, evidence.table, 40, 5)
    expected = one_by_one(given[1], given[0], [0.0] * 12 if logs is None else logs, 5, 40)
    assert own[..., :-1] == pytest.approx(expected, abs=1e-14)
    assert not own[..., -1].any()  # the unseen cluster


@given(questions(), st.sampled_from(["kl", "js"]), st.data())
@settings(max_examples=25)
def test_the_order_of_agents_and_responses_changes_nothing(question, divergence, data):
    labels, agents, logs, weights = question
    options = {"n_resamples": 20, "divergence": divergence}
    new = np.array(data.draw(st.permutations(range(len(weights)))))
    order = np.array(data.draw(st.permutations(range(len(labels)))))
    plain = coe_interval(labels, agents, weights=weights, log_probs=logs, **options)
    options |= {
        "weights": weights[np.argsort(new)],
        "log_probs": None if logs is None else logs[order],
    }
    moved = coe_interval(labels[order], new[agents][order], **options)
    assert moved.total == plain.total
    assert moved.aleatoric == plain.aleatoric
    assert moved.epistemic == plain.epistemic
    assert moved.estimate == pytest.approx(plain.estimate, abs=1e-12)


HALF = math.log(0.5)


@pytest.mark.parametrize(
    ("labels", "agents", "options", "swapped"),
    [
        ([0, 1, 0, 1], [0, 0, 1, 1], {"weights": [0.3, 0.7]}, {"weights": [0.7, 0.3]}),
        # 1 + 1/2 + 1/2 and 1 + 1 + 0
        (
            [0, 0, 0, 0, 0, 0, 1, 1],
            [0, 0, 0, 1, 1, 1, 0, 1],
            {"log_probs": [0, HALF, HALF, 0, 0, -math.inf, 0, 0]},
            {},
        ),
    ],
)
def test_agents_of_equal_distributions_are_told_apart_by_the_rest(labels, agents, options, swapped):
    options = {"n_resamples": 60, "confidence": 0.5, **options}
    plain = coe_interval(labels, agents, **options)
    other = coe_interval(labels, 1 - np.array(agents), **options | swapped)
    assert other.total == plain.total
    assert other.aleatoric == plain.aleatoric
    assert other.epistemic == plain.epistemic


def drawn(*values):
    return tuple(map(np.array, values))


# U_E comes out as 2e-16 for 0, and others in another last bit, in another order of sums
TRUSTED_ALONE = drawn([0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0.0, -3.0, 0.0, 0.0, 0.0], [1.0, 0.0])
TRUSTED_ALONE_TOO = drawn(
    [1, 0, 2, 1, 1], [0, 1, 1, 0, 1], [-0.7, -0.7, -0.7, -3.0, 0.0], [0.0, 1.0]
)
OPPOSED = drawn([0, 1, 2], [0, 1, 2], [0.0] * 3, [5 / 13, 5 / 13, 3 / 13])


@given(
    questions(),
    st.sampled_from(["kl", "js", "hellinger", "wasserstein"]),
    st.sampled_from([1, 2, 30]),
)
@example(TRUSTED_ALONE, "kl", 1)
@example(TRUSTED_ALONE_TOO, "kl", 2)
@example(OPPOSED, "js", 1)
def test_it_contains_the_estimate(question, divergence, n_resamples):
    labels, agents, logs, weights = question
    options = {"log_probs": logs, "weights": weights, "divergence": divergence}
    found = coe_interval(labels, agents, n_resamples=n_resamples, **options)
    for (low, high), value in zip(
        (found.total, found.aleatoric, found.epistemic), found.estimate, strict=True
    ):
        assert 0.0 <= low <= value <= high < math.inf
        assert not math.copysign(1.0, low) < 0
    assert found.total[0] < found.total[1]


# of (1, 0) from (1/2, 1/2): log 2; with the middle (3/4, 1/4): log(4/3) / 2 + (log(2/3) + log 2) / 4; by hand
MOST = {
    "kl": math.log(2),
    "js": math.log(4 / 3) * 0.75,
    "wasserstein": 0.5,
    "hellinger": math.sqrt(1 - math.sqrt(0.5)),
}


@pytest.mark.parametrize(("divergence", "most"), MOST.items())
def test_disagreement_has_a_bound(divergence, most):
    found = coe_interval([0] * 5 + [1] * 5, [0] * 5 + [1] * 5, divergence=divergence)
    assert found.epistemic[1] == pytest.approx(most)
    assert found.total[1] > most + 0.05  # each may be less sure than it seems


def test_unanimity_has_a_width_that_closes_and_improbable_responses_make_no_nan():
    highs = [coe_interval([0] * 3 * n, [0, 1, 2] * n).total for n in (1, 3, 5, 10, 30)]
    assert [low for low, _ in highs] == [0.0] * 5
    assert all(more < fewer for (_, fewer), (_, more) in pairwise(highs))
    # agents that say something else once in twenty have entropy 0.199, and in 15 responses do not in 46 % of the cases
    assert 0.199 < highs[2][1] < math.log(2)
    assert highs[4][1] < 0.15
    # a resample of the last two alone would be 0 / 0 outside the log domain
    logs = [0.0, -math.inf, -2000.0, -2000.0]
    found = coe_interval([0, 1, 2, 1], [0] * 4, log_probs=logs, n_resamples=500)
    assert 0.0 == found.total[0] < found.total[1] < math.log(5)
    assert found.estimate.total == 0.0
    assert coe_interval([0, 1], [0, 0], log_probs=[0.0, -math.inf]).estimate.total == 0.0


# two agents and three clusters: counts (0, 1, 3) and (2, 1, 1)
FEW_LABELS = np.array([1, 2, 2, 2, 0, 0, 1, 2])
FEW_AGENTS = np.repeat([0, 1], 4)


def test_the_evidence_of_weighed_responses_by_hand():
    labels = np.array([0, 2, 2, 0, 2])
    agents = np.array([0, 0, 0, 0, 1])
    logs = np.array([-2.0, -1.0, -1.0 - math.log(2), -math.inf, -700.0])
    evidence = evidence_of(labels, agents, logs)
    # relative to the agent's highest: 1/e, 1 and 1/2; what weighs nothing is left out
    total = 1 / math.e + 1.5
    assert evidence.rows == pytest.approx(
        np.array([[0.0, 1.0, 0.0], [1 / math.e / total, 1.5 / total, 0.0]])
    )
    assert evidence.table.owners.tolist() == [0, 1, 1, 1]
    assert evidence.table.labels.tolist() == [1, 0, 1, 1]
    assert evidence.table.scores == pytest.approx([0.0, -1.0, -math.log(2), 0.0])
    table, smoothed = intervals._smooth(evidence)
    # a response adds the mean weight of its cluster (1/e and 3/4 here), or in a new cluster the agent's mean
    typical = [[1.0, 1.0, 1.0], [1 / math.e, 0.75, total / 3]]
    masses = np.array([[1, 3, 1], [3, 5, 1]]) * typical
    assert smoothed == pytest.approx(masses / masses.sum(axis=1, keepdims=True))
    assert table.owners.tolist() == [0] * 5 + [1] * 9
    assert table.labels.tolist() == [0, 1, 1, 1, 2, 0, 0, 0, 1, 1, 1, 1, 1, 2]
    each = [0.0] * 5 + [-1.0] * 3 + [-math.log(2), 0.0] * 2 + [math.log(0.75), math.log(total / 3)]
    assert table.scores == pytest.approx(each)


@pytest.mark.parametrize(("n", "divergence"), [(101, "kl"), (1, "js"), (4, "wasserstein")])
def test_the_interval_by_the_book(n, divergence):
    weights = np.array([0.3, 0.7])
    options = {"weights": weights, "n_resamples": n, "confidence": 0.9, "seed": 5}
    found = coe_interval(FEW_LABELS, FEW_AGENTS, divergence=divergence, **options)
    evidence = evidence_of(FEW_LABELS, FEW_AGENTS, weights=weights)
    # n_i(c) + 1/2, of 4 + (3 + 1) / 2
    smoothed = np.array([[1.5, 0.5, 3.5, 0.5], [1.5, 2.5, 1.5, 0.5]]) / 6
    rows = resampled(evidence, intervals._smooth(evidence)[0], n, 5)

    def measured(rows):
        return np.array(collaborative_entropy(rows, weights=weights, divergence=divergence))

    estimate = measured(evidence.rows)
    centre = measured(smoothed)
    assert found.estimate == pytest.approx(tuple(estimate))
    # one more draw falls below the k-th with a probability of k / (n + 1)
    places = np.array([0.05, 0.95]) * (n + 1) - 1
    ends = []
    for part, (own, middle) in enumerate(zip(estimate, centre, strict=True)):
        below, above = np.interp(places, range(n), sorted(measured(each)[part] for each in rows))
        ends.append((max(min(2 * own - above, own), 0.0), max(own + max(own, middle) - below, own)))
    # U_E of certain agents on clusters of their own
    most = collaborative_entropy(np.eye(2), weights=weights, divergence=divergence).epistemic
    ends[2] = (ends[2][0], min(ends[2][1], most))
    assert np.array([found.total, found.aleatoric, found.epistemic]) == pytest.approx(
        np.array(ends)
    )


def test_few_resamples_make_no_narrower_interval_and_blocks_change_nothing(monkeypatch):
    whole = coe_interval(LABELS, AGENTS, n_resamples=50)
    monkeypatch.setattr(intervals, "_BLOCK", 1)
    assert coe_interval(LABELS, AGENTS, n_resamples=50) == whole
    few, many = (coe_interval(LABELS, AGENTS, n_resamples=n).total for n in (5, 2000))
    assert few[1] - few[0] > 0.5 * (many[1] - many[0])


def test_the_seed_decides_and_one_agent_disagrees_with_nobody():
    same = [
        coe_interval(LABELS, AGENTS, seed=s, n_resamples=50)
        for s in (3, 3, 4, np.random.default_rng(3))
    ]
    assert same[0] == same[1] == same[3] != same[2]
    assert same[0].confidence == 0.95
    assert same[0].n_resamples == 50
    found = coe_interval([0, 0, 1, 2, 0], [0] * 5)
    assert found.epistemic == (0.0, 0.0)
    assert found.total == pytest.approx(found.aleatoric)


def test_refuses():
    with pytest.raises(
        ValueError, match=r'"labels" must have shape \(n_responses,\); got \(1, 2\)'
    ):
        coe_interval([[0, 1]], [0, 1])
    with pytest.raises(
        ValueError, match='"confidence" must be a number above 0 and below 1; got 1'
    ):
        coe_interval([0, 1], [0, 1], confidence=1.0)
    with pytest.raises(ValueError, match='"n_resamples" must be an integer of at least 1'):
        coe_interval([0, 1], [0, 1], n_resamples=0)
