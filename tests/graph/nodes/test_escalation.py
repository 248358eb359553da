import asyncio
from typing import Literal

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from coe_agents import Arbiter
from coe_agents.types import Ruling
from tests.doubles import CountingModel, ScriptedAgent
from tests.graph import groups
from tests.graph.groups import ESCALATE, THREAD, ask, saying


def graph(escalation, agents=None):
    """Two of three say Lyon: a conflict, of which Lyon has the support 2/3."""
    return groups.graph(
        *(agents or saying("Paris", "Lyon", "Lyon")), policy=ESCALATE, escalation=escalation
    )


@pytest.mark.parametrize("is_arbiter", [True, False])
def test_what_decides_is_not_streamed(is_arbiter):
    model = FakeListChatModel(responses=["CHOICE: 1"])

    def desk(case, config):
        model.invoke(case["question"], config)
        return Ruling(action="abstain", reason="x")

    compiled = graph(Arbiter(model) if is_arbiter else desk).compile()
    streamed = [
        chunk.content for chunk, _ in compiled.stream({"question": "Q?"}, stream_mode="messages")
    ]
    assert not [text for text in streamed if "CHOICE" in str(text)]


def test_a_reply_that_an_interrupt_of_an_agent_cannot_use_can_be_given_again():
    class Waiting(ScriptedAgent):
        def sample(self, request, config=None):
            self.rounds = ([interrupt("which?", response_schema=Literal["Paris", "CHOICE: 2"])],)
            return super().sample(request)

    agents = [Waiting("x", []), ScriptedAgent("y", ["Paris"])]
    answers = {"Paris": graph(None, agents), "CHOICE: 2": graph(Arbiter(Waiting("x", [])))}
    for reply, waiting in answers.items():
        compiled = waiting.compile(checkpointer=InMemorySaver())
        compiled.invoke({"question": "Q?"}, THREAD)
        with pytest.raises(ValidationError):
            compiled.invoke(Command(resume="Rome"), THREAD)
        assert compiled.invoke(Command(resume=reply), THREAD)["decision"]["answer"] == "Paris"


def test_a_function_of_the_users_own_decides():
    seen = []

    def desk(case):
        seen.append(case)
        answer = case["candidates"][-1]["answer"]
        return Ruling(
            action="answer",
            answer=answer,
            reason="looked up",
            usage={"input_tokens": 4, "output_tokens": 0},
        )

    plain = graph(desk).compile()
    decision = plain.invoke({"question": "Q?"})["decision"]
    assert asyncio.run(plain.ainvoke({"question": "Q?"}))["decision"] == decision
    assert decision["answer"] == "Paris"
    assert decision["decided_by"] == "desk"
    assert decision["cause"] == "arbiter"
    assert decision["ruling"] == "looked up"
    assert decision["tokens"]["desk"] == {"input_tokens": 4, "output_tokens": 0}
    case = seen[0]
    assert (case["question"], case["regime"]) == ("Q?", "conflict")
    assert decision["reason"] == f"looked up; {case['reason']}"
    assert case["conversation"] == [{"role": "user", "content": "Q?"}]
    assert case["coe"] == pytest.approx(case["aleatoric"] + case["epistemic"])
    assert [(one["number"], one["answer"], one["agents"]) for one in case["candidates"]] == [
        (1, "Lyon", {"b": 1.0, "c": 1.0}),
        (2, "Paris", {"a": 1.0}),
    ]
    assert case["candidates"][0]["support"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["group", "person"])
def test_nobody_else_has_the_name_of_a_decider_that_a_gate_trusts(name):
    with pytest.raises(
        ValueError,
        match=f'"name" of Arbiter must not be "group" or "person".*got {name!r}. Rename it',
    ):
        Arbiter(FakeListChatModel(responses=["NONE"]), name=name)

    ruling = {"action": "answer", "answer": "approve", "reason": "x"}
    impostor = RunnableLambda(lambda case: ruling, name=name)
    with pytest.raises(
        ValueError, match=f'the name of "escalation" must .*got {name!r}. Rename it'
    ):
        graph(impostor)
    with pytest.raises(
        ValueError, match=f'a name of "agents" must not be .*got {name!r}. Rename the agent'
    ):
        graph(None, [ScriptedAgent(name, ["Lyon"])])
    for given in (
        {**ruling, "decided_by": name},
        {**ruling, "action": "escalate", "decided_by": name},
    ):
        with pytest.raises(
            ValueError, match=f'"decided_by" of a Ruling must not be .*got {name!r}'
        ):
            ask(graph(lambda case, given=given: given))


ANSWER = {"action": "answer", "answer": "Paris", "reason": "x"}
USAGE = {"input_tokens": -1, "output_tokens": 0}
MADE = [{"action": "another_round"}, {"answer": ["Paris"]}, {"usage": USAGE}, {"decided_by": ""}]


@pytest.mark.parametrize("ruling", [None, "Paris", *({**ANSWER, **each} for each in MADE)])
def test_what_is_no_ruling_is_an_error(ruling):
    with pytest.raises(
        ValueError, match="\"escalation\" must return a Ruling; 'escalation' returned"
    ):
        ask(graph(lambda case: ruling))


def test_an_answer_that_is_none_is_not_given_and_what_cannot_decide_is_refused_at_build_time():
    for answer in (None, "", "I don't know."):
        decision = ask(graph(lambda case, answer=answer: {**ANSWER, "answer": answer}))["decision"]
        assert decision["action"] == "abstain"
        assert decision["answer"] is None
    for given in (CountingModel(), "openai:gpt", ScriptedAgent("x", ["CHOICE: 1"])):
        with pytest.raises(
            TypeError, match=r'"escalation" must be .* Wrap a chat model: Arbiter\(model\)'
        ):
            graph(given)
    with pytest.raises(ValueError, match=r"must differ from .* got 'a'"):
        graph(Arbiter(CountingModel(), name="a"))


@pytest.mark.parametrize(("says", "answer"), [("maybe", None), ("Yes.", "yes"), ("no", "no")])
def test_where_only_choices_count_an_arbiter_gives_one_of_them(says, answer):
    compiled = graph(
        lambda case: Ruling(action="answer", answer=says, reason="it is"), saying("yes", "no", "no")
    ).compile()
    asked = {"question": "Is it?", "choices": ["yes", "no"]}
    decision = compiled.invoke(asked)["decision"]
    assert decision["answer"] == answer
    is_answered = decision["action"] == "answer"
    assert is_answered == (answer is not None)
