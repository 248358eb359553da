import json
from dataclasses import replace
from functools import partial

import pytest

from coe_agents.evaluation.origin import DECISIONS, PRICES, SECONDS, read_run
from coe_agents.evaluation.samples.store import SAMPLES, SETTINGS
from coe_agents.policy import AgentWeights
from tests.cli.command import run
from tests.cli.test_sample import AGENT as AGENT_OF_TWO
from tests.cli.test_sample import config as write_config
from tests.cli.test_sample import questions as write_questions
from tests.faults import KEY, failing
from tests.servers import answering, completion, served

AGENT = AGENT_OF_TWO.replace("n_samples = 2", "n_samples = 3")
config = partial(write_config, clusterer='kind = "normalized"', max_coe=0.2)


def questions(folder, n):
    return write_questions(
        folder,
        *({"id": str(i), "question": f"Question {i}?", "references": ["Paris"]} for i in range(n)),
    )


def lines(folder):
    return [json.loads(line) for line in (folder / DECISIONS).read_bytes().splitlines()]


def split(body):
    """Is sure of Paris where the question has an even number, and else says something else each time."""
    number = int(next(digit for digit in body["messages"][-1]["content"] if digit.isdigit()))
    texts = ["Paris", "Lyon", "Rome"] if number % 2 else ["Paris", "paris.", "Paris!"]
    return completion(*texts[: body["n"]])


def test_tinyworld_is_decided(tmp_path):
    done = run("run", "--dataset", "tinyworld", "--limit", 2, "--out", tmp_path / "r")
    assert done.stdout.startswith("2 questions: ")
    assert "2 of 2 questions" in done.stderr
    rows = lines(tmp_path / "r")
    assert len(rows) == 2
    for row in rows:
        assert row["error"] is None
        assert row["decision"]["trajectory"][0]["n_responses"] == 30
        assert row["correct"] in ((0.0, 1.0) if row["action"] == "answer" else (None,))
    found = read_run(tmp_path / "r")
    assert [item.seconds > 0 for item in found.items.values()] == [True] * 2
    assert sum(item.n_requests for item in found.items.values()) == 6
    # a torn line of either file is dropped, and its question asked again
    whole = (tmp_path / "r" / DECISIONS).read_bytes()
    (tmp_path / "r" / DECISIONS).write_bytes(whole[:-20])
    with (tmp_path / "r" / SECONDS).open("ab") as file:
        file.write(b'{"id": "x", "sec')
    run("run", "--dataset", "tinyworld", "--limit", 2, "--out", tmp_path / "r")
    assert (tmp_path / "r" / DECISIONS).read_bytes() == whole
    assert all(item.seconds for item in read_run(tmp_path / "r").items.values())
    run("run", "--dataset", "tinyworld", "--limit", 3, "--out", tmp_path / "r", code=2)


def test_coverage_and_risk_are_counted_and_prices_are_kept_apart(tmp_path):
    price = "price_per_million = { input = 0.5, output = 2 }"
    with answering(split) as server:
        path = config(
            tmp_path, *(AGENT.format(name=name, url=server.url, more=price) for name in "ab")
        )
        command = [
            "run",
            "--dataset",
            questions(tmp_path, 6),
            "--config",
            path,
            "--out",
            tmp_path / "r",
        ]
        done = run(*command)
    assert done.stdout.startswith(
        "6 questions: 3 answered, 0 of these wrong by reference_or_label; 3 withheld, 0 escalated. "
    )
    assert json.loads((tmp_path / "r" / PRICES).read_text()) == {
        name: {"input": 0.5, "output": 2.0} for name in "ab"
    }
    assert "price" not in (tmp_path / "r" / SETTINGS).read_text()
    assert "127.0.0.1" not in (tmp_path / "r" / SETTINGS).read_text()


def test_an_escalation_is_recorded_and_an_arbiter_decides_it(tmp_path):
    arbiter = (
        '[escalation]\nkind = "arbiter"\nprovider = "openai"\nmodel = "big"\nbase_url = "{}"\n'
    )
    with answering(split) as server, served(("ANSWER: Paris",)) as big:
        agent = AGENT.format(name="a", url=server.url, more="")
        for name, more in (("without", ""), ("with", arbiter.format(big.url))):
            path = config(tmp_path, agent, otherwise="escalate", more=more)
            done = run(
                "run",
                "--dataset",
                questions(tmp_path, 2),
                "--config",
                path,
                "--out",
                tmp_path / name,
            )
            assert "1 escalated" in done.stdout
    (row,) = [row for row in lines(tmp_path / "without") if row["id"] == "1"]
    assert row["action"] == "escalate"
    assert row["answer"] is None
    assert row["escalated"] is True
    item = read_run(tmp_path / "with").items["1"]
    assert (item.decision["decided_by"], item.action, item.correct, item.n_requests) == (
        "arbiter",
        "answer",
        1.0,
        2,
    )


def test_answers_in_sentences_are_judged_by_a_model_where_one_is_named(tmp_path):
    with served(("It is Paris.",)) as server, served(("CORRECT",)) as judge:
        section = f'[judge]\nprovider = "openai"\nmodel = "big"\nbase_url = "{judge.url}"\n'
        path = config(tmp_path, AGENT.format(name="a", url=server.url, more=""), more=section)
        command = ["run", "--dataset", questions(tmp_path, 2), "--config", path]
        wrong = run(*command, "--out", tmp_path / "r")
        right = run(*command, "--out", tmp_path / "s", "--correctness", "judge")
    assert "2 of these wrong by reference_or_label" in wrong.stdout
    assert "0 of these wrong by judge big" in right.stdout


def test_a_failure_is_no_decision_and_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED", KEY)
    with failing("401", times=1) as ill:
        path = config(tmp_path, AGENT.format(name="a", url=ill.url, more='api_key_env = "PLANTED"'))
        command = [
            "run",
            "--dataset",
            questions(tmp_path, 3),
            "--config",
            path,
            "--out",
            tmp_path / "r",
        ]
        done = run(*command, "--at-once", 1, code=1)
        assert "The group failed once; the first error: AgentError: " in done.stdout
        held = "".join(path.read_text() for path in (tmp_path / "r").iterdir())
        assert KEY not in done.stdout + done.stderr + held
        assert len(read_run(tmp_path / "r").errors) == 1
        run(*command, "--at-once", 1)
    assert not read_run(tmp_path / "r").errors
    assert len(ill.requests) == 4


def test_a_run_has_nobody_whom_clarify_could_ask(tmp_path):
    agent = AGENT.format(name="a", url="http://127.0.0.1:9/v1", more="")
    path = config(
        tmp_path, agent, more='[graph]\nmax_rounds = 2\n[graph.strategies]\nambiguous = "clarify"\n'
    )
    options = ("--dataset", questions(tmp_path, 1), "--config", path, "--out", tmp_path / "r")
    run("run", *options, code=2)
    assert not (tmp_path / "r").exists()


def test_a_run_with_other_weights_in_the_same_file_is_another_run(tmp_path):
    weights = AgentWeights({"a": 1.0, "b": 1.0})
    weights.save(tmp_path / "weights.json")
    with answering(split) as server:
        agents = [AGENT.format(name=name, url=server.url, more="") for name in "ab"]
        path = config(tmp_path, *agents, more='[graph]\nweights = "weights.json"\n')
        command = [
            "run",
            "--dataset",
            questions(tmp_path, 1),
            "--config",
            path,
            "--out",
            tmp_path / "r",
        ]
        run(*command)
        replace(weights, weights={"a": 0.5, "b": 1.0}).save(tmp_path / "weights.json")
        run(*command, code=2)


@pytest.mark.parametrize("lost", ["tokens", "release"])
def test_a_run_of_another_release_is_refused_before_a_question_is_asked(tmp_path, lost):
    with answering(split) as server:
        command = [
            "run",
            "--config",
            config(tmp_path, AGENT.format(name="a", url=server.url, more="")),
        ]
        command += ["--dataset", questions(tmp_path, 3), "--out", tmp_path / "r"]
        run(*command)
        n_asked, (first, *_) = len(server.requests), lines(tmp_path / "r")
        (first["decision"] if lost == "tokens" else first).pop(lost, None)
        (tmp_path / "r" / DECISIONS).write_text(json.dumps(first) + "\n")
        if lost == "release":
            settings = json.loads((tmp_path / "r" / SETTINGS).read_bytes())
            (tmp_path / "r" / SETTINGS).write_text(json.dumps({**settings, "coe_agents": "0.1.0"}))
        run(*command, code=2)
        assert len(server.requests) == n_asked


@pytest.mark.parametrize(("command", "name"), [("run", DECISIONS), ("sample", SAMPLES)])
def test_a_complete_file_that_is_not_in_order_yet_is_put_in_order_by_either_engine(
    tmp_path, command, name
):
    with served(("Paris",)) as server:
        path = config(tmp_path, AGENT.format(name="ada", url=server.url, more=""))
        arguments = [
            command,
            "--dataset",
            questions(tmp_path, 4),
            "--config",
            path,
            "--out",
            str(tmp_path / "r"),
        ]
        run(*arguments)
        whole, half = (
            (tmp_path / "r" / name).read_bytes().splitlines(keepends=True),
            6 if name == SAMPLES else 2,
        )
        for engine in ("local", "ray"):  # no cluster is started, since nothing is missing
            (tmp_path / "r" / name).write_bytes(b"".join([*whole[half:], *whole[:half]]))
            run(*arguments, "--engine", engine)
            assert (tmp_path / "r" / name).read_bytes() == b"".join(whole)
