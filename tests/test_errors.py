"""The run-time errors: a LangGraph server shows its clients built-in ones only. And the secrets that they may quote."""

import inspect

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent, errors
from coe_agents.errors import secrets_of

KEY = "sk-planted-0123456789"

ALL = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.CoEError)]
SHOWN = (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError, TimeoutError)
"""The built-in errors whose message the server passes on (langgraph-api 0.16, `serde.default`)."""


@pytest.mark.parametrize("error", [one for one in ALL if one is not errors.CoEError], ids=lambda one: one.__name__)
def test_each_error_is_also_a_built_in_one(error):
    raised = error("It went wrong", hint="Mend it")
    assert isinstance(raised, SHOWN)
    assert str(raised) == "It went wrong. Mend it"


def test_the_server_passes_on_what_we_say():
    serde = pytest.importorskip("langgraph_api.serde")
    passed = serde.default(errors.ConfigurationError("No checkpointer", hint="Compile it with one"))
    assert passed == {"error": "ConfigurationError", "message": "No checkpointer. Compile it with one"}


@pytest.mark.parametrize(
    "agent",
    [
        ModelAgent("a", ChatOpenAI(model="m", api_key=KEY)),
        ModelAgent("a", ChatOpenAI(model="m", api_key="none", default_headers={"Authorization": f"Bearer {KEY}"})),
        ModelAgent("a", ChatOpenAI(model="m", api_key="none", base_url=f"http://user:{KEY}@host/v1")),
    ],
    ids=["model", "header", "address"],
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


class Holder:
    def __init__(self, **fields):
        self.__dict__ |= fields


def test_placeholders_messages_and_other_fields_are_no_secrets_and_what_holds_itself_ends():
    model = ChatOpenAI(model="a-long-name-of-a-model", api_key="EMPTY")
    assert secrets_of(ModelAgent("a-name-of-many-letters", model)) == secrets_of(object()) == set()
    assert secrets_of(Holder(last=HumanMessage("what is a token?", name="token-of-thanks"))) == set()
    options = {"api_key": KEY}
    options["self"] = options
    assert secrets_of(Holder(options=options)) == {KEY}
