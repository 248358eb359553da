import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering.refusal_patterns import MAY_DECLINE, REFUSALS, STOCK_PHRASES, pattern_of
from coe_agents.clustering.refusals import answer_kind
from coe_agents.tinyworld import facts as wording


@pytest.mark.parametrize(
    "text",
    [
        *wording.REFUSALS,
        "I don’t know",
        "I'm not sure who you are referring to when you say “Junior.",
        "Sorry, I can't help with that.",
        "I'm sorry, but I can’t assist with that request.",
        "**Unknown**",
        "Unknown, as specific data is not provided.",
        "The question cannot be answered as the name of the city is not provided.",
        "Guess: I don't have enough specific information to provide an accurate guess.\nProbability: 0.0",
        "<think>Is it Paris?</think>I don't know.",
        '{"final_answer": "I don\'t know."}',
        "<answer>unknown</answer>",
        "As an AI language model, I don't have access to real-time information. Please provide a specific date.",
        "As an AI language model, I do not have personal beliefs, so I cannot answer.",
        "I'm sorry, but I couldn't find any information about Dr. Smith of St. Louis.",
        "I don't have access to schedules. \n\nTo find out, I recommend checking:\n\n* **TV Guide:** It's free.\n",
        "I'm not aware of that specific information. If you have more context, I'd be happy to help.",
        "I don't know, but I can help you find out. Could you provide more context?",
        "Cannot be determined without the specific year",
        "Without the year, it is difficult to say.",
        "我不知道。",
        "Je ne sais pas.",
    ],
)
def test_refusals(text):
    assert answer_kind(text) == "refusal"


@pytest.mark.parametrize(
    "text",
    [
        "Paris",
        "I don't know exactly, but it is Paris",
        "I don't know; Paris?",
        "I don't know and I think it is Paris.",
        "Not sure, maybe Paris",
        "The song is 'I Don't Know' by Ozzy",
        '"I Don\'t Know" by Ozzy Osbourne',
        "I Don't Know How to Love Him",
        "can't Help Myself",
        "Sorry",
        "Unknown Pleasures",
        "It is not known as X but Y",
        "NA",
        "It is unclear who invented it.",
        "As an AI, I don't have access to real-time data. However, in 2021 it was Satya Nadella.",
        "I'm sorry, but there is no character named Sharon Pogue in that film.",
        "I'm not aware of it, but my guess would be: No new episodes.",
        "I cannot verify it. Guess: Rome",
        "Oscar Wilde said: I don't know.",
        "If you mean the capital, I can tell you: Paris. Please check it.",
        "?",
    ],
)
def test_answers(text):
    assert answer_kind(text) == "answer"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "\u200b\ufeff",
        "\x00",
        "<think>Paris</think>",
        "<think>P",
        "</s></s>",
        "[THINK]Paris",
        "<answer> </answer>",
        '{"answer": ""}',
        '{"final_answer": null}',
        "\\boxed{}",
        "Answer:",
    ],
)
def test_empty(text):
    assert answer_kind(text) == "empty"


def test_a_long_response_is_taken_for_an_answer():
    assert answer_kind("I don't know. " * 10) == "refusal"
    assert answer_kind("I don't know. " * 1_000) == "answer"


@given(
    st.sampled_from(wording.ANSWERS),
    st.sampled_from(["the yen", "Na", "79", "Unknown Pleasures", "Don Adams"]),
)
def test_no_wording_of_an_answer_is_a_refusal(pattern, answer):
    assert answer_kind(pattern.format(a=answer)) == "answer"


@given(st.from_regex(pattern_of(REFUSALS), fullmatch=True))
def test_every_clause_that_declines_holds_a_word_that_is_looked_for_first(clause):
    assert MAY_DECLINE.search(clause)


@pytest.mark.parametrize("phrase", sorted(phrase for phrase in STOCK_PHRASES if phrase.isascii()))
def test_so_does_every_stock_phrase(phrase):
    assert MAY_DECLINE.search(phrase)
