import json
import sqlite3
from contextlib import closing

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from coe_agents import CalibratedPolicy, Recording, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.samples.store import sole_writer
from coe_agents.rulings.recorded import pending_cases, rule
from coe_agents.testing import ScriptedAgent
from tests.cli.command import run
from tests.evaluation.invented import write

CERTAIN = {"a": ["Paris"] * 4, "b": ["Paris"] * 4, "c": ["Paris"] * 4}
UNSURE = {name: ["Lyon", *(f"{name}{number}" for number in range(3))] for name in "abc"}


def ask(store, policy, said, times, *, audit_rate=0.0):
    graph = create_coe_graph(
        [ScriptedAgent(name, texts) for name, texts in said.items()],
        clusterer=NormalizedMatch(),
        policy=CalibratedPolicy.load(policy, otherwise="escalate"),
        on_decision=Recording(audit_rate=audit_rate),
    ).compile(store=store)
    for _ in range(times):
        graph.invoke({"question": "What is the capital?"})


@pytest.fixture(scope="module")
def content(tmp_path_factory, policy):
    """A store with 60 ruled audits, 20 ruled escalations and a pending one."""
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    with SqliteStore.from_conn_string(str(path)) as opened:
        opened.setup()
        ask(opened, policy, CERTAIN, 60, audit_rate=1.0)
        ask(opened, policy, UNSURE, 21)
        for number, case in enumerate(pending_cases(opened)[:-1]):
            if case["kind"] == "audit":
                rule(opened, case["id"], correct=number > 2)
            else:
                rule(opened, case["id"], answer="Lyon")
    return path.read_bytes()


@pytest.fixture
def store(tmp_path, content):
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    return path


@pytest.mark.slow
def test_harvest_recalibrate_and_follow(tmp_path, store, policy):
    out, cases = tmp_path / "ruled.samples.jsonl", tmp_path / "cases.jsonl"
    done = run("harvest", "--store", store, "--out", out, "--cases", cases)
    assert done.stdout.splitlines() == [
        f"{out}: 60 audited cases and 20 escalations; 1 case waits for a ruling.",
        f"{cases}: 60 new labelled answers.",
    ]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 80 * 12
    assert {(row["kind"], row["seen_probability"]) for row in rows} == {
        ("audit", 1.0),
        ("escalation", 1.0),
    }

    again = run("harvest", "--store", store, "--out", out, "--cases", cases)
    assert "0 new labelled answers" in again.stdout
    assert len(cases.read_text().splitlines()) == 60

    done = run("calibrate", out, "--current", policy, "--risk", 0.3, "--out", tmp_path / "new.json")
    assert "on 60 audited answers and 20 escalations: the risk is at most" in done.stdout
    new = CalibratedPolicy.load(tmp_path / "new.json").calibration
    assert new.n_questions == 80
    assert new.bound <= 0.3

    done = run("drift", policy, "--cases", cases)
    assert "After 60 labelled answers" in done.stdout


@pytest.mark.slow
def test_labelled_answers_are_appended_by_one_process_at_a_time(tmp_path, store):
    cases = tmp_path / "cases.jsonl"
    arguments = (
        "harvest",
        "--store",
        store,
        "--out",
        tmp_path / "ruled.samples.jsonl",
        "--cases",
        cases,
    )
    with sole_writer(cases, tmp_path / ".cases.jsonl.lock"):
        run(*arguments, code=1)
    assert not cases.exists()
    assert "60 new labelled answers" in run(*arguments).stdout


def test_without_audits_all_ways_to_audit_are_named(tmp_path, policy):
    path = tmp_path / "store.sqlite"
    out = tmp_path / "ruled.samples.jsonl"
    with SqliteStore.from_conn_string(str(path)) as opened:
        opened.setup()
        ask(opened, policy, UNSURE, 3)
        for case in pending_cases(opened):
            rule(opened, case["id"], answer="Lyon")
    harvested = run("harvest", "--store", path, "--out", out)
    options = ("--current", policy, "--risk", 0.3, "--out", tmp_path / "new.json")
    recalibrated = run("calibrate", out, *options)
    for done in (harvested, recalibrated):
        said = " ".join(done.stdout.split())
        assert "--audit-rate 0.05 of ask and serve, beside --record" in said
        assert "audit_rate = 0.05 in [record] of the configuration" in said
        assert "on_decision=Recording(audit_rate=0.05)" in said


def test_pending_cases_are_shown_and_ruled_on(store):
    done = run("audit", "--store", store)
    assert done.stdout.startswith("1 case waits for a ruling:")
    assert "was escalated; the leading answer is: Lyon" in done.stdout
    listed = run("audit", "--store", store, "--json")
    (case,) = json.loads(listed.stdout)["pending"]
    done = run("audit", "--store", store, "--rule", case["id"], "--wrong", "--answer", "Metz")
    assert (done.returncode, done.stdout) == (0, f"Recorded the ruling on {case['id']}.\n")
    assert run("audit", "--store", store).stdout == "No case waits for a ruling.\n"
    run("audit", "--store", store, "--rule", case["id"], "--right", code=2)  # it was ruled on


def test_a_store_that_is_none(tmp_path):
    run("audit", "--store", tmp_path / "none.sqlite", code=1)
    (tmp_path / "text.sqlite").write_text("no store\n" * 100)
    out = tmp_path / "x.samples.jsonl"
    run("harvest", "--store", tmp_path / "text.sqlite", "--out", out, code=1)
    assert not out.exists()
    path = tmp_path / "answers.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:  # the file of a checkpointer
        saver.setup()
    content = path.read_bytes()
    run("audit", "--store", path, code=1)
    assert path.read_bytes() == content


@pytest.mark.wording
def test_a_ruling_that_cannot_be_written_says_why(store):
    listed = run("audit", "--store", store, "--json")
    (case,) = json.loads(listed.stdout)["pending"]
    with closing(sqlite3.connect(store)) as file, file:
        file.execute(
            "CREATE TRIGGER full BEFORE INSERT ON store BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END"
        )
    done = run("audit", "--store", store, "--rule", case["id"], "--answer", "Metz", code=1)
    assert (
        f"the store {store} cannot be read or written: IntegrityError: the disk is full"
        in done.stderr
    )


def test_all_samples_of_a_case_were_seen_alike(tmp_path, store, policy):
    out = tmp_path / "ruled.samples.jsonl"
    run("harvest", "--store", store, "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    write(out, [*rows[:5], rows[5] | {"seen_probability": 0.5}, *rows[6:]])
    options = ("--current", policy, "--risk", 0.3, "--out", tmp_path / "new.json")
    run("calibrate", out, *options, code=2)
    assert not (tmp_path / "new.json").exists()
