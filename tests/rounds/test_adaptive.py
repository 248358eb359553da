import pytest

from coe_agents.rounds import AdaptiveSampling


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 0}, '"start" of AdaptiveSampling must be an integer in .1, 500.; got 0'),
        ({"step": 501}, '"step" of AdaptiveSampling must be an integer in .1, 500.; got 501'),
        ({"confidence": 1.0}, '"confidence" of AdaptiveSampling must be a number above 0 and below 1; got 1.0'),
    ],
)
def test_plans_that_cannot_be_kept_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveSampling(**options)


def test_it_never_asks_for_more_than_is_left():
    adaptive = AdaptiveSampling(start=4, step=3)
    assert [adaptive.n_samples(0, left=left) for left in (2, 4, 9)] == [2, 4, 4]
    assert [adaptive.n_samples(4, left=left) for left in (1, 3, 9)] == [1, 3, 3]
