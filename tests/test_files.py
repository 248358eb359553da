"""A file is written completely or not at all: a disk that is full costs neither the old content nor space."""

import os
import subprocess
import sys

import pytest

from coe_agents._files import write
from coe_agents.policy import CalibratedPolicy
from tests.cli.command import run
from tests.evaluation.invented import group
from tests.evaluation.invented import write as write_samples
from tests.limits import full
from tests.policy.test_calibrated import CALIBRATION
from tests.policy.test_stopping import rule


@pytest.mark.parametrize(
    "save", [CalibratedPolicy(CALIBRATION).save, rule().save, lambda path: write(path, b"x" * 1000)]
)
def test_a_full_disk_leaves_the_former_file_and_nothing_else(tmp_path, save):
    path = tmp_path / "kept.json"
    path.write_text("former")
    with full(20), pytest.raises(OSError, match=f"'{path}'"):
        save(path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"kept.json": "former"}


def test_a_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to("folder/kept.json")
    for content in (b"1", b"2"):
        write(tmp_path / "link.json", content)
        assert (tmp_path / "folder" / "kept.json").read_bytes() == content
    assert (tmp_path / "link.json").is_symlink()


def test_what_is_no_file_is_written_as_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", f"print(open({str(pipe)!r}).read())"], stdout=-1) as reader:
        write(pipe, b"through")
        assert reader.communicate(timeout=60)[0] == b"through\n"
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_a_report_that_cannot_be_written_leaves_the_former_one(tmp_path):
    samples, page = write_samples(tmp_path / "s.samples.jsonl", group(5)), tmp_path / "page.html"
    page.write_text("former")
    with full(1000):
        done = run("report", samples, "--out", page)
    assert done.returncode == 1
    assert str(page) in done.stderr
    assert (page.read_text(), len(list(tmp_path.iterdir()))) == ("former", 2)
