"""Owns how a choice is read from a model's output: from the likeliest first tokens, or from a reply's text."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.outputs import Generation

from coe_agents.agents._requests.parse import tokens_of
from coe_agents.clustering.answers import strip_reasoning

_MASKED = 1e-30
"""A masked token has a log-probability of -100 or less, as servers write minus infinity."""

MAX_DOUBT = 0.01
"""How much a list of first tokens may leave open, as a share of what it gives to the choices."""

_PIECE_SPACES = " \t\r\n\N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"
"""White space, and the two characters that raw pieces of SentencePiece and of byte-level BPE write for a space."""

_LEAD = re.compile(r"\A[\W_]*(?:(?:the|my|final|correct)\s+)*(?:answer|label|reply|response)\s*(?:is\b\s*:?|:)", re.I)
_ENDS = r"(?=\Z|\s*\n|\s*[^\w\s'’?:=-])"


@dataclass(frozen=True)
class FirstToken:
    """What a list of the likeliest first tokens says about the choices.

    Attributes:
        seen: The probability of each choice that a listed token begins; some choices may be missing.
        ambiguous: The probability of tokens that begin more than one choice.
        unlisted: The most that a token outside the list can have.
        others: The probability of the listed tokens that begin no choice.
    """

    seen: Mapping[str, float]
    ambiguous: float
    unlisted: float
    others: float = 0.0

    @property
    def mass(self) -> float:
        """The probability of all seen choices together, in [0, 1]."""
        return min(math.fsum(self.seen.values()), 1.0)

    def is_settled(self, choices: Sequence[str]) -> bool:
        """Returns whether what the list leaves open is at most `MAX_DOUBT` of what it gives to the choices."""
        doubt = self.ambiguous + self.unlisted * (len(choices) - len(self.seen))
        return self.mass > 0 and doubt <= MAX_DOUBT * self.mass

    def is_held(self, choices: Sequence[str]) -> bool:
        """Returns whether the reply was held to the choices: all are listed, and no other token has any probability.

        A mask leaves nothing to other tokens; a server that ignores it leaves them little, where the model is sure.
        """
        return self.is_settled(choices) and set(self.seen) == set(choices) and self.others <= _MASKED

    def probabilities(self, choices: Sequence[str]) -> dict[str, float]:
        """Returns probabilities that sum to 1; a choice that was not seen gets the most that it can have."""
        given = {choice: self.seen.get(choice, self.unlisted) for choice in choices}
        total = math.fsum(given.values())
        return {choice: value / total for choice, value in given.items()}


def read_first_token(generation: Generation, choices: Sequence[str]) -> FirstToken | None:
    """Reads the list of the likeliest first tokens in the shape that `ChatOpenAI` gives it.

    A token counts for the one choice that it begins or that it begins with, after white space is taken off its ends;
    case counts first, and where no choice fits so, it does not.

    Returns:
        None where there is no list, or one of its log-probabilities is missing or NaN.

    Example:
        >>> listed = [{"token": " True", "logprob": -0.1}, {"token": "false", "logprob": -2.5}]
        >>> info = {"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}
        >>> found = read_first_token(Generation(text=" True", generation_info=info), ("True", "False"))
        >>> {choice: round(p, 3) for choice, p in found.seen.items()}
        {'True': 0.905, 'False': 0.082}
    """
    content = tokens_of(generation)
    if not content or not content[0].get("top_logprobs"):
        return None
    top = [_read_entry(entry) for entry in content[0]["top_logprobs"]]
    drawn = _read_entry(content[0])
    # servers add the drawn token to the list if it is not among the likeliest
    listed = top if drawn[0] in dict(top) else [*top, drawn]
    if any(math.isnan(probability) for _, probability in listed):
        return None
    seen: dict[str, float] = {}
    ambiguous = total = others = 0.0
    for token, probability in listed:
        total += probability
        begun = _find_begun(token, choices)
        if len(begun) == 1:
            seen[begun[0]] = seen.get(begun[0], 0.0) + probability
        elif begun:
            ambiguous += probability
        else:
            others += probability
    least = min(probability for _, probability in top)
    return FirstToken(seen, ambiguous, min(least, max(0.0, 1.0 - total)), others)


def read_choice(text: str, choices: Sequence[str]) -> str | None:
    """Returns the choice that a reply states, or None where it states none or is not clear.

    The reply must open with the choice, or with "The answer is" and the choice; a word right behind it, or another of
    the choices anywhere, makes it unclear. Case, quotation marks, emphasis and `<think>` blocks do not matter.

    Example:
        >>> choices = ("True", "False")
        >>> [read_choice(text, choices) for text in ("**true**.", "Answer: False, since ...", "True or False?")]
        ['True', 'False', None]
        >>> read_choice("That is not true.", choices), read_choice("True believers say so", choices)
        (None, None)
    """
    reply = strip_reasoning(text)
    named = [choice for choice in choices if re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", reply, re.I)]
    if len(named) != 1:
        return None
    opened = re.match(rf"[\W_]*{re.escape(named[0])}{_ENDS}", _LEAD.sub("", reply), re.I)
    return named[0] if opened else None


def _read_entry(entry: Mapping[str, Any]) -> tuple[str, float]:
    """Returns a token and its probability; NaN where the log-probability is missing or not a number."""
    logprob = entry.get("logprob")
    return str(entry.get("token") or ""), math.exp(min(logprob, 0.0)) if isinstance(logprob, int | float) else math.nan


def _find_begun(token: str, choices: Sequence[str]) -> list[str]:
    piece = token.strip(_PIECE_SPACES)
    if not piece:
        return []
    exactly = [choice for choice in choices if _begins(piece, choice)]
    return exactly or [choice for choice in choices if _begins(piece.casefold(), choice.casefold())]


def _begins(piece: str, choice: str) -> bool:
    return choice.startswith(piece) or (piece.startswith(choice) and not piece[len(choice)].isalnum())
