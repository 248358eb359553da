"""Owns the probes of clusterers: an entailment model judges two obvious pairs, embeddings compare three answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coe_agents.agents import ChatEntailment
from coe_agents.clustering import Clusterer, EmbeddingSimilarity, EntailmentModel
from coe_agents.doctor.agents import QUESTION, Failure, to_failure

PREMISE = f"{QUESTION} Paris"
ENTAILED = f"{QUESTION} It is Paris."
CONTRADICTED = f"{QUESTION} It is Lyon."
ANSWER = "The capital of France is Paris."
PARAPHRASE = "Paris is the capital of France."
OTHER = "The capital of France is Lyon."

_LABELS = ("contradiction", "neutral", "entailment")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """An entailment model's most probable label for a pair, and its probability."""

    label: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class EntailmentReport:
    """The results of an entailment model for an obvious entailment and an obvious contradiction.

    Attributes:
        labels: The labels of the model, in its order; None for a chat model.
        n_unclear: Number of pairs for which a chat model stated no label; None for other models.
    """

    model: str
    labels: list[str] | None
    entailed: Judgement
    contradicted: Judgement
    seconds: float
    device: str | None
    n_unclear: int | None = None


@dataclass(frozen=True, kw_only=True)
class EmbeddingReport:
    """The cosines between an answer and an obvious paraphrase, and between it and another answer; and the threshold.

    Attributes:
        device: Always None: the client does not report it.
    """

    model: str
    threshold: float
    paraphrase: float
    other: float
    seconds: float
    device: None = None


def probe_of(clusterer: Clusterer) -> tuple[str, Callable[[], EntailmentReport | EmbeddingReport | Failure]] | None:
    """Returns the name of a clusterer's part and its probe; None for a clusterer without a model."""
    model = getattr(clusterer, "model", None)
    if isinstance(model, EntailmentModel):
        return "entailment", lambda: probe_entailment(model)
    if isinstance(clusterer, EmbeddingSimilarity):
        return "embedding", lambda: probe_embedding(clusterer)
    return None


def probe_entailment(model: EntailmentModel) -> EntailmentReport | Failure:
    """Asks an entailment model about two pairs, in wordings that tinyworld's model knows, too."""
    start = time.perf_counter()
    chat = model.model if isinstance(model, ChatEntailment) else None
    try:
        load = getattr(chat or model, "load", None)
        loaded = load() if load is not None else None
        entailed, contradicted = model.predict([(PREMISE, ENTAILED), (PREMISE, CONTRADICTED)])
    except Exception as error:
        return to_failure(error, model)
    labels = None if loaded is None or chat else [str(label) for label in loaded.model.config.id2label.values()]
    return EntailmentReport(
        model=_name_of(chat or model),
        labels=labels,
        entailed=_judgement(entailed),
        contradicted=_judgement(contradicted),
        seconds=round(time.perf_counter() - start, 3),
        device=getattr(loaded, "device", None),
        n_unclear=model.n_unclear if isinstance(model, ChatEntailment) else None,
    )


def probe_embedding(clusterer: EmbeddingSimilarity) -> EmbeddingReport | Failure:
    """Compares three answers by the embeddings of a clusterer."""
    start = time.perf_counter()
    try:
        cosines = clusterer.cosines([ANSWER, PARAPHRASE, OTHER])[0]
    except Exception as error:
        return to_failure(error, clusterer)
    return EmbeddingReport(
        model=_name_of(clusterer.embeddings),
        threshold=clusterer.threshold,
        paraphrase=round(float(cosines[1]), 4),
        other=round(float(cosines[2]), 4),
        seconds=round(time.perf_counter() - start, 3),
    )


def _judgement(row: Any) -> Judgement:
    column = int(row.argmax())
    return Judgement(label=_LABELS[column], probability=float(row[column]))


def _name_of(model: object) -> str:
    """Returns the name of a client's model, without the path of a folder, or the client's class if it has no name."""
    names = (getattr(model, field, None) for field in ("model_name", "model"))
    name = next((name for name in names if isinstance(name, str)), type(model).__name__)
    return Path(name).name if Path(name).is_dir() else name
