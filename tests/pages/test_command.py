from tests.cli.command import run
from tests.experiments.decided import step, written


def test_report_of_a_run(tmp_path):
    paths = [
        written(tmp_path / name, {"1": step(), "2": step(correct=0.0)})
        for name in ("day <b>", "night")
    ]
    done = run("report", paths[0], "--out", tmp_path / "one.html", "--resamples", 10)
    assert done.stdout.startswith(f"2 questions: {tmp_path / 'one.html'}, ")
    n_bytes = (tmp_path / "one.html").stat().st_size
    assert done.stdout.splitlines()[0].endswith(f", {n_bytes / 1e3:.1f} kB")
    html = (tmp_path / "one.html").read_text()
    assert "<h1>day &lt;b&gt;</h1>" in html
    assert "answers 100.0% and is wrong in 50.0% of its answers." in html
