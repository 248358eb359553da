"""Each file that people have, by one command; see docs/your_own_files.md."""

import json
from pathlib import Path

import pytest

from coe_agents.errors import SamplesError
from coe_agents.experiments import score
from tests.cli.command import run
from tests.evaluation.invented import row, write

FILES = Path(__file__).parents[1] / "evaluation" / "samples" / "files"
NAMES = "id=qid,question=prompt,agent=model,text=response"


@pytest.mark.parametrize(
    ("pattern", "options", "accuracy"),
    [
        ("own.samples.jsonl", [], 0.5),
        ("own.json", [], 0.5),
        ("own.parquet", [], 0.5),
        ("other.csv", ["--columns", NAMES], 0.5),
        ("small-model/samples_small_arithmetic_*.jsonl", [], 0.75),  # a tie, and one right
        ("batch_output.jsonl", ["--questions", FILES / "batch_questions.csv"], 0.5),
        ("tool-calling-*.json", ["--clusterer", "actions"], 0.5),
    ],
)
def test_a_file_is_scored(pattern, options, accuracy):
    done = run("score", FILES / pattern, *options, "--resamples", 5, "--json")
    assert json.loads(done.stdout)["accuracy"] == accuracy


def test_passages_are_scored_claim_by_claim():
    pytest.importorskip("coe_agents.claims")
    done = run("score", FILES / "selfcheckgpt.jsonl", "--claims", "overlap", "--json")
    assert json.loads(done.stdout)["agents"]["gpt3"]["n_claims"] == 4


def test_batch_output_needs_its_questions():
    run("score", FILES / "batch_output.jsonl", code=2)
    with pytest.raises(SamplesError, match='Pass "questions"'):
        score(FILES / "batch_output.jsonl", progress=False)


def test_no_question_that_can_be_scored_is_an_error(tmp_path):
    samples = write(tmp_path / "s.jsonl", [row()])
    done = run("score", samples, "--json", code=2)
    assert not done.stdout
    with pytest.raises(SamplesError, match="none of 1 question can be scored"):
        score(samples, progress=False)


def test_columns_are_pairs(tmp_path):
    done = run("score", write(tmp_path / "s.jsonl", [row()]), "--columns", "text", code=2)
    assert "ours=theirs" in done.stderr


def test_rows_of_the_hub_are_asked(tmp_path):
    path = tmp_path / "gsm8k.csv"
    path.write_text('prompt,solution\nHow many?,"9 - 7 = 2.\n#### 2"\n')
    columns = ["--columns", "question=prompt,answer=solution"]
    run("sample", "--dataset", path, *columns, "--out", tmp_path / "run")
    line = (tmp_path / "run" / "run.samples.jsonl").read_text().splitlines()[0]
    assert json.loads(line)["references"] == ["2"]
