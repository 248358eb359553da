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
    ("text", "found"),
    [
        ("Paris\nConfidence: 1", ("Paris", 1.0)),
        ("Paris\n\n**Confidence: 85 %**\n", ("Paris", 0.85)),
        ("Paris, confidence=.25", ("Paris,", 0.25)),
        ("Confidence: 0.5", ("", 0.5)),
    ],
)
def test_only_an_ending_of_this_form_states_a_confidence(text, found):
    assert split_confidence(text) == found
    for other in (
        "101",
        "٠.٥",
        "0.9\nNo, Lyon.",
        "0.9 or 0.1",
    ):  # digits of another script do not count
        whole = f"Paris\nConfidence: {other}"
        assert split_confidence(whole) == (whole, None)
    assert split_confidence("Overconfidence: 0.9") == ("Overconfidence: 0.9", None)


def test_the_rest_of_the_reply_is_the_response_and_what_is_not_known_is_none():
    agent = ModelAgent("a", Says(), n_samples=3, stated_confidence=True)
    said = agent.sample(REQUEST)["responses"]
    assert [each["text"] for each in said] == ["Port Vila", "Suva", "Port Vila."]
    assert [each["confidence"] for each in said] == [0.9, None, 0.55]
    # "Port", " Vila" and, in the second, "Suva": -0.1 - 0.2, and -0.1
    assert [each["logprob"] for each in said] == pytest.approx([-0.3, -0.1, -0.3])
    assert [each["n_tokens"] for each in said] == [2, 1, 2]
    parts = Says(
        texts=("Élan\nConfidence: 0.9",), tokens=("", "", "lan", "\nConfidence: 0.9")
    )  # a character in parts
    (row,) = ModelAgent("a", parts, n_samples=1, stated_confidence=True).sample(REQUEST)[
        "responses"
    ]
    assert row["text"] == "Élan"
    assert row["confidence"] == 0.9
    assert row["logprob"] is None
    assert row["n_tokens"] is None
    cut = Says(texts=("Suva\nConfidence: 0",), finish="length")  # more digits may have followed
    (row,) = ModelAgent("a", cut, n_samples=1, stated_confidence=True).sample(REQUEST)["responses"]
    assert row["text"] == "Suva"
    assert row["confidence"] is None
    assert row["n_tokens"] == 1


def test_it_is_asked_for_in_the_same_request_and_only_where_it_is_wanted():
    plain = Says()
    asked = Says()
    for model, wanted in ((plain, False), (asked, True)):
        agent = ModelAgent("a", model, n_samples=3, stated_confidence=wanted, seed=1)
        said = ask("Q?", [agent], answers=short_answers())
        assert said.agents["a"]["confidence"] == (pytest.approx(0.725) if wanted else None)
        assert json.loads(json.dumps(said.data))["agents"]["a"]["token_confidence"] > 0.8
    calls = [
        [{**call, "messages": [m.text for m in call["messages"]]} for call in x.calls]
        for x in (plain, asked)
    ]
    assert len(calls[0]) == len(calls[1]) == 1
    ((instruction, question),) = [each["messages"] for each in calls[0]]
    assert calls[1][0]["messages"] == [f"{instruction}\n\n{STATED_CONFIDENCE}", question]
    assert calls[0][0] | {"messages": []} == calls[1][0] | {"messages": []}
    judge = Says(texts=("approve",))
    agent = ModelAgent("a", judge, n_samples=1, stated_confidence=True)
    agent.sample({**REQUEST, "choices": ["approve", "reject"]})
    assert STATED_CONFIDENCE not in str(judge.calls)
