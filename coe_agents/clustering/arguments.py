"""Owns the checks of what callers hand to a clusterer."""

from collections.abc import Iterable, Sequence


def checked_batch(responses: Sequence[Sequence[str]], questions: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Returns the responses of each question and the questions as lists.

    Raises:
        TypeError: A string is passed for a sequence of strings, or something else for a string.
        ValueError: Where there are not as many questions as lists of responses.
    """
    if isinstance(responses, str | bytes) or not isinstance(responses, Iterable):
        raise TypeError(
            f'"responses" must be a sequence of sequences of strings; got {type(responses).__name__}. '
            'For a single question, call "cluster_responses"'
        )
    batch = [checked_strings(texts, name=f'"responses[{i}]"') for i, texts in enumerate(responses)]
    asked = checked_strings(questions, name='"questions"')
    if len(batch) != len(asked):
        raise ValueError(
            f'"responses" and "questions" must be equally long; got {len(batch)} and {len(asked)}. '
            'Pass one list of responses per question, and "" for a question that has no text'
        )
    return batch, asked


def checked_strings(texts: Sequence[str], *, name: str) -> list[str]:
    """Returns `texts` as a list.

    Raises:
        TypeError: Where `texts` is itself a string, cannot be iterated, or holds something other than strings.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise TypeError(
            f"{name} must be a sequence of strings; got {type(texts).__name__}. Wrap a single string in a list"
        )
    listed = list(texts)
    for i, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(
                f"{name} must hold strings only; item {i} is {type(text).__name__}. "
                'Convert it, and omit failed responses or pass "" for them'
            )
    return listed
