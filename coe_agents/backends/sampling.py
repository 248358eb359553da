"""Owns the drawing of tokens: each row of a batch from its own seeded stream, whatever its batch-mates do."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import LogitsProcessor


@dataclass(frozen=True, slots=True)
class DrawnToken:
    """A token, its natural log-probability under the model's own law, and the likeliest ones (id, log-probability)."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass
class SeededSampler(LogitsProcessor):
    """Draws one token for each row by inverting its cumulative distribution at a uniform number from the row's stream.

    `generate` then takes the token greedily, since all others are given no score. The recorded log-probabilities are
    those of the raw logits, before temperature and top-p, as vLLM reports them.

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
        self.drawn = [[] for _ in self.seeds]
        self._drawing = list(self.drawn)

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these rows of the batch only."""
        self._streams = [self._streams[row] for row in rows]
        self._drawing = [self._drawing[row] for row in rows]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        logprobs = scores.float().log_softmax(-1)
        tokens = self._draw(scores)
        chosen = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
        top = torch.topk(logprobs, self.n_top) if self.n_top else None
        for row, token in enumerate(tokens.tolist()):
            ranked = () if top is None else tuple(zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True))
            self._drawing[row].append(DrawnToken(token, chosen[row], ranked))
        return torch.full_like(scores, -torch.inf).scatter_(1, tokens[:, None], 0.0)

    def _draw(self, scores: torch.Tensor) -> torch.Tensor:
        if self.temperature == 0:
            return scores.argmax(-1)
        probabilities = (scores.double() / self.temperature).softmax(-1)
        if self.top_p < 1:
            ranked, order = probabilities.sort(-1, descending=True)
            ranked = ranked.masked_fill(ranked.cumsum(-1) - ranked >= self.top_p, 0.0)
            probabilities = torch.zeros_like(probabilities).scatter_(1, order, ranked)
        cumulative = probabilities.cumsum(-1)
        uniform = torch.tensor([stream.random() for stream in self._streams], dtype=torch.float64, device=scores.device)
        # the first token whose cumulative probability exceeds the number: never one of probability 0
        return torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
