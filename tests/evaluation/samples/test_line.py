import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import parse_line, to_sample, usual_id, usual_line

ROW = {
    "id": "q1",
    "question": "Où?",
    "references": ["Paris", "Paname"],
    "agent": "a",
    "round": 0,
    "index": 3,
    "text": 'It is\n"Paris".',
    "answer": None,
    "logprob": -1.5e-07,
    "n_tokens": 8,
    "correct": True,
    "error": None,
    "calls": None,
    "tools": None,
    "source": 0.5,
}
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.just({})
PLACE = Path("s")


def careful(line):
    """The id that reading the line as JSON finds, or None if it is refused."""
    try:
        return to_sample(parse_line(line.encode(), PLACE, 1), PLACE, 1)["id"]
    except SamplesError:
        return None


@given(st.sampled_from(sorted(ROW)), ANYTHING, st.booleans(), st.sampled_from([(", ", ": "), (",", ":")]))
def test_a_usual_line_is_valid_and_has_the_id_that_json_has(field, value, is_ascii, separators):
    line = json.dumps({**ROW, field: value}, ensure_ascii=is_ascii, separators=separators)
    found = usual_id(usual_line(tuple(ROW)), line.encode())
    assert found is None or found == careful(line)


@given(
    st.integers(0, 300),
    st.sampled_from(["", '"', "\\", "\x00", "{", "}", "[", ",", "1", "-", "NaN", "null", " ", "\n", "é"]),
)
def test_what_is_not_json_is_no_usual_line(place, text):
    line = json.dumps(ROW)
    changed = line[:place] + text + line[place + 1 :]
    found = usual_id(usual_line(tuple(ROW)), changed.encode())
    assert found is None or found == careful(changed)


@pytest.mark.parametrize("line", [ROW, {**ROW, "logprob": None}, {**ROW, "text": "é\t\u2028", "source": "x"}])
def test_lines_that_we_write_are_usual(line):
    assert usual_id(usual_line(tuple(ROW)), json.dumps(line).encode() + b"\n") == "q1"
