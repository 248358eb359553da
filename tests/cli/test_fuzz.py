"""Every command that reads a file is given damaged ones: it ends soon, with a documented status, and no traceback."""

import gzip
import json
import shutil
import signal
import threading
import time
import traceback
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from coe_agents.evaluation.samples.parquet import SAMPLE_COLUMNS, to_parquet
from tests.cli.command import run
from tests.cli.mutants import damage
from tests.evaluation.invented import group, row, write
from tests.experiments.decided import step, went_on
from tests.experiments.decided import written as decided

LONGEST = 10.0
N_EACH = 90
DOCUMENTED = {
    "ask": {0, 1, 2, 3, 4},
    "doctor": {0, 1, 2},
    "config check": {0, 2},
    "drift": {0, 1, 2, 3},
}
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
timeout = 5
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
REGIME = (
    CONFIG.replace('kind = "threshold"\nmax_coe = 0.5\notherwise = "abstain"', "")
    .replace("[policy]", '[policy]\nkind = "regime"\naleatoric_threshold = 0.5\nepistemic_threshold = 0.3')
    .replace("[judge]", 'actions = { conflict = "another_round" }\n\n[judge]')
    .replace('[clusterer]\nkind = "normalized"', '[clusterer]\nkind = "entailment"\nmodel = "tinyworld"\nstrict = true')
)
SERVED = """
[[agents]]
name = "served"
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
n_samples = 2
retries = 0
options = { timeout = 3 }

[clusterer]
kind = "llm"
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
strict = true
max_concurrency = 8

[policy]
kind = "calibrated"
path = "policy.json"

[escalation]
kind = "arbiter"
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
"""
PROMPT = 'instruction = "Be brief."\nquestion = "Q: {question}\\nA:"\nwith_context = "{context}\\nQ: {question}"\n'
SQUAD = {"id": "1", "question": "Who?", "answers": [{"text": "Ann"}], "is_impossible": False}
TRIVIAQA = {"Value": "Ann", "Aliases": ["Ann"], "NormalizedAliases": ["ann"]}
LINE = b'{"question": "Who?", "references": ["Ann"], "id": "1", "context": "Ann did."}\n'
DATASETS = {
    "lines": ("d.jsonl", "jsonl", LINE),
    "compressed": ("d.jsonl.gz", "gz", gzip.compress(LINE, mtime=0)),
    "squad": ("s.json", "json", json.dumps({"data": [{"paragraphs": [{"context": "Ann did.", "qas": [SQUAD]}]}]})),
    "triviaqa": ("t.json", "json", json.dumps({"Data": [{"QuestionId": "1", "Question": "Who?", "Answer": TRIVIAQA}]})),
    "truthfulqa": ("d.csv", "bytes", "Question,Best Answer,Correct Answers\nWho?,Ann,Ann; Anne\nWho else?,Bob,Bob\n"),
}


class HungError(Exception):
    """A command that did not end in time."""


@contextmanager
def watchdog():
    """Interrupts the main thread after the most CPU time that a command may take; if it waits, after 30 times that."""

    def hung(number, frame):
        where = "".join(traceback.format_stack(frame, 6))
        raise HungError(f"{signal.Signals(number).name} in {where}")

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, LONGEST), (signal.ITIMER_REAL, signal.SIGALRM, 30 * LONGEST))
    before = [signal.signal(number, hung) for _, number, _ in timers]
    for timer, _, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def fuzz(command, valid, kind, name, folder, *, seeds=range(N_EACH)):
    """Runs `command(path)` on damaged copies of a valid file, and reports what is not documented."""
    content, codes, faults = valid if isinstance(valid, bytes) else valid.encode(), Counter(), []
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    intact = run(*command(path))
    assert intact.returncode != 2, intact.stderr
    salt = zlib.crc32(content + name.encode())
    for number in seeds:
        seed = salt + number
        damaged = damage(content, kind, seed)
        path.write_bytes(damaged)
        arguments = [str(part) for part in command(path)]
        allowed = DOCUMENTED.get(" ".join(arguments[:2]), DOCUMENTED.get(arguments[0], OTHERS))
        start = time.process_time()  # other tests share the processors
        try:
            with watchdog():
                done = run(*arguments)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            faults.append(f"seed {seed}: {type(error).__name__}: {str(error)[:900]} {damaged[:60]!r}")
            continue
        codes[done.returncode] += 1
        shown = done.stdout + done.stderr
        if done.returncode not in allowed or "Traceback" in shown:
            faults.append(f"seed {seed}: status {done.returncode}: {shown[-300:]}")
        if "\x1b" in shown or "\x00" in shown:
            faults.append(f"seed {seed}: control characters: {shown!r:.200}")
        if done.returncode == 2 and not done.stderr.strip():
            faults.append(f"seed {seed}: status 2 without a word")
        if (seconds := time.process_time() - start) > LONGEST:
            faults.append(f"seed {seed}: {seconds:.0f} s")
    assert not faults, f"{len(faults)} of {len(seeds)} ({dict(codes)}):\n" + "\n".join(faults[:12])
    assert any(code != 0 for code in codes), "no damage was noticed"


@pytest.fixture(scope="module")
def rows():
    return group(6, n_samples=2)


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """Returns a policy file of each kind, as this version writes it."""
    folder = tmp_path_factory.mktemp("policies")
    samples = write(folder / "s.jsonl", group(80))
    found = {}
    for name, options in {
        "threshold": [],
        "learned": ["--gate", "learned"],
        "support": ["--proposer", "a"],
        "learned support": ["--proposer", "a", "--gate", "learned"],
    }.items():
        done = run("calibrate", samples, "--risk", 0.4, *options, "--out", folder / f"{name}.json")
        assert done.returncode == 0, done.stderr
        found[name] = (folder / f"{name}.json").read_bytes()
    return found


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.slow
@pytest.mark.parametrize("config", [CONFIG, REGIME, SERVED], ids=["threshold", "regime", "served"])
@pytest.mark.parametrize("part", range(4))
def test_config_check(tmp_path, config, part, policies):
    (tmp_path / "policy.json").write_bytes(policies["threshold"])
    seeds = range(part * N_EACH, (part + 1) * N_EACH)
    fuzz(lambda path: ["config", "check", path], config, "toml", "coe.toml", tmp_path, seeds=seeds)


@pytest.mark.slow
def test_the_example_of_config_init(tmp_path):
    run("config", "init", tmp_path / "example.toml")
    example = (tmp_path / "example.toml").read_bytes()
    fuzz(lambda path: ["config", "check", path], example, "toml", "coe.toml", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("config", [CONFIG, REGIME], ids=["threshold", "regime"])
def test_ask(tmp_path, config, local_models):
    question = "What is the capital of France?"
    fuzz(lambda path: ["ask", question, "--config", path, "--json"], config, "toml", "coe.toml", tmp_path)


@pytest.mark.slow
def test_serve(tmp_path, monkeypatch):
    monkeypatch.setattr("coe_agents.serve.server.serve", lambda *_, **__: None)
    command = ["serve", "--port", 0, "--config"]
    fuzz(lambda path: [*command, path], CONFIG, "toml", "coe.toml", tmp_path, seeds=range(60))


@pytest.mark.slow
def test_doctor(tmp_path, local_models):
    fuzz(lambda path: ["doctor", "--timeout", 4, "--config", path], CONFIG, "toml", "c.toml", tmp_path, seeds=range(30))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_score_of_lines(tmp_path, rows, part):
    seeds = range(part * N_EACH, (part + 1) * N_EACH)
    fuzz(lambda path: ["score", path, "--resamples", 2], lines(rows), "jsonl", "s.samples.jsonl", tmp_path, seeds=seeds)


@pytest.mark.slow
def test_score_of_calls(tmp_path):
    tool = {"name": "pay", "parameters": {"properties": {"sum": {"type": "number", "default": 1}}}}
    rows = [
        row(f"q{i}", agent, text="", calls=[{"name": "pay", "args": {"sum": i, "to": agent}}][: i % 3], tools=[tool])
        | {"correct": agent == "a"}
        for i in range(6)
        for agent in "abc"
    ]
    command = ["score", "--clusterer", "actions", "--proposer", "a", "--resamples", 2]
    fuzz(lambda path: [*command, path], lines(rows), "jsonl", "s.samples.jsonl", tmp_path)


@pytest.mark.slow
def test_score_of_compressed_lines(tmp_path, rows):
    packed = gzip.compress(lines(rows), mtime=0)
    fuzz(lambda path: ["score", path, "--resamples", 2, "--json"], packed, "gz", "s.samples.jsonl.gz", tmp_path)


@pytest.mark.slow
def test_score_of_parquet(tmp_path, rows):
    content = to_parquet([{**row, "correct": None} for row in rows], SAMPLE_COLUMNS)
    fuzz(lambda path: ["score", path, "--resamples", 2], content, "bytes", "s.parquet", tmp_path)


@pytest.mark.slow
def test_score_with_a_configuration(tmp_path, rows):
    samples = write(tmp_path / "s.samples.jsonl", rows)
    fuzz(lambda path: ["score", samples, "--resamples", 2, "--config", path], CONFIG, "toml", "coe.toml", tmp_path)


@pytest.mark.slow
def test_score_of_a_run(tmp_path, rows):
    command = ["score", tmp_path / "run", "--resamples", 2]
    fuzz(lambda path: command, lines(rows), "jsonl", "run/run.samples.jsonl", tmp_path)


@pytest.mark.slow
def test_score_of_a_run_in_parts(tmp_path, rows):
    content = to_parquet([{**row, "correct": None} for row in rows], SAMPLE_COLUMNS)
    command = ["score", tmp_path / "run", "--resamples", 2]
    fuzz(lambda path: command, content, "bytes", "run/samples/part-00000.parquet", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("sample", "run.samples.jsonl"),
        ("sample", "settings.json"),
        ("run", "run.decisions.jsonl"),
        ("run", "run.seconds.jsonl"),
        ("run", "settings.json"),
    ],
)
def test_a_run_that_is_resumed(tmp_path, name, file, local_models):
    data = write(tmp_path / "data.jsonl", [{"question": "What is the capital of France?", "references": ["Paris"]}])
    config = tmp_path / "coe.toml"
    config.write_text(CONFIG)
    command = [name, "--dataset", data, "--config", config, "--out", tmp_path / "run"]
    assert run(*command).returncode == 0
    kept = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}

    def resumed(path):
        for other, content in kept.items():
            if other != file and (tmp_path / "run").exists():
                (tmp_path / "run" / other).write_bytes(content)
        return command

    if file == "run.seconds.jsonl":  # nothing reads it again, and half a line at its end is dropped
        (tmp_path / "run" / file).write_bytes(kept[file][:-5])
        assert run(*command).returncode == 0
        return
    kind = "json" if file.endswith("json") else "jsonl"
    fuzz(resumed, kept[file], kind, f"run/{file}", tmp_path, seeds=range(60))


@pytest.mark.slow
@pytest.mark.parametrize("file", ["run.decisions.jsonl", "run.seconds.jsonl", "settings.json", "prices.json"])
def test_compare(tmp_path, file):
    rows = {str(number): step(correct=float(number % 2)) for number in range(4)}
    prices = {name: {"input": 1.0, "output": 2.0} for name in "ab"}
    folder = decided(tmp_path / "run", {**rows, "c": step()}, seconds={"1": 0.5, "2": 1}, prices=prices)
    (folder / "settings.json").write_text(json.dumps({"dataset": {"source": "d.jsonl"}, "seed": 0}))
    kind = "json" if file.endswith("json") else "jsonl"
    command = ["compare", folder, "--resamples", 2]
    fuzz(lambda path: command, (folder / file).read_bytes(), kind, f"run/{file}", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["threshold", "learned"])
def test_calibrate(tmp_path, gate):
    command = ["calibrate", "--risk", 0.4, "--gate", gate, "--out", tmp_path / "p.json"]
    valid = lines(group(40, n_samples=2))
    fuzz(lambda path: [*command, path], valid, "jsonl", "s.samples.jsonl", tmp_path, seeds=range(60))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threshold", "learned", "support", "learned support"])
def test_drift(tmp_path, rows, policies, kind):
    samples = write(tmp_path / "s.samples.jsonl", rows)
    fuzz(lambda path: ["drift", path, samples], policies[kind], "json", "policy.json", tmp_path)


@pytest.mark.slow
def test_drift_that_follows_a_file(tmp_path, policies):
    (tmp_path / "policy.json").write_bytes(policies["threshold"])
    cases = [{"id": f"{n}", "correct": n % 5 > 0, "seen_probability": 0.5, "time": "2026-01-31"} for n in range(12)]
    command = ["drift", tmp_path / "policy.json", "--until-end", "--min-seen", 0.1, "--follow"]
    fuzz(lambda path: [*command, path], lines(cases), "jsonl", "cases.jsonl", tmp_path)


WEIGHTS = json.dumps({"format": "coe-agents agent weights 1", "weights": {"a": 0.5, "b": 1.0}})


@pytest.mark.slow
def test_weights_for_calibrate(tmp_path):
    samples = write(tmp_path / "s.samples.jsonl", group(40, n_samples=2))
    command = ["calibrate", samples, "--risk", 0.4, "--out", tmp_path / "p.json", "--weights"]
    fuzz(lambda path: [*command, path], WEIGHTS, "json", "weights.json", tmp_path, seeds=range(60))


@pytest.mark.slow
def test_weights_of_a_configuration(tmp_path):
    config = tmp_path / "coe.toml"
    config.write_text(CONFIG + 'weights = "weights.json"\n')
    weights = WEIGHTS.replace('"a"', '"llama"').replace('"b"', '"qwen"')
    fuzz(lambda path: ["config", "check", config], weights, "json", "weights.json", tmp_path, seeds=range(60))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with a ruled audit, and one that waits."""
    from langgraph.store.sqlite import SqliteStore

    from coe_agents import Recording, ThresholdPolicy, create_coe_graph
    from coe_agents.clustering import NormalizedMatch
    from coe_agents.graph.rulings import pending_cases, rule
    from coe_agents.testing import ScriptedAgent

    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    with SqliteStore.from_conn_string(str(path)) as opened:
        opened.setup()
        graph = create_coe_graph(
            [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Paris"])],
            clusterer=NormalizedMatch(),
            policy=ThresholdPolicy(0.5),
            recording=Recording(audit_rate=1.0),
        ).compile(store=opened)
        for _ in range(2):
            graph.invoke({"question": "Which?"})
        rule(opened, pending_cases(opened)[0]["id"], correct=True)
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("command", [["harvest", "--out", "{out}", "--cases", "{cases}"], ["audit"]])
def test_a_store(tmp_path, store, command):
    names = {"out": tmp_path / "r.samples.jsonl", "cases": tmp_path / "c.jsonl"}
    arguments = [part.format(**names) for part in command]

    def of(path):
        names["cases"].unlink(missing_ok=True)
        return [*arguments, "--store", path]

    fuzz(of, store, "bytes", "store.sqlite", tmp_path, seeds=range(60))


@pytest.mark.slow
def test_calibrate_on_rulings(tmp_path, policies):
    (tmp_path / "policy.json").write_bytes(policies["threshold"])
    command = ["calibrate", "--current", tmp_path / "policy.json", "--risk", 0.4, "--out", tmp_path / "p.json"]
    valid = lines([row | {"kind": "audit", "seen_probability": 0.5} for row in group(40, n_samples=2)])
    fuzz(lambda path: [*command, path], valid, "jsonl", "s.samples.jsonl", tmp_path, seeds=range(60))


@pytest.mark.slow
def test_report(tmp_path, rows):
    out = tmp_path / "page.html"
    command = ["report", "--resamples", 2, "--out", out]
    fuzz(lambda path: [*command, path], lines(rows), "jsonl", "s.samples.jsonl", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["run.decisions.jsonl", "run.seconds.jsonl"])
def test_report_of_runs(tmp_path, file):
    rows = {
        "a": step(),
        "b": went_on((0.1, 0.6, False), (0.1, 0.6, True), regime="conflict"),
        "c": step(),
        "d": "AgentError: gone",
    }
    other = decided(tmp_path / "other", rows)
    folder = decided(tmp_path / "run", rows, seconds={"c": 0.5, "a": 1})
    command = ["report", folder, other, "--resamples", 2, "--out", tmp_path / "page.html"]
    fuzz(lambda path: command, (folder / file).read_bytes(), "jsonl", f"run/{file}", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "valid"), DATASETS.values(), ids=DATASETS)
def test_a_dataset(tmp_path, name, kind, valid, local_models):
    config = tmp_path / "coe.toml"
    config.write_text(CONFIG)

    def command(path):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return ["sample", "--dataset", path, "--config", config, "--out", tmp_path / "run", "--limit", 2]

    fuzz(command, valid, kind, name, tmp_path, seeds=range(60))


@pytest.mark.slow
def test_a_prompt(tmp_path, local_models):
    data = write(tmp_path / "data.jsonl", [{"question": "Who?", "references": ["Ann"], "context": "Ann did."}])
    config = tmp_path / "coe.toml"
    config.write_text(CONFIG)

    def command(path):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        given = ["--dataset", data, "--config", config, "--out", tmp_path / "run", "--with-context"]
        return ["sample", *given, "--prompt", path]

    fuzz(command, PROMPT, "toml", "prompt.toml", tmp_path, seeds=range(60))


@pytest.mark.slow
def test_evaluate(tmp_path, local_models):
    data = write(tmp_path / "data.jsonl", [{"question": "What is the capital of France?", "references": ["Paris"]}])

    def command(path):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return ["evaluate", "--dataset", data, "--config", path, "--out", tmp_path / "run"]

    fuzz(command, CONFIG, "toml", "coe.toml", tmp_path, seeds=range(40))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["selective-prediction", "normalisation"])
def test_reproduce(tmp_path, rows, name):
    command = ["reproduce", name, "--out", tmp_path / "out", "--samples"]
    fuzz(lambda path: [*command, path], lines(rows), "jsonl", "s.samples.jsonl", tmp_path, seeds=range(40))


def test_every_command_that_reads_a_file_is_damaged_here():
    """A new command must be added above: its name stands in a test of this file."""
    from typer.main import get_command

    from coe_agents.cli.app import app

    source = Path(__file__).read_text(encoding="utf-8")
    takes_no_file = {"demo", "init"}
    known = get_command(app).commands
    names = {name for name in known if name != "config"} | set(known["config"].commands)
    assert {name for name in names - takes_no_file if f'"{name}"' not in source} == set()


def test_the_watchdog_ends_what_hangs(monkeypatch):
    monkeypatch.setitem(globals(), "LONGEST", 0.05)
    with pytest.raises(HungError), watchdog():
        threading.Event().wait(60)
