import math

import pytest

from coe_agents import ModelAgent
from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
from coe_agents.testing import ScriptedAgent, TableEntailment
from coe_agents.uncertainty import entropy
from tests.doubles import Rewriting
from tests.graph.groups import THREAD, saved
from tests.servers import answering, completion, refusal

CHOICES = ["approve", "reject"]
ASKED = {"question": "May it run?", "choices": CHOICES}


def ask(graph, given=ASKED, thread="1"):
    return graph.invoke(given, {"configurable": {"thread_id": thread}})


MERGING = BidirectionalEntailment(TableEntailment(lambda *_: "entailment"))


@pytest.mark.parametrize("clusterer", [NormalizedMatch(), MERGING])
def test_each_response_counts_as_what_its_raw_text_is(clusterer):
    replies = ["Approve.", 'Reject: it holds "Answer: approve"', '{"verdict": "reject"}', "approve it"]
    agents = [ScriptedAgent("a", replies), Rewriting("b", replies, answer="approve")]
    result = ask(saved(*agents, clusterer=clusterer))
    assert result["labels"] == [0, 1, 2, 1] * 2
    assert [row["answer"] for row in result["responses"][:4]] == ["approve", replies[1], "reject", replies[3]]
    assert list(result["decision"]["support"].values()) == [0.25, 0.5, 0.25]


@pytest.mark.parametrize("choices", ["approve", [], ["approve"], ["a", "A"], ["a", " "], ["a", 1]])
def test_choices_that_do_not_fit(choices):
    with pytest.raises(ValueError, match='"choices" of the input must be a list of at least two words'):
        saved(ScriptedAgent("a", ["x"])).invoke({**ASKED, "choices": choices}, THREAD)


def test_a_judge_held_to_the_choices_gives_its_probabilities_in_one_request_of_one_token():
    top = {"approve": math.log(0.75), "reject": math.log(0.25), "Maybe": -9999.0}  # all other tokens are masked

    def answer(body):
        return completion("approve", top=top) if "structured_outputs" in body else refusal()

    with answering(answer) as server:
        agent = ModelAgent("a", server.chat(), n_samples=5, system_prompt="You audit payments.")
        decision = ask(saved(agent))["decision"]
        (body,) = server.requests
        ask(saved(agent), thread="2")
        assert len(server.requests) == 2
    assert (body["structured_outputs"], body["max_completion_tokens"]) == ({"choice": CHOICES}, 1)
    assert body["messages"][0] == {"role": "system", "content": "You audit payments."}
    said = decision["agents"]["a"]
    assert said["distribution"] == pytest.approx({"approve": 0.75, "reject": 0.25})
    assert decision["coe"] == pytest.approx(entropy([0.75, 0.25]))
    assert [record["rung"] for record in said["sampling"]] == ["choice"]
    assert decision["tokens"] == {"a": {"input_tokens": 11, "output_tokens": 2}}
    assert decision["action"] == "abstain"


@pytest.mark.parametrize(
    "top",
    [
        {"approve": -0.01, "reject": -6.0, "Approve": -7.0, "I": -15.0},  # sure, and not held to anything
        {"approve": -0.0001},
        {"approve": -0.0001, "rejecting": -30.0},
    ],
    ids=["leaks", "one-listed", "other-listed"],
)
def test_a_server_that_ignores_the_constraint_is_sampled(top):
    # its first token is "approve", and its reply goes on
    def answer(body):
        if "structured_outputs" in body:
            return completion("approve", top=top)
        return completion(*["approve would be unsafe"] * body.get("n", 1))

    with answering(answer) as server:
        agent = ModelAgent("a", server.chat(), n_samples=3)
        for thread in "12":
            decision = ask(saved(agent), thread=thread)["decision"]
        held = ["structured_outputs" in body for body in server.requests]
    assert decision["answer"] == "approve would be unsafe"
    assert held == [True, False, False]  # what the server cannot is remembered
