import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import RegimePolicy
from coe_agents.errors import ConfigurationError
from coe_agents.policy import Decision
from tests.doubles import ScriptedAgent
from tests.graph import groups
from tests.graph.groups import THREAD, Deciding, ask

ASKED = (
    '"Capital?" can be taken in more than one way. The answers so far:\n'
    "- Paris (75%)\n- Lyon (25%)\nWhat do you mean?"
)
CLEARER = "Capital?\nClarification: Of France."


def group():
    """In the first round a says two things; what it says later is one."""
    return [
        ScriptedAgent("a", ["Lyon", "Paris"], ["Metz"]),
        ScriptedAgent("b", ["Paris"], ["Metz"]),
    ]


def graph(agents, policy=None, **options):
    once = Deciding(
        Decision("another_round", None, "ambiguous", strategy="clarify"), Decision("answer")
    )
    options = {"policy": policy or once, "max_rounds": 2, "clarify": True, **options}
    return groups.graph(*agents, **options)


def shown(result):
    return result["__interrupt__"][0].value


def test_the_user_is_asked_and_the_next_round_starts_afresh():
    agents = group()
    compiled = graph(agents).compile(checkpointer=InMemorySaver())
    request = shown(compiled.invoke({"question": "Capital?"}, THREAD))
    assert request["type"] == "clarify"
    assert request["asked"] == ASKED
    assert request["problem"] is None
    assert [(one["answer"], one["support"]) for one in request["candidates"]] == [
        ("Paris", 0.75),
        ("Lyon", 0.25),
    ]
    result = compiled.invoke(Command(resume=" Of France. "), THREAD)
    assert [request["question"] for request in agents[0].requests] == ["Capital?", CLEARER]
    asked = [{"role": "user", "content": CLEARER}]
    assert agents[0].requests[1] == {"question": CLEARER, "messages": asked, "round": 1}
    decision = result["decision"]
    assert decision["action"] == "answer"
    assert decision["answer"] == "Metz"
    assert decision["decided_by"] == "group"
    assert decision["support"] == {"Metz": 1.0}  # the former responses do not count
    assert decision["tokens"]["a"] == {"input_tokens": 6, "output_tokens": 3}  # their cost does
    assert decision["n_rounds"] == 2
    assert [message.content for message in result["messages"]] == [
        "Capital?",
        ASKED,
        "Of France.",
        "Metz",
    ]


def test_a_table_of_strategies_may_have_the_user_asked():
    policy = RegimePolicy(0.5, 0.3, actions={"ambiguous": "another_round", "consensus": "answer"})
    agents = [ScriptedAgent(name, ["Lyon", "Paris"], ["Metz"]) for name in "ab"]
    compiled = graph(agents, policy, clarify=False, strategies={"ambiguous": "clarify"})
    compiled = compiled.compile(checkpointer=InMemorySaver())
    assert shown(compiled.invoke({"question": "Capital?"}, THREAD))["type"] == "clarify"
    decision = compiled.invoke(Command(resume="Of France."), THREAD)["decision"]
    assert decision["answer"] == "Metz"
    assert [one["strategy"] for one in decision["trajectory"]] == [None, "clarify"]
    assert decision["trajectory"][1]["flips"] == {"a": True, "b": True}
    assert decision["conformity"] is None  # nobody saw another's answer


def test_a_reply_that_cannot_be_used_is_asked_for_again():
    agents = group()
    compiled = graph(agents, max_question_chars=50).compile(checkpointer=InMemorySaver())
    compiled.invoke({"question": "Capital?"}, THREAD)
    # the last is too long with the question: 74 characters, and 50 are allowed
    for reply in (["Of France."], " ", "x" * 50):
        assert shown(compiled.invoke(Command(resume=reply), THREAD))["problem"]
    assert compiled.invoke(Command(resume="Of France."), THREAD)["decision"]["answer"] == "Metz"
    assert len(agents[0].requests) == 2


def test_a_graph_that_may_not_ask_says_so():
    with pytest.raises(ValueError, match=r'"clarify" must be allowed .*clarify=True'):
        ask(graph(group(), clarify=False))
    with pytest.raises(ConfigurationError, match="may stop to ask a person"):
        ask(graph(group()))
