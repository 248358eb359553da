import pytest

from coe_agents.tinyworld.chain import next_element_question

SYMBOL, NUMBER = "What is the chemical symbol for {}?", "What is the atomic number of {}?"


@pytest.mark.parametrize(
    ("question", "answer", "following"),
    [
        (SYMBOL.format("carbon"), "The chemical symbol for carbon is C.", NUMBER.format("carbon")),
        (SYMBOL.format("gadolinium"), "Ga", NUMBER.format("gallium")),  # wrong, and followed
        (NUMBER.format("carbon"), "Carbon has atomic number 6.", SYMBOL.format("nitrogen")),
        (NUMBER.format("carbon"), "7", SYMBOL.format("oxygen")),
        (NUMBER.format("plutonium"), "94", None),  # the last of the table
        (NUMBER.format("carbon"), "²", None),  # a digit, but no number
        ("What is the capital of France?", "C", None),
    ],
)
def test_the_next_question_is_made_of_the_answer(question, answer, following):
    assert next_element_question(question, answer) == following
