from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from coe_agents.evaluation.samples.index import MOST_FILES, Index


def filled(stack, runs, held):
    index = Index(stack, held=held)
    for identifier, *run in runs:
        index.add(identifier, run)
    return index


@given(
    st.lists(st.tuples(st.sampled_from("abcdef\ud800"), *[st.integers(0, 2**40)] * 4), max_size=30), st.integers(1, 4)
)
def test_what_is_sorted_on_the_disk_is_what_memory_holds(runs, held):
    with ExitStack() as stack:
        in_memory, on_disk = filled(stack, runs, 1_000), filled(stack, runs, held)
        assert list(on_disk) == list(in_memory) == list(on_disk)
        assert len(on_disk) == len(in_memory) == len({identifier for identifier, *_ in runs})
        assert bool(on_disk) == bool(runs)
        assert [identifier for identifier, _ in on_disk] == sorted({identifier for identifier, *_ in runs})


def test_files_go_with_the_stack():
    with ExitStack() as stack:
        index = filled(stack, [(each, 0, 0, 0, 1) for each in "abc"], 1)
        files = index._files
        assert len(files) == 2
        assert all(path.exists() for path in files)
        both = zip(index, index, strict=True)  # two that iterate at once do not disturb each other
        assert all(first == second for first, second in both)
    assert not any(path.exists() for path in files)


def test_many_files_become_one_and_what_is_read_is_the_same():
    runs = [(f"q{number % 97:02}", 0, number, 0, 1) for number in range(300)]
    with ExitStack() as stack:
        in_memory, on_disk = filled(stack, runs, 1_000), filled(stack, runs, 1)
        assert len(on_disk._files) < MOST_FILES
        assert list(on_disk) == list(in_memory)
