import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from coe_agents import SupportPolicy, ThresholdPolicy
from coe_agents.actions import ActionMatch, Text, canonical_action
from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.doubles import TableEntailment
from coe_agents.types import REGIMES
from tests.doubles import Rewriting
from tests.graph.groups import THREAD, decide, saved, saying
from tests.policy.test_support import pay

PAY = {
    "name": "pay",
    "parameters": {"properties": {"to": {"type": "string"}, "amount": {"type": "number"}}},
}


def test_agreed_calls_are_the_decision_and_a_message_that_a_tool_node_can_run():
    result = ask(group(*saying(pay(5), pay(5.0), pay(6))))
    decision = result["decision"]
    message = result["messages"][-1]
    assert decision["action"] == "answer"
    assert decision["answer_kind"] == "call"
    (call,) = decision["calls"]
    assert call["name"] == "pay"
    assert call["args"]["amount"] == 5
    [made] = message.tool_calls
    assert {key: made[key] for key in ("name", "args", "id")} == call
    candidates = decision["contested"]["candidates"]
    assert list(candidates) == ["pay.amount"]
    five, six = candidates["pay.amount"]
    assert five == {"value": 5, "agents": ["a", "b"]}
    assert six == {"value": 6, "agents": ["c"]}


def test_a_proposal_that_does_not_lead_runs_as_most_wrote_it():
    agents = saying(pay(5), pay(5, "ANN"), pay(5), *[pay(6)] * 4)
    case_is_ignored = ActionMatch(compare={"to": Text()})
    policy = SupportPolicy(0.2, proposer="a")
    decision = decide(*agents, clusterer=case_is_ignored, policy=policy)
    (call,) = decision["calls"]
    assert call["args"] == {"amount": 5, "to": "Ann"}


def test_a_text_that_reads_as_the_action_neither_takes_its_calls_away_nor_adds_them():
    text = canonical_action(pay(5))
    silent = [Rewriting(name, [text], calls=[], answer="[]") for name in "xyz"]
    calling = saying(*[pay(5)] * 3)
    agreed = ask(group(*calling, silent[0]))["decision"]
    assert agreed["action"] == "answer"
    assert len(agreed["calls"]) == 1
    silenced = ask(group(*silent, calling[0]))["decision"]
    assert silenced["action"] == "answer"
    assert silenced["answer"] == text
    assert silenced["calls"] == []


LOG = {"name": "log", "parameters": {"properties": {"text": {"type": "string"}}}}
TOOL = {"type": "function", "function": {**PAY, "description": "Pays."}}


class Plain(ScriptedAgent):
    """Does not know tools."""

    def sample(self, request, config=None):
        without_tools = {name: value for name, value in request.items() if name != "tools"}
        return super().sample(without_tools, config)


def group(*agents, **options):
    return saved(*agents, **{"policy": SupportPolicy(0.5), **options})


def ask(graph, given=None, *, thread="1", tools=(TOOL,), **more):
    given = {"question": "Pay Ann 5"} if given is None else given
    whole = {**given, "tools": [*tools], **more}
    return graph.invoke(whole, {"configurable": {"thread_id": thread}})


def test_the_tools_of_a_turn_are_shown_to_every_agent_and_bypass_the_clusterer_of_texts():
    agents = saying(pay(5), pay(5.0), pay(6))
    all_are_equal = BidirectionalEntailment(TableEntailment(lambda *_: "entailment"))
    graph = group(*agents, clusterer=all_are_equal)
    result = ask(graph)
    assert [agent.requests[0]["tools"] for agent in agents] == [[TOOL]] * 3
    assert result["labels"] == [0, 0, 1]
    decision = result["decision"]
    assert decision["calls"][0]["name"] == "pay"
    assert list(decision["contested"]["arguments"]) == ["amount"]

    ask(graph, {"question": "Capital?"}, tools=[])
    _, of_later_turn = agents[0].requests
    assert "tools" not in of_later_turn


def test_a_text_is_never_read_as_an_action_and_what_would_run_is_what_is_compared():
    texts = ["[]", '[{"name":"pay","args":{"to":"ann","amount":5}}]', "Done.", ""]
    plain = Plain("a", texts)
    answers = ScriptedAgent("b", ["Done."])
    pays = ScriptedAgent("c", [pay(5)])
    result = ask(group(plain, answers, pays))
    assert result["labels"] == [0, 1, 2, 3, 4, 5]
    assert result["responses"][0]["answer"] == "(no proposal: '[]')"
    proposed = [row["calls"] for row in result["responses"]]
    assert proposed == [None, None, None, None, [], pay(5)]

    lying = Rewriting("a", [pay(900)], answer='[{"args":{"amount":5,"to":"ann"},"name":"pay"}]')
    honest = [ScriptedAgent(name, [pay(5)]) for name in "bc"]
    result = ask(group(lying, *honest))
    assert result["labels"] == [0, 1, 1]
    [call] = result["decision"]["calls"]
    assert call["args"]["amount"] == 5


INVALID_TOOLS = {
    "no list": ("pay", TypeError, "must be a list of tools"),
    "no name": (
        [{"type": "function", "function": {}}],
        TypeError,
        "must be a function with a name",
    ),
    "twice": ([TOOL, {"name": "pay", "parameters": {}}], ValueError, "'pay' twice"),
    "as providers read it": (
        [{"name": name, "parameters": {}} for name in ("a.b", "a_b")],
        ValueError,
        "'a_b' twice",
    ),
    "too many": (
        [{"name": f"t{i}", "parameters": {}} for i in range(129)],
        ValueError,
        "1 to 128 tools; got 129",
    ),
    "too long": (
        [{"name": "t", "parameters": {}, "description": "x" * 400_001}],
        ValueError,
        "at most 400000",
    ),
    "no JSON": (
        [{"name": "t", "parameters": {"default": float("nan")}}],
        ValueError,
        "must be JSON",
    ),
}


@pytest.mark.parametrize(("tools", "error", "message"), INVALID_TOOLS.values(), ids=INVALID_TOOLS)
def test_tools_that_do_not_fit(tools, error, message):
    agent = ScriptedAgent("a", [pay(5)])
    with pytest.raises(error, match=message):
        group(agent).invoke({"question": "Pay", "tools": tools}, THREAD)
    assert agent.requests == []


def test_the_tools_of_the_graph_are_those_of_turns_that_name_none_and_choices_exclude_them():
    agent = ScriptedAgent("a", [pay(5)])
    graph = group(agent, tools=[PAY])
    for given in ({}, {"tools": [LOG]}, {"tools": []}, {"choices": ["yes", "no"]}):
        graph.invoke({"question": "Pay Ann 5", **given}, THREAD)
    shown = [
        [tool["function"]["name"] for tool in request.get("tools", [])]
        for request in agent.requests
    ]
    assert shown == [["pay"], ["log"], [], []]
    with pytest.raises(ValueError, match='"choices" or "tools", not both'):
        ask(group(ScriptedAgent("a", ["x"])), choices=["yes", "no"])
    assert (
        ask(group(ScriptedAgent("a", ["yes"])), choices=["yes", "no"], tools=[])["decision"][
            "answer"
        ]
        == "yes"
    )


class Acting(ScriptedAgent):
    """Proposes to pay, until it sees a result."""

    def sample(self, request, config=None):
        is_done = any(message["role"] == "tool" for message in request["messages"])
        self.rounds = [["Paid."]] if is_done else [[pay(5)]]
        return super().sample(request, config)


@pytest.mark.parametrize("history", ["conversation", "question"])
@pytest.mark.parametrize("in_thread", [True, False])
def test_a_loop_of_calls_and_results_around_the_graph(history, in_thread):
    agents = [Acting(name) for name in "ab"]
    graph = group(*agents, history=history)
    first = ask(graph, {"messages": [HumanMessage("Pay Ann 5")]})["messages"]
    done = [ToolMessage("ok", tool_call_id=call["id"]) for call in first[-1].tool_calls]
    if in_thread:
        given = done
        thread = "1"
    else:
        given = [*first, *done]
        thread = "2"
    result = ask(graph, {"messages": given}, thread=thread)

    shown = agents[0].requests[1]["messages"]
    assert [message["role"] for message in shown] == ["user", "assistant", "tool"]
    (call,) = shown[1]["tool_calls"]
    assert call["id"] == done[0].tool_call_id
    assert json.loads(call["function"]["arguments"]) == {"to": "Ann", "amount": 5}

    decision = result["decision"]
    assert decision["answer_kind"] == "no_call"
    assert decision["answer"] == "Paid."
    assert decision["calls"] == []
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]

    after = ask(graph, {"messages": [HumanMessage("Thanks!")]}, thread=thread)
    shown = agents[0].requests[2]["messages"]
    roles = ["user"]
    if history == "conversation":
        roles = ["user", "assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in shown] == roles
    assert after["decision"]["action"] == "answer"


def test_of_parallel_calls_those_with_a_result_are_shown():
    agents = saying("Done.", "Done.")
    calls = [{"name": "pay", "args": {"to": to}, "id": to} for to in ("Ann", "Bob")]
    messages = [
        HumanMessage("Pay"),
        AIMessage("", tool_calls=calls),
        ToolMessage("ok", tool_call_id="Bob"),
    ]
    ask(group(*agents), {"messages": messages})
    _, assistant, *_ = agents[0].requests[0]["messages"]
    assert [call["id"] for call in assistant["tool_calls"]] == ["Bob"]


def test_a_debate_proposes_with_the_same_tools():
    first = ScriptedAgent("a", [pay(5)], [pay(5)])
    second = ScriptedAgent("b", [pay(900)], [pay(5)] * 3)
    graph = group(
        first,
        second,
        policy=ThresholdPolicy(0.1, otherwise="another_round"),
        max_rounds=2,
        strategies=dict.fromkeys(REGIMES, "debate"),
    )
    decision = ask(graph)["decision"]
    assert first.requests[1]["tools"] == [TOOL]
    assert second.requests[1]["tools"] == [TOOL]
    assert decision["action"] == "answer"
    assert decision["n_rounds"] == 2
    assert decision["conformity"] == 0.5
    assert decision["calls"][0]["args"] == {"to": "Ann", "amount": 5}
    # in the proposers' own spelling: agents repeat what they read
    *_, debate = first.requests[1]["messages"]
    assert 'pay(to="Ann", amount=900)' in debate["content"]


@pytest.mark.parametrize("clusterer", [NormalizedMatch(), ActionMatch()])
def test_what_an_agent_calls_is_compared_whatever_it_says(clusterer):
    erasing = [{"name": "run", "args": {"command": "rm -rf /"}}]
    for other, action in ((erasing, "abstain"), (pay(5.0), "answer")):
        said = {"answer": None, "text": "Let me do that."}
        pays = Rewriting("a", [pay(5)], **said)
        calls_other = Rewriting("b", [other], **said)
        graph = group(pays, calls_other, clusterer=clusterer, policy=ThresholdPolicy(0.5))
        decision = ask(graph, tools=())["decision"]
        assert decision["action"] == action
        assert bool(decision["calls"]) == (action == "answer")
