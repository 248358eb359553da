import json

import pytest

from coe_agents import create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.policy import StoppingPolicy, StoppingRule, ThresholdPolicy
from coe_agents.testing import ScriptedAgent
from tests.cli.command import run
from tests.experiments.decided import mixed, step, written


def test_a_rule_is_learned_shown_written_and_used(tmp_path):
    runs = written(tmp_path / "run", mixed())
    done = run("learn-stopping", runs, "--out", tmp_path / "rule.json", "--max-coe", 0.5, "--resamples", 20)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CoE > 0.5: right in 82.5%, 1.50 rounds and 20 tokens a question.")
    assert "learned: right in 82.5%, 1.50 rounds" in done.stdout
    assert "conflict" in done.stdout
    assert 'To use it: [policy] kind = "stopping", path = "rule.json"' in done.stdout
    policy = StoppingPolicy(StoppingRule.load(tmp_path / "rule.json"), ThresholdPolicy(0.5))
    for said, n_rounds in ((["Paris", "Paris"], 1), (["Lyon", "Lyon"], 2)):
        agents = [ScriptedAgent("a", ["Paris", "Paris"]), ScriptedAgent("b", said)]
        graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, max_rounds=2).compile()
        assert graph.invoke({"question": "Which?"})["decision"]["n_rounds"] == n_rounds


def test_it_is_judged_on_another_run(tmp_path):
    first = written(tmp_path / "first", mixed())
    second = written(tmp_path / "second", {f"other {name}": row for name, row in mixed(10).items()})
    command = ["learn-stopping", first, "--out", tmp_path / "rule.json", "--resamples", 20, "--json", "--judge"]
    done = run(*command, second)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["is_held_out"] is True
    assert [each["n_questions"] for each in said["policies"]] == [20] * 4
    again = run(*command, first)
    assert again.returncode == 2
    assert "it must hold other questions; 80 are in both runs" in again.stderr


@pytest.mark.parametrize(
    ("rows", "said", "code"),
    [
        ({"1": step()}, "holds no question of two rounds. Run a policy that always goes on", 2),
        ({str(i): mixed(1)["split 0"] for i in range(4)}, "at least two right and two wrong leading answers", 1),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, rows, said, code):
    out = tmp_path / "rule.json"
    done = run("learn-stopping", written(tmp_path / "run", rows), "--out", out)
    assert done.returncode == code
    assert said in " ".join(done.stderr.split())
    assert not out.exists()
