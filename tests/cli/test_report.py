from tests.cli.command import run
from tests.experiments.decided import step, written


def test_report_of_a_run_and_of_two(tmp_path):
    paths = [written(tmp_path / name, {"1": step(), "2": step(correct=0.0)}) for name in ("night", "day <b>")]
    done = run("report", paths[0], "--out", tmp_path / "one.html", "--resamples", 10)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"2 questions: {tmp_path / 'one.html'}, 0.")
    assert "night answers 100.0% and is wrong in 50.0% of its answers." in (tmp_path / "one.html").read_text()
    done = run("report", *paths, "--out", tmp_path / "two.html", "--resamples", 10)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "two.html").read_text()
    assert "<h1>night and day &lt;b&gt;</h1>" in html
    assert "The outcome differs in 0 of the 2 questions of both." in html
