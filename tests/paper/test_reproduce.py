import csv

import pytest

from coe_agents.paper.material import read_saved_material
from tests.cli.command import run
from tests.evaluation.invented import group, write


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return write(tmp_path_factory.mktemp("samples") / "s.samples.jsonl", group(20))


def table(path):
    return list(
        csv.DictReader(
            line for line in path.read_text().splitlines() if not line.startswith(("#", '"#'))
        )
    )


@pytest.mark.slow
def test_all_that_saved_samples_allow(samples, tmp_path):
    done = run("reproduce", "all", "--samples", samples, "--out", tmp_path)
    tables = "model-accuracy selective-prediction triviaqa epsilon sampling divergences"
    figures = "selective-prediction triviaqa epsilon sampling divergences"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}.{kind}"
        for names, kinds in ((tables, ("csv",)), (figures, ("png", "svg")))
        for name in names.split()
        for kind in kinds
    )
    assert "Skipped squad: " in done.stdout
    rows = table(tmp_path / "selective-prediction.csv")
    assert [row["source"] for row in rows] == ["here", "paper"] * 12
    assert (
        next(row for row in rows if row["source"] == "paper" and row["metric"] == "CoE")["AUROC"]
        == "0.683"
    )
    assert (
        "clusterer: NormalizedMatch; right by: reference_or_label"
        in (tmp_path / "epsilon.csv").read_text()
    )
    assert "in place of TriviaQA" in (tmp_path / "triviaqa.svg").read_text()


@pytest.mark.slow
def test_the_order_of_agents_is_the_callers_and_a_narrow_terminal_leaves_columns_out(
    samples, tmp_path
):
    command = (
        "reproduce",
        "selective-prediction",
        "--samples",
        samples,
        "--agents",
        "c,a",
        "--out",
        tmp_path,
    )
    done = run(*command, wide=80)
    assert "2 models: c + a, 20 questions" in (tmp_path / "selective-prediction.csv").read_text()
    assert all(
        len(line.rstrip()) <= 80 for line in done.stdout.splitlines() if str(tmp_path) not in line
    )
    assert "more columns in a wider terminal and in the files" in done.stdout


def test_all_leaves_out_what_needs_more_responses(tmp_path):
    few = write(tmp_path / "few.samples.jsonl", group(3, n_samples=3))
    material = read_saved_material([few], None, config=None)
    assert material.left_out["sampling"].startswith("it needs 4 responses or more of each agent")
