"""Owns the recognition of refusals and empty responses, which are not answers; it prefers precision to recall.

A response is a refusal only where *every* sentence of it refuses, apologises or points elsewhere, and one at least
refuses. "I don't know exactly, but it is Paris" holds a clause that does neither, so it is an answer.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.refusal_patterns import (
    FILLERS,
    HEDGED_ANSWER,
    MAY_DECLINE,
    OPENINGS,
    REFUSALS,
    STOCK_PHRASES,
    pattern_of,
)
from coe_agents.clustering.sentence_ends import sentence_ends
from coe_agents.text import is_visible
from coe_agents.types import AnswerKind, Response, end_of


def answer_kind(text: str) -> AnswerKind:
    """Returns whether a response answers, refuses to, or is empty.

    Args:
        text: A whole response or its canonical answer.

    Returns:
        "empty" where nothing visible is left without the reasoning; "refusal" where all of it declines, in English or
        by a stock phrase of some other languages; else "answer". A claim that nobody knows ("It is unknown who wrote
        it") or that the question is mistaken is an answer.

    Example:
        >>> answer_kind("I'm sorry, but I can't help with that."), answer_kind("I don't know exactly, but it is Paris.")
        ('refusal', 'answer')
        >>> answer_kind("<think>Which city?</think>")
        'empty'
    """
    return _short_kind(text) if len(text) <= _SHORT else _kind(text)


def response_text(response: Response) -> str:
    """Returns the part of a response that is compared: its short answer if known, else its text.

    A filtered response says nothing, unless it is a refusal; what it proposes to call is compared.
    """
    text = response["text"] if response["answer"] is None else response["answer"]
    return text if response.get("calls") is not None else answerable_text(response, text)


def answerable_text(response: Response, text: str) -> str:
    """Returns the text of a response; "" where it was filtered, so that nobody answers with it."""
    return "" if end_of(response) == "filtered" and answer_kind(text) == "answer" else text


def _kind(text: str) -> AnswerKind:
    answer = canonical_answer(text)
    if _HOLDS_NOTHING.fullmatch(answer):
        return "empty"
    if not any(is_visible(character) for character in answer if not character.isspace()):
        return "empty"
    return "refusal" if _refuses(answer) else "answer"


_short_kind = lru_cache(maxsize=512)(_kind)
"""The same of short texts: one question asks it of each answer several times, to cluster, decide and explain."""
_SHORT = 200


_HOLDS_NOTHING = re.compile(
    r'<(\w+)>\s*</\1>|\{\s*"\w+"\s*:\s*(?:"\s*"|null)\s*\}|\\boxed\{\s*\}|(?:final )?answer:',
    re.IGNORECASE,
)
"""A form of an answer without the answer."""
_CLAUSE_BREAK = re.compile(
    r"\n"
    r"|,? \b(?:but|however|though|although|yet|nevertheless)\b,?"
    r"|,? (?:and|so)(?= (?:therefore|i (?:do not|don't|can ?not|can't|am (?:un|not)|have no)|i'm (?:un|not)))",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(?:[-*•]|\d{1,2}[.)])\s")
# A refusal is short. A longer response is treated as an answer without further checks.
_MAX_CHARACTERS = 4_000


def _refuses(answer: str) -> bool:
    if len(answer) > _MAX_CHARACTERS:
        return False
    plain = (
        answer.replace("’", "'")
        .replace("‘", "'")
        .replace("ʼ", "'")
        .replace("\N{NO-BREAK SPACE}", " ")
    )
    tidy = _tidy(plain)
    if tidy in STOCK_PHRASES:
        return True
    may_decline = not tidy.isascii() or MAY_DECLINE.search(tidy) is not None
    if not may_decline or _is_title(plain):
        return False

    # one clause refuses, and all others say nothing
    refused = False
    for clause in _clauses(plain):
        if _is_refusal(clause):
            refused = True
        elif not pattern_of(FILLERS).fullmatch(clause):
            return False
    return refused


def _is_refusal(clause: str) -> bool:
    if clause in STOCK_PHRASES:
        return True
    head, _, reason = clause.partition(", ")
    if head in STOCK_PHRASES:
        is_reason = re.match(r"(?:as|because|since|due to|sorry)\b", reason) is not None
        return is_reason and not pattern_of(HEDGED_ANSWER).search(reason)
    if not pattern_of(REFUSALS).fullmatch(clause):
        return False
    return not pattern_of(HEDGED_ANSWER).search(clause)


def _clauses(text: str) -> Iterator[str]:
    """Yields the clauses in lower case, without openings like "Unfortunately," and without the items of a referral."""
    referring = False
    start = 0
    breaks = [match.span() for match in _CLAUSE_BREAK.finditer(text)]
    breaks += [(end, end) for end in sentence_ends(text)]
    for end, next_start in sorted(breaks):
        raw = text[start:end].strip()
        start = max(start, next_start)
        clause = _tidy(raw)
        if raw.endswith(":") and pattern_of(FILLERS).fullmatch(clause):
            referring = True
        if referring and _ITEM.match(raw):
            continue
        while prefix := pattern_of(OPENINGS, "(?:,| -|:)? ").match(clause):
            clause = clause[prefix.end() :].strip(" ,")
        if any(character.isalnum() for character in clause):
            yield clause


def _tidy(text: str) -> str:
    return " ".join(text.replace("*", "").split()).lower().strip(" .!?,:;。！？…")


def _is_title(text: str) -> bool:
    """Tells a title ("I Don't Know How to Love Him") by its capitals from a sentence."""
    words = text.strip(" .!").split()
    if not 3 < len(words) <= 10 or text.isupper():
        return False
    # short words and the first one tell nothing
    long_words = [word for word in words[1:] if len(word) >= 4 and word[0].isalpha()]
    return len(long_words) >= 2 and all(word[0].isupper() for word in long_words)
