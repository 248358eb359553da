"""Owns the defence against control tokens in texts: a text is never read as a chat template's own marks."""

from typing import Any

_WORD_JOINER = "\u2060"


def defuse(value: Any, tokenizer: Any, template: str) -> Any:
    """Returns a message's field with `without_control_tokens` applied to every text in it."""
    if isinstance(value, str):
        return without_control_tokens(value, tokenizer, template)
    if isinstance(value, dict):
        return {key: defuse(item, tokenizer, template) for key, item in value.items()}
    return [defuse(item, tokenizer, template) for item in value] if isinstance(value, list) else value


def without_control_tokens(text: str, tokenizer: Any, template: str = "") -> str:
    """Returns `text` so that no special token of the tokenizer or control token of the template is read in it.

    A word joiner, which is invisible, is put after the first character of each such string.
    """
    controls = [
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if len(token.content) > 1 and (token.special or token.content in template)
    ]
    while found := [control for control in controls if control in text]:
        for control in found:
            text = text.replace(control, control[0] + _WORD_JOINER + control[1:])
    return text
