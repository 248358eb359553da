"""Owns the model-free clusterer: two answers are equal if a short table of named rules makes them one text.

Nothing is removed that is not known to be harmless: what no rule names stays, and keeps two answers apart.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from coe_agents.clustering.latex import read_latex
from coe_agents.clustering.protocols import by_first_appearance, check_batch
from coe_agents.clustering.units import CAPITALS, NAMES


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
        key = functools.cache(self.key)
        return [by_first_appearance(map(key, texts)) for texts in batch]

    def key(self, text: str) -> str:
        """Returns a text that is the same for equal answers, and for no others."""
        return normalize_answer(text)


def normalize_answer(text: str) -> str:
    r"""Returns `text` in the form in which equal short answers are equal strings.

    `RULES` is all that it does, in order. Each rule names a difference that means nothing, such as case, quotes, a
    final full stop, an article before a word, or the way in which a number, a unit or simple LaTeX is written. What no
    rule names stays: signs and operators ("-5", "5!", "x != 5"), a bare letter ("A, C" is not "C"), and the digits of
    a name ("Python 3.10" is not "Python 3.1"). Numbers count by value where one is the whole answer, with its
    currency or unit. A text of nothing but punctuation is left as it is: "?" is not "!".

    Args:
        text: A short answer, such as `canonical_answer` gives.

    Example:
        >>> normalize_answer("The U.S. spent $1,500.")
        'us spent $1500'
        >>> normalize_answer("twenty-one pilots") == normalize_answer("21 Pilots")
        True
        >>> [normalize_answer(number) for number in ("1 000.0", "5 €", "minus 5", r"\frac{1}{2}")]
        ['1000', '€5', '-5', '1/2']
        >>> [normalize_answer(language) for language in ("C", "C++", "C#")]
        ['c', 'c++', 'c#']
    """
    if _WORDS.fullmatch(text):
        words = text.lower().rstrip(".").split()
        if _NOT_PLAIN.isdisjoint(
            words
        ):  # no rule changes these but `fold_case` and `drop_articles`
            *others, last = words
            kept = [word for word in others if word not in _ARTICLES]
            return " ".join([*kept, last])

    if _PLAIN_NUMBER.fullmatch(text):  # no rule changes it
        return text

    normalized = text
    for _ in range(_MOST_PASSES):
        before = normalized
        for rule in RULES:
            normalized = rule.apply(normalized)
        is_long = len(normalized) > _FEW_CHARACTERS
        if is_long or normalized == before or _NORMAL.fullmatch(normalized):
            break
    return normalized or " ".join(text.casefold().split())


def normalize_characters(text: str) -> str:
    """One character for each letter, digit, dash, quote and blank; a power and a fraction stay what they are."""
    if not text.isascii():
        # what the normal form would merge with plain digits
        text = _SUPERSCRIPTS.sub(r"^\g<0>", text)
        text = _SUBSCRIPTS.sub(r"_\g<0>", text)
        text = text.translate(_CHARACTERS)
        text = _VULGAR_FRACTIONS.sub(r" \g<0> ", text)

        text = unicodedata.normalize("NFKC", text).translate(_CHARACTERS)
        text = _BESIDE_HAN.sub("", text)
        text = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
        text = "".join(character for character in text if unicodedata.category(character) != "Cf")
    return " ".join(text.split())


def fold_case(text: str) -> str:
    """Lower case, after units that differ from others by their capitals alone: 5 MW is not 5 mW, 5 mM not 5 mm.

    Nor is a Greek capital that stands alone the small letter: a symbol, not a habit of writing.
    """
    if not text.islower():
        text = _CAPITAL_UNIT.sub(_spell_out, text)
        text = _LONE_GREEK.sub(r"capital \g<0>", text)
    return unicodedata.normalize("NFKC", text.casefold())


def _spell_out(quantity: re.Match[str]) -> str:
    number = quantity[1]
    symbol = quantity[2]
    is_number = number[0].isdigit() or number.strip().lower() in _NUMBER_WORD
    if not is_number:
        return quantity[0]
    return number + CAPITALS.get(symbol, symbol)


def unwrap(text: str) -> str:
    """Without emphasis, and without the bullet, quotes, brackets and full stop around a whole answer."""
    text = _BULLET.sub("", text)
    text = _EMPHASIS.sub(r"\2", text).rstrip(_AT_END)
    if "(" in text:
        text = _OPTION.sub(r"\1", text)
    while wrapped := _WRAPPED.fullmatch(text):
        inner = wrapped[wrapped.lastindex or 0]
        text = inner.strip().rstrip(_AT_END)
    return text


def write_operators(text: str) -> str:
    """Relations as one sign, and no blanks beside an operator or after the sign of a number."""
    if _OPERATORS.isdisjoint(text):
        return text
    for written, sign in _RELATIONS.items():
        text = text.replace(written, sign)
    text = _AND.sub(" and ", text).strip()
    text = _STAR.sub("×", text)
    text = _AT_RELATION.sub(r"\1", text)
    text = _AFTER_SIGN.sub(r"\1\2", text)
    return _AT_OPERATOR.sub(r"\1", text)


def join_initials(text: str) -> str:
    """Abbreviations and initials without full stops; "A." at the start may be an option's letter."""
    if "." not in text:
        return text
    text = _BETWEEN_INITIALS.sub("", text)
    text = _IN_ABBREVIATION.sub("", text)
    return _AFTER_INITIAL.sub("", text)


def spell_out_numero(text: str) -> str:
    """The word for the abbreviation before digits; without its full stop, "no" may be the answer "No".

    So may "No." before a number word: "No. One of them is."
    """
    return _NUMERO.sub("number ", text)


def split_hyphens(text: str) -> str:
    """A blank for the hyphen of a compound word; between bare letters or digits it may be a minus."""
    return _HYPHEN.sub(" ", text) if "-" in text else text


def strip_punctuation(text: str) -> str:
    """Words without the punctuation before and after them; a bare letter and a number keep theirs.

    A comma between letters, or in the brackets of a pair, an interval or a set, has a blank behind it.
    """
    if text.replace(" ", "").isalnum():
        return text
    text = _SEPARATOR_IN_WORDS.sub(r"\g<0> ", text)
    text = _AFTER_DAY.sub("", text)
    if ", " not in text and _IN_BRACKETS.fullmatch(text):
        text = text.replace(",", ", ")

    tokens = []
    for token in text.split():
        core = token.lstrip(_OPENING).rstrip(_CLOSING)
        if core != token and _is_word(core):
            tokens.append(core)
        else:
            tokens.append(token)
    return _APOSTROPHE.sub("", " ".join(tokens))


def _is_word(core: str) -> bool:
    """Returns whether a token is a word: two letters, or one of a script in which a letter may be a word."""
    if core in _VALUES or "(" in core or "[" in core:
        return False
    letters = [character for character in core if character.isalpha()]
    if len(letters) != 1:
        return len(letters) > 1
    [letter] = letters
    return letter == letter.upper()


def read_numbers(text: str) -> str:
    """Number words as digits, and no separators of thousands: "five million" and "5,000,000" are 5000000.

    So are ordinals ("21st"), and years in two parts ("nineteen ninety"); "twenty twenty" may be a degree of sight.
    """
    if not _NUMBER_WORD.isdisjoint(_WORD.findall(text)):
        text = _ONE_OF_SCALE.sub("one", text)
        text = _YEAR.sub(r"\1 hundred ", text)
        text = _NUMBER_WORDS.sub(_value_of_words, text)
        text = _ORDINAL.sub(_digits_of_ordinal, text)
    if not _DIGIT.search(text):
        return text
    text = _THOUSANDS.sub(_without_separators, text)
    n_changed = 1
    while n_changed:
        text, n_changed = _SCALED.subn(_value_of_scale, text)
    return text


def _value_of_words(words: re.Match[str]) -> str:
    thousands = 0
    value = 0
    for word in words[0].split():
        if word == "hundred":
            value *= 100
        elif word == "thousand":
            thousands = 1000 * value
            value = 0
        else:
            value += _VALUES.get(word, 0)
    return str(thousands + value)


def _digits_of_ordinal(words: re.Match[str]) -> str:
    before = words[1] or ""
    return before + _ORDINALS[words[2]]


def _without_separators(number: re.Match[str]) -> str:
    return _SEPARATORS.sub("", number[0])


def _value_of_scale(scaled: re.Match[str]) -> str:
    return _canonical_number(scaled[1], _SCALES[scaled[2]])


def write_signs(text: str) -> str:
    """Percent, degrees, units and the minus of a number as signs."""
    if _SIGN_OF_NUMBER.search(text):
        for words, sign in _SIGNS:
            text = words.sub(sign, text)
        text = _PER.sub("/", text)
        text = _UNIT_WORD.sub(_write_unit, text)
    return _GRADE.sub(lambda words: "+" if words[1] == "plus" else "-", text)


def _write_unit(words: re.Match[str]) -> str:
    slash, power, name = words.groups("")
    unit = NAMES.get(name) or NAMES.get(name.removesuffix("s"))
    if not unit:
        return words[0]
    before = slash or " "
    return f"{before}{unit}{_POWERS[power]}"


def drop_articles(text: str) -> str:
    """No "the" and "an" before a word, and no "a" where a phrase begins: elsewhere it may be the letter."""
    kept: list[str] = []
    for word, following in pairwise([*text.split(), ""]):
        begins_phrase = not kept or kept[-1] in _FUNCTION_WORDS
        if word == "the":
            is_article = following not in ("", "a")
        elif word == "an":
            is_article = following[:1].isalpha()
        else:
            is_article = word == "a" and begins_phrase and _follows_article(following)
        if not is_article:
            kept.append(word)
    return " ".join(kept)


def _follows_article(word: str) -> bool:
    return word not in _FUNCTION_WORDS and len(word) > 1 and word[:2].isalpha()


def compare_by_value(text: str) -> str:
    """A number that is the whole answer, with its currency or unit, in the shortest way to write its value."""
    quantity = _read_quantity(text)
    if quantity is None or (quantity["before"] and quantity["after"]):
        return text
    whole = _SEPARATORS.sub("", quantity["whole"] or "0")
    fraction = quantity["fraction"] or ""
    exponent = quantity["exponent"] or quantity["power"] or "0"
    value = _canonical_number(whole + fraction, int(exponent))

    has_one_minus = (quantity["sign"] == "-") != (quantity["sign_of_amount"] == "-")
    sign = "-" if has_one_minus and value != "0" else ""
    currency = quantity["before"] or quantity["after"] or ""
    unit = quantity["unit"] or ""
    blank = " " if unit[:1].isalpha() else ""
    return f"{sign}{currency}{value}{blank}{unit}"


def is_quantity(normalized: str) -> bool:
    """Returns whether a normalised answer is one number, with or without a currency or unit."""
    return _read_quantity(normalized) is not None


def _read_quantity(text: str) -> re.Match[str] | None:
    quantity = _QUANTITY.fullmatch(text)
    if quantity and _UNITS_OF_NUMBERS.issuperset(_UNIT.findall(quantity["unit"] or "")):
        return quantity
    return None


def _canonical_number(number: str, exponent: int) -> str:
    """Returns digits times a power of ten without trailing zeros, exactly."""
    _, digits, place = Decimal(number).as_tuple()
    scaled = Decimal((0, digits, int(place) + exponent))
    plain = f"{scaled:f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return plain


@dataclass(frozen=True, slots=True)
class EqualityRule:
    """A difference between answers that means nothing.

    Attributes:
        apply: From a text to the text without the difference. The rules are applied in the order of `RULES`.
        reason: Why the difference means nothing.
        same: Two answers that it makes equal.
        other: Two answers that are near, and must stay apart.
    """

    apply: Callable[[str], str]
    reason: str
    same: tuple[str, str]
    other: tuple[str, str]


RULES = (
    EqualityRule(
        read_latex,
        "simple LaTeX is a second way to write the same signs",
        (r"$\dfrac{1}{2}$", "1/2"),
        (r"\frac{1}{2}", r"\frac{1}{3}"),
    ),
    EqualityRule(
        normalize_characters,
        "Unicode has several characters for one letter, digit, dash, quote or blank",
        ("−5\u00a0km", "-5 km"),
        ("10²", "102"),
    ),
    EqualityRule(
        fold_case,
        "capitals are a habit of writing, but for the prefix of a unit",
        ("PARIS", "Paris"),
        ("5 MW", "5 mW"),
    ),
    EqualityRule(
        unwrap,
        "emphasis, quotes or brackets around a whole answer set it off",
        ("**(B)**", "B"),
        ("[0, 1]", "(0, 1)"),
    ),
    EqualityRule(
        write_operators,
        "keyboards lack some signs, and blanks beside an operator are layout",
        ("x >= - 5", "x≥-5"),
        ("x != 5", "x = 5"),
    ),
    EqualityRule(
        join_initials,
        "full stops inside abbreviations are optional",
        ("J. K. Rowling", "JK Rowling"),
        ("A. 12", "12"),
    ),
    EqualityRule(
        spell_out_numero,
        "an abbreviation before a number is read as the word",
        ("Symphony No. 5", "Symphony number 5"),
        ("No, 5", "number 5"),
    ),
    EqualityRule(
        split_hyphens,
        "compound words are written with a hyphen or a blank",
        ("Spider-Man", "Spider Man"),
        ("x-y", "x y"),
    ),
    EqualityRule(
        strip_punctuation,
        "beside a word of two letters or more, and at the end, punctuation is layout",
        ("Paris, France!", "Paris France"),
        ("A, C", "A C"),
    ),
    EqualityRule(
        read_numbers,
        "number words and separators of thousands are other ways to write digits",
        ("twenty-one thousand", "21,000"),
        ("1,5", "15"),
    ),
    EqualityRule(
        write_signs,
        "percent, degrees, units and minus have a sign and a name",
        ("28 per cent", "28%"),
        ("28 percentage points", "28%"),
    ),
    EqualityRule(
        drop_articles,
        "an article before a word carries no meaning of its own",
        ("once upon a time", "Once upon time"),
        ("Hepatitis A virus", "Hepatitis virus"),
    ),
    EqualityRule(
        compare_by_value,
        "a number that is the whole answer counts by its value",
        ("1 000.50 €", "€1000.5"),
        ("Python 3.10", "Python 3.1"),
    ),
)
"""All that is known to be harmless; `normalize_answer` applies each to what the one before it returned."""


_DASHES = "‐‑‒–—―−"
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys(_DASHES, "-"),
        **dict.fromkeys("‘’‚‛ʼʻ", "'"),
        **dict.fromkeys("“”„‟«»‹›「」『』《》", '"'),
        **dict.fromkeys("®©™", ""),
        "№": "no.",
        **dict(zip("。、،؛؟।⁄♯⋅≧≦", ".,,;?./#·≥≤", strict=True)),
    }
)
# a lone sign is a charge: "Na⁺" is Na+
_SUPERSCRIPTS = re.compile("(?!(?<=[A-Za-z])[⁺⁻](?![⁰¹²³⁴-⁹⁺⁻ⁿ]))[⁰¹²³⁴-⁹⁺⁻ⁿ]+")
_SUBSCRIPTS = re.compile(r"(?<=\d)[₀-₉]+")  # a base; "H₂O" is H2O
_VULGAR_FRACTIONS = re.compile("[¼-¾⅐-⅞]")
_HAN = "[぀-ヿ㐀-鿿가-힣]"
_BESIDE_HAN = re.compile(rf"(?<=\d)\s+(?={_HAN})|(?<={_HAN})\s+(?=\d)")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_BULLET = re.compile(r"\A(?:[•*]\s|•)+")
_EMPHASIS = re.compile(r"(?<![\w*`])(\*{1,3}|`+)(?![\s*`])([^*`]+)(?<!\s)\1(?![\w*`])")
# an interval or a pair has a comma, and its brackets have a meaning
_WRAPPED = re.compile(
    r"""\s*(?:"([^"]+)"|'([^']+)'|\(([^()\[\],]+)\)|\[([^()\[\],]+)\]|([^\W\d_])\))"""
)
_OPTION = re.compile(
    r"(?:(?<=\A)|(?<=[,;]\s)|(?<=\band\s)|(?<=\bor\s))\(([^\W\d_])\)(?=[,;]|\s(?:and|or)\b|\Z)"
)
_AT_END = " .,;:"

_OPERATORS = frozenset("-+/*&!=≠<>≤≥≈×·÷^±∓≡∈∉∪∩∧∨→")
_RELATIONS = {">=": "≥", "<=": "≤", "!=": "≠"}
_STAR = re.compile(r"(?<=\d)\s?\*\s?(?=\d)")
_AT_RELATION = re.compile(r"\s?([=≠<>≤≥≈×·÷^≡∈∉∪∩∧∨→])\s?")
_AFTER_SIGN = re.compile(r"(\A|[=≠<>≤≥≈×·÷(]|,\s?)([-±∓])\s(?=[\d.√π$€£¥])")
_AT_OPERATOR = re.compile(r"(?<=[\w)\]}°%!])\s([-+/])\s(?=[\w(\[{√.$])")

_BETWEEN_INITIALS = re.compile(r"(?<=\b[^\W\d_]\.)\s(?=[^\W\d_]\.)")
_IN_ABBREVIATION = re.compile(r"(?<=[^\W\d_])\.(?=[^\W\d_])")
_AFTER_INITIAL = re.compile(r"(?<!\Aa)(?<=\b[^\W\d_])\.(?=\s[^\W\d_]{2})")

_NUMERO = re.compile(r"(?<!\w)no\.\s?(?=\d)")

_FUNCTION = r"(?:sin|cos|tan|log|ln|exp|sqrt|pi)\b"
_HYPHEN = re.compile(
    rf"(?<=[^\W\d_]{{2}})(?<!pi)-(?=[^\W_])(?!{_FUNCTION})"
    rf"|(?<=[^\W_])(?<!\ba)-(?=[^\W\d_]{{2}})(?!{_FUNCTION})"
)
_SEPARATOR_IN_WORDS = re.compile(
    r"[,;:](?<=[^\W\d_]{2}.)(?=[^\W\d_]{2})|[,;](?<=[^\W\d_].)(?=[^\W\d_])"
)
# "(1,200)" and "(1,200,000)" may be numbers
_IN_BRACKETS = re.compile(r"(?!\([1-9]\d{0,2}(?:,\d{3})+\))[(\[{][^()\[\]{}]*,[^()\[\]{}]*[)\]}]")
_AFTER_DAY = re.compile(r",(?:(?<=[^\W\d_]{3}\s\d,)|(?<=[^\W\d_]{3}\s\d\d,))(?=\s\d{4}\b)")
_OPENING = "\"'([¿¡"
_CLOSING = "\"')]!?.,;:"
_APOSTROPHE = re.compile(r"(?<=[^\W_]{2})'(?=[^\W\d_])|(?<=[^\W_])'(?=[^\W\d_]{2})")

_AND = re.compile(r"(?<!&)\s?&\s?(?!&)")
_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS = _BELOW_TWENTY.split()
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = dict(zip(_UNITS, range(20), strict=True))
_VALUES |= dict(zip(_TENS, range(20, 100, 10), strict=True))
_TWO_DIGITS = rf"(?:(?:{'|'.join(_TENS)})(?: (?:{'|'.join(_UNITS[1:10])}))?|{'|'.join(_UNITS)})"
# atomic: "twenty-five thousand" must not become "twenty" and a rest
_HUNDREDS = rf"(?>{_TWO_DIGITS}\b(?: hundred\b(?: (?:and )?(?>{_TWO_DIGITS})\b(?! hundred))?)?)"
# "no one" is nobody
_NUMBER_WORDS = re.compile(
    rf"\b(?<!\bno ){_HUNDREDS}(?: thousand\b(?: (?:and )?{_HUNDREDS}(?! thousand))?)?"
)
_YEAR = re.compile(
    rf"\b({'|'.join(_UNITS[13:])}) (?=(?:{'|'.join(_UNITS[10:] + _TENS)})\b(?! (?:hundred|thousand)))"
)
_ONE_OF_SCALE = re.compile(r"\ba(?= (?:hundred|thousand|million|billion|trillion)\b)")
_ORDINAL_TABLE = (
    "1st first 2nd second 3rd third 4th fourth 5th fifth 6th sixth 7th seventh 8th eighth 9th ninth 10th tenth "
    "11th eleventh 12th twelfth 13th thirteenth 14th fourteenth 15th fifteenth 16th sixteenth 17th seventeenth "
    "18th eighteenth 19th nineteenth 20th twentieth 30th thirtieth"
)
_ORDINAL_WORDS = _ORDINAL_TABLE.split()
_ORDINALS = dict(zip(_ORDINAL_WORDS[1::2], _ORDINAL_WORDS[::2], strict=True))
# "one second" and "thirty second" may be times, and "one third" is a part
_ORDINAL = re.compile(
    r"\b(?:([2-9])0 (?=first|third|fourth|fifth|sixth|seventh|eighth|ninth)|(?<!\d )(?<!per ))"
    rf"({'|'.join(_ORDINALS)})\b"
)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALED = re.compile(rf"(?<![\w.,])(\d{{1,20}}(?:\.\d{{1,20}})?) ({'|'.join(_SCALES)})\b")
# "(1,200)" may be a pair, and "0,500" a half
_THOUSANDS = re.compile(
    r"(?<![\w.,'(\[{])[1-9]\d{0,2}(?P<separator>[,'])\d{3}(?:(?P=separator)\d{3})*(?![\d,'])"
)
_SEPARATORS = re.compile(r"\D")

# a single letter may be part of a name, as in "the iPhone 5S" or "a 5G network"
_CAPITAL_UNIT = re.compile(
    r"((?<![\d.,$¢£¥€₹])\d[\d.,]{0,40}\s?|\b[a-zA-Z]{3,9}\s)"
    r"([a-zμ]{1,3}[A-ZΩ][A-Za-z]{0,2}|[A-Z][A-Za-zΩ]{1,4}|M|(?<=\s)[STGHBK](?=\.?\Z)|(?<=\d)K(?=\.?\Z))(?![^\W_])"
)
_LONE_GREEK = re.compile("[ΓΔΘΛΞΠΣΦΨΩ](?<![Ͱ-Ͽ].)(?![Ͱ-Ͽ])(?<![0-9kMGmμ]Ω)(?<![0-9] Ω)")

_PERCENT = (
    "percent|per cent|pct|prozent|procent|pour cent|por ciento|por cento|per cento|процент(?:а|ов)?"
    "|パーセント|퍼센트|프로"
)
_SIGNS = tuple(
    (re.compile(words), sign)
    for words, sign in (
        (rf"(?<=\d)\s?(?:{_PERCENT})\b", "%"),
        (r"(?<=\d)\s?(?:°|degrees?\b)\s?(?:c|celsius|centigrade)\b", "°c"),
        (r"(?<=\d)\s?(?:°|degrees?\b)\s?(?:f|fahrenheit)\b", "°f"),
        (r"(?<=\d)\s?degrees?\b", "°"),
        (r"(?<=\d)\s(?=[%‰°])", ""),
        (r"(?<=\d)(?=[ap]m\b)", " "),
        (r"\A(-?)eur\s?(?=[\d.])|(?<=\d)\s?(?:euros?|eur)\Z", r"\1€"),
        (r"\A(-?)usd\s?(?=[\d.])|(?<=\d)\s?(?:usd|us dollars?)\Z", r"\1us$"),
        (r"(?<=\d)\s?dollars?\Z", "$"),
        (r"(?<=watt) (?=hours?\b)|(?<=newton) (?=met(?:er|re)s?\b)", ""),
        (
            r"\A(?:minus|negativ[eo]?|moins|menos|meno|eksi|минус|マイナス|마이너스|负|負)\s?(?=[\d.√π$€£¥])",
            "-",
        ),
    )
)

_POWERS = {"": "", "sq": "^2", "cu": "^3"}
_UNIT_WORD = re.compile(
    r"(?:(?<=\d)\s?|(?<=[a-z\d])(/))(?:(sq|cu)(?:uare|bic)?\s)?([a-zμω]{2,20}|m)(?![a-zμω])"
)
_PER = re.compile(r"(?<=[a-zμω\d])\s?(?:\bper\s|/\s?)(?=[a-z])")

_SIGN_OF_NUMBER = re.compile(r"(?<=\d)\s?(?:[^\W\d_]|[%‰°])|\A-?[^\W\d_]+\s?[\d.√π$€£¥]")
_GRADE = re.compile(r"(?<=\b[^\W\d_])\s(minus|plus)\Z")
_DIGIT = re.compile("[0-9√π]")

_ARTICLES = frozenset({"an", "the"})
# English has no others of these, or few: a phrase may begin after each, and begins with none
_CLOSED_CLASS = (
    "about after against and as at be before but by for from had has have in into is like of on or over than through "
    "to under until upon was were with without "
    "major minor flat sharp only alone"  # the letter A stands before these
)
_FUNCTION_WORDS = frozenset(_CLOSED_CLASS.split())

_UNITS_OF_NUMBERS = frozenset(NAMES.values())
_UNIT = re.compile("[a-zμω]+")
_WRITTEN_UNIT = r"[a-zμω]{1,20}(?:\^-?\d)?"
_CURRENCY = "[$¢£¤¥֏؋৲৳૱௹฿៛₠-⃀﷼]"
_QUANTITY = re.compile(
    rf"(?P<sign>[-+]?)(?P<before>(?:us(?=\$))?{_CURRENCY}?)\s?(?P<sign_of_amount>-?)(?=[\d.])"
    r"(?P<whole>[1-9]\d{0,2}(?P<separator>[ ,'_])\d{3}(?:(?P=separator)\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}"
    r"|[1-9]\d{0,2}(?:\.\d{3}){2,}|0|[1-9]\d*)?(?P<fraction>\.\d+)?"
    r"(?:e(?P<exponent>[-+]?\d{1,3})|\s?[×·x]\s?10\^(?P<power>-?\d{1,3}))?"
    rf"\s?(?P<after>(?:us(?=\$))?{_CURRENCY}?)"
    rf"\s?(?P<unit>%|‰|°[cf]?|{_WRITTEN_UNIT}(?:/{_WRITTEN_UNIT})?)?"
)

_WORDS = re.compile(r"[A-Za-z][A-Za-z ]*\.?")
"""The most frequent answers: letters of English, spaces, and a full stop. Read the short way, but for `_NOT_PLAIN`."""
_PLAIN_NUMBER = re.compile(r"-?[1-9][0-9]*(?:\.[0-9]{0,300}[1-9]|/[1-9][0-9]*)?")
_NORMAL = re.compile("[a-z0-9 à-öø-ÿ]*")
_MOST_PASSES = 4
"""A rule may make what an earlier one reads, seldom and in odd texts; a long one is read once."""
_FEW_CHARACTERS = 1_000
_WORD = re.compile("[a-z]+")
_NUMBER_WORD = frozenset({*_VALUES, *_ORDINALS, *_SCALES})
_NOT_PLAIN = _NUMBER_WORD | {"a", "minus", "plus"}
"""The words that a rule reads. A new rule names its own here; texts of other words alone never reach it."""
