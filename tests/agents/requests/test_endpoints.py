import asyncio
import gc
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr

from coe_agents import ModelAgent
from coe_agents._steps import arun_steps, run_steps
from coe_agents.agents.requests.send import Places, places_of
from coe_agents.errors import AgentError, AgentTimeoutError
from tests.servers import answering, completion
from tests.waiting import until, wait_until


@contextmanager
def taken(places, seconds):
    turn = places.queue()
    try:
        yield run_steps(places.wait(turn, seconds))
    finally:
        places.leave(turn)


@asynccontextmanager
async def ataken(places, seconds):
    turn = places.queue()
    try:
        yield await arun_steps(places.wait(turn, seconds))
    finally:
        places.leave(turn)


class LoopBound(BaseChatModel):
    """A model whose async form waits with something of one event loop, as the clients of servers do."""

    _turns: asyncio.Semaphore = PrivateAttr(default_factory=lambda: asyncio.Semaphore(1))
    _now: list[int] = PrivateAttr(default_factory=lambda: [0, 0])
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    has_sync: bool = True

    @property
    def _llm_type(self):
        return "loop-bound"

    @contextmanager
    def counted(self):
        with self._lock:
            self._now[0] += 1
            self._now[1] = max(self._now)
        yield
        with self._lock:
            self._now[0] -= 1

    def _generate(self, *args, **kwargs):
        if not self.has_sync:
            raise NotImplementedError
        with self.counted():
            time.sleep(0.002)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Paris"))])

    async def _agenerate(self, *args, **kwargs):
        async with self._turns:
            with self.counted():
                await asyncio.sleep(0.002)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Paris"))])


def in_loops(ask, n, *, times):
    """Runs a coroutine function in several event loops at once, each in a thread of its own; and again in new ones."""
    begin = threading.Barrier(n)

    def run():
        begin.wait(60)
        asyncio.run(ask())

    for _ in range(times):
        with ThreadPoolExecutor(n) as pool:
            for done in [pool.submit(run) for _ in range(n)]:
                done.result()


ASKED = {"question": "q", "messages": [{"role": "user", "content": "Which?"}], "round": 0}


@pytest.mark.parametrize("has_sync", [True, False])
def test_one_model_is_asked_in_several_event_loops_at_once_and_not_more_often_than_allowed(
    has_sync,
):
    model = LoopBound(has_sync=has_sync)
    agents = [
        ModelAgent(name, model, n_samples=1, max_concurrency=3, retries=0, on_greedy="trust")
        for name in "ab"
    ]

    have_asked = threading.Barrier(3)

    async def ask():
        replies = await asyncio.gather(*(agent.asample(ASKED) for agent in agents * 6))
        chosen = await agents[0].achoice([("user", "Which?")], ("Paris", "Rome"))
        assert [reply["responses"][0]["text"] for reply in replies] == ["Paris"] * 12
        assert chosen.probabilities["Paris"] == 1.0
        await asyncio.to_thread(have_asked.wait, 60)  # what the model waits with is of one loop

    in_loops(
        ask, 3, times=2 if has_sync else 1
    )  # an async form alone may be bound to its first loop for good
    assert 1 <= model._now[1] <= 3


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_request_fails_that_ended_with_the_loop_of_the_models_client(is_cancelled):
    model = LoopBound(has_sync=False)
    agent = ModelAgent("a", model, n_samples=1, max_concurrency=3, retries=0, on_greedy="trust")
    is_asked = threading.Event()
    may_end = threading.Event()

    async def own():
        await agent.asample(ASKED)
        await model._turns.acquire()  # whoever asks now waits
        is_asked.set()
        await asyncio.to_thread(may_end.wait, 60)

    with ThreadPoolExecutor(1) as pool:
        owning = pool.submit(asyncio.run, own())
        await asyncio.to_thread(is_asked.wait, 60)
        asking = asyncio.create_task(agent.asample(ASKED))
        await asyncio.sleep(0.2)
        if is_cancelled:
            asking.cancel()
            await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError if is_cancelled else AgentError):
            await asking
        owning.result()


@pytest.mark.slow
def test_one_client_of_a_server_is_used_in_several_event_loops_at_once():
    now = [0, 0]
    lock = threading.Lock()

    def answer(body):
        with lock:
            now[0] += 1
            now[1] = max(now)
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        return completion("Paris")

    with (
        answering(answer, keeps_alive=True) as server,
        warnings.catch_warnings(),
    ):  # else no connection is shared
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # asyncio's, of connections that an ended loop had open
        model = ChatOpenAI(model="m", api_key="none", base_url=server.url)
        agent = ModelAgent("a", model, n_samples=1, max_concurrency=3, retries=0, on_greedy="trust")

        async def ask():
            for _ in range(3):
                await asyncio.gather(*(agent.asample(ASKED) for _ in range(12)))

        async def ask_and_close():
            await agent.asample(ASKED)
            await model.root_async_client.close()

        in_loops(ask, 2, times=1)
        assert now[1] <= 3
        in_loops(ask, 2, times=1)
        asyncio.run(ask_and_close())
        gc.collect()


def test_places_are_shared_by_threads_and_event_loops():
    places = Places(3)
    busy = [0]
    most = [0]
    lock = threading.Lock()

    def enter(step):
        with lock:
            busy[0] += step
            most[0] = max(most[0], busy[0])

    def in_thread():
        with taken(places, 60):
            enter(1)
            wait_until(lambda: most[0] == 3)
            time.sleep(0.01)  # more would come now
            enter(-1)

    async def in_loop():
        async with ataken(places, 60):
            enter(1)
            await until(lambda: most[0] == 3)
            await asyncio.sleep(0.01)
            enter(-1)

    async def many():
        await asyncio.gather(*(in_loop() for _ in range(10)))

    threads = [threading.Thread(target=in_thread) for _ in range(10)]
    threads += [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert busy == [0]
    assert most == [3]


async def test_who_gives_up_waiting_takes_no_place():
    places = Places(1)
    with taken(places, None):
        with (
            pytest.raises(AgentTimeoutError, match=r"has 1 place, and none was free within"),
            taken(places, 0.01),
        ):
            pass
        with pytest.raises(AgentTimeoutError):
            async with ataken(places, 0.01):
                pass
        waiting = asyncio.create_task(ataken(places, None).__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with ataken(places, 0.1):  # free again
        pass


def test_the_smallest_bound_counts_while_anybody_holds_the_endpoint():
    first, second, other = (
        places_of(None, at, size) for at, size in (("x", 5), ("x", 2), ("y", 5))
    )
    assert first is second
    assert first.size == 2
    assert other.size == 5
    del first, second
    gc.collect()
    assert places_of(None, "x", 7).size == 7
