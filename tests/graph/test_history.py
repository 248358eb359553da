"""What the agents are shown of a conversation: not what the gate withheld, and, if so wished, the question only."""

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent


class Echo(ScriptedAgent):
    """An agent that repeats the question."""

    def sample(self, request, config=None):
        self.rounds = ([request["question"]],)
        return super().sample(request, config)


class Remembering:
    """A policy that withholds the answers to some questions."""

    def __init__(self, *withheld):
        self.withheld = set(withheld)

    def decide(self, measurement, *, round, max_rounds):
        answered = measurement.answer not in self.withheld
        return Decision("answer" if answered else "abstain", measurement.answer if answered else None, "so decided")


def thread_of(agent, policy, **options):
    """Returns a function that asks on one thread, and returns what the agent was shown."""
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=policy, **options).compile(
        checkpointer=InMemorySaver()
    )

    def ask(text):
        graph.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "1"}})
        return [(message["role"], message["content"]) for message in agent.requests[-1]["messages"]]

    return ask


def test_what_the_gate_withheld_stays_out_of_what_agents_are_shown():
    ask = thread_of(Echo("a"), Remembering("Second?"))
    ask("First?")
    ask("Second?")
    answered = [("user", "First?"), ("assistant", "First?")]
    assert ask("Third?") == [*answered, ("user", "Third?")]  # two messages of the user in a row break chat templates


REFUSALS = [
    AIMessage("I will not answer this: the agents disagree."),
    AIMessage("", additional_kwargs={"refusal": "No."}),
    AIMessage("No.", response_metadata={"decision": {"action": "abstain"}}),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_question_whose_refusal_follows_is_asked_again(refusal):
    agent = ScriptedAgent("a", ["Lyon"])
    policy = ThresholdPolicy(0.5)
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=policy, history="question").compile()
    graph.invoke({"messages": [("user", "Which?"), refusal, refusal]})
    assert agent.requests[0]["messages"] == [{"role": "user", "content": "Which?"}]


@pytest.mark.parametrize("after", [("ai", "A draft."), ("user", " ")])
def test_the_question_is_the_last_text_of_the_user_whatever_follows(after):
    agent = ScriptedAgent("a", ["Lyon"])
    policy = ThresholdPolicy(0.5)
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=policy, history="question").compile()
    graph.invoke({"messages": [("user", "Which?"), after]})
    assert agent.requests[0]["messages"] == [{"role": "user", "content": "Which?"}]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_in_any_form_is_not_shown(refusal):
    agent = ScriptedAgent("a", ["Lyon"])
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
    graph.invoke({"messages": [("user", "Why?"), refusal, ("user", "Which?")]})
    assert agent.requests[0]["messages"] == [{"role": "user", "content": "Which?"}]
