import json

import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation.origin import DEFAULT, RECORD, Judging, resolve_judging
from coe_agents.evaluation.samples.store import SETTINGS

ACTIONS = {"clusterer": "actions", "correctness": "f1"}
JUDGED = {"clusterer": "normalized", "correctness": "judge", "judge": "openai:j"}


def run_of(folder, judged):
    folder.mkdir()
    settings = {"agents": []}
    if judged is not None:
        settings["judged"] = judged
    (folder / SETTINGS).write_text(json.dumps(settings))
    return folder


def test_an_option_comes_before_the_record_and_the_record_before_the_default(tmp_path):
    folder = run_of(tmp_path / "r", ACTIONS)
    named = {
        "--clusterer": {"clusterer": None},
        "--correctness": {"correctness": "reference"},
        "--config": {"clusterer": "tinyworld", "judge": "openai:j"},
    }

    judging = resolve_judging([folder], named)

    # the judge of the configuration judges nothing here
    assert judging.used == Judging("tinyworld", "reference", None)
    assert judging.sources == {"clusterer": "--config", "correctness": "--correctness"}
    assert judging.to_json() == {
        "clusterer": "tinyworld",
        "correctness": "reference",
        "recorded": ACTIONS,
    }
    assert resolve_judging([folder], {}).sources == dict.fromkeys(ACTIONS, RECORD)
    assert resolve_judging([tmp_path], {}).sources == dict.fromkeys(ACTIONS, DEFAULT)
    assert resolve_judging([tmp_path], {}).used == Judging()


def test_the_note_names_what_is_overridden_and_nothing_else(tmp_path):
    folder = run_of(tmp_path / "r", JUDGED)
    same = resolve_judging([folder], {"--clusterer": {"clusterer": "normalized"}})
    assert same.note() is None
    assert same.to_json() == JUDGED

    other = resolve_judging([folder], {"--config": {"clusterer": "actions", "judge": "openai:k"}})
    assert other.note() == (
        "Not judged as the run recorded. clusterer: actions in place of normalized, by --config; "
        "judge: openai:k in place of openai:j, by --config."
    )
    assert resolve_judging([tmp_path], {"--clusterer": {"clusterer": "actions"}}).note() is None


@pytest.mark.parametrize(
    ("used", "change"),
    [
        ({"threshold": 0.6}, "clusterer: embedding (threshold 0.6 in place of 0.5), by --config."),
        ({"base_url": None}, None),
        (
            {"kind": "llm"},
            'clusterer: llm (model "e", threshold 0.5) in place of embedding (model "e", threshold 0.5), by --config.',
        ),
    ],
    ids=["one field", "null says nothing", "another kind"],
)
def test_of_two_tables_only_the_fields_that_differ_are_told(tmp_path, used, change):
    recorded = {"kind": "embedding", "model": "e", "threshold": 0.5}
    folder = run_of(tmp_path / "r", {**JUDGED, "clusterer": recorded})
    note = resolve_judging([folder], {"--config": {"clusterer": {**recorded, **used}}}).note()
    assert note == (change and f"Not judged as the run recorded. {change}")


def test_runs_that_differ_need_an_option_for_each_part(tmp_path):
    folders = [run_of(tmp_path / "a", ACTIONS), run_of(tmp_path / "b", None)]
    named = {"--clusterer": {"clusterer": "normalized"}}
    with pytest.raises(SamplesError, match="clusterer actions, correctness f1; not recorded"):
        resolve_judging(folders, named)

    judging = resolve_judging(folders, {**named, "--correctness": {"correctness": "reference"}})
    assert judging.to_json() == {"clusterer": "normalized", "correctness": "reference"}


@pytest.mark.parametrize("judged", [{"clusterer": 1, "correctness": "f1"}, {**JUDGED, "judge": 1}])
def test_a_record_that_is_none_is_an_error(tmp_path, judged):
    with pytest.raises(SamplesError, match="must name a clusterer, a criterion and its judge"):
        resolve_judging([run_of(tmp_path / "r", judged)], {})
