import json
import sys

import pytest

from coe_agents.config.build import create_policy
from coe_agents.config.schema import load_config
from coe_agents.experiments import calibrate
from coe_agents.policy import CalibratedPolicy
from tests.cli.command import run
from tests.cli.test_sample import config
from tests.evaluation.invented import group, row, write
from tests.faults import KEY
from tests.servers import answering, completion


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return write(tmp_path_factory.mktemp("samples") / "s.samples.jsonl", group(150))


def test_score_shows_a_table(tmp_path):
    rows = [*group(30), row("x", "[red]evil", text="", error="down")]
    done = run("score", write(tmp_path / "s.jsonl", rows), "--resamples", 10, "--processes", 2)
    assert "30 of 31 questions scored, 1 without a response" in done.stdout
    assert "[red]evil: 0 responses to 0 questions, by probability in 0, 1 failure" in done.stdout
    assert "right by reference_or_label; clusters by NormalizedMatch, weighting auto" in done.stdout
    assert "CoE, Wasserstein" in done.stdout
    assert "coe_" not in done.stdout
    assert "…" not in done.stdout
    assert "not computable: P(False) (30 of 30 questions)" in done.stdout


def test_wrong_answers_with_a_reference_in_them_are_named_where_they_are_many(tmp_path):
    said = [*["The capital of France is Paris."] * 3, "Parisian", "Paris", *["Lyon"] * 25]
    rows = [row(f"q{i:02}", "a", text=text, references=["Paris"]) for i, text in enumerate(said)]
    note = (
        "3 wrong answers contain a reference, but do not equal it. If they are sentences, judge by "
        '"contains", "entailment" or "judge": correctness="contains" (--correctness contains)'
    )
    path, calibrated = (
        write(tmp_path / "s.samples.jsonl", rows),
        ["--risk", 0.5, "--out", tmp_path / "p.json"],
    )
    for command in (["score", path, "--resamples", 5], ["calibrate", path, *calibrated]):
        assert note in " ".join(run(*command, code=None).stdout.split()), command
    figures = json.loads(run("score", path, "--resamples", 5, "--json").stdout)
    assert figures["details"]["n_inside"] == 3
    few = write(
        tmp_path / "few.samples.jsonl", [*rows, row("z", "a", text="Lyon", references=["Paris"])]
    )
    assert "contain a reference" not in run("score", few, "--resamples", 5).stdout
    labelled = write(
        tmp_path / "labelled.samples.jsonl", [each | {"correct": False} for each in rows]
    )
    assert "contain a reference" not in run("score", labelled, "--resamples", 5).stdout


def test_score_of_a_proposer(tmp_path):
    rows = [
        row(
            f"q{i}",
            agent,
            text="Done.",
            calls=[{"name": "pay", "args": {}}][: i % 4],
            correct=i % 3 > 0,
        )
        for i in range(12)
        for agent in "ab"
    ]
    path = write(tmp_path / "s.jsonl", rows)
    shown = run("score", path, "--clusterer", "actions", "--proposer", "a", "--resamples", 5).stdout
    assert "Is the first response of a wrong?" in shown
    assert "a tool is called" in shown
    assert "9, 0.667" in shown
    # of the 3 that call nothing 1 is wrong, but in none of so few resamples are there right and wrong ones
    assert "3, 0.667" in shown
    because = "its answers, or those of each resample, are all right or all wrong."
    assert f"- means undefined: {because}" in " ".join(shown.split())


AGENT = '[[agents]]\nname = "a"\nprovider = "tinyworld"\nmodel = "tiny-llama"\n'
JUDGE = '[judge]\nprovider = "openai"\nmodel = "[j]"\nbase_url = "{url}"\napi_key_env = "PLANTED"\n'


def test_score_by_a_judge(tmp_path, monkeypatch, caplog):
    def answer(body):
        said = body["messages"][-1]["content"]
        return completion(
            "Correct." if "Question 1?" in said else "incorrect" if "Question 2?" in said else "Hm"
        )

    monkeypatch.setenv("PLANTED", KEY)
    with answering(answer) as server:
        path = config(
            tmp_path, AGENT, clusterer='kind = "normalized"', more=JUDGE.format(url=server.url)
        )
        command = ["score", write(tmp_path / "few.jsonl", group(4)), "--config", path]
        command += ["--correctness", "judge", "--resamples", 5]
        done = run(*command, "--json")
        figures = json.loads(done.stdout)
        assert (figures["n_scored"], figures["accuracy"], figures["correctness"]) == (
            2,
            0.5,
            "judge [j]",
        )
        assert figures["details"]["n_unjudged"] == 2
        assert "2 of 4 answers could not be judged" in caplog.text
        assert "right by judge [j]; clusters by NormalizedMatch" in run(*command).stdout


@pytest.mark.parametrize(
    ("options", "fit"), [(["--score", "coe_js"], None), (["--weights", "learned"], "whole")]
)
def test_calibrate_drift_and_use(samples, tmp_path, options, fit):
    path = tmp_path / "policy.json"
    done = run("calibrate", samples, "--risk", 0.3, "--confidence", 0.9, "--out", path, *options)
    assert done.stdout.startswith("Answer where ")
    assert ("The bound is empirical" in done.stdout) == (fit == "whole")
    assert ("The answer is chosen with these weights: a " in done.stdout) == (fit is not None)
    policy = CalibratedPolicy.load(path)
    assert policy.calibration.fit == fit
    assert (policy.calibration.trust is not None) == (fit is not None)

    same = write(tmp_path / "new.jsonl", group(200, seed=1))
    done = run("drift", path, same)
    assert "show no change" in done.stdout
    assert "are those of the calibration" not in done.stdout


def test_drift_judges_as_the_policy_was_calibrated_and_names_another_criterion(tmp_path):
    rows = [{**each, "references": ["right or so"], "correct": None} for each in group(200)]
    samples, policy = write(tmp_path / "s.jsonl", rows), tmp_path / "policy.json"
    run("calibrate", samples, "--risk", 0.3, "--correctness", "f1", "--out", policy)
    drift = ["drift", policy, samples]
    same, named = run(*drift), run(*drift, "--correctness", "f1")
    other = json.loads(run(*drift, "--correctness", "reference", "--json", code=3).stdout)
    assert same.stdout == named.stdout
    assert "mismatch" not in same.stdout
    assert "all uncertainties are those of the calibration" in same.stdout
    assert not other["holds"]
    assert "answers are judged by reference, and by f1 when calibrated" in other["mismatches"]


def test_what_cannot_be_judged_is_counted(tmp_path):
    samples = [row(f"q{i}", agent, references=["Paris"]) for i in range(40) for agent in "ab"]
    plain = [row(f"plain {i}", agent, references=[]) for i in range(3) for agent in "ab"]
    down = {"text": "", "error": "down", "references": ["Paris"]}
    silent = [row(f"silent {i}", agent, **down) for i in range(2) for agent in "ab"]
    path, policy = (
        write(tmp_path / "s.jsonl", [*samples, *plain, *silent]),
        tmp_path / "policy.json",
    )
    done = run("calibrate", path, "--risk", 0.2, "--out", policy)
    assert "3 questions without a verdict were skipped." in done.stdout
    assert "2 questions without a response to judge were skipped." in done.stdout
    assert "questions without a response to judge: 2" in run("drift", policy, path).stdout
    unjudged = write(tmp_path / "t.jsonl", [*plain, *silent])
    run("calibrate", unjudged, "--risk", 0.2, "--out", policy, code=2)
    counts = "must have a verdict; got none of 5, 2 of these without a response to judge"
    with pytest.raises(ValueError, match=counts) as refused:
        calibrate(unjudged, risk=0.2)
    assert refused.value.field == "samples"


def test_a_configuration_names_a_policy_from_its_own_folder(samples, tmp_path):
    path = tmp_path / "coe.toml"
    policy = (
        '[clusterer]\nkind = "normalized"\n[policy]\nkind = "calibrated"\npath = "policy.json"\n'
    )
    path.write_text(AGENT + policy)
    run("config", "check", path, code=2)
    run("calibrate", samples, "--risk", 0.3, "--out", tmp_path / "policy.json")
    path.write_text(path.read_text() + 'otherwise = "escalate"\n')
    policy = create_policy(load_config(path))
    assert isinstance(policy, CalibratedPolicy)
    assert policy.otherwise == "escalate"
    assert (
        "calibrated; path = policy.json; otherwise = escalate"
        in run("config", "check", path).stdout
    )


OF_ONES_OWN = """
class AllTheSame:
    def cluster(self, responses, questions):
        return [[0] * len(texts) for texts in responses]

def n_clusters(statistics):
    return float(statistics.support.size)
"""


def test_score_with_a_clusterer_and_an_estimator_of_ones_own(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    own = f"own_parts_{tmp_path.name}"
    (tmp_path / f"{own}.py").write_text(OF_ONES_OWN)
    options = ["--resamples", 5, "--json"]
    done = run(
        "score",
        samples,
        "--clusterer",
        f"{own}:AllTheSame",
        "--estimator",
        f"{own}:n_clusters",
        *options,
    )
    figures = json.loads(done.stdout)
    assert figures["details"]["clusterer"] == "AllTheSame"
    assert (
        figures["scores"]["n_clusters"]["auroc"][0] == 0.5
    )  # one cluster for all: nothing is told apart


def test_calibrate_lists_the_arguments_on_which_the_others_almost_never_agree(tmp_path):
    def paid(i, agent):
        call = {"name": "pay", "args": {"to": "Ann", "note": f"{agent} {i}"}}
        return row(f"q{i}", agent, text="", calls=[call], correct=True)

    path = write(tmp_path / "s.jsonl", [paid(i, agent) for i in range(15) for agent in "abc"])
    options = (
        "--clusterer",
        "actions",
        "--proposer",
        "a",
        "--risk",
        0.3,
        "--out",
        tmp_path / "p.json",
    )
    done = run("calibrate", path, *options)
    assert 'almost never agree with a: "pay.note" in 0.0% of 30.' in " ".join(done.stdout.split())
    assert "pay.to" not in done.stdout
