import base64
import html
import json
import re
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent
from coe_agents.errors import prints_secret, secrets_of
from coe_agents.text import REDACTED, redact, redact_all, secrets_of_environment

KEY = "sk-planted-0123456789"


@pytest.mark.parametrize(
    "agent",
    [
        ModelAgent("a", ChatOpenAI(model="m", api_key=KEY)),
        ModelAgent("a", ChatOpenAI(model="m", api_key="none", default_headers={"Authorization": f"Bearer {KEY}"})),
        ModelAgent("a", ChatOpenAI(model="m", api_key=f" {KEY}\n")),
        ModelAgent("a", ChatOpenAI(model="m", api_key="none", base_url=f"http://user:{KEY}@host/v1")),
    ],
    ids=["model", "header", "blanks", "address"],
)
def test_the_secrets_of_an_agent_are_found_wherever_it_keeps_them(agent):
    assert secrets_of(agent) == {KEY}
    agent.model()
    assert secrets_of(agent) == {KEY}


def test_a_key_from_the_environment_is_found(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent = ModelAgent("a", "openai:m")
    agent.model()
    assert secrets_of(agent) == {KEY}


def test_placeholders_and_other_fields_are_no_secrets():
    assert (
        secrets_of(ModelAgent("a-name-of-many-letters", ChatOpenAI(model="a-long-name-of-a-model", api_key="EMPTY")))
        == set()
    )
    assert secrets_of(object()) == set()


def test_what_holds_itself_ends():
    class Agent:
        pass

    agent: Any = Agent()
    agent.options = {"api_key": KEY}
    agent.options["self"] = agent.options
    assert secrets_of(agent) == {KEY}


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (KEY, f"Bearer {KEY}"),
        ('quo"te\\d-secret', r'{"key": "quo\"te\\d-secret"}'),
        ("a/b+c=d-secret", "http://host/?key=a%2Fb%2Bc%3Dd-secret"),
    ],
    ids=["plain", "json", "address"],
)
def test_a_secret_is_redacted_however_it_is_written(secret, text):
    shown = redact(text, {secret})
    assert REDACTED in shown
    assert secret not in shown
    assert "secret" not in shown
    assert "planted" not in shown


def test_a_secret_within_another_leaves_no_rest():
    assert redact("sk-0123456789-longer", {"sk-0123456789", "sk-0123456789-longer"}) == REDACTED


def test_an_error_tells_by_its_causes_too():
    error = RuntimeError("refused")
    error.__cause__ = OSError(f"header {KEY}")
    assert prints_secret(error, {KEY})
    assert not prints_secret(error, {"another-secret"})
    assert not prints_secret(error, set())


def test_messages_are_not_looked_into():
    class Agent:
        def __init__(self) -> None:
            self.last = HumanMessage("what is a token?", name="token-of-thanks")

    assert secrets_of(Agent()) == set()


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


@pytest.mark.parametrize(
    "text", ["", "sk-", "nothing of it", "planted", "Incorrect API key provided", "0123456", "sk-plan ted-012"]
)
def test_what_shares_fewer_than_eight_characters_is_left_alone(text):
    assert redact(text, {KEY}) == text
    assert redact(text, set()) == text


def test_a_secret_at_the_beginning_is_one_mark_and_two_of_them_are_two():
    assert redact(KEY, {KEY}) == REDACTED
    assert redact(f"{KEY} {KEY}", {KEY}) == f"{REDACTED} {REDACTED}"
    assert redact(f"{KEY}{KEY}", {KEY}) == REDACTED


def test_each_text_of_a_value_is_redacted():
    value = {"a": [KEY, 1, None, True, 0.5], KEY: {"b": f"x{KEY}"}}
    assert redact_all(value, {KEY}) == {"a": [REDACTED, 1, None, True, 0.5], REDACTED: {"b": f"x{REDACTED}"}}


@pytest.mark.parametrize("field", ["key", "api_key", "access_token", "sig", "X-Auth", "k"])
def test_a_key_in_the_query_of_an_address_is_found(field):
    model = ChatOpenAI(
        model="m", api_key="none", base_url=f"http://host/v1?api-version=2026-11-22-preview&{field}={KEY}"
    )
    assert secrets_of(ModelAgent("a", model)) == {KEY}


def test_the_environment_says_what_is_secret(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", f" {KEY} ")
    monkeypatch.setenv("OTHER_TOKEN", "short")
    monkeypatch.setenv("SOME_NAME", "a-name-of-many-letters")
    assert KEY in secrets_of_environment()
    assert not {"short", "a-name-of-many-letters"} & secrets_of_environment()
