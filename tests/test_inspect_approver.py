"""The approver for inspect_ai in its evaluations, and its logs; only where COE_INSPECT_PYTHON names an interpreter:

python -m venv FOLDER && FOLDER/bin/pip install '.[evaluation,openai]' inspect_ai==0.3.285    # then FOLDER/bin/python
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


def test_the_example_runs():
    printed = run("examples/inspect_approver.py")
    decisions = [line.split()[1] for line in printed.splitlines() if "group:" in line]
    assert decisions == ["approve.", "reject.", "escalate."]
    assert printed.count("did not run") == 2


@pytest.mark.parametrize(
    ("name", "decisions", "told"),
    [
        ("agreement", [("group", "approve")], []),
        (
            "another call",
            [("group", "reject")],
            ["The group would not do that."],
        ),  # the next approver would approve
        ("a failure", [("group", "escalate"), ("auto", "reject")], None),
        ("an unknown argument", [("group", "reject")], ["The call does not fit the tools."]),
    ],
)
def test_a_call_runs_where_the_group_would_make_it(cases, name, decisions, told):
    case = cases[name]
    assert [(one["by"], one["decision"]) for one in case["approvals"]] == decisions
    assert case["ran"] == ["Transferred 50 euros to Ann."] * decisions.count(("group", "approve"))
    assert told is None or case["told"] == told  # and not what the group would do


def test_the_group_sees_the_conversation_but_not_the_call_and_a_failure_supports_nothing(cases):
    (request,) = cases["agreement"]["requests"]
    assert [message["content"] for message in request["messages"]] == [
        "You pay bills.",
        "Ann is owed 50 euros.",
    ]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["transfer"]
    metadata = cases["a failure"]["approvals"][0]["metadata"]
    assert metadata["support"] == pytest.approx(2 / 3)
    assert metadata["failed_agents"] == {"c": "RuntimeError"}  # its text may hold secrets


def test_a_log_is_read_as_samples():
    (first, second) = json.loads(run("tests/inspect_log.py"))
    assert first == [
        "What is the capital of France?",
        ["Paris"],
        [[0, "Paris", True], [1, "Paris", True]],
    ]
    assert second[1:] == [["Rome", "Roma"], [[0, "Oslo", False], [1, "Rome", True]]]
