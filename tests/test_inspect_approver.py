"""The approver for inspect_ai, in its evaluations. Collected only where COE_INSPECT_PYTHON names an interpreter:

python -m venv FOLDER && FOLDER/bin/pip install '.[openai]' inspect_ai==0.3.285    # then FOLDER/bin/python
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.clients]
ROOT = Path(__file__).parent.parent


def run(path):
    """Returns what a program prints that runs with that interpreter and the package of this checkout."""
    done = subprocess.run(
        [os.environ["COE_INSPECT_PYTHON"], str(ROOT / path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def cases():
    return json.loads(run("tests/inspect_evaluations.py").splitlines()[-1])


def decisions(case):
    return [(one["by"], one["decision"]) for one in case["approvals"]]


def test_the_example_runs():
    printed = run("examples/inspect_approver.py")
    assert [line.split()[1] for line in printed.splitlines() if "group:" in line] == [
        "approve.",
        "reject.",
        "escalate.",
    ]
    assert printed.count("did not run") == 2


def test_a_call_that_the_group_would_make_runs(cases):
    case = cases["agreement"]
    assert (decisions(case), case["ran"]) == ([("group", "approve")], ["Transferred 50 euros to Ann."])
    assert case["approvals"][0]["explanation"] == "The group supports it (1.00)."
    assert case["approvals"][0]["metadata"] == {
        "support": 1.0,
        "support_of_another_action": 0.0,
        "contested": None,
        "failed_agents": {},
    }


def test_the_group_sees_the_conversation_and_the_tools_but_not_the_call(cases):
    (request,) = cases["agreement"]["requests"]
    assert request["messages"] == [
        {"role": "system", "content": "You pay bills."},
        {"role": "user", "content": "Ann is owed 50 euros."},
    ]
    assert (request["question"], request["round"]) == ("Ann is owed 50 euros.", 0)
    (shown,) = request["tools"]
    assert (shown["type"], shown["function"]["name"]) == ("function", "transfer")
    parameters = shown["function"]["parameters"]
    assert {name: one["type"] for name, one in parameters["properties"].items()} == {"to": "string", "amount": "number"}


@pytest.mark.parametrize("name", ["another call", "one of two calls"])
def test_a_group_that_would_do_something_else_rejects_the_call_for_good(cases, name):
    case = cases[name]  # the next approver would approve
    assert set(decisions(case)) == {("group", "reject")}
    assert (case["ran"], set(case["told"])) == ([], {"The group would not do that."})


def test_what_the_group_would_do_is_in_the_log_alone(cases):
    metadata = cases["another call"]["approvals"][0]["metadata"]
    assert metadata["support_of_another_action"] == 1.0
    values = [one["value"] for one in metadata["contested"]["candidates"]["transfer.amount"]]
    assert values == [5, 50]
    assert "5" not in "".join(cases["another call"]["told"])


def test_a_group_without_agreement_leaves_it_to_the_next_approver(cases):
    case = cases["split, nobody else"]
    assert decisions(case) == [("group", "escalate"), ("policy", "reject")]
    assert case["ran"] == []


def test_an_agent_that_fails_supports_nothing(cases):
    case = cases["a failure"]
    assert decisions(case) == [("group", "escalate"), ("auto", "reject")]
    metadata = case["approvals"][0]["metadata"]
    assert metadata["support"] == pytest.approx(2 / 3)
    assert metadata["failed_agents"] == {"c": "RuntimeError"}  # its text may hold secrets


def test_a_call_that_does_not_fit_the_tools_is_rejected(cases):
    case = cases["an unknown argument"]
    assert decisions(case) == [("group", "reject")]
    assert case["told"] == ["The call does not fit the tools."]
    assert case["requests"] == []


def test_chat_models_read_the_conversation_and_stop_a_second_payment(cases):
    case = cases["chat models"]
    assert decisions(case) == [("group", "approve"), ("group", "reject")]
    assert case["ran"] == ["Transferred 50 euros to Ann."]


def test_a_call_of_unknown_origin_is_escalated(cases):
    assert cases["outside"] == "escalate"


def test_groups_that_cannot_judge_are_refused(cases):
    *refused, fine = cases["refused"]
    assert all("names must differ" in one for one in refused)
    assert fine is None
