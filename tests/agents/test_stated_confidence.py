import json
import re

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from coe_agents import ModelAgent, ask, short_answers
from coe_agents.clustering.answers import split_confidence
from coe_agents.prompts import STATED_CONFIDENCE
from tests.doubles import REQUEST, CountingModel


class Says(CountingModel):
    """Says these texts, token by token; the n-th token of each has a log-probability of -n / 10."""

    texts: tuple[str, ...] = ("Port Vila\nConfidence: 0.9", "Suva", "Port Vila. (confidence: 55%)")
    tokens: tuple[str, ...] | None = None
    finish: str = "stop"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        counted = super()._generate(messages, stop, run_manager, **options)
        generations = []
        for text in self.texts[: options.get("n", 1)]:
            said = self.tokens or re.findall(r"\s*\S+", text)
            tokens = [{"token": token, "logprob": -n / 10} for n, token in enumerate(said, 1)]
            info = {"logprobs": {"content": tokens}, "finish_reason": self.finish}
            generations.append(ChatGeneration(message=AIMessage(text), generation_info=info))
        return ChatResult(generations=generations, llm_output=counted.llm_output)


@pytest.mark.parametrize(
    ("text", "answer", "confidence"),
    [
        ("Paris\nConfidence: 1", "Paris", 1.0),
        ("Paris\n\n**Confidence: 85 %**\n", "Paris", 0.85),
        ("Paris, confidence=.25", "Paris,", 0.25),
        ("Confidence: 0.5", "", 0.5),
    ],
)
def test_an_ending_of_this_form_states_a_confidence(text, answer, confidence):
    assert split_confidence(text) == (answer, confidence)


@pytest.mark.parametrize(
    "text",
    [
        "Paris\nConfidence: 101",
        "Paris\nConfidence: ٠.٥",  # digits of another script do not count
        "Paris\nConfidence: 0.9\nNo, Lyon.",
        "Paris\nConfidence: 0.9 or 0.1",
        "Overconfidence: 0.9",
    ],
)
def test_no_other_ending_does(text):
    assert split_confidence(text) == (text, None)


def sample(model, n_samples):
    agent = ModelAgent("a", model, n_samples=n_samples, stated_confidence=True)
    return agent.sample(REQUEST)["responses"]


def test_the_rest_of_the_reply_is_the_response():
    responses = sample(Says(), 3)
    assert [each["text"] for each in responses] == ["Port Vila", "Suva", "Port Vila."]
    assert [each["confidence"] for each in responses] == [0.9, None, 0.55]
    # "Port", " Vila" and, in the second, "Suva": -0.1 - 0.2, and -0.1
    assert [each["logprob"] for each in responses] == pytest.approx([-0.3, -0.1, -0.3])
    assert [each["n_tokens"] for each in responses] == [2, 1, 2]


def test_what_is_not_known_is_none():
    # a character in parts
    model = Says(texts=("Élan\nConfidence: 0.9",), tokens=("", "", "lan", "\nConfidence: 0.9"))
    (response,) = sample(model, 1)
    assert response["text"] == "Élan"
    assert response["confidence"] == 0.9
    assert response["logprob"] is None
    assert response["n_tokens"] is None
    # more digits may have followed
    model = Says(texts=("Suva\nConfidence: 0",), finish="length")
    (response,) = sample(model, 1)
    assert response["text"] == "Suva"
    assert response["confidence"] is None
    assert response["n_tokens"] == 1


def ask_once(*, wanted):
    """Asks a group whose agent is asked for its confidence, or not, and returns the decision and the one call."""
    model = Says()
    agent = ModelAgent("a", model, n_samples=3, stated_confidence=wanted, seed=1)
    decision = ask("Q?", [agent], answers=short_answers())
    (call,) = model.calls
    messages = [message.text for message in call["messages"]]
    return decision, messages, {**call, "messages": []}


def test_it_is_asked_for_in_the_same_request_and_only_where_it_is_wanted():
    decision, (instruction, question), options = ask_once(wanted=False)
    assert decision.agents["a"]["confidence"] is None
    asked_decision, asked_messages, asked_options = ask_once(wanted=True)
    assert asked_decision.agents["a"]["confidence"] == pytest.approx(0.725)
    data = json.loads(json.dumps(asked_decision.data))
    assert data["agents"]["a"]["token_confidence"] > 0.8
    assert asked_messages == [f"{instruction}\n\n{STATED_CONFIDENCE}", question]
    assert asked_options == options


def test_a_verdict_is_not_asked_for_its_confidence():
    judge = Says(texts=("approve",))
    agent = ModelAgent("a", judge, n_samples=1, stated_confidence=True)
    agent.sample({**REQUEST, "choices": ["approve", "reject"]})
    assert STATED_CONFIDENCE not in str(judge.calls)
