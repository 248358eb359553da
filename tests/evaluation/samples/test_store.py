import os
import shutil
import subprocess
import sys
from itertools import accumulate

import pytest

from coe_agents.errors import ConfigurationError, StoreError
from coe_agents.evaluation.samples.store import SAMPLES, Store

UNITS = {(question, agent): 2 for question in ("1", "2") for agent in ("a", "b")}
ORDER = [("2", "b"), ("1", "b"), ("2", "a"), ("1", "a")]


def rows(unit):
    return [
        {"id": unit[0], "agent": unit[1], "index": i, "text": "é\ud800\n", "error": None}
        for i in range(2)
    ]


def filled(folder, units=ORDER):
    with Store(folder, {"seed": 0}, UNITS) as store:
        for unit in units:
            store.append([(unit, rows(unit))])
        if not store.pending_units():
            store.finish()


def test_a_run_cut_anywhere_goes_on_to_the_same_file(tmp_path):
    filled(tmp_path / "whole")
    whole = (tmp_path / "whole" / SAMPLES).read_bytes()
    with Store(tmp_path / "unordered", {"seed": 0}, UNITS) as store:
        for unit in ORDER:
            store.append([(unit, rows(unit))])
    written = (tmp_path / "unordered" / SAMPLES).read_bytes()
    lines = list(accumulate(len(line) for line in written.splitlines(keepends=True)))
    ends = lines[1::2]  # of units
    for cut in [
        0,
        1,
        *(end + by for end in lines for by in (-9, -1, 0, 1) if end + by <= len(written)),
    ]:
        folder = tmp_path / "cut"
        shutil.copytree(tmp_path / "unordered", folder)
        os.truncate(folder / SAMPLES, cut)
        with Store(folder, {"seed": 0}, UNITS) as store:
            # no unit that was whole is asked again, and no other is taken for whole
            assert len(store.pending_units()) == 4 - sum(end <= cut for end in ends)
            assert (folder / SAMPLES).read_bytes() == written[
                : max([end for end in ends if end <= cut], default=0)
            ]
            for unit in store.pending_units():
                store.append([(unit, rows(unit))])
            store.finish()
        assert (folder / SAMPLES).read_bytes() == whole
        shutil.rmtree(folder)


def test_other_settings_do_not_mix(tmp_path):
    def begin(settings, folder="run"):
        with Store(tmp_path / folder, settings, UNITS):
            pass

    settings = {"agents": [{"name": "a", "n_samples": 2}], "sha256": "x"}
    begin(settings)
    changes = r"agents\[0\]\.n_samples: 2 there, 3 here\nseed: None there, 1 here"
    with pytest.raises(ConfigurationError, match=changes) as raised:
        begin({"agents": [{"name": "a", "n_samples": 3}], "sha256": "y", "seed": 1})
    assert "sha256" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="\nwhat was built in Python: "):
        begin({**settings, "sha256": ""})
    begin(settings)  # a refusal leaves no lock
    begin({"coe_agents": "0.2.0"}, "older")
    hint = r"Choose another folder, or continue with coe-agents 0\.2\.0, which wrote it$"
    with pytest.raises(ConfigurationError, match=hint):
        begin({"coe_agents": "0.3.0"}, "older")


@pytest.mark.slow
def test_one_process_at_a_time(tmp_path):
    with Store(tmp_path, {}, UNITS):
        code = (
            "import pathlib, sys; from coe_agents.evaluation.samples.store import Store\n"
            "Store(pathlib.Path(sys.argv[1]), {}, {}).__enter__()"
        )
        other = [sys.executable, "-c", code, str(tmp_path)]
        done = subprocess.run(other, capture_output=True, text=True, check=False)
        assert "StoreError: another process writes to" in done.stderr
        with pytest.raises(StoreError, match="another process"), Store(tmp_path, {}, UNITS):
            pass


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda lines: [b'{"id": {}, "agent": "a", "error": null}\n', *lines],
            ":1: this is not a row of a run",
        ),
        (lambda lines: [*lines[:3], b"spoilt\n", *lines[3:]], ":4: this is not a row of a run"),
        (lambda lines: [*lines, *lines], ":9: .* differ from what this run wrote"),
        (
            lambda lines: [*lines, lines[-1]],
            ":7: .* differ from what this run wrote",
        ),  # a response too many
        (
            lambda lines: [*lines, lines[0].replace(b'"1"', b'"9"')],
            ":9: .* differ from what this run wrote",
        ),
    ],
)
def test_a_file_that_was_changed_is_refused_and_left_alone(tmp_path, spoil, said):
    filled(tmp_path)
    spoilt = b"".join(spoil((tmp_path / SAMPLES).read_bytes().splitlines(keepends=True)))
    (tmp_path / SAMPLES).write_bytes(spoilt)
    with pytest.raises(StoreError, match=said):
        filled(tmp_path)
    assert (tmp_path / SAMPLES).read_bytes() == spoilt


@pytest.mark.parametrize(
    ("unit", "said"), [(("3", "a"), rows(("3", "a"))), (("1", "a"), rows(("1", "a"))[:1])]
)
def test_only_a_whole_unit_that_is_missing_is_kept(tmp_path, unit, said):
    with Store(tmp_path, {}, UNITS) as store:
        store.append([(("1", "b"), rows(("1", "b")))])
        before = (tmp_path / SAMPLES).read_bytes()
        with pytest.raises(ValueError, match='"rows" must be'):
            store.append([(unit, said)])
        assert (tmp_path / SAMPLES).read_bytes() == before
