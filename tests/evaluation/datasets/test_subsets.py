import random

import pytest

from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets import Question, examples_from
from coe_agents.evaluation.datasets.question import draw_key

QUESTIONS = [Question(f"q{number}", f"What is {number}?", (str(number),)) for number in range(300)]


def test_another_seed_draws_others():
    first, second = (
        set(sorted(QUESTIONS, key=lambda question: draw_key("asked", seed, question.id))[:200]) for seed in (0, 1)
    )
    # two draws of 200 from 300 share 200 * 200 / 300 = 133 on average
    assert 110 < len(first & second) < 156


def test_examples_are_others_and_the_same_whatever_the_order():
    shuffled = random.Random(0).sample(QUESTIONS, 300)
    draw = examples_from(QUESTIONS, 5, seed=0)
    for question in QUESTIONS:
        assert question not in draw(question)
        assert draw(question) == examples_from(shuffled, 5, seed=0)(question)
    assert draw(QUESTIONS[0]) != examples_from(QUESTIONS, 5, seed=1)(QUESTIONS[0])


def test_no_example_gives_the_asked_question_away_or_lacks_what_is_shown():
    asked = Question("a", "Who?", ("Ann",), "Ann did.")
    twin = Question("b", "Who?", ("Ann",), "Ann it was.")
    unanswerable = Question("c", "When?", (), "Ann did.", answerable=False)
    without_passage = Question("d", "Where?", ("Here",))
    questions = [asked, twin, unanswerable, without_passage]
    assert examples_from(questions, 1, seed=0)(asked) == [without_passage]
    with pytest.raises(ConfigurationError, match="1 example is needed; only 0 other"):
        examples_from(questions, 1, seed=0, with_context=True)(asked)
