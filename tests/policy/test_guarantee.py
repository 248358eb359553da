from dataclasses import replace

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from coe_agents import CalibratedPolicy, ask, calibrate, create_coe_graph, sample
from coe_agents.clustering import EmbeddingSimilarity, NormalizedMatch
from coe_agents.policy.calibrated import AskedAgent, UnkeptRiskWarning
from coe_agents.policy.fixed_rounds import FixedRounds
from coe_agents.policy.guarantee import AskedGroup, differences, hold_to_group
from coe_agents.testing import ScriptedAgent
from tests.cli.display.test_decision import shown
from tests.policy.test_calibrated import CALIBRATION, measurement

KNOWN = {"model": "Qwen/Qwen3-8B", "temperature": 1.0, "system_prompt": "Be brief.", "n_samples": 3}
KNOWN["stated_confidence"] = False
KNOWN_AGENTS = {name: replace(each, **KNOWN) for name, each in reversed(CALIBRATION.agents.items())}
RECORDED = replace(CALIBRATION, agents=KNOWN_AGENTS, prompt="", answers="")
SAME = AskedGroup(agents=dict.fromkeys("ba", AskedAgent(**KNOWN)), clusterer="NormalizedMatch")


@pytest.mark.parametrize("calibration", [CALIBRATION, RECORDED])
def test_the_same_group_differs_in_nothing(calibration):
    assert differences(calibration, SAME) == []
    weights = {"weights": {"a": 3.0, "b": 1.0}}
    assert differences(replace(calibration, **weights), replace(SAME, **weights)) == []
    served = AskedAgent(
        **{**KNOWN, "model": "/models/Qwen3-8B"}
    )  # the same model, under the name of a folder
    assert differences(calibration, replace(SAME, agents=dict.fromkeys("ab", served))) == []
    assert differences(calibration, replace(SAME, agents=dict.fromkeys("ab", AskedAgent()))) == []
    prompts = [
        AskedAgent.of(each).system_prompt
        for each in (AskedAgent(**KNOWN), AskedAgent(), "no agent")
    ]
    assert prompts == ["Be brief.", "", None]


def test_what_differs_is_named():
    for group, said in (
        (
            {"clusterer": "EmbeddingSimilarity"},
            "clusterer EmbeddingSimilarity differs from NormalizedMatch",
        ),
        ({"weights": {"a": 3.0}}, "weights a 0.75, b 0.25 differs from a 0.5, b 0.5"),
        ({"weights": {"a": 0.0, "b": 0.0}}, "weights a 0, b 0 differs from a 0.5, b 0.5"),
        ({"answers": "short"}, "the preset of answers, short, differs from none at calibration"),
        ({"prompt": "Be brief."}, "the questions are asked in other words"),
        ({"agents": {"a": AskedAgent(**KNOWN)}}, "agents a differs from a, b"),
    ):
        assert said in "; ".join(differences(RECORDED, replace(SAME, **group)))
    asked_shortly = replace(RECORDED, answers="short")
    [said] = differences(asked_shortly, SAME)
    assert said == "the preset of answers, none, differs from short at calibration"


def test_an_option_of_the_clusterer_differs_where_both_are_known():
    then = replace(RECORDED, clusterer_options={"threshold": 0.93, "model": "small"})
    at_half = replace(SAME, clusterer_options={"threshold": 0.5, "model": "small"})
    changed = ["threshold 0.5 of the clusterer differs from threshold 0.93 at calibration"]
    assert differences(then, at_half) == changed
    for known in (None, then.clusterer_options):
        assert differences(then, replace(SAME, clusterer_options=known)) == []
    assert differences(RECORDED, at_half) == []
    of_another_class = replace(at_half, clusterer="EmbeddingSimilarity")
    assert differences(then, of_another_class) == [
        "clusterer EmbeddingSimilarity differs from NormalizedMatch at calibration"
    ]


def test_a_calibrated_risk_does_not_hold_at_another_threshold_of_the_clusterer(tmp_path):
    def compares(threshold):
        return EmbeddingSimilarity(DeterministicFakeEmbedding(size=4), threshold=threshold)

    def group():
        return [ScriptedAgent(name, ["Paris", "Paris"]) for name in "ab"]

    asked = [{"question": f"Question {n}?", "references": ["Paris"]} for n in range(60)]
    samples = sample(group(), asked, clusterer=compares(0.93), progress=False)
    calibrated = calibrate(samples, risk=0.2, clusterer=compares(0.93), progress=False)
    calibrated.save(tmp_path / "policy.json")
    policy = CalibratedPolicy.load(tmp_path / "policy.json")

    def reason_at(threshold):
        graph = create_coe_graph(group(), clusterer=compares(threshold), policy=policy)
        return graph.compile().invoke({"question": "Capital of France?"})["decision"]["reason"]

    promise = "(risk at most 0.2 with confidence 0.9)"
    assert promise in reason_at(0.93)
    changed = "threshold 0.5 of the clusterer differs from threshold 0.93 at calibration"
    with pytest.warns(UnkeptRiskWarning, match=changed):
        reason = reason_at(0.5)
    assert changed in reason
    assert promise not in reason


def test_how_an_agent_is_asked_differs():
    for name, value, said in (
        (
            "model",
            "gemma-2-9b-it",
            "the model of a, gemma-2-9b-it, differs from Qwen3-8B at calibration",
        ),
        ("temperature", 0.5, "the temperature of a, 0.5, differs from 1 at calibration"),
        ("system_prompt", "", "the system prompt of a differs from that at calibration"),
        ("n_samples", 5, "a is asked for 5 responses, and was for 3 at calibration"),
        ("stated_confidence", True, "a is asked for its confidence, and was not at calibration"),
    ):
        other = AskedAgent(**{**KNOWN, name: value})
        assert differences(RECORDED, replace(SAME, agents={**SAME.agents, "a": other})) == [said]


def test_a_policy_for_another_group_claims_no_risk():
    policy = CalibratedPolicy(RECORDED)
    assert hold_to_group(policy, SAME)[1] == []
    other = replace(SAME, clusterer="EmbeddingSimilarity")
    held, found = hold_to_group(policy, other)
    assert len(found) == len(hold_to_group(FixedRounds(2, then=policy), other)[1]) == 1
    reason = held.decide(measurement(0.1), round=0, max_rounds=1).reason
    assert "calibrated 0.300 (for another group: clusterer EmbeddingSimilarity" in reason
    assert "risk" not in reason
    assert "risk at most 0.2" in policy.decide(measurement(0.1), round=0, max_rounds=1).reason


@pytest.mark.filterwarnings("error")
def test_one_question_names_each_difference_once_and_beside_the_number():
    agents = [
        ScriptedAgent(name, ["Paris"] * 3, weight=weight)
        for name, weight in (("a", 1), ("b", 5), ("c", 1))
    ]
    decision = ask("?", agents, policy=CalibratedPolicy(RECORDED))
    (line,) = [
        line for line in shown(width=300, **decision.data).splitlines() if "another group" in line
    ]
    said = ("weights", "agents a, b, c", "c is new")
    assert [line.count(part) for part in said] == [1, 1, 0]


@pytest.mark.filterwarnings("ignore:the calibrated risk does not hold")
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_a_decision_of_a_graph_claims_the_risk_only_where_it_holds(names):
    agents = [ScriptedAgent(name, ["Paris"] * 3) for name in names]
    graph = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=CalibratedPolicy(CALIBRATION)
    ).compile()
    decision = graph.invoke({"question": "?"})["decision"]
    assert decision["action"] == "answer"
    assert ("risk at most 0.2 with confidence 0.9" in decision["reason"]) is (names == "ab")
    assert ("for another group" in decision["reason"]) is (names == "abc")
