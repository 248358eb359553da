"""Owns the step from a text to its claims: sentences, or the atomic claims that a chat model finds in them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from coe_agents import prompts
from coe_agents._removed import refuses_removed
from coe_agents.agents.requests.chat_models import check_model, load_model
from coe_agents.checks import integer
from coe_agents.clustering.protocols import check_strings
from coe_agents.clustering.sentence_ends import sentence_ends
from coe_agents.errors import CoEError, InvalidReplyError, describe_error, is_control_flow
from coe_agents.text import one_line
from coe_agents.types import JsonObject

_KEPT = 4096
"""Texts whose claims are kept: a draft is split once, however often it is evidence."""
_LONGEST = 1000
"""The most characters of a claim that a model states."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a text.

    Attributes:
        text: The claim.
        start: Where the sentence begins that makes it, in characters of the text.
        end: Where it ends; `text[start:end]` is the claim itself where claims are sentences.
    """

    text: str
    start: int
    end: int


class Splitter(Protocol):
    """Anything that finds the claims of texts."""

    def split(self, texts: Sequence[str]) -> Sequence[tuple[Claim, ...] | CoEError]:
        """Returns the claims of each text in their order, or why it has no claims: an error ends that text alone."""
        ...


class Sentences:
    """A `Splitter` without a model: each sentence is a claim.

    It knows abbreviations, initials, units and lists; the rules are those of the library sentencex and of
    `coe_agents.clustering.sentence_ends`. Headings and the signs before list items are no claims.

    Args:
        language: The code of the texts' language, as in "de"; sentencex has rules for 244.

    Example:
        >>> [claim.text for claim in Sentences().split(["Dr. Smith was born in 1950. He lives in the U.S."])[0]]
        ['Dr. Smith was born in 1950.', 'He lives in the U.S.']
    """

    @refuses_removed
    def __init__(self, language: str = "en") -> None:
        self.language = language

    def split(self, texts: Sequence[str]) -> list[tuple[Claim, ...] | CoEError]:
        """Returns the sentences of each text; see `Splitter`."""
        return [sentences(text, self.language) for text in check_strings(texts, name='"texts"')]


@lru_cache(maxsize=_KEPT)
def sentences(text: str, language: str = "en") -> tuple[Claim, ...]:
    """Returns the sentences of a text, as they stand there, without what is around them."""
    claims = list[Claim]()
    start = 0
    is_line = True  # whether nothing of the line was read
    for end in sentence_ends(text, language):
        for line in text[start:end].splitlines(keepends=True):
            length_of_marker = 0
            if is_line and (marker := _MARKER.match(line)):
                length_of_marker = marker.end()
            begin = start + length_of_marker
            sentence = line[length_of_marker:].strip()
            is_heading = line.lstrip().startswith("#")
            if not is_heading and any(character.isalnum() for character in sentence):
                begin = text.index(sentence, begin)
                claims.append(Claim(sentence, begin, begin + len(sentence)))

            start += len(line)
            ends_line = line != line.rstrip("\r\n")
            is_blank = not line.strip()
            is_line = ends_line or (is_line and is_blank)
    return tuple(claims)


def is_marker(text: str) -> bool:
    """Returns whether all of a text are signs that begin a line: of a list item, or of a quotation."""
    return _MARKER.fullmatch(text) is not None


_MARKER = re.compile(r"[ \t]*(?:(?:[-*+•–—>]|\d{1,3}[.)])[ \t]+)*")
"""What begins a line and is no part of its claim; "-5" is a number, and "**" belongs to the words in it."""


class ChatClaims:
    """A `Splitter` that asks a chat model for the atomic claims of each text, several texts at a time.

    The model is shown the numbered sentences of `Sentences`, and states for each claim the sentence that makes it: as
    a structured output, which the model must support (`with_structured_output`). A reply that is no such list, names a
    sentence that does not exist, or leaves all sentences out is an error of that text alone. The claims of a text are
    asked for once and kept.

    Args:
        model: A chat model, or "provider:model"; asked at its own temperature.
        max_concurrency: How many texts are asked about at a time.

    Raises:
        TypeError: If `model` is neither a chat model nor a string.
    """

    @refuses_removed
    def __init__(self, model: BaseChatModel | str, *, max_concurrency: int = 8) -> None:
        integer(
            max_concurrency, '"max_concurrency" of ChatClaims', least=1, advice="1 asks one by one"
        )
        check_model(model)
        self.model = load_model(model) if isinstance(model, str) else model
        self.max_concurrency = max_concurrency
        self._known: dict[str, tuple[Claim, ...]] = {}

    def split(self, texts: Sequence[str]) -> list[tuple[Claim, ...] | CoEError]:
        """Returns the claims of each text, each with the place of its sentence; see `Splitter`."""
        texts = check_strings(texts, name='"texts"')
        claims_of = dict[str, tuple[Claim, ...] | CoEError]()
        unknown = list[str]()
        prompts_of_unknown = list[Any]()
        for text in dict.fromkeys(texts):
            claims = self._known.get(text)
            parts = sentences(text)
            if claims is not None or not parts:
                claims_of[text] = claims or ()
                continue
            unknown.append(text)
            numbered = [part.text for part in parts]
            prompt = prompts.claims(numbered)
            prompts_of_unknown.append([HumanMessage(prompt)])

        if unknown:
            model = self.model.with_structured_output(_FORM)
            options: Any = {"max_concurrency": self.max_concurrency}
            replies = model.batch(prompts_of_unknown, options, return_exceptions=True)
            for text, reply in zip(unknown, replies, strict=True):
                claims_of[text] = self._read(text, reply)
        self._keep(claims_of)
        return [claims_of[text] for text in texts]

    def _keep(self, claims_of: Mapping[str, tuple[Claim, ...] | CoEError]) -> None:
        for text, claims in claims_of.items():
            if isinstance(claims, tuple):
                self._known[text] = claims
        n_too_many = max(0, len(self._known) - _KEPT)
        oldest = list(self._known)[:n_too_many]
        for text in oldest:
            del self._known[text]

    def _read(self, text: str, reply: object) -> tuple[Claim, ...] | CoEError:
        if isinstance(reply, BaseException):
            if not isinstance(reply, Exception) or is_control_flow(reply):
                raise reply
            error = describe_error(reply, self.model)
            return InvalidReplyError(f"the claims of a text could not be asked for: {error}")
        stated = reply.get("claims") if isinstance(reply, dict) else None
        if not isinstance(stated, list) or not stated:
            return _invalid("a list of claims", reply)

        parts = sentences(text)
        claims = list[Claim]()
        for item in stated:
            fields = item if isinstance(item, dict) else {}
            claim = fields.get("text")
            if not isinstance(claim, str) or not claim.strip() or len(claim) > _LONGEST:
                return _invalid(f'a "text" of at most {_LONGEST} characters in each claim', item)
            number = fields.get("sentence")
            if type(number) is not int or not 1 <= number <= len(parts):
                return _invalid(f'a "sentence" from 1 to {len(parts)} in each claim', item)
            part = parts[number - 1]
            claims.append(Claim(one_line(claim), part.start, part.end))
        return tuple(sorted(claims, key=lambda claim: claim.start))


def _invalid(wanted: str, got: object) -> InvalidReplyError:
    return InvalidReplyError(
        f"the model that finds claims must return {wanted}; got {one_line(repr(got), 120)}"
    )


_FORM: JsonObject = {
    "title": "claims",
    "description": "The claims of a text.",
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "sentence": {
                        "type": "integer",
                        "description": "The number of the sentence that makes the claim.",
                    },
                    "text": {
                        "type": "string",
                        "description": "The claim, which can be understood by itself.",
                    },
                },
                "required": ["sentence", "text"],
            },
        }
    },
    "required": ["claims"],
}
