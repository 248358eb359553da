import asyncio
import threading
import time

import pytest
from langchain_core.messages import HumanMessage

from coe_agents.agents import ModelAgent
from coe_agents.backends import ChatTransformers
from coe_agents.backends.streaming import certain_prefix
from coe_agents.errors import AgentTimeoutError, ContextOverflowError
from coe_agents.types import AgentRequest
from tests.backends.hermes import FOLDER
from tests.backends.test_bind_tools import joined
from tests.waiting import until

ASKED = [HumanMessage("What is the capital of Australia?")]


@pytest.fixture
def chat():
    return ChatTransformers(FOLDER, max_tokens=24, seed=3)


def test_the_events_of_a_stream_have_its_text(chat):
    assert str(chat.stream_events(ASKED, version="v3").text) == chat.invoke(ASKED).content


def test_nothing_that_a_stop_string_cuts_off_is_streamed(chat):
    whole = chat.invoke(ASKED, stop=["ey"])
    assert joined(list(chat.stream(ASKED, stop=["ey"]))).content == whole.content == "Sydn"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It is <tool", "It is"),
        ("1 <", "1"),
        ("1 < 2", "1 < 2"),
        ("caf\ufffd", "caf"),
        ("<tool_call> </tool_call>", "<tool_call> </tool_call>"),
    ],
)
def test_what_may_become_something_else_is_held_back(text, shown):
    assert certain_prefix(text, ["<tool_call>"]) == shown


class Stepwise:
    """A model each of whose steps waits until it is allowed."""

    def __init__(self, chat, monkeypatch):
        self.n_steps = 0
        self.allowed = threading.Semaphore(0)
        model = chat.load().model
        forward = model.forward

        def step(*args, **options):
            assert self.allowed.acquire(timeout=60)
            self.n_steps += 1
            return forward(*args, **options)

        monkeypatch.setattr(model, "forward", step)


async def test_a_stream_gives_in_pieces_what_a_call_gives_at_once(chat, monkeypatch):
    steps = Stepwise(chat, monkeypatch)
    steps.allowed.release(100)
    whole = chat.invoke(ASKED)

    steps.allowed = threading.Semaphore(2)
    stream = chat.stream(ASKED)
    pieces = [next(stream)]
    steps.allowed.release(100)
    pieces += stream

    steps.allowed = threading.Semaphore(2)
    async_stream = chat.astream(ASKED)
    async_pieces = [await anext(async_stream)]
    steps.allowed.release(100)
    async_pieces += [piece async for piece in async_stream]

    for given in (pieces, async_pieces):
        # how many more there are depends on who is faster, who reads or who draws
        assert len([piece for piece in given if piece.content]) >= 2
        streamed = joined(given)
        assert streamed.content == whole.content
        assert streamed.usage_metadata == whole.usage_metadata
        for field in ("logprobs", "finish_reason", "model_name"):
            assert streamed.response_metadata[field] == whole.response_metadata[field]


def test_a_piece_is_there_before_the_next_is_drawn_and_who_stops_reading_stops_the_drawing(
    chat, monkeypatch
):
    steps = Stepwise(chat, monkeypatch)
    pieces = chat.stream(ASKED)
    steps.allowed.release(2)
    next(pieces)
    pieces.close()
    steps.allowed.release(100)
    n_threads = threading.active_count()
    chat.invoke(ASKED, max_tokens=1)  # behind what is left of the stream
    assert steps.n_steps <= 6  # of 24 tokens
    assert threading.active_count() <= n_threads


async def test_a_reader_that_is_cancelled_stops_the_drawing(chat, monkeypatch):
    steps = Stepwise(chat, monkeypatch)

    async def read():
        async for _ in chat.astream(ASKED):
            pass

    task = asyncio.create_task(read())
    steps.allowed.release(2)
    await until(lambda: steps.n_steps == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    steps.allowed.release(100)
    await chat.ainvoke(ASKED, max_tokens=1)
    assert steps.n_steps <= 6


def test_a_stream_ends_in_the_error_of_its_request(chat, monkeypatch):
    with pytest.raises(ContextOverflowError):
        list(chat.stream([HumanMessage("x " * 2000)]))
    with pytest.raises(ValueError, match='"n" must be 1 in a stream'):
        str(chat.stream_events(ASKED, version="v3", n=2).text)
    slow = ChatTransformers(FOLDER, timeout=0.05)
    slow.load()
    monkeypatch.setattr(slow.load().model, "forward", lambda *_, **__: time.sleep(0.2))
    with pytest.raises(AgentTimeoutError, match="gave no reply within"):
        list(slow.stream(ASKED))


def test_several_responses_are_given_whole(chat):
    assert chat.stream(ASKED, n=2) is not None
    assert len(list(chat.stream(ASKED, n=2))) <= 2  # the response, and its end


def test_a_call_may_say_whether_it_is_streamed(chat):
    """Agents say that they want no stream; an option that was refused would be a first request in vain."""
    agent = ModelAgent("local", chat, n_samples=2)
    asked = {"role": "user", "content": ASKED[0].content}
    reply = agent.sample(AgentRequest(question=asked["content"], messages=[asked], round=0))
    assert reply["sampling"]["refused"] == []
    whole, streamed = (chat.invoke(ASKED, seed=1, stream=stream) for stream in (False, True))
    assert whole.content == streamed.content
