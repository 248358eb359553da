import pytest

from coe_agents import ModelAgent
from coe_agents.errors import ModelNotFoundError
from tests.doubles import REQUEST
from tests.faults import failing
from tests.servers import Served, served

huggingface = pytest.importorskip("langchain_huggingface")


@pytest.fixture(autouse=True)
def _online(monkeypatch):
    # with HF_HUB_OFFLINE, as tests have it, the hub's client reaches no address at all, loopback not either
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def agent(server: Served, *, model_id: str | None = "served", **options) -> ModelAgent:
    endpoint = huggingface.HuggingFaceEndpoint(endpoint_url=server.url, task="text-generation")
    chat = huggingface.ChatHuggingFace(llm=endpoint)
    if model_id is not None:
        chat.model_id = model_id  # given to the constructor, it is replaced by the address
    return ModelAgent(
        "a", chat, **{"n_samples": 3, "temperature": 0.7, "max_tokens": 9, "seed": 1, **options}
    )


def test_an_endpoint_gives_all_samples_in_one_request_with_log_probabilities():
    with served() as server:
        one = agent(server)
        reply = one.sample(REQUEST)
    (sent,) = server.requests
    assert sent["model"] == "served"
    assert sent["n"] == 3
    assert sent["logprobs"] is True
    assert sent["temperature"] == 0.7
    assert sent["max_tokens"] == 9
    assert sent["stream"] is False
    assert isinstance(sent["seed"], int)
    assert sorted(response["text"] for response in reply["responses"]) == [
        "It is Paris.",
        "Lyon",
        "Paris",
    ]
    assert {response["logprob"] for response in reply["responses"]} == {-0.75}
    assert reply["sampling"]["rung"] == "n-logprobs"
    assert reply["usage"] == {"input_tokens": 11, "output_tokens": 6}


def test_options_that_are_refused_are_left_out_and_the_name_that_is_sent_is_in_the_hint():
    with served(refuses=("logprobs",), ignores_n=True) as server:
        reply = agent(server).sample(REQUEST)
    assert reply["sampling"]["rung"] == "each"
    assert len({sent["seed"] for sent in server.requests[2:]}) == 3
    with (
        failing("404") as server,
        pytest.raises(ModelNotFoundError, match='sends the name "dummy" until its `mod'),
    ):
        agent(server, model_id=None).sample(REQUEST)
    assert server.requests[0]["model"] == "dummy"


def test_a_pipeline_is_refused_with_what_to_use_instead():
    pipeline = huggingface.HuggingFacePipeline(pipeline=None, model_id="Qwen/Qwen2.5-0.5B-Instruct")
    chat = huggingface.ChatHuggingFace(llm=pipeline, tokenizer=object())
    with pytest.raises(
        ValueError,
        match=r'a HuggingFacePipeline, .*ChatTransformers\("Qwen/Qwen2.5-0.5B-Instruct"\)',
    ):
        ModelAgent("a", chat)
    with pytest.raises(
        ValueError, match=r'ChatTransformers\("owner/name"\)'
    ):  # by name, before it is loaded
        ModelAgent("a", "huggingface:owner/name")
