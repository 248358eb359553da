"""A file is written completely or not at all: a disk that is full costs neither the old content nor space."""

import os
import stat

import pytest

from coe_agents.files import append, write, write_chunks
from coe_agents.policy import CalibratedPolicy
from tests.cli.command import run
from tests.evaluation.invented import group
from tests.evaluation.invented import write as write_samples
from tests.limits import full
from tests.policy.test_calibrated import CALIBRATION


@pytest.mark.parametrize("save", [CalibratedPolicy(CALIBRATION).save, lambda path: write(path, b"x" * 1000)])
def test_a_full_disk_leaves_the_former_file_and_nothing_else(tmp_path, save):
    path = tmp_path / "kept.json"
    path.write_text("former")
    with full(20), pytest.raises(OSError, match=f"'{path}'"):
        save(path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"kept.json": "former"}


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    kept, link = tmp_path / "folder" / "kept.json", tmp_path / "link.json"
    link.symlink_to("folder/kept.json")
    for content in (b"1", b"2"):
        write(link, content)
        assert kept.read_bytes() == content
        kept.chmod(0o600)
    assert link.is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_pipe_gets_the_content_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_chunks(pipe, [b"a", b"b"])
    assert os.read(end, 9) == b"ab"
    os.close(end)
    assert [each.is_fifo() for each in tmp_path.iterdir()] == [True]


def test_a_line_is_appended_whole_or_not_at_all(tmp_path):
    path = tmp_path / "lines"
    with path.open("ab") as file:
        append(file.fileno(), b"one\n", path=path)
        with full(7), pytest.raises(OSError, match=f"'{path}'"):
            append(file.fileno(), b"another\n", path=path)
        append(file.fileno(), b"two\n", path=path)
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_report_that_cannot_be_written_leaves_the_former_one(tmp_path):
    samples, page = write_samples(tmp_path / "s.samples.jsonl", group(5)), tmp_path / "page.html"
    page.write_text("former")
    with full(1000):
        done = run("report", samples, "--out", page)
    assert done.returncode == 1
    assert str(page) in done.stderr
    assert (page.read_text(), len(list(tmp_path.iterdir()))) == ("former", 2)
