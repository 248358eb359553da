import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from coe_agents.evaluation.metrics import aurac, auroc, histograms, paper_aurac, rejection_accuracy
from coe_agents.evaluation.metrics.bootstrap import METRICS, RETENTIONS, estimate_all
from coe_agents.evaluation.metrics.histograms import (
    CELLS_OF_GROUPS,
    GROUPS,
    Histogram,
    ScoreTally,
    jackknife,
)
from coe_agents.evaluation.metrics.tallies import Tally

ANSWERS = st.lists(
    st.tuples(
        st.one_of(st.floats(-50, 50), st.sampled_from([0.0, 0.1 + 0.2, 0.3, -1e18, 1e18, 5e-324])),
        st.sampled_from([0.0, 1.0, 0.5, 1 / 3]),
        st.integers(0, 2),
    ),
    max_size=40,
)


def histogram(answers, most):
    made = Histogram(most=most, n_groups=3)
    if answers:
        made.add(*map(np.array, zip(*answers, strict=True)))
    return made


def exact(correct, values):
    return {
        "auroc": auroc(correct=correct, uncertainty=values),
        "aurac": aurac(correct=correct, uncertainty=values),
        "paper_aurac": paper_aurac(correct=correct, uncertainty=values),
        **{
            f"accuracy at {share}": rejection_accuracy(correct=correct, uncertainty=values, retention=share)
            for share in RETENTIONS
        },
    }


def tallied(correct, values, groups=0, *, most=None):
    made = ScoreTally()
    if most:
        made.fine = Histogram(most=most)
    made.add(
        np.asarray(values, dtype=float), np.asarray(correct, dtype=float), np.broadcast_to(groups, np.shape(values))
    )
    return made


@given(ANSWERS, st.integers(2, 12), st.randoms(use_true_random=False))
def test_parts_merge_to_exactly_the_whole_in_any_order(answers, most, chance):
    whole = histogram(answers, most)
    assert whole.cells.size <= most
    assert whole.answers.sum() == len(answers)
    shuffled = chance.sample(answers, len(answers))
    cuts = sorted(chance.randint(0, len(answers)) for _ in range(3))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(answers)], strict=True)]
    merged = Histogram(most=most, n_groups=3)
    for part in chance.sample(parts, len(parts)):
        merged.merge(histogram(part, most))
    assert merged == whole
    one_by_one = Histogram(most=most, n_groups=3)
    for each in shuffled:
        one_by_one.add(*([part] for part in each))
    assert one_by_one == whole


def test_cells_are_as_fine_as_their_number_allows():
    values = np.arange(16) / 16
    fine, coarse = Histogram(most=16), Histogram(most=15)
    for made in (fine, coarse):
        made.add(values, np.ones(16))
    assert fine.level == 0
    # sixteenths are 2^26 cells of the finest grid apart: they share cells first where these are twice as wide
    assert (coarse.level, coarse.cells.tolist(), coarse.answers.ravel().tolist()) == (27, list(range(8)), [2] * 8)


@given(
    st.lists(st.tuples(st.floats(0, 3), st.sampled_from([0.0, 1.0, 1.0, 0.5])), min_size=2, max_size=60),
    st.integers(2, 20),
)
def test_no_figure_is_further_from_the_exact_one_than_stated(answers, most):
    values, correct = map(np.array, zip(*answers, strict=True))
    values = np.round(values, 6)  # ties are exact, and not by a billionth
    figures = tallied(correct, values, most=most).figures()
    for name, expected in exact(correct, values).items():
        if np.isnan(expected):
            assert np.isnan(figures.values[name])
        else:
            assert abs(figures.values[name] - expected) <= figures.errors[name] + 1e-9, name


def test_the_bounds_are_reached():
    # one cell: the right answers may all be surer than the wrong ones, or all less sure
    tally = Tally(np.array([[0, 4]]), np.array([[0.0, 2.0]]))
    values, errors = histograms._metrics(tally), histograms._bounds(tally)
    assert (values["auroc"], errors["auroc"]) == (0.5, 0.5)
    best, worst = (1 + 1 + 2 / 3 + 2 / 4) / 4, (0 + 0 + 1 / 3 + 2 / 4) / 4
    assert values["aurac"] == pytest.approx(0.5)
    assert errors["aurac"] == pytest.approx(max(best - 0.5, 0.5 - worst))
    assert errors["accuracy at 0.8"] == 0.0  # ceil(3.2) are all
    tally = Tally(np.array([[0, 5]]), np.array([[0.0, 2.0]]))  # 4 of 5 are kept: one or two of them right
    assert histograms._metrics(tally)["accuracy at 0.8"] == pytest.approx(0.4)
    assert histograms._bounds(tally)["accuracy at 0.8"] == pytest.approx(0.15)


def test_a_single_cell_is_refused():
    with pytest.raises(ValueError, match='"most" must be at least 2'):
        Histogram(most=1)


def test_few_different_values_give_exact_figures():
    generator = np.random.default_rng(0)
    correct = generator.random(3_000) < 0.7
    values = np.round(generator.random(3_000) - 0.2 * correct, 2) + generator.choice([0, 1e-16], 3_000)
    figures = tallied(correct, values).figures()
    assert set(figures.errors.values()) == {0.0}
    for name, expected in exact(correct, np.round(values, 2)).items():
        assert figures.values[name] == pytest.approx(expected, abs=1e-12)


def test_many_answers_are_near_the_oracle_and_its_intervals():
    generator = np.random.default_rng(1)
    n = 60_000
    correct = generator.random(n) < 0.6
    coe = generator.gamma(2.0, size=n) - 0.6 * correct
    other = coe + 0.5 * generator.normal(size=n)
    groups = generator.integers(0, GROUPS, n)
    first, second = (tallied(correct, values, groups) for values in (coe, other))
    assert first.fine.level > 0
    assert first.grouped.cells.size <= CELLS_OF_GROUPS
    figures = first.figures()
    assert figures.values["auroc"] == pytest.approx(roc_auc_score(~correct, coe), abs=2e-6)
    assert 0 < figures.errors["auroc"] < 1e-4
    for name, expected in exact(correct, coe).items():
        assert abs(figures.values[name] - expected) <= figures.errors[name] + 1e-12
    found, paired = estimate_all(correct, {"coe": coe, "other": other}, n_resamples=200)
    own = figures.estimates()
    for name in METRICS:
        for (_, low, high), (_, exact_low, exact_high) in (
            (own[name], found["coe"][name]),
            (second.figures().difference(figures, name), paired["other"][name]),
        ):
            width, expected = high - low, exact_high - exact_low
            # of 40 groups and of 200 resamples: a standard error of a tenth each, which four of leave
            assert width == pytest.approx(expected, rel=0.6, abs=1e-9), name
            assert (low + high) / 2 == pytest.approx((exact_low + exact_high) / 2, abs=0.6 * expected + 1e-9)


def test_the_jackknife_by_hand():
    # four groups: deviations -1.5, -0.5, 0.5, 1.5 hundredths, variance 3/4 of 5e-4; t of 3 degrees of freedom is 3.1824
    left_out = np.array([0.485, 0.495, 0.505, 0.515])
    value, low, high = jackknife(0.5, left_out)
    half = 3.1824463 * (0.75 * 5e-4) ** 0.5
    assert (value, low, high) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-7)
    assert jackknife(0.01, left_out)[1] == 0.0
    assert jackknife(-0.01, left_out, lowest=-1.0)[1] == pytest.approx(-0.01 - half, abs=1e-7)
    assert all(np.isnan(jackknife(0.5, np.array([0.5, np.nan]))))


def test_one_class_is_nan():
    figures = tallied(np.ones(5), np.arange(5.0)).figures()
    assert np.isnan(figures.values["auroc"])
    assert figures.values["aurac"] == pytest.approx(1.0)
