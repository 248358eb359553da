"""How a reply ended, judged by what providers write: their own words, spelt by hand from their documentation."""

from enum import Enum

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation

from coe_agents import ModelAgent
from coe_agents.agents.requests.endings import judge_end, refusal_of
from tests.doubles import REQUEST
from tests.servers import answering, completion


class Reason(Enum):
    STOP = 1
    MAX_TOKENS = 2


WHOLE = (
    {},
    {"finish_reason": None},
    {"finish_reason": ""},
    {"finish_reason": " \n"},
    {"finish_reason": "stop"},
    {"finish_reason": "tool_calls"},
    {"finish_reason": "function_call"},
    {"stop_reason": "end_turn", "stop_sequence": None},
    {"stop_reason": "tool_use"},
    {"stop_reason": "stop_sequence", "stop_sequence": "\n"},
    {"finish_reason": "STOP", "prompt_feedback": {"block_reason": 0, "safety_ratings": []}},
    {"finish_reason": "STOPSTOP"},
    {"finish_reason": "FinishReason.STOP"},
    {"finish_reason": Reason.STOP},
    {"finish_reason": "COMPLETE"},
    {"finish_reason": "TOOL_CALL"},
    {"finish_reason": "eos_token"},
    {"finish_reason": {"type": "stop", "matched": 2}},
    {"done": True, "done_reason": "stop"},
    {"stopReason": "end_turn", "ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}},
    {"completionReason": "FINISH"},
    {"stop_type": "eos", "truncated": False, "stopped_limit": False},
    {"is_finished": True, "finish_reason": "success"},
    {"token_usage": {"completion_tokens_details": {"reasoning_tokens": 5}}, "truncation": "auto"},
    {"status": "completed", "incomplete_details": None, "error": None},
    {"finish_reason": "stop", "native_finish_reason": "end_turn"},
    {"finish_reason": "stop", "amazon-bedrock-guardrailAction": "NONE"},
    {"finish_reason": "stop", "content_filter_results": {"error": {"message": "not filtered"}}},
    {
        "finish_reason": "STOP",
        "is_blocked": False,
        "safety_ratings": [{"category": "hate", "blocked": False}],
    },
    {"tools": [{"parameters": {"status": {"type": "string"}, "finish_reason": {"enum": ["x"]}}}]},
    {
        "logprobs": {"content": [{"token": "a", "stop_reason": "x"}]},
        "headers": {"status": "200 OK"},
    },
)
CUT = (
    {"finish_reason": "length"},
    {"finish_reason": "MAX_TOKENS"},
    {"finish_reason": Reason.MAX_TOKENS},
    {"done_reason": "length"},
    {"stopReason": "max_tokens"},
    {"stop_reason": "model_context_window_exceeded"},
    {"finish_reason": "model_length"},
    {"finish_reason": "ERROR_LIMIT"},
    {"stop_reason": "time_limit"},
    {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    {"status": "completed", "incomplete_details": {"reason": "max_output_tokens"}},
    {"details": {"finish_reason": "length"}},
    {"finish_reason": "stop", "response": {"stopReason": "max_tokens"}},
    {"stop_type": "limit"},
    {"stopped_limit": True},
    {"truncated": True},
    {"done": False},
    {"isFinished": False},
    {"terminationReason": "max_tokens"},
    {"completion_status": "length"},
    {"candidates": [{"finishReason": "STOP"}, {"finishReason": "MAX_TOKENS"}]},
    {"candidates": ({"finishReason": "MAX_TOKENS"},)},
    {"finish_reason": {"type": "stop", "stop_reason": "max_tokens"}},
)
FILTERED = (
    {"finish_reason": "content_filter"},
    {"finish_reason": "SAFETY"},
    {"finish_reason": "RECITATION"},
    {"finish_reason": "IMAGE_PROHIBITED_CONTENT"},
    {"finish_reason": "SPII"},
    {"finish_reason": "BLOCKLIST"},
    {"stop_reason": "refusal"},
    {"stopReason": "guardrail_intervened"},
    {"finish_reason": "ERROR_TOXIC"},
    {"finish_reason": "sensitive"},
    {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    {"prompt_feedback": {"block_reason": "OTHER"}},
    {"promptFeedback": {"blockReason": 2}, "finish_reason": "STOP"},
    {"amazon-bedrock-guardrailAction": "INTERVENED"},
    {"refusal": "No."},
    {"guardrail_action": "BLOCKED"},
    {"stop_details": {"type": "refusal"}},
    {"is_blocked": True, "finish_reason": "STOP"},
    {
        "finish_reason": "stop",
        "content_filter_results": {"hate": {"filtered": True, "severity": "high"}},
    },
    {"finish_reason": "length", "stop_reason": "refusal"},
)
UNKNOWN = (
    {"finish_reason": "OTHER"},
    {"finish_reason": "MALFORMED_FUNCTION_CALL"},
    {"finish_reason": "FINISH_REASON_UNSPECIFIED"},
    {"finish_reason": "null"},
    {"finish_reason": "none"},
    {"finish_reason": "nonstop"},
    {"finish_reason": "do not stop"},
    {"finish_reason": "???"},
    {"stop_reason": "pause_turn"},
    {"done_reason": "load"},
    {"status": "in_progress"},
    {"finish_reason": 1},
    {"finish_reason": True},
    {"finish_reason": ["stop", "stop"]},
    {"finish_reason": {"text": "stop"}},
    {"finish_reason": "stop", "stop_reason": "something new"},
    {"incomplete_details": {"reason": "steered"}},
)
ERROR = (
    {"finish_reason": "error"},
    {"finish_reason": "network_error"},
    {"status": "failed"},
    {"finish_reason": "stop", "error": {"code": 500}},
    {"finish_reason": "error", "stop_reason": "refusal"},
)
ENDINGS = {"whole": WHOLE, "cut": CUT, "filtered": FILTERED, "unknown": UNKNOWN, "error": ERROR}
CASES = [(said, ending) for ending, cases in ENDINGS.items() for said in cases]
ONE_OF_EACH = [(ending, cases[-1]) for ending, cases in ENDINGS.items()]
"""For tests of what reads the ending of a response: that all words give it, the tests here show."""


@pytest.mark.parametrize(("said", "ending"), CASES, ids=repr)
def test_only_known_words_mean_whole_wherever_they_stand(said, ending):
    message = AIMessage("Yes", response_metadata=said)
    assert judge_end(message) == ending
    assert judge_end(ChatGeneration(message=message)) == ending
    own = {key: value for key, value in said.items() if key != "error"}
    if own == said:
        assert judge_end(Generation(text="Yes", generation_info=said)) == ending
        assert judge_end(AIMessage("Yes", additional_kwargs=said)) == ending


@pytest.mark.parametrize("deeper", [lambda said: {"response": said}, lambda said: [said]])
def test_metadata_that_are_too_deep_to_read_are_unknown(deeper):
    said = {"finish_reason": "length"}
    for _ in range(10_000):
        said = deeper(said)
    assert judge_end(Generation(text="", generation_info={"responses": said})) == "unknown"


INCOMPLETE = {"status": "incomplete"}


@pytest.mark.parametrize(
    ("block", "ending"),
    [
        ({"type": "function_call", "name": "pay", "arguments": "{}", **INCOMPLETE}, "cut"),
        ({"type": "text", "text": "Yes", "extras": INCOMPLETE}, "cut"),
        ({"type": "function_call", "name": "pay", "status": "completed"}, "whole"),
        ({"type": "text", "text": "Yes", "status": None, "extras": None}, "whole"),
        ({"type": "web_search_call", "status": "failed"}, "whole"),
        ("Yes", "whole"),
    ],
)
def test_a_block_of_a_reply_says_whether_it_is_whole(block, ending):
    before = ["Wait.", {"type": "web_search_call"}]
    assert judge_end(AIMessage([*before, block])) == ending


@pytest.mark.parametrize(
    "block", [{"type": "refusal", "refusal": ""}, {"type": "other", "refusal": "No."}]
)
def test_a_block_that_refuses_is_filtered(block):
    assert judge_end(AIMessage(["Yes", {"type": "text", "text": "Yes"}, block])) == "filtered"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (AIMessage("Yes", additional_kwargs={"refusal": " No.\n"}), "No."),
        (AIMessage("Yes", additional_kwargs={"refusal": ["No."]}), ""),
        (AIMessage([{"type": "refusal", "refusal": "No. "}]), "No."),
        (
            AIMessage([{"type": "refusal", "refusal": "!"}], additional_kwargs={"refusal": "No."}),
            "No.",
        ),
        (AIMessage([{"type": "refusal", "refusal": None}]), ""),
        (AIMessage(["refusal"]), ""),
        (AIMessage("refusal"), ""),
    ],
)
def test_the_words_of_a_refusal_are_text_alone(message, words):
    assert refusal_of(message) == words


@pytest.mark.parametrize(
    ("word", "end", "n_truncated", "text"),
    [
        ("stop", "whole", 0, "Suva"),
        ("length", "cut", 2, "Suva"),
        ("something new", "unknown", 2, "Suva"),
        ("content_filter", "filtered", 0, "I can't answer this. Suva"),
    ],
)
def test_responses_say_how_they_ended(word, end, n_truncated, text):
    def answer(body):
        status, reply = completion(*["Suva"] * body.get("n", 1))
        for choice in reply["choices"]:
            choice["finish_reason"] = word
        return status, reply

    with answering(answer) as server:
        agent = ModelAgent(
            "a", server.chat(), n_samples=2, on_greedy="trust", stated_confidence=True
        )
        reply = agent.sample(REQUEST)
    first, second = reply["responses"]
    for row in (first, second):
        assert row["end"] == end
        assert row["text"] == text
    assert reply["sampling"]["n_truncated"] == n_truncated
