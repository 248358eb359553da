import pytest

from coe_agents import RegimePolicy
from coe_agents.policy import Decision
from coe_agents.rounds import RoundPlan
from tests.doubles import ScriptedAgent
from tests.graph import groups
from tests.graph.groups import Deciding, ask, both, saying

AGAIN = RegimePolicy(
    0.5, 0.3, actions=dict.fromkeys(("conflict", "ambiguous", "unknown"), "another_round")
)


def graph(*agents, **options):
    return groups.graph(*agents, **{"policy": AGAIN, "max_rounds": 2, **options})


def three(*, c=()):
    """Three agents that say one thing a round, Paris, Paris, and Lyon; the third may change its mind."""
    return [*saying("Paris", "Paris"), ScriptedAgent("c", *([text] for text in ("Lyon", *c)))]


def test_a_debate_shows_the_answers_and_its_responses_replace_the_former_ones():
    agents = three(c=["Paris"])
    result = both(graph(*agents), {"question": "Q?"})
    for agent in agents:
        assert agent.requests[1]["question"] == "Q?"
        lines = agent.requests[1]["messages"][-1]["content"].splitlines()
        assert sorted(lines[2:4]) == [
            '<answer support="33%">Lyon</answer>',
            '<answer support="67%">Paris</answer>',
        ]
    decision = result["decision"]
    assert decision["action"] == "answer"
    assert decision["answer"] == "Paris"
    assert decision["coe"] == 0
    assert [row["round"] for row in result["responses"]] == [1, 1, 1]
    assert result["labels"] == [0, 0, 0]
    former = [(row["round"], row["text"]) for row in result["former_responses"]]
    assert former == [(0, "Paris"), (0, "Paris"), (0, "Lyon")]
    assert decision["tokens"]["a"] == {"input_tokens": 6, "output_tokens": 2}  # of both rounds


def test_a_quorum_lost_in_a_debate_abstains_and_nothing_former_passes_for_an_answer():
    agents = three()
    for agent in agents[1:]:
        agent.rounds = (*agent.rounds, OSError("gone"))
    result = ask(graph(*agents))
    assert result["decision"]["action"] == "abstain"
    assert result["decision"]["reason"] == "1 of 3 agents answered, but 2 must; missing: b, c"
    assert len(result["former_responses"]) == 3
    agents[0].rounds = (["Paris"], OSError("gone"))
    dead = ask(graph(*agents))["decision"]
    assert dead["coe"] is None
    assert [data["coe"] is None for data in dead["trajectory"]] == [False, True]


def test_a_strategy_of_a_users_own_sees_the_context_and_may_leave_agents_out():
    seen = []

    def only_c(context):
        seen.append(context)
        return RoundPlan(
            {"c": {"messages": context.rephrase("Really?"), "n_samples": 7, "temperature": 0.5}}
        )

    agents = three(c=["Paris"])
    decision = ask(graph(*agents, strategies={"conflict": only_c}))["decision"]
    assert seen[0].question == "Q?"
    assert seen[0].round == 1
    assert seen[0].n_responses == {"a": 1, "b": 1, "c": 1}
    assert seen[0].measurement.regime == "conflict"
    asked = {"question": "Q?", "messages": [{"role": "user", "content": "Really?"}], "round": 1}
    assert agents[2].requests[1] == {**asked, "n_samples": 7, "temperature": 0.5}
    assert len(agents[0].requests) == 1
    assert decision["trajectory"][1]["strategy"] == "only_c"
    assert decision["agents"]["c"]["n_responses"] == 2
    naming = Deciding(Decision("another_round", None, "as told", strategy="argue"))
    with pytest.raises(ValueError, match="got 'argue'"):
        ask(graph(*three(), policy=naming))
