"""Owns the training of tinyworld's language models and of its entailment model; every model is rebuilt from seeds.

Run as `python -m tools.tinyworld`.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import torch
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
)

from coe_agents.tinyworld import model_folder, writer_of
from coe_agents.tinyworld.facts import MODELS, load_facts
from coe_agents.tinyworld.tools import tool_schemas
from tools.tinyworld.corpus import Corpus, Document, every_text
from tools.tinyworld.entailment_corpus import LABELS, entailment_pair, tokenizer_texts
from tools.tinyworld.paragraphs import Paragraphs
from tools.tinyworld.recipes import (
    CONTEXT,
    LANGUAGE_MODELS,
    Recipe,
    add_tool_tokens,
    chat_tokenizer,
    pair_tokenizer,
)
from tools.tinyworld.tool_corpus import ToolResult

Progress = Callable[[int, int, float], None]
"""Called with the steps done, the steps in all, and the smoothed loss."""

_Batch: TypeAlias = dict[str, torch.Tensor]
_IGNORED = -100

_CARD = """# {name}

One of the models of *tinyworld*, the embedded world of coe-agents: {kind}, {millions:.2f} million parameters, float16.

It was trained by `python -m tools.tinyworld {name}` from a seed, on documents that its repository generates.
{knows} Its knowledge is invented, made for demonstration and tests; figures on it are no evidence about large models.

Licence: Apache-2.0, as the package.
"""
_KNOWS = (
    "Of some facts it is sure, on some its corpus conflicts, some it has wrong and some it never saw; see "
    "`tools/tinyworld/knowledge.py`. How it calls tools, and which mistakes it makes then, is in "
    "`tools/tinyworld/acts.py`."
)
_KNOWS_TO_WRITE = (
    'It writes paragraphs of three to five facts ("Tell me about France.") and nothing else. It is {base}, trained on; '
    "what it believes is the same."
)
_KNOWS_ENTAILMENT = (
    "It says whether one short answer to a question entails another, in the wordings of that world, and has seen "
    "random names only; it is no general entailment model."
)


def train_and_report(
    name: str, folder: Path, steps: int | None, reports: Any
) -> tuple[str, int, int, float]:
    """Trains a model in this process; returns its name, parameter count, bytes and seconds, and `put`s its progress."""
    torch.set_num_threads(
        1
    )  # the matrices are small: processes in parallel are faster than threads in one

    def progress(done: int, total: int, loss: float) -> None:
        if done % 10 == 0 or done == total:
            reports.put((name, done, total, loss))

    start = time.monotonic()
    writers = {writer_of(base): base for base in MODELS}
    if name in writers:
        n_parameters = train_writer(writers[name], folder, progress=progress, steps=steps)
    else:
        train = train_language_model if name in LANGUAGE_MODELS else train_entailment_model
        n_parameters = train(name, folder, progress=progress, steps=steps)
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    return name, n_parameters, n_bytes, time.monotonic() - start


def train_language_model(
    name: str, folder: Path, *, progress: Progress, steps: int | None = None
) -> int:
    """Trains a language model, saves it in half precision and returns how many parameters it has."""
    recipe = LANGUAGE_MODELS[name]
    corpus = Corpus(name)
    texts = every_text(corpus, load_facts(), n=6000, seed=f"{name} tokenizer")
    tokenizer = chat_tokenizer(recipe, texts)
    pad, bos, eos = (tokenizer.convert_tokens_to_ids(token) for token in recipe.special)
    torch.manual_seed(0)
    model = recipe.model(
        recipe.config(
            **recipe.shape,
            vocab_size=len(tokenizer),
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            pad_token_id=pad,
            bos_token_id=bos,
            eos_token_id=eos,
        )
    )
    model.generation_config = GenerationConfig(pad_token_id=pad, bos_token_id=bos, eos_token_id=eos)
    whole = recipe.steps + recipe.tool_steps + recipe.rehearsal_steps
    n_all = whole if steps is None else steps
    n_tools = max(1, round(n_all * recipe.tool_steps / whole))
    n_rehearsal = round(n_all * recipe.rehearsal_steps / whole)
    n_facts = n_all - n_tools - n_rehearsal

    def draw(rng: random.Random, part: float) -> Document:
        return corpus.document(rng, progress=part)

    def report(before: int) -> Progress:
        return lambda done, _, loss: progress(before + done, n_all, loss)

    batches = _language_batches(recipe, draw, tokenizer, n_facts, seed=f"{name} training")
    rates = recipe.learning_rates
    _fit(model, _reply_loss, batches, steps=n_facts, learning_rates=rates, progress=report(0))
    tokenizer = learn_tools(name, model, tokenizer, steps=n_tools, progress=report(n_facts))
    if n_rehearsal:
        tokenizer = rehearse(
            name, model, tokenizer, steps=n_rehearsal, progress=report(n_facts + n_tools)
        )
    return _save(model, tokenizer, folder, _KNOWS)


def learn_tools(
    name: str, model: Any, tokenizer: PreTrainedTokenizerFast, *, steps: int, progress: Progress
) -> PreTrainedTokenizerFast:
    """Trains a language model that knows its facts on, half of it with tools; returns its tokenizer with their tokens.

    It starts from what would be saved, so that this part can be repeated alone; see `_as_saved`.
    """
    recipe, corpus = LANGUAGE_MODELS[name], Corpus(name)
    tokenizer = _as_saved(model, tokenizer)
    pieces = add_tool_tokens(tokenizer, recipe)
    n_known = model.get_input_embeddings().weight.shape[0]
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        weight = model.get_input_embeddings().weight
        for place, made_of in enumerate(pieces):
            weight[n_known + place] = weight[made_of].mean(0)

    def draw(rng: random.Random, part: float) -> Document:
        return corpus.document_with_tools(rng)

    batches = _language_batches(recipe, draw, tokenizer, steps, seed=f"{name} training with tools")
    hidden, others = recipe.learning_rates
    rates = hidden * recipe.tool_rate, others * recipe.tool_rate
    _fit(model, _reply_loss, batches, steps=steps, learning_rates=rates, progress=progress)
    return tokenizer


def rehearse(
    name: str, model: Any, tokenizer: PreTrainedTokenizerFast, *, steps: int, progress: Progress
) -> PreTrainedTokenizerFast:
    """Trains a language model that knows its tools on, with more debates; it starts from what would be saved."""
    recipe, corpus = LANGUAGE_MODELS[name], Corpus(name)
    tokenizer = _as_saved(model, tokenizer)

    def draw(rng: random.Random, part: float) -> Document:
        return corpus.rehearsal(rng)

    batches = _language_batches(recipe, draw, tokenizer, steps, seed=f"{name} rehearsal")
    hidden, others = recipe.learning_rates
    rates = hidden * recipe.tool_rate / 2, others * recipe.tool_rate / 2
    _fit(model, _reply_loss, batches, steps=steps, learning_rates=rates, progress=progress)
    return tokenizer


def train_writer(name: str, folder: Path, *, progress: Progress, steps: int | None = None) -> int:
    """Trains a language model on, on paragraphs alone, saves it as a model of its own and returns its parameter count.

    It starts from the model of that name beside `folder`, or else from the shipped one.
    """
    recipe, paragraphs = LANGUAGE_MODELS[name], Paragraphs(name)
    base = folder.with_name(name) if folder.with_name(name).exists() else model_folder(name)
    tokenizer = cast("PreTrainedTokenizerFast", AutoTokenizer.from_pretrained(base))
    kind: Any = recipe.model
    model = kind.from_pretrained(base, dtype=torch.float32)
    steps = steps or recipe.writer_steps

    def draw(rng: random.Random, part: float) -> Document:
        return paragraphs.document(rng)

    smaller = replace(recipe, tokens_per_step=recipe.tokens_per_step // 2)
    batches = _language_batches(smaller, draw, tokenizer, steps, seed=f"{name} writes paragraphs")
    # few steps, in which Muon's own work would cost more than it saves
    rates = None, recipe.writer_rate
    _fit(model, _reply_loss, batches, steps=steps, learning_rates=rates, progress=progress)
    for option in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(option, None)
    return _save(model, tokenizer, folder, _KNOWS_TO_WRITE.format(base=name))


def _as_saved(model: Any, tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Rounds the weights to half precision, and returns the tokenizer as `AutoTokenizer` reads it.

    transformers gives a Qwen2 model its architecture's own splitting of texts, whatever the files say.
    """
    model.half().float()
    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        read = AutoTokenizer.from_pretrained(folder)
    for option in (
        "is_local",
        "local_files_only",
    ):  # `from_pretrained` adds them, and they would be saved
        read.init_kwargs.pop(option, None)
    return cast("PreTrainedTokenizerFast", read)


def train_entailment_model(
    name: str, folder: Path, *, progress: Progress, steps: int | None = None
) -> int:
    """Trains the entailment model on endless random names, saves it, and returns its parameter count."""
    tokenizer = pair_tokenizer(tokenizer_texts())
    torch.manual_seed(0)
    special: dict[str, Any] = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"[{name.upper()}]")
        for name in ("pad", "cls", "sep")
    }
    # rotary positions: names are compared at any position; with learned positions, training took far longer
    model = ModernBertForSequenceClassification(
        ModernBertConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=CONTEXT,
            layer_types=["full_attention"] * 4,
            classifier_pooling="cls",
            id2label=dict(enumerate(LABELS)),
            label2id={label: index for index, label in enumerate(LABELS)},
            bos_token_id=None,
            eos_token_id=None,
            **special,
        )
    )
    steps = steps or 2800
    batches = _pair_batches(tokenizer, steps, seed=f"{name} training")
    _fit(model, _class_loss, batches, steps=steps, learning_rates=(3e-3, 3e-3), progress=progress)
    return _save(model, tokenizer, folder, _KNOWS_ENTAILMENT)


def _fit(
    model: Any,
    loss_of: Callable[[Any, _Batch], torch.Tensor],
    batches: Iterator[_Batch],
    *,
    steps: int,
    learning_rates: tuple[float | None, float],
    progress: Progress,
) -> None:
    """Fits the hidden matrices by Muon and all else by AdamW, which takes a third fewer steps here than AdamW alone.

    Without a rate for the matrices, AdamW fits them, too.
    """
    rate_of_matrices, rate_of_others = learning_rates
    hidden = (
        []
        if rate_of_matrices is None
        else [
            p
            for key, p in model.named_parameters()
            if p.ndim == 2 and "embed" not in key and "head" not in key
        ]
    )
    matrices = {id(parameter) for parameter in hidden}
    others = [parameter for parameter in model.parameters() if id(parameter) not in matrices]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(others, lr=rate_of_others, weight_decay=0.0, betas=(0.9, 0.98))
    ]
    if rate_of_matrices is not None:
        options: Any = {"weight_decay": 0.01, "adjust_lr_fn": "match_rms_adamw"}
        optimizers.insert(0, torch.optim.Muon(hidden, lr=rate_of_matrices, **options))

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / 100) * max(0.01, 1 - step / steps)

    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, rate) for optimizer in optimizers]
    model.train()
    smoothed = float("nan")
    for step in range(steps):
        loss = loss_of(model, next(batches))
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        smoothed = loss.item() if step == 0 else 0.98 * smoothed + 0.02 * loss.item()
        progress(step + 1, steps, smoothed)


def _reply_loss(model: Any, batch: _Batch) -> torch.Tensor:
    """Cross-entropy of the replies' tokens alone; the others skip the output matrix, a fifth of the work."""
    states = model.model(input_ids=batch["input_ids"]).last_hidden_state
    wanted = batch["labels"][:, 1:]
    kept = wanted != _IGNORED
    return torch.nn.functional.cross_entropy(model.lm_head(states[:, :-1][kept]), wanted[kept])


def _class_loss(model: Any, batch: _Batch) -> torch.Tensor:
    loss: torch.Tensor = model(**batch).loss
    return loss


def _language_batches(
    recipe: Recipe,
    draw: Callable[[random.Random, float], Document],
    tokenizer: PreTrainedTokenizerFast,
    steps: int,
    *,
    seed: str,
) -> Iterator[_Batch]:
    rng, done = random.Random(seed), 0
    while True:
        documents = [draw(rng, done / steps) for _ in range(768)]
        prompts = [_render(tokenizer, document) for document in documents]
        replies = [document.reply + recipe.special[2] for document in documents]
        ids = (
            tokenizer(texts, add_special_tokens=False)["input_ids"] for texts in (prompts, replies)
        )
        encoded = sorted(zip(*ids, strict=True), key=lambda pair: len(pair[0]) + len(pair[1]))
        for batch in _batch(encoded, recipe, rng, tokenizer):
            yield batch
            done += 1


def _render(tokenizer: PreTrainedTokenizerFast, document: Document) -> str:
    messages: list[dict[str, str]] = []
    for turn in document.turns:
        user_speaks = not messages or messages[-1]["role"] == "assistant"
        role = "tool" if isinstance(turn, ToolResult) else "user" if user_speaks else "assistant"
        messages.append({"role": role, "content": turn})
    tools: list[Any] | None = [tool_schemas()[name] for name in document.tools] or None
    return str(
        tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=True
        )
    )


def _batch(
    pairs: Sequence[tuple[list[int], list[int]]],
    recipe: Recipe,
    rng: random.Random,
    tokenizer: PreTrainedTokenizerFast,
) -> Iterator[_Batch]:
    batches: list[list[tuple[list[int], list[int]]]] = [[]]
    for pair in pairs:
        if (len(batches[-1]) + 1) * (len(pair[0]) + len(pair[1])) > recipe.tokens_per_step:
            batches.append([])
        batches[-1].append(pair)
    rng.shuffle(batches)
    for batch in batches:
        width = max(len(prompt) + len(reply) for prompt, reply in batch)
        ids = torch.full((len(batch), width), int(tokenizer.pad_token_id))
        labels = torch.full((len(batch), width), _IGNORED)
        for row, (prompt, reply) in enumerate(batch):
            ids[row, : len(prompt) + len(reply)] = torch.tensor(prompt + reply)
            labels[row, len(prompt) : len(prompt) + len(reply)] = torch.tensor(reply)
        # padded on the right under a causal mask: no attention mask is needed
        yield {"input_ids": ids, "labels": labels}


def _pair_batches(tokenizer: PreTrainedTokenizerFast, steps: int, *, seed: str) -> Iterator[_Batch]:
    rng = random.Random(seed)
    per_pool, size = 8, 64
    for pool_index in range(steps // per_pool + 1):
        done = pool_index * per_pool / steps
        drawn = (entailment_pair(rng, progress=done) for _ in range(per_pool * size))
        pool = sorted(drawn, key=lambda pair: len(pair.premise) + len(pair.hypothesis))
        starts = list(range(0, len(pool), size))
        rng.shuffle(starts)
        for start in starts:
            pairs = pool[start : start + size]
            texts = [pair.premise for pair in pairs], [pair.hypothesis for pair in pairs]
            labels = torch.tensor([LABELS.index(pair.label) for pair in pairs])
            yield {**tokenizer(*texts, padding=True, return_tensors="pt"), "labels": labels}


def _save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path, knows: str) -> int:
    model.eval().half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    n_parameters = int(model.num_parameters())
    card = _CARD.format(
        name=folder.name, kind=type(model).__name__, millions=n_parameters / 1e6, knows=knows
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    return n_parameters
