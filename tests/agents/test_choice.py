import math

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from coe_agents.agents.choice.probability import read_choice
from coe_agents.errors import AgentError, NoChoiceError
from tests.doubles import CountingModel, ScoringModel, choice_probability
from tests.servers import answering, completion, refusal

ASKED = [HumanMessage("Is it so? Reply True or False.")]
TRUTH = ("True", "False")
FIRST_TOKENS = {"False": math.log(0.9), "True": math.log(0.1)}


def test_exact_scores_are_normalised_over_the_choices():
    found = choice_probability(ScoringModel(scores=[math.log(0.3), math.log(0.1)]), ASKED, TRUTH)
    assert found.method == "exact"
    assert found.probabilities == pytest.approx({"True": 0.75, "False": 0.25})
    assert found.mass == pytest.approx(0.4)
    far = choice_probability(ScoringModel(scores=[-2000.0, -2000.0 - math.log(3)]), ASKED, TRUTH)
    assert far.probabilities == pytest.approx({"True": 0.75, "False": 0.25})
    never = choice_probability(ScoringModel(scores=[-1.0, -math.inf]), ASKED, TRUTH)
    assert never.probabilities == {"True": 1.0, "False": 0.0}


@pytest.mark.parametrize(
    "scores", [[math.nan, -1.0], [-math.inf, -math.inf], [-1.0], [math.inf, -1.0]]
)
def test_scores_that_give_no_distribution_are_an_error_and_never_nan(scores):
    with pytest.raises(NoChoiceError, match="one of them finite"):
        choice_probability(ScoringModel(scores=scores), ASKED, TRUTH)


def test_the_replies_of_a_server_count_and_never_their_first_tokens():
    replies = ["True", "false.", "False alarm it is not: it is true.", "True"]

    def answer(body):
        return completion(*replies[: body["n"]], top=FIRST_TOKENS)

    with answering(answer) as server:
        found = choice_probability(
            server.chat(temperature=0.3, streaming=True, logprobs=True), ASKED, TRUTH, n_samples=4
        )
    (body,) = server.requests
    assert not {"logprobs", "top_logprobs", "structured_outputs", "stream"} & {
        name for name in body if body[name]
    }
    assert body["temperature"] == 0.3
    assert body["n"] == 4
    assert found.method == "sampled"
    assert found.probabilities == pytest.approx({"True": 2 / 3, "False": 1 / 3})
    assert found.mass == 0.75


def test_a_server_that_refuses_n_is_asked_for_one_at_a_time():
    with answering(lambda body: refusal() if "n" in body else completion("False")) as server:
        found = choice_probability(server.chat(), ASKED, TRUTH, n_samples=2, methods=["sampled"])
    assert ["n" in body for body in server.requests] == [True, False, False]
    assert found.probabilities == {"True": 0.0, "False": 1.0}


def test_no_reply_that_is_a_choice_is_an_error():
    with pytest.raises(
        NoChoiceError, match='none of 3 replies of FakeListChatModel was one of "True", "False"'
    ):
        choice_probability(FakeListChatModel(responses=["Perhaps"]), ASKED, TRUTH, n_samples=3)
    with pytest.raises(NoChoiceError, match='gave no probabilities of "True", "False" by "exact"'):
        choice_probability(FakeListChatModel(responses=["True"]), ASKED, TRUTH, methods=("exact",))
    with pytest.raises(AgentError, match="gave no reply"):
        choice_probability(CountingModel(per_call=0), ASKED, TRUTH)


def test_arguments_are_checked():
    with pytest.raises(TypeError, match='"messages" must be a sequence of messages; got str'):
        choice_probability(CountingModel(), "Is it?", TRUTH)
    with pytest.raises(TypeError, match='"choices" must be a sequence'):
        choice_probability(CountingModel(), ASKED, "True")
    for choices, message in (
        (["True", " "], "none empty"),
        (["not", "Nothing"], '"not" begins "Nothing"'),
    ):
        with pytest.raises(ValueError, match=message):
            choice_probability(CountingModel(), ASKED, choices)
    for methods in ([], ["guess"]):
        with pytest.raises(ValueError, match="methods"):
            choice_probability(CountingModel(), ASKED, TRUTH, methods=methods)
    for removed in ("top_logprobs", "constrained"):
        with pytest.raises(ValueError, match="read the first token alone, which is no reply"):
            choice_probability(CountingModel(), ASKED, TRUTH, methods=("exact", removed))


def test_a_reply_is_read_only_where_it_states_one_choice():
    for reply in (
        "True",
        '"True", because it is the capital',
        "<think>It may be false.</think>True",
    ):
        assert read_choice(reply, TRUTH) == "True"
    for reply in (
        "",
        "True or False?",
        "That is not true.",
        "True believers think so.",
        "true-ish",
    ):
        assert read_choice(reply, TRUTH) is None, reply
