"""Owns the drawing of responses in one batch: each row from its own seeded stream, and each prompt read once."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.generation.utils import GenerateDecoderOnlyOutput

from coe_agents.backends.model_loading import Loaded
from coe_agents.errors import InvalidReplyError
from coe_agents.types import Fields

_CACHE = "cache" if hasattr(GenerateDecoderOnlyOutput, "cache") else "past_key_values"
"""What `generate` calls the keys and values of earlier tokens: since transformers 5.24 "cache"."""
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


@dataclass(frozen=True, slots=True)
class Row:
    """One response to draw: to which of the prompts, from which stream, and whether its caller still waits for it.

    Attributes:
        watch: Called after each token with all that were drawn so far. Where memory was too small, they begin again.
    """

    prompt: int
    seed: int
    is_wanted: Callable[[], bool] = lambda: True
    watch: Callable[[Sequence[DrawnToken]], None] = lambda drawn: None


class SeededSampler(LogitsProcessor):
    """Draws one token for each row by inverting its cumulative distribution at a uniform number from the row's stream.

    `generate` then takes the token greedily, since none has a higher score. The recorded log-probabilities are those of
    the raw logits, before temperature and top-p, as vLLM reports them.

    Attributes:
        drawn: What was drawn for each of the rows.
        drawing: What was drawn for each of the rows that are left.
    """

    def __init__(self, rows: Sequence[Row], settings: DrawSettings) -> None:
        self._settings = settings
        self._rows = list(rows)
        self._streams = [np.random.default_rng(row.seed) for row in rows]
        self.drawn: list[list[DrawnToken]] = [[] for _ in rows]
        self.drawing = list(self.drawn)

    def keep(self, rows: Sequence[int]) -> None:
        """Continues with these rows of the batch only."""
        self._rows = [self._rows[row] for row in rows]
        self._streams = [self._streams[row] for row in rows]
        self.drawing = [self.drawing[row] for row in rows]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.float()
        logprobs = scores.log_softmax(-1)
        # if one value is NaN, the whole row is
        if logprobs[:, 0].isnan().any():
            hint = 'Load it with dtype="float32"'
            raise InvalidReplyError("the model's logits are not numbers", hint=hint)

        tokens = self._draw(scores)[:, None]
        logprobs_drawn = logprobs.gather(1, tokens)[:, 0].tolist()
        top = torch.topk(logprobs, self._settings.n_top)
        top_ids = top.indices.tolist()
        top_logprobs = top.values.tolist()
        for row, token in enumerate(tokens[:, 0].tolist()):
            ranked = tuple(zip(top_ids[row], top_logprobs[row], strict=True))
            self.drawing[row].append(DrawnToken(token, logprobs_drawn[row], ranked))
            self._rows[row].watch(self.drawing[row])
        # the scores are `generate`'s own copy of the logits
        return scores.scatter_(1, tokens, torch.inf)

    def _draw(self, scores: torch.Tensor) -> torch.Tensor:
        temperature = self._settings.temperature
        top_p = self._settings.top_p
        if temperature == 0:
            return scores.argmax(-1)
        if temperature != 1:
            # the highest becomes 0, so that none overflows
            scores = (scores - scores.amax(-1, keepdim=True)) / temperature
        probabilities = scores.softmax(-1)
        if top_p < 1:
            ranked, order = probabilities.sort(-1, descending=True)
            mass_before = ranked.cumsum(-1, dtype=torch.float64) - ranked
            kept = ranked.masked_fill(mass_before >= top_p, 0.0)
            probabilities = torch.zeros_like(probabilities).scatter_(1, order, kept)

        cumulative = probabilities.double().cumsum_(-1)
        numbers = [stream.random() for stream in self._streams]
        uniform = torch.tensor(numbers, dtype=torch.float64, device=scores.device)
        # the first token whose cumulative probability exceeds the number: never one of probability 0
        total = cumulative[:, -1]
        exceeded = (uniform * total)[:, None]
        return torch.searchsorted(cumulative, exceeded, right=True)[:, 0]


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
    while len(drawn) < len(rows):
        batch = rows[len(drawn) :][:size]
        try:
            drawn += _draw_at_once(loaded, prompts, batch, settings)
            continue
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise
        # out here, where no traceback holds the tensors of the attempt
        size = (len(batch) + 1) // 2
        message = "%s has too little memory for %d responses at once; %d are tried"
        _LOG.warning(message, loaded.device, len(batch), size)
        torch.cuda.empty_cache()
    return drawn


@dataclass(slots=True)
class _Batch:
    """The rows that are still drawn.

    Attributes:
        ids: The tokens of each prompt and its response so far, shape (n_rows, n_tokens).
        mask: Which of them are no padding.
        cache: The keys and values of those that were read; None where none were.
    """

    rows: Sequence[Row]
    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any = None

    def keep(self, places: Sequence[int], ids: torch.Tensor, cache: Any) -> None:
        """Continues with the rows at these places of the batch, whose tokens are now `ids`."""
        self.rows = [self.rows[place] for place in places]
        n_drawn = ids.shape[1] - self.mask.shape[1]
        self.mask = pad(self.mask, (0, n_drawn), value=1)[places]
        self.ids = ids[places]
        self.cache = cache


def _draw_at_once(
    loaded: Loaded, prompts: Sequence[Sequence[int]], rows: Sequence[Row], settings: DrawSettings
) -> list[list[DrawnToken]]:
    used = sorted({row.prompt for row in rows})  # of the prompts
    prompt_ids, prompt_mask = pad_rows(
        [prompts[number] for number in used],
        padding=_padding(loaded),
        side="left",
        device=loaded.model.device,
    )
    # of each row, the place of its prompt among those that are used
    owners = torch.tensor([used.index(row.prompt) for row in rows], device=prompt_ids.device)
    batch = _Batch(rows, prompt_ids[owners], prompt_mask[owners])
    sampler = SeededSampler(rows, settings)
    n_prompt_tokens = prompt_ids.shape[1]
    end = n_prompt_tokens + settings.n_new

    # where rows share a prompt, it is read once, and their first tokens are drawn from its logits
    n_shared = len(rows) - len(used)
    if n_shared * n_prompt_tokens >= _FEWEST_SAVED:
        out = _generate(loaded, prompt_ids, prompt_mask, max_new_tokens=1, output_logits=True)
        tokens = sampler(batch.ids, out.logits[0][owners]).argmax(-1)
        going = _find_going(loaded, tokens.tolist(), rows, settings)
        ids = torch.cat([batch.ids, tokens[:, None]], 1)
        batch.keep(going, ids, _select(out, owners[going]))
        sampler.keep(going)

    while batch.rows and batch.ids.shape[1] < end:
        stop = _Stop(batch.rows, loaded.end_tokens)
        out = _generate(
            loaded,
            batch.ids,
            batch.mask,
            {
                _CACHE: batch.cache,
                "logits_processor": [sampler],
                "stopping_criteria": [stop],
                "tokenizer": loaded.tokenizer,
            },
            max_new_tokens=end - batch.ids.shape[1],
            eos_token_id=loaded.end_tokens or None,
            stop_strings=list(settings.stop) or None,
        )
        if not stop.is_thin:
            break
        kept = (~stop.ended).nonzero()[:, 0]
        batch.keep(kept.tolist(), out.sequences, _select(out, kept))
        sampler.keep(kept.tolist())
    return sampler.drawn


def _generate(
    loaded: Loaded,
    ids: torch.Tensor,
    mask: torch.Tensor,
    options: Fields = MappingProxyType({}),
    **config: Any,
) -> Any:
    """Returns what `generate` returns, which takes the likeliest token: a sampler among the options draws."""
    return loaded.model.generate(
        input_ids=ids,
        attention_mask=mask,
        generation_config=GenerationConfig(
            do_sample=False, pad_token_id=_padding(loaded), return_dict_in_generate=True, **config
        ),
        **options,
    )


def _find_going(
    loaded: Loaded, tokens: Sequence[int], rows: Sequence[Row], settings: DrawSettings
) -> list[int]:
    """Returns the places of the rows that the first token of each has not ended, and that are still wanted."""
    going = []
    for place, token in enumerate(tokens):
        text = loaded.decode(token)
        is_stopped = any(string in text for string in settings.stop)
        has_ended = is_stopped or token in loaded.end_tokens
        if rows[place].is_wanted() and not has_ended:
            going.append(place)
    return going


def _padding(loaded: Loaded) -> int:
    padding: int | None = loaded.tokenizer.pad_token_id
    if padding is not None:
        return padding
    return loaded.end_tokens[0] if loaded.end_tokens else 0


def pad_rows(
    rows: Sequence[Sequence[int]], *, padding: int, side: str, device: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns rows of tokens, padded to the longest on this side, and the mask of what is no padding."""
    tokens = [torch.tensor(row) for row in rows]
    ones = [torch.ones_like(row) for row in tokens]
    ids = pad_sequence(tokens, batch_first=True, padding_value=padding, padding_side=side)
    mask = pad_sequence(ones, batch_first=True, padding_side=side)
    return ids.to(device), mask.to(device)


def _select(generated: Any, rows: torch.Tensor) -> Any:
    """Returns the cache of these rows, in this order; None where it holds more than keys and values, as Mamba's."""
    cache = getattr(generated, _CACHE)
    layers = getattr(cache, "layers", ())
    kinds = {type(layer) for layer in layers}
    if not layers or not kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
        return None
    cache.batch_select_indices(rows)
    return cache


class _Stop(StoppingCriteria):
    """Ends the rows that no caller waits for, and all once half have ended (`is_thin`): the rest is faster alone."""

    def __init__(self, rows: Sequence[Row], ends: Sequence[int]) -> None:
        self._rows = rows
        self._ends = ends
        self.ended = torch.zeros(len(rows), dtype=torch.bool)
        self.is_thin = False

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        for place, token in enumerate(input_ids[:, -1].tolist()):
            if token in self._ends or not self._rows[place].is_wanted():
                self.ended[place] = True
        n_rows = len(self._rows)
        n_left = n_rows - int(self.ended.sum())
        # on "mps", generate reads this a step late, when one token too many has been drawn
        may_thin = n_rows >= _FEWEST_THINNED and input_ids.device.type != "mps"
        self.is_thin = may_thin and 0 < n_left <= n_rows / 2
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
            visible = [token.id for token in tokens if token.id not in (hidden or ())]
            return str(loaded.tokenizer.decode(visible, skip_special_tokens=hidden is None))

        tokens = drawn
        reason = "length"
        for place, token in enumerate(drawn):
            if token.id in loaded.end_tokens:
                tokens = drawn[: place + 1]
                reason = "stop"
                break
        text = decode(tokens)
        stops = [text.index(string) for string in stop if string in text]
        if not stops:
            return cls(text, tokens, reason)

        # the row may have continued with longer ones: keep the fewest tokens that contain a stop string
        n_kept = 1
        while not any(string in decode(tokens[:n_kept]) for string in stop):
            n_kept += 1
        return cls(text[: min(stops)], tokens[:n_kept], "stop")
