"""Owns the recipe of each language model of tinyworld: architecture, tokenizer, chat format and length of training."""

from dataclasses import dataclass
from typing import Any

from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

CONTEXT = 512


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one language model is built: architecture, tokenizer, chat format and length of training."""

    config: type
    model: type
    shape: dict[str, Any]
    vocab_size: int
    special: tuple[str, str, str]
    """Padding, beginning and end of a turn."""
    roles: tuple[str, ...]
    template: str
    metaspace: bool = False
    headers: tuple[str, ...] = ()
    """Text of the chat format that gets a token of its own without being a control token."""
    steps: int = 3400
    tokens_per_step: int = 2000
    learning_rates: tuple[float, float] = (6e-3, 1e-2)
    """Of the hidden matrices and of all else."""


LANGUAGE_MODELS: dict[str, Recipe] = {
    "tiny-llama": Recipe(
        LlamaConfig,
        LlamaForCausalLM,
        {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4},
        1024,
        ("<|pad|>", "<|begin_of_text|>", "<|eot_id|>"),
        ("<|user|>", "<|assistant|>", "<|system|>"),
        "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}",
        steps=3800,
    ),
    "tiny-qwen2": Recipe(
        Qwen2Config,
        Qwen2ForCausalLM,
        {"hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 6},
        1536,
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        (),
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        headers=("user\n", "assistant\n", "system\n"),
    ),
    "tiny-mistral": Recipe(
        MistralConfig,
        MistralForCausalLM,
        {
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "head_dim": 32,
            "sliding_window": None,
        },
        768,
        ("<pad>", "<s>", "</s>"),
        ("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}{{ m['content'] }}</s>"
        "{% elif m['role'] == 'system' %}[SYSTEM_PROMPT]{{ m['content'] }}[/SYSTEM_PROMPT]"
        "{% else %}[INST]{{ m['content'] }}[/INST]{% endif %}{% endfor %}",
        metaspace=True,
    ),
}
