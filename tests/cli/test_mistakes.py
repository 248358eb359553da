"""A mistake in a command ends it with status 2 before it writes anything, and is named with what to do."""

import re
import shlex
import shutil

import pytest

from tests.cli.command import assert_names_argument, run
from tests.rooms import can_run

SEEN = "seen with a probability of its own"
LISTED = [
    ("nonsense", "No such command"),
    ("ask", "Missing argument"),
    ("ask ' '", "question"),
    ("ask Q? --confi x", "No such option"),
    ("ask Q? --config none.toml", "none.toml"),
    (
        "ask Q? --model transformers:./none --model tinyworld:tiny-llama",
        'the folder "./none" does not exist',
    ),
    ("doctor --model transformers:./none", 'the folder "./none" does not exist'),
    ("evaluate --out new", "Missing option '--dataset'"),
    ("score s.samples.jsonl --correctness entailment", "needs an entailment model"),
    ("score s.samples.jsonl --correctness judge", "needs a judge model"),
    (
        "evaluate --dataset data.jsonl --config coe.toml --out new --correctness entailment",
        '"entailment" needs',
    ),
    (
        "evaluate --dataset tinyworld --limit 1 --out new --clusterer actoins",
        'Did you mean "actions"?',
    ),
    (
        "run --dataset data.jsonl --config coe.toml --out new --correctness entailment",
        "needs an entailment model",
    ),
    (
        "sample --dataset data.jsonl --config coe.toml --out new --correctness entailment",
        "needs an entailment model",
    ),
    (
        "sample --dataset data.jsonl --config example.toml --out new --correctness judge",
        "needs a judge model",
    ),
    (
        "score s.samples.jsonl --clusterer normalized --config coe.toml",
        "cannot be combined with --config",
    ),
    ("score s.samples.jsonl --clusterer normalised", "got 'normalised'. Did you mean"),
    ("score s.samples.jsonl --claims overlap", "*.claims.jsonl"),
    (
        "score s.samples.jsonl --correctness nope",
        "Invalid value for '--correctness': 'nope' is not",
    ),
    (
        "score s.samples.jsonl --clusterer mathematics --processes 2",
        "cannot be combined with --clusterer mathematics",
    ),
    ("score broken.jsonl", "broken.jsonl:2: this is not JSON"),
    (
        "reproduce all --out new --samples s.samples.jsonl --dataset tinyworld",
        "cannot be combined with --dataset",
    ),
    (
        "reproduce all --out new --samples s.samples.jsonl --agents a,z",
        "must name agents of the files; got z",
    ),
    (
        "reproduce all --out new --dataset tinyworld --dataset squad --dataset nq_open",
        "at most two",
    ),
    (
        "reproduce sampling --out new --samples s.samples.jsonl",
        "sampling needs 4 responses or more of each agent; the fewest to a question are 2",
    ),
    (
        "reproduce selective-prediction --out new --samples s.samples.jsonl --agents a",
        "selective-prediction needs two agents; got a alone",
    ),
    (
        "reproduce epsilon --out new --samples s.samples.jsonl --agents a",
        "epsilon needs two agents; got a alone",
    ),
    ("sample --out new --dataset tinyworld --split test", 'tinyworld has no split "test"'),
    ("sample --out new --dataset tinyworld --with-context", "has no passage"),
    ("sample --out new --dataset tinyworld --actors 2", "--engine ray"),
    (
        "calibrate s.samples.jsonl --risk 0.4 --out p.json --score vote_shares",
        'Did you mean "vote_share"?',
    ),
    (
        "calibrate s.samples.jsonl --risk 0.4 --out p.json --score p_false",
        "must be computable of one new question",
    ),
    (
        "calibrate s.samples.jsonl --risk 0.4 --out p.json --score support",
        "must judge the group's answer",
    ),
    (
        "calibrate s.samples.jsonl --risk 0.4 --out p.json --score no_such_module:score",
        "cannot be imported",
    ),
    (
        "compare s.samples.jsonl --policies coe.toml,coe.toml",
        "--policies: each file must be given once",
    ),
    (
        "compare s.samples.jsonl --policies coe.toml example.toml",
        (
            "Invalid value for --policies: it must name all configuration files, with commas and no blank between "
            "them; got example.toml among the samples. Pass --policies coe.toml,example.toml"
        ),
    ),
    (
        "score s.samples.jsonl coe.toml",
        (
            "files of samples must hold responses; got coe.toml, a file of settings by its name. A configuration is "
            "named by its option: --config FILE, or --policies ONE,TWO of compare"
        ),
    ),
    ("compare decided --correctness f1", "runs are compared as they were judged"),
    ("report decided decided decided --out o", "coe-agents compare"),
    ("serve --host 0.0.0.0", "without a key the server listens at 127.0.0.1 only"),
    ("serve --host ::", "without a key the server listens at 127.0.0.1 only"),
    ("serve --host localhost", "without a key the server listens at 127.0.0.1 only"),
    ("serve --api-key-env COE_MISSING", '"COE_MISSING" must hold a key; it is not set'),
    ("serve --api-key-env COE_BLANK", '"COE_BLANK" must hold a key; it is not set'),
    ("drift policy.json", "or --cases FILE"),
    ("drift policy.json --min-seen 0.1", "it needs --cases"),
    ("drift policy.json s.samples.jsonl --cases x", "it reads no samples"),
    (
        "drift policy.json --cases x --min-seen 1.5",
        '"min_seen" must be a number above 1e-100 and at most 1; got 1.5',
    ),
    ("audit --store store.sqlite --right", "needs the id of a case"),
    ("audit --store store.sqlite --rule 1 --right --wrong", "cannot be combined with --right"),
    (
        "audit --store store.sqlite --rule none --right",
        "List those that wait: pending_cases(store) (coe-agents audit without --rule)",
    ),
    (
        "audit --store store.sqlite --rule none",
        "a ruling must say what is right. Add --right, --wrong or --answer",
    ),
    # weighted errors enter no count
    ("calibrate ruled.samples.jsonl --risk 0.3 --out p.json", SEEN),
    ("drift policy.json ruled.samples.jsonl", SEEN),
    ("compare ruled.samples.jsonl --policies coe.toml", SEEN),
    ("score ruled.samples.jsonl", SEEN),
    ("report ruled.samples.jsonl --out page.html", SEEN),
]


MISTAKES = {command: says for command, says in LISTED if can_run(command)}


@pytest.mark.wording
def test_a_mistake_is_named(made, monkeypatch):
    monkeypatch.chdir(made)  # nothing is written there
    monkeypatch.setenv("COE_BLANK", "  ")
    for command, says in MISTAKES.items():
        done = run(*shlex.split(command), code=2)
        assert says in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_ends_the_command_and_nothing_is_written(made, tmp_path, monkeypatch, command):
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setenv("COE_BLANK", "  ")
    before = sorted((tmp_path / "copy").rglob("*"))
    done = run(*shlex.split(command), code=2)
    assert "Traceback" not in done.stderr
    assert sorted((tmp_path / "copy").rglob("*")) == before
    if re.search("Invalid value for '[^-]", done.stderr):
        assert_names_argument(done.stderr)
