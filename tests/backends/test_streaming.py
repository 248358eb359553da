import asyncio
import threading

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from coe_agents.backends import ChatTransformers
from coe_agents.backends.generation import DrawnToken
from coe_agents.backends.streaming import GrowingText
from coe_agents.errors import AgentTimeoutError
from coe_agents.tinyworld import MODELS, model_folder

FOLDER = str(model_folder("tiny-llama"))
ASKED = [HumanMessage("What is the capital of France?")]


def joined(pieces):
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    return whole


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stop", [None, ["is"], ["x y z"]])
def test_the_pieces_are_what_invoke_returns(name, stop):
    chat = ChatTransformers(str(model_folder(name)), max_tokens=24, seed=7)
    pieces = list(chat.stream(ASKED, stop=stop))
    whole, (expected,) = joined(pieces), chat.generate([ASKED], stop=stop).generations[0]
    assert whole.content == expected.text
    assert whole.usage_metadata == expected.message.usage_metadata
    assert whole.response_metadata["logprobs"] == expected.generation_info["logprobs"]
    assert whole.response_metadata["finish_reason"] == expected.generation_info["finish_reason"]
    assert pieces[-1].chunk_position == "last"


def test_a_response_comes_in_several_pieces_none_empty_but_the_last():
    pieces = list(ChatTransformers(FOLDER, max_tokens=24, seed=7).stream(ASKED))
    assert len(pieces) > 3
    assert all(piece.content for piece in pieces[:-1])


async def test_an_async_stream_and_its_events_give_the_same():
    chat = ChatTransformers(FOLDER, max_tokens=24, seed=7)
    expected = chat.invoke(ASKED).content
    assert "".join([piece.content async for piece in chat.astream(ASKED)]) == expected
    events = [event async for event in chat.astream_events(ASKED) if event["event"] == "on_chat_model_stream"]
    assert "".join(event["data"]["chunk"].content for event in events) == expected
    assert len(events) > 3


@pytest.mark.parametrize("where", ["constructor", "call"])
async def test_several_responses_are_never_streamed(where):
    chat = ChatTransformers(FOLDER, max_tokens=24, seed=1, streaming=True, n=3 if where == "constructor" else 1)
    options = {} if where == "constructor" else {"n": 3}
    for call in (lambda: chat.stream(ASKED, **options), lambda: chat.stream_events(ASKED, version="v3", **options)):
        with pytest.raises(ValueError, match=r'"n" must be 1 in a stream; got 3\. Call `generate`'):
            list(call())
    with pytest.raises(ValueError, match=r'"n" must be 1 in a stream; got 3'):
        [piece async for piece in chat.astream(ASKED, **options)]
    texts = [g.text for g in chat.generate([ASKED], **options).generations[0]]
    assert len(texts) == 3
    assert [g.text for g in (await chat.agenerate([ASKED], **options)).generations[0]] == texts


class Listener(BaseCallbackHandler):
    def __init__(self):
        self.pieces = []

    def on_llm_new_token(self, token, **kwargs):
        self.pieces.append(token)


def test_streaming_tells_callbacks_of_each_piece_and_changes_no_response():
    streaming, plain = (ChatTransformers(FOLDER, max_tokens=24, seed=1, streaming=each) for each in (True, False))
    listener = Listener()
    assert streaming.invoke(ASKED, {"callbacks": [listener]}).content == plain.invoke(ASKED).content
    assert "".join(listener.pieces) == plain.invoke(ASKED).content
    listener.pieces.clear()
    plain.invoke(ASKED, {"callbacks": [listener]})
    assert listener.pieces == []


def test_a_graph_that_streams_messages_gets_the_pieces_of_one_response_and_none_of_several():
    chat = ChatTransformers(FOLDER, max_tokens=24, seed=1)

    def several(state):
        return {"messages": [g.message for g in chat.generate([state["messages"]], n=3).generations[0]]}

    def one(state):
        return {"messages": [chat.invoke(state["messages"])]}

    for node, n_pieces in ((one, 3), (several, 3)):
        graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()
        seen = list(graph.stream({"messages": ASKED}, stream_mode="messages"))
        assert len(seen) >= n_pieces
    # what is seen of several are the three whole messages
    assert all(message.content.count("capital") <= 1 for message, _ in seen)


def test_a_caller_who_leaves_a_stream_ends_its_drawing():
    chat = ChatTransformers(FOLDER, max_tokens=400, temperature=5.0, seed=1)
    stream = chat._stream(ASKED)
    next(stream)
    stream.close()
    assert chat.invoke(ASKED, max_tokens=1) is not None  # does not wait for 400 tokens; see test_batching for the time


def test_a_timeout_ends_each_kind_of_call():
    chat = ChatTransformers(FOLDER, max_tokens=24, timeout=0.01)
    lock = chat.load().lock
    with lock:  # as if another caller used the model
        for call in (lambda: chat.invoke(ASKED), lambda: list(chat.stream(ASKED))):
            with pytest.raises(AgentTimeoutError, match=r"no reply within 0\.01 s"):
                call()

        async def stream():
            return [piece async for piece in chat.astream(ASKED)]

        for call in (lambda: chat.ainvoke(ASKED), stream):
            with pytest.raises(AgentTimeoutError, match=r"no reply within 0\.01 s"):
                asyncio.run(call())


def test_a_key_for_the_hub_is_shown_nowhere():
    chat = ChatTransformers(FOLDER, api_key="hf_0123456789abcdef")
    assert "0123456789" not in f"{chat!r} {chat} {chat._identifying_params} {chat.model_dump_json()}"


def test_nothing_is_given_that_a_later_token_may_change():
    """Over every cut of a text, the pieces are beginnings of the finished text, and join to it."""
    loaded = ChatTransformers(FOLDER).load()
    ids = loaded.tokenizer.encode("Das Mädchen aß , 漢字 und 👩‍👧 STOP nothing", add_special_tokens=False)
    tokens = [DrawnToken(token, -1.0, ()) for token in ids]
    text = GrowingText(loaded, ["STOP"])
    pieces = [text.advance(tokens[:count]) for count in range(1, len(tokens) + 1)]
    whole = loaded.tokenizer.decode(ids).split("STOP")[0]
    assert "".join([*pieces, text.finish(whole)]) == whole
    assert not any("\ufffd" in piece for piece in pieces[:-1])


def test_a_response_that_is_drawn_again_is_not_given_twice():
    loaded = ChatTransformers(FOLDER).load()
    ids = loaded.tokenizer.encode("one two three four", add_special_tokens=False)
    tokens = [DrawnToken(token, -1.0, ()) for token in ids]
    text = GrowingText(loaded, [])
    first = text.advance(tokens[:-1])
    again = [text.advance(tokens[:count]) for count in range(1, len(tokens))]
    assert first
    assert "".join(again) == ""


def test_streams_at_the_same_time_get_their_own_pieces():
    chat = ChatTransformers(FOLDER, max_tokens=24)
    expected = [chat.invoke(ASKED, seed=seed).content for seed in range(4)]
    found = [""] * 4

    def read(seed):
        found[seed] = "".join(piece.content for piece in chat.stream(ASKED, seed=seed))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
