from coe_agents.clustering import BidirectionalEntailment, CountingEntailment, EntailmentModel


def test_it_counts_what_reaches_the_model_and_changes_nothing(same_start):
    counting = CountingEntailment(same_start)
    assert BidirectionalEntailment(counting).cluster([["a", "ab", "b", "a"]], [""]) == [[0, 0, 1, 0]]
    # a against ab and b; ab back.
    assert (counting.n_pairs, counting.n_calls) == (3, 2)
    assert (len(same_start.pairs), len(same_start.calls)) == (3, 2)
    assert isinstance(counting, EntailmentModel)
