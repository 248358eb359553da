"""Several servers of one model: who is asked, and what happens when some cannot be reached. Servers on loopback."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent, ThresholdPolicy, create_coe_graph
from coe_agents.agents._requests import endpoints, send
from coe_agents.agents._requests.endpoints import Places, Replica, Replicas
from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import AgentConnectionError, AgentError, AgentTimeoutError, ServerError
from coe_agents.types import AgentReply, AgentRequest
from tests.agents.requests.visits import avisiting, taken, visiting
from tests.doubles import CountingModel
from tests.faults import failing
from tests.servers import Served, answering, completion, running, served, write

PASSWORD = "planted-0123456789"
forms = pytest.mark.parametrize("form", ["sync", "async"])


class Clock:
    now = 100.0


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> Clock:
    """Time stands still for servers that are set aside, unless a test moves it."""
    clock = Clock()
    monkeypatch.setattr(endpoints, "_now", lambda: clock.now)
    monkeypatch.setattr(send, "_FIRST_WAIT", 0.02)
    return clock


class Breaking(Served):
    """Answers until it breaks, and again when it is mended."""

    breaks_after = 10**9

    def handle(self, handler, body) -> None:
        if len(self.requests) > self.breaks_after:
            write(handler, 503, b"{}")
        else:
            super().handle(handler, body)


def agent(*servers: Served, access: str = "", **options) -> ModelAgent:
    urls = [server.url.replace("//", f"//{access}", 1) for server in servers]
    chats = [ChatOpenAI(model="served", base_url=url, api_key="none") for url in urls]
    return ModelAgent("a", chats, **{"n_samples": 3, "seed": 1, "timeout": 60.0, **options})


def request(number: int = 0) -> AgentRequest:
    return AgentRequest(question="Q?", messages=[{"role": "user", "content": f"Q {number}?"}], round=0)


def sampled(one: ModelAgent, form: str, number: int = 0) -> AgentReply:
    return one.sample(request(number)) if form == "sync" else asyncio.run(one.asample(request(number)))


def sampled_at_once(one: ModelAgent, form: str, n: int) -> list[AgentReply]:
    """Asks `n` questions at once: each in a thread, or half of them in each of two event loops."""
    replies: list[AgentReply] = []

    async def half(first: int) -> None:
        replies.extend(await asyncio.gather(*(one.asample(request(number)) for number in range(first, n, 2))))

    tasks = (
        [lambda number=number: replies.append(one.sample(request(number))) for number in range(n)]
        if form == "sync"
        else [lambda first=first: asyncio.run(half(first)) for first in range(2)]
    )
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return replies


@contextmanager
def several(n: int, **options) -> Iterator[list[Served]]:
    with ExitStack() as stack:
        yield [stack.enter_context(served(**options)) for _ in range(n)]


def replicas(n: int = 3, size: int = 2) -> Replicas:
    return Replicas([Replica(CountingModel(), f"http://{number}", Places(size)) for number in range(n)])


def test_the_one_with_the_fewest_requests_is_next_and_ties_go_in_turn():
    servers = replicas()
    with ExitStack() as stack:
        visits = [stack.enter_context(visiting(servers)) for _ in range(6)]
    assert [visit.replica.address[-1] for visit in visits] == ["0", "1", "2", "0", "1", "2"]
    with ExitStack() as stack:
        for place in (0, 2):
            stack.enter_context(taken(servers.all[place].places, 5))
        assert stack.enter_context(visiting(servers)).replica.address == "http://1"


def test_a_request_goes_to_a_server_that_has_not_failed_it():
    servers = replicas()
    with taken(servers.all[1].places, 5), taken(servers.all[2].places, 5):
        with visiting(servers) as visit:
            assert visit.replica.address == "http://0"
        with visiting(servers, [servers.all[0], servers.all[1]]) as visit:
            assert visit.replica.address == "http://2"


def test_one_request_alone_tries_a_server_again(clock):
    servers = replicas()
    servers.all[0].places.outage.note_failure()
    clock.now += 1
    with ExitStack() as stack:
        visits = [stack.enter_context(visiting(servers)) for _ in range(5)]
    assert [visit.replica.address[-1] for visit in visits].count("0") == 1


def test_only_who_was_set_aside_is_not_waited_for_and_only_if_another_is_up():
    servers = replicas(n=2)
    assert not servers.is_another_ready(servers.all[0])
    servers.all[0].places.outage.note_failure()
    assert servers.is_another_ready(servers.all[0])
    servers.all[1].places.outage.note_failure()
    assert not servers.is_another_ready(servers.all[0])


async def test_who_waits_at_a_server_that_fails_goes_to_another_without_having_asked():
    servers = replicas(n=2, size=1)
    entered, order = asyncio.Event(), []

    async def hold(address: str, *, fails: bool) -> None:
        async with avisiting(servers) as visit:
            assert visit.replica.address == address
            await entered.wait()
            if fails:
                visit.replica.places.outage.note_failure()

    async def wait() -> None:
        async with avisiting(servers) as visit:
            order.append(visit.replica.address)

    tasks = [asyncio.create_task(hold("http://0", fails=True)), asyncio.create_task(hold("http://1", fails=False))]
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(wait()) for _ in range(4)]
    await asyncio.sleep(0)
    assert [replica.places.load for replica in servers.all] == [3, 3]
    entered.set()
    await asyncio.gather(*tasks, *waiting)
    assert order == ["http://1"] * 4
    assert [replica.places.load for replica in servers.all] == [0, 0]


@pytest.mark.slow
@forms
def test_two_hundred_at_once_are_spread_and_each_question_is_one_request(form):
    with several(2, seconds=0.01) as servers:
        replies = sampled_at_once(agent(*servers, max_concurrency=8), form, 200)
    n_requests = [len(server.requests) for server in servers]
    assert sum(n_requests) == len(replies) == 200
    assert min(n_requests) >= 80
    assert all(sent["n"] == 3 for server in servers for sent in server.requests)
    assert {reply["sampling"]["n_requests"] for reply in replies} == {1}
    assert max(server.most_busy for server in servers) <= 8  # of each, not of both together


@pytest.mark.slow
def test_two_hundred_questions_to_a_graph_lose_none_to_a_dead_server():
    with served() as sound, failing("refused") as dead:
        one = agent(sound, dead)
        graph = create_coe_graph([one], clusterer=NormalizedMatch(), policy=ThresholdPolicy(9.0)).compile()
        results = asyncio.run(graph.abatch([{"question": f"{number}?"} for number in range(200)]))
    assert len(sound.requests) == 200
    assert not any(result["decision"]["failed_agents"] for result in results)


@forms
def test_a_server_that_is_dead_from_the_start_costs_one_attempt_and_no_wait(form, monkeypatch):
    monkeypatch.setattr(send, "_FIRST_WAIT", 60.0)
    with failing("503") as dead, served() as sound:
        one = agent(dead, sound, timeout=25.0)  # which a wait would outlast
        replies = [sampled(one, form, number) for number in range(6)]
    assert (len(dead.requests), len(sound.requests)) == (1, 6)
    assert {reply["sampling"]["n_received"] for reply in replies} == {3}


@forms
def test_the_other_servers_are_within_the_attempts_of_a_request(form):
    with failing("refused") as dead, served() as sound:
        with pytest.raises(AgentConnectionError) as failure:
            sampled(agent(dead, sound, retries=0), form)
        assert len(sound.requests) == 0
    assert f"listens at {dead.url}" in str(failure.value)
    assert "none of" not in str(failure.value)


@forms
def test_a_server_that_dies_in_the_middle_is_left_and_taken_up_again(form, clock):
    with running(Breaking(seconds=0.01)) as ill, served(seconds=0.01) as sound:
        ill.breaks_after = 10
        one = agent(ill, sound, max_concurrency=4)
        assert len(sampled_at_once(one, form, 60)) == 60  # those in flight when it died went to the other
        # at most as many as have places there could be under way before the first failure was known
        assert 10 < len(ill.requests) <= 10 + 4
        n_before = len(ill.requests)
        sampled(one, form)
        assert len(ill.requests) == n_before
        clock.now += 1  # it is tried again, and fails again
        sampled(one, form), sampled(one, form)
        assert len(ill.requests) == n_before + 1
        clock.now += 1
        sampled(one, form), sampled(one, form)
        assert len(ill.requests) == n_before + 1  # now for longer
        clock.now += 1
        ill.breaks_after = 10**9
        for number in range(4):
            sampled(one, form, number)
        assert len(ill.requests) == n_before + 3  # every other one


@forms
@pytest.mark.parametrize(("fault", "kind"), [("refused", AgentConnectionError), ("503", ServerError)])
def test_where_all_are_dead_the_failure_names_them_without_their_passwords(fault, kind, form):
    with failing(fault) as one, failing(fault) as other, pytest.raises(kind) as failure:
        sampled(agent(one, other, access=f"user:{PASSWORD}@"), form)
    said = str(failure.value)
    assert f"none of its 2 servers can be reached ({one.url}, {other.url}): " in said
    assert PASSWORD not in said
    assert not failure.value.retryable


@forms
def test_a_server_cannot_tell_the_password_in_an_address(form):
    told = {"error": {"message": f"no {PASSWORD}"}}
    with answering(lambda body: (401, told)) as server, pytest.raises(AgentError) as failure:
        sampled(agent(server, access=f"user:{PASSWORD}@"), form)
    assert "[redacted]" in str(failure.value)
    assert PASSWORD not in repr(failure.value) + str(failure.value)


@forms
@pytest.mark.parametrize("fault", ["502", "503", "504", "time-out", "reset in mid-answer"])
def test_what_cannot_be_reached_is_set_aside(fault, form):
    with failing(fault) as ill, served() as sound:
        one = agent(ill, sound, request_timeout=5.0 if fault == "time-out" else None)
        for number in range(4):
            sampled(one, form, number)
        assert (len(ill.requests), len(sound.requests)) == (1, 4)


@forms
@pytest.mark.parametrize("fault", ["500", "429 soon", "invalid JSON"])
def test_a_failure_of_another_kind_sends_only_this_request_elsewhere(fault, form):
    with failing(fault) as ill, served() as sound:
        one = agent(ill, sound)
        for number in range(4):
            sampled(one, form, number)
        assert len(sound.requests) == 4
        assert len(ill.requests) > 1


def test_a_place_that_comes_too_late_is_no_failure_of_the_server():
    servers = replicas(n=2, size=1)
    with ExitStack() as stack:
        for replica in servers.all:
            stack.enter_context(taken(replica.places, 5))
        with pytest.raises(AgentTimeoutError, match="1 place, and none was free"), visiting(servers, seconds=0.05):
            pass
    assert not any(replica.places.outage.is_down for replica in servers.all)


@forms
def test_what_the_model_takes_is_learned_once_for_all_servers(form):
    with several(2, refuses=("logprobs",), ignores_n=True) as servers:
        one = agent(*servers)
        replies = [sampled(one, form, number) for number in range(3)]
    sent = [body for server in servers for body in server.requests]
    assert sum("logprobs" in body for body in sent) == 1
    assert sum("n" in body for body in sent) == 2
    assert {reply["sampling"]["rung"] for reply in replies} == {"each"}


@forms
def test_seeds_and_responses_are_as_from_one_server(form):
    with several(3) as servers:
        alone, three = agent(servers[0]), agent(*servers)
        assert [sampled(three, form, number) for number in range(6)] == [
            sampled(alone, form, number) for number in range(6)
        ]
    assert all(len(server.requests) >= 2 for server in servers)


async def test_the_probability_of_a_choice_comes_from_a_server_that_is_up():
    with (
        failing("refused") as dead,
        answering(lambda body: completion("True", top={"True": -0.1, "False": -2.4})) as sound,
    ):
        found = await agent(dead, sound).achoice([HumanMessage("True or False?")], ("True", "False"))
    assert found.probabilities["True"] == pytest.approx(0.909, abs=1e-3)


def chat(model: str = "m", host: str = "a") -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=f"http://{host}/v1", api_key="none")


@pytest.mark.parametrize(
    ("models", "kind", "says"),
    [
        ([], ValueError, "got none"),
        (["openai:m", "openai:m"], TypeError, "of one class; got str, str"),
        ([chat(), CountingModel()], TypeError, "got ChatOpenAI, CountingModel. Create an agent for each"),
        ([chat("llama"), chat("qwen", "b")], ValueError, "the same model; got llama, qwen. Create an agent for each"),
        ([chat(), chat()], ValueError, "got http://a/v1 twice"),
    ],
)
def test_what_are_no_servers_of_one_model_is_refused(models, kind, says):
    with pytest.raises(kind, match=says):
        ModelAgent("a", models)
