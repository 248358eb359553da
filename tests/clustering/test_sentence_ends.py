import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering.sentence_ends import (
    BEFORE_A_NAME,
    BEFORE_A_NUMBER,
    LETTERED,
    STARTERS,
    sentence_ends,
)


def split(text, language="en"):
    ends = sentence_ends(text, language)
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    "text",
    [
        "B. |It is the largest.",
        "No. |It sank.",
        "It is vitamin C. |It helps.",
        "It is vitamin K. |Humans need it.",
        "Try plan B. |Paris is far.",
        "It is 5 m. |Indeed, it is long.",
        "It took 30 min. |Nobody saw it.",
        "It is 3 m/s. |Speed is constant.",
        "It is 40 kW. |Power is the rate.",
        "It is 20 °C. |Water flows.",
        "The base is e. |It is 2.718.",
        "It is in the U.S. |It is large.",
        "It is Apple Inc. |It sells phones.",
        "It is Rome. |Italy is large.",
        "It is Paris. |3 reasons follow.",
        "It is on Main St. |The shop is closed.",
        "He met Rev. Green. |Col. Mustard was out.",
        "她住在巴黎。|巴黎很大。",
    ],
)
def test_a_sentence_ends(text):
    assert split(text.replace("|", "")) == text.split("|")


@pytest.mark.parametrize(
    "text",
    [
        "It is Sen. Warren.",
        "It is Capt. Ahab of the ship.",
        "It is Atty. Gomez.",  # known to no table of ours: a short word before a name
        "It is Hptm. Klein who came.",  # nor this: a word without a vowel
        "See vol. 3 of it.",
        "See Fig. 4 of it.",
        "It is approx. 5 metres.",
        "See tbl. 12 of it.",
        "Apple Inc. was founded then.",
        "It is by J. R. R. Tolkien.",
        "It is the U.S. Senate.",
        "It is fruit, e.g. apples.",
        "It is 3.14.",
        "It is 4! = 24 of them.",
        "It is max. 5 metres.",
        "It is Symphony No. 5.",
        "In 1905 A. Einstein published it.",
        "It is George W. Bush.",
        "They beat 5 vs. Germany.",
    ],
)
def test_an_abbreviation_ends_none(text):
    assert split(text) == [text]


@pytest.mark.parametrize("language", ["en", "es", "fr", "it", "pt", "ru"])
def test_no_sentence_ends_before_a_letter(language):
    assert split("J.R.R. Tolkien, **S. Cook**.", language) == ["J.R.R. Tolkien, **S. Cook**."]


@given(st.sampled_from(sorted(BEFORE_A_NUMBER)), st.integers(2, 999))
def test_no_abbreviation_of_a_table_is_cut_before_a_number(word, number):
    text = f"See {word}. {number} of it."
    assert split(text) == [text]


@given(st.sampled_from(sorted(BEFORE_A_NAME)), st.sampled_from(["Warren", "Gómez", "Иванов"]))
def test_no_title_of_a_table_is_cut_before_a_name(title, name):
    text = f"It was {title.title()}. {name} who came."
    assert split(text) == [text]


STARTING = sorted(word for word in STARTERS if len(word) > 1)


@given(st.sampled_from(LETTERED.split("|")), st.sampled_from("BCDEK"), st.sampled_from(STARTING))
def test_a_lettered_name_ends_its_sentence(noun, letter, word):
    first = f"It is {noun} {letter}. "
    assert split(f"{first}{word.title()} follows.") == [first, f"{word.title()} follows."]


@given(st.text())
def test_the_parts_are_the_text(text):
    assert "".join(split(text)) == text
