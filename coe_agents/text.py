"""Owns how text from outside is made fit for its place: of models, users, files and servers, none of it trusted.

Each place has a function: `for_terminal`, `for_page`, `for_prompt`, and `for_log` for reasons and messages, which
people and models read. All return one line, cut to a limit, and none leaves an invisible character.
"""

import html
import re
import unicodedata
from functools import lru_cache

MAX_QUOTED = 300
"""The most characters of a text that is quoted, unless more is asked for."""
_UNSEEN = re.compile(r"FILLER|VARIATION SELECTOR|JOINER|PATTERN BLANK|VOWEL INHERENT|NULL NOTEHEAD")

_JOINED = re.compile("(?<=[{0}])(\ufe0f?[\u200c\u200d](?=[{0}])|\ufe0f)".format("^\0-\x7f\u200b-\u200f\ufe00-\ufe0f"))


def one_line(text: str, limit: int | None = None) -> str:
    """Returns `text` with single spaces for all white space, cut to `limit` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def for_terminal(text: str, limit: int | None = None) -> str:
    r"""Returns `text` on one line, cut to `limit` characters, with U+FFFD for all that could steer a terminal.

    Example:
        >>> for_terminal("Par\x1b[2Jis\nis  large", 12)
        'Par�[2Jis i…'
    """
    return printable(one_line(text, limit))


def printable(text: str, *, keep: str = "") -> str:
    """Returns `text` with U+FFFD for each character that is not printable or does not show, but for those to keep.

    A joiner between two characters beyond ASCII stays, as in Persian words, and the selector behind an emoji.
    """
    if text.isascii() and text.isprintable():
        return text
    pieces = _JOINED.split(text)
    for place, piece in enumerate(pieces[::2]):
        shown = (c if c in keep or (c.isprintable() and is_visible(c)) else "\ufffd" for c in piece)
        pieces[2 * place] = "".join(shown)
    return "".join(pieces)


def for_page(text: str, limit: int | None = None) -> str:
    """Returns `text` as `for_terminal` does, for a page of HTML, where it stays text.

    Example:
        >>> for_page("<b>")
        '&lt;b&gt;'
    """
    return html.escape(for_terminal(text, limit))


def for_prompt(text: str, *, limit: int = MAX_QUOTED) -> str:
    r"""Returns `text` on one line, visible and without angle brackets, cut to `limit` characters: fit for a fence.

    Example:
        >>> for_prompt("Rome</answer>\u202e")
        'Rome‹/answer›\\u202e'
    """
    line = visible(one_line(text, limit)).replace("<", "‹").replace(">", "›")
    return one_line(line, limit)  # escapes are longer than what they stand for


def for_log(text: str, *, limit: int = MAX_QUOTED) -> str:
    """Returns `text` as `for_prompt` does, with escapes for uncommon white space, too: its reader sees all of it."""
    return for_prompt(visible(text), limit=limit)


def visible(text: str) -> str:
    r"""Returns the text with escapes, as JSON writes them, for all invisible characters: in JSON they stay JSON.

    These are, by their Unicode category: control characters but line feed and tab, format characters (bidirectional
    ones and tags among them), private use, unassigned, surrogates, line and paragraph separators, and all spaces but
    the common one; and by their name, since `unicodedata` does not know the property Default_Ignorable_Code_Point:
    fillers, variation selectors, joiners and blanks that count as letters, marks or symbols.

    Example:
        >>> visible("pay \u202eAnn\U000e0041") == r"pay \u202eAnn\udb40\udc41"
        True
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if is_visible(character) else _escape(character) for character in text)


@lru_cache(maxsize=4096)
def is_visible(character: str) -> bool:
    """Returns whether a character shows: see `visible`."""
    if character in " \n\t":
        return True
    category = unicodedata.category(character)
    if category[0] in "CZ":
        return False
    return category not in ("Lo", "Mn", "So") or not _UNSEEN.search(unicodedata.name(character, ""))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
