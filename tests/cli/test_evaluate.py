import json

import pytest

from coe_agents.errors import DatasetError
from coe_agents.experiments import evaluate
from coe_agents.testing import ScriptedAgent
from tests.cli.command import run
from tests.cli.test_sample import AGENT, config, questions
from tests.faults import failing
from tests.servers import answering, completion, served


def test_what_failed_ends_it_before_the_score(tmp_path):
    with failing("401") as ill:
        path = config(tmp_path, AGENT.format(name="ill", url=ill.url, more=""))
        data = questions(tmp_path, {"question": "Who?", "references": ["Ann"]})
        done = run(
            "evaluate", "--dataset", data, "--config", str(path), "--out", tmp_path / "r", code=1
        )
    assert "Rerun the same command to repeat the failed requests." in done.stdout
    assert "auroc" not in done.stdout.lower()


def test_tinyworld_is_clustered_by_its_own_model_and_says_how_likely_its_answers_are_false(
    tmp_path,
):
    done = run(
        "evaluate",
        "--dataset",
        "tinyworld",
        "--limit",
        2,
        "--p-false",
        "--out",
        tmp_path / "r",
        "--json",
    )
    figures = json.loads(done.stdout)
    assert "p_false" in figures["scores"]
    assert figures["details"]["clusterer"] == "BidirectionalEntailment"


def test_a_judge_may_say_what_is_right_beside_the_clusterer_without_a_model(tmp_path):
    data = questions(
        tmp_path,
        *({"question": f"Question {number}?", "references": ["Lutetia"]} for number in range(2)),
    )
    with served(("Paris",)) as agent, answering(lambda body: completion("correct")) as server:
        path = config(tmp_path, AGENT.format(name="a", url=agent.url, more=""))
        path.write_text(
            f'{path.read_text()}[judge]\nprovider = "openai"\nmodel = "j"\nbase_url = "{server.url}"\n'
        )
        own = [
            "--dataset",
            data,
            "--out",
            tmp_path / "r",
            "--config",
            path,
            "--clusterer",
            "normalized",
            "--json",
        ]
        done = run("evaluate", *own, "--correctness", "judge")
        again = run("evaluate", *own, "--correctness", "reference")
        scored = run("score", tmp_path / "r", "--config", path, "--json")
    assert json.loads(again.stdout)["judged"]["recorded"] == {
        "clusterer": "normalized",
        "correctness": "judge",
        "judge": "openai:j",
    }
    assert json.loads(scored.stdout)["correctness"] == "judge j"
    run("score", tmp_path / "r", code=2)  # no configuration has a judge
    figures = json.loads(done.stdout)
    assert (figures["correctness"], figures["accuracy"]) == ("judge j", 1.0)
    assert figures["details"]["clusterer"] == "NormalizedMatch"


def test_questions_without_references_are_sampled_and_not_evaluated(tmp_path):
    (tmp_path / "only.csv").write_text("question\nWhat is the capital of France?\n")
    given = ("--dataset", tmp_path / "only.csv", "--out", tmp_path / "run")
    run("evaluate", *given, code=2)
    with pytest.raises(
        DatasetError, match=r"only\.csv has references, so that nothing could be scored"
    ):
        evaluate([ScriptedAgent("a", ["Paris"])], tmp_path / "only.csv", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert run("sample", *given).stdout.startswith("1 question, 3 agents")
