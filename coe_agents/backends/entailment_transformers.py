"""Owns `TransformersEntailment`: a sequence classifier of the transformers library as an entailment model."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from coe_agents._removed import refuses_removed
from coe_agents.backends.model_loading import Loaded, load
from coe_agents.checks import integer
from coe_agents.errors import LabelError

_LOG = logging.getLogger(__name__)
_PASS_TOKENS, _PASS_TOKENS_ELSEWHERE = 128, 2048
"""The fixed cost of a forward pass, in tokens that could be read in the same time, on a CPU and elsewhere."""
_LABELS = ("contradiction", "neutral", "entailment")
_READ_THE_FIRST_TOKEN = ("bert", "deberta", "deberta-v2", "roberta", "xlm-roberta")
"""The architectures whose classifier reads the first token of the last layer, and no other."""


class TransformersEntailment:
    """A natural-language-inference model in this process, loaded at the first call.

    The order of the model's labels is read from its `id2label` by name. Pairs are sorted by length and read in
    batches; a pair that is too long for the model loses tokens at the end of its longer side, and the log says how many
    did. DeBERTa-v2 and v3 compute only the relative positions that occur, which takes a fifth off the time in our
    benchmark. The last layer of BERT, RoBERTa and DeBERTa computes only the first token, which is all that their
    classifier reads. Neither changes a verdict.

    Args:
        model: A local folder or a hub id, such as "microsoft/deberta-large-mnli". Only safetensors are read and no code
            of the repository is run.
        device: "cpu", "cuda", ...; by default the first GPU if there is one.
        dtype: "float32", "bfloat16", "auto"; by default float32 on a CPU and the saved one elsewhere. On a CPU with
            AVX512-BF16 or AMX, "bfloat16" is two to three times as fast; of tiny-nli's verdicts 1 in 1,000 changes.
        revision: A branch, tag or commit of the hub.
        batch_size: The most pairs in one forward pass.
        batch_tokens: The most tokens in one forward pass, padding included; a longer pair goes alone.

    Example:
        >>> from coe_agents.tinyworld import model_folder
        >>> entailment = TransformersEntailment(str(model_folder("tiny-nli")))
        >>> question = "What is the capital of France?"
        >>> row, = entailment.predict([(f"{question} Paris", f"{question} It is Paris.")])
        >>> int(row.argmax())  # contradiction, neutral, entailment
        2
    """

    @refuses_removed
    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        batch_size: int = 64,
        batch_tokens: int = 8192,
    ) -> None:
        integer(batch_size, '"batch_size"', least=1, advice="Omit it for the default of 64")
        integer(batch_tokens, '"batch_tokens"', least=1, advice="Omit it for the default of 8192")
        self.model = os.fspath(model)
        self.dtype = dtype
        self.revision = revision
        self._device = device
        self._batch_size = batch_size
        self._batch_tokens = batch_tokens
        self._loaded: Loaded | None = None

    def load(self) -> Loaded:
        """Returns the model with its tokenizer, loaded at the first call.

        Raises:
            ModelLoadError: If there is no such model.
            LabelError: If its labels cannot be identified.
        """
        if self._loaded is None:
            loaded = load(
                AutoModelForSequenceClassification,
                self.model,
                device=self._device,
                dtype=self.dtype,
                revision=self.revision,
            )
            self._columns = label_columns(loaded.model.config.id2label, model=self.model)
            self._loaded = loaded
        return self._loaded

    def predict(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Returns the probabilities of contradiction, neutral and entailment for each (premise, hypothesis).

        Returns:
            Shape (n_pairs, 3); rows sum to 1.
        """
        probabilities = np.empty((len(pairs), len(_LABELS)))
        if not pairs:
            return probabilities
        loaded = self.load()
        limit = loaded.context_length
        premises = [premise for premise, _ in pairs]
        hypotheses = [hypothesis for _, hypothesis in pairs]
        is_on_cpu = loaded.model.device.type == "cpu"
        pass_tokens = _PASS_TOKENS if is_on_cpu else _PASS_TOKENS_ELSEWHERE
        with loaded.lock, torch.inference_mode():
            encoded = loaded.tokenizer(
                premises, hypotheses, truncation="longest_first", max_length=limit
            )
            lengths = np.array([len(ids) for ids in encoded["input_ids"]])
            n_cut = int((lengths >= limit).sum())
            if n_cut:
                message = "%d of %d pairs filled the %d tokens of %s"
                _LOG.warning(message, n_cut, len(pairs), limit, self.model)

            for rows in self._batches(lengths, pass_tokens=pass_tokens):
                columns = dict[str, list[Any]]()
                for name, values in encoded.items():
                    columns[name] = [values[row] for row in rows]
                probabilities[rows] = _read_pairs(loaded, columns)[:, self._columns]
        return probabilities

    def _batches(self, lengths: np.ndarray, *, pass_tokens: int) -> Iterator[np.ndarray]:
        """Yields the rows of each forward pass, at the least cost of padding and passes; each costs `pass_tokens`.

        From short to long: cost(stop) = min_start cost(start) + (stop - start) * length(stop - 1) + pass_tokens.
        """
        n_pairs = len(lengths)
        by_length = np.argsort(lengths, kind="stable")
        # of the first pairs by length, as many as the place says: the least cost, and where the last pass starts
        costs = np.zeros(n_pairs + 1)
        starts = np.zeros(n_pairs + 1, dtype=int)
        for stop in range(1, n_pairs + 1):
            longest = lengths[by_length[stop - 1]]
            possible = np.arange(max(0, stop - self._batch_size), stop)
            n_tokens = (stop - possible) * longest
            # fewer from start to start, so those that fit are the last
            n_fitting = max(int((n_tokens <= self._batch_tokens).sum()), 1)
            possible = possible[-n_fitting:]
            total = costs[possible] + n_tokens[-n_fitting:] + pass_tokens
            costs[stop] = total.min()
            starts[stop] = possible[total.argmin()]

        stop = n_pairs
        while stop:
            yield by_length[starts[stop] : stop]
            stop = starts[stop]


def _read_pairs(loaded: Loaded, columns: Mapping[str, list[Any]]) -> np.ndarray:
    """Returns the probabilities of the model's labels for encoded pairs, which are padded to the longest."""
    model = loaded.model
    batch = loaded.tokenizer.pad(columns, return_tensors="pt").to(model.device)
    n_tokens = batch["input_ids"].shape[1]
    with short_positions(model, n_tokens), first_token(model):
        logits = model(**batch).logits
    probabilities: np.ndarray = logits.double().softmax(-1).cpu().numpy()
    return probabilities


def label_columns(id2label: Mapping[int, str], *, model: str) -> list[int]:
    """Returns the columns of contradiction, neutral and entailment among a model's logits.

    Raises:
        LabelError: If a label is missing or repeated, as in models that only distinguish entailment from the rest.

    Example:
        >>> label_columns({0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}, model="example")
        [2, 1, 0]
    """
    column_of = {name.strip().lower(): int(column) for column, name in id2label.items()}
    if len(id2label) != len(_LABELS) or column_of.keys() != set(_LABELS):
        raise LabelError(
            f"an entailment model must have the labels {', '.join(_LABELS)}; "
            f'"{model}" has {", ".join(id2label.values())}',
            hint="Use a model trained on MNLI, or set `id2label` in its config.json",
        )
    return [column_of[label] for label in _LABELS]


@contextmanager
def short_positions(model: Any, n_tokens: int) -> Iterator[int | None]:
    """Cuts the relative positions of `model` to those of `n_tokens` tokens for as long as the context lasts.

    In every layer of DeBERTa-v2 and v3 transformers multiplies each token with all relative positions, 512 in the
    common models, and then picks those that occur. Two short answers of 30 tokens each have 119.

    The logits are the same, since the positions that go are never picked. Nothing else may use the model meanwhile.

    Yields:
        The positions left on each side; None where nothing is cut: another architecture, or a text so long that
        positions share buckets.
    """
    encoder: Any = getattr(getattr(model, "deberta", None), "encoder", None)
    layers = [layer.attention.self for layer in getattr(encoder, "layer", ())]
    # DeBERTa v1 has none: it cuts by itself
    spans = {getattr(layer, "pos_ebd_size", None) for layer in layers}
    span = spans.pop() if len(spans) == 1 else None
    buckets = getattr(encoder, "position_buckets", 0)
    shares_buckets = buckets > 0 and n_tokens > buckets // 2 + 1
    if span is None or n_tokens >= span or shares_buckets:
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


@contextmanager
def first_token(model: Any) -> Iterator[bool]:
    """Lets the last layer of `model` compute the first token only, for as long as the context lasts.

    The classifiers of BERT, RoBERTa and DeBERTa read the first token of the last layer. Its attention needs the keys
    and values of all tokens. What follows, three quarters of the layer's products, reads each token by itself.

    The logits are the same but for rounding. Nothing else may use the model meanwhile.

    Yields:
        Whether other tokens are dropped: not of another architecture, and not where a convolution follows.
    """
    kind = getattr(getattr(model, "config", None), "model_type", None)
    encoder: Any = getattr(getattr(model, "base_model", None), "encoder", None)
    layers = getattr(encoder, "layer", ())
    is_convolved = len(layers) == 1 and getattr(encoder, "conv", None) is not None
    if kind not in _READ_THE_FIRST_TOKEN or not layers or is_convolved:
        yield False
        return

    def drop_others(_: Any, states: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(each[:, :1] for each in states)

    hook = layers[-1].attention.output.register_forward_pre_hook(drop_others)
    try:
        yield True
    finally:
        hook.remove()
