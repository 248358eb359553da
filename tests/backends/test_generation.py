"""A row depends on its prompt and its seed, whatever the architecture keeps between tokens."""

from dataclasses import replace

import pytest
import torch
import transformers

from coe_agents.backends import generation
from coe_agents.backends.generation import DrawSettings, Row, draw_rows
from coe_agents.backends.model_loading import Loaded
from coe_agents.errors import InvalidReplyError
from coe_agents.tinyworld import model_folder

SIZES = {"vocab_size": 100, "hidden_size": 32, "num_attention_heads": 2}
LAYERS = SIZES | {"intermediate_size": 64, "num_key_value_heads": 1}
GEMMA = {**LAYERS, "num_hidden_layers": 6, "head_dim": 16, "sliding_window": 8}
MAMBA = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8}
FALCON = {**LAYERS, **MAMBA, "num_hidden_layers": 2}
MODELS = {
    "learned positions": ("GPT2LMHeadModel", "GPT2Config", {**SIZES, "num_hidden_layers": 2}),
    "a sliding window": ("Gemma3ForCausalLM", "Gemma3TextConfig", GEMMA),
    "recurrent layers": ("FalconH1ForCausalLM", "FalconH1Config", FALCON),
}
PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [7, 8, 9], [3]]
ENDS = list(range(90, 100))  # of 100 tokens: rows end at all lengths, and leave the batch
SETTINGS = DrawSettings(temperature=1.0, top_p=1.0, n_top=0, n_new=30, stop=(), max_batch=256)


def small(ends, name="learned positions"):
    torch.manual_seed(0)
    create, configure, options = MODELS[name]
    config = getattr(transformers, configure)(**options)
    model = getattr(transformers, create)(config).eval()
    model.generation_config.eos_token_id = None
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder("tiny-llama"))
    return Loaded(model, tokenizer, 128, ends)


def draw(loaded, rows, settings=SETTINGS):
    with torch.inference_mode():
        return draw_rows(loaded, PROMPTS, rows, settings)


def up_to_end(tokens):
    """The ids of a row, which may continue after its end while longer ones are drawn."""
    ids = []
    for token in tokens:
        ids.append(token.id)
        if token.id in ENDS:
            break
    return ids


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_what_they_are_alone(name, monkeypatch):
    monkeypatch.setattr(generation, "_FEWEST_SAVED", 1)
    loaded = small(ENDS, name)
    rows = [Row(prompt, seed) for prompt, seed in [(0, 0), (0, 1), (1, 100), (1, 101), (2, 200)]]
    for row, tokens in zip(rows, draw(loaded, rows), strict=True):
        (alone,) = draw(loaded, [row])
        assert up_to_end(tokens) == up_to_end(alone)


def test_a_row_that_nobody_wants_is_not_drawn_to_its_end():
    rows = [Row(0, seed) for seed in range(4)]
    rows += [Row(0, seed, lambda: False) for seed in range(4, 10)]
    lengths = [len(tokens) for tokens in draw(small([]), rows)]
    assert lengths == [30] * 4 + [1] * 6


@pytest.mark.parametrize("ends_by", ["a token", "a stop string"])
def test_responses_that_end_with_their_first_token_take_no_step(ends_by):
    loaded = small([])
    settings = SETTINGS
    if ends_by == "a token":
        loaded.end_tokens = list(range(100))
    else:
        settings = replace(SETTINGS, stop=tuple(map(loaded.decode, range(100))))
    n_read = []
    loaded.model.register_forward_pre_hook(lambda module, args: n_read.append(1))
    tokens = draw(loaded, [Row(0, seed) for seed in range(10)], settings)
    assert [len(row) for row in tokens] == [1] * 10
    assert len(n_read) == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_said(temperature):
    loaded = small([])
    torch.nn.init.constant_(loaded.model.transformer.ln_f.weight, torch.nan)
    with pytest.raises(InvalidReplyError, match="logits are not numbers"):
        draw(loaded, [Row(0, 1)], replace(SETTINGS, temperature=temperature))
