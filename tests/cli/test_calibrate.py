"""`calibrate` where no threshold keeps the risk."""

from tests.cli.command import run
from tests.evaluation.invented import row, write


def test_what_cannot_be_calibrated_is_not_written_and_says_how_near_it_was(tmp_path):
    # 50 questions, of which the 26 surest are right
    said = [["Paris"] * (60 - place) + ["Lyon"] * place for place in range(26)] + [["Lyon"] * 31 + ["Paris"] * 29] * 24
    rows = [
        row(f"q{place}", agent, number, text, references=["Paris"])
        for place, texts in enumerate(said)
        for agent in "ab"
        for number, text in enumerate(texts)
    ]
    samples, out = write(tmp_path / "s.samples.jsonl", rows), tmp_path / "policy.json"
    done = run("calibrate", samples, "--risk", 0.1, "--out", out)
    assert done.returncode == 1
    assert "Nearest are the 26 surest: 0 wrong, which shows a risk of at most 8.5%." in done.stdout
    assert "more labelled questions like these would show it" in done.stdout
    assert "No policy was written" in done.stdout
    assert not out.exists()
    out.write_text("of last week")
    assert run("calibrate", samples, "--risk", 0.1, "--out", out).returncode == 1
    assert out.read_text() == "of last week"
