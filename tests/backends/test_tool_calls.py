import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import tool

from coe_agents.backends.reply_forms import BoundTools, to_template_messages


@tool
def pay(to: str, amount: int) -> str:
    """Pays a person."""
    return f"{to} has {amount}"


def wait(seconds: int) -> None:
    """Waits."""


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("auto", None),
        ("required", "any"),
        (True, "any"),
        ("pay", "pay"),
        ({"function": {"name": "pay"}}, "pay"),
    ],
)
def test_the_choice_of_a_tool_is_read_as_langchain_and_openai_write_it(given, choice):
    assert BoundTools.read([pay, wait], given).choice == choice


@pytest.mark.parametrize("choice", ["none", "lend", False, {"function": None}, ["pay"]])
def test_a_choice_that_cannot_be_honoured_is_refused(choice):
    with pytest.raises(
        ValueError,
        match=r'must be "auto", "any" or the name of a tool in \[.pay.\]; got .*\. For a r',
    ):
        BoundTools.read([pay], choice)


def test_tools_that_cannot_be_called_are_refused():
    for tools in ([], {"name": "pay"}, "pay"):
        with pytest.raises(
            ValueError, match=r'"tools" must be a sequence of at least one tool; got .*\. Omit it'
        ):
            BoundTools.read(tools, None)
    with pytest.raises(
        ValueError,
        match=r'each of "tools" must be a function; got .*web_search.*\. Omit tools that',
    ):
        BoundTools.read([{"type": "web_search"}], None)


def test_a_call_that_could_not_be_read_is_the_assistants_text():
    invalid = invalid_tool_call(name=None, args="<tool_call>{", id="1", error="")
    (shown,) = to_template_messages([AIMessage("So.", invalid_tool_calls=[invalid])])
    assert shown == {"role": "assistant", "content": "So.\n<tool_call>{"}
