from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent
from coe_agents.redaction import REDACTED, prints_secret, redact, secrets_of

KEY = "sk-planted-0123456789"


@pytest.mark.parametrize(
    "agent",
    [
        ModelAgent("a", ChatOpenAI(model="m", api_key=KEY)),
        ModelAgent("a", "openai:m", model_options={"api_key": KEY}),
        ModelAgent("a", ChatOpenAI(model="m", api_key="none", default_headers={"Authorization": f"Bearer {KEY}"})),
        ModelAgent("a", ChatOpenAI(model="m", api_key=f" {KEY}\n")),
        ModelAgent("a", ChatOpenAI(model="m", api_key="none", base_url=f"http://user:{KEY}@host/v1")),
        ModelAgent("a", [ChatOpenAI(model="m", api_key=KEY, base_url=f"http://{host}/v1") for host in "ab"]),
    ],
    ids=["model", "named", "header", "blanks", "address", "servers"],
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
