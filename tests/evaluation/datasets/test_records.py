from dataclasses import replace

import pytest

from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.records import MalformedError, to_question

ALIASES, NORMALIZED = ["Campbell-Bannerman", "Sir Henry"], ["campbell bannerman", "sir henry"]
OFFICIAL_TRIVIA = {
    "QuestionId": "tc_33",
    "Question": "Who was prime minister in 1907?",
    "Answer": {"Value": "Campbell-Bannerman", "Aliases": ALIASES, "NormalizedAliases": NORMALIZED},
    "EntityPages": [],
}
HUB_TRIVIA = {
    "question_id": "tc_33",
    "question": "Who was prime minister in 1907?",
    "answer": {"value": "Campbell-Bannerman", "aliases": ALIASES, "normalized_aliases": NORMALIZED},
}
HUB_SQUAD = {
    "id": "56be",
    "context": "Paris is the capital of France.",
    "question": "What is the capital?",
    "answers": {"text": ["Paris", "Paris", "the city Paris"], "answer_start": [0, 0, 0]},
}
SQUAD = Question(
    "56be", "What is the capital?", ("Paris", "the city Paris"), "Paris is the capital of France."
)
HUB_TRUTH = {
    "question": "What happens if you eat seeds?",
    "best_answer": "They pass",
    "correct_answers": ["They pass", "Nothing happens"],
    "incorrect_answers": ["They grow"],
}


# "sir henry" only repeats "Sir Henry"; "campbell bannerman" is what the official script would accept
TRIVIA = Question(
    "tc_33",
    "Who was prime minister in 1907?",
    ("Campbell-Bannerman", "Sir Henry", "campbell bannerman"),
)
LISTED = {
    **HUB_SQUAD,
    "answers": [{"text": text, "answer_start": 0} for text in HUB_SQUAD["answers"]["text"]],
}
UNANSWERED = replace(SQUAD, references=(), answerable=False)
OWN = {
    "id": 7,
    "question": "Who?",
    "gold": ["Ann", "ann"],
    "context": "Ann did.",
    "impossible": False,
}


MMLU = {"question": "2 + 2?", "subject": "maths", "choices": ["3", "4", "22", "B"], "answer": 1}
HOTPOT = {
    "id": "5a7a",
    "question": "Are both mountains?",
    "answer": "no",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": {"title": ["A"], "sent_id": [0]},
    "context": {"title": ["A", "B"], "sentences": [["A is.", " It is."], ["B is not."]]},
}
GSM8K = {"question": "How many?", "answer": "9 - 7 = <<9-7=2>>2 left.\n#### 2"}
NATURAL = {
    "id": "797",
    "document": {},
    "question": {"text": "who is it", "tokens": ["who"]},
    "annotations": {
        "id": ["1", "2"],
        "short_answers": [{"text": ["Ann"]}, {"text": []}],
        "yes_no_answer": [-1, 1],
    },
}


@pytest.mark.parametrize(
    ("record", "references"),
    [
        (MMLU, ("B", "4")),
        ({**MMLU, "answer": "D"}, ("D",)),  # the choice "B" would be taken for a letter
        ({"question_id": 70, "question": "Q?", "options": ["x", "y"], "answer": "B"}, ("B", "y")),
        (HOTPOT, ("no",)),
        (GSM8K, ("2",)),
        (NATURAL, ("Ann", "yes")),
        ({"question": "Who?", "answer": "Ann"}, ("Ann",)),
        ({"question": "How many?", "answer": 18}, ("18",)),
        ({"question": "Who?", "answers": ["Ann", "Bo"]}, ("Ann", "Bo")),
        ({"question": "Who?", "answers": "Ann"}, ("Ann",)),
        ({"question": "Who?", "gold": "Ann"}, ("Ann",)),
        ({"question": "Who?", "reference": "Ann"}, ("Ann",)),
        ({"question": "Where?", "target": "[0, 1]"}, ("[0, 1]",)),
    ],
)
def test_the_rows_of_usual_sets_have_their_answers(record, references):
    _, question = to_question(record)
    assert question.references == references


def test_choices_stand_under_letters_and_paragraphs_are_a_passage():
    assert to_question(MMLU)[1].question == "2 + 2?\nA. 3\nB. 4\nC. 22\nD. B"
    assert to_question(HOTPOT)[1].context == "A: A is. It is.\nB: B is not."


def test_records_as_published_as_on_the_hub_and_of_ones_own():
    for record, kind, expected in (
        (OFFICIAL_TRIVIA, "triviaqa", TRIVIA),
        (HUB_TRIVIA, "triviaqa", TRIVIA),
        (HUB_SQUAD, "squad", SQUAD),
        (LISTED, "squad", SQUAD),
        ({**LISTED, "is_impossible": False}, "squad", SQUAD),
        ({**HUB_SQUAD, "answers": {"text": [], "answer_start": []}}, "squad", UNANSWERED),
        (
            {**HUB_SQUAD, "answers": [], "is_impossible": True, "plausible_answers": [{}]},
            "squad",
            UNANSWERED,
        ),
        (OWN, "questions", Question("7", "Who?", ("Ann",), "Ann did.")),
        (
            {**OWN, "gold": [], "impossible": True},
            "questions",
            Question("7", "Who?", (), "Ann did.", False),
        ),
        (HUB_TRUTH, "truthfulqa", ("They pass", "Nothing happens")),  # the best first
        ({"question": "who sang it", "answer": ["Cher"]}, "nq_open", ("Cher",)),
    ):
        found, question = to_question(record)
        assert (found, question if isinstance(expected, Question) else question.references) == (
            kind,
            expected,
        )


def test_a_record_that_is_no_question_says_why():
    for record, said in (
        ({"question": "Who?", "solution": "Ann"}, '"references" is missing'),
        ({"question": "Who?", "references": "Ann"}, "must be a list of strings; got 'Ann'"),
        (
            {"question": "Pay", "references": [], "tools": []},
            "a list of JSON schemas, at least one",
        ),
        (
            {"question": "Pay", "references": [], "tools": [{"function": None}]},
            "schemas with a name",
        ),
        ({"question": "who", "answer": [" "]}, "it has no answer"),
        (
            {**HUB_TRIVIA, "answer": {"value": "<unk>", "aliases": []}},
            "test split is published without",
        ),
        ({**HUB_SQUAD, "answers": [7, {}]}, '"answers" must be a list of'),
        ({"prompt": "Who?"}, '"question" and "references" are missing; it has prompt'),
        ({**MMLU, "answer": 4}, "one of choices by its number or letter; got '4'"),
        ({**HUB_SQUAD, "answers": []}, "it has no answer"),
        (
            {**HUB_SQUAD, "is_impossible": True},
            '"is_impossible" is true, but "answers" is not empty',
        ),
        ({**HUB_TRUTH, "correct_answers": None}, '"correct_answers" must be a list'),
        ({**MMLU, "answer": ["A", "B"]}, r"one of choices by its number or letter; got \['A', 'B'"),
        ({**MMLU, "answer": "1" * 5000}, "one of choices by its number or letter; got '1"),
        ({**MMLU, "choices": ["x"] * 27}, '"choices" must be at most 26; got 27'),
        ({**NATURAL, "annotations": []}, '"annotations" must be an object'),
        ({**NATURAL, "annotations": {}}, '"short_answers" must be a list of objects; got nothing'),
        ({**NATURAL, "annotations": {"short_answers": [{}]}}, '"text" must be a list of strings'),
        (
            {**NATURAL, "annotations": {"short_answers": [], "yes_no_answer": 1}},
            '"yes_no_answer" must be a list; got 1',
        ),
        ({**HOTPOT, "context": {"title": ["A"]}}, "each of a title and a list of sentences"),
        (
            {**HOTPOT, "context": {"title": ["A"], "sentences": [["x"], ["y"]]}},
            "each of a title and a list of sentences",
        ),
        ({**HOTPOT, "context": ["A is.", "B is."]}, "each of a title and a list of sentences"),
        ({**HOTPOT, "context": [["A", 5]]}, "each of a title and a list of sentences"),
    ):
        with pytest.raises(MalformedError, match=said):
            to_question(record)
