import json
from dataclasses import replace

import pytest

from coe_agents.errors import ConfigurationError
from coe_agents.policy import AgentMeasurement, CalibratedPolicy, Calibration, Measurement, Policy
from coe_agents.policy.calibrated import CalibratedAgent
from coe_agents.policy.gate import FEATURES, LinearGate

AGENTS = {name: CalibratedAgent(3, 4, "frequency") for name in ("a", "b")}
CALIBRATION = Calibration(
    risk=0.2,
    confidence=0.9,
    threshold=0.3,
    n_questions=50,
    n_answered=20,
    n_wrong=1,
    bound=0.18,
    agents=AGENTS,
    clusterer="NormalizedMatch",
    correctness="reference",
    date="2026-01-01T00:00:00+00:00",
    uncertainties=(0.0, 0.3, 1.25),
)
# log-odds of being wrong: -1 + 2 * (coe - 0.5) / 0.25
GATE = LinearGate(("a", "b"), (0.5,) + (0.0,) * 7, (0.25,) + (1.0,) * 7, (2.0,) + (0.0,) * 7, -1.0)
LEARNED = replace(CALIBRATION, gate=GATE)


def measurement(coe, *, agents=("a", "b"), n_responses=3, weighting="frequency"):
    agent = AgentMeasurement(n_responses, weighting, 0.0, {"Paris": 1.0})
    return Measurement(
        coe=coe,
        aleatoric=coe,
        epistemic=0.0,
        regime="consensus",
        n_agents=len(agents),
        support=(1.0,),
        representatives=("Paris",),
        answer="Paris",
        answer_kind="answer",
        surprisal=0.0,
        agents=dict.fromkeys(agents, agent),
    )


def decide(calibration, measured, **options):
    return CalibratedPolicy(calibration, **options).decide(measured, round=0, max_rounds=1)


def test_answers_up_to_the_threshold_and_says_the_promise():
    decision = decide(CALIBRATION, measurement(0.3))
    assert (decision.action, decision.answer) == ("answer", "Paris")
    assert decision.reason == "CoE 0.300 is at most the calibrated 0.3 (risk at most 0.2 with confidence 0.9)"
    decision = decide(CALIBRATION, measurement(0.301), otherwise="escalate")
    assert (decision.action, decision.answer) == ("escalate", None)
    assert decision.reason.startswith("CoE 0.301 exceeds the calibrated 0.3 ")


def test_a_learned_gate_by_hand():
    # at CoE 0.5 the log-odds are -1: 1 / (1 + e) = 0.269; at 0.55 they are -0.6: 0.354
    assert decide(LEARNED, measurement(0.5)).reason.startswith("gate score 0.269 is at most the calibrated 0.3")
    assert decide(LEARNED, measurement(0.55)).action == "abstain"
    assert GATE.uncertainty(measurement(1e9)) == pytest.approx(1)  # no overflow


def test_equal_uncertainties_tie_whatever_their_last_digits():
    assert 0.1 + 0.2 != 0.3
    assert CALIBRATION.uncertainty(measurement(0.1 + 0.2)) == CALIBRATION.uncertainty(measurement(0.3))


def test_without_a_threshold_it_never_answers():
    decision = decide(replace(CALIBRATION, threshold=None), measurement(0.0))
    assert decision.action == "abstain"
    assert decision.reason.startswith("no threshold kept the risk at most 0.2 with confidence 0.9 on 50 calibration")


@pytest.mark.parametrize(
    ("measured", "warning"),
    [
        (measurement(0.0, agents=("a",)), "b is missing"),
        (measurement(0.0, agents=("a", "b", "c")), "c is new"),
        (measurement(0.0, n_responses=10), "a gave 10 responses, and 3 to 4 when calibrated"),
        (measurement(0.0, weighting="probability"), "a's responses count by probability, and by frequency when"),
    ],
)
def test_another_group_is_warned_of(measured, warning):
    with pytest.warns(UserWarning, match=f"the calibrated risk does not hold: {warning}"):
        assert decide(CALIBRATION, measured).action == "answer"


def test_the_same_group_is_not_warned_of():
    mixed = replace(CALIBRATION, agents=dict.fromkeys("ab", CalibratedAgent(3, 3, "mixed")))
    for calibration in (CALIBRATION, mixed):
        assert CalibratedPolicy(calibration).mismatches(measurement(0.0)) == []


def test_a_learned_gate_that_lacks_an_agent_does_not_answer():
    with pytest.warns(UserWarning, match="b is missing"):
        decision = decide(LEARNED, measurement(0.0, agents=("a",)))
    assert decision.action == "abstain"
    assert decision.reason == "the learned gate needs all its agents; b gave no response"


@pytest.mark.parametrize("calibration", [CALIBRATION, LEARNED, replace(CALIBRATION, threshold=None, bound=None)])
def test_what_is_saved_is_loaded(tmp_path, calibration):
    path = tmp_path / "policy.json"
    CalibratedPolicy(calibration).save(path)
    assert CalibratedPolicy.load(path).calibration == calibration
    assert isinstance(CalibratedPolicy.load(path), Policy)
    assert CalibratedPolicy.load(path, otherwise="escalate").otherwise == "escalate"
    assert json.loads(path.read_text())["agents"]["a"] == {
        "min_responses": 3,
        "max_responses": 4,
        "weighting": "frequency",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record | {"format": "other"}, "is no policy of the format"),
        (lambda record: [record], "is no policy of the format"),
        (lambda record: {k: v for k, v in record.items() if k != "risk"}, "is damaged"),
        (lambda record: record | {"risk": "low"}, 'is damaged: "risk" must be a number'),
        (lambda record: record | {"risk": 1.5}, "is damaged: .*must be above 0 and below 1"),
        (lambda record: record | {"threshold": -1}, '"threshold" must be at least 0 or null'),
        (lambda record: record | {"threshold": float("nan")}, '"threshold" must be at least 0 or null; it is nan'),
        (lambda record: record | {"mood": 1}, "is damaged: .*mood"),
        (lambda record: record | {"agents": {"a": {"n": 3}}}, "is damaged"),
        (lambda record: record | {"agents": [1]}, "is damaged"),
        (lambda record: record | {"gate": record["gate"] | {"means": [0.0]}}, "must have 8 means"),
        (lambda record: record | {"gate": record["gate"] | {"scales": [0.0] * 8}}, "scales above 0"),
        (lambda record: record | {"uncertainties": 3}, "is damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, change, message):
    path = tmp_path / "policy.json"
    CalibratedPolicy(LEARNED).save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ConfigurationError, match=f"policy.json.*{message}"):
        CalibratedPolicy.load(path)


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "cut.json").write_text('{"format"')
    for name in ("none.json", "cut.json"):
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read"):
            CalibratedPolicy.load(tmp_path / name)


def test_otherwise_must_be_another_action():
    for otherwise in ("answer", "guess"):
        with pytest.raises(ValueError, match='"otherwise" of CalibratedPolicy must be'):
            CalibratedPolicy(CALIBRATION, otherwise=otherwise)


def test_a_gate_has_as_many_numbers_as_features():
    assert len(GATE.means) == len(FEATURES) + 2
