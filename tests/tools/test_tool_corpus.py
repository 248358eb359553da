"""The documents about tools, and the chat templates that show them."""

import hashlib
import json
import random

import pytest
from transformers import AutoTokenizer

from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import MODELS
from coe_agents.tinyworld.tools import tool_schemas
from tools.tinyworld.corpus import Corpus
from tools.tinyworld.tool_corpus import TOOL_LINES, TOOL_NAMES, call_text, tool_phrases

# of the documents and phrases of the second part of the shipped models' training
TRAINED_ON = {
    "tiny-llama": "78c726a004927897cf23ebfc50edba228bab514c3a42ee99016ba19c67e504c0",
    "tiny-qwen2": "cc353164c1b8026ce128b14f5f206a4536ed885466cd635e802cc626f5af71bb",
    "tiny-mistral": "93e3f809b199c690004964f6fdcf8ea3a96db9c51810f9f962a9503a3a51419c",
    "rehearsal": "99322c1c8554de707680cb9c38d447a8f43411c36365b66e4c09d9a9a8c63b62",
    "phrases": "ded251134acf76cdf7a7fde63cf3c0c82fa9dc7dca240bf1093071060e19a753",
}
HI = [{"role": "user", "content": "Hi"}]
CALL = {"type": "function", "id": "1", "function": {"name": "transfer", "arguments": {"name": "Zoë", "amount": 5}}}


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def tokenizer(name):
    return AutoTokenizer.from_pretrained(model_folder(name))


def documents(name, n):
    rng, corpus = random.Random(name), Corpus(name)
    return [corpus.document_with_tools(rng) for _ in range(n)]


def test_the_training_documents_are_those_of_the_shipped_models(name):
    drawn = [(document.turns, document.reply, document.tools) for document in documents(name, 500)]
    assert digest(drawn) == TRAINED_ON[name]


def test_the_phrases_are_those_of_the_shipped_models():
    assert digest(tool_phrases()) == TRAINED_ON["phrases"]


def render(tokenizer, messages, tools=None):
    return tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)


def test_the_template_shows_the_tools_as_in_training(tokenizer):
    shown = render(tokenizer, HI, [tool_schemas()[name] for name in TOOL_NAMES])
    assert "Tools:\n" + "".join(TOOL_LINES) in shown
    assert "Tools" not in render(tokenizer, HI)


def test_no_token_of_questions_stands_in_the_template(tokenizer):
    # `ChatTransformers` takes a token in the template for a control token, and breaks it up in texts
    shared = {t.content for t in tokenizer.added_tokens_decoder.values() if t.content in tokenizer.chat_template}
    shared = {text for text in shared if len(text) > 1 and not text.startswith(("<", "["))}
    assert shared <= {"Tools:\n", "}}\n", "assistant\n", "system\n"}


@pytest.mark.parametrize("content", ["", None])
@pytest.mark.parametrize("as_text", [False, True])
def test_the_template_writes_calls_as_the_models_do(tokenizer, content, as_text):
    call = CALL
    if as_text:
        arguments = json.dumps(CALL["function"]["arguments"], ensure_ascii=False)
        call = {**CALL, "function": {**CALL["function"], "arguments": arguments}}
    messages = [
        {"role": "user", "content": "Pay"},
        {"role": "assistant", "content": content, "tool_calls": [call, call]},
        {"role": "tool", "content": "Paid", "tool_call_id": "1"},
    ]
    said = call_text({"name": "transfer", "args": {"name": "Zoë", "amount": 5}})
    as_raw = [messages[0], {"role": "assistant", "content": f"{said}\n{said}"}, messages[2]]
    assert render(tokenizer, messages) == render(tokenizer, as_raw)
    assert "Paid" in render(tokenizer, messages)
