"""Files are written completely or not at all, also on a full disk; JSON and TOML of others raise `ValueError` alone."""

import json
import os
import stat

import pytest

from coe_agents.files import append, parse_json, parse_toml, write, write_chunks
from coe_agents.policy import CalibratedPolicy
from tests.limits import full
from tests.policy.test_calibrated import CALIBRATION


@pytest.mark.parametrize(
    "save", [CalibratedPolicy(CALIBRATION).save, lambda path: write(path, b"x" * 1000)]
)
def test_a_full_disk_leaves_the_former_file_and_nothing_else(tmp_path, save):
    path = tmp_path / "kept.json"
    path.write_text("former")
    with full(20), pytest.raises(OSError, match=f"'{path}'"):
        save(path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"kept.json": "former"}


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    kept = tmp_path / "folder" / "kept.json"
    link = tmp_path / "link.json"
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


DEEP = ["[" * n + "]" * n for n in (102, 100_000)] + ['{"a":' * 5000 + "1" + "}" * 5000]


LINES = [
    b'{"a": 1}',
    b'{"a": 1} \t\r\n',
    b'{"a": 1}\x0b',
    b'{"a": 1}{}',
    b'{"a": 1, "a": 2}',
    b'{"a": NaN}',
    b'{"a": 1',
    b"{",
    b"{}",
    b"",
    b"{\0",
    b'{"a": "\xff"}',
    b'{"a": "\xed\xa0\x80"}',
    b'{"a": 1e999}',
    *(
        '{"a": "é"}'.encode(code)
        for code in ("utf-16", "utf-16-le", "utf-32-be", "utf-8-sig", "latin-1")
    ),
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_what_json_reads(line):
    def read(how):
        try:
            return repr(how(line))
        except ValueError as error:
            return type(error), str(error)

    assert read(parse_json) == read(json.loads)


@pytest.mark.parametrize("text", DEEP, ids=len)
def test_deep_json_is_a_value_error(text):
    for given_as in (text, text.encode()):
        with pytest.raises(ValueError, match=r"nested more than 100 levels deep|Expecting"):
            parse_json(given_as)


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 3000 + "]" * 3000, "a = " + "{ b = " * 3000 + "1" + "}" * 3000, "a." * 3000 + "b = 1",
     "[" + "a." * 500 + "b]\n", "a = " + "[\n" * 200 + "]\n" * 200, "a = " + "[\n" * 5000],
)  # fmt: skip
def test_deep_toml_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"nested more than 100 levels deep"):
        parse_toml(text)


@pytest.mark.parametrize("digits", [20, 5000])
@pytest.mark.parametrize("value", ["{}", "[1, {}]", "-{}"])
def test_an_integer_beyond_64_bits_is_refused(digits, value):
    text = f'[t]\nb = "x" # {"1" * 30}\nc = {value.format("9" * digits)}\n'
    with pytest.raises(ValueError, match="more than TOML's 64 bits"):
        parse_toml(text)
