"""Owns the model-free clusterer: answers that differ only in case, punctuation, articles or number format are equal."""

import functools
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal

from coe_agents.clustering.protocols import by_first_appearance, check_batch


class NormalizedMatch:
    """A `Clusterer` without a model: two answers share a cluster if `normalize_answer` makes them equal.

    It suits short answers; it does not recognise that "Paris" and "It is Paris." mean the same. It ignores the
    questions.

    Example:
        >>> NormalizedMatch().cluster([["The Beatles", "beatles!", "1,000", "1000.0"]], ["Who sang it, and how often?"])
        [[0, 0, 1, 1]]
    """

    def cluster(
        self, responses: Sequence[Sequence[str]], questions: Sequence[str]
    ) -> list[list[int]]:
        """Returns the labels of each question's responses; see `Clusterer`."""
        batch, _ = check_batch(responses, questions)
        normalize = functools.cache(normalize_answer)
        return [by_first_appearance(map(normalize, texts)) for texts in batch]


def normalize_answer(text: str) -> str:
    """Returns `text` in the form in which equal short answers are equal strings.

    It extends SQuAD's normalisation to all scripts and to numbers:

    - Unicode NFKC and case folding; invisible characters are removed.
    - Punctuation of any script is removed, as are pictographs. What distinguishes answers stays: mathematical signs
      ("1 + 1" is not "1 1"), currencies ("$5" is not "5"), "C++", "C#" and the minus of a grade or blood group ("A-").
      "&" is "and".
    - Of signs beside a number those stay that Unicode counts to it (bidirectional class ET), such as "%" (also written
      "percent"), "°" and "#": "5%" is not "5".
    - The articles "a", "an" and "the" are removed where another word follows, so "Plan A" and a lone "A" keep theirs.
    - Numbers count by value: "1,000", "1000.0" and "one thousand" are equal, "-5" is not "5"; the comma separates
      thousands and the point decimals. Fractions, times, dates and versions ("1/2", "10:30", "1.2.3") stay as written.
    - A text of nothing but punctuation is left as it is: "?" is not "!".

    Args:
        text: A short answer, such as `canonical_answer` gives.

    Example:
        >>> normalize_answer("The U.S. spent $1,500.00!")
        'us spent $1500'
        >>> normalize_answer("twenty-one pilots") == normalize_answer("21 Pilots")
        True
        >>> [normalize_answer(language) for language in ("C", "C++", "C#")]
        ['c', 'c + +', 'c ♯']
    """
    if _WORDS.fullmatch(text):
        words = text.lower().rstrip(".").split()
        if _VALUES.keys().isdisjoint(words):  # without them, nothing below changes a word
            *before, last = words
            return " ".join([*(word for word in before if word not in _ARTICLES), last])

    plain = _fold(text)
    pieces = _NUMBER.split(_INITIALS.sub("", plain))
    words = []
    for i, piece in enumerate(pieces):
        is_number = i % 2 == 1
        if is_number:
            words.append(_canonical_number(piece))
        else:
            words += _ELLIPSIS.sub(" ", piece).translate(_CHARACTERS).split()
    place_of_last = 0
    for place, word in enumerate(words):
        if not _is_sign(word):
            place_of_last = place
    kept = []
    for place, word in enumerate(words):
        if place >= place_of_last or word not in _ARTICLES:
            kept.append(word)
    normalized = " ".join(_join_signs(_numbers_by_value(kept)))
    return _PERCENT.sub("%", normalized) or " ".join(plain.split())


_ARTICLES = frozenset({"a", "an", "the"})
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: i for i, word in enumerate(_UNITS.split())} | {
    word: 10 * i for i, word in enumerate(_TENS, start=2)
}
_SCALES = {
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}

_WORDS = re.compile(r"[A-Za-z][A-Za-z ]*\.?")
"""The most frequent answers: letters of English, spaces, and a full stop."""
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴-⁹]+")
_VULGAR_FRACTIONS = re.compile("[¼-¾⅐-⅞]")
_LEADING_PLUS = re.compile(r"\A\s*\+(?=\.?\d)")
_SHARP = re.compile(r"(?<=[^\W\d])#")
_TRAILING_MINUS = re.compile(r"(?<![^\W_])([^\W\d_]{1,2})-(?![\w-])")
_MINUS_BEFORE_SIGN = re.compile(r"(?<![^\W_])-([^\w\s])(?=\.?\d)")
_PERCENT = re.compile(r"(?<=\d) percent\b")
_INITIALS = re.compile(r"(?<=\b[^\W\d_]\.)\s+(?=[^\W\d_]\.)")
_ELLIPSIS = re.compile(r"\.{2,}")
# The sign needs no word before it, so that a range or "covid-19" has none.
_NUMBER = re.compile(
    r"(?<![^\W_])(-?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[./:]\d+)*|\.\d+))"
)
_PLAIN_NUMBER = re.compile(r"-?\d*\.?\d*")
_MAX_DIGITS = 20


class _CharacterTable(dict[int, str]):
    """What each character becomes outside numbers, filled on demand: an answer uses few of a million."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        is_sign = unicodedata.bidirectional(character) == "ET"
        if category == "Cf":
            self[code] = ""
        elif is_sign:
            self[code] = f" {character} "
        elif category[0] in "CPZ" or category in ("So", "Sk"):
            self[code] = " "
        elif category[0] == "S":
            self[code] = f" {character} "
        else:
            self[code] = character
        return self[code]


_CHARACTERS = _CharacterTable({ord(c): "" for c in ".'’‘ʼ`"} | {ord("&"): " and ", ord("^"): " ^ "})


def _is_sign(word: str) -> bool:
    """Returns whether a word is a sign that Unicode counts to the number beside it."""
    return len(word) == 1 and unicodedata.bidirectional(word) == "ET"


def _join_signs(words: Sequence[str]) -> list[str]:
    """Returns the words with each sign joined to the number beside it; without one, only signs of value stay."""
    if not any(map(_is_sign, words)):
        return [*words]
    joined: list[str] = []
    before = ""
    for place, word in enumerate(words):
        following = words[place + 1].lstrip("-")[:1] if place + 1 < len(words) else ""
        if not _is_sign(word):
            joined.append(before + word)
            before = ""
        elif not before and joined and joined[-1][-1].isdecimal():
            joined[-1] += word
        elif following.isdecimal():
            before = word
        elif unicodedata.category(word) in ("Sc", "Sm"):
            joined.append(word)
    return joined


def _fold(text: str) -> str:
    """Returns `text` with equivalent characters made equal: NFKC, but "10²" stays a power and "5½" is not "51/2"."""
    if not text.isascii():
        text = _SUPERSCRIPTS.sub(r"^\g<0>", text)
        text = _VULGAR_FRACTIONS.sub(r" \g<0> ", text)
        text = unicodedata.normalize("NFKC", text).casefold()
        text = unicodedata.normalize("NFKC", text)
        text = text.replace("\N{FRACTION SLASH}", "/").replace("\N{MINUS SIGN}", "-")
    text = _LEADING_PLUS.sub("", text.casefold())
    text = _MINUS_BEFORE_SIGN.sub(_swap_minus, text)
    text = _SHARP.sub(" ♯ ", text)
    return _TRAILING_MINUS.sub(r"\1 minus ", text)


def _swap_minus(match: re.Match[str]) -> str:
    """Returns a sign before its minus, "$-5" for "-$5", where it is a sign of the number."""
    if _is_sign(match[1]):
        return f"{match[1]}-"
    return match[0]


def _canonical_number(number: str) -> str:
    """Returns a number written one way: no separators, no leading or trailing zeros, no negative zero.

    Strings all the way, because `int` refuses thousands of digits.
    """
    if not number.isascii():
        characters = []
        for character in number:
            is_digit = character.isdecimal()
            characters.append(str(unicodedata.decimal(character)) if is_digit else character)
        number = "".join(characters)
    number = number.replace(",", "")
    if not _PLAIN_NUMBER.fullmatch(number):
        return number
    whole, _, fraction = number.removeprefix("-").partition(".")
    value = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    if fraction:
        value += f".{fraction}"
    if number.startswith("-") and value != "0":
        return f"-{value}"
    return value


def _numbers_by_value(words: Sequence[str]) -> list[str]:
    """Returns the words with number words as digits: "twenty one" is 21 and "5 million" is 5000000."""
    merged: list[str] = []
    in_tens = False
    for word in words:
        unit = _VALUES.get(word)
        if in_tens and unit is not None and 0 < unit < 10:
            merged[-1] = str(int(merged[-1]) + unit)
        elif unit is not None:
            merged.append(str(unit))
        elif word in _SCALES and merged and _is_short_number(merged[-1]):
            merged[-1] = _canonical_number(f"{Decimal(merged[-1]) * _SCALES[word]:f}")
        else:
            merged.append(word)
        in_tens = word in _TENS
    return merged


def _is_short_number(word: str) -> bool:
    return len(word) <= _MAX_DIGITS and word[-1].isdecimal() and bool(_PLAIN_NUMBER.fullmatch(word))
