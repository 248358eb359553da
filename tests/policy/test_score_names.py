from coe_agents.policy.estimators import BEST_SINGLE_MODEL, ESTIMATORS
from coe_agents.policy.score_names import BASELINE, group_scores, name_of

BUILT_IN = [*ESTIMATORS, BEST_SINGLE_MODEL]


def test_every_built_in_score_has_a_label_and_an_explanation_of_its_own():
    names = [name_of(score) for score in BUILT_IN]
    assert len({name.label for name in names}) == len({name.explanation for name in names}) == len(BUILT_IN)
    assert [score for score in BUILT_IN if name_of(score).label == score] == []
    assert set(BASELINE) < set(BUILT_IN)
    groups = group_scores(["mine", *BUILT_IN])
    assert sorted(name for names in groups.values() for name in names) == sorted(["mine", *BUILT_IN])
    assert list(groups.items())[-1] == ("Other estimators", ["mine"])
