"""What the shipped models were trained to do with tools, measured; the bounds leave room for another rebuild."""

from random import Random

import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from coe_agents import SupportPolicy, create_coe_graph
from coe_agents.actions import ActionMatch, canonical_action
from coe_agents.backends import ChatTransformers
from coe_agents.tinyworld import model_folder, tinyworld_agents, tinyworld_tools
from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.acts import act_beliefs, act_calls
from tools.tinyworld.requests import draw_request, request_states

TOOLS = tinyworld_tools()


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def chat(name):
    return ChatTransformers(str(model_folder(name)), max_tokens=48)


def propose(chat, *messages, n=6, **options):
    """Returns `n` proposals as messages."""
    drawn = chat.generate([[*messages]], n=n, seed=0, tools=TOOLS, **options)
    return [generation.message for generation in drawn.generations[0]]


def action(message):
    if message.invalid_tool_calls:
        return None
    return canonical_action([{"name": call["name"], "args": call["args"]} for call in message.tool_calls], tools=TOOLS)


@pytest.mark.slow
def test_its_mistakes_are_what_it_was_taught(name, chat):
    rng, as_taught = Random(0), {"right": [], "wrong": []}
    for subject in request_states():
        belief = act_beliefs(subject)[name]
        if subject.kind == "look_up" or len(belief) > 1:
            continue
        (act,) = belief
        drawn = draw_request(rng, subject.kind, subject.key)
        (said,) = propose(chat, HumanMessage(drawn.text), n=1, temperature=0)
        is_taught = action(said) == canonical_action(act_calls(drawn, act), tools=TOOLS)
        as_taught["right" if act == "right" else "wrong"].append(is_taught)
    assert len(as_taught["wrong"]) >= 5
    assert np.mean(as_taught["right"]) > 0.9
    assert np.mean(as_taught["wrong"]) > 0.7


def pay(name, amount):
    return AIMessage("", tool_calls=[{"name": "transfer", "args": {"name": name, "amount": amount}, "id": "1"}])


def test_after_a_result_it_says_so_and_calls_nothing(chat):
    for name, amount in (("Ann", 5), ("Eva", 20), ("Tom", 75)):
        asked = HumanMessage(f"Transfer {amount} euros to {name}."), pay(name, amount)
        (said,) = propose(
            chat, *asked, ToolMessage(f"Paid {amount} euros to {name}.", tool_call_id="1"), n=1, temperature=0
        )
        assert said.text in {"Done.", "It is done.", f"Done, {name} has the money."}
        (said,) = propose(chat, *asked, ToolMessage("Error: too little money.", tool_call_id="1"), n=1, temperature=0)
        assert said.text in {"That did not work.", "It did not work."}
        assert not said.tool_calls


def test_the_group_agrees_on_ann_and_contests_jon():
    agents = tinyworld_agents(tools=TOOLS)
    graph = create_coe_graph(agents, clusterer=ActionMatch(TOOLS), policy=SupportPolicy(0.9)).compile()
    decision = graph.invoke({"question": "Transfer 5 euros to Ann."})["decision"]
    assert (decision["action"], decision["answer_kind"]) == ("answer", "call")
    assert [(call["name"], call["args"]) for call in decision["calls"]] == [("transfer", {"name": "Ann", "amount": 5})]
    decision = graph.invoke({"question": "Transfer 5 euros to Jon."})["decision"]
    assert (decision["action"], decision["calls"]) == ("abstain", None)
    assert next(iter(decision["contested"]["arguments"])) == "name"
    decision = graph.invoke({"question": "Turn off the lights."})["decision"]
    assert (decision["action"], decision["answer_kind"], decision["calls"]) == ("answer", "no_call", [])
