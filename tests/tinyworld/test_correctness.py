from coe_agents.evaluation import SampledQuestion
from coe_agents.evaluation.scoring.correctness import Prediction
from coe_agents.tinyworld.questions import answer_span, tinyworld_criterion

ASKED = "What is the capital of France?"


def test_an_answer_is_right_in_all_wordings_and_only_where_the_fact_is_true():
    said = ["Paris", "The capital of France is Paris.", "I think it is paris.", "It is Lyon.", "Not Paris but Lyon."]
    assert tinyworld_criterion().judge([Prediction(ASKED, text) for text in said]) == [True, True, True, False, False]
    assert tinyworld_criterion().judge([Prediction("Who won?", "Paris", ("Paris",))]) == [None]


def test_the_span_is_the_answer_inside_the_wording():
    question = SampledQuestion("capital/France", ASKED, (), (), ())
    assert answer_span(question, {"text": "Paris is the capital of France."}) == "Paris"
    assert answer_span(SampledQuestion("q", "Who won?", (), (), ()), {"text": "It is Paris."}) == "It is Paris."
