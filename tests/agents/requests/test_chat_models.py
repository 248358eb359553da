import pytest
from langchain_openai import ChatOpenAI

from coe_agents.agents._requests.chat_models import address_of, prepare


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("http://127.0.0.1:8001/v1/", "http://127.0.0.1:8001/v1"),
        ("https://me:secret@host/v1?key=secret", "https://host/v1"),
    ],
)
def test_an_address_tells_no_secret(base_url, address):
    assert address_of(ChatOpenAI(model="m", base_url=base_url, api_key="none")) == address


def test_preparing_leaves_the_model_as_it_was():
    chat = ChatOpenAI(model="m", api_key="none", max_retries=4, n=2, temperature=0.1)
    ready = prepare(chat, {"temperature": 0.7, "max_tokens": None, "nonsense": 1})
    assert (ready.temperature, ready.n, ready.disable_streaming, ready.root_client.max_retries) == (0.7, None, True, 0)
    assert (chat.temperature, chat.n, chat.disable_streaming, chat.root_client.max_retries) == (0.1, 2, False, 4)
    # the connections are shared
    assert ready.root_async_client._client is chat.root_async_client._client
