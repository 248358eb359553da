"""Owns how text becomes fit for its place: that of models, users, files and servers, none of it trusted.

Each place has a function: `for_terminal`, `for_page`, `for_prompt`, and `for_log` for reasons and messages, which
people and models read. All return one line, cut to a limit, and none leaves an invisible character. What leaves the
process tells no secret: see `redact`, and `coe_agents.errors.secrets_of` for whose they are.
"""

import base64
import html
import json
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

MAX_QUOTED = 300
"""The most characters of a text that is quoted, unless more is asked for."""
_UNSEEN = re.compile(r"FILLER|VARIATION SELECTOR|JOINER|PATTERN BLANK|VOWEL INHERENT|NULL NOTEHEAD")
_JOINED = re.compile(
    "(?<=[{0}])(\ufe0f?[\u200c\u200d](?=[{0}])|\ufe0f)".format("^\0-\x7f\u200b-\u200f\ufe00-\ufe0f")
)

REDACTED = "[redacted]"
SECRET_ENDS = ("key", "token", "secret", "password", "authorization")
"""How names of fields and variables end that hold a secret."""
SHORTEST_SECRET = 8
"""Placeholders such as "none" or "EMPTY" are not secrets, and redacting them would spoil texts."""
_WINDOW = 8
"""So many consecutive characters of a secret are redacted: messages quote parts of a text."""


def one_line(text: str, limit: int | None = None) -> str:
    """Returns `text` with single spaces for all white space, cut to `limit` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def as_sentence(text: str) -> str:
    """Returns `text` with a full stop at its end, unless it ends as a sentence does.

    Example:
        >>> [as_sentence(text) for text in ("No", "No.", "Why?", "")]
        ['No.', 'No.', 'Why?', '']
    """
    text = text.rstrip()
    is_ended = not text or text.endswith((".", "!", "?", "…"))
    return text if is_ended else f"{text}."


def decomposition(*, coe: float, aleatoric: float, epistemic: float) -> str:
    """Returns CoE as the sum of its parts, with the unit.

    Example:
        >>> decomposition(coe=0.75, aleatoric=0.5, epistemic=0.25)
        '0.750 = aleatoric 0.500 + epistemic 0.250 nats'
    """
    return f"{coe:.3f} = aleatoric {aleatoric:.3f} + epistemic {epistemic:.3f} nats"


def quantity(n: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun, in the plural unless the number is 1.

    Args:
        n: The number.
        noun: What is counted, for one; with the verb where a verb follows.
        plural: The same for several; by default `noun` with an "s".

    Example:
        >>> quantity(1, "question"), quantity(0, "question")
        ('1 question', '0 questions')
        >>> quantity(1, "case waits", "cases wait"), quantity(2, "case waits", "cases wait")
        ('1 case waits', '2 cases wait')
    """
    return f"{n} {noun if n == 1 else plural or f'{noun}s'}"


def for_terminal(text: str, limit: int | None = None) -> str:
    r"""Returns `text` on one line, cut to `limit` characters, with U+FFFD for all that could steer a terminal.

    Example:
        >>> for_terminal("Par\x1b[2Jis\nis  large", 12)
        'Par�[2Jis i…'
    """
    return printable(one_line(text, limit))


def for_screen(text: str) -> str:
    """Returns `text` as `for_terminal` does, without the secrets of the environment."""
    return for_terminal(redact(text, secrets_of_environment()))


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
    # escapes are longer than what they stand for
    return line if len(line) <= limit else one_line(line, limit)


_MOST_QUOTED_IN_REASON = 80


def quotation(text: str) -> str:
    """Returns what a model said as a reason quotes it: short, on one line, in double quotes, and without such inside.

    Example:
        >>> print(quotation('It says "Paris".'))
        "It says 'Paris'"
    """
    # a link or an image of Markdown needs "](" on one line: chat interfaces would fetch an image at once
    line = for_prompt(text.replace('"', "'"), limit=_MOST_QUOTED_IN_REASON).replace("](", "] (")
    return f'"{line.rstrip(" .") or line}"'


def for_log(text: str, *, limit: int = MAX_QUOTED) -> str:
    """Returns `text` as `for_prompt` does, with escapes for uncommon white space, too: its reader sees all of it."""
    return for_prompt(visible(text), limit=limit)


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


_KEY_SHAPED = re.compile(
    r"\b(?:(?:sk|rk|gsk|xai)-[\w*-]{8,}|hf_\w{16,}|AIza[\w-]{20,}|(?<=Bearer )\S{8,})"
)


def redact(text: str, secrets: Collection[str]) -> str:
    """Returns `text` with each secret redacted, also where it is escaped, encoded, or cut.

    Redacted is whatever shares eight consecutive characters with a secret, or with a form of it: as JSON, Python, HTML,
    CSV, LaTeX, an address and base64 write it.

    Example:
        >>> redact("Incorrect API key: sk-0123456789.", {"sk-0123456789"})
        'Incorrect API key: [redacted].'
        >>> redact("got 'sk-01234567...", {"sk-0123456789"})
        "got '[redacted]..."
    """
    windows = frozenset[str]().union(*map(_windows, secrets))
    if not windows:
        return text
    parts = list[str]()
    end = 0  # of what was redacted so far
    for start in range(len(text) - _WINDOW + 1):
        if text[start : start + _WINDOW] not in windows:
            continue
        if start > end or end == 0:  # it does not touch the part before it
            parts += [text[end:start], REDACTED]
        end = start + _WINDOW
    return "".join([*parts, text[end:]])


def redact_all(value: Any, secrets: Collection[str]) -> Any:
    """Returns a value of JSON with `redact` applied to each text in it, names of fields included."""
    return _change_texts(value, lambda text: redact(text, secrets))


def visible_all(value: Any) -> Any:
    """Returns a value of JSON with `visible` applied to each text in it, names of fields included."""
    return _change_texts(value, visible)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(name)): _change_texts(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_change_texts(item, change) for item in value]
    return value


@lru_cache(maxsize=256)
def _windows(secret: str) -> frozenset[str]:
    """Returns every run of `_WINDOW` characters of a secret and of its forms; none of a placeholder."""
    if len(secret) < SHORTEST_SECRET:
        return frozenset()
    forms = {
        secret,
        secret.upper(),
        secret.lower(),
        html.escape(secret),
        quote(secret),
        quote_plus(secret),
    }
    forms |= {
        quote(secret, safe=""),
        secret.replace('"', '""'),
        re.sub(r"([\\{}$&#%_])", r"\\\1", secret),
    }
    escaped = {repr(secret)[1:-1], ascii(secret)[1:-1], json.dumps(secret)[1:-1]}
    escaped.add(json.dumps(secret, ensure_ascii=False)[1:-1])
    escaped |= {re.sub(r"(?<!\\)(['\"])", r"\\\1", form) for form in escaped}
    forms |= (
        escaped
        | {json.dumps(form)[1:-1] for form in escaped}
        | {repr(form)[1:-1] for form in escaped}
    )
    plain = secret.encode("utf-8", errors="surrogatepass")
    # four letters of base64 encode three bytes, at any of which the secret may begin
    for n_before in range(3):
        code = base64.b64encode(b"\x00" * n_before + plain).decode().rstrip("=")
        code = code[2 if n_before else 0 : -1]  # the ends depend on what stands beside it
        forms |= {code, code.translate(str.maketrans("+/", "-_"))}
    forms.add(plain.hex())
    return frozenset(
        form[at : at + _WINDOW] for form in forms for at in range(max(0, len(form) - _WINDOW + 1))
    )


def safe_message(text: str, secrets: Collection[str]) -> str:
    """Returns the text of an error with `secrets` redacted, on one line, and all of it visible.

    What has the form of a provider's key is redacted, too: a server between may quote one that is not ours.

    Example:
        >>> safe_message("Incorrect API key: sk-proj-0123456789abcdef.", set())
        'Incorrect API key: [redacted].'
    """
    return visible(one_line(_KEY_SHAPED.sub(REDACTED, redact(text, secrets))))


def secrets_of_environment() -> set[str]:
    """Returns the values of the environment variables whose names say that they are secrets, such as OPENAI_API_KEY."""
    return {
        value.strip()
        for name, value in os.environ.items()
        if name.lower().endswith(SECRET_ENDS) and len(value.strip()) >= SHORTEST_SECRET
    }
