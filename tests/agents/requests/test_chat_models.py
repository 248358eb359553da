from langchain_openai import ChatOpenAI

from coe_agents.agents.requests.chat_models import address_of, prepare


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
