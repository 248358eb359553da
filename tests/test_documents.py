import json
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coe_agents.documents import parse_json, parse_json_objects, parse_toml

DEEP = {"json": ["[" * n + "]" * n for n in (102, 500, 3000, 100_000)] + ['{"a":' * 5000 + "1" + "}" * 5000]}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4)))
def test_json_is_what_json_reads(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


LINES = [
    *(b'{"a": 1}', b'{"a": 1} \t\r\n', b'{"a": 1}\x0b', b'{"a": 1}{}', b'{"a": 1, "a": 2}', b'{"a": NaN}'),
    *(b'{"a": 1', b"{", b"{}", b"", b"{\0", b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', b'{"a": 1e999}'),
    *('{"a": "é"}'.encode(code) for code in ("utf-16", "utf-16-le", "utf-32-be", "utf-8-sig", "latin-1")),
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_what_json_reads(line):
    def read(how):
        try:
            return repr(how(line))
        except ValueError as error:
            return type(error), str(error)

    assert read(parse_json) == read(json.loads)


SHORT = st.lists(
    st.sampled_from(["{", "}", "[", "]", '"a":', ",", "NaN", "{}", "{},NaN,{}", '{"a": "NaN"}']), max_size=5
)


@given(st.lists(SHORT.map("".join).map(str.encode) | st.sampled_from([b'{"a": 1}', *LINES]), min_size=1, max_size=3))
@example([b'{"a": [{}', b"{}]}", b"{}, {}"])
@example([b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}"] + [b"{}"] * 200)
def test_lines_that_are_read_together_are_read_as_alone(lines):
    found = parse_json_objects(lines)
    assert found is None or repr(found) == repr([parse_json(line) for line in lines])
    assert found is None or {type(value) for value in found} == {dict}


@pytest.mark.parametrize("text", DEEP["json"], ids=len)
def test_deep_json_is_a_value_error(text):
    for given_as in (text, text.encode()):
        with pytest.raises(ValueError, match=r"nested more than 100 levels deep|Expecting"):
            parse_json(given_as)


def test_json_of_a_hundred_levels_is_read():
    assert parse_json("[" * 100 + "]" * 100)


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 3000 + "]" * 3000, "a = " + "{ b = " * 3000 + "1" + "}" * 3000, "a." * 3000 + "b = 1",
     "[" + "a." * 500 + "b]\n", "a = " + "[\n" * 200 + "]\n" * 200, "a = " + "[\n" * 5000],
)  # fmt: skip
def test_deep_toml_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"nested more than 100 levels deep"):
        parse_toml(text)


@pytest.mark.parametrize("digits", [20, 400, 5000])
@pytest.mark.parametrize("value", ["{}", "[1, {}]", "{{ b = {} }}", "-{}"])
def test_an_integer_beyond_64_bits_is_refused(digits, value):
    text = f'[t]\nb = "x" # {"1" * 30}\nc = {value.format("9" * digits)}\n'
    with pytest.raises(ValueError, match="more than TOML's 64 bits"):
        parse_toml(text)


def test_the_largest_and_smallest_integers_of_toml_are_read():
    assert parse_toml(f"a = {2**63 - 1}\nb = -{2**63}") == {"a": 2**63 - 1, "b": -(2**63)}


@pytest.mark.parametrize("text", ["a = ", "a = 2026-13-45", "a = 1\na = 2", "[a]\n[a]", "\x00", "a = 0x"])
def test_what_is_not_toml_is_tomllibs_own_error(text):
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml(text)


def test_many_brackets_beside_one_another_are_not_nested():
    text = f"a = [{'[1], ' * 200}]"
    assert len(parse_toml(text)["a"]) == 200
