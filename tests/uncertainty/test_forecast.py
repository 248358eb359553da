import math

import numpy as np
import pytest

from coe_agents.uncertainty import cluster_distributions, collaborative_entropy, ensemble_mean
from coe_agents.uncertainty import forecast as module
from coe_agents.uncertainty.forecast import coe_forecast

LABELS, AGENTS, MORE = [0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [3, 5]
LOGS = [-0.1, -0.2, -1.0, -0.3, -0.2, -0.9]


def simulated(monkeypatch, n_simulations):
    monkeypatch.setattr(module, "_N_SIMULATIONS", n_simulations)


def by_the_book(log_probs, levels, *, weights, n_simulations=800, n_new=8):
    """Draws the responses that are left one by one: quantiles of (total, U_A, U_E), and the lead."""
    generator = np.random.default_rng(1)
    labels, agents = np.array(LABELS), np.array(AGENTS)
    logs = np.zeros(len(LABELS)) if log_probs is None else np.array(log_probs)
    n_clusters = labels.max() + 1 + n_new
    now = ensemble_mean(cluster_distributions(labels, agents, log_probs=logs), weights=weights).argmax()
    drawn, stays = [], []
    for _ in range(n_simulations):
        pooled = np.bincount(labels, minlength=n_clusters).astype(float)
        pooled[-n_new:] = 1 / n_new
        shared = generator.dirichlet(pooled)
        all_labels, all_agents, all_logs = list(labels), list(agents), list(logs)
        for agent, n_more in enumerate(MORE):
            own = labels[agents == agent]
            p = generator.dirichlet(np.bincount(own, minlength=n_clusters) + shared)
            for label in generator.choice(n_clusters, size=n_more, p=p):
                alike = np.exp(logs[(agents == agent) & (labels == label)])
                weight = alike.mean() if alike.size else np.exp(logs[agents == agent]).mean()
                all_labels.append(label)
                all_agents.append(agent)
                all_logs.append(math.log(weight))
        rows = cluster_distributions(all_labels, all_agents, log_probs=all_logs, n_clusters=n_clusters)
        drawn.append(tuple(collaborative_entropy(rows, weights=weights)))
        mean = ensemble_mean(rows, weights=weights)
        stays.append(np.flatnonzero(mean > mean.max() - 1e-9).tolist() == [now])
    return np.quantile(drawn, levels, axis=0), float(np.mean(stays))


@pytest.mark.parametrize("log_probs", [None, LOGS])
def test_equals_drawing_one_by_one(monkeypatch, log_probs):
    simulated(monkeypatch, 20_000)
    weights = [0.4, 0.6]
    found = coe_forecast(LABELS, AGENTS, MORE, log_probs=log_probs, weights=weights, confidence=0.9)
    own = np.array([found.total, found.aleatoric, found.epistemic]).T
    quantiles, lead = by_the_book(log_probs, [0.03, 0.07, 0.93, 0.97], weights=weights)
    below, above = quantiles[[0, 2]], quantiles[[1, 3]]
    assert (below - 1e-9 <= own).all()
    assert (own <= above + 1e-9).all()
    assert found.lead == pytest.approx(lead, abs=0.03)
    assert 0.2 < lead < 0.98  # so that it says something


def test_one_response_and_one_to_come_by_hand(monkeypatch):
    simulated(monkeypatch, 20_000)
    # g of the cluster is uniform, Beta(1, 1), so 1/2 on average, and p = (1 + 1/2) / 2: another answer comes with 1/4
    narrow, wide = (coe_forecast([0], [0], [1], confidence=c) for c in (0.46, 0.54))
    assert narrow.total == (0.0, 0.0)  # the 73 % quantile
    assert wide.total == (0.0, pytest.approx(math.log(2)))  # the 77 % quantile
    assert wide.lead == pytest.approx(3 / 4, abs=0.02)  # another answer makes a tie, and a tie is no lead
    assert wide.keeps_lead  # with confidence 0.54
    assert module.CoEForecast(*[(0.0, 0.0)] * 3, lead=0.95, confidence=0.95).keeps_lead


def test_the_epistemic_part_is_forecast_on_the_scale_given():
    plain, scaled = (coe_forecast(LABELS, AGENTS, MORE, divergence="js", epistemic_scale=scale) for scale in (1.0, 3.0))
    assert scaled.aleatoric == plain.aleatoric
    assert scaled.epistemic == pytest.approx([3 * end for end in plain.epistemic])
    split = collaborative_entropy(cluster_distributions(LABELS, AGENTS), divergence="js")
    nothing_left = coe_forecast(LABELS, AGENTS, [0, 0], divergence="js", epistemic_scale=3.0)
    assert nothing_left.total == pytest.approx([split.aleatoric + 3 * split.epistemic] * 2)
    for scale in (0.0, math.inf):
        with pytest.raises(ValueError, match=r'"epistemic_scale" must be a finite number above 0; got .*1\.0 leaves'):
            coe_forecast(LABELS, AGENTS, MORE, epistemic_scale=scale)


@pytest.mark.parametrize("n_more", [[9, 9], [0, 0]])
def test_a_tie_has_no_lead_to_keep(n_more):
    tied = coe_forecast([0, 1], [0, 1], n_more)
    assert (tied.lead, tied.keeps_lead) == (0.0, False)
    trusted = coe_forecast([0, 1], [0, 1], n_more, weights=[0.7, 0.3])  # trust breaks the tie
    assert trusted.lead > 0.5


def test_the_numbering_of_clusters_changes_nothing_and_extreme_weights_stay_finite():
    plain = coe_forecast(LABELS, AGENTS, MORE, log_probs=LOGS)
    assert coe_forecast([(5, 2)[label] for label in LABELS], AGENTS, MORE, log_probs=LOGS) == plain
    labels, agents = np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6]), [0, 1, 2] * 7
    plain = coe_forecast(labels, agents, [3, 4, 5])
    assert coe_forecast(labels * 7 + 5, agents, [3, 4, 5]) == plain
    found = coe_forecast(LABELS, AGENTS, MORE, log_probs=[-5000.0, -np.inf, -5001.0, -0.1, -np.inf, -9000.0])
    assert np.isfinite([*found.total, *found.aleatoric, *found.epistemic, found.lead]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_more": [1]}, '"n_more" must hold one number for each of 2 agents'),
        ({"n_more": [1, -1]}, '"n_more"'),
        ({"confidence": 1.0}, '"confidence" must be a number above 0 and below 1; got 1'),
        ({"labels": [LABELS]}, '"labels" must have shape'),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        coe_forecast(**{"labels": LABELS, "agents": AGENTS, "n_more": MORE, **options})
