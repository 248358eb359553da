"""Owns a shortcut for DeBERTa-v2 and v3: relative positions further apart than the text is long are not computed.

In every layer transformers multiplies each token with all relative positions, 512 in the common models, and then picks
those that occur. Two short answers of 30 tokens each have 119.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def short_positions(model: Any, n_tokens: int) -> Iterator[int | None]:
    """Cuts the relative positions of `model` to those of `n_tokens` tokens for as long as the context lasts.

    The logits are the same, since the positions that go are never picked. Nothing else may use the model meanwhile.

    Yields:
        The positions left on each side; None where nothing is cut: another architecture, or a text so long that
        positions share buckets.
    """
    encoder: Any = getattr(getattr(model, "deberta", None), "encoder", None)
    layers = [layer.attention.self for layer in getattr(encoder, "layer", ())]
    spans = {getattr(layer, "pos_ebd_size", None) for layer in layers}  # DeBERTa v1 has none: it cuts by itself
    span = spans.pop() if len(spans) == 1 else None
    buckets = getattr(encoder, "position_buckets", 0)
    if span is None or n_tokens >= span or (buckets > 0 and n_tokens > buckets // 2 + 1):
        yield None
        return
    all_positions = encoder.get_rel_embedding
    encoder.get_rel_embedding = lambda: all_positions()[span - n_tokens : span + n_tokens]
    for layer in layers:
        layer.pos_ebd_size = n_tokens
    try:
        yield n_tokens
    finally:
        del encoder.get_rel_embedding
        for layer in layers:
            layer.pos_ebd_size = span
