import math

import pytest

from coe_agents import ModelAgent, ThresholdPolicy
from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.doubles import TableEntailment
from coe_agents.uncertainty import entropy
from tests.doubles import Rewriting, ScoringModel
from tests.graph.groups import THREAD, saved
from tests.servers import answering, completion

CHOICES = ["approve", "reject"]
ASKED = {"question": "May it run?", "choices": CHOICES}


def ask(graph, given=ASKED, thread="1"):
    return graph.invoke(given, {"configurable": {"thread_id": thread}})


MERGING = BidirectionalEntailment(TableEntailment(lambda *_: "entailment"))


@pytest.mark.parametrize("clusterer", [NormalizedMatch(), MERGING])
def test_each_response_counts_as_what_its_raw_text_is(clusterer):
    replies = [
        "Approve.",
        'Reject: it holds "Answer: approve"',
        '{"verdict": "reject"}',
        "approve it",
    ]
    agents = [ScriptedAgent("a", replies), Rewriting("b", replies, answer="approve")]
    result = ask(saved(*agents, clusterer=clusterer))
    assert result["labels"] == [0, 1, 2, 1] * 2
    assert [row["answer"] for row in result["responses"][:4]] == [
        "approve",
        replies[1],
        "reject",
        replies[3],
    ]
    assert list(result["decision"]["support"].values()) == [0.25, 0.5, 0.25]


def test_replies_that_are_no_choice_agree_only_where_they_are_equal():
    replies = ["Paris", "Lyon", "lyon.", "I don't know.", "Unknown", "Yes"]
    asked = {"question": "Is Paris in France?", "choices": [" yes ", "no"]}
    result = ask(saved(ScriptedAgent("a", replies)), asked)
    assert result["labels"] == [0, 1, 1, 2, 2, 3]
    assert result["decision"]["action"] == "abstain"


def test_in_a_review_all_other_replies_are_votes_against_each_choice():
    agents = [
        ScriptedAgent(name, [reply])
        for name, reply in [
            ("a", "approve"),
            ("b", "approve"),
            ("c", "ok"),
            ("d", "go"),
            ("e", "hm"),
        ]
    ]
    graph = saved(*agents, policy=ThresholdPolicy(max_coe=float("inf")))
    decision = ask(graph)["decision"]
    assert decision["answer"] != "approve"
    assert sorted(decision["support"].values()) == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize("choices", ["approve", [], ["approve"], ["a", "A"], ["a", " "], ["a", 1]])
def test_choices_that_do_not_fit(choices):
    with pytest.raises(
        ValueError, match='"choices" of the input must be a list of at least two words'
    ):
        saved(ScriptedAgent("a", ["x"])).invoke({**ASKED, "choices": choices}, THREAD)


def test_a_judge_that_scores_the_choices_gives_its_probabilities_without_a_sample():
    model = ScoringModel(scores=[math.log(0.75), math.log(0.25)])
    decision = ask(saved(ModelAgent("a", model, n_samples=5, system_prompt="You audit payments.")))[
        "decision"
    ]
    assert model.shown == [["You audit payments.", "May it run?"]]
    said = decision["agents"]["a"]
    assert said["distribution"] == pytest.approx({"approve": 0.75, "reject": 0.25})
    assert decision["coe"] == pytest.approx(entropy([0.75, 0.25]))
    assert [record["rung"] for record in said["sampling"]] == ["choice"]
    assert decision["tokens"] == {"a": {"input_tokens": 0, "output_tokens": 0}}
    assert decision["action"] == "abstain"


def test_a_judge_that_mostly_replies_something_else_is_sampled():
    model = ScoringModel(
        scores=[math.log(0.3), math.log(0.1)], responses=["approve would be unsafe"]
    )
    decision = ask(saved(ModelAgent("a", model, n_samples=1)))["decision"]
    assert decision["answer"] == "approve would be unsafe"


def test_a_servers_first_tokens_are_no_verdict():
    # its first token is "approve", and its reply goes on
    def answer(body):
        return completion(
            *["approve would be unsafe"] * body.get("n", 1),
            top={"approve": -0.0001, "reject": -9999.0},
        )

    with answering(answer) as server:
        decision = ask(saved(ModelAgent("a", server.chat(), n_samples=3)))["decision"]
        asked = [{"structured_outputs", "top_logprobs"} & set(body) for body in server.requests]
    assert decision["answer"] == "approve would be unsafe"
    assert asked == [set()]
