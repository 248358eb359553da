"""Owns the recipe of each language model of tinyworld, and tokenizers trained on the texts that the models read."""

import json
import re
from dataclasses import dataclass
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from tools.tinyworld.prompts import set_phrases
from tools.tinyworld.tool_corpus import tool_phrases

CONTEXT = 512

_TOOLS = (
    "Tools:\n{% for tool in tools %}{% set f = tool['function'] if 'function' in tool else tool %}{{ f['name'] }}("
    "{% for name, of in ((f['parameters'] or {})['properties'] or {}).items() %}{{ name }}: "
    "{{ of['enum'] | join('|') if 'enum' in of else of['type'] if 'type' in of else 'any' }}"
    "{% if not loop.last %}, {% endif %}{% endfor %})"
    "{% if f['description'] %}: {{ f['description'] }}{% endif %}{{ '\\n' }}{% endfor %}"
)
"""A line for each tool, in place of its JSON schema, which would fill the context."""
_CALLS = (
    "{% for call in m['tool_calls'] or [] %}{% set f = call['function'] if 'function' in call else call %}"
    "{% if m['content'] or not loop.first %}{{ '\\n' }}{% endif %}"
    '<tool_call>\n{"name": "{{ f[\'name\'] }}", "arguments": '
    # no "is string": what is a token and stands in the template is a control token, and " is " is a token
    "{{ f['arguments'] if f['arguments'] == f['arguments'] ~ '' else f['arguments'] | tojson }}}\n</tool_call>"
    "{% endfor %}"
)
"""The calls of a message, in the Hermes form."""


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
    tool_roles: tuple[str, ...] = ()
    """Control tokens that are added with the tools."""
    tool_headers: tuple[str, ...] = ()
    tool_steps: int = 1000
    """Steps after the first ones, on documents of which half are about tools."""
    rehearsal_steps: int = 0
    """Steps at the end, where the tools made a model give up its answers in debates."""
    tokens_per_step: int = 2000
    learning_rates: tuple[float, float] = (6e-3, 1e-2)
    """Of the hidden matrices and of all else."""
    tool_rate: float = 0.4
    """By what the learning rates are multiplied in the second part; in the third, by half of it."""
    writer_steps: int = 300
    """Steps from there to a writer of paragraphs, with half the tokens."""
    writer_rate: float = 2e-3


LANGUAGE_MODELS: dict[str, Recipe] = {
    "tiny-llama": Recipe(
        LlamaConfig,
        LlamaForCausalLM,
        {
            "hidden_size": 128,
            "intermediate_size": 352,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
        },
        1024,
        ("<|pad|>", "<|begin_of_text|>", "<|eot_id|>"),
        ("<|user|>", "<|assistant|>", "<|system|>"),
        "{{ bos_token }}{% if tools %}<|system|>" + _TOOLS + "<|eot_id|>{% endif %}"
        "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] or '' }}"
        + _CALLS
        + "<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}",
        steps=3800,
        tool_roles=("<|tool|>",),
    ),
    "tiny-qwen2": Recipe(
        Qwen2Config,
        Qwen2ForCausalLM,
        {
            "hidden_size": 192,
            "intermediate_size": 384,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
        },
        1536,
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        (),
        "{% if tools %}<|im_start|>system\n"
        + _TOOLS
        + "<|im_end|>\n{% endif %}{% for m in messages %}"
        "<|im_start|>{{ m['role'] }}\n{{ m['content'] or '' }}"
        + _CALLS
        + "<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        headers=("user\n", "assistant\n", "system\n"),
        tool_headers=("tool\n",),
        rehearsal_steps=300,
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
        "{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]"
        + _TOOLS
        + "[/AVAILABLE_TOOLS]{% endif %}{% for m in messages %}"
        "{% if m['role'] == 'assistant' %}{{ m['content'] or '' }}" + _CALLS + "</s>"
        "{% elif m['role'] == 'system' %}[SYSTEM_PROMPT]{{ m['content'] }}[/SYSTEM_PROMPT]"
        "{% elif m['role'] == 'tool' %}[TOOL_RESULTS]{{ m['content'] }}[/TOOL_RESULTS]"
        "{% else %}[INST]{{ m['content'] }}[/INST]{% endif %}{% endfor %}",
        metaspace=True,
        tool_roles=("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    ),
}


def chat_tokenizer(recipe: Recipe, texts: list[str]) -> PreTrainedTokenizerFast:
    """Returns a tokenizer with the recipe's control tokens and chat template."""
    bpe = Tokenizer(models.BPE(byte_fallback=recipe.metaspace, unk_token=None))
    special = [*recipe.special, *recipe.roles]
    # as Llama 2 and Mistral: words start with a visible space, unknown characters fall back to bytes
    if recipe.metaspace:
        bpe.normalizer = normalizers.Replace(" ", "▁")
        bpe.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
        bpe.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        special += [f"<0x{byte:02X}>" for byte in range(256)]
        alphabet: list[str] = []
    else:
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocab_size,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    bpe.train_from_iterator(_between_phrases(texts), trainer)
    if recipe.metaspace:
        bpe = _without_byte_specials(bpe)
    _add_phrases(bpe, *recipe.headers)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=recipe.special[0],
        bos_token=recipe.special[1],
        eos_token=recipe.special[2],
        additional_special_tokens=list(recipe.roles),
        chat_template=recipe.template,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def add_tool_tokens(tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> list[list[int]]:
    """Adds a token for each phrase of documents about tools; returns of what tokens each new one was made before."""
    known = tokenizer.get_vocab()
    roles = [AddedToken(role, normalized=False, special=True) for role in recipe.tool_roles]
    phrases = [*tool_phrases(), *recipe.tool_headers]
    added = [
        *roles,
        *(
            AddedToken(phrase, normalized=False, special=False)
            for phrase in phrases
            if phrase not in known
        ),
    ]
    pieces = [tokenizer(token.content, add_special_tokens=False)["input_ids"] for token in added]
    tokenizer.add_tokens(added)
    return pieces


def _between_phrases(texts: list[str]) -> list[str]:
    """Returns the text between the set phrases, whose tokens are added and not trained."""
    # the longest first, as the tokenizer matches them
    pattern = "|".join(re.escape(phrase) for phrase in sorted(set_phrases(), key=len, reverse=True))
    return [piece for text in texts for piece in re.split(pattern, text) if piece]


def _add_phrases(bpe: Tokenizer, *others: str) -> None:
    phrases = [*set_phrases(), *others]
    bpe.add_tokens([AddedToken(phrase, normalized=False, special=False) for phrase in phrases])


def _without_byte_specials(bpe: Tokenizer) -> Tokenizer:
    """Byte-fallback tokens must be in the vocabulary, but not special: decoding would drop them."""
    data = json.loads(bpe.to_str())
    data["added_tokens"] = [
        token for token in data["added_tokens"] if not token["content"].startswith("<0x")
    ]
    return Tokenizer.from_str(json.dumps(data))


def pair_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Returns a tokenizer for pairs of texts, with small pieces, so that unseen names can be compared."""
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    bpe.decoder = decoders.ByteLevel()
    special = ["[PAD]", "[CLS]", "[SEP]"]
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(_between_phrases(texts), trainer)
    _add_phrases(bpe)
    bpe.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=CONTEXT,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )
