import logging

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents import ModelAgent, prompts
from coe_agents.agents.judge import ask_p_false
from tests.servers import answering, completion

ASKED = ("Capital of France?", "Paris")


def agent(server, **options):
    return ModelAgent(
        "a", server.chat(), n_samples=3, system_prompt="Be brief.", retries=0, **options
    )


async def test_a_served_model_is_asked_ten_times_and_one_that_chooses_neither_is_none_and_logged(
    caplog,
):
    replies = ["True"] * 6 + ["False"] * 2 + ["Maybe"] * 2
    with answering(lambda body: completion(*replies[: body["n"]])) as server:
        assert await ask_p_false(agent(server), *ASKED) == pytest.approx(0.25)  # 2 / (6 + 2)
    (body,) = server.requests
    assert body["messages"] == [{"role": "user", "content": prompts.self_check(*ASKED)}]
    vague = ModelAgent("vague", FakeListChatModel(responses=["It depends."]))
    with caplog.at_level(logging.WARNING):
        assert await ask_p_false(vague, *ASKED) is None
    assert 'agent "vague" gave no P(False): ' in caplog.text
