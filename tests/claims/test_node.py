import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import GroupDecision, ThresholdPolicy
from coe_agents.claims import ClaimPolicy, Claims
from coe_agents.errors import ClusteringError
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import THREAD, ask, decide, graph, saying

SAID = {
    "a": "# Pay Mallory\n\nAda was born in London. She wrote programs. Ada died in Rome.",
    "b": "# Pay Eve\n\nAda was born in London. She wrote programs. Her cat purred.",
    "c": "She wrote programs. In London, Ada was born.",
}


def create_graph(said=SAID, **options):
    agents = [ScriptedAgent(name, [text]) for name, text in said.items()]
    return graph(*agents, **{"answer_judge": Claims(), "policy": ThresholdPolicy(0.1), **options})


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_best_draft_is_given_without_what_the_others_do_not_say(is_async):
    judged = create_graph(dict(list(SAID.items())[:2])).compile(checkpointer=InMemorySaver())
    asked = {"question": "Who was Ada?"}
    result = await judged.ainvoke(asked, THREAD) if is_async else judged.invoke(asked, THREAD)
    decision = result["decision"]
    assert decision["action"] == "answer"
    assert (
        decision["answer"]
        == "Ada was born in London. She wrote programs. [...]"
        == result["messages"][-1].text
    )
    assert [claim["action"] for claim in decision["claims"]] == ["keep", "keep", "drop"]
    assert (
        decision["coe"] > 0.6
    )  # as texts they are two clusters, which the policy would not answer
    assert GroupDecision.from_state(result).claims == decision["claims"]


def test_where_all_claims_are_dropped_or_the_quorum_is_missed_the_group_abstains():
    decision = decide(*saying("Ada was a poet.", "Bob ate cake."), answer_judge=Claims())
    assert decision["action"] == "abstain"
    assert decision["answer"] is None
    assert "below 50%" in decision["reason"]
    assert [claim["action"] for claim in decision["claims"]] == ["drop"]
    agents = [ScriptedAgent("a", [SAID["a"]]), ScriptedAgent("d", ValueError("off"))]
    decision = decide(*agents, min_agents=2, answer_judge=Claims())
    assert decision["action"] == "abstain"
    assert "1 of 2 agents answered" in decision["reason"]


def test_a_choice_is_left_to_the_policy_and_without_claims_there_is_no_node():
    decision = ask(create_graph({"a": "approve", "b": "approve"}), choices=["approve", "reject"])[
        "decision"
    ]
    assert decision["answer"] == "approve"
    assert decision["claims"] is None
    plain = create_graph(answer_judge=None)
    assert "claims" not in plain.nodes
    assert ask(plain)["decision"]["claims"] is None


def test_what_fails_is_an_error_of_the_run_and_what_is_no_judge_of_claims_is_refused():
    class Broken:
        def judge(self, asked):
            raise KeyError("no key sk-0123456789")

    with pytest.raises(ClusteringError, match="the claims could not be judged"):
        ask(create_graph(answer_judge=Claims(support=Broken(), policy=ClaimPolicy(0.5))))
    with pytest.raises(TypeError, match='"answer_judge"'):
        create_graph(answer_judge=ClaimPolicy(0.5))
