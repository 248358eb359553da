import errno
import os
import stat

import pytest

from coe_agents._files import append, write, write_chunks
from coe_agents.policy import STOPPING_FEATURES, StoppingRule


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write(path, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'"):
        write(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.txt", b"old")]


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    kept, link = tmp_path / "kept.txt", tmp_path / "link.txt"
    kept.touch(mode=0o600)
    link.symlink_to(kept)
    write(link, b"new")
    assert link.is_symlink()
    assert kept.read_bytes() == b"new"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_pipe_gets_the_content_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_chunks(pipe, [b"a", b"b"])
    assert os.read(end, 9) == b"ab"
    os.close(end)
    assert pipe.is_fifo()


def test_a_line_is_appended_whole_or_not_at_all(tmp_path, monkeypatch):
    path, real, room = tmp_path / "lines", os.write, iter([3])
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    append(file, b"one\n", path=path)

    def some(file, data):
        return real(file, bytes(data)[:n]) if (n := next(room, None)) else full()

    monkeypatch.setattr(os, "write", some)
    with pytest.raises(OSError, match=r"No space left on device: '.*lines'"):
        append(file, b"another\n", path=path)
    monkeypatch.undo()
    append(file, b"two\n", path=path)
    os.close(file)
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_rule_in_use_survives_a_full_disk(tmp_path, monkeypatch):
    zeros = (0.0,) * len(STOPPING_FEATURES)
    rule = StoppingRule(
        now=zeros, now_intercept=0.0, after=zeros, after_intercept=0.0, price=0.0, n_rounds=2, n_questions=9
    )
    rule.save(tmp_path / "rule.json")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        rule.save(tmp_path / "rule.json")
    assert StoppingRule.load(tmp_path / "rule.json") == rule
