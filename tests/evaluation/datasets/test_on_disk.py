import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.evaluation.datasets.question import draw_key, merge
from coe_agents.evaluation.datasets.records import to_question
from coe_agents.evaluation.datasets.sources import open_questions
from coe_agents.evaluation.tables import RowTable
from tests.evaluation.invented import write


def records(n):
    """Of each six two repeat an earlier question, one has another answer; some have no answer, a wording recurs."""
    for number in range(n):
        of = number - 3 if number % 6 in (4, 5) else number
        references = [f"Reply {number}"] if of % 4 else []
        yield {
            "id": str(of),
            "question": f"Question {of % 5}?",
            "references": references,
            "context": f"P {of}",
        }


@pytest.mark.parametrize("seed", [0, 7])
def test_the_questions_are_those_of_a_subset_in_memory(tmp_path, seed):
    path = str(write(tmp_path / "d.jsonl", records(400)))
    found, same = open_questions(path, seed=seed), {}
    for record in records(400):
        _, question = to_question(record)
        same.setdefault(question.id, []).append(question)
    whole = [merge(each) for each in same.values()]
    assert (found.source, found.questions.n_records) == (path, 400)
    expected = sorted(whole, key=lambda question: draw_key(seed, question.id))
    assert list(found.questions) == expected
    assert len(found.questions) == len(expected) < found.questions.n_records
    for limit in (1, 30, 10_000, None):
        assert list(found.questions.first(limit)) == expected[:limit]


@pytest.mark.slow
@given(st.lists(st.binary(max_size=2)))
@settings(max_examples=20, deadline=None)
def test_a_table_is_sorted_by_its_keys(keys):
    table = RowTable()
    table.add((key, 0, number, "") for number, key in enumerate(keys))
    table.sort()
    expected = sorted(set(keys))
    assert [key for key, _ in table] == expected
    assert len(table) == len(expected)
    table.close()
