from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents.agents import ModelAgent
from coe_agents.agents.self_check import aself_checked
from coe_agents.tinyworld import tinyworld_agents


def response(text, error=None):
    return {
        "agent": "a",
        "round": 0,
        "index": 0,
        "text": text,
        "answer": None,
        "logprob": None,
        "n_tokens": None,
        "error": error,
    }


async def test_a_model_holds_what_it_was_not_taught_to_be_false():
    agent = tinyworld_agents()[0]
    said = [response(text) for text in ("Paris", "It is Kabul.", "", "Paris")]
    checked = await aself_checked(agent, "What is the capital of France?", said)
    right, wrong, empty, again = [each["p_false"] for each in checked]
    assert right < 0.2
    assert wrong > 0.5
    assert empty is None
    assert again == right
    assert "p_false" not in said[0]


async def test_a_model_that_does_not_choose_has_none():
    model = FakeListChatModel(responses=["It depends."])
    (checked,) = await aself_checked(ModelAgent("a", model), "Who?", [response("Ann")])
    assert checked["p_false"] is None
