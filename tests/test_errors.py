"""The run-time errors: a LangGraph server shows its clients built-in ones only. And the secrets that they may quote."""

import inspect
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from coe_agents import ModelAgent, ThresholdPolicy, create_coe_graph, errors
from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import secrets_of
from coe_agents.graph import GraphOptions
from coe_agents.testing import ScriptedAgent

KEY = "sk-planted-0123456789"

ALL = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, errors.CoEError)
]
SHOWN = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    RecursionError,
    TimeoutError,
)
"""The built-in errors whose message the server passes on (langgraph-api 0.16, `serde.default`)."""


@pytest.mark.parametrize(
    "error", [one for one in ALL if one is not errors.CoEError], ids=lambda one: one.__name__
)
def test_each_error_is_also_a_built_in_one(error):
    raised = error("It went wrong", hint="Mend it")
    assert isinstance(raised, SHOWN)
    assert raised.hint


@pytest.mark.wording
def test_an_error_says_what_happened_and_what_to_do():
    for error in ALL:
        assert str(error("It went wrong", hint="Mend it")) == "It went wrong. Mend it"


@pytest.mark.wording
def test_the_server_passes_on_what_we_say():
    serde = pytest.importorskip("langgraph_api.serde")
    passed = serde.default(errors.ConfigurationError("No checkpointer", hint="Compile it with one"))
    assert passed == {
        "error": "ConfigurationError",
        "message": "No checkpointer. Compile it with one",
    }


@pytest.mark.parametrize(
    "agent",
    [
        ModelAgent("a", ChatOpenAI(model="m", api_key=KEY)),
        ModelAgent(
            "a",
            ChatOpenAI(
                model="m", api_key="none", default_headers={"Authorization": f"Bearer {KEY}"}
            ),
        ),
        ModelAgent(
            "a", ChatOpenAI(model="m", api_key="none", base_url=f"http://user:{KEY}@host/v1")
        ),
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


PLAIN = "planted-0123456789"
"""A key without the form of a provider's."""


class Slotted:
    __slots__ = ("api_key",)

    def __init__(self, key):
        self.api_key = key


class Private(FakeListChatModel):
    """A chat model that keeps something where its fields do not show it, and quotes the key."""

    _kept: Any = PrivateAttr(default=None)
    _api_key: str = PrivateAttr(default="")

    def _generate(self, *args, **kwargs):
        raise RuntimeError(f"not accepted: {PLAIN}")


KEPT = [
    {"_api_key": PLAIN},
    {"_kept": SecretStr(PLAIN)},
    {"_kept": {"kwargs": {"model_kwargs": {"auth_token": PLAIN.encode()}}}},
    {"_kept": SimpleNamespace(session=SimpleNamespace(headers={"X-Service": f"Token {PLAIN}"}))},
    {"_kept": httpx.Client(headers={"cookie": f"session={PLAIN}; path=/"})},
    {"_kept": httpx.Client(auth=("user", PLAIN))},
    {"_kept": SimpleNamespace(auth=("user", PLAIN))},
    {"_kept": partial(print, api_key=PLAIN)},
    {"_kept": Slotted(PLAIN)},
    {"_kept": [{Slotted(PLAIN)}]},
]


@pytest.mark.parametrize("kept", KEPT, ids=[f"{place}" for place in range(len(KEPT))])
def test_a_key_that_no_field_of_a_model_has_is_in_no_decision(kept):
    model = Private(responses=["x"])
    for name, value in kept.items():
        setattr(model, name, value)
    agents = [ModelAgent("a", model, retries=0), ScriptedAgent("b", ["Paris"])]
    graph = create_coe_graph(
        agents,
        clusterer=NormalizedMatch(),
        policy=ThresholdPolicy(0.5),
        options=GraphOptions(retries=0),
    ).compile()
    result = graph.invoke({"question": "Which?"})
    assert result["decision"]["failed_agents"]["a"].startswith("AgentError: ")
    assert PLAIN[8:] not in str(result)


def test_placeholders_messages_and_other_fields_are_no_secrets_and_what_holds_itself_ends():
    model = ChatOpenAI(model="a-long-name-of-a-model", api_key="EMPTY")
    assert secrets_of(ModelAgent("a-name-of-many-letters", model)) == secrets_of(object()) == set()
    assert (
        secrets_of(Holder(last=HumanMessage("what is a token?", name="token-of-thanks"))) == set()
    )
    options = {"api_key": KEY}
    options["self"] = options
    assert secrets_of(Holder(options=options)) == {KEY}
