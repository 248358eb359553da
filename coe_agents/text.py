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
    if limit is None or len(line) <= limit:
        return line
    return line[: limit - 1] + "…"


def first_line(text: str) -> str:
    """Returns the first line that is not blank; "" where all are."""
    return next((line for line in text.splitlines() if line.strip()), "")


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
    if n == 1:
        return f"{n} {noun}"
    return f"{n} {plural or f'{noun}s'}"


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
    return one_line(line, limit) if len(line) > limit else line


_MOST_QUOTED_IN_REASON = 80


def quotation(text: str) -> str:
    """Returns what a model said as a reason quotes it: short, on one line, in double quotes, and without such inside.

    Example:
        >>> print(quotation('It says "Paris".'))
        "It says 'Paris'"
    """
    line = for_prompt(text.replace('"', "'"), limit=_MOST_QUOTED_IN_REASON)
    # a link or an image of Markdown needs "](" on one line: chat interfaces would fetch an image at once
    line = line.replace("](", "] (")
    # a text of full stops alone keeps them
    quoted = line.rstrip(" .") or line
    return f'"{quoted}"'


def for_log(text: str, *, limit: int = MAX_QUOTED) -> str:
    """Returns `text` as `for_prompt` does, with escapes for uncommon white space, too: its reader sees all of it."""
    return for_prompt(visible(text), limit=limit)


def printable(text: str, *, keep: str = "") -> str:
    """Returns `text` with U+FFFD for each character that is not printable or does not show, but for those to keep.

    A joiner between two characters beyond ASCII stays, as in Persian words, and the selector behind an emoji.
    """
    if text.isascii() and text.isprintable():
        return text
    # every other piece is a joiner, or a selector, that stays
    pieces = _JOINED.split(text)
    for place in range(0, len(pieces), 2):
        shown = []
        for character in pieces[place]:
            shows = character.isprintable() and is_visible(character)
            shown.append(character if shows or character in keep else "\ufffd")
        pieces[place] = "".join(shown)
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
    if category not in ("Lo", "Mn", "So"):
        return True
    return not _UNSEEN.search(unicodedata.name(character, ""))


def _escape(character: str) -> str:
    """Returns a character as JSON escapes it: four hexadecimal digits for each unit of UTF-16."""
    digits = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{digits[start : start + 4]}" for start in range(0, len(digits), 4))


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
        touches_former = end > 0 and start <= end
        if not touches_former:
            parts += [text[end:start], REDACTED]
        end = start + _WINDOW
    parts.append(text[end:])
    return "".join(parts)


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
        quote(secret, safe=""),
        secret.replace('"', '""'),  # CSV
        re.sub(r"([\\{}$&#%_])", r"\\\1", secret),  # LaTeX
    }
    forms |= _escaped_forms(secret)
    forms |= _encoded_forms(secret)

    windows = set[str]()
    for form in forms:
        for start in range(len(form) - _WINDOW + 1):
            windows.add(form[start : start + _WINDOW])
    return frozenset(windows)


def _escaped_forms(secret: str) -> set[str]:
    """Returns a secret as Python and JSON write it, and as they write that in turn."""
    literals = {repr(secret), ascii(secret), json.dumps(secret)}
    literals.add(json.dumps(secret, ensure_ascii=False))
    once = {literal[1:-1] for literal in literals}
    # a literal in quotation marks of either kind escapes these
    once |= {re.sub(r"(?<!\\)(['\"])", r"\\\1", form) for form in once}

    forms = set(once)
    for form in once:
        forms.add(json.dumps(form)[1:-1])
        forms.add(repr(form)[1:-1])
    return forms


def _encoded_forms(secret: str) -> set[str]:
    """Returns a secret in hexadecimal digits and in base64, wherever in an encoded text it begins."""
    plain = secret.encode("utf-8", errors="surrogatepass")
    forms = {plain.hex()}
    # four letters of base64 encode three bytes, at any of which the secret may begin
    for n_before in range(3):
        code = base64.b64encode(b"\x00" * n_before + plain).decode().rstrip("=")
        # the ends depend on what stands beside it
        start = 2 if n_before else 0
        code = code[start:-1]
        forms.add(code)
        forms.add(code.translate(str.maketrans("+/", "-_")))
    return forms


def safe_message(text: str, secrets: Collection[str]) -> str:
    """Returns the text of an error with `secrets` redacted, on one line, and all of it visible.

    What has the form of a provider's key is redacted, too: a server between may quote one that is not ours.

    Example:
        >>> safe_message("Incorrect API key: sk-proj-0123456789abcdef.", set())
        'Incorrect API key: [redacted].'
    """
    redacted = _KEY_SHAPED.sub(REDACTED, redact(text, secrets))
    return visible(one_line(redacted))


def secrets_of_environment() -> set[str]:
    """Returns the values of the environment variables whose names say that they are secrets, such as OPENAI_API_KEY."""
    secrets = set[str]()
    for name, value in os.environ.items():
        secret = value.strip()
        if name.lower().endswith(SECRET_ENDS) and len(secret) >= SHORTEST_SECRET:
            secrets.add(secret)
    return secrets
