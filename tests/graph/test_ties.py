import random

from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents import RegimePolicy, ThresholdPolicy
from coe_agents.graph.nodes.escalation import candidates
from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent
from tests.clustering.test_responses import WithinOne
from tests.graph.groups import Deciding, decide
from tests.policy.test_ties import assert_equal


def two_by_two(names="abcd"):
    return [
        ScriptedAgent(name, [text])
        for name, text in zip(names, ["Paris", "Paris", "Lyon", "Lyon"], strict=True)
    ]


def test_a_tie_is_not_answered_whatever_the_policy():
    for policy, action in (
        (ThresholdPolicy(float("inf"), otherwise="escalate"), "escalate"),
        (ThresholdPolicy(float("inf"), otherwise="another_round"), "abstain"),
        (Deciding(Decision("answer")), "abstain"),
        (Deciding(Decision("answer", "Metz"), otherwise="escalate"), "escalate"),
    ):
        decision = decide(*two_by_two(), policy=policy)
        assert decision["action"] == action
        assert decision["answer"] is None
        assert decision["tied"] == ["Lyon", "Paris"]
        assert decision["cause"] in ("tie", "rounds")


def test_who_decides_after_an_escalation_may_choose_between_the_tied():
    cases = []

    def rule(case):
        cases.append(case)
        return {
            "action": "answer",
            "answer": case["candidates"][1]["answer"],
            "reason": "looked up",
        }

    for names in ("abcd", "dcba", "bdac"):
        policy = ThresholdPolicy(float("inf"), otherwise="escalate")
        decision = decide(*two_by_two(names), policy=policy, escalation=rule)
        assert decision["action"] == "answer"
        assert decision["answer"] == "Paris"
        assert [one["answer"] for one in candidates(decision)] == ["Lyon", "Paris"]
    assert [[one["answer"] for one in case["candidates"]] for case in cases] == [
        ["Lyon", "Paris"]
    ] * 3


def told(decision, names):
    """The decision under the agents' old names."""

    def renamed(data, *keys):
        return data | {
            key: {names[name]: value for name, value in data[key].items()} for key in keys
        }

    found = renamed(decision, "agents", "tokens", "failed_agents")
    found["trajectory"] = [
        renamed(data, "leading", "entropies", "flips", "adopted") for data in found["trajectory"]
    ]
    for name, old in names.items():
        found["reason"] = found["reason"].replace(name, old)
    return found


@settings(max_examples=8)
@given(
    st.lists(st.lists(st.sampled_from("1234"), min_size=1, max_size=3), min_size=2, max_size=4),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_what_agents_are_called_changes_no_field_of_a_decision(said, is_weighted, seed):
    shuffle = random.Random(seed)
    old = [f"<{place}>" for place in range(len(said))]
    new = [f"<new {place}>" for place in shuffle.sample(range(len(said)), len(said))]
    decisions = []
    for names in (old, new):
        agents = [
            ScriptedAgent(name, texts, weight=1.0 + place * is_weighted)
            for place, (name, texts) in enumerate(zip(names, said, strict=True))
        ]
        shuffle.shuffle(agents)
        policy = RegimePolicy(
            0.5, 0.3, actions={"conflict": "another_round", "unknown": "another_round"}
        )
        options = {
            "clusterer": WithinOne(),
            "max_rounds": 2,
            "strategies": {"conflict": "resample"},
        }
        decisions.append(decide(*agents, policy=policy, **options))
    first, second = decisions
    assert_equal(
        told(first, dict(zip(old, old, strict=True))),
        told(second, dict(zip(new, old, strict=True))),
    )
