"""Owns `LocalEmbeddings`: a sentence-transformers model in this process, which is loaded when it is first used."""

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from coe_agents.activity import announce
from coe_agents.errors import ModelLoadError
from coe_agents.files import missing_model
from coe_agents.text import first_line

_LOADING = threading.Lock()
_PACKAGES = ("langchain_huggingface", "sentence_transformers")


class LocalEmbeddings(Embeddings):
    """LangChain's `HuggingFaceEmbeddings`, which would load their model at once.

    To load it may ask the hub, and may run code of its folder. Who only checks a configuration does neither.

    Args:
        model: A folder, or a hub id.
        options: Of `HuggingFaceEmbeddings`.

    Raises:
        ImportError: If a package is not installed.
        TypeError: If there is no such option.
    """

    def __init__(self, model: str, **options: Any) -> None:
        for package in _PACKAGES:
            if find_spec(package) is None:
                raise ImportError(
                    f'embeddings in this process need {package}; pip install "coe-agents[embeddings]"'
                )
        from langchain_huggingface import HuggingFaceEmbeddings

        for name in options:
            if name not in HuggingFaceEmbeddings.model_fields:
                raise TypeError(f"options.{name}: unknown option. Omit it")
        self.model = model
        self.options = options
        self._create = HuggingFaceEmbeddings
        self._loaded: Embeddings | None = None

    def load(self) -> Embeddings:
        """Returns the embeddings with their model, loaded at the first call.

        Raises:
            ModelLoadError: If there is no such model, or it cannot be loaded with these options.
        """
        with _LOADING:
            if self._loaded is None:
                missing = missing_model(self.model)
                if missing is not None:
                    raise self._error(missing)
                try:
                    with announce(f"loading {Path(self.model).name}"):
                        self._loaded = self._create(model_name=self.model, **self.options)
                except Exception as error:  # whatever the model's code raises
                    reason = first_line(str(error)) or "no reason given"
                    raise self._error(f"{type(error).__name__}: {reason}") from error
            return self._loaded

    def _error(self, why: str) -> ModelLoadError:
        return ModelLoadError(
            f'the embeddings "{self.model}" cannot be loaded: {why}',
            hint="Give a folder or a hub id of a sentence-transformers model, and options that it takes",
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.load().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.load().embed_query(text)
