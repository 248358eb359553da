"""Owns the text of a response that is being drawn: which part of it can no longer change."""

from collections.abc import Callable, Sequence

from coe_agents.backends.generation import CutRow, DrawnToken
from coe_agents.backends.loading import Loaded
from coe_agents.backends.reply_forms import ReplyForm, TextForm


class GrowingText:
    r"""The text of one response, handed out in pieces whose concatenation is the finished text.

    Held back are characters that later tokens may change: part of a multi-byte character, white space at the end, what
    may be the beginning of a stop string, and the last word where the tokenizer cleans up spaces. Tool calls are not
    in the text.

    Args:
        loaded: The model.
        stop: Strings that end the response and are no part of it.
        form: Returns how the response is written.
    """

    def __init__(self, loaded: Loaded, stop: Sequence[str], form: Callable[[], ReplyForm] = TextForm) -> None:
        self._loaded, self._stop, self._form = loaded, stop, form
        self._given = ""

    def advance(self, tokens: Sequence[DrawnToken]) -> str:
        """Returns what the tokens so far add for certain; "" where they add nothing yet."""
        form = self._form()
        row = CutRow.cut(self._loaded.tokenizer, tokens, self._loaded.end_tokens, self._stop, form.hidden)
        text = row.text if row.finish_reason == "stop" else self._certain_part(row.text)
        return self.finish(form.content_so_far(text))

    def finish(self, text: str) -> str:
        """Returns what is left of the finished text."""
        piece = text.removeprefix(self._given) if text.startswith(self._given) else ""
        self._given += piece
        return piece

    def _certain_part(self, text: str) -> str:
        text = text.rstrip("\ufffd")
        if getattr(self._loaded.tokenizer, "clean_up_tokenization_spaces", False):
            text = text[: text.rfind(" ") + 1]
        text = text.rstrip()
        starts = {string[:length] for string in self._stop for length in range(1, len(string))}
        return text[: len(text) - max((len(start) for start in starts if text.endswith(start)), default=0)]
