"""Owns the drawing of responses in one batch: prompts of unlike lengths, each read once, and too little memory."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, StoppingCriteria

from coe_agents.backends.loading import Loaded
from coe_agents.backends.sampling import DrawnToken, SeededSampler

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """What all rows of a batch have in common.

    Attributes:
        temperature: 0 takes the most probable token.
        top_p: Draws among the most probable tokens that together have at least this probability.
        n_top: How many of the most probable tokens to record at each step.
        n_new: The most tokens of a response.
        stop: Strings that end a response.
        max_batch: The most rows.
    """

    temperature: float
    top_p: float
    n_top: int
    n_new: int
    stop: tuple[str, ...]
    max_batch: int


@dataclass(frozen=True, slots=True)
class Row:
    """One response to draw.

    Attributes:
        prompt: Which of the prompts it answers.
        seed: Of its own stream.
        is_wanted: Whether anybody still waits for it.
    """

    prompt: int
    seed: int
    is_wanted: Callable[[], bool] = lambda: True


def draw_rows(
    loaded: Loaded, prompts: Sequence[Sequence[int]], rows: Sequence[Row], settings: DrawSettings
) -> list[list[DrawnToken]]:
    """Returns the tokens drawn for each row, which may run on behind its end beside longer ones.

    A row's tokens hang on its prompt and seed; its batch-mates change no more than the last bits of the logits. Where
    the device's memory is too small, the batch is halved, and the log says so.

    Args:
        loaded: The model; the caller holds its lock.
        prompts: Each of at least one token id.
        rows: What to draw.
        settings: For all of them.

    Raises:
        torch.OutOfMemoryError: If the memory is too small for a single row.
    """
    drawn: list[list[DrawnToken]] = []
    size = settings.max_batch
    while left := rows[len(drawn) :][:size]:
        try:
            drawn += _drawn_at_once(loaded, prompts, left, settings)
            continue
        except torch.OutOfMemoryError:
            if len(left) == 1:
                raise
        # out here, where no traceback holds the tensors of the attempt
        size = (len(left) + 1) // 2
        _LOG.warning("%s has too little memory for %d responses at once; %d are tried", loaded.device, len(left), size)
        torch.cuda.empty_cache()
    return drawn


def _drawn_at_once(
    loaded: Loaded, prompts: Sequence[Sequence[int]], rows: Sequence[Row], settings: DrawSettings
) -> list[list[DrawnToken]]:
    asked = sorted({row.prompt for row in rows})
    ends, padding = loaded.end_tokens, loaded.tokenizer.pad_token_id
    padding = padding if padding is not None else (ends or [0])[0]
    ids, mask = _left_padded([prompts[prompt] for prompt in asked], padding, loaded.model.device)
    cache = _read(loaded, ids, mask, padding) if len(rows) > len(asked) else None
    owners = torch.tensor([asked.index(row.prompt) for row in rows], device=ids.device)
    if cache is not None:
        cache.batch_select_indices(owners)
    sampler = SeededSampler([row.seed for row in rows], settings.temperature, settings.top_p, settings.n_top)
    loaded.model.generate(
        input_ids=ids[owners],
        attention_mask=mask[owners],
        past_key_values=cache,
        generation_config=GenerationConfig(
            do_sample=False,  # the sampler draws
            max_new_tokens=settings.n_new,
            eos_token_id=ends or None,
            pad_token_id=padding,
            stop_strings=list(settings.stop) or None,
        ),
        logits_processor=[sampler],
        stopping_criteria=[_Unwanted(rows)],
        tokenizer=loaded.tokenizer,
    )
    return sampler.drawn


def _left_padded(prompts: Sequence[Sequence[int]], padding: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ids and attention mask, each of shape (n_prompts, longest)."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[padding] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return ids, mask


def _read(loaded: Loaded, ids: torch.Tensor, mask: torch.Tensor, padding: int) -> Any:
    """Returns the cache of all but each prompt's last token; None where there is none, or it cannot be repeated."""
    if ids.shape[1] == 1:
        return None
    cache = loaded.model.generate(
        input_ids=ids[:, :-1],
        attention_mask=mask[:, :-1],
        generation_config=GenerationConfig(
            do_sample=False, max_new_tokens=1, pad_token_id=padding, return_dict_in_generate=True
        ),
    ).past_key_values
    layers = getattr(cache, "layers", ())  # a recurrent layer's state cannot
    return cache if layers and all(hasattr(layer, "batch_select_indices") for layer in layers) else None


class _Unwanted(StoppingCriteria):
    """Ends the rows that nobody waits for any more."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return torch.tensor([not row.is_wanted() for row in self._rows], device=input_ids.device)
