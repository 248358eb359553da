import json
import re

import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation.calibration.drift import follow_cases
from tests.cli.command import interrupted, run
from tests.evaluation.invented import write


def cases(n, *, wrong_from):
    return [{"id": f"q{i}", "correct": i < wrong_from, "time": f"day {i}"} for i in range(1, n + 1)]


def test_a_broken_risk_is_dated(tmp_path, policy):
    path = write(tmp_path / "cases.jsonl", cases(60, wrong_from=21))
    done = run("drift", policy, "--follow", path, "--until-end", code=3)
    first, second, third, fourth = done.stdout.splitlines()
    assert first == "The stated risk of 0.3 is broken: answers are wrong more often."
    assert second.startswith("It probably began near case 21 (q21, day 21): since then 100.0% of ")
    assert (
        "the limit 20. A false alarm has a probability of at most 0.05, however often you look."
        in third
    )
    assert fourth == "Answer less until you have calibrated again."
    found = json.loads(
        run("drift", policy, "--follow", path, "--until-end", "--json", code=3).stdout
    )
    assert (found["broken"], found["since"], found["since_id"], found["interrupted"]) == (
        True,
        21,
        "q21",
        False,
    )
    assert 21 < found["broken_at"] == found["n_cases"] < 40  # it stops there


def test_an_audit_rate_must_be_named(tmp_path, policy):
    path = write(
        tmp_path / "cases.jsonl",
        [each | {"seen_probability": 0.1} for each in cases(40, wrong_from=1)],
    )
    run("drift", policy, "--follow", path, "--until-end", code=2)
    run("drift", policy, "--follow", path, "--until-end", "--min-seen", 0.1, code=3)


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
        list(follow_cases(path, wait=lambda: False))


def test_a_half_written_line_is_read_when_it_is_complete(tmp_path):
    path = tmp_path / "cases.jsonl"
    parts = [
        '{"id": "1", "correct": 1}\n{"id": "2", ',
        '"correct": 0}\n',
        '{"id": "3", "correct": 1}',
    ]
    path.write_text("")

    def wait():
        if parts:
            with path.open("a") as file:
                file.write(parts.pop(0))
            return True
        return False

    assert [(case.id, case.correct) for case in follow_cases(path, wait=wait)] == [
        ("1", 1.0),
        ("2", 0.0),
        ("3", 1.0),
    ]


@pytest.mark.slow
def test_it_follows_a_file_until_ctrl_c(tmp_path, policy):
    path = write(tmp_path / "cases.jsonl", cases(5, wrong_from=99))

    def wait(process):
        assert process.stderr.readline().startswith("Following")

    out, err = interrupted("drift", policy, "--follow", path, when=wait)
    assert out.startswith("After 5 labelled answers")
    assert err.startswith("Interrupted.")


def test_a_file_that_is_rotated_is_named(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "1", "correct": 1}\n')

    def wait():
        if (tmp_path / "cases.jsonl.1").exists():
            return False
        path.rename(tmp_path / "cases.jsonl.1")
        path.write_text('{"id": "new", "correct": 1}\n')
        return True

    with pytest.raises(
        SamplesError, match=r"cases\.jsonl was replaced while it was read\. Append to it only"
    ):
        list(follow_cases(path, wait=wait))
