"""Tool calls of models whose tokenizer describes its replies, in two forms: as Mistral's and as Llama 3's."""

import json
import shutil

import pytest
from langchain_core.messages import HumanMessage

from coe_agents.backends import ChatTransformers
from tests.backends.hermes import FOLDER, TEMPLATE, scripted
from tests.backends.test_bind_tools import called, joined
from tests.backends.test_tool_calls import pay

ASKED = [HumanMessage("Pay Ann.")]
CALLED = [("pay", {"to": "Ann", "amount": 5})]
MISTRAL = {
    "start_anchor": "<|assistant|>",
    "defaults": {"role": "assistant"},
    "fields": {
        "content": {"close_pattern": r"(?=\[TOOL_CALLS\]|<\|eot_id\|>|$)"},
        "tool_calls": {
            "open": "[TOOL_CALLS]",
            "close_pattern": r"<\|eot_id\|>|$",
            "content": "json",
            "transform_each": True,
            "transform": {
                "type": "function",
                "function": {"name": "{name}", "arguments": "{arguments}"},
            },
        },
    },
}
LLAMA = {
    "start_anchor": "<|assistant|>",
    "defaults": {"role": "assistant"},
    "fields": {
        "content": {"close_pattern": r"<\|eot_id\|>|$"},
        "tool_calls": {
            "open_pattern": r"(?=\{\"name\")",
            "close_pattern": r"<\|eot_id\|>|$",
            "content": "json",
            "repeats": True,
            "transform": {
                "type": "function",
                "function": {"name": "{content.name}", "arguments": "{content.parameters}"},
            },
        },
    },
}


def chat_of(form, tmp_path):
    """An embedded model whose tokenizer has the response template."""
    folder = shutil.copytree(FOLDER, tmp_path / "model")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["response_template"] = form
    path.write_text(json.dumps(settings), encoding="utf-8")
    template = TEMPLATE.replace("<tool_call>", "[TOOL_CALLS]").replace("</tool_call>", "")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return ChatTransformers(str(folder), max_tokens=64).bind_tools([pay])


@pytest.mark.parametrize(
    ("form", "reply", "content"),
    [
        (
            MISTRAL,
            'I pay.[TOOL_CALLS] [{"name": "pay", "arguments": {"to": "Ann", "amount": 5}}]',
            "I pay.",
        ),
        (LLAMA, '{"name": "pay", "parameters": {"to": "Ann", "amount": 5}}', ""),
    ],
)
def test_calls_are_read_in_the_form_that_the_tokenizer_describes(form, reply, content, tmp_path):
    chat = chat_of(form, tmp_path)
    with scripted(reply):
        for message in (chat.invoke(ASKED), joined(list(chat.stream(ASKED)))):
            assert called(message) == CALLED
            assert message.content == content
            assert len(message.tool_calls[0]["id"]) == 9


@pytest.mark.parametrize(
    "arguments",
    [
        '{"to": "Ann", "amount": 5, "amount": 500}',
        '{"to": "Ann", "amount": 1e999}',
        '{"to": "Ann", "amount": 5',
        '["Ann", 5]',
    ],
    ids=["twice", "beyond a double", "no JSON", "no object"],
)
def test_a_call_that_cannot_be_read_is_invalid_and_none_is_made(arguments, tmp_path):
    chat = chat_of(MISTRAL, tmp_path)
    with scripted(f'[TOOL_CALLS] [{{"name": "pay", "arguments": {arguments}}}]'):
        for message in (chat.invoke(ASKED), joined(list(chat.stream(ASKED)))):
            assert message.tool_calls == []
            assert len(message.invalid_tool_calls) == 1


def test_a_reply_that_is_cut_off_calls_nothing(tmp_path):
    reply = '[TOOL_CALLS] [{"name": "pay", "arguments": {"to": "Ann", "amount": 5}}]'
    with scripted(reply, is_cut=True):
        message = chat_of(MISTRAL, tmp_path).invoke(ASKED)
    assert message.tool_calls == []
    [invalid] = message.invalid_tool_calls
    assert reply in invalid["args"]
    assert message.response_metadata["finish_reason"] == "length"


def test_a_text_is_no_call(tmp_path):
    with scripted("I cannot."):
        message = chat_of(MISTRAL, tmp_path).invoke(ASKED)
    assert (message.content, message.tool_calls, message.invalid_tool_calls) == (
        "I cannot.",
        [],
        [],
    )
