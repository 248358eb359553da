"""Owns the drawing of tokens: each row of a batch from its own seeded stream, independent of the other rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessor

from coe_agents.errors import InvalidReplyError

_AHEAD = 32
"""How many numbers are taken from each stream at a time."""


class DrawnToken(NamedTuple):
    """A token, its natural log-probability under the model's own law, and the likeliest ones (id, log-probability)."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass
class SeededSampler(LogitsProcessor):
    """Draws one token for each row by inverting its cumulative distribution at a uniform number from the row's stream.

    `generate` then takes the token greedily, since none has a higher score. The recorded log-probabilities are those of
    the raw logits, before temperature and top-p, as vLLM reports them.

    Attributes:
        seeds: One for each row.
        temperature: 0 takes the most probable token.
        top_p: Draws among the most probable tokens that together have at least this probability.
        n_top: How many of the most probable tokens to record at each step.
        drawn: What was drawn for each of the seeds.
    """

    seeds: Sequence[int]
    temperature: float
    top_p: float
    n_top: int = 0
    drawn: list[list[DrawnToken]] = field(init=False)

    def __post_init__(self) -> None:
        self._streams = [np.random.default_rng(seed) for seed in self.seeds]
        self._ahead: list[torch.Tensor] = []  # the numbers of the next steps, the last one first
        self.drawn = [[] for _ in self.seeds]
        self._drawing = list(self.drawn)

    def keep(self, rows: Sequence[int]) -> None:
        """Continues with these rows of the batch only."""
        self._streams = [self._streams[row] for row in rows]
        self._ahead = [numbers[rows] for numbers in self._ahead]
        self._drawing = [self._drawing[row] for row in rows]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.float()
        logprobs = scores.log_softmax(-1)
        if logprobs[:, 0].isnan().any():  # then the whole row is
            raise InvalidReplyError("the model's logits are not numbers", hint='Load it with dtype="float32"')
        tokens = self._draw(scores)[:, None]
        chosen = logprobs.gather(1, tokens)[:, 0].tolist()
        top = torch.topk(logprobs, self.n_top) if self.n_top else None
        for row, token in enumerate(tokens[:, 0].tolist()):
            ranked = () if top is None else tuple(zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True))
            self._drawing[row].append(DrawnToken(token, chosen[row], ranked))
        return scores.scatter_(1, tokens, torch.inf)  # they are `generate`'s own copy of the logits

    def _draw(self, scores: torch.Tensor) -> torch.Tensor:
        if self.temperature == 0:
            return scores.argmax(-1)
        if self.temperature != 1:  # the highest becomes 0, so that none overflows
            scores = (scores - scores.amax(-1, keepdim=True)) / self.temperature
        probabilities = scores.softmax(-1)
        if self.top_p < 1:
            ranked, order = probabilities.sort(-1, descending=True)
            above = ranked.cumsum(-1, dtype=torch.float64) - ranked
            probabilities = torch.zeros_like(probabilities).scatter_(
                1, order, ranked.masked_fill(above >= self.top_p, 0.0)
            )
        cumulative = probabilities.double().cumsum_(-1)
        if not self._ahead:
            numbers = np.stack([stream.random(_AHEAD) for stream in self._streams], axis=1)
            self._ahead = list(torch.from_numpy(numbers).to(scores.device).flipud())
        uniform = self._ahead.pop()
        # the first token whose cumulative probability exceeds the number: never one of probability 0
        return torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
