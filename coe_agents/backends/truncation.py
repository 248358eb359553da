"""Owns the cutting of drawn tokens to a response: where it ends, its text, and how a token is shown."""

from collections.abc import Sequence
from typing import Any

from coe_agents.backends.sampling import DrawnToken


class CutRow:
    """One sampled response: its text, its tokens up to and including the one that ended it, and why it ended."""

    def __init__(self, text: str, tokens: Sequence[DrawnToken], finish_reason: str) -> None:
        self.text, self.tokens, self.finish_reason = text, tokens, finish_reason

    @classmethod
    def cut(cls, tokenizer: Any, drawn: Sequence[DrawnToken], ends: Sequence[int], stop: Sequence[str]) -> "CutRow":
        """Cuts the drawn tokens at the first token of `ends` or string of `stop`."""
        end = next((place for place, token in enumerate(drawn) if token.id in ends), None)
        tokens = drawn if end is None else drawn[: end + 1]
        text = tokenizer.decode([token.id for token in tokens], skip_special_tokens=True)
        if not any(string in text for string in stop):
            return cls(text, tokens, "length" if end is None else "stop")
        # the row may have continued beside longer ones: keep the fewest tokens that hold a stop string
        kept = next(
            count
            for count in range(1, len(tokens) + 1)
            if any(s in tokenizer.decode([t.id for t in tokens[:count]], skip_special_tokens=True) for s in stop)
        )
        first = min(text.index(string) for string in stop if string in text)
        return cls(text[:first], tokens[:kept], "stop")


def to_openai_token(token: str, logprob: float) -> dict[str, Any]:
    """Returns a token as `ChatOpenAI` shows it."""
    # part of a character decodes to a replacement; its bytes are not known here
    return {"token": token, "bytes": None if "\ufffd" in token else list(token.encode()), "logprob": logprob}
