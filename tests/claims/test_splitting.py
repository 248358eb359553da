from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

from coe_agents.claims import ChatClaims, Sentences
from coe_agents.errors import InvalidReplyError

TEXT = "Dr. Smith was born in 1950. He lives in the U.S. and writes."


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        (TEXT, ["Dr. Smith was born in 1950.", "He lives in the U.S. and writes."]),
        (
            "# Ada\n\n- She wrote.\n- She died in 1852.\n\n---\n",
            ["She wrote.", "She died in 1852."],
        ),
        (
            "1. **She** wrote.\n  > - -5 is cold. 12. May\n-6 is.",
            ["**She** wrote.", "-5 is cold.", "12.", "May", "-6 is."],
        ),
        ("你好。再见。", ["你好。", "再见。"]),
        ("A\ud800 is. \x00B\u202e is.\r\nC is.", ["A\ud800 is.", "\x00B\u202e is.", "C is."]),
        (" \n", []),
    ],
)
def test_each_sentence_is_a_claim_that_knows_its_place(text, claims):
    (found,) = Sentences().split([text])
    assert [claim.text for claim in found] == claims
    assert [text[claim.start : claim.end] for claim in found] == claims


class StructuredModel(FakeListChatModel):
    """A chat model with a structured output: the replies that it is given, in order."""

    forms: list[Any]
    shown: list[str]

    def with_structured_output(self, schema: Any, **_: Any) -> Any:
        assert schema["properties"]["claims"]["type"] == "array"

        def reply(messages: Any) -> Any:
            self.shown.append(messages[0].text)
            place = next(
                place for place, form in enumerate(self.forms) if form["about"] in messages[0].text
            )
            return self.forms[place]["reply"]

        return RunnableLambda(reply)


def test_a_model_states_the_claims_of_each_text_and_is_asked_once_for_each():
    stated = [
        {"sentence": 2, "text": "Smith lives in the U.S."},
        {"sentence": 1, "text": "Smith was\n born in 1950."},
    ]
    model = StructuredModel(
        responses=[""], shown=[], forms=[{"about": "Smith", "reply": {"claims": stated}}]
    )
    splitter = ChatClaims(model)
    found, _ = splitter.split([TEXT, TEXT])
    assert [(claim.text, TEXT[claim.start : claim.end]) for claim in found] == [
        ("Smith was born in 1950.", "Dr. Smith was born in 1950."),
        ("Smith lives in the U.S.", "He lives in the U.S. and writes."),
    ]
    assert splitter.split([TEXT]) == [found]
    assert len(model.shown) == 1


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {"claims": []},
        {"claims": [{"sentence": 3, "text": "He is."}]},  # there are 2
        {"claims": [{"sentence": 1, "text": " "}]},
    ],
)
def test_an_invalid_reply_is_an_error_of_its_text_alone(reply):
    forms = [
        {"about": "Smith", "reply": reply},
        {"about": "Ada", "reply": {"claims": [{"sentence": 1, "text": "A."}]}},
    ]
    claims = ChatClaims(StructuredModel(responses=[""], shown=[], forms=forms))
    failed, found, empty = claims.split([TEXT, "Ada is so.", ""])
    assert isinstance(failed, InvalidReplyError)
    assert [claim.text for claim in found] == ["A."]
    assert empty == ()


def test_a_model_without_structured_output_is_an_error_that_says_so():
    with pytest.raises(NotImplementedError):
        ChatClaims(FakeListChatModel(responses=["?"])).split([TEXT])
    with pytest.raises(TypeError, match="Wrap a single string in a list"):
        Sentences().split(TEXT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match='chat model or "provider:model"'):
        ChatClaims(3)  # type: ignore[arg-type]
