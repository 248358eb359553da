import json

import pytest

from coe_agents import score
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.config import build, sampling_group
from coe_agents.evaluation.kept import KEPT
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.testing.doubles import TableEntailment
from tests.cli.command import run
from tests.cli.test_judged import recorded
from tests.cli.test_sample import AGENT, config
from tests.rooms import needs

JUDGED = {"clusterer": "tinyworld", "correctness": "entailment"}


def by_last_word(premise, hypothesis):
    return "entailment" if premise.split()[-1] == hypothesis.split()[-1] else "neutral"


@pytest.fixture
def model(monkeypatch):
    model = TableEntailment(by_last_word)
    clusterer = BidirectionalEntailment(model)
    for module in (build, sampling_group):
        monkeypatch.setattr(module, "clusterer_of", lambda *_, **__: clusterer)
    return model


@pytest.fixture
def folder(tmp_path):
    return recorded(tmp_path / "r", judged=JUDGED, n=50)


def figures_of(*arguments):
    return json.loads(run("score", *arguments, "--resamples", 5, "--json").stdout)


@pytest.mark.slow
@needs("pages", "advice")
def test_commands_on_a_run_create_no_model_again(model, folder, tmp_path, monkeypatch):
    run("advise", folder, "--resamples", 5)
    first = figures_of(folder)
    assert model.calls

    monkeypatch.setattr(sampling_group, "clusterer_of", pytest.fail)
    policies = config(tmp_path, AGENT.format(name="a", url="http://127.0.0.1:9/v1", more=""))
    assert figures_of(folder) == figures_of(folder / SAMPLES) == first
    run("advise", folder, "--resamples", 5)
    run("report", folder, "--resamples", 5, "--out", tmp_path / "r.html")
    run("calibrate", folder, "--risk", 0.5, "--out", tmp_path / "p.json")
    run("compare", folder, "--policies", policies, "--resamples", 5)


@pytest.mark.slow
def test_a_model_is_asked_again_where_one_says_so_and_where_it_differs(model, folder, tmp_path):
    def n_calls(*options):
        before = len(model.calls)
        figures_of(folder, *options)
        return len(model.calls) - before

    assert n_calls()
    assert not n_calls()
    assert n_calls("--fresh")
    assert not n_calls()
    weights = tmp_path / "m" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"1")
    agent = AGENT.format(name="a", url="http://127.0.0.1:9/v1", more="")
    file = config(tmp_path, agent, clusterer=f'kind = "entailment"\nmodel = "{weights.parent}"')
    assert n_calls("--config", file)
    assert not n_calls("--config", file)
    weights.write_bytes(b"12")
    assert n_calls("--config", file)


def test_nothing_is_kept_of_an_object_and_beside_samples_that_are_in_no_run(
    model, folder, tmp_path
):
    score(folder, clusterer=BidirectionalEntailment(model), correctness="f1", resamples=5)
    moved = (folder / SAMPLES).rename(tmp_path / "some.samples.jsonl")
    figures_of(moved, "--clusterer", "tinyworld", "--correctness", "entailment")
    assert not list(tmp_path.rglob(KEPT))
