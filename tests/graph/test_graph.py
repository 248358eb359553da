from dataclasses import replace

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from coe_agents import AskPerson, RegimePolicy, SupportPolicy, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import create_sequential_graph
from coe_agents.policy import CalibratedPolicy, Decision, FixedRounds
from coe_agents.rounds import Debate
from tests.doubles import ScriptedAgent
from tests.graph.groups import ESCALATE, THREAD, Deciding, ask, both, decide, graph, saved, saying
from tests.policy.test_calibrated import CALIBRATION

ANSWER_ALL = ThresholdPolicy(float("inf"))


def trio():
    return [ScriptedAgent(name, ["Paris", "paris."]) for name in ("a", "b", "c")]


def test_agreement_is_answered_with_its_numbers():
    result = both(graph(*trio()), {"question": "Capital of France?"})
    decision = result["decision"]
    assert decision["action"] == "answer"
    assert decision["answer"] == "Paris"
    assert decision["regime"] == "consensus"
    assert decision["coe"] == 0.0
    assert decision["aleatoric"] == 0.0
    assert decision["epistemic"] == 0.0
    assert decision["n_rounds"] == 1
    assert decision["failed_agents"] == {}
    assert decision["support"] == {"Paris": 1.0}
    assert decision["tokens"]["a"] == {"input_tokens": 3, "output_tokens": 2}
    assert result["labels"] == [0] * 6
    assert [(r["agent"], r["index"]) for r in result["responses"]] == [
        (n, i) for n in "abc" for i in range(2)
    ]


def test_fewer_agents_than_needed_or_agents_without_an_answer_abstain_however_sure():
    agents = [trio()[0], ScriptedAgent("b", OSError("gone")), ScriptedAgent("c", OSError("gone"))]
    decision = decide(*agents)
    assert decision["action"] == "abstain"
    assert decision["reason"] == "1 of 3 agents answered, but 2 must; missing: b, c"
    assert decide(*agents, min_agents=1)["action"] == "answer"
    agents[0].weight = 0.0
    untrusted = decide(*agents, min_agents=1)
    assert (untrusted["action"], untrusted["reason"]) == (
        "abstain",
        "no agent with a weight above 0 answered",
    )
    for said in ("I don't know.", ""):
        unanswered = decide(
            *(ScriptedAgent(name, [said, said]) for name in "abc"), policy=ANSWER_ALL
        )
        assert unanswered["coe"] == 0
        assert unanswered["action"] == "abstain"


def test_another_round_asks_again_and_ends_at_the_bound():
    agents = [ScriptedAgent("a", ["Paris"], ["Lyon"]), ScriptedAgent("b", ["Lyon"])]
    policy = Deciding(Decision("another_round", None, "as told"))
    decision = decide(*agents, policy=policy, strategies={"conflict": "resample"}, max_rounds=3)
    assert decision["action"] == "abstain"
    assert decision["cause"] == "rounds"
    assert "; as told; " in decision["reason"]
    assert decision["n_rounds"] == 3
    assert [seen[:2] for seen in policy.seen] == [(0, 3), (1, 3), (2, 3)]
    assert [request["round"] for request in agents[0].requests] == [0, 1, 2]
    # the rounds' responses are measured together: a said Paris once and Lyon twice
    assert policy.seen[-1][2].agents["a"].distribution == pytest.approx(
        {"Paris": 1 / 3, "Lyon": 2 / 3}
    )
    assert decision["tokens"]["a"] == {"input_tokens": 9, "output_tokens": 3}


def test_a_new_turn_on_a_thread_starts_clean():
    agents = trio()
    policy = Deciding(Decision("another_round"), Decision("answer"))
    compiled = saved(*agents, policy=policy, max_rounds=2)
    compiled.invoke({"question": "First?"}, THREAD)
    second = compiled.invoke({"messages": [("user", "Second?")]}, THREAD)
    assert agents[0].requests[-1]["question"] == "Second?"
    assert second["decision"]["n_rounds"] == 2
    assert len(second["responses"]) == 2 * 6  # two rounds of this turn, none of the former
    third = compiled.invoke({"question": "Third?"}, THREAD)
    assert [m["content"] for m in agents[0].requests[-1]["messages"]] == ["Third?"]
    assert len(third["responses"]) == 12
    assert third["decision"]["tokens"]["a"]["output_tokens"] == 4


FRANCE = [("user", "Capital of France?"), ("ai", "Paris")]


@pytest.mark.parametrize(
    "turns", [[("user", "Context.")], FRANCE, [("system", "Country: Germany.")], []]
)
def test_a_question_with_a_conversation_joins_it(turns):
    for given in (turns, [*turns, ("user", "Q?")]):  # which may end with it
        agent = ScriptedAgent("a", ["x"])
        ask(graph(agent), messages=given)
        assert [m["content"] for m in agent.requests[0]["messages"]] == [
            text for _, text in [*turns, ("user", "Q?")]
        ]


@pytest.mark.parametrize(
    "given", [{}, {"question": "  "}, {"question": 3}, {"messages": [("ai", "x")]}]
)
def test_nothing_asked_is_an_error(given):
    with pytest.raises(Exception, match="question"):
        graph(*trio()).compile().invoke(given)


class WithoutQuestion(MessagesState, total=False):
    """A state around the group that has no key for its question."""

    decision: dict


@pytest.mark.parametrize("is_chain", [False, True])
def test_a_question_that_the_state_around_lacks_is_told_of(is_chain):
    node = graph(*trio()).compile()
    if is_chain:
        node = create_sequential_graph(node, next_question=lambda *_: None).compile()
    outer = StateGraph(WithoutQuestion)
    outer.add_node("gate", node)
    outer.add_edge(START, "gate")
    with pytest.raises(ValueError, match='must have the key "question", too: LangGraph drops'):
        outer.compile().invoke({"question": "Capital of France?"})


def test_a_calibration_of_another_clusterer_or_group_is_warned_of():
    agents = [ScriptedAgent("a", ["x"]), ScriptedAgent("d", ["x"])]
    policy = CalibratedPolicy(replace(CALIBRATION, clusterer="BidirectionalEntailment"))
    with pytest.warns(UserWarning, match="the calibrated risk does not hold") as caught:
        create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy)
    (message,) = [str(warning.message) for warning in caught]
    assert (
        "clusterer NormalizedMatch differs from BidirectionalEntailment at calibration" in message
    )
    assert "agents a, d differs from a, b" in message
    assert caught[0].filename == __file__


def test_weights_replace_those_of_the_agents():
    agents = saying("Lyon", "Paris", "Lyon")
    agents[1].weight = 3.0
    with pytest.raises(ValueError, match=r'"weights" must hold .* got none above 0'):
        graph(*agents, weights={})
    for weights, answer in ((None, "Paris"), ({"b": 1.0}, "Lyon"), ({"a": 0.0, "c": 0.5}, "Paris")):
        assert decide(*agents, weights=weights, policy=ANSWER_ALL)["answer"] == answer
    with pytest.raises(
        ValueError,
        match=r'"weights" must name agents of the graph; got \'d\'. Its agents are a, b, c',
    ):
        graph(*agents, weights={"d": 1.0})
    with pytest.raises(ValueError, match="got only weights of 0"):
        graph(ScriptedAgent("a", ["x"], weight=0.0))


def test_an_answer_of_the_policys_own_passes_the_same_gate_and_what_is_no_decision_is_an_error():
    for action, said, answer in (
        ("answer", "Lyon", "Lyon"),
        ("answer", "Unknown.", None),
        ("abstain", "Paris", None),
    ):
        decision = decide(*trio(), policy=Deciding(Decision(action, said)))
        assert decision["action"] == ("answer" if answer else "abstain")
        assert decision["answer"] == answer
    with pytest.raises(TypeError, match="of Deciding returns must be a Decision; got str"):
        decide(*trio(), policy=Deciding("answer"))


@pytest.mark.parametrize(
    ("agents", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one agent"),
        (
            ["a"],
            {"history": "none"},
            ValueError,
            r'"history" must be one of conversation, question; got .none.',
        ),
        (["a", "a"], {}, ValueError, "got 'a' twice"),
        (["cluster"], {}, ValueError, "got 'cluster'"),
        (["a"], {"min_agents": 2}, ValueError, r'"min_agents" must be an integer in .1, 1.'),
        (
            ["\ud800"],
            {},
            ValueError,
            r'a name of "agents" must be text that UTF-8 can encode; got .*ud.*\. Rename',
        ),
        ([3], {}, TypeError, r'a name of "agents" must be a string; got 3\. Rename'),
        ([3.0], {}, TypeError, "Wrap a chat model"),
        (
            ["a"],
            {"clusterer": NormalizedMatch},
            TypeError,
            r'"clusterer" must be .*, not a class; got N.*\. Call it',
        ),
        (
            ["a"],
            {"strategies": {"conflict": Debate}},
            TypeError,
            r"strategy must be .*, not a class; got D.*\. Call",
        ),
        (
            ["a"],
            {"canonicalize": "short"},
            TypeError,
            r'"canonicalize" must be a function .*; got .short.\. Pass',
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_at_build_time(agents, options, error, message):
    made = [one if isinstance(one, float) else ScriptedAgent(one, ["x"]) for one in agents]
    with pytest.raises(error, match=message):
        graph(*made, **options)


def test_a_regime_out_of_reach_is_said_at_build_time():
    with pytest.warns(UserWarning, match="can never see the regimes conflict, unknown"):
        graph(*trio()[:2], policy=RegimePolicy(0.5, 0.8))


SILENT = [ThresholdPolicy(0.5), RegimePolicy(0.5, 0.3), SupportPolicy(otherwise="another_round")]
SILENT += [FixedRounds(2, then=RegimePolicy(0.5, 0.3)), Deciding(otherwise="abstain")]
ASKING = [ThresholdPolicy(0.5, otherwise="escalate"), ESCALATE, Deciding()]
ASKING += [FixedRounds(2, then=ESCALATE), Deciding(actions={"low": "escalate"})]


@pytest.mark.parametrize("policy", SILENT)
def test_who_decides_beside_a_policy_that_never_escalates_is_said_to_be_never_asked(policy):
    with pytest.warns(UserWarning, match='is "escalate", so "escalation" is never asked') as told:
        graph(*trio(), policy=policy, escalation=AskPerson())
    named = "actions" if hasattr(policy, "actions") else "otherwise"
    assert f'"{named}"' in str(told[0].message)
    graph(*trio(), policy=policy)


@pytest.mark.parametrize("policy", ASKING)
def test_a_policy_that_may_escalate_is_taken_with_who_decides(policy):
    graph(*trio(), policy=policy, escalation=AskPerson())
