from functools import partial

import pytest
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent, load_model
from coe_agents.agents.requests.chat_models import address_of, prepare
from coe_agents.tinyworld import model_folder
from tests.doubles import REQUEST


def test_an_address_tells_no_secret():
    for given, shown in (
        ("http://a/v1/", "http://a/v1"),
        ("https://me:secret@a/v1?key=x", "https://a/v1"),
    ):
        assert address_of(ChatOpenAI(model="m", base_url=given, api_key="none")) == shown


def test_preparing_leaves_the_model_as_it_was():
    chat = ChatOpenAI(model="m", api_key="none", max_retries=4, n=2, temperature=0.1)
    ready = prepare(chat, {"temperature": 0.7, "max_tokens": None, "nonsense": 1})
    assert ready.temperature == 0.7
    assert ready.n is None
    assert ready.disable_streaming is True
    assert ready.root_client.max_retries == 0
    assert chat.temperature == 0.1
    assert chat.n == 2
    assert chat.disable_streaming is False
    assert chat.root_client.max_retries == 4
    # the connections are shared
    assert ready.root_async_client._client is chat.root_async_client._client


@pytest.mark.parametrize("provider", ["transformers", "tinyworld"])
def test_a_model_in_this_process_has_a_name_wherever_a_models_name_is(provider):
    pytest.importorskip("torch")
    place = model_folder("tiny-llama") if provider == "transformers" else "tiny-llama"
    name = f"{provider}:{place}"
    driver = load_model(name, max_tokens=4)
    assert driver.invoke("What is the capital of France?").usage_metadata["output_tokens"] <= 4
    member = ModelAgent("a", name, n_samples=2)
    assert member.uses(driver)  # which then has no vote on what it proposed itself
    assert len(member.sample(REQUEST)["responses"]) == 2


@pytest.mark.parametrize("take", [load_model, partial(ModelAgent, "a")])
def test_a_shipped_model_that_there_is_not_is_refused_with_those_that_there_are(take):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"must be one of tiny-llama, .*; got 'tiny-nli'"):
        take("tinyworld:tiny-nli")


@pytest.mark.parametrize("name", ["my-model", "transformers:", "opnai:m"])
def test_a_name_without_a_known_provider_is_refused(name):
    with pytest.raises(ValueError, match="provider"):
        load_model(name)
