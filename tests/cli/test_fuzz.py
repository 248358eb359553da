"""Every command that reads a file is given damaged ones: it ends soon, with a documented status, and no traceback.

On each change a few are drawn for each file; all of them where the slow tests are run, too.
"""

import faulthandler
import gzip
import json
import shutil
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from coe_agents import Recording, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.rulings import pending_cases, rule
from coe_agents.testing import ScriptedAgent
from tests.cli.command import run
from tests.cli.mutants import damage
from tests.cli.test_config import EXAMPLE
from tests.evaluation.invented import group, row, write
from tests.experiments.decided import step, went_on
from tests.experiments.decided import written as decided

LONGEST = 10.0
FEW, ALL = 1, 20
DOCUMENTED = {"ask": {0, 1, 2, 3, 4}, "doctor": {0, 1, 2}, "config check": {0, 2}, "drift": {0, 1, 2, 3}}
OTHERS = {0, 1, 2}
CONFIG = """
[[agents]]
name = "llama"
provider = "tinyworld"
model = "tiny-llama"
n_samples = 2
temperature = 1.0
weight = 1.0
system_prompt = "Be brief."
max_tokens = 8
timeout = 60
retries = 0
max_concurrency = 4
on_greedy = "trust"
options = { top_p = 0.9 }

[[agents]]
name = "qwen"
provider = "tinyworld"
model = "tiny-qwen2"
n_samples = 2
max_tokens = 8
seed = 3

[clusterer]
kind = "normalized"

[policy]
kind = "threshold"
max_coe = 0.5
otherwise = "abstain"

[judge]
provider = "tinyworld"
model = "tiny-llama"

[graph]
max_rounds = 1
weighting = "auto"
divergence = "kl"
min_agents = 1
max_question_chars = 1000
strategies = { conflict = "debate" }
adaptive = { start = 1, step = 1, max_samples = 2 }
"""
SQUAD = {"id": "1", "question": "Who?", "answers": [{"text": "Ann"}], "is_impossible": False}
TRIVIAQA = {"Value": "Ann", "Aliases": ["Ann"], "NormalizedAliases": ["ann"]}
LINE = b'{"question": "Who?", "references": ["Ann"], "id": "1", "context": "Ann did."}\n'
DATASETS = {
    "lines": ("d.jsonl", "jsonl", LINE),
    "compressed": ("d.jsonl.gz", "gz", gzip.compress(LINE, mtime=0)),
    "squad": ("s.json", "json", json.dumps({"data": [{"paragraphs": [{"context": "Ann did.", "qas": [SQUAD]}]}]})),
    "triviaqa": ("t.json", "json", json.dumps({"Data": [{"QuestionId": "1", "Question": "Who?", "Answer": TRIVIAQA}]})),
}
WEIGHTS = json.dumps({"format": "coe-agents agent weights 1", "weights": {"a": 0.5, "b": 1.0, "c": 1.0}})
PLAIN = {
    "own.toml": CONFIG,
    "data.jsonl": '{"question": "What is the capital of France?", "references": ["Paris"], "context": "Ann did."}\n',
}
"""Files that commands need beside the damaged one."""


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def calls():
    tool = {"name": "pay", "parameters": {"properties": {"sum": {"type": "number", "default": 1}}}}
    for i in range(6):
        for agent in "abc":
            proposed = [{"name": "pay", "args": {"sum": i, "to": agent}}][: i % 3]
            yield row(f"q{i}", agent, text="", calls=proposed, tools=[tool]) | {"correct": agent == "a"}


def store(folder):
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string(str(folder / "made.sqlite")) as opened:
        opened.setup()
        agents = [ScriptedAgent(name, ["Paris"]) for name in "ab"]
        options = {
            "clusterer": NormalizedMatch(),
            "policy": ThresholdPolicy(0.5),
            "recording": Recording(audit_rate=1.0),
        }
        graph = create_coe_graph(agents, **options).compile(store=opened)
        for _ in range(2):
            graph.invoke({"question": "Which?"})
        rule(opened, pending_cases(opened)[0]["id"], correct=True)
    return (folder / "made.sqlite").read_bytes()


def made_by(*arguments):
    """Returns what makes a file by a command, from 80 questions."""

    def make(folder):
        done = run(*arguments, "--out", folder / "made.json", write(folder / "many.samples.jsonl", group(80)))
        assert done.returncode == 0, done.stderr
        return (folder / "made.json").read_bytes()

    return make


def of_run(name):
    """Returns what decides four questions of a run, and gives one of its files."""

    def make(folder):
        rows = {
            "a": step(),
            "b": went_on((0.1, 0.6, False), (0.1, 0.6, True), regime="conflict"),
            "c": step(),
            "d": "gone",
        }
        prices = {name: {"input": 1.0, "output": 2.0} for name in "ab"}
        decided(folder / "run", rows, seconds={"c": 0.5, "a": 1}, prices=prices)
        (folder / "run" / "settings.json").write_text(json.dumps({"dataset": {"source": "d.jsonl"}, "seed": 0}))
        return (folder / "run" / name).read_bytes()

    return make


def resumed(command, name):
    """Returns what makes a run by a command, and gives one of its files."""

    def make(folder):
        done = run(
            command, "--dataset", folder / "data.jsonl", "--config", folder / "own.toml", "--out", folder / "run"
        )
        assert done.returncode == 0, done.stderr
        return (folder / "run" / name).read_bytes()

    return make


@dataclass(frozen=True)
class Case:
    """A command, and the valid file that is damaged: its name, its kind, and its content or what makes it."""

    command: str
    name: str
    kind: str
    valid: Any
    fresh: bool = False
    """Whether the run that it writes is removed first."""


CALIBRATE, SCORE = "calibrate --risk 0.4 --out {folder}/p.json", "score --resamples 2"
SAMPLES = lines(group(6, n_samples=2))
LABELLED = lines(
    [{"id": f"{n}", "correct": n % 5 > 0, "seen_probability": 0.5, "time": "2026-01-31"} for n in range(12)]
)
RULED = lines([each | {"kind": "audit", "seen_probability": 0.5} for each in group(40, n_samples=2)])
POLICIES = {
    "threshold": made_by("calibrate", "--risk", 0.4),
    "learned-support": made_by("calibrate", "--risk", 0.4, "--proposer", "a", "--score", "learned"),
}
ASK = "ask France? --json --config {path}"
DATA, STORE = " --dataset {folder}/data.jsonl", ("s.sqlite", "bytes", store)
SAMPLE = "sample --config {folder}/own.toml --out {folder}/run --limit 2"
CASES = {
    "check": Case("config check {path}", "coe.toml", "toml", CONFIG),
    "check served": Case("config check {path}", "coe.toml", "toml", EXAMPLE.read_text()),
    "ask": Case(ASK, "coe.toml", "toml", CONFIG),
    "serve": Case("serve --port 0 --config {path}", "coe.toml", "toml", CONFIG),
    "doctor": Case("doctor --timeout 4 --config {path}", "coe.toml", "toml", CONFIG),
    "score lines": Case(SCORE + " {path}", "s.samples.jsonl", "jsonl", SAMPLES),
    "score calls": Case(SCORE + " {path} --clusterer actions --proposer a", "s.samples.jsonl", "jsonl", lines(calls())),
    "score gz": Case(SCORE + " {path} --json", "s.samples.jsonl.gz", "gz", gzip.compress(SAMPLES, mtime=0)),
    "score config": Case(SCORE + " {folder}/few.samples.jsonl --config {path}", "coe.toml", "toml", CONFIG),
    "score run": Case(SCORE + " {folder}/run", "run/run.samples.jsonl", "jsonl", SAMPLES),
    "report": Case("report --resamples 2 --out {folder}/page.html {path}", "s.samples.jsonl", "jsonl", SAMPLES),
    "reproduce": Case("reproduce epsilon --out {folder}/o --samples {path}", "s.jsonl", "jsonl", SAMPLES),
    "calibrate": Case(CALIBRATE + " {path}", "s.samples.jsonl", "jsonl", lines(group(40, n_samples=2))),
    "calibrate weights": Case(CALIBRATE + " {folder}/few.samples.jsonl --weights {path}", "w.json", "json", WEIGHTS),
    "weights": Case("weights {path} --out {folder}/w.toml", "s.samples.jsonl", "jsonl", lines(group(40, n_samples=2))),
    "advise": Case("advise --resamples 2 {path}", "s.samples.jsonl", "jsonl", lines(group(60, n_samples=2))),
    "calibrate rulings": Case(CALIBRATE + " {path} --current {folder}/policy.json", "s.jsonl", "jsonl", RULED),
    **{
        f"drift {name}": Case("drift {path} {folder}/few.samples.jsonl", "p.json", "json", make)
        for name, make in POLICIES.items()
    },
    "drift follow": Case(
        "drift {folder}/policy.json --until-end --min-seen 0.1 --follow {path}", "cases.jsonl", "jsonl", LABELLED
    ),
    **{
        f"compare {name}": Case("compare --resamples 2 {folder}/run", f"run/{name}", kind, of_run(name))
        for name, kind in (
            ("run.decisions.jsonl", "jsonl"),
            ("run.seconds.jsonl", "jsonl"),
            ("settings.json", "json"),
            ("prices.json", "json"),
        )
    },
    **{
        f"{command} {name}": Case(
            command + " --dataset {folder}/data.jsonl --config {folder}/own.toml --out {folder}/run",
            f"run/{name}",
            "json" if name.endswith("json") else "jsonl",
            resumed(command, name),
        )
        for command, name in (
            ("sample", "run.samples.jsonl"),
            ("sample", "settings.json"),
            ("run", "run.decisions.jsonl"),
        )
    },
    **{f"dataset {name}": Case(SAMPLE + " --dataset {path}", *given, fresh=True) for name, given in DATASETS.items()},
    "evaluate": Case("evaluate" + DATA + " --config {path} --out {folder}/run", "coe.toml", "toml", CONFIG, fresh=True),
    "harvest": Case("harvest --out {folder}/r.jsonl --cases {folder}/run/c --store {path}", *STORE, fresh=True),
    "audit": Case("audit --store {path}", *STORE),
}


@pytest.mark.usefixtures("local_models")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("drawn", ["few", pytest.param("all", marks=pytest.mark.slow)])
def test_a_damaged_file(tmp_path, monkeypatch, policy, name, drawn):
    monkeypatch.setattr("coe_agents.serve.http_server.serve", lambda *_, **__: None)
    case, run_folder = CASES[name], tmp_path / "run"
    (tmp_path / "policy.json").write_bytes(policy)
    write(tmp_path / "few.samples.jsonl", group(40, n_samples=2))
    for other, content in PLAIN.items():
        (tmp_path / other).write_text(content)
    valid = case.valid(tmp_path) if callable(case.valid) else case.valid
    content = valid if isinstance(valid, bytes) else valid.encode()
    path = tmp_path / case.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    kept = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()} if "/" in case.name else {}
    arguments = [part.format(path=path, folder=tmp_path) for part in case.command.split(" ")]
    intact = run(*arguments)
    assert intact.returncode != 2, intact.stderr
    seeds = range(FEW, ALL) if drawn == "all" else range(FEW)
    codes, faults = Counter[int](), list[str]()
    for seed in (zlib.crc32(content + name.encode()) + number for number in seeds):
        if case.fresh:
            shutil.rmtree(run_folder, ignore_errors=True)
            run_folder.mkdir()
        for other, whole in kept.items():
            other.write_bytes(whole)
        path.write_bytes(damaged := damage(content, case.kind, seed))
        faults += [f"seed {seed}: {fault} {damaged[:60]!r}" for fault in faults_of(arguments, codes)]
    assert not faults, f"{len(faults)} of {len(seeds)} ({dict(codes)}):\n" + "\n".join(faults[:12])
    assert drawn == "few" or any(code != 0 for code in codes), "no damage was noticed"


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return POLICIES["threshold"](tmp_path_factory.mktemp("policy"))


def faults_of(arguments, codes):
    allowed = DOCUMENTED.get(" ".join(arguments[:2]), DOCUMENTED.get(arguments[0], OTHERS))
    start = time.process_time()  # other tests share the processors
    faulthandler.dump_traceback_later(30 * LONGEST, exit=True)  # a command that hangs ends the tests, and says where
    try:
        done = run(*arguments)
    except Exception as error:
        yield f"{type(error).__name__}: {str(error)[:900]}"
        return
    finally:
        faulthandler.cancel_dump_traceback_later()
    codes[done.returncode] += 1
    shown = done.stdout + done.stderr
    if done.returncode not in allowed or "Traceback" in shown:
        yield f"status {done.returncode}: {shown[-300:]}"
    if "\x1b" in shown or "\x00" in shown:
        yield f"control characters: {shown!r:.200}"
    if done.returncode == 2 and not done.stderr.strip():
        yield "status 2 without a word"
    if (seconds := time.process_time() - start) > LONGEST:
        yield f"{seconds:.0f} s"


def test_every_command_that_reads_a_file_is_damaged_here():
    from typer.main import get_command

    from coe_agents.cli.app import app

    takes_no_file = {"demo", "init"}
    known = get_command(app).commands
    names = {name for name in known if name != "config"} | set(known["config"].commands)
    damaged = {part for case in CASES.values() for part in case.command.split(" ")[:2]}
    assert names - takes_no_file <= damaged
