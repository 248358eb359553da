"""The server of a model: its password, and that there is one. Servers on loopback."""

import asyncio

import pytest
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent
from coe_agents.errors import AgentError
from coe_agents.types import AgentRequest
from tests.doubles import CountingModel
from tests.servers import answering

PASSWORD = "planted-0123456789"
REQUEST = AgentRequest(question="Q?", messages=[{"role": "user", "content": "Q?"}], round=0)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_server_cannot_tell_the_password_in_an_address(form):
    told = {"error": {"message": f"no {PASSWORD}"}}
    with answering(lambda body: (401, told)) as server:
        url = server.url.replace("//", f"//user:{PASSWORD}@", 1)
        agent = ModelAgent("a", ChatOpenAI(model="served", base_url=url, api_key="none"))
        with pytest.raises(AgentError) as failure:
            _ = agent.sample(REQUEST) if form == "sync" else asyncio.run(agent.asample(REQUEST))
    assert "[redacted]" in str(failure.value)
    assert PASSWORD not in repr(failure.value) + str(failure.value)


@pytest.mark.parametrize("models", [[], [CountingModel(), CountingModel()], ("openai:m",)])
def test_a_list_of_models_is_refused(models):
    remedy = f"must be a chat model .*; got {type(models).__name__}.* put a proxy in front of several servers"
    with pytest.raises(TypeError, match=remedy):
        ModelAgent("a", models)
