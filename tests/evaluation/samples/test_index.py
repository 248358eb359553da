from hypothesis import given
from hypothesis import strategies as st

from coe_agents.evaluation.samples.ranges import index_runs


@given(st.lists(st.tuples(st.sampled_from("abcéf\ud800\uffff\U0001f600"), *[st.integers(0, 2**40)] * 4), max_size=30))
def test_runs_are_in_the_order_of_ids_and_those_of_a_question_in_the_order_they_came(runs):
    index = index_runs((identifier, run) for identifier, *run in runs)
    expected = [
        (each, [number for identifier, *run in runs if identifier == each for number in run])
        for each in sorted({identifier for identifier, *_ in runs})
    ]
    assert list(index) == expected
    assert len(index) == len(expected)
    both = zip(index, index, strict=True)  # two that iterate at once do not disturb each other
    assert all(first == second for first, second in both)
