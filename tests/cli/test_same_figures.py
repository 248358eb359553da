"""Each command calls the function of its name: same samples, same figures."""

import json
from dataclasses import replace

import pytest

import coe_agents
from coe_agents import CalibratedPolicy
from coe_agents.evaluation.origin import DECISIONS
from coe_agents.evaluation.samples.store import SAMPLES, SETTINGS
from tests.cli.command import run

RISK = 0.9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the commands wrote about four questions of tinyworld."""
    folder = tmp_path_factory.mktemp("commands")
    run("sample", "--dataset", "tinyworld", "--limit", 4, "--out", folder / "samples")
    run("run", "--dataset", "tinyworld", "--limit", 1, "--out", folder / "run")
    return folder


@pytest.mark.slow
def test_sample(folder, tmp_path):
    samples = coe_agents.sample(
        "tinyworld", "tinyworld", limit=4, out=tmp_path / "samples", progress=False
    )
    assert len(samples) == 4
    for name in (SAMPLES, SETTINGS):
        written = (tmp_path / "samples" / name).read_bytes()
        assert written == (folder / "samples" / name).read_bytes()


@pytest.mark.slow
def test_run_and_compare(folder, tmp_path):
    runs = coe_agents.run("tinyworld", "tinyworld", limit=1, out=tmp_path / "run", progress=False)
    assert (runs.path / DECISIONS).read_bytes() == (folder / "run" / DECISIONS).read_bytes()
    shown = json.loads(run("compare", folder / "run", "--resamples", 20, "--json").stdout)
    assert coe_agents.compare(folder / "run", resamples=20).to_json() == shown


@pytest.mark.slow
def test_score(folder):
    shown = run("score", folder / "samples", "--resamples", 20)
    as_json = run("score", folder / "samples", "--resamples", 20, "--json")
    evaluation = coe_agents.score(folder / "samples", resamples=20)
    assert evaluation.figures == json.loads(as_json.stdout)
    assert evaluation.figures["judged"]["clusterer"] == "tinyworld"
    for line in map(str.strip, str(evaluation).splitlines()[:4]):
        assert line in shown.stdout


def test_calibrate(folder, tmp_path):
    path = tmp_path / "policy.json"
    options = ("--risk", RISK, "--confidence", 0.5, "--out", path)
    run("calibrate", folder / "samples", *options)
    policy = coe_agents.calibrate(folder / "samples", risk=RISK, confidence=0.5)
    written = CalibratedPolicy.load(path).calibration
    assert written == replace(policy.calibration, date=written.date)
