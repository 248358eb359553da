"""A replay names what it does not take of a file."""

import json

import pytest

from coe_agents import compare
from coe_agents.evaluation.samples.store import SAMPLES, SETTINGS
from tests.configurations import table
from tests.evaluation.invented import row, write

ASKED = {"n_samples": 1, "temperature": 0.7, "system_prompt": "Be brief.", "max_tokens": 8}
MODEL = {"provider": "openai", "model": "m"}
RECORDED = {**ASKED, **MODEL, "options": {"top_p": 0.9}, "seed": 0}
JUDGED = {"clusterer": "normalized", "correctness": "reference"}
AS_RECORDED = {**ASKED, **MODEL, "options": {"top_p": 0.9}}


def notes_of(
    folder, *, clusterer="normalized", answers=None, judged=JUDGED, recorded=None, **changes
):
    """Returns the notes on a file that has these, beside what a run recorded."""
    run = folder / "run"
    run.mkdir(exist_ok=True)
    rows = [row("q", agent, text="Paris", references=["Paris"]) for agent in "ab"]
    write(run / SAMPLES, rows)
    agents = [{"name": name, **RECORDED} for name in "ab"]
    settings = {"agents": agents, "judged": judged, "prompt": {"passages": False}, "answers": ""}
    (run / SETTINGS).write_text(json.dumps(settings if recorded is None else recorded))

    written = table("[agents]", name="a", **{**AS_RECORDED, **changes})
    written += table("[agents]", name="b", **AS_RECORDED)
    written += table("policy", kind="threshold", max_coe=0.5)
    if answers is None:
        of_clusterer = {"kind": clusterer} if isinstance(clusterer, str) else clusterer
        written += table("clusterer", **of_clusterer)
    else:
        written += table("answers", **answers)
    (folder / "coe.toml").write_text(written)
    comparison = compare(
        run,
        policies={"p": folder / "coe.toml"},
        resamples=2,
        progress=False,
        correctness="reference",
    )
    return [note for note in comparison.policies[0].notes if "not taken" in note]


def test_a_file_as_recorded_has_no_note_nor_one_that_draws_with_another_seed(tmp_path):
    assert notes_of(tmp_path, seed=7, n_samples=2, weight=0.5) == []


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"temperature": 0.2}, "its temperature is not taken: a has 0.7 in place of 0.2"),
        ({"temperature": 0.0}, "its temperature is not taken: a has 0.7 in place of 0.0"),
        ({"model": "n"}, "its model is not taken: a has openai:m in place of openai:n"),
        (
            {"system_prompt": "Be long."},
            "its system_prompt is not taken: a has Be brief. in place of Be long.",
        ),
        ({"max_tokens": 9}, "its max_tokens is not taken: a has 8 in place of 9"),
        (
            {"stated_confidence": True},
            "its stated_confidence is not taken: a has none in place of true",
        ),
        (
            {"options": {"top_p": 0.5}},
            'its options are not taken: a has {"top_p": 0.9} in place of {"top_p": 0.5}',
        ),
        (
            {"clusterer": "mathematics"},
            "its clusterer is not taken: normalized in place of mathematics",
        ),
        (
            {
                "clusterer": {
                    "kind": "embedding",
                    "provider": "huggingface",
                    "model": "m",
                    "threshold": 0.5,
                }
            },
            (
                "its clusterer is not taken: normalized in place of embedding "
                '(provider "huggingface", model "m", threshold 0.5)'
            ),
        ),
        ({"answers": {"kind": "short"}}, "its [answers] are not taken: none in place of short"),
    ],
)
def test_each_setting_that_differs_from_the_record_has_a_note(tmp_path, changes, note):
    assert notes_of(tmp_path, **changes) == [note]


def test_of_two_tables_of_one_kind_only_what_differs_is_named(tmp_path):
    fields = {"kind": "actions", "options": {"text": "exact"}}
    judged = {**JUDGED, "clusterer": {**fields, "options": {"text": "loose"}}}
    (note,) = notes_of(tmp_path, clusterer=fields, judged=judged)
    assert note == 'its clusterer is not taken: actions (options.text "loose" in place of "exact")'


def test_what_is_not_recorded_is_not_said_to_differ(tmp_path):
    assert notes_of(tmp_path, recorded={}, temperature=0.2, model="n") == []
