import math
from functools import partial

import numpy as np
import pytest

from coe_agents.evaluation.metrics import aurac, auroc, bootstrap, rejection_accuracy
from coe_agents.evaluation.metrics.bootstrap import METRICS, estimate_all, resamples


def paper_aurac(**rows):
    accuracies = [rejection_accuracy(**rows, retention=share) for share in bootstrap.RETENTIONS]
    return float(bootstrap.paper_area(np.array(accuracies)))


PLAIN = {"auroc": auroc, "aurac": aurac, "paper_aurac": paper_aurac}
for share in bootstrap.RETENTIONS:
    PLAIN[f"accuracy at {share}"] = partial(rejection_accuracy, retention=share)


def rows_with(decimals):
    """Scores rounded to so many decimals: the fewer, the more of them tie."""
    generator = np.random.default_rng(0)
    correct = generator.random(80) < 0.6
    scores = {}
    for name, tilt in (("coe", 0.4), ("other", 0.1)):
        uncertainty = generator.random(80) - tilt * correct
        scores[name] = np.round(uncertainty, decimals)
    return correct, scores


def by_the_book(correct, values, n_resamples):
    """Resamples rows one by one and calls the public metric on each; the oracle."""
    drawn = {name: [] for name in PLAIN}
    for counts in resamples(correct.size, n_resamples=n_resamples):
        for count in counts:
            index = np.repeat(np.arange(correct.size), count)
            resampled = {"correct": correct[index], "uncertainty": values[index]}
            for name, metric in PLAIN.items():
                drawn[name].append(metric(**resampled))
    return {name: np.array(estimates) for name, estimates in drawn.items()}


# ties of right and wrong answers, and none; a share of right, in every fifth row
@pytest.mark.parametrize(("decimals", "share"), [(1, 1 / 3), (9, None)])
def test_equals_resampling_by_the_book(decimals, share):
    correct, scores = rows_with(decimals)
    if share is not None:
        is_fifth = np.arange(80) % 5 == 0
        correct = np.where(is_fifth, share, correct)

    estimates, differences = estimate_all(correct, scores, n_resamples=100)
    drawn = {name: by_the_book(correct, values, 100) for name, values in scores.items()}
    assert list(METRICS) == list(PLAIN)
    assert differences.keys() == {"other"}
    for metric, plain in PLAIN.items():
        for name, values in scores.items():
            value = plain(correct=correct, uncertainty=values)
            low, high = np.quantile(drawn[name][metric], [0.025, 0.975])
            assert estimates[name][metric] == pytest.approx((value, low, high), abs=1e-12)

        changes = drawn["other"][metric] - drawn["coe"][metric]
        paired = np.quantile(changes, [0.025, 0.975])
        assert differences["other"][metric][1:] == pytest.approx(tuple(paired), abs=1e-12)


def test_blocks_change_nothing(monkeypatch):
    correct, scores = rows_with(1)
    whole = estimate_all(correct, scores, n_resamples=50)
    monkeypatch.setattr(bootstrap, "_CELLS", 3 * 80)
    blocks = list(resamples(80, n_resamples=50))
    assert [len(block) for block in blocks] == [3] * 16 + [2]
    assert all((block.sum(axis=1) == 80).all() for block in blocks)
    assert estimate_all(correct, scores, n_resamples=50) == whole


def test_one_class_is_nan_throughout_and_rare_ones_do_not_count():
    _, scores = rows_with(1)
    estimates, _ = estimate_all([True] * 80, scores, n_resamples=10)
    assert all(map(math.isnan, estimates["coe"]["auroc"]))
    assert estimates["coe"]["aurac"] == (1.0, 1.0, 1.0)

    one_wrong = [True] * 79 + [False]  # absent from a third of the resamples
    estimates, _ = estimate_all(one_wrong, scores, n_resamples=100)
    value, low, high = estimates["coe"]["auroc"]
    assert 0 <= low <= value <= high <= 1


@pytest.mark.parametrize("n_resamples", [0, 1.5])
def test_there_is_at_least_one_resample(n_resamples):
    with pytest.raises((TypeError, ValueError), match='"n_resamples" must be an integer'):
        bootstrap.mean_with_interval([0.0, 1.0], n_resamples=n_resamples)
