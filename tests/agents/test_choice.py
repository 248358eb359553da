import math

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from pydantic import Field

from coe_agents.errors import AgentError, NoChoiceError
from tests.doubles import CountingModel, choice_probability
from tests.servers import answering, completion, refusal

ASKED = [HumanMessage("Is it so? Reply True or False.")]
TRUTH = ("True", "False")
SEEN = {"True": math.log(0.6), "False": math.log(0.2), "Maybe": math.log(0.1)}
MASKED = {"True": math.log(0.75), "False": math.log(0.25), "Maybe": -9999.0}
HALF = {"Maybe": math.log(0.5), "True": math.log(0.3)}
"""False is not listed and may have up to 0.2."""


class ScoringModel(FakeListChatModel):
    responses: list[str] = Field(default_factory=list)
    scores: list[float]

    def choice_log_probabilities(self, messages, choices):
        assert messages == ASKED
        assert tuple(choices) == TRUTH
        return self.scores


def test_exact_scores_are_normalised_over_the_choices():
    found = choice_probability(ScoringModel(scores=[math.log(0.3), math.log(0.1)]), ASKED, TRUTH)
    assert found.method == "exact"
    assert found.probabilities == pytest.approx({"True": 0.75, "False": 0.25})
    assert found.mass == pytest.approx(0.4)
    far = choice_probability(ScoringModel(scores=[-2000.0, -2000.0 - math.log(3)]), ASKED, TRUTH)
    assert far.probabilities == pytest.approx({"True": 0.75, "False": 0.25})
    never = choice_probability(ScoringModel(scores=[-1.0, -math.inf]), ASKED, TRUTH)
    assert never.probabilities == {"True": 1.0, "False": 0.0}


@pytest.mark.parametrize("scores", [[math.nan, -1.0], [-math.inf, -math.inf], [-1.0], [math.inf, -1.0]])
def test_scores_that_give_no_distribution_are_an_error_and_never_nan(scores):
    with pytest.raises(NoChoiceError, match="one of them finite"):
        choice_probability(ScoringModel(scores=scores), ASKED, TRUTH)


def test_the_likeliest_first_tokens_of_a_server():
    with answering(lambda body: completion("True", top=SEEN)) as server:
        found = choice_probability(server.chat(temperature=0.3, streaming=True), ASKED, TRUTH)
    (body,) = server.requests
    assert (body["logprobs"], body["top_logprobs"], body["max_completion_tokens"]) == (True, 20, 1)
    assert body["temperature"] == 0.3
    assert not body.get("stream")
    assert found.method == "top_logprobs"
    assert found.probabilities == pytest.approx({"True": 0.75, "False": 0.25})
    assert found.mass == pytest.approx(0.8)


def test_vllm_is_asked_to_hold_the_reply_to_the_choices_where_the_list_leaves_too_much_open():
    def answer(body):
        return completion("True", top=MASKED if "structured_outputs" in body else HALF)

    with answering(answer) as server:
        found = choice_probability(server.chat(extra_body={"cache_salt": "x"}), ASKED, TRUTH)
    assert [body.get("structured_outputs") for body in server.requests] == [None, {"choice": ["True", "False"]}]
    assert {body["cache_salt"] for body in server.requests} == {"x"}
    assert found.method == "constrained"
    assert found.probabilities == pytest.approx({"True": 0.75, "False": 0.25})
    assert found.mass is None


def sampling(first_status=200):
    """A server with too short a list of tokens that ignores, or refuses, to be constrained; it gives n replies."""

    def answer(body):
        if "structured_outputs" in body and first_status != 200:
            return refusal(first_status)
        if body.get("logprobs"):
            return completion("Maybe", top=HALF)
        texts = ["True", "false.", "It depends.", "True"]
        return completion(*(texts[i % 4] for i in range(body.get("n", 1))))

    return answer


@pytest.mark.parametrize("status", [200, 422])
def test_a_server_that_ignores_or_refuses_the_constraint_is_sampled(status):
    with answering(sampling(status)) as server:
        found = choice_probability(server.chat(), ASKED, TRUTH, n_samples=4)
    assert [body.get("n") for body in server.requests] == [None, None, 4]
    assert found.method == "sampled"
    assert found.probabilities == pytest.approx({"True": 2 / 3, "False": 1 / 3})
    assert found.mass == 0.75


def test_a_server_that_refuses_n_is_asked_for_one_at_a_time():
    with answering(lambda body: refusal() if "n" in body else completion("False")) as server:
        found = choice_probability(server.chat(), ASKED, TRUTH, n_samples=2, methods=["sampled"])
    assert ["n" in body for body in server.requests] == [True, False, False]
    assert found.probabilities == {"True": 0.0, "False": 1.0}


def test_no_reply_that_is_a_choice_is_an_error():
    with pytest.raises(NoChoiceError, match='none of 3 replies of FakeListChatModel was one of "True", "False"'):
        choice_probability(FakeListChatModel(responses=["Perhaps"]), ASKED, TRUTH, n_samples=3)
    with pytest.raises(NoChoiceError, match='gave no probabilities of "True", "False" by "exact", "top_logprobs"'):
        choice_probability(FakeListChatModel(responses=["True"]), ASKED, TRUTH, methods=("exact", "top_logprobs"))
    with pytest.raises(AgentError, match="gave no reply"):
        choice_probability(CountingModel(per_call=0), ASKED, TRUTH)


def test_arguments_are_checked():
    with pytest.raises(TypeError, match='"messages" must be a sequence of messages; got str'):
        choice_probability(CountingModel(), "Is it?", TRUTH)
    with pytest.raises(TypeError, match='"choices" must be a sequence'):
        choice_probability(CountingModel(), ASKED, "True")
    for choices, message in ((["True", " "], "none empty"), (["not", "Nothing"], '"not" begins "Nothing"')):
        with pytest.raises(ValueError, match=message):
            choice_probability(CountingModel(), ASKED, choices)
    for methods in ([], ["guess"]):
        with pytest.raises(ValueError, match="methods"):
            choice_probability(CountingModel(), ASKED, TRUTH, methods=methods)
