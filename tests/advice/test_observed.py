"""What blocking would have cost and saved, of a week in which a council only observed."""

import json

from tests.cli.command import run
from tests.evaluation.invented import row, write


def ruled(id, kind, *, correct, seen_probability=1.0):
    others = row(id, "member", 0, "[]", correct=None)
    driver = row(id, "driver", 0, "[pay]", correct=correct)
    return [
        {**each, "kind": kind, "seen_probability": seen_probability} for each in (driver, others)
    ]


def test_advise_says_what_blocking_would_have_cost_and_saved(tmp_path):
    rows = [
        *ruled("1", "observed", correct=True),
        *ruled("2", "observed", correct=False),
        *ruled("3", "observed", correct=False),
        *ruled("4", "observed", correct=None),
        *ruled("5", "audit", correct=True, seen_probability=0.1),
        *ruled("6", "audit", correct=True, seen_probability=0.1),
        *ruled("7", "audit", correct=False, seen_probability=0.2),
    ]
    samples = write(tmp_path / "week.samples.jsonl", rows)
    found = json.loads(run("advise", samples, "--json").stdout)["observed"]
    # 10 + 10 right and 5 wrong
    assert found == {"n_lost": 1, "n_saved": 2, "n_passed": 3, "wrong_passed": 0.2}
    told = run("advise", samples).stdout
    assert "stopped 3 calls that people ruled on: 1 right (lost), 2 wrong (saved)" in told
    assert "Of what would have passed, 20.0% are wrong" in told


def test_observed_calls_make_no_policy(tmp_path):
    samples = write(tmp_path / "week.samples.jsonl", ruled("1", "observed", correct=True))
    out = tmp_path / "policy.json"
    done = run("advise", samples, "--out", out, code=1)
    assert "No policy was written" in done.stdout
    assert not out.exists()


def test_advise_reads_the_columns_that_the_options_name(tmp_path):
    rows = [{"who": each.pop("agent"), **each} for each in ruled("1", "observed", correct=True)]
    samples = write(tmp_path / "week.samples.jsonl", rows)
    done = run("advise", samples, "--columns", "agent=who", "--json")
    assert json.loads(done.stdout)["observed"]["n_lost"] == 1
