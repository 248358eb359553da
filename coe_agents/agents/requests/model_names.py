"""Owns which models are one, as far as is known: whoever gave a message has no vote on it."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableBinding, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from coe_agents.types import JsonObject

_SAMPLING = frozenset(
    ("temperature", "top_p", "top_k", "seed", "n", "max_tokens", "logprobs", "stream", "streaming")
)
_NAMES_IN_REPLIES = (
    "model_name", "model", "model_id", "model_version", "modelName", "modelId", "modelVersion",
)  # fmt: skip
"""The keys of a message's `response_metadata` by which providers name the model that wrote it."""
_LATEST = re.compile(r"[-:]latest$|:free$|^(?:us|us-gov|eu|apac|jp|au|global)\.(?=\w+\.)")
"""What names no other model: "latest", a price, and regions of Bedrock, as in "us.anthropic.claude-sonnet-4-5"."""
_MODELS = "coe_models"
"""The key under which `name_models` writes."""
_REPEATED = re.compile(r"(.+?)\1+")
_LONGEST_NAME = 1_000
_DATE = re.compile(
    r"[-@:](preview-|exp-)?(\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{8}|\d{6}|\d{4}|0\d\d)$"
)
"""The end of the name of a dated model, such as "gpt-5-mini-2025-08-07", which answers for "gpt-5-mini"."""


class ModelName(NamedTuple):
    """The name of a model at its provider, which is None where it is not known."""

    provider: str | None
    name: str


NAMELESS = ModelName(None, "")
"""The name of a model whose class tells none: it may be each such model."""


def is_same_model(model: object, other: object) -> bool:
    """Returns whether two models are one: one object, or one name at one provider; each a model or its name.

    Neither settings of sampling nor addresses make another model. An undated name is that of each dated one, which may
    answer for it. Of a class that says nothing of its models, each object is one.
    """
    if model is other:
        return True
    name = name_of(model)
    other_name = name_of(other)
    if NAMELESS in (name, other_name):
        return {name, other_name} <= {None, NAMELESS}
    if name is not None and other_name is not None:
        is_same_provider = _may_be_one_provider(model, name, other, other_name)
        return is_same_provider and _is_same_name(name.name, other_name.name)
    if not isinstance(model, BaseChatModel) or type(model) is not type(other):
        return False
    identity = _identity(model)
    return bool(identity) and identity == _identity(other)


def name_of(model: object) -> ModelName | None:
    """Returns the name of a model, also of one that options are bound to; None if its class tells none."""
    if isinstance(model, ModelName):
        return model
    if isinstance(model, str):
        provider, colon, name = model.partition(":")
        return ModelName(provider, name) if colon else ModelName(None, model)
    options = JsonObject()
    while isinstance(model, RunnableBinding):
        options = {**model.kwargs, **options}
        model = model.bound
    describe = getattr(model, "_get_ls_params", None)
    if describe is None:
        return None
    described = describe(model=options["model"]) if "model" in options else describe()
    name = described.get("ls_model_name")
    if not isinstance(name, str) or not name:
        return None
    return ModelName(described.get("ls_provider"), name)


def names_in(message: AIMessage) -> list[ModelName]:
    """Returns the names that a message gives of the model that wrote it.

    A message that was merged of chunks may have a name several times over, since LangChain appends it. Other names were
    written by `name_models`.
    """
    metadata = message.response_metadata
    provider = metadata.get("model_provider")
    if not isinstance(provider, str):
        provider = None
    names = set[ModelName]()
    for key in _NAMES_IN_REPLIES:
        name = metadata.get(key)
        if isinstance(name, str) and name:
            names.add(ModelName(provider, name))
            if repeated := _REPEATED.fullmatch(name[:_LONGEST_NAME]):
                names.add(ModelName(provider, repeated[1]))

    written = metadata.get(_MODELS)
    if not isinstance(written, list):
        written = []
    for pair in written:
        match pair:
            case [str() | None as where, str() as name]:
                names.add(ModelName(where, name))
    return list(names)


def name_models(message: AIMessage, models: Iterable[object]) -> None:
    """Writes into a message which models may have given it, where it does not say so: for another process."""
    names = {name_of(model) or NAMELESS for model in models}
    if not names.issubset(names_in(message)):
        written = sorted([list(name) for name in names], key=str)
        message.response_metadata = {**message.response_metadata, _MODELS: written}


def models_in(model: object) -> list[object]:
    """Returns the models one of which answers where this one is asked: its fallbacks, too."""
    inner = model
    while isinstance(inner, RunnableBindingBase):
        inner = inner.bound
    if not isinstance(inner, RunnableWithFallbacks):
        return [model]
    models = list[object]()
    for runnable in inner.runnables:
        models += models_in(runnable)
    return models


def _is_same_name(name: str, other: str) -> bool:
    name = _plain_name(name)
    other = _plain_name(other)
    # of two dates, each is a model of its own
    return name == other or _DATE.sub("", name) == other or name == _DATE.sub("", other)


def _plain_name(name: str) -> str:
    """Returns the last part of a name, in lower case, without what names no other model."""
    _, _, last = name.lower().rpartition("/")
    return _LATEST.sub("", last)


def _may_be_one_provider(
    model: object, name: ModelName, other: object, other_name: ModelName
) -> bool:
    if name.provider is None or other_name.provider is None or name.provider == other_name.provider:
        return True
    # a reply calls its provider otherwise than the model does: of Azure's "azure" it says "openai"
    if isinstance(model, ModelName) != isinstance(other, ModelName):
        return True
    # a provider's name is no word of LangChain's default, which makes one of the name of a class
    models = [part for part in (model, other) if isinstance(part, BaseChatModel)]
    return len(models) == 1 and type(models[0])._get_ls_params is BaseChatModel._get_ls_params


def _identity(model: Any) -> JsonObject:
    parameters = model._identifying_params.items()
    return {name: value for name, value in parameters if name not in _SAMPLING}
