"""A folder with all files that commands read, for the tests that need one of each."""

import gzip
import json

import pytest

from coe_agents import ThresholdPolicy, _ring, create_coe_graph
from coe_agents.cli.stores import open_store
from coe_agents.clustering import NormalizedMatch
from coe_agents.policy import AgentWeights
from coe_agents.testing import ScriptedAgent
from tests.cli.command import run
from tests.cli.test_config import EXAMPLE
from tests.configurations import table
from tests.evaluation.invented import group, row, write
from tests.experiments.decided import step, went_on
from tests.experiments.decided import written as decided

LOCAL = {"provider": "tinyworld", "model": "tiny-llama"}
ASKED = {
    "n_samples": 2,
    "temperature": 1.0,
    "weight": 1.0,
    "system_prompt": "Be brief.",
    "max_tokens": 8,
}
LIMITS = {
    "timeout": 60,
    "retries": 0,
    "max_concurrency": 4,
    "on_greedy": "trust",
    "options": {"top_p": 0.9},
}
GRAPH = {"max_rounds": 1, "weighting": "auto", "min_agents": 1, "max_question_chars": 1000}
GRAPH |= {"strategies": {"conflict": "debate"}}
CONFIG = (
    table("[agents]", name="llama", **LOCAL, **ASKED, **LIMITS)
    + table(
        "[agents]",
        name="qwen",
        provider="tinyworld",
        model="tiny-qwen2",
        n_samples=2,
        max_tokens=8,
        seed=3,
    )
    + table("clusterer", kind="normalized")
    + table("policy", kind="threshold", max_coe=0.5, otherwise="abstain")
    + table("judge", **LOCAL)
    + table("graph", **GRAPH)
)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def calls():
    tool = {"name": "pay", "parameters": {"properties": {"sum": {"type": "number", "default": 1}}}}
    for i in range(6):
        for agent in "abc":
            proposed = [{"name": "pay", "args": {"sum": i, "to": agent}}][: i % 3]
            yield row(f"q{i}", agent, text="", calls=proposed, tools=[tool]) | {
                "correct": agent == "a"
            }


LINE = lines(
    [
        {
            "question": "What is the capital of France?",
            "references": ["Paris"],
            "id": "1",
            "context": "Ann.",
        }
    ]
)
SQUAD = {"id": "1", "question": "Who?", "answers": [{"text": "Ann"}], "is_impossible": False}
TRIVIAQA = {"Value": "Ann", "Aliases": ["Ann"], "NormalizedAliases": ["ann"]}
SAMPLES = group(80, n_samples=2)
LABELLED = [
    {"id": f"{n}", "correct": n % 5 > 0, "seen_probability": 0.5, "time": "2026-01-31"}
    for n in range(12)
]
FILES = {
    "coe.toml": CONFIG,
    "example.toml": EXAMPLE.read_text(),
    "data.jsonl": LINE,
    "squad.json": json.dumps({"data": [{"paragraphs": [{"context": "Ann did.", "qas": [SQUAD]}]}]}),
    "triviaqa.json": json.dumps(
        {"Data": [{"QuestionId": "1", "Question": "Who?", "Answer": TRIVIAQA}]}
    ),
    "s.samples.jsonl": lines(SAMPLES),
    "calls.samples.jsonl": lines(calls()),
    "ruled.samples.jsonl": lines(
        each | {"kind": "audit", "seen_probability": 0.5} for each in SAMPLES
    ),
    "cases.jsonl": lines(LABELLED),
    "broken.jsonl": lines(SAMPLES[:1]) + "{",
}
MAKING = """\
calibrate s.samples.jsonl --risk 0.4 --out policy.json
calibrate s.samples.jsonl --risk 0.4 --proposer a --weights learned --out learned.json
sample --dataset data.jsonl --config coe.toml --out sampled
run --dataset data.jsonl --config coe.toml --out ran
"""
"""What makes further files of these."""


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Returns a folder of all files that the commands name, each valid."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("made")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for name in ("data.jsonl", "s.samples.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress(FILES[name].encode(), mtime=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in MAKING.splitlines():
            run(*command.split())
    AgentWeights(dict.fromkeys("abc", 1.0)).save(folder / "weights.json")
    went = went_on((0.1, 0.6, False), (0.1, 0.6, True), regime="conflict")
    prices = {name: {"input": 1.0, "output": 2.0} for name in "ab"}
    rows = {"a": step(), "b": went, "c": step(), "d": "gone"}
    decided(folder / "decided", rows, seconds={"c": 0.5, "a": 1}, prices=prices)
    (folder / "decided" / "settings.json").write_text(
        json.dumps({"dataset": {"source": "d.jsonl"}, "seed": 0})
    )
    if _ring.is_there("rulings"):
        record_cases(folder / "store.sqlite")
    return folder


def record_cases(path):
    """Writes a store with two recorded cases, of which one was ruled on."""
    from coe_agents.rulings import Recording, pending_cases, rule

    with open_store(str(path), may_be_new=True) as store:
        options = {"policy": ThresholdPolicy(0.5), "on_decision": Recording(audit_rate=1.0)}
        agents = [ScriptedAgent(name, ["Paris"]) for name in "ab"]
        graph = create_coe_graph(agents, clusterer=NormalizedMatch(), **options).compile(
            store=store
        )
        for _ in range(2):
            graph.invoke({"question": "Which?"})
        rule(store, pending_cases(store)[0]["id"], correct=True)


@pytest.fixture(scope="session")
def policy(tmp_path_factory):
    """The path of a policy of a risk of 0.3."""
    folder = tmp_path_factory.mktemp("policy")
    samples = write(folder / "s.samples.jsonl", group(200, logprob=None))
    run("calibrate", samples, "--risk", 0.3, "--out", folder / "policy.json")
    return folder / "policy.json"
