import pytest

from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.datasets.records import MalformedError, to_question

OFFICIAL_TRIVIA = {
    "QuestionId": "tc_33",
    "Question": "Who was prime minister in 1907?",
    "Answer": {
        "Value": "Campbell-Bannerman",
        "Aliases": ["Campbell-Bannerman", "Sir Henry"],
        "NormalizedAliases": ["campbell bannerman", "sir henry"],
    },
    "EntityPages": [],
}
HUB_TRIVIA = {
    "question_id": "tc_33",
    "question": "Who was prime minister in 1907?",
    "answer": {
        "value": "Campbell-Bannerman",
        "aliases": ["Campbell-Bannerman", "Sir Henry"],
        "normalized_aliases": ["campbell bannerman", "sir henry"],
    },
}
HUB_SQUAD = {
    "id": "56be",
    "context": "Paris is the capital of France.",
    "question": "What is the capital?",
    "answers": {"text": ["Paris", "Paris", "the city Paris"], "answer_start": [0, 0, 0]},
}
SQUAD = Question("56be", "What is the capital?", ("Paris", "the city Paris"), "Paris is the capital of France.")
HUB_TRUTH = {
    "question": "What happens if you eat seeds?",
    "best_answer": "They pass",
    "correct_answers": ["They pass", "Nothing happens"],
    "incorrect_answers": ["They grow"],
}


@pytest.mark.parametrize("record", [OFFICIAL_TRIVIA, HUB_TRIVIA])
def test_triviaqa_accepts_every_alias_its_value_first(record):
    kind, question = to_question(record)
    # "sir henry" only repeats "Sir Henry"; "campbell bannerman" is what the official script would accept
    assert kind == "triviaqa"
    assert question == Question(
        "tc_33", "Who was prime minister in 1907?", ("Campbell-Bannerman", "Sir Henry", "campbell bannerman")
    )


def test_squad_as_on_the_hub_and_as_published():
    assert to_question(HUB_SQUAD) == ("squad", SQUAD)
    listed = [{"text": text, "answer_start": 0} for text in HUB_SQUAD["answers"]["text"]]
    assert to_question({**HUB_SQUAD, "answers": listed}) == ("squad", SQUAD)
    assert to_question({**HUB_SQUAD, "answers": listed, "is_impossible": False}) == ("squad", SQUAD)


def test_squad_2_marks_what_the_passage_does_not_answer():
    on_the_hub = {**HUB_SQUAD, "answers": {"text": [], "answer_start": []}}
    published = {**HUB_SQUAD, "answers": [], "is_impossible": True, "plausible_answers": [{"text": "Paris"}]}
    for record in (on_the_hub, published):
        _, question = to_question(record)
        assert (question.references, question.answerable) == ((), False)


def test_truthfulqa_accepts_every_correct_answer_the_best_first():
    kind, question = to_question(HUB_TRUTH)
    assert (kind, question.references) == ("truthfulqa", ("They pass", "Nothing happens"))


def test_nq_open_and_records_of_ones_own():
    kind, question = to_question({"question": "who sang it", "answer": ["Cher"]})
    assert (kind, question.references) == ("nq_open", ("Cher",))
    record = {"id": 7, "question": "Who?", "gold": ["Ann", "ann"], "context": "Ann did.", "impossible": False}
    assert to_question(record) == ("questions", Question("7", "Who?", ("Ann",), "Ann did."))
    assert not to_question({**record, "gold": [], "impossible": True})[1].answerable


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"question": "Who?"}, '"references" is missing'),
        ({"question": "Who?", "references": "Ann"}, "must be a list of strings; got 'Ann'"),
        ({"question": "Pay", "references": [], "tools": []}, "a list of JSON schemas, at least one"),
        ({"question": "Pay", "references": [], "tools": [{"function": None}]}, "schemas with a name"),
        ({"question": "who", "answer": [" "]}, "it has no answer"),
        ({**HUB_TRIVIA, "answer": {"value": "<unk>", "aliases": []}}, "test split is published without"),
        ({**HUB_SQUAD, "answers": ["Paris"]}, '"answers" must be a list of'),
        ({**HUB_SQUAD, "answers": []}, "it has no answer"),
        ({**HUB_SQUAD, "is_impossible": True}, '"is_impossible" is true, but "answers" is not empty'),
        ({**HUB_TRUTH, "correct_answers": None}, '"correct_answers" must be a list'),
    ],
)
def test_a_record_that_is_no_question_says_why(record, said):
    with pytest.raises(MalformedError, match=said):
        to_question(record)
