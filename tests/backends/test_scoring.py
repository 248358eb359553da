"""Scoring needs no trained model: a random one has log-probabilities too."""

import pytest
import torch
from langchain_core.messages import HumanMessage
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from coe_agents.backends import ChatTransformers
from coe_agents.errors import ContextOverflowError
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} :{% endif %}"
ASKED = [HumanMessage("Is it so?")]
CHOICES = ["True", "It is certainly not so", "False"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("random"))
    tokenizer = AutoTokenizer.from_pretrained(model_folder(ENTAILMENT_MODEL))
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def chat(folder):
    return ChatTransformers(folder, chat_template=TEMPLATE)


def test_scores_are_those_of_a_plain_forward_pass(chat, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = tokenizer("Is it so? :", add_special_tokens=False)["input_ids"]
    expected = []
    for choice in CHOICES:
        ids = tokenizer(f"Is it so? :{choice}", add_special_tokens=False)["input_ids"]
        assert ids[: len(prompt)] == prompt
        with torch.inference_mode():
            logprobs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        expected.append(
            sum(float(logprobs[place - 1, ids[place]]) for place in range(len(prompt), len(ids)))
        )
    assert len(set(expected)) == 3
    assert chat.choice_log_probabilities(ASKED, CHOICES) == pytest.approx(expected, abs=1e-4)


def test_a_choice_never_changes_how_the_prompt_is_cut(chat):
    """Where prompt and choice would share a token, the choice is cut alone: a reply starts at a token of its own."""
    tokenizer = chat.load().tokenizer
    merging = ChatTransformers(chat.model, chat_template=TEMPLATE.replace(" :", " W"))
    prompt = tokenizer("Is it so? W", add_special_tokens=False)["input_ids"]
    together = tokenizer("Is it so? Wyn", add_special_tokens=False)["input_ids"]
    assert together[: len(prompt)] != prompt, "the pair must merge, or the test shows nothing"
    with torch.inference_mode():
        tail = tokenizer("yn", add_special_tokens=False)["input_ids"]
        model = chat.load().model
        logprobs = (
            model(torch.tensor([prompt + tail], device=model.device)).logits[0].log_softmax(-1)
        )
    expected = sum(float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(tail))
    assert merging.choice_log_probabilities(ASKED, ["yn"]) == [pytest.approx(expected, abs=1e-4)]


def test_what_cannot_be_scored_is_said(chat):
    for choices in ([], ["True", ""]):
        with pytest.raises(ValueError, match="at least one text, none empty"):
            chat.choice_log_probabilities(ASKED, choices)
    with pytest.raises(ContextOverflowError, match=r'" takes 64'):
        chat.choice_log_probabilities([HumanMessage("word " * 62)], ["certainly not so"])
