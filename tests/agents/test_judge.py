import logging

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents import prompts
from coe_agents.agents.judge import ChatJudge
from coe_agents.errors import AuthenticationError
from coe_agents.evaluation.scoring.correctness import Criterion, Prediction, judge
from tests.faults import KEY, failing
from tests.servers import answering, completion

PARIS = Prediction("Of France?", "It is Paris.", ("Paris", "City of Paris"))


def by_answer(body):
    shown = body["messages"][-1]["content"].rpartition("<answer>")[2]
    return completion("correct" if "Paris" in shown.partition("</answer>")[0] else "incorrect")


REPLIES = {
    "Incorrect.": False,
    "<think>incorrect?</think>The answer is correct.": True,
    "correct or incorrect": None,
}


@pytest.mark.parametrize(("reply", "verdict"), [("correct", True), *REPLIES.items(), ("", None)])
def test_a_reply_is_read_strictly(reply, verdict, caplog):
    criterion = ChatJudge(FakeListChatModel(responses=[reply]))
    with caplog.at_level(logging.WARNING):
        assert criterion.judge([PARIS]) == [verdict]
    assert criterion.n_unclear == (verdict is None)
    assert ("1 of 1 answer could not be judged" in caplog.text) == (verdict is None)


def test_each_answer_is_put_to_it_once_with_its_references():
    predictions = [
        PARIS,
        Prediction("Of France?", "Lyon", ("Paris",)),
        Prediction("Of Italy?", "Rome"),
    ]
    with answering(by_answer) as server:
        criterion = ChatJudge(server.chat(temperature=0.9), name="judge served")
        assert isinstance(criterion, Criterion)
        assert judge(predictions, criterion) == [True, False, None]
    assert sorted(body["messages"][-1]["content"] for body in server.requests) == sorted(
        prompts.correctness(*asked)
        for asked in (
            ("Of France?", "It is Paris.", ("Paris", "City of Paris")),
            ("Of France?", "Lyon", ("Paris",)),
        )
    )
    assert {body["temperature"] for body in server.requests} == {0}


def test_what_declines_is_wrong_unasked_and_a_reply_that_was_cut_off_is_no_verdict():
    with answering(by_answer) as server:
        declined = [Prediction("Q?", text, ("Paris",)) for text in ("I don't know.", "")]
        assert ChatJudge(server.chat()).judge([*declined, Prediction("Q?", "I don't know.")]) == [
            False,
            False,
            None,
        ]
    assert server.requests == []

    def cut(body):
        status, reply = completion("correct")
        reply["choices"][0]["finish_reason"] = "length"
        return status, reply

    with answering(cut) as server:
        assert ChatJudge(server.chat()).judge([PARIS]) == [None]


def test_a_failure_is_an_error_and_no_verdict():
    with failing("401") as server, pytest.raises(AuthenticationError) as raised:
        ChatJudge(server.chat().model_copy(update={"api_key": KEY})).judge([PARIS] * 3)
    assert KEY not in str(raised.value)
