"""The real ChatOpenAI against a server on loopback: what `ModelAgent` sends, and what it makes of the reply."""

import asyncio

from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.types import AgentRequest
from tests.servers import Served, served

REQUEST = AgentRequest(question="Q?", messages=[{"role": "user", "content": "Q?"}], round=0)


def agent(server: Served, *, name: str = "a", n_samples: int = 3, **options) -> ModelAgent:
    chat = ChatOpenAI(model="served", base_url=server.url, api_key="none", max_retries=0, **options)
    return ModelAgent(name, chat, n_samples=n_samples, temperature=0.7, max_tokens=9, seed=1)


def test_all_samples_come_in_one_request_with_log_probabilities():
    with served() as server:
        reply = agent(server).sample(REQUEST)
    (sent,) = server.requests
    assert (sent["n"], sent["temperature"], sent["logprobs"], sent["stream"]) == (3, 0.7, True, False)
    assert sent["max_completion_tokens"] == 9
    assert sorted(response["text"] for response in reply["responses"]) == ["It is Paris.", "Lyon", "Paris"]
    # a token that is part of a character has an empty text, and counts
    assert {(response["logprob"], response["n_tokens"]) for response in reply["responses"]} == {(-0.75, 2)}
    assert reply["usage"] == {"input_tokens": 11, "output_tokens": 6}


def test_async_is_the_same_and_streaming_does_not_merge_the_choices():
    with served() as server:
        expected = agent(server).sample(REQUEST)
        assert asyncio.run(agent(server).asample(REQUEST)) == expected
        assert agent(server, streaming=True).sample(REQUEST) == expected


def test_a_server_that_ignores_n_is_asked_again_with_distinct_seeds():
    with served(ignores_n=True) as server:
        reply = agent(server).sample(REQUEST)
    # the one that came for three is not used: it might be all of them run together
    assert [sent.get("n") for sent in server.requests] == [3, None, None, None]
    first = server.requests[0]["seed"]
    assert [sent["seed"] for sent in server.requests[1:]] == [first, first + 1, first + 2]
    assert len({response["text"] for response in reply["responses"]}) == 3


def test_a_seed_of_the_models_own_is_not_sent_twice():
    with served(ignores_n=True) as server:
        chat = ChatOpenAI(model="served", base_url=server.url, api_key="none", seed=42)
        ModelAgent("a", chat, n_samples=3).sample(REQUEST)
    assert len({sent["seed"] for sent in server.requests}) == 3


def test_a_server_that_ignores_logprobs_leaves_them_unknown():
    with served(ignores_logprobs=True) as server:
        reply = agent(server).sample(REQUEST)
    assert {response["logprob"] for response in reply["responses"]} == {None}


def test_the_whole_graph_on_served_models():
    with served(texts=("Paris",)) as server:
        graph = create_coe_graph(
            [agent(server, name=name) for name in ("a", "b")], clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)
        ).compile()
        decision = asyncio.run(graph.ainvoke({"question": "Capital of France?"}))["decision"]
    assert (decision["action"], decision["answer"]) == ("answer", "Paris")
    assert decision["agents"]["a"]["weighting"] == "probability"
    assert decision["tokens"]["b"] == {"input_tokens": 11, "output_tokens": 6}
