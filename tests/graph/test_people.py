"""What a person's reply to a request counts for: each text as it was proposed, unless they wrote another."""

import re
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from coe_agents.graph.people import ActionRequest, ask_for_decisions, fence
from tests.graph.groups import THREAD

HIDDEN = "Ann\u200b"
SHOWN = "Ann\\u200b"
TO_HIDDEN = {"to": HIDDEN}
TO_SHOWN = {"to": SHOWN}
TO_BOB = {"to": "Bob"}
TO_FIVE = {"to": 5}


class Decided(TypedDict, total=False):
    decisions: Any


def asking(args, checked, *allowed):
    """A graph that asks about actions with these arguments; `checked` keeps what each reply decides.

    `allowed` are the decisions that each action allows.
    """

    def check(action, decision):
        checked.append(decision)
        if decision.type == "respond":
            raise ValueError("say yes or no")

    def ask(_):
        actions = [ActionRequest("pay", args, "Pay?", allowed=kinds) for kinds in allowed]
        decisions = ask_for_decisions(actions, check)
        return {"decisions": [decision.model_dump() for decision in decisions]}

    graph = StateGraph(Decided)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=InMemorySaver())


def edit(args):
    return {"type": "edit", "edited_action": {"name": "pay", "args": args}}


def reply_to(args, *decisions, allowed=(("approve", "edit"),)):
    """What decisions count for, None where they are asked for again, and what was checked."""
    checked = []
    graph = asking(args, checked, *allowed)
    graph.invoke({}, THREAD)
    state = graph.invoke(Command(resume={"decisions": [*decisions]}), THREAD)
    return state.get("decisions"), checked


@pytest.mark.parametrize(
    ("proposed", "edited", "counts"),
    [
        (TO_HIDDEN, TO_SHOWN, TO_HIDDEN),
        (TO_HIDDEN, TO_BOB, TO_BOB),
        ({"to": HIDDEN, "amount": 1}, {"to": SHOWN, "amount": 2}, {"to": HIDDEN, "amount": 2}),
        ({HIDDEN: "x"}, {SHOWN: "y"}, {HIDDEN: "y"}),
        ({"to": {"name": HIDDEN}}, {"to": {"name": SHOWN}}, {"to": {"name": HIDDEN}}),
        ({"to": [HIDDEN, "b"]}, {"to": [SHOWN]}, {"to": [HIDDEN]}),
        ({"to": ["a"]}, {"to": ["a", SHOWN]}, {"to": ["a", SHOWN]}),
        # where the kind of a value changes, it is what the person wrote
        (TO_FIVE, TO_SHOWN, TO_SHOWN),
        (TO_HIDDEN, TO_FIVE, TO_FIVE),
        ({"to": [HIDDEN]}, {"to": {"0": SHOWN}}, {"to": {"0": SHOWN}}),
        ({"to": {"a": HIDDEN}}, {"to": [SHOWN]}, {"to": [SHOWN]}),
        (TO_HIDDEN, {"to": {"a": 1}}, {"to": {"a": 1}}),
        ({"to": {"a": 1}}, TO_FIVE, TO_FIVE),
        ({"to": [1]}, {"to": None}, {"to": None}),
        ({}, {"to": [SHOWN]}, {"to": [SHOWN]}),
    ],
)
def test_an_edit_counts_as_it_was_written_but_for_texts_left_as_they_were_shown(
    proposed, edited, counts
):
    [decided], checked = reply_to(proposed, edit(edited))
    assert decided["edited_action"]["args"] == counts
    assert checked[0].edited_action.args == counts


@pytest.mark.parametrize("decision", [{"type": "reject"}, {"type": "respond", "message": "no"}])
def test_a_decision_that_is_not_allowed_or_does_not_fit_is_asked_for_again(decision):
    decided, _ = reply_to({}, decision)
    assert decided is None


def test_what_one_action_allows_is_not_allowed_of_another():
    allowed = (("approve",), ("approve", "edit"))
    approve = {"type": "approve"}
    assert reply_to({}, approve, edit({}), allowed=allowed)[0]
    assert reply_to({}, edit({}), approve, allowed=allowed)[0] is None


@pytest.mark.parametrize("text", ["", "a", "a ` b", "``` ```` `", "```` `"])
def test_no_text_ends_the_block_of_code_that_holds_it(text):
    first, *_, last = fence(text).splitlines()
    assert first == last
    assert len(first) >= 3
    assert all(len(run) < len(first) for run in re.findall("`+", text))
