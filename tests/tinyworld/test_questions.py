import pytest

from coe_agents.errors import ConfigurationError
from coe_agents.tinyworld import load_facts
from coe_agents.tinyworld.questions import tinyworld_questions


@pytest.mark.parametrize("split", ["calibration", "validation"])
def test_each_half_holds_its_facts(split):
    found = tinyworld_questions(split)
    facts = [fact for fact in load_facts() if fact.split == split]
    questions = {(question.id, question.question, question.references) for question in found.questions}
    assert questions == {(fact.id, fact.question, fact.references) for fact in facts}
    assert (found.kind, found.n_records) == ("tinyworld", len(facts))


def test_an_unknown_half_is_said():
    with pytest.raises(ConfigurationError, match="Its splits are calibration and validation"):
        tinyworld_questions("test")
