"""Owns the drawing of responses in one batch: each row from its own seeded stream, and each prompt read once."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from coe_agents.backends.model_loading import Loaded
from coe_agents.errors import InvalidReplyError

_LOG = logging.getLogger(__name__)
_FEWEST_THINNED = 8
"""Among fewer rows, keeping ended ones costs less than starting again without them."""
_FEWEST_SAVED = 64
"""Fewer prompt tokens are faster to read again for each row than in a separate pass."""


class DrawnToken(NamedTuple):
    """A token, its natural log-probability before temperature and top-p, and the likeliest (id, log-probability)."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """What all rows of a batch have in common.

    Attributes:
        temperature: 0 takes the most probable token.
        top_p: Draws among the most probable tokens that together have at least this probability.
        n_top: How many of the most probable tokens to record at each step.
    """

    temperature: float
    top_p: float
    n_top: int
    n_new: int
    stop: tuple[str, ...]
    max_batch: int


class SeededSampler(LogitsProcessor):
    """Draws one token for each row by inverting its cumulative distribution at a uniform number from the row's stream.

    `generate` then takes the token greedily, since none has a higher score. The recorded log-probabilities are those of
    the raw logits, before temperature and top-p, as vLLM reports them.

    Attributes:
        drawn: What was drawn for each of the seeds.
        drawing: What was drawn for each of the rows that are left.
    """

    def __init__(self, seeds: Sequence[int], settings: DrawSettings) -> None:
        self._settings = settings
        self._streams = [np.random.default_rng(seed) for seed in seeds]
        self.drawn: list[list[DrawnToken]] = [[] for _ in seeds]
        self.drawing = list(self.drawn)

    def keep(self, rows: Sequence[int]) -> None:
        """Continues with these rows of the batch only."""
        self._streams = [self._streams[row] for row in rows]
        self.drawing = [self.drawing[row] for row in rows]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.float()
        logprobs = scores.log_softmax(-1)
        if logprobs[:, 0].isnan().any():  # if one value is NaN, the whole row is
            raise InvalidReplyError(
                "the model's logits are not numbers", hint='Load it with dtype="float32"'
            )
        tokens = self._draw(scores)[:, None]
        chosen = logprobs.gather(1, tokens)[:, 0].tolist()
        top = torch.topk(logprobs, self._settings.n_top) if self._settings.n_top else None
        for row, token in enumerate(tokens[:, 0].tolist()):
            ranked = (
                ()
                if top is None
                else tuple(zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True))
            )
            self.drawing[row].append(DrawnToken(token, chosen[row], ranked))
        return scores.scatter_(1, tokens, torch.inf)  # they are `generate`'s own copy of the logits

    def _draw(self, scores: torch.Tensor) -> torch.Tensor:
        temperature, top_p = self._settings.temperature, self._settings.top_p
        if temperature == 0:
            return scores.argmax(-1)
        if temperature != 1:  # the highest becomes 0, so that none overflows
            scores = (scores - scores.amax(-1, keepdim=True)) / temperature
        probabilities = scores.softmax(-1)
        if top_p < 1:
            ranked, order = probabilities.sort(-1, descending=True)
            above = ranked.cumsum(-1, dtype=torch.float64) - ranked
            kept = ranked.masked_fill(above >= top_p, 0.0)
            probabilities = torch.zeros_like(probabilities).scatter_(1, order, kept)
        cumulative = probabilities.double().cumsum_(-1)
        uniform = torch.tensor(
            [stream.random() for stream in self._streams], dtype=torch.float64, device=scores.device
        )
        # the first token whose cumulative probability exceeds the number: never one of probability 0
        return torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[
            :, 0
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """One response to draw: to which of the prompts, from which stream, and whether its caller still waits for it."""

    prompt: int
    seed: int
    is_wanted: Callable[[], bool] = lambda: True


def draw_rows(
    loaded: Loaded, prompts: Sequence[Sequence[int]], rows: Sequence[Row], settings: DrawSettings
) -> list[list[DrawnToken]]:
    """Returns the tokens drawn for each row, which may continue after its end while longer ones are drawn.

    A row's tokens depend on its prompt and seed only; the other rows of the batch change no more than the last bits of
    the logits. Where the device's memory is too small, the batch is halved, and the log says so.

    The caller holds the lock of `loaded`, and each prompt has at least one token.
    """
    drawn: list[list[DrawnToken]] = []
    size = settings.max_batch
    while left := rows[len(drawn) :][:size]:
        try:
            drawn += _draw_at_once(loaded, prompts, left, settings)
            continue
        except torch.OutOfMemoryError:
            if len(left) == 1:
                raise
        # out here, where no traceback holds the tensors of the attempt
        size = (len(left) + 1) // 2
        _LOG.warning(
            "%s has too little memory for %d responses at once; %d are tried",
            loaded.device,
            len(left),
            size,
        )
        torch.cuda.empty_cache()
    return drawn


def _draw_at_once(
    loaded: Loaded, prompts: Sequence[Sequence[int]], rows: Sequence[Row], settings: DrawSettings
) -> list[list[DrawnToken]]:
    asked = sorted({row.prompt for row in rows})
    ends, padding = loaded.end_tokens, loaded.tokenizer.pad_token_id
    padding = padding if padding is not None else (ends or [0])[0]
    prompt_ids, prompt_mask = _pad_left(
        [prompts[prompt] for prompt in asked], padding, loaded.model.device
    )
    owners = torch.tensor([asked.index(row.prompt) for row in rows], device=prompt_ids.device)
    ids, mask, cache = prompt_ids[owners], prompt_mask[owners], None
    end = ids.shape[1] + settings.n_new
    sampler = SeededSampler([row.seed for row in rows], settings)
    if (len(rows) - len(asked)) * ids.shape[1] >= _FEWEST_SAVED:
        logits, cache = _read(loaded, prompt_ids, prompt_mask, padding)
        first = sampler(ids, logits[owners]).argmax(-1)
        going = [
            place
            for place, (row, token) in enumerate(zip(rows, first.tolist(), strict=True))
            if row.is_wanted()
            and token not in ends
            and not any(each in loaded.decode(token) for each in settings.stop)
        ]
        ids, mask = torch.cat([ids, first[:, None]], 1)[going], pad(mask, (0, 1), value=1)[going]
        rows, cache = [rows[place] for place in going], _select(cache, owners[going])
        sampler.keep(going)
    while rows and ids.shape[1] < end:
        stop = _Stop(rows, ends)
        out = loaded.model.generate(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            generation_config=GenerationConfig(
                do_sample=False,  # the sampler draws
                max_new_tokens=end - ids.shape[1],
                eos_token_id=ends or None,
                pad_token_id=padding,
                stop_strings=list(settings.stop) or None,
                return_dict_in_generate=True,
            ),
            logits_processor=[sampler],
            stopping_criteria=[stop],
            tokenizer=loaded.tokenizer,
        )
        if not stop.is_thin:
            break
        kept = (~stop.ended).nonzero()[:, 0]
        n_more = out.sequences.shape[1] - mask.shape[1]
        ids, mask = out.sequences[kept], pad(mask[kept], (0, n_more), value=1)
        cache = _select(out.past_key_values, kept)
        rows = [rows[place] for place in kept.tolist()]
        sampler.keep(kept.tolist())
    return sampler.drawn


def _pad_left(
    prompts: Sequence[Sequence[int]], padding: int, device: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, prompts))
    ids = torch.tensor(
        [[padding] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device
    )
    mask = torch.tensor(
        [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device
    )
    return ids, mask


def _read(
    loaded: Loaded, ids: torch.Tensor, mask: torch.Tensor, padding: int
) -> tuple[torch.Tensor, Any]:
    """Returns the logits of what follows each prompt, shape (n_prompts, n_tokens), and the cache."""
    out = loaded.model.generate(
        input_ids=ids,
        attention_mask=mask,
        generation_config=GenerationConfig(
            do_sample=False,
            max_new_tokens=1,
            pad_token_id=padding,
            return_dict_in_generate=True,
            output_logits=True,
        ),
    )
    return out.logits[0], out.past_key_values


def _select(cache: Any, rows: torch.Tensor) -> Any:
    """Returns the cache of these rows, in this order; None where it holds more than keys and values, as Mamba's."""
    layers = getattr(cache, "layers", ())
    if not layers or not all(
        type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers
    ):
        return None
    cache.batch_select_indices(rows)
    return cache


class _Stop(StoppingCriteria):
    """Ends the rows that no caller waits for, and all once half have ended (`is_thin`): the rest is faster alone."""

    def __init__(self, rows: Sequence[Row], ends: Sequence[int]) -> None:
        self._rows, self._ends = rows, ends
        self.ended = torch.zeros(len(rows), dtype=torch.bool)
        self.is_thin = False

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        last = input_ids[:, -1].tolist()
        ends = [
            token in self._ends or not row.is_wanted()
            for token, row in zip(last, self._rows, strict=True)
        ]
        self.ended |= torch.tensor(ends)
        n_left = len(ends) - int(self.ended.sum())
        # on "mps", generate reads this a step late, when one token too many has been drawn
        may_thin = len(ends) >= _FEWEST_THINNED and input_ids.device.type != "mps"
        self.is_thin = may_thin and 0 < n_left <= len(ends) / 2
        return (self.ended | self.is_thin).to(input_ids.device)


class CutRow(NamedTuple):
    """One sampled response: its text, its tokens up to and including the one that ended it, and why it ended."""

    text: str
    tokens: Sequence[DrawnToken]
    finish_reason: str

    @classmethod
    def cut(
        cls,
        loaded: Loaded,
        drawn: Sequence[DrawnToken],
        stop: Sequence[str],
        hidden: Collection[int] | None = None,
    ) -> "CutRow":
        """Cuts the drawn tokens at the first token that ends a response, or string of `stop`.

        The text is without the tokens of `hidden`, by default the tokenizer's special ones.
        """

        def decode(tokens: Sequence[DrawnToken]) -> str:
            if hidden is None:
                return str(
                    loaded.tokenizer.decode(
                        [token.id for token in tokens], skip_special_tokens=True
                    )
                )
            return str(
                loaded.tokenizer.decode([token.id for token in tokens if token.id not in hidden])
            )

        end = next(
            (place for place, token in enumerate(drawn) if token.id in loaded.end_tokens), None
        )
        tokens = drawn if end is None else drawn[: end + 1]
        text = decode(tokens)
        if not any(string in text for string in stop):
            return cls(text, tokens, "length" if end is None else "stop")
        # the row may have continued with longer ones: keep the fewest tokens that contain a stop string
        counts = range(1, len(tokens) + 1)
        kept = next(n for n in counts if any(string in decode(tokens[:n]) for string in stop))
        first = min(text.index(string) for string in stop if string in text)
        return cls(text[:first], tokens[:kept], "stop")
