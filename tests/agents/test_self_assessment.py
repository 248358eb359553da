import logging
import math

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents import ModelAgent, prompts
from coe_agents.agents.self_assessment import ask_p_false, ask_verbal_confidence, stated_confidence
from tests.servers import answering, completion, served

ASKED = ("Capital of France?", "Paris")
TOP = {"True": math.log(0.6), "False": math.log(0.2), "Maybe": math.log(0.1)}


def agent(server, **options):
    return ModelAgent("a", server.chat(), n_samples=3, system_prompt="Be brief.", retries=0, **options)


def said(body):
    return [(message["role"], message["content"]) for message in body["messages"]]


async def test_a_served_model_is_asked_for_its_first_token_without_the_system_prompt():
    with answering(lambda body: completion("True", top=TOP)) as server:
        assert await ask_p_false(agent(server), *ASKED) == pytest.approx(0.25)  # 0.2 / (0.6 + 0.2)
    (body,) = server.requests
    assert said(body) == [("user", prompts.self_check(*ASKED))]


async def test_confidence_is_asked_once_at_temperature_0_without_the_system_prompt():
    with served(("85",)) as server:
        asked = agent(server)
        assert await ask_verbal_confidence(asked, *ASKED) == 0.85
    (body,) = server.requests
    assert said(body) == [("user", prompts.confidence(*ASKED))]
    assert (body["temperature"], body.get("n", 1)) == (0, 1)
    assert (asked.system_prompt, asked.n_samples) == ("Be brief.", 3)


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("100", 1.0),
        ("Rather sure:\n\n**70 %**\n", 0.7),
        ("<think>\n20\n</think>\n90.", 0.9),
        ("85\n20", None),
        ("9" * 5000, None),
        ("\u0668\u0665", None),  # digits of another script
    ],
)
def test_a_confidence_is_read_strictly(text, confidence):
    assert stated_confidence(text) == confidence


async def test_a_model_that_chooses_neither_is_none_and_is_logged(caplog):
    vague = ModelAgent("vague", FakeListChatModel(responses=["It depends."]))
    with caplog.at_level(logging.WARNING):
        assert await ask_p_false(vague, *ASKED) is None
    assert 'agent "vague" gave no P(False): none of 10 replies' in caplog.text
