import pytest

from coe_agents.tinyworld.chain import next_element_question
from coe_agents.tinyworld.facts import load_facts

SYMBOL, NUMBER = "What is the chemical symbol for {}?", "What is the atomic number of {}?"


@pytest.mark.parametrize(
    ("question", "answer", "following"),
    [
        (SYMBOL.format("carbon"), "The chemical symbol for carbon is C.", NUMBER.format("carbon")),
        (SYMBOL.format("gadolinium"), "Ga", NUMBER.format("gallium")),  # wrong, and followed
        ("What's the symbol of carbon?", "C", NUMBER.format("carbon")),
        (NUMBER.format("carbon"), "Carbon has atomic number 6.", SYMBOL.format("nitrogen")),
        (NUMBER.format("carbon"), "7", SYMBOL.format("oxygen")),
        (NUMBER.format("plutonium"), "94", None),  # the last of the table
        (SYMBOL.format("carbon"), "Paris", None),
        (NUMBER.format("carbon"), "-1", None),
        (NUMBER.format("carbon"), "six", None),
        (NUMBER.format("carbon"), "²", None),  # a digit, but no number
        ("What is the capital of France?", "C", None),
    ],
)
def test_the_next_question_is_made_of_the_answer(question, answer, following):
    assert next_element_question(question, answer) == following


def test_no_answer_is_a_subject_without_the_table():
    subjects = {fact.subject.lower() for fact in load_facts()}
    assert not subjects & {reference.lower() for fact in load_facts() for reference in fact.references}
