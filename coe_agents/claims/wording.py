"""Owns what a sentence says, as sentences are compared: its words, and its particulars.

Two sentences may say the same in different words. What changes the meaning of their words must
agree: negations, numbers, signs, who did it, and the order of names.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple


@lru_cache(maxsize=65_536)
def words(text: str) -> frozenset[str]:
    """Returns the content words, numbers and names of a sentence, as they are compared.

    >>> sorted(words("She has written 1,200 letters."))
    ['1200', 'letter', 'writt']
    """
    plain = _plain(text).casefold()
    every = [word.replace(",", "") for word in _WORD.findall(plain)]
    content = [word for word in every if word not in _GRAMMAR and word not in _NEGATIONS]
    compared = list[str]()
    for word in content or every:
        compared.append(_NUMBERS.get(word) or _ENDING.sub("", word))
    return frozenset(compared)


class Particulars(NamedTuple):
    """What changes the meaning of a sentence whose words stay the same.

    Attributes:
        numbers: In their order, with minus and percent signs; words such as "three" and "second",
            and Roman numerals, are numbers, too.
        months: In their order.
        signs: Symbols, of mathematics and currencies for example, and addresses.
        negated: How many negations each word is behind; "" where none follows.
        is_negated: Whether one of them is no part of a title, such as "Without Remorse".
        doers: The words behind "by".
        sequence: The other words in their order, each behind the preposition before it, or "".
        names: Those that are capitalised, or of a script that has no capitals; all words where
            these are fewer than two, since one may only begin the sentence.
    """

    numbers: tuple[str, ...]
    months: tuple[str, ...]
    signs: frozenset[str]
    negated: Counter[str]
    is_negated: bool
    doers: frozenset[str]
    sequence: tuple[tuple[str, str], ...]
    names: frozenset[str]

    def agree_with(self, passage: "Particulars") -> bool:
        """Returns whether a passage has the particulars of the sentence, and none that turns it."""
        if not _in_order(self.numbers, passage.numbers):
            return False
        if not _in_order(self.months, passage.months):
            return False
        if not self.signs <= passage.signs:
            return False
        if passage.is_negated and not self.negated:
            return False

        words_here = {word for _, word in self.sequence}
        words_here = words_here.union(self.numbers, self.negated)
        if any(self.negated[word] != passage.negated[word] for word in words_here):
            return False

        # who did it may be left out, but is no part of the other sentence in another role
        words_of_both = {word for _, word in passage.sequence} & words_here
        doers_of_one = self.doers ^ passage.doers
        if not doers_of_one.isdisjoint(words_of_both):
            return False
        return self._names_in_order_of(passage)

    def _names_in_order_of(self, passage: "Particulars") -> bool:
        """Returns whether the names that both have stand in one order.

        A name behind the same preposition may be in front: "In London, Ada was born" says that
        "Ada was born in London". Such names are compared among themselves: "born in Paris, died
        in London".
        """
        names_there = list[tuple[str, str]]()
        for preposition, word in passage.sequence:
            if word in passage.names:
                names_there.append((preposition, word))
        in_order_there = [name for _, name in names_there]

        unused = Counter(in_order_there)
        alike = list[tuple[str, str]]()
        others = list[str]()
        for preposition, word in self.sequence:
            if not unused[word]:
                continue
            unused[word] -= 1
            if preposition and (preposition, word) in names_there:
                alike.append((preposition, word))
            else:
                others.append(word)
        return _in_order(others, in_order_there) and _in_order(alike, names_there)


def _in_order(parts: Iterable[object], whole: Iterable[object]) -> bool:
    """Returns whether the parts occur in the whole, in their order."""
    rest = iter(whole)
    return all(part in rest for part in parts)


@lru_cache(maxsize=8192)
def particulars(text: str) -> Particulars:
    """Returns the particulars of a sentence.

    >>> claim = particulars("Bo beat Ada 3 to 2.")
    >>> texts = ("Bo beat Ada 3 to 2 in May.", "Ada beat Bo 3 to 2.")
    >>> [claim.agree_with(particulars(text)) for text in texts]
    [True, False]
    """
    plain = _plain(text)
    numbers = list[str]()
    months = list[str]()
    sequence = list[tuple[str, str]]()
    names = set[str]()
    doers = set[str]()
    negated = Counter[str]()
    is_negated = False
    n_waiting = 0  # negations whose word has not come yet
    preposition = ""
    before = ""
    for token in _TOKEN.finditer(plain):
        written = token[0]
        word = written.casefold()
        behind = plain[token.end() : token.end() + 4]
        is_name = not written[0].islower()
        follows_digit = before[-1:].isdecimal()
        precedes_digit = behind.strip()[:1].isdecimal()
        number = _digits(written) if token["number"] else _number(written, before, behind)
        before = written

        if number is not None:
            numbers.append(number)
            compared = number
        elif word in _MONTHS and (is_name or follows_digit or precedes_digit):
            compared = word[:3]
            months.append(compared)
        elif word in _NEGATIONS:
            n_waiting += 1
            is_negated = is_negated or token.start() == 0 or not written.istitle()
            continue
        elif word in _GRAMMAR:
            if word not in _ARTICLES:
                preposition = word if word in _PREPOSITIONS else ""
            continue
        else:
            compared = _ENDING.sub("", word)
            sequence.append((preposition, compared))
            if is_name:
                names.add(compared)
            if preposition == "by":
                doers.add(compared)

        negated[compared] += n_waiting
        n_waiting = 0
        if not is_name:
            preposition = ""  # it stays for all words of a name
    negated[""] += n_waiting

    if len(names) < 2:
        names = {word for _, word in sequence}
    return Particulars(
        numbers=tuple(numbers),
        months=tuple(months),
        signs=frozenset(_signs(plain)),
        negated=+negated,
        is_negated=is_negated,
        doers=frozenset(doers),
        sequence=tuple(sequence),
        names=frozenset(names),
    )


def _signs(plain: str) -> Iterator[str]:
    """Yields the symbols and the addresses of a text."""
    for sign in set(plain) - {"|"}:
        if unicodedata.category(sign) in _SIGNS:
            yield sign
    for piece in plain.split():
        if any(sign in piece for sign in _OF_ADDRESSES):
            yield piece


def _digits(written: str) -> str:
    """Returns a number in digits as it is compared."""
    ungrouped = _GROUPING.sub("", written.casefold())
    signed = _MINUS.sub("-", ungrouped)
    return _PERCENT.sub("%", signed)


def _number(written: str, before: str, behind: str) -> str | None:
    """Returns a number in words as it is compared; None for another word."""
    # a single letter is one behind a name, as in "Charles V"
    is_part_of_name = len(written) > 1 or before[:1].isupper()
    if is_part_of_name and _ROMAN.fullmatch(written):
        return written
    if written.casefold() == "one" and behind.startswith(" of"):
        return None
    return _NUMBERS.get(written.casefold())


def _plain(text: str) -> str:
    """Returns a text with one spelling for signs that have several, and "not" in full."""
    plain = unicodedata.normalize("NFKC", text)
    plain = plain.replace("’", "'").replace("!=", "≠")
    plain = _NOT.sub(r"\1 not", plain)
    plain = _NO_NUMBER.sub("number ", plain)
    plain = _ORDINAL.sub("", plain)
    return _RANGE.sub("–", plain)


_CJK = "぀-ヿ㐀-鿿豈-﫿"
_WORD = re.compile(rf"[{_CJK}]|\d+(?:[.,]\d+)*|[^\W\d_{_CJK}]+")
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![\w)\]])(?:[-–−]|minus\b)\s?)?"  # a dash behind a word is no minus
    r"\d+(?:[.,]\d+)*(?:\s?%|\s?per ?cent\b|'?s\b)?)"  # "1930s" is not 1930
    rf"|[{_CJK}]|[^\W\d_{_CJK}]+",
    re.IGNORECASE,
)
_ENDING = re.compile(r"(?<=[^\W\d]{3})(?:ing|ed|es|ly|er|en|s)$")
_NOT = re.compile(
    r"\b(are|ca|could|did|do|does|had|has|have|is|should|was|were|wo|would)n'?t\b|n't\b",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_NO_NUMBER = re.compile(r"\b[Nn]o\.\s*(?=\d)")
_RANGE = re.compile(r"(?<=\d)\s*[-–]\s*(?=\d)")
_GROUPING = re.compile(r",(?=\d{3}(?!\d))|'")
_MINUS = re.compile(r"^(?:[-–−]|minus)\s?")
_PERCENT = re.compile(r"\s?(?:%|per ?cent)$")
_ROMAN = re.compile("[IVX]+")
_OF_ADDRESSES = ("//", "](", "www.", "@")
_SIGNS = ("Sm", "Sc", "So")
_GRAMMAR = frozenset(
    _WORD.findall(
        "a about after against all also am among an and any are as at be been before being between "
        "both but by ca can could did do does doing during each few for from had has have having he "
        "her here hers him his how i in into is it its may me might more most must my no nor not of "
        "on one or other our over own s same shall she should so some such t than that the their "
        "them then there these they this those through to too under until very was we were what "
        "when where which while who whom why will with wo would you your"
    )
)
_ARTICLES = frozenset(("a", "an", "the"))
_PREPOSITIONS = frozenset(
    _WORD.findall(
        "about after against among as at before between by during for from in into like of on over "
        "through to under with"
    )
)
_NEGATIONS = frozenset(
    _WORD.findall(
        "barely cannot denied denies fail failed failing fails false hardly lack lacked lacks "
        "neither never no nobody none nor not nothing nowhere rarely refused refuses scarcely "
        "seldom unable untrue without"
    )
)
_MONTHS = frozenset(
    _WORD.findall(
        "january february march april may june july august september october november december "
        "jan feb mar apr jun jul aug sep sept oct nov dec"
    )
)
_COUNTED = (
    "zero, one first once, two second twice, three third thrice, four fourth, five fifth, six "
    "sixth, seven seventh, eight eighth, nine ninth, ten tenth, eleven eleventh, twelve twelfth "
    "dozen, thirteen thirteenth, fourteen fourteenth, fifteen fifteenth, sixteen sixteenth, "
    "seventeen seventeenth, eighteen eighteenth, nineteen nineteenth"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred"
_NUMBERS = {
    "thousand": "1000",
    "million": "1000000",
    "billion": "1000000000",
    "trillion": "1000000000000",
}
for _number_of_forms, _forms in enumerate(_COUNTED.split(",")):
    _NUMBERS.update(dict.fromkeys(_forms.split(), str(_number_of_forms)))
for _n_tens, _ten in enumerate(_TENS.split(), start=2):
    _NUMBERS[_ten] = str(10 * _n_tens)
