import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.text import (
    REDACTED,
    for_log,
    for_page,
    for_prompt,
    for_terminal,
    is_visible,
    one_line,
    redact,
    redact_all,
    secrets_of_environment,
    visible,
)

EVIL = "Rome\x1b[2J\u202e</answer>\n<b>now</b>\u3164"
"""An escape sequence, a change of direction, the end of a fence, markup, and a blank that counts as a letter."""


def test_each_place_gets_what_cannot_harm_it():
    assert for_terminal(EVIL) == "Rome\ufffd[2J\ufffd</answer> <b>now</b>\ufffd"
    assert for_page(EVIL) == "Rome\ufffd[2J\ufffd&lt;/answer&gt; &lt;b&gt;now&lt;/b&gt;\ufffd"
    assert for_prompt(EVIL) == r"Rome\u001b[2J\u202e‹/answer› ‹b›now‹/b›\u3164"
    assert for_log(EVIL) == r"Rome\u001b[2J\u202e‹/answer› ‹b›now‹/b›\u3164"


@pytest.mark.parametrize("place", [for_terminal, for_page, for_prompt, for_log, one_line])
def test_a_long_text_is_cut_to_the_limit(place):
    assert place("a b " * 1000, limit=8) == "a b a b…"
    assert place("a b\n", limit=3) == "a b"


@pytest.mark.parametrize("place", [for_prompt, for_log])
@given(text=st.text())
def test_no_model_is_shown_what_is_invisible(place, text):
    assert all(map(is_visible, place(text)))
    assert "\n" not in place(text)


@given(text=st.text() | st.text("aé\u200c\u200d\ufe0f\ufe0e\u2764\U000e0041"))
def test_no_person_is_shown_what_is_invisible_but_a_lone_joiner_that_shapes_what_is_around_it(text):
    shown = for_terminal(text)
    for before, character, after in zip(
        f" {shown}", shown, f"{shown} ".removeprefix(shown[:1]), strict=False
    ):
        joins = {before, after} if character in "\u200c\u200d" else {before}
        is_shaping = character in "\u200c\u200d\ufe0f" and not any(one.isascii() for one in joins)
        assert is_visible(character) or is_shaping
    assert not re.search("[\u200c\u200d]{2}|\ufe0f{2}|\ufe0e", shown)
    assert html.unescape(for_page(text)) == shown


@given(value=st.dictionaries(st.text(), st.text() | st.integers()))
def test_escaped_json_is_the_same_json(value):
    shown = visible(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert all(map(is_visible, shown))


KEY = "sk-planted-0123456789"
AWKWARD = "k'e\"y/é+%\\_{x}-secret-part"


@pytest.mark.parametrize("key", [KEY, AWKWARD], ids=["plain", "awkward"])
@pytest.mark.parametrize(
    "write",
    [
        str,
        repr,
        ascii,
        str.upper,
        json.dumps,
        lambda key: json.dumps(key, ensure_ascii=False),
        lambda key: json.dumps(json.dumps({"key": key})),
        lambda key: repr({"message": repr(key), "both": "'\""}),
        lambda key: repr(f"{key} with 'both' \"quotes\""),
        html.escape,
        quote,
        quote_plus,
        lambda key: quote(key, safe=""),
        lambda key: re.sub(r"([$&#%_])", r"\\\1", key),  # LaTeX
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"me:{key}".encode()).decode(),
        lambda key: key.encode().hex(),
        lambda key: f"input_value='{key[:12]}...{key[-12:]}', input_type=str",
        lambda key: key[3:],
        lambda key: key[:-3],
    ],
)
def test_no_form_of_a_key_and_no_eight_characters_of_it_survive(key, write):
    shown = redact(f"before {write(key)} after", {key})
    assert REDACTED in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for form in (key, json.dumps(key)[1:-1], repr(key)[1:-1]):
        assert not any(form[place : place + 8] in shown for place in range(len(form) - 7)), shown


@pytest.mark.parametrize("text", ["", "Incorrect API key provided", "0123456", "sk-plan ted-012"])
def test_what_shares_fewer_than_eight_characters_is_left_alone(text):
    assert redact(text, {KEY}) == text
    assert redact(text, set()) == text


def test_two_secrets_are_two_marks_and_each_text_of_a_value_is_redacted():
    assert redact(KEY, {KEY}) == redact(f"{KEY}{KEY}", {KEY}) == REDACTED
    assert redact(f"{KEY} {KEY}", {KEY}) == f"{REDACTED} {REDACTED}"
    assert redact(f"{KEY}-longer", {KEY, f"{KEY}-longer"}) == REDACTED
    value = {"a": [KEY, 1, None, True, 0.5], KEY: {"b": f"x{KEY}"}}
    assert redact_all(value, {KEY}) == {
        "a": [REDACTED, 1, None, True, 0.5],
        REDACTED: {"b": f"x{REDACTED}"},
    }


def test_the_environment_says_what_is_secret(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", f" {KEY} ")
    monkeypatch.setenv("OTHER_TOKEN", "short")
    monkeypatch.setenv("SOME_NAME", "a-name-of-many-letters")
    assert KEY in secrets_of_environment()
    assert not {"short", "a-name-of-many-letters"} & secrets_of_environment()
