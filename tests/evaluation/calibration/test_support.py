import json
from dataclasses import replace

import numpy as np
import pytest

from coe_agents import experiments
from coe_agents.actions import ActionMatch
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.calibration.calibrate import calibrate
from coe_agents.evaluation.calibration.learned import fit_support
from coe_agents.evaluation.calibration.risk_control import risk_bound
from coe_agents.policy import CalibratedPolicy
from coe_agents.policy.support import LearnedSupport
from tests.cli.command import run
from tests.evaluation.invented import row, write
from tests.measurement.measurements import decide

NAMED = {"clusterer": "ActionMatch", "correctness": "label"}


def call(name, to="Ann"):
    return [{"name": name, "args": {"to": to}}]


@pytest.fixture
def proposed(rows):
    def of(samples, proposer="a", clusterer=None):
        return rows(samples, proposer=proposer, clusterer=clusterer or ActionMatch())

    return of


def question(identifier, mine, others, *, right):
    return [
        row(identifier, agent, text="Done.", calls=calls, correct=right if agent == "a" else None)
        for agent, calls in zip("abcd", (mine, *others), strict=False)
    ]


def proposals(name, n, *, n_wrong=0, unsupported_are_wrong=True, salt=""):
    """Proposals of "a" to call a tool, all supported by both others, but the last `n_wrong`, by neither."""
    rows = []
    for i in range(n):
        alone = i >= n - n_wrong
        others = (call(name, "Bob"), call(name, "Cid")) if alone else (call(name),) * 2
        is_right = not (alone and unsupported_are_wrong)
        rows += question(f"{name}{salt}{i}", call(name), (*others, call(name)), right=is_right)
    return rows


PAID = [
    *proposals("pay", 60, n_wrong=20),
    *proposals("ask", 40, n_wrong=10, unsupported_are_wrong=False),
]


def test_thresholds_by_tool_by_hand(proposed):
    # "d" always agrees, so that nothing ties and an unsupported proposal has 1/3
    samples = [
        *PAID,
        *proposals("wipe", 30, n_wrong=0),
        *(
            each | {"correct": False if each["agent"] == "a" else None}
            for each in proposals("break", 30)
        ),
        *proposals("rare", 9),
        *(one for i in range(40) for one in question(f"n{i}", [], ([], [], []), right=True)),
    ]
    found = calibrate(
        proposed(samples), risk=0.1, confidence=0.9, proposer="a", **NAMED
    ).calibration
    # 40 supported payments are right; with the 20 others 20 of 60 are wrong
    assert found.tools.keys() == {"ask", "pay", "wipe"}
    assert found.tools["pay"].threshold == pytest.approx(0.0)
    assert (
        found.tools["pay"].n_questions,
        found.tools["pay"].n_answered,
        found.tools["pay"].n_wrong,
    ) == (60, 40, 0)
    assert found.tools["pay"].bound == risk_bound(0, 40, confidence=0.9)
    assert found.tools["ask"].threshold == pytest.approx(2 / 3)
    # 30 wrong calls of "break" are among the others, where 9 right ones cannot make up for them
    assert (found.threshold, found.n_questions, found.n_answered) == (None, 39, 0)
    assert (found.no_call.threshold, found.no_call.n_answered) == (0.0, 40)


def test_decisions_by_tool_and_back_from_the_file(proposed, tmp_path):
    samples = [
        *PAID,
        *(
            one
            for i in range(30)
            for one in question(f"t{i}", call(f"tool{i}"), (call(f"tool{i}"),) * 3, right=True)
        ),
    ]
    data = {judged.id: judged.measurement for judged in proposed(samples)}
    policy = calibrate(proposed(samples), risk=0.1, confidence=0.9, proposer="a", **NAMED)
    policy.save(tmp_path / "policy.json")
    assert json.loads((tmp_path / "policy.json").read_text())["threshold"] == 0.0
    loaded = CalibratedPolicy.load(tmp_path / "policy.json")
    assert loaded.calibration == policy.calibration
    actions = {name: decide(loaded, data[name]).action for name in ("pay0", "pay59", "ask39", "t0")}
    assert actions == {"pay0": "answer", "pay59": "abstain", "ask39": "answer", "t0": "answer"}
    assert decide(loaded, data["pay0"]).reason.startswith(
        "the others' support 1.000 is at least the calibrated 1"
    )
    # a tool without proposals of its own shares the others' threshold, and nobody calibrated calling nothing
    extra = proposed(
        [
            *question("new", call("new"), (call("new"),) * 3, right=True),
            *question("n", [], ([],) * 3, right=True),
        ]
    )
    assert {each.id: decide(loaded, each.measurement).action for each in extra} == {
        "new": "answer",
        "n": "abstain",
    }
    nothing = next(each.measurement for each in extra if each.id == "n")
    assert "no threshold for calling nothing kept the risk" in decide(loaded, nothing).reason


def test_of_several_tools_the_lowest_threshold_counts(proposed):
    both = [*call("pay"), *call("ask")]
    other = [*call("pay", "Bob"), *call("ask")]
    mixed = [
        *(one for i in range(30) for one in question(f"m{i}", both, (both,) * 3, right=True)),
        *question("apart", both, (other, other, both), right=True),
    ]
    data = proposed([*PAID, *mixed])
    found = calibrate(data, risk=0.1, confidence=0.9, proposer="a", **NAMED).calibration
    limits = {each.id: found.threshold_of(each.measurement) for each in data}
    assert (
        limits["m0"] == limits["apart"] == min(found.tools["pay"].threshold, found.threshold) == 0.0
    )
    without = replace(found, threshold=None, bound=None, n_answered=0, n_wrong=0)
    assert next(without.threshold_of(each.measurement) for each in data if each.id == "m0") is None


def test_a_refusal_is_no_proposal_and_questions_without_others_do_not_count(proposed):
    declined = [
        row(f"r{i}", agent, text="I don't know.", correct=False)
        for i in range(60)
        for agent in "ab"
    ]
    alone = [row(f"x{i}", "a", text="Paris", correct=True) for i in range(9)]
    found = [row(f"q{i}", agent, text="Paris", correct=True) for i in range(60) for agent in "ab"]
    data = proposed([*declined, *alone, *found], clusterer=NormalizedMatch())
    policy = calibrate(data, risk=0.1, confidence=0.9, proposer="a", **NAMED)
    assert (
        policy.calibration.n_questions,
        policy.calibration.n_answered,
        policy.calibration.n_wrong,
    ) == (120, 60, 0)
    (lone,) = [each.measurement for each in data if each.id == "x0"]
    with pytest.warns(UserWarning, match="b is missing"):
        assert (
            "no other agent's proposal can be compared with that of a"
            in decide(policy, lone).reason
        )
    with pytest.raises(ValueError, match=r'responses of "z" and of another agent; got \[\]'):
        calibrate(data, risk=0.1, confidence=0.9, proposer="z", **NAMED)


def urge_to_act(n, seed=0):
    """In half of the questions nothing should be called; "b" and "c" call all the same, and "d" knows."""
    chance, rows = np.random.default_rng(seed), []
    for i in range(n):
        right = call(f"tool{i % 7}") if chance.random() < 0.5 else []
        mine = call(f"tool{i % 7}", "Ann" if chance.random() < 0.8 else "Bob")
        follower = call(f"tool{i % 7}", "Ann")
        rows += question(f"q{i:04}", mine, (follower, follower, right), right=mine == right)
    return rows


def test_learned_support_finds_who_is_worth_following(proposed):
    data = proposed(urge_to_act(300))
    gate = fit_support(
        [each.measurement for each in data], [each.correct for each in data], proposer="a"
    )
    assert gate.agents == ("b", "c", "d")
    assert (
        gate.same[2] < min(gate.same[:2]) <= 0.1
    )  # a negative slope: its agreement lowers the probability of wrong
    right = np.array([each.correct for each in data]) == 1
    learned = np.array([gate.uncertainty(each.measurement) for each in data])
    assert learned[right].max() < learned[~right].min()
    forms = {
        "plain": {},
        "whole": {"weights": "learned"},
        "halves": {"weights": "learned", "halves": True},
    }
    found = {
        name: calibrate(
            data, risk=0.1, confidence=0.9, proposer="a", **options, **NAMED
        ).calibration
        for name, options in forms.items()
    }
    assert (found["plain"].fit, found["whole"].fit, found["halves"].fit) == (
        None,
        "whole",
        "halves",
    )
    assert isinstance(found["whole"].learned_support, LearnedSupport)
    assert found["halves"].n_questions < found["whole"].n_questions
    share = {
        name: (each.n_answered + sum(own.n_answered for own in each.tools.values()))
        / len(each.uncertainties)
        for name, each in found.items()
    }
    assert min(share["whole"], share["halves"]) > 0.3
    with pytest.raises(
        ValueError,
        match=r"two right and two wrong answers by all 4 agents; got 300 .* 0 of them wrong",
    ):
        fit_support([each.measurement for each in data], [1.0] * len(data), proposer="a")
    with pytest.raises(ValueError, match='must have "z" and another agent'):
        fit_support([each.measurement for each in data], right, proposer="z")


def test_the_command_says_what_each_threshold_promises(tmp_path):
    samples = [
        *proposals("pay", 60, n_wrong=20),
        *proposals("rare", 30, n_wrong=29),
        *(one for i in range(40) for one in question(f"n{i}", [], ([], [], []), right=True)),
    ]
    path, out = write(tmp_path / "s.jsonl", samples), tmp_path / "policy.json"
    command = [
        "calibrate",
        path,
        "--clusterer",
        "actions",
        "--risk",
        0.1,
        "--out",
        out,
        "--proposer",
    ]
    done = run(*command, "a")
    assert (
        '"pay" pass where the others\' support is at least 1.000: 40 of 60 (66.7%), 0 wrong (0.0%'
        in done.stdout
    )
    assert (
        "Calls of all other tools: no threshold keeps a risk of 0.1 with confidence 0.9 on 30 of them"
        in done.stdout
    )
    assert "Proposals that call nothing pass where the others' support is at least" in done.stdout
    assert "Each of these 3 statements holds with confidence 0.9 by itself." in done.stdout
    assert CalibratedPolicy.load(out).calibration.proposer == "a"
    done = run("drift", out, path, "--clusterer", "actions")
    assert "Invalid value for --proposer" in run(*command, "x", code=2).stderr
    unknown = 'must be an agent of the samples; got "x". The samples have a, b, c'
    with pytest.raises(ValueError, match=unknown) as refused:
        experiments.calibrate(path, risk=0.1, clusterer="actions", proposer="x")
    assert refused.value.field == "proposer"
