"""Owns how a transformers model is loaded: on which device, in which precision, once per process, never by pickle."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from coe_agents.activity import announce
from coe_agents.errors import ModelLoadError
from coe_agents.files import missing_model
from coe_agents.text import first_line

SMALL = 10_000_000
"""Models of fewer parameters take turns.

A step of theirs is mostly Python, which one thread runs at a time. Threads of several such models would wait for each
other after every operation, and those of torch for a processor, which costs more than it saves.
"""
_SMALL_LOCK = threading.Lock()
_READ_AT_ONCE = 500_000_000
"""Bytes of weights that are read in about a second."""


@dataclass(eq=False)
class Loaded:
    """A model in memory, its tokenizer, and the lock that gives it to one caller at a time.

    Small models share one lock: see `SMALL`.

    Attributes:
        end_tokens: The ids that end a generated response; none for a classifier.
    """

    model: Any
    tokenizer: Any
    context_length: int
    end_tokens: list[int]
    lock: threading.Lock = field(init=False)
    _shown: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.lock = _SMALL_LOCK if n_parameters < SMALL else threading.Lock()

    def decode(self, token: int) -> str:
        """Returns what a token decodes to by itself; cached, since the tokenizer is slow."""
        if token not in self._shown:
            self._shown[token] = self.tokenizer.decode([token])
        return self._shown[token]

    @property
    def device(self) -> str:
        """The device of the model: "cpu", or say "cuda:0 (NVIDIA H200)"."""
        device = self.model.device
        if device.type == "cuda":
            return f"{device} ({torch.cuda.get_device_name(device)})"
        return str(device)


_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert")
"""Architectures whose positions start after the padding token's id, so that as many are never used."""

_loaded: "weakref.WeakValueDictionary[tuple[Any, ...], Loaded]" = weakref.WeakValueDictionary()
_loading = threading.Lock()
_HINT = "Give a folder with config.json, tokenizer and model.safetensors, a GGUF file, or a hub id that you may read"
_FAILURES = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)


def load(
    auto_class: Any,
    name: str,
    *,
    device: str | None,
    dtype: str | None,
    revision: str | None,
    token: str | None = None,
) -> Loaded:
    """Loads a model from a folder or by its hub id; callers that ask for the same one share it as long as any holds it.

    Only safetensors and GGUF are read, and no code of the model repository is run. `token` is the hub's, None the
    stored one.

    Raises:
        ModelLoadError: If there is no such model, or it needs pickled weights or its own code.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    # half precision is slow on most processors, and the precision of the saved weights may not suit the device
    dtype = dtype or ("float32" if device == "cpu" else "auto")
    key = (auto_class, name, device, dtype, revision)
    with _loading:
        loaded = _loaded.get(key)
        if loaded is None:
            missing = missing_model(name)
            if missing is not None:  # no hub has it, and to ask one takes long
                raise ModelLoadError(f'the model "{name}" cannot be loaded: {missing}', hint=_HINT)
            try:
                with announce(f"loading {Path(name).name}"):
                    loaded = _read(
                        auto_class, name, device=device, dtype=dtype, revision=revision, token=token
                    )
            except _FAILURES as error:
                reason = first_line(str(error)) or "no reason given"
                raise ModelLoadError(
                    f'the model "{name}" cannot be loaded: {type(error).__name__}: {reason}',
                    hint=_HINT,
                ) from error
            _loaded[key] = loaded
        return loaded


@contextmanager
def _bar_if_it_takes_long(name: str) -> Iterator[None]:
    """Hides transformers' bar over the weights of a folder that are read in a moment."""
    weights = list(Path(name).glob("*.safetensors"))
    n_bytes = sum(file.stat().st_size for file in weights)
    hides = (
        bool(weights) and n_bytes < _READ_AT_ONCE and transformers_logging.is_progress_bar_enabled()
    )
    if hides:
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if hides:
            transformers_logging.enable_progress_bar()


def _read(
    auto_class: Any, name: str, *, device: str, dtype: str, revision: str | None, token: str | None
) -> Loaded:
    # "main" allows the hub's own conversion to safetensors for a repository with pickled weights only
    safe: dict[str, Any] = {
        "revision": revision or "main",
        "trust_remote_code": False,
        "token": token,
    }
    if name.endswith(".gguf"):
        safe["gguf_file"] = Path(name).name
        name = str(Path(name).parent)
    config = AutoConfig.from_pretrained(name, **safe)
    tokenizer = AutoTokenizer.from_pretrained(name, config=config, **safe)
    if device == "auto":
        safe["device_map"] = "auto"
    with _bar_if_it_takes_long(name):
        model, report = auto_class.from_pretrained(
            name, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **safe
        )
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])[:3]
        raise ValueError(f"weights are missing: {', '.join(missing)}")
    model = model.eval()
    if device != "auto":
        model = model.to(device)
    end_tokens = _end_tokens(model, tokenizer)
    loaded = Loaded(model, tokenizer, _context_length(config, tokenizer), end_tokens)
    if model.can_generate():
        # the penalties and cuts that a generation_config.json asks for would change the model's distribution
        model.generation_config = GenerationConfig(eos_token_id=end_tokens or None)
    return loaded


def _context_length(config: Any, tokenizer: Any) -> int:
    """Returns the most tokens that the model takes: what the tokenizer says, and no more than there are positions."""
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions and config.model_type in _OFFSET_POSITIONS:
        positions -= config.pad_token_id + 1
    limits = list[int]()
    for limit in (tokenizer.model_max_length, positions):
        if limit and 0 < limit < 10**9:
            limits.append(int(limit))
    return min(limits, default=512)


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    if not model.can_generate():
        return []
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else list(ends or [])
    end_of_text = tokenizer.eos_token_id
    if end_of_text is not None and end_of_text not in ends:
        ends.append(end_of_text)
    return ends
