"""Owns a reply that is read while it is drawn: in pieces of its text, and what is known at its end alone."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from coe_agents._steps import Steps, Wait
from coe_agents.types import JsonObject


def certain_prefix(text: str, later: Sequence[str]) -> str:
    """Returns how a text surely begins while it is drawn.

    Left out are white space at its end, the bytes of a character that is not whole, and what may be the beginning of
    one of `later`: a string that would not be shown.

    Example:
        >>> certain_prefix("To call: <tool", ["<tool_call>"])
        'To call:'
    """
    for string in later:
        for length in range(len(string) - 1, 0, -1):
            if text.endswith(string[:length]):
                text = text[:-length]
                break
    return text.rstrip("\ufffd").rstrip()


class StreamedReply:
    """One reply that is drawn in a thread, which calls `show`, and read in another, by the steps of `next_chunk`.

    Args:
        timeout: Seconds for the whole reply, from the first step; None for no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._end: float | None = None
        self._text = ""
        self._logprobs: list[JsonObject] = []
        self._n_read = 0
        """Characters of the text."""
        self._n_logprobs_read = 0
        self._is_whole = False
        self._news = _pending()

    def show(self, text: str, logprobs: Sequence[JsonObject]) -> None:
        """Takes how the reply begins, and the log-probabilities of the tokens that are not here yet."""
        self._logprobs += logprobs
        # a batch that begins again, since memory was too small, draws the same text
        if text.startswith(self._text):
            self._text = text
            self.tell()

    @property
    def n_shown(self) -> int:
        """The number of tokens whose log-probabilities are here."""
        return len(self._logprobs)

    def tell(self, _: object = None) -> None:
        """Wakes who reads."""
        news = self._news
        self._news = _pending()
        news.set_result(None)

    def next_chunk(self, future: Future[ChatResult]) -> Steps[ChatGenerationChunk | None]:
        """Returns the next piece of the reply; the last one is made of the result, and None follows it.

        Raises:
            TimeoutError: If time is up.
        """
        if self._timeout is not None and self._end is None:
            self._end = time.monotonic() + self._timeout
        while not self._is_whole:
            # before anything else is looked at, so that no news is missed
            news = self._news
            is_drawn = future.done()
            if len(self._text) > self._n_read:
                return self._piece()
            if is_drawn:
                self._is_whole = True
                return self._last_piece(future.result().generations[0])
            seconds = None
            if self._end is not None:
                seconds = max(0.0, self._end - time.monotonic())
            yield Wait(news, seconds)
        return None

    def _piece(self) -> ChatGenerationChunk:
        text = self._text
        info = JsonObject()
        if logprobs := self._logprobs[self._n_logprobs_read :]:
            info["logprobs"] = {"content": logprobs}
            self._n_logprobs_read += len(logprobs)
        message = AIMessageChunk(content=text[self._n_read :])
        self._n_read = len(text)
        return ChatGenerationChunk(message=message, generation_info=info)

    def _last_piece(self, generation: ChatGeneration) -> ChatGenerationChunk:
        reply = generation.message
        assert isinstance(reply, AIMessage)
        info = dict(generation.generation_info or {})
        if "logprobs" in info:
            info["logprobs"] = {"content": info["logprobs"]["content"][self._n_logprobs_read :]}
        calls = list[ToolCallChunk]()
        for call in (*reply.tool_calls, *reply.invalid_tool_calls):
            arguments = call["args"]
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False)
            calls.append(
                tool_call_chunk(name=call["name"], args=arguments, id=call["id"], index=len(calls))
            )
        message = AIMessageChunk(
            content=reply.text[self._n_read :],
            tool_call_chunks=calls,
            usage_metadata=reply.usage_metadata,
            response_metadata=reply.response_metadata,
            chunk_position="last",
        )
        return ChatGenerationChunk(message=message, generation_info=info)


def _pending() -> Future[None]:
    """Returns a future that who waits for it cannot cancel."""
    future = Future[None]()
    future.set_running_or_notify_cancel()
    return future
