import json

import pytest

from coe_agents.claims import ClaimPolicy
from tests.cli.command import run

RIGHT = "Person{0} wrote the book{0}."
WRONG = "Person{0} ate the cake{0}."


@pytest.fixture
def claims_file(tmp_path):
    """Fifty persons of whom both agents say one right thing, and one of them a wrong one."""
    path = tmp_path / "x.claims.jsonl"
    lines = []
    for number in range(50):
        right = RIGHT.format(number)
        wrong = WRONG.format(number)
        claims = [{"text": right, "supported": True}, {"text": wrong, "supported": False}]
        answers = {
            "a": {"text": f"{right} {wrong}", "claims": claims},
            "b": {"text": right, "claims": claims[:1]},
        }
        lines.append(
            json.dumps(
                {"id": str(number), "question": "?", "entity": str(number), "answers": answers}
            )
        )
    path.write_text("\n".join(lines))
    return path


def test_score_says_how_well_support_tells_wrong_claims(claims_file):
    found = json.loads(
        run("score", claims_file, "--claims", "overlap", "--json", "--resamples", "20").stdout
    )
    assert found["agents"]["a"]["n_claims"] == 100
    assert found["agents"]["a"]["auroc"] == [1.0, 1.0, 1.0]
    assert found["agents"]["b"]["auroc"] == [None, None, None]  # all of its claims are right
    shown = run("score", claims_file, "--claims", "overlap", "--resamples", "20").stdout
    assert "100%" in shown


def test_calibrate_writes_a_policy_and_says_what_it_keeps(claims_file, tmp_path):
    out = tmp_path / "claims.json"
    said = run(
        "calibrate", claims_file, "--claims", "overlap", "--risk", "0.1", "--out", out
    ).stdout
    assert (
        "it keeps 100 of 150 claims (66.7%) of 50 questions, 0 wrong (0.0%), in 100 of 100 answers"
        in said
    )
    assert ClaimPolicy.load(out).min_support == pytest.approx(1.0)
    none = run(
        "calibrate", claims_file, "--claims", "overlap", "--risk", "0.01", "--out", out, code=1
    )
    assert "No threshold is shown" in none.stdout
