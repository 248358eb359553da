import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from coe_agents import ModelAgent
from coe_agents.clustering.answers import parse_choice
from coe_agents.clustering.refusals import answer_kind
from tests.doubles import REQUEST
from tests.servers import answering, completion

KNOWN = "I'm sorry, but I can't assist with that request."
OTHER = "This conflicts with the usage policies."


def refusing(text):

    def answer(body):
        status, reply = completion(*[""] * body.get("n", 1))
        for choice in reply["choices"]:
            choice["message"] = {"role": "assistant", "content": None, "refusal": text}
        return status, reply

    return answer


def agent(model, **options):
    return ModelAgent("a", model, on_greedy="trust", **options)


@pytest.mark.parametrize("text", [KNOWN, OTHER, "approve"])
def test_it_is_a_refusal_and_neither_an_empty_response_nor_a_choice(text):
    with answering(refusing(text)) as server:
        reply = agent(server.chat(), n_samples=3).sample(REQUEST)
    assert len(reply["responses"]) == 3
    assert reply["sampling"]["n_empty"] == 0
    for row in reply["responses"]:
        assert text in row["text"]
        assert parse_choice(row["text"], ["approve", "reject"]) is None
        assert answer_kind(row["answer"] or row["text"]) == "refusal"


def test_a_block_of_the_responses_api():
    message = AIMessage([{"type": "refusal", "refusal": OTHER}])
    reply = agent(GenericFakeChatModel(messages=iter([message])), n_samples=1).sample(REQUEST)
    assert answer_kind(reply["responses"][0]["answer"]) == "refusal"
