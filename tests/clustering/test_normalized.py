import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import normalized
from coe_agents.clustering.normalized import normalize_answer


@pytest.mark.parametrize(
    "group",
    [
        ("The Beatles", "beatles", " BEATLES! ", "«Beatles»", "**Beatles**", "beatles。"),
        (
            "1,000",
            "1000",
            "1000.0",
            "01000",
            "+1000",
            "one thousand",
            "１０００",
            "١٠٠٠",
            "1 thousand",
        ),
        ("-5", "−5", "-5.0"),
        ("0", "-0", "0.00", "zero", ".0"),
        ("twenty-one", "twenty one", "21"),
        ("5 million", "5,000,000", "five million", "5.0 million"),
        ("$1,500.00", "$1500", "$ 1500."),
        ("5%", "5 %", "5 percent", "five percent", "**5%**", "5％"),
        ("5 °C", "5°C", "5℃"),
        ("-$5", "$-5", "-$5.00"),
        ("5", "5.", "(5)", "'5'", "5!", "**5**", "5;"),
        ("J.K. Rowling", "J. K. Rowling", "JK Rowling"),
        ("U.S.A.", "USA"),
        ("Marks & Spencer", "Marks and Spencer"),
        ("1939–1945", "1939-1945"),
        ("A-", "A minus"),
        ("2^10", "2¹⁰"),
        ("½", "1/2"),
        ("5½", "5 1/2"),
        ("Straße", "STRASSE"),
        ("café", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("soft\N{SOFT HYPHEN}ware", "software"),
    ],
)
def test_equal_answers(group):
    assert len({normalize_answer(text) for text in group}) == 1


@pytest.mark.parametrize(
    "group",
    [
        ("C", "C++", "C#"),
        ("A", "A+", "A-", "B"),
        ("+", "-", "*", "/", "?", "!"),
        (
            "5",
            "-5",
            "€5",
            "5/2",
            "52",
            "5.2",
            ">5",
            "$5",
            "-$5",
            "5%",
            "5‰",
            "5°",
            "5°C",
            "5 km",
            "#5",
            "5′",
            "±5",
        ),
        ("1 + 1", "1 1", "11"),
        ("10²", "102", "10"),
        ("5½", "51/2"),
        ("10:30", "1030", "10:3"),
        ("1.2.3", "1.23", "123"),
        ("COVID-19", "COVID 9", "COVID"),
        ("Plan A", "Plan B", "Plan"),
        ("हिन्दी", "हिन्दे", "हनद"),
        ("😀", "😢"),
    ],
)
def test_different_answers(group):
    assert len({normalize_answer(text) for text in group}) == len(group)


def test_an_article_goes_only_before_another_word():
    assert normalize_answer("The Who") == "who"
    assert normalize_answer("a") == "a"
    assert normalize_answer("The") == "the"
    assert normalize_answer("Vitamin A") == "vitamin a"


@given(st.text())
def test_nothing_visible_becomes_nothing(text):
    assert bool(normalize_answer(text)) or not text.strip() or not any(c.isalnum() for c in text)


@given(st.text(alphabet="aAthen tyoeC+#-−.,/:1250$%&'’½²^é中\n*"))
def test_what_is_normal_stays(text):
    once = normalize_answer(text)
    assert normalize_answer(once) == once


PIECES = st.sampled_from(
    ["", *" .AU", " .", "the", "an", "Paris", "PARIS", "one", "Twenty", "hundred", "and"]
)


@given(st.lists(PIECES, max_size=7).map(" ".join), PIECES)
def test_plain_words_are_what_the_long_way_makes_of_them(text, end):
    found = normalize_answer(text + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalized, "_WORDS", re.compile("(?!)"))
        assert normalize_answer(text + end) == found


@given(
    sign=st.characters(categories=["Sc", "Sm", "Po", "So", "Sk", "Pd"]),
    number=st.integers(0, 10**6),
)
def test_a_sign_that_unicode_counts_to_a_number_stays_beside_it(sign, number):
    counts = unicodedata.bidirectional(unicodedata.normalize("NFKC", sign)[0]) == "ET"
    forms = {normalize_answer(f"{number}{sign}"), normalize_answer(f"{sign}{number}")}
    assert not counts or str(number) not in forms
