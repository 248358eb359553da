import json

import pytest

from coe_agents.evaluation.samples.store import SAMPLES, SETTINGS
from tests.cli.command import run
from tests.cli.test_sample import AGENT, config, questions
from tests.evaluation.invented import group, write
from tests.rooms import needs
from tests.servers import served

RECORDED = {"clusterer": "normalized", "correctness": "f1"}


def recorded(folder, *, judged=RECORDED, n=20):
    folder.mkdir()
    write(folder / SAMPLES, group(n))
    (folder / SETTINGS).write_text(
        json.dumps({"agents": [], **({"judged": judged} if judged else {})})
    )
    return folder


def figures_of(*arguments):
    return json.loads(run("score", *arguments, "--resamples", 5, "--json").stdout)


@needs("pages")
@pytest.mark.slow
def test_evaluate_score_and_report_agree_on_tinyworld(tmp_path):
    out = tmp_path / "r"
    done = run("evaluate", "--dataset", "tinyworld", "--limit", 6, "--out", out, "--json")
    evaluated, scored = json.loads(done.stdout), figures_of(out)
    assert (
        evaluated["judged"]
        == scored["judged"]
        == {"clusterer": "tinyworld", "correctness": "entailment"}
    )
    assert evaluated["accuracy"] == scored["accuracy"]
    run("report", out, "--out", tmp_path / "r.html", "--resamples", 5)
    assert (
        f"accuracy {scored['accuracy']:.3f}, right by entailment"
        in (tmp_path / "r.html").read_text()
    )
    run("run", "--dataset", "tinyworld", "--limit", 6, "--out", tmp_path / "d")
    assert json.loads((tmp_path / "d" / SETTINGS).read_bytes())["judged"] == evaluated["judged"]


@needs("pages")
def test_another_way_is_told(tmp_path):
    folder = recorded(tmp_path / "r")
    figures = figures_of(folder, "--correctness", "reference")
    assert figures["judged"] == {
        "clusterer": "normalized",
        "correctness": "reference",
        "recorded": RECORDED,
    }
    said = "Not judged as the run recorded. correctness: reference in place of f1."
    page, policy = tmp_path / "r.html", tmp_path / "p.json"
    policies = str(config(tmp_path, AGENT.format(name="a", url="http://127.0.0.1:9/v1", more="")))
    for command in (
        ["score", folder, "--resamples", 5],
        ["report", folder, "--resamples", 5, "--out", page],
        ["calibrate", folder, "--risk", 0.5, "--out", policy],
        ["drift", policy, folder],
        ["compare", folder, "--policies", policies, "--resamples", 5],
    ):
        done = run(*command, "--correctness", "reference", code=None)
        assert said in " ".join(done.stdout.split()), (command, done.stdout, done.stderr)
        assert "as the run recorded" not in run(*command, code=None).stdout
    assert said not in page.read_text()


@pytest.mark.parametrize(
    "clusterer", ["own:Code", {"kind": "llm", "provider": "openai", "model": "m"}, "unheard"]
)
def test_a_record_runs_no_code_and_asks_no_server(tmp_path, clusterer):
    judged = {"clusterer": clusterer, "correctness": "reference"}
    done = run("score", recorded(tmp_path / "r", judged=judged), code=2)
    assert "Traceback" not in done.stderr


def test_a_table_of_rules_is_kept_and_used_again(tmp_path):
    options = {"compare": {"pay.note": "ignore"}}
    judged = {"clusterer": {"kind": "actions", "options": options}, "correctness": "reference"}
    figures = figures_of(recorded(tmp_path / "r", judged=judged))
    assert (figures["judged"], figures["details"]["clusterer"]) == (judged, "ActionMatch")


def test_a_calibration_of_a_run_records_how_its_agents_were_asked(tmp_path):
    records = [{"question": f"Question {number}?", "references": ["Paris"]} for number in range(12)]
    data, out, policy = questions(tmp_path, *records), tmp_path / "r", tmp_path / "policy.json"
    with served(("Paris",)) as server:
        path = config(
            tmp_path, AGENT.format(name="a", url=server.url, more='system_prompt = "Be brief."')
        )
        run("sample", "--dataset", data, "--config", str(path), "--limit", 12, "--out", out)
    judged = json.loads((out / SETTINGS).read_bytes())["judged"]
    assert judged == {"clusterer": "tinyworld", "correctness": "reference_or_label"}
    run("calibrate", out, "--risk", 0.5, "--out", policy)
    saved = json.loads(policy.read_bytes())
    assert saved["prompt"] == ""
    asked = {
        name: saved["agents"]["a"][name]
        for name in ("model", "temperature", "system_prompt", "n_samples")
    }
    assert asked == {
        "model": "served",
        "temperature": 1.0,
        "system_prompt": "Be brief.",
        "n_samples": 2,
    }
