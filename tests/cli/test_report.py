import pytest

from tests.cli.command import run
from tests.evaluation.invented import group, row, write


@pytest.mark.parametrize("named", ["folder", "file"])
def test_report_writes_a_page_of_a_run(tmp_path, named):
    folder = tmp_path / "night <b>"
    folder.mkdir()
    file = write(folder / "run.samples.jsonl", group(5))
    done = run("report", folder if named == "folder" else file, "--out", tmp_path / "r.html", "--resamples", 10)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"5 questions: {tmp_path / 'r.html'}, 0.")
    html = (tmp_path / "r.html").read_text()
    title = "night &lt;b&gt;" if named == "folder" else "run.samples.jsonl"
    assert f"<h1>{title}</h1>" in html
    assert "clusters by NormalizedMatch" in html


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["/none"], 2, "/none cannot be read"),
        (["{empty}"], 2, "holds no samples"),
        (["{file}", "--out", "/none/r.html"], 1, "/none/r.html"),
        (["{file}", "--correctness", "entailment"], 2, "needs an entailment model"),
        ([], 2, "Missing argument"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, code, message):
    (tmp_path / "empty").mkdir()
    file = write(tmp_path / "s.jsonl", [row()])
    done = run("report", *(a.format(file=file, empty=tmp_path / "empty") for a in arguments))
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_mistake_leaves_the_former_page(tmp_path):
    out = tmp_path / "r.html"
    out.write_text("before")
    samples = write(tmp_path / "s.jsonl", [row(logprob=None)])
    assert run("report", samples, "--weighting", "probability", "--out", out).returncode == 1
    assert out.read_text() == "before"
