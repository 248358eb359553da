import numpy as np

from coe_agents.uncertainty.collaborative import ensemble_mean
from coe_agents.uncertainty.ties import shares_lead


def leaders(distributions, **options):
    return shares_lead(ensemble_mean(distributions, **options)).tolist()


def test_rounding_chooses_no_answer_and_only_means_closer_than_the_tolerance_tie():
    # the first two means are 1.1 / 3, but (0.1 + 0.2 + 0.8) / 3 rounds above (0.6 + 0.3 + 0.2) / 3
    distributions = np.array([[0.6, 0.1, 0.3], [0.3, 0.2, 0.5], [0.2, 0.8, 0.0]])
    assert ensemble_mean(distributions)[1] > ensemble_mean(distributions)[0]
    assert leaders(distributions) == [True, True, False]
    assert leaders([[0.5, 0.5 - 0.9e-9, 0.9e-9]]) == [True, True, False]
    second = 0.5 - 1e-9
    assert leaders([[0.5, second, 1.0 - (0.5 + second)]]) == [True, False, False]
