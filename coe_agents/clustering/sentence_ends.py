"""Owns where a sentence ends: by the library sentencex, and by tables of what it does not know.

No table of abbreviations is complete. So an unknown one is recognised by its shape, too: a short word that a
lower-case word follows, a word without a vowel, a short word before nothing but a name. Where that is wrong, two
sentences are one.
"""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STARTERS = _words("""
    a after all also although an and as at because before both
    but each for from he her here his how however i if in
    indeed it its many most my no not of on one or
    our she since so some that the their then there therefore these they
    this those thus to under until we what when where which while who with yes you your
""")
"""Words that begin a sentence and no name: behind them, what stood before the full stop is no abbreviation."""

BEFORE_A_NUMBER = _words("""
    abb abs app approx aprox art bd bk ca cap ch chap circa cl ed
    eq est ex exp fig figs fri kap lib lit max mod mon no nos nr nrs núm op
    par para pg pl pos pp pt pts qu rd rs sec sect ser st
    str sub tab tabl thu tit tom trans tue vers vol vols wed гл рис см стр табл
""")
"""Abbreviations of what is numbered, and of "about": a number follows."""

BEFORE_A_NAME = _words("""
    abp amb assoc asst atty avv bp cía col dip dipl dir dña
    dott dr exc fa fam ing insp lic ltda mag mlle mlles mme msgr mts
    mtro pza sec secy sig sigra sra sras srta sta ste sto supt tte v г ул
""")
"""Titles and the like that sentencex does not know in English texts, most of them of other languages."""

LETTERED = (
    "answer|appendix|block|choice|class|column|exhibit|factor|figure|grade|group|hepatitis|influenza|level|option"
    "|part|phase|plan|platform|point|schedule|section|series|site|team|type|unit|version|vitamin|zone"
)
"""What a capital names, as in "vitamin C": no initial, though a capitalised word may follow."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_LAST_WORD = re.compile(r"(?<![^\W_])([^\W\d_]{1,6})\.[^\S\n]+\Z")
_INSIDE = re.compile(r"(?<=[.!?])[\w(]|(?:(?<=[\d)]!\s)|(?<=\b[^\W\d_]!\s))[-+*/^=<>≤≥≠×·÷()–−a-z]")
"""What stands behind a stop without a blank, as in "U.K.", or a factorial, as in "5! / 2"."""
_NEXT_WORD = re.compile(r"[^\W_]+")
_ROMAN = re.compile("[IVXLC]+")
_NO_VOWEL = re.compile(r"[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ][b-df-hj-np-tv-xz]{1,4}")
_LONGEST_NAME = 70
_BLOCK = 10_000
"""So many characters are segmented at a time: for quotation marks sentencex takes time by the square of the length."""
_CAPITAL = "[A-ZÀ-ÞΑ-ΩА-Я]"
_ONLY_NAME = re.compile(
    rf"(?:{_CAPITAL}(?:\.|[\w'’-]{{1,20}})[^\S\n]?){{1,3}}(?:[.!]\s|[.!]?\s*\Z)"
)
_MISSED = re.compile(
    rf"(?:\d[^\S\n]?(?!(?:{'|'.join(BEFORE_A_NUMBER)}|vs|г)\b)[a-zà-ÿа-яµμ]{{1,4}}(?:/[a-z]{{1,3}})?"
    r"|°[^\S\n]?[CFK]"
    rf"|(?<![^\W_])(?i:{LETTERED})[^\S\n]{_CAPITAL})\.[^\S\n]+(?={_CAPITAL})"
    rf"|\d[^\S\n]?(?:[VJKLΩ]|[kMGmµμ](?:[WVAJNLΩ]|Hz|Pa))\.[^\S\n]+(?={_CAPITAL}[\w’'-]*[^\S\n][a-zß-ÿ])"
    rf"|(?<![\w.])[a-z]\.[^\S\n]+(?={_CAPITAL})(?=(?i:{'|'.join(STARTERS)})\b)"
)
"""Ends that sentencex takes for those of initials: of a unit, of a lettered name, of a variable such as "e"."""


def sentence_ends(text: str, language: str = "en") -> list[int]:
    """Returns where the sentences of a text end, in its characters; the last end is that of the text.

    The white space behind a sentence belongs to it. The time is linear in the length of the text.

    Args:
        text: Any text.
        language: The code of its language, as in "de"; sentencex has rules for 244.

    Example:
        >>> sentence_ends("It is 5 m. Indeed, see vol. 3 of Sen. Warren.")
        [11, 45]
    """
    from sentencex import segment  # here, since most answers are no sentences

    ends = set[int]()
    plain = _SURROGATES.sub("\ufffd", text).replace("**", "''")  # quotes, as sentencex knows them
    end = 0
    for start in range(0, len(text), _BLOCK):
        # together the pieces are the block, in its length
        for piece in segment(language, plain[start : start + _BLOCK]):
            end += len(piece)
            is_end = end % _BLOCK or end == len(text)
            if is_end and not _goes_on(text, end):
                ends.add(end)
    ends.update(missed.end() for missed in _MISSED.finditer(text))
    return sorted(ends)


def _goes_on(text: str, end: int) -> bool:
    """Returns whether what ends there is an abbreviation, and its sentence goes on."""
    if _INSIDE.match(text, end):
        return True
    last = _LAST_WORD.search(text, max(0, end - 12), end)
    following = _NEXT_WORD.match(text, end)
    if last is None or following is None:
        return False
    word = last[1].lower()
    begins_sentence = following[0].lower() in STARTERS
    if following[0].islower():
        is_known = word in BEFORE_A_NUMBER | BEFORE_A_NAME
        return is_known or (len(word) <= 4 and not begins_sentence)
    has_vowel = _NO_VOWEL.fullmatch(last[1]) is None
    if begins_sentence or not has_vowel:
        return not has_vowel and not (begins_sentence and last.start())  # "Dr. No" alone
    if word in BEFORE_A_NUMBER and _ROMAN.fullmatch(following[0]):
        return True
    if following[0][0].isdigit():
        return word in BEFORE_A_NUMBER
    if word in BEFORE_A_NAME:
        return True
    is_short_title = last[1].istitle() and len(word) <= 4 and word not in STARTERS
    name = _ONLY_NAME.match(text[end : end + _LONGEST_NAME])
    return is_short_title and name is not None
