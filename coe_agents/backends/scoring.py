"""Owns the scoring of given continuations: their log-probabilities by teacher forcing, in one forward pass."""

import inspect
from collections.abc import Sequence

import torch

from coe_agents.backends.loading import Loaded


def continuation_log_probabilities(
    loaded: Loaded, prompt: Sequence[int], continuations: Sequence[Sequence[int]]
) -> list[float]:
    """Returns sum_t log p(token_t | prompt, tokens before t) of each continuation, in nats, of the raw logits.

    Args:
        loaded: The model; the caller holds its lock.
        prompt: At least one token id.
        continuations: At least one, each of at least one token id.
    """
    longest = max(len(tokens) for tokens in continuations)
    device = loaded.model.device
    # after a row's end any id will do: no token attends to a later one
    ids = torch.tensor(
        [[*prompt, *tokens, *[tokens[-1]] * (longest - len(tokens))] for tokens in continuations], device=device
    )
    mask = torch.ones_like(ids)
    for row, tokens in enumerate(continuations):
        mask[row, len(prompt) + len(tokens) :] = 0
    n_kept = longest + 1
    takes = inspect.signature(loaded.model.forward).parameters
    # a long prompt times a large vocabulary would fill the memory with logits that are not used
    last_only = {"logits_to_keep": n_kept} if "logits_to_keep" in takes else {}
    logits = loaded.model(input_ids=ids, attention_mask=mask, use_cache=False, **last_only).logits[:, -n_kept:-1]
    logprobs = logits.float().log_softmax(-1)
    return [
        float(logprobs[row, range(len(tokens)), list(tokens)].double().sum())
        for row, tokens in enumerate(continuations)
    ]
