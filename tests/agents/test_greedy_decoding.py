import asyncio
import gc
import pickle
import re
import threading
import time
from types import SimpleNamespace

import pytest

from coe_agents import ModelAgent
from coe_agents.agents import greedy_decoding
from coe_agents.agents.greedy_decoding import Findings
from coe_agents.errors import IgnoredTemperatureError
from coe_agents.policy import Decision
from coe_agents.prompts import INVENTED_STORY
from coe_agents.rounds import Resample
from coe_agents.types import AgentReply, AgentRequest
from tests.doubles import REQUEST, CountingModel
from tests.graph.groups import Deciding, ask, decide, graph
from tests.servers import CHARACTERS, Served, answering, completion, is_probe, running, served
from tests.waiting import until, wait_until


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch):
    monkeypatch.setattr(greedy_decoding, "FINDINGS", Findings())


def greedy() -> Served:
    return Served(("Quito", "Port Vila"), ignores_logprobs=True, ignores_temperature=True)


def agent(server: Served, name: str = "a", fields: dict | None = None, **options) -> ModelAgent:
    return ModelAgent(
        name, server.chat(**fields or {}), **{"n_samples": 4, "timeout": 60.0, **options}
    )


def sampled(one: ModelAgent, form: str = "sync", **overrides) -> AgentReply:
    request: AgentRequest = {**REQUEST, **overrides}
    return one.sample(request) if form == "sync" else asyncio.run(one.asample(request))


@pytest.mark.parametrize("form", ["sync", "async"])
def test_an_agent_whose_temperature_is_ignored_fails_and_says_what_to_do(form):
    with running(greedy()) as server:
        one = agent(server, temperature=0.7, max_tokens=100, system_prompt="Be brief.", seed=3)
        said = (
            f"the temperature of 0.7 has no effect at {server.url}: 4 responses are equal, and its 4 replies to a "
            "request for a story are equal, too. The server ignores it, answers from a cache, or uses one seed for "
            'all. Use a server that samples, such as vLLM, or have this one sample ("do_sample": true in the model\'s '
            'generation_config.json for transformers serve). on_greedy="count_once" of the ModelAgent, or of its '
            "[[agents]], counts them as one"
        )
        with pytest.raises(IgnoredTemperatureError, match=f"^{re.escape(said)}$") as caught:
            sampled(one, form)
        asked, probe = server.requests
    error = caught.value
    assert not error.retryable
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.usage == error.usage
    assert probe["messages"] == [{"role": "user", "content": INVENTED_STORY}]  # no system prompt
    assert probe["temperature"] == 1.0
    same = ("model", "n", "logprobs", "stream", "max_completion_tokens")
    assert [probe[name] for name in same] == [asked[name] for name in same]
    assert probe["seed"] != asked["seed"]
    assert error.usage == {"input_tokens": 22, "output_tokens": 16}  # what both cost
    assert error.sampling["ignores_temperature"] is True
    assert error.sampling["counted"] == "not"
    assert error.sampling["n_received"] == 4
    assert error.sampling["n_requests"] == 1


def test_it_is_asked_once_in_the_process_whoever_asks():
    with running(greedy()) as server, served(texts=("Paris",), ignores_logprobs=True) as sound:
        for name in ("a", "b"):  # clients of their own
            for _ in range(2):
                with pytest.raises(IgnoredTemperatureError):
                    sampled(agent(server, name=name))
                sampled(agent(sound, name=name))
                gc.collect()  # `ask` makes its agents anew for each question
        assert len(server.probes) == 1
        assert len(sound.probes) == 1
        sampled(agent(sound, temperature=0.5))
        assert len(sound.probes) == 1
        sampled(agent(sound, fields={"extra_body": {"top_k": 1}}))  # once more for other settings
        assert len(sound.probes) == 2


@pytest.fixture
def looks(monkeypatch):
    """Returns a function that says how many have looked for a finding: they make the probe, or wait for it."""
    looked = []
    look_up = Findings.look_up

    def noted(self, *given):
        looked.append(given)
        return look_up(self, *given)

    monkeypatch.setattr(Findings, "look_up", noted)
    return lambda: len(looked)


async def test_a_probe_that_is_cancelled_is_made_by_who_waits_for_it(looks):
    class Stuck(Served):
        def handle(self, handler, body):
            if is_probe(body) and len(self.probes) == 1:
                asked.set()
                self.closing.wait(120)
            super().handle(handler, body)

    asked = threading.Event()
    with running(Stuck(("Paris",), ignores_logprobs=True, ignores_temperature=True)) as server:
        first = asyncio.create_task(agent(server).asample(REQUEST))
        await asyncio.to_thread(asked.wait, 60)
        second = asyncio.create_task(agent(server).asample(REQUEST))
        await until(lambda: looks() == 2)
        first.cancel()
        with pytest.raises(IgnoredTemperatureError):
            await second
        assert len(server.probes) == 2
        server.closing.set()
    assert first.cancelled()


class FailingProbes(Served):
    """Ignores the temperature, and fails when asked for a story."""

    def answer(self, body):
        return (
            (500, {"error": {"message": "out of memory"}})
            if is_probe(body)
            else super().answer(body)
        )


def test_empty_replies_decide_nothing_and_a_probe_that_fails_is_tried_again_after_a_while(
    monkeypatch,
):
    with answering(
        lambda body: completion(*["" if is_probe(body) else "Paris"] * body["n"])
    ) as server:
        one = agent(server)
        for _ in range(2):
            sampling = sampled(one)["sampling"]
            assert len(server.probes) == 1
    assert sampling["ignores_temperature"] is None
    assert sampling["probe"] == "its 4 replies to a request for a story are empty"
    with running(
        FailingProbes(("Paris",), ignores_logprobs=True, ignores_temperature=True)
    ) as server:
        one = agent(server, retries=0)
        for _ in range(2):
            reply = sampled(one)
            assert len(server.probes) == 1
            sampling = reply["sampling"]
            assert len(reply["responses"]) == 4
            assert sampling["counted"] == "each"
            assert sampling["ignores_temperature"] is None
            assert sampling["probe"].startswith("a request for a story failed: ServerError")
        monkeypatch.setattr(
            greedy_decoding, "time", SimpleNamespace(time=lambda: time.time() + 601)
        )
        server.answer = Served.answer.__get__(server)
        with pytest.raises(IgnoredTemperatureError):
            sampled(one)
    assert len(server.probes) == 2


def test_a_finding_holds_for_a_day(monkeypatch):
    with running(greedy()) as server:
        one = agent(server)
        for seconds, n_probes, n_input in ((0, 1, 22), (86_399, 1, 11), (86_401, 2, 22)):
            later = SimpleNamespace(time=lambda seconds=seconds: time.time() + seconds)
            monkeypatch.setattr(greedy_decoding, "time", later)
            with pytest.raises(
                IgnoredTemperatureError, match="4 replies to a request for a story"
            ) as caught:
                sampled(one)
            assert len(server.probes) == n_probes
            assert (
                caught.value.usage["input_tokens"] == n_input
            )  # those of the probe count in the run that sent it


# two responses may well be equal
OPTIONS = [{"n_samples": 2}, {"n_samples": 1, "temperature": 0.0}, {"on_greedy": "trust"}]
OVERRIDES = [{"temperature": 0.0}, {"choices": ["approve", "reject"]}, {"is_review": True}]


@pytest.mark.parametrize(
    ("options", "overrides"), [*((one, {}) for one in OPTIONS), *(({}, one) for one in OVERRIDES)]
)
def test_where_equal_responses_are_no_reason_to_ask(options, overrides):
    with running(greedy()) as server:
        sampling = sampled(agent(server, **options), **overrides)["sampling"]
        assert server.probes == []
    assert sampling["probe"] is None
    assert sampling["counted"] == "each"


@pytest.mark.parametrize(
    ("logprob", "temperature", "n_probes", "ignores"),
    [
        (-0.1, 1.0, 0, None),  # exp(-0.3): four samples are equal by themselves more often than not
        (-4.5, 1.0, 0, None),  # exp(-13.5) is just above 1e-6
        (-4.7, 1.0, 0, True),  # exp(-14.1) below
        (-4.7, 0.9, 0, None),  # a low temperature makes samples agree, too
        (-4.7, 2.0, 0, True),
        (0.0, 1.0, 1, True),  # zeros say nothing: so does a server that cuts to the likeliest token
    ],
)
def test_log_probabilities_tell_why_responses_are_equal(logprob, temperature, n_probes, ignores):
    def answer(body):
        text = CHARACTERS if is_probe(body) else "Paris"
        return completion(
            *[text] * body["n"], tokens=[{"token": text, "logprob": logprob, "bytes": None}]
        )

    with answering(answer) as server:
        sampling = sampled(agent(server, on_greedy="count_once", temperature=temperature))[
            "sampling"
        ]
        assert len(server.probes) == n_probes
    assert sampling["ignores_temperature"] is ignores


class Local(CountingModel):
    def _generate(self, *args, **options):
        result = super()._generate(*args, **options)
        for generation in result.generations:
            generation.message.content = CHARACTERS
            generation.generation_info = {}
        return result


def test_a_model_in_this_process_is_known_as_long_as_an_agent_has_it():
    model = Local()
    agents = [ModelAgent(name, model) for name in "ab"]
    for one in agents:
        one.model()
        with pytest.raises(IgnoredTemperatureError, match="no effect: 5 responses"):
            sampled(one)
    assert len(model.calls) == 3
    other = Local()
    with pytest.raises(IgnoredTemperatureError):
        sampled(ModelAgent("a", other))
    assert len(other.calls) == 2
    del model, other, agents, one
    known = greedy_decoding.FINDINGS._known
    wait_until(lambda: gc.collect() >= 0 and not known)  # a thread may still hold the model


def test_a_group_of_such_agents_abstains_where_it_would_have_answered():
    with running(greedy()) as server:
        agents = [agent(server, name=name) for name in "abc"]
        decision = decide(*agents)
        trusted = decide(*[agent(server, name=name, on_greedy="trust") for name in "abc"])
        once = decide(*[agent(server, name=name, on_greedy="count_once") for name in "abc"])
    assert trusted["action"] == "answer"
    assert trusted["answer"] == "Quito"
    assert trusted["coe"] == 0.0
    assert decision["action"] == "abstain"
    assert decision["answer"] is None
    assert decision["coe"] is None
    assert (
        "0 of 3 agents answered, but 2 must; missing: a (its temperature has no effect), b"
        in decision["reason"]
    )
    assert set(decision["failed_agents"]) == {"a", "b", "c"}
    for reason in decision["failed_agents"].values():
        assert reason.startswith("IgnoredTemperatureError")
    assert sum(usage["input_tokens"] for usage in decision["tokens"].values()) == 3 * 11 + 11
    assert {said["n_responses"] for said in once["agents"].values()} == {1}
    assert once["agents"]["a"]["sampling"][0]["counted"] == "once"


def test_an_agent_that_is_found_out_late_has_said_nothing_before_either():
    with running(greedy()) as server:
        agents = [agent(server, name=name, n_samples=2) for name in "ab"]
        policy = Deciding(Decision("another_round"), Decision("answer"))
        strategies = {"consensus": Resample(growth=2.5)}
        result = ask(graph(*agents, policy=policy, max_rounds=2, strategies=strategies))
    decision = result["decision"]
    assert decision["action"] == "abstain"
    assert decision["agents"] == {}
    assert set(decision["failed_agents"]) == {"a", "b"}
    assert [row["error"] is None for row in result["responses"]] == [False, False]
