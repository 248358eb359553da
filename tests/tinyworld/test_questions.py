import pytest

from coe_agents.tinyworld.facts import load_facts
from coe_agents.tinyworld.questions import find_questions, tinyworld_questions


@pytest.mark.parametrize("split", ["calibration", "validation"])
def test_each_half_holds_its_facts(split):
    found = tinyworld_questions(split)
    facts = [fact for fact in load_facts() if fact.split == split]
    assert [(question.id, question.question, question.references) for question in found] == [
        (fact.id, fact.question, fact.references) for fact in facts
    ]
    opened = find_questions("tinyworld", split, seed=0)
    assert (opened.source, opened.n_records) == (f"tinyworld, {split}", len(facts))
    assert sorted(question.id for question in opened.questions) == sorted(question.id for question in found)
