import json
import math
import re
import sys
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

from coe_agents.actions import canonical_action
from coe_agents.errors import ConfigurationError
from coe_agents.measurement.measurement import AgentMeasurement, Run
from coe_agents.policy import CalibratedPolicy, Decision, Policy, measure
from coe_agents.policy.calibrated import CalibratedAgent, Calibration, GroupThreshold
from coe_agents.policy.support import LearnedSupport
from coe_agents.types import create_response
from tests.measurement.measurements import measured, with_proposals
from tests.policy import test_support as support

AGENTS = {name: CalibratedAgent(3, 4, "frequency") for name in ("a", "b")}
FOUND = {"threshold": 0.3, "n_questions": 50, "n_answered": 20, "n_wrong": 1, "bound": 0.18}
ASKED = {"agents": AGENTS, "clusterer": "NormalizedMatch", "correctness": "reference"}
DRAWN = {"date": "2026-01-01T00:00:00+00:00", "uncertainties": (0.0, 0.3, 1.25)}
CALIBRATION = Calibration(risk=0.2, confidence=0.9, **FOUND, **ASKED, **DRAWN)
PAID = GroupThreshold(0.8, 10, 9, 1, 0.19)
SILENT = GroupThreshold(0.05, 10, 8, 0, 0.18)
PROPOSING = replace(CALIBRATION, score="", proposer="a", tools={"pay": PAID}, no_call=SILENT)
SUPPORT = LearnedSupport("a", ("b",), (-1.0,), (0.0,), 0.0, -2.0)
SUPPORTED = replace(PROPOSING, learned_support=SUPPORT, trust_from="learned", fit="halves")
PARIS = AgentMeasurement(3, "frequency", 0.0, {"Paris": 1.0})
PAY = support.pay(5)
WRITES_ONE = '"coe-agents calibrate SAMPLES... --out FILE" writes one'


def measurement(coe, *, agents=("a", "b")):
    named = dict.fromkeys(agents, PARIS)
    return measured(aleatoric=coe, n_agents=len(agents), representatives=("Paris",), agents=named)


def decide(calibration, measured, **options):
    return CalibratedPolicy(calibration, **options).decide(measured, round=0, max_rounds=1)


def test_answers_up_to_the_threshold_and_says_the_promise_in_words_of_its_score():
    decision = decide(CALIBRATION, measurement(0.3))
    assert decision.action == "answer"
    assert decision.answer == "Paris"
    promise = "(risk at most 0.2 with confidence 0.9)"
    assert decision.reason == f"CoE 0.300 is at most the calibrated 0.300 {promise}"

    decision = decide(CALIBRATION, measurement(0.301), otherwise="escalate")
    assert decision.action == "escalate"
    assert decision.answer is None
    assert decision.reason.startswith("CoE 0.301 is above the calibrated 0.300 ")

    equal_but_for_rounding = measurement(0.3 + 1e-9)
    decision = decide(CALIBRATION, equal_but_for_rounding)
    assert decision.action == "answer"
    assert "is at most the calibrated" in decision.reason
    above = decide(CALIBRATION, measurement(0.3 + 1e-8))
    assert above.action == "abstain"
    numbered = replace(divided(a=0.2, b=0.3), representatives=("Rome", "Rome (1)"), answer="Rome")
    assert CALIBRATION.answer(numbered) == "Rome"
    in_words = replace(CALIBRATION, score="vote_share").limit_in_words
    assert in_words(0.694) == "vote share is at least 0.306"
    assert in_words(0.694, 0.065) == "vote share 0.935 is at least the calibrated 0.306"
    assert in_words(0.694, 0.6941) == "vote share 0.305900 is below the calibrated 0.306000"
    for score, name in (
        ("confidence_vote_share", "vote share by confidence"),
        ("trusted_vote_share", "trusted vote share"),
        ("vote_share", "weighted vote share"),
    ):
        words = trusting(0.5, 0.5, score=score).limit_in_words(0.25)
        assert words == f"{name} is at least 0.750"
    assert SUPPORTED.limit_in_words(0.3) == "learned probability of error is at most 0.300"

    own = replace(CALIBRATION, score="mine:own", threshold=-0.5)
    low = replace(measurement(0.1), run=Run(scores={"mine:own": -0.6}))
    decision = decide(own, low)
    assert decision.reason.startswith("mine:own -0.600 is at most the calibrated -0.500 (risk")
    unknown = replace(measurement(0.1), run=Run(scores={"mine:own": None}))
    decision = decide(own, unknown)
    assert decision.reason == "the score mine:own cannot be computed of these responses"


def divided(**agents):
    """A measurement of agents of equal weight, each with its probability of "Paris", the rest on "Rome"."""
    by_agent = {}
    for name, p in agents.items():
        distribution = {"Paris": p, "Rome": 1.0 - p}
        by_agent[name] = replace(PARIS, distribution=distribution)
    mean = sum(agents.values()) / len(agents)
    is_tie = abs(mean - 0.5) < 1e-9
    return replace(
        measurement(0.1, agents=tuple(agents)),
        support=(mean, 1.0 - mean),
        representatives=("Paris", "Rome"),
        answer="Paris" if mean >= 0.5 - 1e-9 else "Rome",
        tied=("Paris", "Rome") if is_tie else (),
        agents=by_agent,
    )


def trusting(a, b, **fields):
    learned = {
        "score": "vote_share",
        "trust": {"a": a, "b": b},
        "trust_from": "learned",
        "fit": "whole",
    }
    return replace(CALIBRATION, threshold=0.6, **learned | fields)


def test_a_tie_and_what_has_no_threshold_are_never_answered():
    decision = decide(CALIBRATION, divided(a=1.0, b=0.0), otherwise="escalate")
    reason = "the leading answers tie: 'Paris', 'Rome'"
    assert decision == Decision("escalate", None, reason, cause="tie")
    assert decide(trusting(0.5, 0.5), divided(a=1.0, b=0.0)).action == "abstain"
    decision = decide(replace(CALIBRATION, threshold=None), measurement(0.0))
    assert decision.action == "abstain"
    unreached = "no threshold kept the risk at most 0.2 with confidence 0.9 on 50 calibration"
    assert decision.reason.startswith(unreached)


def test_learned_weights_choose_the_answer_and_break_ties():
    for weights, answer in (((0.6, 0.4), "Paris"), ((0.4, 0.6), "Rome")):
        decision = decide(trusting(*weights), divided(a=1.0, b=0.0))
        assert decision.action == "answer"
        assert decision.answer == answer
        assert decision.trusted_answer is True
        assert f'weights favour "{answer}"' in decision.reason
    # the mean favours Rome (0.4 against 0.6), the weights Paris (0.56 against 0.44)
    decision = decide(trusting(0.7, 0.3), divided(a=0.8, b=0.0))
    assert decision.answer == "Paris"
    assert 'weights favour "Paris"' in decision.reason

    # a tie of the weights, not of the mean: 0.7 * 0.5 + 0.3 * 0.5
    tied = Decision("abstain", None, "the leading answers tie", cause="tie")
    assert decide(trusting(0.25, 0.75), divided(a=0.8, b=0.4)) == tied

    without_weights = decide(CALIBRATION, divided(a=0.8, b=0.6))
    assert not without_weights.trusted_answer


def test_the_weights_of_the_calibration_are_those_that_a_graph_must_have(tmp_path):
    weights = {"a": 0.5, "b": 1.0}
    policy = CalibratedPolicy(replace(CALIBRATION, weights=weights))
    # a is right with 1, b with 0.1: (0.5 + 0.1) / 1.5 = 0.4
    weighed = replace(
        divided(a=1.0, b=0.1), representatives=("Paris", "Rome", "Nice"), support=(0.4, 0.6, 0.0)
    )
    assert policy.mismatches(weighed) == []
    other = "the agents have other weights than when calibrated"
    equally_weighed = replace(weighed, support=(0.55, 0.45, 0.0))
    assert policy.mismatches(equally_weighed) == [other]

    unheard = CalibratedPolicy(replace(CALIBRATION, weights={"a": 0.0, "b": 1.0}))
    of_a_alone = measurement(0.0, agents="a")
    assert unheard.mismatches(of_a_alone) == ["b is missing", other]

    policy.save(tmp_path / "p.json")
    loaded = CalibratedPolicy.load(tmp_path / "p.json")
    assert loaded.calibration.weights == weights
    with pytest.raises(ValueError, match='"weights" must hold'):
        replace(CALIBRATION, weights={"a": 0.0})


def test_a_weighted_vote_by_hand_and_without_some_of_its_agents():
    # Paris has 0.6 * 1 + 0.4 * 0.5
    uncertainty = trusting(0.6, 0.4).uncertainty(divided(a=1.0, b=0.5))
    assert uncertainty == pytest.approx(1.0 - 0.8)
    # the mean favours Rome, the weights Paris: 0.7 * 0.8 + 0.3 * 0
    to_rome = divided(a=0.8, b=0.0)
    uncertainty = trusting(0.7, 0.3).uncertainty(to_rome)
    assert uncertainty == pytest.approx(1.0 - 0.56)

    # "trusted_vote_share" judges the answer of equal weights, here Rome: 0.7 * 0.2 + 0.3 * 1.0
    judging = trusting(0.7, 0.3, score="trusted_vote_share", trust_from="agreement")
    assert judging.uncertainty(to_rome) == pytest.approx(1.0 - 0.44)
    assert judging.answer(to_rome) == "Rome"
    # of a tie the mean: (0.7 + 0.3) / 2
    tie = divided(a=1.0, b=0.0)
    assert judging.uncertainty(tie) == pytest.approx(0.5)
    assert judging.choose_cluster(tie) is None

    # who did not answer does not count, and what is not known has no weight
    trusting_both = trusting(0.6, 0.4)
    of_a_alone = measurement(0.0, agents=("a",))
    with pytest.warns(UserWarning, match="b is missing"):
        decision = decide(trusting_both, of_a_alone)
    assert decision.action == "answer"
    of_another = measurement(0.0, agents=("c",))
    with pytest.warns(UserWarning, match="a is missing; b is missing; c is new"):
        decision = decide(trusting_both, of_another)
    assert decision.action == "abstain"

    both = proposed()
    without_b = replace(both, agents={"a": both.agents["a"]})
    with pytest.warns(UserWarning, match="b is missing"):
        decision = decide(SUPPORTED, without_b)
    assert decision.reason == "the learned support needs all its agents; b gave no response"


UNREACHED = replace(CALIBRATION, threshold=None, bound=None, uncertainties=())
LEAST = replace(CALIBRATION, threshold=0.0, bound=0.0, n_questions=0, n_answered=0, n_wrong=0)
ASKED_SO = {
    "model": "m",
    "temperature": 0,
    "system_prompt": "",
    "n_samples": 1,
    "stated_confidence": True,
}
UNASKED = {"n_samples": 0, "stated_confidence": False}
OTHERS = {
    "c": CalibratedAgent(1, 1, "probability", **ASKED_SO),
    "d": CalibratedAgent(3, 3, "mixed", **UNASKED),
}
ALL_WRONG = {"threshold": 1.25 + 1e-9, "bound": 1.0, "n_answered": 50, "n_wrong": 50, "n_ties": 50}
MOST = replace(CALIBRATION, agents=AGENTS | OTHERS, prompt="", answers="", **ALL_WRONG)


@pytest.mark.parametrize("calibration", [CALIBRATION, UNREACHED, LEAST, MOST, PROPOSING, SUPPORTED])
def test_what_is_saved_is_loaded(tmp_path, calibration):
    path = tmp_path / "policy.json"
    CalibratedPolicy(calibration).save(path)
    loaded = CalibratedPolicy.load(path, otherwise="escalate")
    assert loaded.calibration == calibration
    assert loaded.otherwise == "escalate"
    assert isinstance(loaded, Policy) is True
    counts = {"min_responses": 3, "max_responses": 4, "weighting": "frequency"}
    record = json.loads(path.read_text())
    assert record["agents"]["a"] == dict.fromkeys(ASKED_SO) | counts
    del record["score"]  # as in a file of a former version
    record["divergence"] = "kl"  # likewise
    path.write_text(json.dumps(record))
    assert CalibratedPolicy.load(path).calibration == calibration


def test_what_restores_the_guarantee_is_named_as_from_python_and_as_an_option():
    empirical = replace(trusting(0.75, 0.25), fit="whole")
    assert "For a guarantee, calibrate with halves=True (--halves)." in "".join(empirical.remarks())


def test_a_weighted_vote_is_saved_and_loaded(tmp_path):
    calibration = trusting(0.75, 0.25, fit="halves")
    CalibratedPolicy(calibration).save(tmp_path / "p.json")
    assert CalibratedPolicy.load(tmp_path / "p.json").calibration == calibration


NO_PROPOSER = {
    "learned_support": None,
    "proposer": None,
    "tools": {},
    "no_call": None,
    "trust_from": None,
}
TWICE = {
    "learned_support.agents": ["b", "b"],
    "learned_support.same": [1, 1],
    "learned_support.nothing": [1, 1],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not a policy of the format"),
        (
            {"risk": 0.0},
            'is damaged: "risk" must be a number above 0 and below 1; got 0.0. Pass a share such as 0.1',
        ),
        (
            {"confidence": 1},
            '"confidence" must be a number above 0 and below 1; got 1. Pass a share',
        ),
        ({"threshold": 10**400}, '"threshold" must be a finite number of at least 0; got 1000'),
        ({"threshold": 50.0}, '"threshold" must be at most the highest of "uncertainties"'),
        (
            {"threshold": -1e-9},
            '"threshold" must be a finite number of at least 0; got -1e-09. Calibrate again',
        ),
        ({"no_call.threshold": -1}, '"threshold" must be a finite number of at least 0'),
        (
            {"learned_support": None, "tools.pay.threshold": -1},
            '"threshold" must be a finite number of at least 0',
        ),
        (
            NO_PROPOSER | {"score": "coe", "threshold": -1},
            '"threshold" must be a finite number of at least 0',
        ),
        ({"bound": 1.001}, '"bound" must be a number in [0, 1]; got 1.001. Calibrate again'),
        ({"tools.pay.bound": None}, '"bound" belongs to a "threshold"'),
        (
            {"n_wrong": 21},
            '"n_wrong" must be at most "n_answered", and that at most "n_questions"; got [21, 20, 50]',
        ),
        ({"n_answered": -1}, '"n_answered" must be an integer of at least 0; got -1'),
        ({"n_ties": -1}, '"n_ties" must be an integer of at least 0; got -1'),
        ({"n_ties": 71}, '"n_ties" must be at most "n_questions"; got 71'),
        (
            {"uncertainties": [0.1, math.inf]},
            '"uncertainties" must be a list of finite numbers; got (0.1, inf)',
        ),
        ({"uncertainties": [0.1, 0.4, 0.3]}, '"uncertainties" must rise'),
        (
            {"uncertainties": [-0.1, 0.4]},
            'each of "uncertainties" must be a finite number of at least 0; got -0.1',
        ),
        ({"uncertainties": []}, '"threshold" must be at most the highest of "uncertainties"'),
        ({"clusterer": None}, '"clusterer" must be a string; got NoneType'),
        ({"score": 5}, '"score" must be a string; got int'),
        (
            {"divergence": "js"},
            '"divergence" must be "kl", the only one that is left; got \'js\'. Calibrate again',
        ),
        (NO_PROPOSER, '"score" must be "support" with a proposer, and only then'),
        ({"score": "coe"}, '"score" must be "support" with a proposer, and only then'),
        (
            NO_PROPOSER | {"score": "coe", "trust": {"a": 1.0}},
            '"trust" must go with one of vote_share',
        ),
        (
            NO_PROPOSER | {"score": "trusted_vote_share"},
            '"trust" must be there with "trusted_vote_share"',
        ),
        (NO_PROPOSER | {"score": "vote_share", "trust": {"a": -1.0}}, "\"weights\" of 'a' must be"),
        (
            NO_PROPOSER | {"score": "vote_share", "trust": {"c": 1.0}},
            "must be of agents of the policy",
        ),
        ({"trust_from": "votes"}, '"trust_from" must be one of agreement, learned, None'),
        (
            {"gate": {"slope": 1.0}},
            'Calibrate again with --weights learned, which replaces "--score learned"',
        ),
        (NO_PROPOSER | {"score": "mine"}, "a score must be computable of one new question"),
        ({"fit": "thirds"}, "\"fit\" must be one of whole, halves, None; got 'thirds'"),
        ({"prompt": 5}, '"prompt" must be a string or null; got 5'),
        ({"proposer": 5}, '"proposer" must be a string or null; got 5'),
        ({"clusterer_options": 5}, '"clusterer_options" must be an object or null; got 5'),
        ({"proposer": "b"}, 'belong to a "proposer"'),
        ({"learned_support": None, "proposer": None, "tools": {}}, 'belong to a "proposer"'),
        ({"learned_support": None, "proposer": None, "no_call": None}, 'belong to a "proposer"'),
        ({"learned_support.agents": "b"}, "must be a list of names; got 'b'"),
        ({"learned_support.agents": ["c"]}, "must be of agents of the policy"),
        (TWICE, "must be of agents of the policy, each once"),
        (
            {"agents.a.min_responses": 0},
            '"min_responses" must be an integer of at least 1; got 0. Calibrate again',
        ),
        (
            {"agents.a.max_responses": 4.0},
            '"max_responses" must be an integer of at least 3; got 4.0',
        ),
        (
            {"agents.a.weighting": "auto"},
            "\"weighting\" must be one of frequency, probability, mixed; got 'auto'",
        ),
        ({"agents.a.model": 5}, '"model" of an agent must be a string or null; got 5'),
        (
            {"agents.a.stated_confidence": 2},
            '"stated_confidence" of an agent must be a boolean or null; got 2',
        ),
        (
            {"agents.a.temperature": -1},
            '"temperature" of an agent must be a finite number of at least 0; got -1',
        ),
        ({"estimator": "os:getcwd"}, '"estimator" is code, which a file does not hold'),
    ],
)
def test_a_damaged_file_is_named(tmp_path, change, message):
    path = tmp_path / "policy.json"
    CalibratedPolicy(SUPPORTED).save(path)
    record = json.loads(path.read_text())
    for place, value in change.items():
        *parts, name = place.split(".")
        reduce(getitem, parts, record)[name] = value
    path.write_text(json.dumps(record))
    named = f"policy.json.*{re.escape(message)}.*{re.escape(WRITES_ONE)}$"
    with pytest.raises(ConfigurationError, match=named):
        CalibratedPolicy.load(path)


def strings_of(record, place=()):
    """Yields the place of each string in a value of JSON."""
    if isinstance(record, str):
        yield place
    items = (
        record.items()
        if isinstance(record, dict)
        else enumerate(record)
        if isinstance(record, list)
        else ()
    )
    for key, inner in items:
        yield from strings_of(inner, (*place, key))


@pytest.mark.parametrize("calibration", [SUPPORTED, trusting(0.75, 0.25), CALIBRATION])
def test_no_text_in_a_saved_policy_is_imported(tmp_path, monkeypatch, calibration):
    (tmp_path / "evil_mod.py").write_text(
        "open('it_ran', 'w').close()\n\ndef Score(statistics):\n    return 0.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    CalibratedPolicy(calibration).save("policy.json")
    record = json.loads(Path("policy.json").read_text())
    evil = {"score": "evil_mod:Score", "estimator": "evil_mod:Score"}
    changes = [evil, {"score": "evil_mod:Score"}, {"score": "evil_mod"}]
    places = [place for place in strings_of(record) if place != ("format",)]
    for change in changes:
        Path("policy.json").write_text(json.dumps(record | NO_PROPOSER | change))
        with pytest.raises(ConfigurationError, match=r"policy\.json"):
            CalibratedPolicy.load("policy.json")
    for place in places:
        changed = json.loads(json.dumps(record))
        *parts, name = place
        reduce(getitem, parts, changed)[name] = "evil_mod:Score"
        Path("policy.json").write_text(json.dumps(changed))
        with suppress(ConfigurationError):
            CalibratedPolicy.load("policy.json").decide(measurement(0.1), round=0, max_rounds=1)
    assert len(places) >= 5
    assert "evil_mod" not in sys.modules
    assert not Path("it_ran").exists()


class Sure:
    def __call__(self, statistics):
        return 0.25


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("no_such_module:Sure", "computed by code of yours, which a file does not name"),
        ("mine", "a score must be computable of one new question"),
    ],
)
def test_a_score_of_ones_own_is_computed_by_what_is_passed_in_code(score, message, tmp_path):
    own = replace(CALIBRATION, score=score)
    CalibratedPolicy(own).save(tmp_path / "policy.json")
    with pytest.raises(ConfigurationError, match=message):
        CalibratedPolicy.load(tmp_path / "policy.json")
    said = measure([create_response(agent, "Paris") for agent in "ab"], [0, 0])
    for estimator in (Sure, Sure(), lambda statistics: 0.25):
        policy = CalibratedPolicy.load(tmp_path / "policy.json", estimator=estimator)
        assert policy.calibration == own  # what is saved again is the same
        assert policy.calibration.uncertainty(said) == 0.25
        policy.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text() == (tmp_path / "policy.json").read_text()
    with pytest.raises(ValueError, match="must return None or a finite number"):
        CalibratedPolicy.load(
            tmp_path / "policy.json", estimator=lambda _: math.nan
        ).calibration.uncertainty(said)
    with pytest.raises(ValueError, match="must be a callable"):
        CalibratedPolicy.load(tmp_path / "policy.json", estimator="no_such_module:Sure")
    with pytest.raises(ValueError, match="a policy must be given the estimator"):
        own.uncertainty(said)
    CalibratedPolicy(CALIBRATION).save(tmp_path / "coe.json")
    with pytest.raises(ConfigurationError, match='"coe", is a built-in one'):
        CalibratedPolicy.load(tmp_path / "coe.json", estimator=Sure)


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "cut.json").write_text('{"format"')
    (tmp_path / "bare.json").write_text(
        '{"format": "coe-agents calibrated policy 2", "gate": null, "agents": {}}'
    )
    for name, message in (
        ("none", "cannot be read"),
        ("cut", "cannot be read"),
        ("bare", "is damaged: .* missing"),
    ):
        named = rf"{name}\.json {message}.*{re.escape(WRITES_ONE)}$"
        with pytest.raises(ConfigurationError, match=named):
            CalibratedPolicy.load(tmp_path / f"{name}.json")


def test_otherwise_must_be_another_action():
    for otherwise in ("answer", "guess"):
        with pytest.raises(
            ValueError, match=r'"otherwise" of CalibratedPolicy must.* calibrate at a higher risk$'
        ):
            CalibratedPolicy(CALIBRATION, otherwise=otherwise)


def test_what_is_no_answer_cannot_be_answered():
    assert CALIBRATION.can_answer(measurement(0.1))
    for kind in ("refusal", "empty"):
        assert not CALIBRATION.can_answer(replace(measurement(0.1), answer_kind=kind))
    assert not CALIBRATION.can_answer(divided(a=1.0, b=0.0))
    # Rome leads, but the weights favour what is no answer
    said = {"a": {"I don't know.": 0.8, "Rome": 0.2}, "b": {"Rome": 1.0}}
    agents = {name: replace(PARIS, distribution=own) for name, own in said.items()}
    refusing = replace(
        divided(a=0.8, b=0.0), representatives=("I don't know.", "Rome"), agents=agents
    )
    assert trusting(0.7, 0.3).answer(refusing) == "I don't know."
    assert not trusting(0.7, 0.3).can_answer(refusing)
    assert trusting(0.3, 0.7).can_answer(refusing)
    # Rome leads, but the weights favour Paris
    assert trusting(0.7, 0.3).can_answer(divided(a=0.8, b=0.0))


def proposed(driver="a", first=PAY, **options):
    """Measures what two agents propose: in most of their responses to call nothing."""
    said = [
        (driver, first),
        (driver, []),
        (driver, []),
        ("b", PAY),
        ("b", []),
        ("b", []),
        ("b", []),
    ]
    rows = [
        support.propose(agent, calls, "I don't know.", index=i)
        for i, (agent, calls) in enumerate(said)
    ]
    return support.measured(*rows, **options)


@pytest.mark.parametrize("calibration", [PROPOSING, SUPPORTED])
def test_the_proposal_of_an_agent_is_judged_whatever_leads_and_under_whatever_name(calibration):
    decision = decide(calibration, proposed())
    assert decision.action == "answer"
    assert decision.answer == canonical_action(PAY)
    assert decision.trusted_answer is True
    assert decision.reason.startswith(
        calibration.limit_in_words(0.8, calibration.uncertainty(proposed()))
    )
    # of b, who called it in one of four responses, 0.25; log-odds -2 - 0.25
    uncertainty = 1 / (1 + math.exp(2.25)) if calibration is SUPPORTED else 1 - 0.25
    assert calibration.uncertainty(proposed()) == pytest.approx(uncertainty)
    assert decide(calibration, proposed("the driver", proposer="the driver")) == decision
    decision = decide(calibration, proposed(proposer="b"))  # another member is no driver
    assert decision.reason == "calibrated for the proposals of a, not for those of b"
    silent = proposed(first=[])
    assert calibration.can_answer(silent)  # to call nothing may be right, whatever is said instead
    others = (
        silent,
        with_proposals(silent, calls=None),
        with_proposals(silent, by_agent={"a": "Paris"}),
    )
    assert [calibration.threshold_of(each) for each in (proposed(), *others)] == [
        0.8,
        0.05,
        0.3,
        0.3,
    ]
    assert CALIBRATION.threshold_of(silent) == 0.3
    assert decide(CALIBRATION, with_proposals(measurement(0.1), proposer="b")).action == "answer"


def test_other_agents_are_listed_by_their_names_however_many_they_are():
    calibrated = dict.fromkeys("hgfedcba", CalibratedAgent(3, 4, "frequency"))
    policy = CalibratedPolicy(replace(CALIBRATION, agents=calibrated))
    others = policy.mismatches(measurement(0.0, agents=tuple("zyxwvuts")))
    missing = [f"{name} is missing" for name in "abcdefgh"]
    assert others[:16] == missing + [f"{name} is new" for name in "stuvwxyz"]


def test_all_differences_of_a_group_are_listed_in_order():
    calibration = replace(
        CALIBRATION, agents=dict.fromkeys("abcd", CalibratedAgent(3, 4, "frequency"))
    )
    policy = CalibratedPolicy(calibration)
    other = replace(PARIS, n_responses=5, weighting="probability")
    agents = {"z": PARIS, "y": PARIS, "d": replace(PARIS, n_responses=2), "c": other}
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
    for n in (3, 4):
        fits = replace(
            measured,
            agents=dict.fromkeys("abcd", replace(PARIS, n_responses=n)),
            support=(1.0 - 9e-7,),
        )
        assert policy.mismatches(fits) == []
    assert len(policy.mismatches(replace(fits, support=(1.0 - 1.1e-6,)))) == 1
