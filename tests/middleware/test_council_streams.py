import asyncio
import json

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from coe_agents import CoECouncil, ModelAgent
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import THREAD, Bank
from tests.middleware.calls import DONE, PAY, call, says
from tests.middleware.council import Member, council_agent
from tests.middleware.people import APPROVE, decide
from tests.waiting import until

TEN = {"to": "Ann", "amount": 10}
GATED = {"tools": ["transfer_money"]}


class Streaming(ScriptedDriver):
    """A driver that streams its text word by word."""

    def _stream(self, messages, stop=None, run_manager=None, **options):
        message = self._generate(messages).generations[0].message
        for word in message.text.split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(word, id="streamed"))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        if message.tool_calls:
            (one,) = message.tool_calls
            part = tool_call_chunk(
                name=one["name"], args=json.dumps(one["args"]), id=one["id"], index=0
            )
            yield ChatGenerationChunk(
                message=AIMessageChunk("", tool_call_chunks=[part], id="streamed")
            )


class Traced(BaseCallbackHandler):
    """What a trace shows: also what is not streamed."""

    def __init__(self):
        self.texts = []

    def on_llm_end(self, response, **_):
        self.texts.append(response.generations[0][0].text)


def without_requests(part):
    """A part of a stream without its interrupts, which show the request to the person."""
    if type(part) is dict:
        return {
            key: without_requests(value)
            for key, value in part.items()
            if key not in ("__interrupt__", "interrupts")
        }
    return [without_requests(value) for value in part] if isinstance(part, list | tuple) else part


def model_members(*scripts):
    return [
        ModelAgent(f"m{place}", Streaming(script=[*script]), n_samples=1)
        for place, script in enumerate(scripts)
    ]


async def streamed(agent, mode):
    if mode == "stream":
        return list(agent.stream(PAY, THREAD, stream_mode=["messages", "custom"]))
    return [part async for part in agent.astream(PAY, THREAD, stream_mode=["messages", "custom"])]


@pytest.mark.parametrize(
    ("mode", "options"), [("stream", {}), ("astream", GATED), ("astream", {"adaptive": True})]
)
async def test_a_message_is_streamed_only_after_it_was_vouched_for_and_whole(mode, options):
    script = [says(call(**TEN), text="I will pay now."), AIMessage("It is done.")]
    agent = council_agent(
        model_members(script, script), Bank(), driver=Streaming(script=script), **options
    )
    parts = await streamed(agent, mode)
    shown = [part[0] for kind, part in parts if kind == "messages"]
    assert [type(message) for message in shown] == [AIMessage, ToolMessage, AIMessage]
    assert [message.text for message in shown] == [
        "I will pay now.",
        "sent 10.0 to Ann",
        "It is done.",
    ]
    decided = [place for place, (kind, part) in enumerate(parts) if kind == "custom"]
    first = next(place for place, (kind, _) in enumerate(parts) if kind == "messages")
    assert decided[0] < first


@pytest.mark.parametrize("mode", ["stream", "astream"])
async def test_nothing_of_a_withheld_text_or_of_the_members_is_streamed(mode):
    theirs = [says(call(**TEN), text="SECRET of a member")]
    driver = Streaming(script=[AIMessage("SECRET of the driver")])
    agent = council_agent(model_members(theirs, theirs), Bank(), driver=driver)
    parts = await streamed(agent, mode)
    shown = [part[0] for kind, part in parts if kind == "messages"]
    assert [message.text.partition(":")[0] for message in shown] == ["I will not answer this"]
    assert "SECRET" not in repr([part for kind, part in parts if kind == "custom"])


async def test_no_event_shows_a_proposal_before_the_decision_nor_the_text_beside_a_withheld_call():
    theirs = [says(call(to="Bob", amount=1), text="SECRET of a member"), DONE]
    script = [says(call(**TEN), text="SECRET of the driver"), DONE]
    agent = council_agent(model_members(theirs, theirs), Bank(), driver=Streaming(script=script))
    traced = Traced()
    events = [
        repr(event)
        async for event in agent.astream_events(
            PAY, {**THREAD, "callbacks": [traced]}, version="v2"
        )
    ]
    assert "SECRET of the driver" in traced.texts
    # the driver and both members, at each of two turns, as after the decision
    assert sum("on_chat_model_start" in event for event in events) == 6
    assert sum("on_chat_model_end" in event for event in events) == 6
    assert not any("SECRET" in event for event in events)
    decided = next(
        place for place, event in enumerate(events) if "'council': {'action': 'abstain'" in event
    )
    assert not any("Ann" in event and "transfer_money" in event for event in events[:decided])
    assert "SECRET" not in repr(agent.get_state(THREAD).values["messages"])


EVERY_MODE = ["updates", "values", "messages", "custom", "checkpoints", "debug", "tasks"]


@pytest.mark.parametrize(
    "beside", [[], [CoECouncil(model_members([DONE]), tools=["balance"], name="other")]]
)
@pytest.mark.parametrize(
    "said", [says(call(**TEN), text="SECRET"), AIMessage("SECRET")], ids=["call", "text"]
)
@pytest.mark.parametrize("mode", ["stream", "astream"])
async def test_no_stream_shows_a_proposal_before_a_person_decides_on_it(mode, said, beside):
    theirs = [says(call(to="Bob", amount=1), text="SECRET of a member"), DONE]
    bank = Bank()
    driver = Streaming(script=[said, DONE])
    agent = council_agent(
        model_members(theirs, theirs), bank, driver=driver, on_uncertain="interrupt", before=beside
    )
    options = {"stream_mode": EVERY_MODE, "subgraphs": True}
    if mode == "stream":
        parts = list(agent.stream(PAY, THREAD, **options))
    else:
        parts = [part async for part in agent.astream(PAY, THREAD, **options)]
    assert agent.get_state(THREAD).interrupts
    for _, kind, part in parts:
        shown = without_requests(part)
        for written in (repr(shown), json.dumps(shown, default=repr)):
            assert not [said for said in ("SECRET", "Bob", "transfer_money") if said in written], (
                kind
            )
    resumed = agent.invoke(decide(APPROVE), THREAD)
    assert "SECRET" in repr(resumed["messages"])
    assert len(bank.transfers) == bool(said.tool_calls)


async def test_the_driver_and_the_members_are_asked_at_the_same_time():
    meeting = asyncio.Barrier(3)

    class Waiting(Member):
        async def asample(self, request, config=None):
            await asyncio.wait_for(meeting.wait(), 60)
            return super().sample(request, config)

    class Driver(ScriptedDriver):
        async def _agenerate(self, *args, **options):
            await asyncio.wait_for(meeting.wait(), 60)
            return super()._generate(*args, **options)

    agents = [Waiting("a", "Hi."), Waiting("b", "Hi.")]
    agent = council_agent(agents, Bank(), driver=Driver(script=[AIMessage("Hi.")]), saver=False)
    assert (await agent.ainvoke(PAY))["messages"][-1].text == "Hi."


async def test_a_failing_driver_ends_the_members():
    started = []
    cancelled = []

    class Slow(Member):
        async def asample(self, request, config=None):
            started.append(self.name)
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                cancelled.append(self.name)
                raise

    class Failing(ScriptedDriver):
        async def _agenerate(self, *args, **options):
            await until(lambda: len(started) == 2)
            raise ConnectionError("down")

    agent = council_agent([Slow("a", "x"), Slow("b", "x")], Bank(), driver=Failing(script=[]))
    with pytest.raises(ConnectionError):
        await agent.ainvoke(PAY, THREAD)
    assert sorted(cancelled) == ["a", "b"]
