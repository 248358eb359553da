"""The run-time errors: a LangGraph server shows its clients the message of built-in errors only."""

import inspect

import pytest

from coe_agents import errors

ALL = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.CoEError)]
SHOWN = (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError, TimeoutError)
"""The built-in errors whose message the server passes on (langgraph-api 0.16, `serde.default`)."""


@pytest.mark.parametrize("error", [one for one in ALL if one is not errors.CoEError], ids=lambda one: one.__name__)
def test_each_error_is_also_a_built_in_one(error):
    raised = error("It went wrong", hint="Mend it")
    assert isinstance(raised, SHOWN)
    assert str(raised) == "It went wrong. Mend it"


def test_which_built_in_one_it_is():
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.AgentTimeoutError, TimeoutError)
    assert issubclass(errors.AgentConnectionError, ConnectionError)
    assert not issubclass(errors.AgentError, ValueError)


def test_the_server_passes_on_what_we_say():
    serde = pytest.importorskip("langgraph_api.serde")
    passed = serde.default(errors.ConfigurationError("No checkpointer", hint="Compile it with one"))
    assert passed == {"error": "ConfigurationError", "message": "No checkpointer. Compile it with one"}
