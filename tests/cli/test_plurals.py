"""Numbers with a noun, in all that a person reads."""

import json
import re

import pytest

from coe_agents import ThresholdPolicy
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA, Samples
from coe_agents.evaluation.samples.folder import SETTINGS
from coe_agents.experiments.replay import ReplayedPolicy, load_saved, replay
from coe_agents.policy.bounds import Bounds
from coe_agents.policy.settle import Rules
from coe_agents.text import quantity
from tests.cli.command import run
from tests.evaluation.invented import row, write
from tests.experiments.decided import step, written

NOUNS = ["agent", "answer", "cluster", "failure", "question", "resample", "response", "round", "tie", "token"]
ADJECTIVES = r"(?:bootstrap|judged|labelled|other|paired|wrong)"
WRONG = {
    1: re.compile(rf"\b1 (?:{ADJECTIVES} )*(?:{'|'.join(NOUNS)})s\b|\b1 \w+ (?:are|were)\b|\bthey count\b"),
    2: re.compile(rf"\b2 (?:{ADJECTIVES} )*(?:{'|'.join(NOUNS)})\b|\b2 \w+ (?:is|was)\b|\bit counts\b"),
}


def test_a_count_has_its_noun():
    assert [quantity(n, "question") for n in (0, 1, 2, 1234)] == [
        "0 questions",
        "1 question",
        "2 questions",
        "1234 questions",
    ]
    assert [quantity(n, "case waits", "cases wait") for n in (1, 2)] == ["1 case waits", "2 cases wait"]


def shown(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("n", [1, 2])
def test_what_a_person_reads_is_in_the_singular_for_one(tmp_path, n):
    texts = ("Paris", "Lyon")
    rows = [
        row(str(i), agent, text=texts[agent == "b"], index=index, references=["Paris"])
        for i in range(n)
        for agent in "ab"
        for index in range(n)
    ]
    rows += [row(str(i), "c", text="", error="down") for i in range(n)]
    samples = write(tmp_path / "s.jsonl", rows)
    runs = []
    for name in ("first", "second"):
        decided = {"0": step(), "down": "gone", f"only {name}": step()}
        if n == 2:
            decided |= {"1": step(), "down 2": "gone", f"more {name}": step()}
        folder = written(tmp_path / name, decided)
        (folder / SETTINGS).write_text(json.dumps({"dataset": {"n_questions": len(decided) + n, "limit": 0}}))
        runs.append(folder)
    pages = [tmp_path / "samples.html", tmp_path / "runs.html"]
    said = [
        shown("score", samples, "--resamples", n),
        shown("compare", *runs, "--resamples", n),
        shown("report", samples, "--out", pages[0], "--resamples", n),
        shown("report", *runs, "--out", pages[1], "--resamples", n),
        shown("run", "--dataset", "tinyworld", "--limit", n, "--out", tmp_path / "run"),
        shown("sample", "--dataset", "tinyworld", "--limit", n, "--out", tmp_path / "sample"),
        *(page.read_text("utf-8").partition("<script")[0] for page in pages),
    ]
    with Samples([samples]) as opened:
        saved = load_saved(opened, NormalizedMatch())
    for name, otherwise in (("asks again", "another_round"), ("asks somebody", "escalate")):
        policy = ReplayedPolicy(
            name=name,
            policy=ThresholdPolicy(0.1, otherwise=otherwise),
            n_samples={"a": 9, "x": 9},
            rules=Rules(bounds=Bounds(max_rounds=2)),
            has_arbiter=True,
        )
        said += replay(saved, policy, CRITERIA["reference"]).notes
    text = "\n".join(said)
    assert len(re.findall(rf"\b{n} (?:{'|'.join(NOUNS)})", text)) > 10
    assert not WRONG[n].findall(text), text
