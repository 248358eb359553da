import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.utils.json import parse_partial_json
from transformers import AutoTokenizer
from transformers.tokenization_utils_base import AddedToken

from coe_agents.backends.generation import CutRow, DrawnToken
from coe_agents.backends.reply_forms import HermesForm
from tests.backends.hermes import FOLDER, TEMPLATE

PAY = '<tool_call>\n{"name": "pay", "arguments": {"to": "Ann", "amount": 5}}\n</tool_call>'
ASK = '<tool_call>{"arguments": {}, "name": "ask"}</tool_call>'


def read(text, finish_reason="stop", **form):
    return HermesForm(**form).read(CutRow(text, (), finish_reason))


def called(reply):
    return [(call["name"], call["args"]) for call in reply.calls]


def test_calls_are_read_in_their_order_also_with_arguments_in_a_text_and_what_is_around_is_content():
    reply = read(f"\nI pay her.\n{PAY}\n{ASK}Done. ")
    assert called(reply) == [("pay", {"to": "Ann", "amount": 5}), ("ask", {})]
    assert len({call["id"] for call in reply.calls}) == 2
    assert (reply.content, reply.invalid) == ("\nI pay her.\nDone.", [])
    found = called(
        read('<tool_call>{"name": "pay", "arguments": "{\\"to\\": \\"Ann\\"}"}</tool_call>')
    )
    assert found == [("pay", {"to": "Ann"})]
    assert read(
        '<tool_call>{"name": "pay", "arguments": "{\\"a\\": 1, \\"a\\": 2}"}</tool_call>'
    ).invalid


def test_a_reply_without_calls_is_text_to_the_letter_unless_it_is_cut_within_the_opening_tag():
    for text in ("  2 < 3 \n", "", "a </tool_call> b", "<tool_ca"):
        assert read(text) == (text, (), ())
    reply = read("So: <tool_ca", "length")
    assert reply.content == "So:"
    assert [each["args"] for each in reply.invalid] == ["<tool_ca"]
    assert read("2 <", "length") == ("2 <", (), ())


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)
    )
)
def test_whatever_the_arguments_hold_they_are_read_as_written(arguments):
    """Tags, too: an argument that quotes `</tool_call>` ends no call, and one that quotes a call begins none."""
    arguments["quoted"] = f"</tool_call>{PAY}<tool_call>"
    call = json.dumps({"name": "write", "arguments": arguments}, ensure_ascii=False)
    reply = read(f"<tool_call>{call}</tool_call>")
    assert reply.content == ""
    assert called(reply) == [("write", arguments)]
    assert reply.invalid == []


UNREADABLE = {
    '{"name": "pay", "arguments": {"to": "Ann"': "delimiter",
    "pay(Ann)": "Expecting value",
    '{"name": "pay", "arguments": {"to": "Ann", "to": "Bob"}}': '"to" twice',
    '{"name": "pay", "arguments": {"amount": NaN}}': "NaN",
    '{"name": "pay", "arguments": {"amount": 1e999}}': "a number must be finite",
    '{"name": "pay", "arguments": {"to": "\\ud800"}}': "surrogates",
    '{"name": "pay", "arguments": ' + '{"a": ' * 200 + "1" + "}" * 201: "levels deep",
    '{"name": "pay"}': "a call must be",
    '{"name": "", "arguments": {}}': "a call must be",
    '[{"name": "pay", "arguments": {}}]': "a call must be",
    '{"name": "pay", "arguments": {}} {"name": "ask", "arguments": {}}': "Extra data",
}


@pytest.mark.wording
def test_an_invalid_call_says_why_it_cannot_be_read():
    for body, reason in UNREADABLE.items():
        (invalid,) = read(f"So: <tool_call>{body}</tool_call> {ASK}").invalid
        assert reason in invalid["error"]


@pytest.mark.parametrize("body", UNREADABLE)
def test_what_cannot_be_read_is_an_invalid_call_and_never_text(body):
    reply = read(f"So: <tool_call>{body}</tool_call> {ASK}")
    assert reply.content == "So:"
    (invalid,) = reply.invalid
    assert invalid["error"]
    assert invalid["args"] == f"<tool_call>{body}</tool_call>"
    assert called(reply) == [("ask", {})]


@pytest.mark.parametrize("finish_reason", ["length", "stop"])
@pytest.mark.parametrize("n_left", [1, len("</tool_call>"), len(PAY) - len("<tool_call>")])
def test_a_call_that_is_not_closed_is_invalid_even_if_its_json_is_whole(n_left, finish_reason):
    reply = read(f"So: {PAY[:-n_left]}", finish_reason)
    assert reply.content == "So:"
    assert reply.calls == []
    assert len(reply.invalid) == 1
    assert reply.invalid[0]["error"]


@pytest.mark.parametrize(
    "text", ['{"name": "pay", "arguments": {"to": "Ann"', '{"name": "pay", "name": "ask"}', "{}"]
)
def test_langchain_cannot_complete_an_invalid_call_in_a_stream(text):
    """`AIMessageChunk` completes JSON that is cut off; what is invalid must stay so."""
    args = read(f"<tool_call>{text}").invalid[0]["args"]
    with pytest.raises(ValueError, match="Expecting value"):
        parse_partial_json(args)


def test_a_call_in_a_thought_is_only_considered():
    reply = read(f"<think>Perhaps {PAY}?</think>No. {ASK}")
    assert called(reply) == [("ask", {})]
    assert reply.content == f"<think>Perhaps {PAY}?</think>No."
    assert read(f"<think>Perhaps {PAY}", "length").calls == ()
    assert called(read(f"Perhaps {PAY}?</think>{ASK}", is_thinking=True)) == [("ask", {})]
    quoting = read('<tool_call>{"name": "w", "arguments": {"x": "</think>"}}</tool_call>')
    assert called(quoting) == [("w", {"x": "</think>"})]


def tokenizer_with(*added, is_special):
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    tokenizer.add_tokens(
        [AddedToken(token, special=is_special, normalized=False) for token in added], is_special
    )
    return tokenizer


@pytest.mark.parametrize("is_special", [True, False])
def test_tags_that_are_tokens_are_in_the_text_that_is_read(is_special):
    tokenizer = tokenizer_with("<tool_call>", "</tool_call>", "<|end|>", is_special=is_special)
    ids = tokenizer(f"<|begin_of_text|>I pay. {PAY}<|end|>", add_special_tokens=False)["input_ids"]
    form = HermesForm.create(tokenizer, TEMPLATE, "<|assistant|>", None)
    tokens = [DrawnToken(number, -1.0, ()) for number in [*ids, tokenizer.eos_token_id]]
    loaded = SimpleNamespace(tokenizer=tokenizer, end_tokens=[tokenizer.eos_token_id])
    cut = CutRow.cut(loaded, tokens, (), form.hidden)
    assert cut.text == f"I pay. {PAY}" + ("" if is_special else "<|end|>")
    assert called(form.read(cut)) == [("pay", {"to": "Ann", "amount": 5})]


def test_a_form_that_cannot_be_read_is_refused_and_no_call_is_forced_into_a_thought():
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    llama = "{% for tool in tools %}{{ tool }}{% endfor %} Respond with {'name': ..., 'parameters': ...}"
    with pytest.raises(
        ValueError, match=r"must be written as <tool_call> by the chat template.*got.*Pass a"
    ):
        HermesForm.create(tokenizer, llama, "", None)
    with pytest.raises(
        ValueError,
        match=r'"tool_choice" must be "auto" where the chat template begins a thought; got',
    ):
        HermesForm.create(tokenizer, TEMPLATE, "<|assistant|><think>\n", "any")
