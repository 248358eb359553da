"""LangChain's own tests of a chat model, on `ChatTransformers`: what applies passes; the rest is listed below."""

import json
from typing import ClassVar

import pytest

pytest.importorskip("langchain_tests")
from langchain_core.messages import HumanMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from coe_agents.backends import ChatTransformers
from tests.backends.hermes import FIRST_TOOL, FOLDER, TEMPLATE, scripted


def write(name, **arguments):
    return (
        "<tool_call>\n"
        + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        + "\n</tool_call>"
    )


JOKE = write(FIRST_TOOL, setup="Why?", punchline="Because.")
REPLIES = {
    "test_agent_loop": [write("get_weather", location="San Francisco, CA"), "It is sunny."],
    "test_bind_runnables_as_tools": [write("greeting_generator", answer_style="Pirate")],
    "test_structured_output": [JOKE],
    "test_structured_output_async": [JOKE],
    "test_structured_output_optional_param": [JOKE],
    "test_structured_output_pydantic_2_v1": [JOKE],
    "test_tool_calling": [write("magic_function", input=3)],
    "test_tool_calling_async": [write("magic_function", input=3)],
    "test_tool_calling_with_no_arguments": [write("magic_function_no_args")],
    "test_tool_choice": [write("magic_function", input=3)],
    "test_unicode_tool_call_integration": [
        write("unicode_customer", customer_name="你好啊集团", description=""),
        write("unicode_customer", customer_name="こんにちは株式会社", description=""),
    ],
}
"""What a model that calls tools would reply, where the embedded models, which know no tools, cannot."""
NOT_APPLICABLE = {
    "no setting is read from the environment": ["test_init_from_env"],
    "the weights are no part of it, so it is not serialized": ["test_serdes"],
    "no grammar constrains what it draws: JSON is what the model writes": ["test_json_mode"],
    "it takes text only": [
        *(f"test_{kind}_inputs" for kind in ("anthropic", "audio", "image", "pdf")),
        *(f"test_{kind}_tool_message" for kind in ("image", "pdf")),
    ],
    "one object is one model in memory: `model` in a call is refused (below)": [
        f"test_{form}_with_model_override" for form in ("ainvoke", "astream", "invoke", "stream")
    ],
    "there are no requests to record: it runs in this process": ["test_stream_time"],
}
"""By the reason, the tests that `conftest` does not select: none that could pass is among them."""


class TestUnits(ChatModelUnitTests):
    chat_model_class = ChatTransformers
    chat_model_params: ClassVar = {"model": FOLDER}


class TestIntegration(ChatModelIntegrationTests):
    chat_model_class = ChatTransformers
    chat_model_params: ClassVar = {
        "model": FOLDER,
        "max_tokens": 24,
        "temperature": 0,
        "chat_template": TEMPLATE,
    }
    supports_model_override = False

    @pytest.fixture(autouse=True)
    def replies(self, request):
        written = REPLIES.get(request.function.__name__)
        if written is None:
            yield
            return
        with scripted(*written):
            yield


def test_each_test_that_does_not_apply_exists():
    standard = {*dir(ChatModelUnitTests), *dir(ChatModelIntegrationTests)}
    named = {name for names in NOT_APPLICABLE.values() for name in names}
    assert {*named, *REPLIES} <= standard


def test_another_model_in_a_call_is_refused_in_our_words():
    chat, asked = ChatTransformers(FOLDER, max_tokens=2), [HumanMessage("Hello")]
    message = r'"model" must be given to the constructor.*got .other.\. Create a ChatTransformers for another model'
    with pytest.raises(ValueError, match=message):
        chat.invoke(asked, model="other")
    assert chat.invoke(asked, model=FOLDER).response_metadata["model_name"] == FOLDER
