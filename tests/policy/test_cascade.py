import pytest

from coe_agents import create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.policy import CascadePolicy, Policy, StagedPolicy, measure
from coe_agents.testing import ScriptedAgent, create_response

STAGES = [["small"], ["large", "larger"]]


def measured(**said):
    rows = [create_response(name, text, index=i) for name, texts in said.items() for i, text in enumerate(texts)]
    texts = list(dict.fromkeys(row["text"] for row in rows))
    return measure(rows, [texts.index(row["text"]) for row in rows])


def decide(policy, measurement, round=0):
    return policy.decide(measurement, round=round, max_rounds=2)


def test_each_stage_has_its_own_threshold():
    policy = CascadePolicy(STAGES, [0.1, 0.7])
    assert isinstance(policy, Policy)
    assert isinstance(policy, StagedPolicy)
    split = measured(small=["Paris", "Paris", "Lyon"])  # ln 3 - 2/3 ln 2 = 0.637 nats
    assert decide(policy, measured(small=["Paris", "Paris"])).action == "answer"
    widened = decide(policy, split)
    assert (widened.action, widened.strategy) == ("another_round", "widen")
    assert widened.reason.endswith("exceeds 0.1 nats of stage 1 of 2")
    assert decide(policy, split, round=1).answer == "Paris"


def test_a_tie_and_a_refusal_go_on_to_the_next_stage_and_then_to_otherwise():
    policy = CascadePolicy(STAGES, [9.0, 9.0], otherwise="escalate")
    for measurement in (measured(small=["Paris", "Lyon"]), measured(small=["I don't know.", "I don't know."])):
        assert decide(policy, measurement).action == "another_round"
        assert decide(policy, measurement, round=1).action == "escalate"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], []), "lists of at least one name"),
        ((["small"], [0.1]), "lists of at least one name"),
        (([["a"], []], [0.1, 0.1]), "lists of at least one name"),
        (([["a"], ["a"]], [0.1, 0.1]), "must name each agent once"),
        (([["a"]], [0.1, 0.2]), "one for each of 1 stages; got 2"),
        (([["a"]], [-1.0]), ", in nats, must be a number of at least 0"),
    ],
)
def test_mistakes(arguments, said):
    with pytest.raises(ValueError, match=said):
        CascadePolicy(*arguments)
    with pytest.raises(ValueError, match="Add a stage"):
        CascadePolicy(STAGES, [0.1, 0.1], otherwise="another_round")


def graph(thresholds=(0.1, 0.7), *, small=("Paris", "Lyon", "Rome"), max_rounds=2, stages=STAGES, **more):
    agents = [ScriptedAgent(name, ["Paris"] * 3) for name in ("larger", "large")]
    agents.insert(1, ScriptedAgent("small", list(small)))
    policy = CascadePolicy(stages, thresholds)
    options = {"clusterer": NormalizedMatch(), "policy": policy, "max_rounds": max_rounds, **more}
    return create_coe_graph(agents, **options).compile()


def test_the_graph_asks_the_first_stage_alone_and_more_agents_only_in_doubt():
    sure = graph(small=["Paris"] * 3).invoke({"question": "Which?"})["decision"]
    assert (sure["action"], sure["n_rounds"], set(sure["agents"])) == ("answer", 1, {"small"})
    unsure = graph().invoke({"question": "Which?"})
    decision = unsure["decision"]
    assert (decision["n_rounds"], set(decision["agents"])) == (2, {"small", "large", "larger"})
    assert [data["strategy"] for data in decision["trajectory"]] == [None, "widen"]
    assert [response["round"] for response in unsure["responses"] if response["agent"] == "small"] == [0] * 3
    assert [response["round"] for response in unsure["responses"] if response["agent"] == "large"] == [1] * 3
    # each agent's responses are asked for once
    assert {name: agent["n_responses"] for name, agent in decision["agents"].items()} == dict.fromkeys(
        ("small", "large", "larger"), 3
    )


async def test_it_is_the_same_asynchronously():
    decision = (await graph().ainvoke({"question": "Which?"}))["decision"]
    assert (decision["n_rounds"], len(decision["agents"])) == (2, 3)


def test_a_majority_of_the_agents_asked_so_far_must_answer():
    decision = graph(small=["Paris"] * 3, min_agents=2).invoke({"question": "Which?"})["decision"]
    assert decision["action"] == "answer"


def test_a_context_may_leave_agents_out_of_a_stage():
    decision = graph().invoke({"question": "Which?"}, context={"agents": ["small", "large"]})["decision"]
    assert set(decision["agents"]) == {"small", "large"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"weights": {"small": 0.0, "large": 1.0, "larger": 1.0}},
            "begin with an agent of a weight above 0; got small",
        ),
        ({"max_rounds": 1}, "at least the number of stages, 2; got 1"),
        ({"stages": [["small"], ["large"]]}, "must name each agent of the graph once"),
        ({"stages": [["small"], ["large", "larger", "huge"]]}, "must name each agent of the graph once"),
    ],
)
def test_the_stages_must_fit_the_graph(more, said):
    with pytest.raises(ValueError, match=said):
        graph(**more)
