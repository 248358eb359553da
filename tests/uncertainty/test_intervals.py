import math

import numpy as np
import pytest

from coe_agents.uncertainty import cluster_distributions, coe_interval, collaborative_entropy, intervals

LABELS = [0, 0, 0, 1, 1, 2, 2, 1, 1, 1, 0, 1]
AGENTS = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
LOGS = [-0.1, -0.2, -0.4, -1.0, -3.0, -2.0, -0.3, -0.2, -0.9, -0.1, -5.0, -0.2]


def by_the_book(log_probs, levels, n_resamples=1500):
    """Resamples indices one by one, the textbook way; the oracle. Shape (levels, 3)."""
    generator = np.random.default_rng(1)
    labels, agents = np.array(LABELS), np.array(AGENTS)
    logs = np.zeros(len(LABELS)) if log_probs is None else np.array(log_probs)
    drawn = []
    for _ in range(n_resamples):
        index = np.concatenate([generator.choice(np.flatnonzero(agents == a), 6) for a in (0, 1)])
        rows = cluster_distributions(labels[index], agents[index], log_probs=logs[index], n_clusters=3)
        drawn.append(tuple(collaborative_entropy(rows, weights=[0.3, 0.7])))
    return np.quantile(drawn, levels, axis=0)


def one_by_one(labels, agents, logs, seed, n_resamples):
    """Draws each response of each resample by itself; shape (2, 3)."""
    generator = np.random.default_rng(seed)
    kept = sorted((a, label, log) for a, label, log in zip(agents, labels, logs, strict=True) if log > -math.inf)
    rows = np.zeros((n_resamples, max(agents) + 1, max(labels) + 1))
    for resample in rows:
        drawn = []
        for agent, _, _ in kept:
            own = [response for response in kept if response[0] == agent]
            drawn.append(own[int(generator.random() * len(own))])
        for agent, label, log in drawn:
            resample[agent, label] += math.exp(log - max(other for a, _, other in drawn if a == agent))
    rows /= rows.sum(axis=-1, keepdims=True)
    return np.quantile(np.stack(collaborative_entropy(rows)), [0.025, 0.975], axis=1)


@pytest.mark.parametrize("block", [1, 32_768])
@pytest.mark.parametrize(
    "logs", [None, [0.0] * 12, LOGS, [-math.inf, -math.inf, *LOGS[2:]], [1e4 * log for log in LOGS]]
)
def test_a_seed_stands_for_the_same_draws_however_they_are_made(monkeypatch, logs, block):
    monkeypatch.setattr(intervals, "_BLOCK", block)
    agents = [0, 2, 2, 1, 2, 0, 1, 2, 2, 1, 2, 2]  # two, three and seven responses
    interval = coe_interval(LABELS, agents, log_probs=logs, seed=5, n_resamples=40)
    own = np.array([interval.total, interval.aleatoric, interval.epistemic]).T
    assert own == pytest.approx(one_by_one(LABELS, agents, logs or [0.0] * 12, 5, 40), abs=1e-14)


@pytest.mark.parametrize("logs", [None, LOGS])
def test_the_order_of_responses_changes_nothing(logs):
    order = np.random.default_rng(0).permutation(12)
    labels, agents, log_probs = (None if x is None else np.array(x)[order] for x in (LABELS, AGENTS, logs))
    shuffled = coe_interval(labels, agents, log_probs=log_probs, n_resamples=50)
    plain = coe_interval(LABELS, AGENTS, log_probs=logs, n_resamples=50)
    assert shuffled.total == pytest.approx(plain.total, abs=1e-12)


@pytest.mark.parametrize("log_probs", [None, LOGS])
def test_equals_resampling_by_the_book(log_probs):
    interval = coe_interval(LABELS, AGENTS, log_probs=log_probs, weights=[0.3, 0.7], confidence=0.9, n_resamples=20_000)
    own = np.array([interval.total, interval.aleatoric, interval.epistemic]).T
    # few responses give few values, so an end is bracketed by the quantiles around it: 5 % and 95 %, give or take 2
    below, above = by_the_book(log_probs, [0.03, 0.93]), by_the_book(log_probs, [0.07, 0.97])
    assert (below - 1e-9 <= own).all()
    assert (own <= above + 1e-9).all()
    assert (above - below < 0.15).all()  # so the brackets say something


def test_the_estimate_is_the_plain_one():
    rows = cluster_distributions(LABELS, AGENTS, log_probs=LOGS)
    interval = coe_interval(LABELS, AGENTS, log_probs=LOGS, divergence="js", n_resamples=10)
    assert interval.estimate == collaborative_entropy(rows, divergence="js")
    assert (interval.n_resamples, interval.confidence) == (10, 0.95)
    for low, high in (interval.total, interval.aleatoric, interval.epistemic):
        assert isinstance(low, float)
        assert 0.0 <= low <= high


def test_the_seed_decides():
    same = [coe_interval(LABELS, AGENTS, seed=s, n_resamples=50) for s in (3, 3, 4, np.random.default_rng(3))]
    assert same[0] == same[1] == same[3] != same[2]


def test_more_confidence_is_wider():
    narrow, wide = (coe_interval(LABELS, AGENTS, confidence=share) for share in (0.5, 0.99))
    assert wide.total[0] < narrow.total[0] < narrow.total[1] < wide.total[1]


@pytest.mark.parametrize("log_probs", [None, [-1.0, -2.0, -3.0, -4.0]])
def test_no_width_where_all_responses_agree(log_probs):
    interval = coe_interval([0, 0, 0, 0], [0, 0, 1, 1], log_probs=log_probs)
    assert interval.total == interval.aleatoric == interval.epistemic == (0.0, 0.0)


def test_agents_are_resampled_apart():
    # each agent has said one thing, so no resample can change anything
    interval = coe_interval([0, 0, 1, 1], [0, 0, 1, 1])
    assert interval.total == pytest.approx((math.log(2), math.log(2)))


def test_small_integers_do_not_overflow():
    labels = np.array([*range(200), *range(200)], dtype=np.uint8)
    agents = np.repeat(np.array([0, 1], dtype=np.uint8), 200)
    logs = np.zeros(400)
    small, large = (coe_interval(labels.astype(t), agents.astype(t), log_probs=logs) for t in (np.uint8, np.int64))
    assert small == large


def test_miller_madow_by_hand():
    labels, agents = [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 1]
    plain = coe_interval(labels, agents)
    corrected = coe_interval(labels, agents, correction="miller-madow")
    # agent 0: (2 - 1) / (2 * 4) = 1/8; agent 1: 0; their mean 1/16
    assert corrected.estimate.aleatoric == pytest.approx(plain.estimate.aleatoric + 1 / 16)
    assert corrected.estimate.total == pytest.approx(plain.estimate.total + 1 / 16)
    assert corrected.estimate.epistemic == plain.estimate.epistemic
    # a resample of four equal responses (probability 0.32) is certain before and after; the others move
    assert corrected.total[0] == plain.total[0] == 0.0
    assert corrected.total[1] == pytest.approx(plain.total[1] + 1 / 16)
    assert corrected.epistemic == plain.epistemic


def test_improbable_responses_make_no_nan():
    # a resample of the last two alone would be 0 / 0 outside the log domain
    interval = coe_interval([0, 1, 2, 1], [0] * 4, log_probs=[0.0, -math.inf, -2000.0, -2000.0], n_resamples=500)
    assert interval.estimate.total == 0.0
    assert interval.total[0] == 0.0
    assert interval.total[1] == pytest.approx(math.log(2), abs=0.1)


def test_a_ground_metric():
    ground = [[0.0, 0.2], [0.2, 0.0]]
    interval = coe_interval([0, 1], [0, 1], divergence="wasserstein", ground_metric=ground, n_resamples=3)
    assert interval.epistemic == pytest.approx((0.1, 0.1))


@pytest.mark.parametrize(
    ("labels", "options", "error", "message"),
    [
        ([[0, 1]], {}, ValueError, r'"labels" must have shape \(n_responses,\); it has shape \(1, 2\)'),
        ([0, -1], {}, ValueError, r'"labels" must be at least 0'),
        ([0, 1], {"confidence": 1.0}, ValueError, r'"confidence" must be above 0 and below 1; it is 1'),
        ([0, 1], {"confidence": 95}, ValueError, r"it is 95. Pass a share such as 0.95"),
        ([0, 1], {"n_resamples": 0}, ValueError, r'"n_resamples" must be at least 1'),
        ([0, 1], {"correction": "jackknife"}, ValueError, r'it is \'jackknife\'. Pass None or "miller-madow"'),
        ([0, 1], {"weights": [1.0]}, ValueError, r"each of the 2 agents"),
        ([0, 1], {"divergence": "tv"}, ValueError, r"it is 'tv'"),
        ([0, 1], {"log_probs": [0.0, math.nan]}, ValueError, r"agent 1 has nan"),
    ],
)
def test_refuses(labels, options, error, message):
    with pytest.raises(error, match=message):
        coe_interval(labels, [0, 1], **options)
