import json
import math
import re
from dataclasses import replace

import pytest

from coe_agents.errors import ConfigurationError
from coe_agents.policy import CalibratedPolicy, Policy
from coe_agents.policy.calibrated import CalibratedAgent, Calibration
from coe_agents.policy.learned_gates import LearnedGate
from coe_agents.policy.measurement import AgentMeasurement
from tests.policy.measurements import measured

AGENTS = {name: CalibratedAgent(3, 4, "frequency") for name in ("a", "b")}
FOUND = {"threshold": 0.3, "n_questions": 50, "n_answered": 20, "n_wrong": 1, "bound": 0.18}
ASKED = {"agents": AGENTS, "clusterer": "NormalizedMatch", "correctness": "reference"}
DRAWN = {"date": "2026-01-01T00:00:00+00:00", "uncertainties": (0.0, 0.3, 1.25)}
CALIBRATION = Calibration(risk=0.2, confidence=0.9, **FOUND, **ASKED, **DRAWN)
GATE = LearnedGate(("a", "b"), (0.75, 0.25), 1.5, (0.5, -0.5), -1.0)
LEARNED = replace(CALIBRATION, gate=GATE, fit="folds")
HUGE = 10**400
WRITES_ONE = '"coe-agents calibrate SAMPLES... --out FILE" writes one'


def measurement(coe, *, agents=("a", "b"), n_responses=3, weighting="frequency"):
    agent = AgentMeasurement(n_responses, weighting, 0.0, {"Paris": 1.0})
    named = dict.fromkeys(agents, agent)
    return measured(aleatoric=coe, n_agents=len(agents), representatives=("Paris",), agents=named)


def decide(calibration, measured, **options):
    return CalibratedPolicy(calibration, **options).decide(measured, round=0, max_rounds=1)


def test_answers_up_to_the_threshold_and_says_the_promise_in_words_of_its_score():
    decision = decide(CALIBRATION, measurement(0.3))
    assert (decision.action, decision.answer) == ("answer", "Paris")
    assert decision.reason == "CoE 0.300 is at most the calibrated 0.300 (risk at most 0.2 with confidence 0.9)"
    decision = decide(CALIBRATION, measurement(0.301), otherwise="escalate")
    assert (decision.action, decision.answer) == ("escalate", None)
    assert decision.reason.startswith("CoE 0.301 is above the calibrated 0.300 ")
    assert decide(CALIBRATION, measurement(0.3 + 1e-9)).action == "answer"  # equal within rounding only
    assert decide(CALIBRATION, measurement(0.3 + 1e-8)).action == "abstain"
    numbered = replace(divided(a=0.2, b=0.3), representatives=("Rome", "Rome (1)"), answer="Rome")
    assert CALIBRATION.answer(numbered) == "Rome"
    in_words = replace(CALIBRATION, score="vote_share").limit_in_words
    assert in_words(0.694) == "vote share is at least 0.306"
    assert in_words(0.694, 0.065) == "vote share 0.935 is at least the calibrated 0.306"
    assert in_words(0.694, 0.6941) == "vote share 0.305900 is below the calibrated 0.306000"


def divided(**agents):
    """A measurement of agents of equal weight, each with its probability of "Paris", the rest on "Rome"."""
    distributions = {name: {"Paris": p, "Rome": 1.0 - p} for name, p in agents.items()}
    mean = sum(agents.values()) / len(agents)
    tied = ("Paris", "Rome") if abs(mean - 0.5) < 1e-9 else ()
    return replace(
        measurement(0.1, agents=tuple(agents)),
        support=(mean, 1.0 - mean),
        representatives=("Paris", "Rome"),
        answer="Paris" if mean >= 0.5 - 1e-9 else "Rome",
        tied=tied,
        agents={name: AgentMeasurement(3, "frequency", 0.0, own) for name, own in distributions.items()},
    )


def trusting(*weights, slope=0.0, deviations=(0.0, 0.0), intercept=-5.0):
    gate = LearnedGate(("a", "b"), weights, slope, deviations, intercept)
    return replace(CALIBRATION, gate=gate, fit="folds")


def test_a_tie_another_divergence_and_what_has_no_threshold_are_never_answered():
    decision = decide(CALIBRATION, divided(a=1.0, b=0.0), otherwise="escalate")
    assert (decision.action, decision.answer) == ("escalate", None)
    assert decision.reason == "the leading answers tie: 'Paris', 'Rome'"
    assert decide(trusting(0.5, 0.5), divided(a=1.0, b=0.0)).action == "abstain"
    decision = decide(CALIBRATION, replace(measurement(0.0), divergence="js"))
    assert (decision.action, decision.answer) == ("abstain", None)
    assert decision.reason == 'calibrated with the divergence "kl", but measured with "js"'
    assert decide(replace(CALIBRATION, divergence="js"), replace(measurement(0.0), divergence="js")).action == "answer"
    decision = decide(replace(CALIBRATION, threshold=None), measurement(0.0))
    assert decision.action == "abstain"
    assert decision.reason.startswith("no threshold kept the risk at most 0.2 with confidence 0.9 on 50 calibration")


def test_learned_weights_choose_the_answer_and_break_ties():
    for weights, answer in (((0.6, 0.4), "Paris"), ((0.4, 0.6), "Rome")):
        decision = decide(trusting(*weights), divided(a=1.0, b=0.0))
        assert (decision.action, decision.answer, decision.trusted_answer) == ("answer", answer, True)
    # the mean favours Rome (0.4 against 0.6), the weights Paris (0.56 against 0.44)
    decision = decide(trusting(0.7, 0.3), divided(a=0.8, b=0.0))
    assert decision.answer == "Paris"
    # a tie of the weights, not of the mean: 0.7 * 0.5 + 0.3 * 0.5
    assert decide(trusting(0.25, 0.75), divided(a=0.8, b=0.4)).action == "abstain"
    assert not decide(CALIBRATION, divided(a=0.8, b=0.6)).trusted_answer


def test_the_weights_of_the_calibration_are_those_that_a_graph_must_have(tmp_path):
    policy = CalibratedPolicy(replace(CALIBRATION, weights={"a": 0.5, "b": 1.0}))
    # a is right with 1, b with 0.1: (0.5 + 0.1) / 1.5 = 0.4
    weighed = replace(divided(a=1.0, b=0.1), support=(0.4, 0.6))
    assert policy.mismatches(weighed) == []
    (said,) = policy.mismatches(replace(weighed, support=(0.55, 0.45)))
    assert said == "the agents have other weights than when calibrated"
    policy.save(tmp_path / "p.json")
    assert CalibratedPolicy.load(tmp_path / "p.json").calibration.weights == {"a": 0.5, "b": 1.0}
    with pytest.raises(ValueError, match='"weights" must hold'):
        replace(CALIBRATION, weights={"a": 0.0})


def test_a_new_learned_gate_by_hand_and_without_one_of_its_agents():
    # the weighted mean is (0.75, 0.25): H_3 = -log(28 / 64) / 2; support of Paris 1.0 and 0.5, deviations +-0.25
    calibration = trusting(0.5, 0.5, slope=2.0, deviations=(-1.0, 3.0), intercept=0.5)
    log_odds = 0.5 + 2.0 * math.log(1.0 - math.log(28 / 64) / 2) + 0.25 * -1.0 + -0.25 * 3.0
    assert calibration.uncertainty(divided(a=1.0, b=0.5)) == pytest.approx(1 / (1 + math.exp(-log_odds)))
    # unanimous: the entropy is 0, not -0, and its logarithm finite
    assert calibration.uncertainty(divided(a=1.0, b=1.0)) == pytest.approx(1 / (1 + math.exp(-0.5)))
    with pytest.warns(UserWarning, match="b is missing"):
        decision = decide(LEARNED, measurement(0.0, agents=("a",)))
    assert decision.action == "abstain"
    assert decision.reason == "the learned gate needs all its agents; b gave no response"
    with pytest.warns(UserWarning, match="a is missing; b is missing; c is new"):
        decision = decide(LEARNED, measurement(0.0, agents=("c",)))
    assert decision.reason == "the learned gate needs all its agents; a, b gave no response"


UNREACHED = replace(CALIBRATION, threshold=None, bound=None)
HALVES = replace(LEARNED, fit="halves", n_ties=3, divergence="js")


@pytest.mark.parametrize("calibration", [CALIBRATION, LEARNED, UNREACHED, HALVES])
def test_what_is_saved_is_loaded(tmp_path, calibration):
    path = tmp_path / "policy.json"
    CalibratedPolicy(calibration).save(path)
    assert CalibratedPolicy.load(path).calibration == calibration
    assert isinstance(CalibratedPolicy.load(path), Policy)
    assert CalibratedPolicy.load(path, otherwise="escalate").otherwise == "escalate"
    asked = dict.fromkeys(["model", "temperature", "system_prompt", "n_samples", "stated_confidence"])
    counts = {"min_responses": 3, "max_responses": 4, "weighting": "frequency"}
    assert json.loads(path.read_text())["agents"]["a"] == counts | asked


@pytest.mark.parametrize(("calibration", "score"), [(CALIBRATION, "coe"), (LEARNED, "learned")])
def test_a_file_of_a_version_without_scores_is_read(calibration, score, tmp_path):
    path = tmp_path / "policy.json"
    CalibratedPolicy(calibration).save(path)
    record = json.loads(path.read_text())
    assert record.pop("score") == score
    path.write_text(json.dumps(record))
    assert CalibratedPolicy.load(path).calibration == calibration


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record | {"format": "other"}, "is not a policy of the format"),
        (lambda record: {k: v for k, v in record.items() if k != "risk"}, "is damaged"),
        (lambda record: record | {"risk": "low"}, 'is damaged: "risk" must be a number above 0'),
        (lambda record: record | {"threshold": HUGE}, '"threshold" must be a finite .*; got 1000'),
        (lambda record: record | {"threshold": 50.0}, '"threshold" must be at most the highest of "uncertainties"'),
        (lambda record: record | {"uncertainties": [0.4, 0.1]}, '"uncertainties" must rise'),
        (lambda record: record | {"n_ties": 51}, 'is damaged: "n_ties" must be at most "n_questions"; got 51'),
        (lambda record: record | {"bound": None}, '"bound" belongs to a "threshold"'),
        (lambda record: record | {"gate": record["gate"] | {"agents": "ab"}}, "must be a list of names; got .ab"),
        (lambda record: record | {"gate": record["gate"] | {"agents": ["a", "a"]}}, '"agents" of the gate must be'),
    ],
)
def test_a_damaged_file_is_named(tmp_path, change, message):
    path = tmp_path / "policy.json"
    CalibratedPolicy(LEARNED).save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ConfigurationError, match=f"policy.json.*{message}") as caught:
        CalibratedPolicy.load(path)
    assert caught.value.hint == WRITES_ONE


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "cut.json").write_text('{"format"')
    for name in ("none.json", "cut.json"):
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read") as caught:
            CalibratedPolicy.load(tmp_path / name)
        assert caught.value.hint == WRITES_ONE


def test_otherwise_must_be_another_action():
    for otherwise in ("answer", "guess"):
        with pytest.raises(ValueError, match='"otherwise" of CalibratedPolicy must be'):
            CalibratedPolicy(CALIBRATION, otherwise=otherwise)
    with pytest.raises(ValueError, match=r"To answer more, calibrate at a higher risk$"):
        CalibratedPolicy(CALIBRATION, otherwise="answer")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"risk": 0.0}, '"risk" must be a number above 0 and below 1; got 0.0. Pass a share such as 0.1'),
        ({"confidence": 1}, '"confidence" must be a number above 0 and below 1; got 1. Pass a share'),
        ({"threshold": -1e-9}, '"threshold" must be a finite number of at least 0; got -1e-09. Calibrate again'),
        ({"bound": 1.001}, '"bound" must be a number in [0, 1]; got 1.001. Calibrate again'),
        ({"n_wrong": 21}, '"n_wrong" must be at most "n_answered", and that at most "n_questions"; got [21, 20, 50]'),
        ({"n_answered": -1}, '"n_answered" must be an integer of at least 0; got -1'),
        ({"uncertainties": (0.1, math.inf)}, '"uncertainties" must be a list of finite numbers; got (0.1, inf)'),
        ({"clusterer": None}, '"clusterer" must be a string; got NoneType'),
        ({"fit": "thirds"}, "\"fit\" must be one of folds, halves, None; got 'thirds'"),
        ({"risk": 10**5000}, '"risk" must be a number above 0 and below 1; got a huge number. Pass a share'),
        ((0, 4, "frequency"), '"min_responses" must be an integer of at least 1; got 0. Calibrate again'),
        ((3, 4, "auto"), "\"weighting\" must be one of frequency, probability, mixed; got 'auto'"),
        ((3, 4.0, "mixed"), '"max_responses" must be an integer of at least 3; got 4.0'),
    ],
)
def test_a_calibration_or_an_agent_of_it_is_refused(fields, message):
    counts = ({"n_wrong": 0, "n_answered": 0, "n_questions": 0}, {"n_wrong": 50, "n_answered": 50})
    for passes in ({"threshold": 0.0, "bound": 0.0}, {"bound": 1.0}, {"fit": "halves"}, *counts):
        replace(CALIBRATION, **passes)
    for passes in ((1, 1, "frequency"), (1, 2, "probability"), (3, 3, "mixed")):
        CalibratedAgent(*passes)
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        CalibratedAgent(*fields) if isinstance(fields, tuple) else replace(CALIBRATION, **fields)


def test_what_is_no_answer_cannot_be_answered():
    assert CALIBRATION.can_answer(measurement(0.1))
    for kind in ("refusal", "empty"):
        assert not CALIBRATION.can_answer(replace(measurement(0.1), answer_kind=kind))
    assert not CALIBRATION.can_answer(divided(a=1.0, b=0.0))
    # Rome leads, but the weights favour what is no answer
    said = {"a": {"I don't know.": 0.8, "Rome": 0.2}, "b": {"Rome": 1.0}}
    agents = {name: AgentMeasurement(3, "frequency", 0.0, own) for name, own in said.items()}
    refusing = replace(divided(a=0.8, b=0.0), representatives=("I don't know.", "Rome"), agents=agents)
    assert trusting(0.7, 0.3).answer(refusing) == "I don't know."
    assert not trusting(0.7, 0.3).can_answer(refusing)
    assert trusting(0.3, 0.7).can_answer(refusing)


def test_all_differences_of_a_group_are_listed_in_order():
    def agent(n_responses, weighting="frequency"):
        return AgentMeasurement(n_responses, weighting, 0.0, {"Paris": 1.0})

    calibration = replace(CALIBRATION, agents=dict.fromkeys("abcd", CalibratedAgent(3, 4, "frequency")))
    policy = CalibratedPolicy(calibration)
    agents = {"z": agent(3), "y": agent(3), "d": agent(2), "c": agent(5, "probability")}
    measured = replace(measurement(0.0), agents=agents, support=(0.9,))
    assert policy.mismatches(measured) == [
        "a is missing",
        "b is missing",
        "y is new",
        "z is new",
        "c gave 5 responses, and 3 to 4 when calibrated",
        "c's responses count by probability, and by frequency when calibrated",
        "d gave 2 responses, and 3 to 4 when calibrated",
        "the agents have unequal weights, but had equal ones when calibrated",
    ]
    with pytest.warns(UserWarning, match="does not hold: a is missing; b is missing; y is new"):
        policy.decide(measured, round=0, max_rounds=1)
    for n_responses in (3, 4):
        fits = replace(measured, agents=dict.fromkeys("abcd", agent(n_responses)), support=(1.0 - 9e-7,))
        assert policy.mismatches(fits) == []
    assert len(policy.mismatches(replace(fits, support=(1.0 - 1.1e-6,)))) == 1
