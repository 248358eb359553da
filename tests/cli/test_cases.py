import json
import re

import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation.calibration.drift import read_cases
from tests.cli.command import run
from tests.evaluation.invented import write


def cases(n, *, wrong_from):
    return [{"id": f"q{i}", "correct": i < wrong_from, "time": f"day {i}"} for i in range(1, n + 1)]


def test_a_broken_risk_is_dated(tmp_path, policy):
    path = write(tmp_path / "cases.jsonl", cases(60, wrong_from=21))
    done = run("drift", policy, "--cases", path, code=3)
    first, second, third, fourth = done.stdout.splitlines()
    assert first == "The stated risk of 0.3 is broken: answers are wrong more often."
    assert second.startswith("It probably began near case 21 (q21, day 21): since then 100.0% of ")
    assert (
        "the limit 20. A false alarm has a probability of at most 0.05, however often you look."
        in third
    )
    assert fourth == "Answer less until you have calibrated again."
    done = run("drift", policy, "--cases", path, "--json", code=3)
    found = json.loads(done.stdout)
    assert found["broken"] is True
    assert found["since"] == 21
    assert found["since_id"] == "q21"
    assert 21 < found["broken_at"] == found["n_cases"] < 40  # it stops there


def test_an_audit_rate_must_be_named(tmp_path, policy):
    path = write(
        tmp_path / "cases.jsonl",
        [each | {"seen_probability": 0.1} for each in cases(40, wrong_from=1)],
    )
    run("drift", policy, "--cases", path, code=2)
    run("drift", policy, "--cases", path, "--min-seen", 0.1, code=3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing", "this is not JSON"),
        (
            '{"id": "1", "correct": 2}',
            '"correct", if it is not true or false, must be a number in [0, 1]; got 2',
        ),
        (
            '{"id": "1", "correct": 1, "seen_probability": 0}',
            '"seen_probability" must be a number above 0',
        ),
        ('{"id": "0", "correct": 1}', "there is a case '0' already"),
        ('{"id": "1", "correct": 1, "seen_probabilty": 0.1}', 'Did you mean "seen_probability"?'),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "0", "correct": 1}\n\n' + line)
    with pytest.raises(SamplesError, match=rf"cases\.jsonl:3: .*{re.escape(message)}"):
        list(read_cases(path))
