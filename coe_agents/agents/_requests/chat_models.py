"""Owns the preparation of chat models: which are rejected, their settings, and the address of their server."""

import re
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, count
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableBinding

_SAMPLING = frozenset(
    ("temperature", "top_p", "top_k", "seed", "n", "max_tokens", "logprobs", "stream", "streaming")
)
_ADDRESSES = (
    "openai_api_base",
    "azure_endpoint",
    "anthropic_api_url",
    "base_url",
    "endpoint_url",
    "api_base",
)
_NAMES_IN_REPLIES = ("model_name", "model", "model_id", "modelId")
"""The keys of a message's `response_metadata` by which providers name the model that wrote it."""
_LATEST = re.compile(r"[-:]latest$")
_DATE = re.compile(
    r"[-@:](preview-|exp-)?(\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{8}|\d{6}|\d{4}|0\d\d)$"
)
"""The end of the name of a dated model, such as "gpt-5-mini-2025-08-07", which answers for "gpt-5-mini"."""


def check_model(model: object) -> None:
    """Refuses what cannot be sampled, by a TypeError or ValueError."""
    if not isinstance(model, BaseChatModel | str):
        raise TypeError(
            f'"model" in ModelAgent must be a chat model or "provider:model"; got {type(model).__name__}. '
            "Pass one model that nothing is bound to, with its settings as its own fields; put a proxy in front of "
            "several servers of it"
        )
    if isinstance(model, str):
        provider, colon, name = model.partition(":")
        if provider == "huggingface":
            raise _pipeline_error(f'"{model}"', name)
        if not (colon and provider.isidentifier() and find_spec(f"langchain_{provider}")):
            _check_provider(model)
        return
    wrapped = getattr(model, "llm", None)
    if any(kind.__name__ == "HuggingFacePipeline" for kind in type(wrapped).__mro__):
        raise _pipeline_error(
            "a HuggingFacePipeline", str(getattr(wrapped, "model_id", None) or "folder or hub id")
        )


def _check_provider(name: str) -> None:
    """Refuses a name whose provider LangChain does not know; it knows that of "gpt-5-mini" without being given it."""
    try:
        create_model(name)
    except Exception as error:  # whatever a client raises: what it lacks, such as a key, is reported when it is asked
        if "infer model provider" in str(error):
            raise ValueError(
                f'a model must be named as "provider:model", such as "openai:gpt-5-mini"; got "{name}", whose provider '
                'is not known. Write it in front; for a model in this process, pass "transformers:FOLDER" to ask, and '
                "coe_agents.backends.ChatTransformers(FOLDER) elsewhere"
            ) from None


def _pipeline_error(got: str, name: str) -> ValueError:
    return ValueError(
        f'"model" in ModelAgent must give several samples and their log-probabilities; got {got}, which keeps one of '
        "n sequences, has neither log-probabilities nor async, and may repeat the prompt. Load the same model with "
        f'coe_agents.backends.ChatTransformers("{name}")'
    )


def create_model(name: str, **options: Any) -> BaseChatModel:
    """Returns the chat model that LangChain's `init_chat_model` makes of "provider:model" with these options."""
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError as error:
        raise ImportError(
            f'the model "{name}" needs langchain; pip install "coe-agents[openai]"'
        ) from error
    model: BaseChatModel = init_chat_model(name, **options)
    check_model(model)
    return model


def bind_tools(
    model: BaseChatModel, tools: Sequence[Mapping[str, Any]]
) -> tuple[BaseChatModel, Mapping[str, Any]]:
    """Returns the model to call, and the options of a call with which it is shown tools, in its provider's own way."""
    try:
        bound = model.bind_tools([dict(tool) for tool in tools])
    except NotImplementedError as error:
        raise no_tools(model) from error
    if isinstance(bound, BaseChatModel):
        return bound, {}
    if isinstance(bound, RunnableBinding) and isinstance(bound.bound, BaseChatModel):
        return bound.bound, bound.kwargs
    raise no_tools(model)


def takes_tools(model: BaseChatModel) -> bool:
    return type(model).bind_tools is not BaseChatModel.bind_tools


def no_tools(model: BaseChatModel) -> TypeError:
    return TypeError(
        f'"model" in ModelAgent must take tools ("bind_tools"); got {type(model).__name__}, which takes none. '
        'Omit "tools", or pass another model'
    )


def without_input(error: ValueError) -> ValueError:
    """Returns an error of pydantic's without its input, which may hold keys; any other error as it is."""
    faults = getattr(error, "errors", None)
    if not callable(faults):
        return error
    faulty = [
        f"{'.'.join(map(str, fault['loc'])) or 'the model'}: {fault['msg']}"
        for fault in faults(include_input=False, include_context=False, include_url=False)
    ]
    return ValueError(f"the model cannot be made; {'; '.join(faulty)}")


def prepare(model: BaseChatModel, wanted: Mapping[str, Any]) -> BaseChatModel:
    """Returns a copy of `model` with the settings that its class has fields for; cache and streaming are off.

    So are the retries of ChatOpenAI's clients, which were made with the model, so that no field changes them.
    """
    fields = type(model).model_fields
    settings = {
        name: value for name, value in wanted.items() if name in fields and value is not None
    }
    if "n" in fields:
        settings["n"] = fields["n"].default  # requests say how many they want
    settings |= {"cache": False, "disable_streaming": True}
    for root, used in (("root_client", "client"), ("root_async_client", "async_client")):
        client = getattr(model, root, None)
        if client is not None and hasattr(client, "with_options"):
            settings[root] = client.with_options(max_retries=0)
            settings[used] = settings[root].chat.completions
    return model.model_copy(update=settings)


class ModelName(NamedTuple):
    """The name of a model at its provider, which is None where it is not known."""

    provider: str | None
    name: str


def is_same_model(given: object, other: object) -> bool:
    """Returns whether two models are one: one object, or one name at one provider; each a model or its name.

    Neither settings of sampling nor addresses make another model. An undated name is that of each dated one, which may
    answer for it. Of a class that says nothing of its models, each object is one.
    """
    if given is other:
        return True
    own, known = name_of(given), name_of(other)
    if own is not None and known is not None:
        return _is_same_name(own.name, known.name) and _may_be_one_provider(
            given, own, other, known
        )
    if not isinstance(given, BaseChatModel) or type(given) is not type(other):
        return False
    identity = _identity(given)
    return bool(identity) and identity == _identity(other)


def name_of(model: object) -> ModelName | None:
    """Returns the name of a model, also of one that options are bound to; None if its class tells none."""
    if isinstance(model, ModelName):
        return model
    if isinstance(model, str):
        provider, colon, name = model.partition(":")
        return ModelName(provider, name) if colon else ModelName(None, model)
    options = dict[str, Any]()
    while isinstance(model, RunnableBinding):
        options = {**model.kwargs, **options}
        model = model.bound
    read = getattr(model, "_get_ls_params", None)
    if read is None:
        return None
    known = read(**{key: options[key] for key in ("model",) if key in options})
    name = known.get("ls_model_name")
    return ModelName(known.get("ls_provider"), name) if isinstance(name, str) and name else None


def names_in(message: AIMessage) -> list[ModelName]:
    """Returns the names that a message gives of the model that wrote it."""
    stated = message.response_metadata
    provider = stated.get("model_provider")
    names = {stated.get(key) for key in _NAMES_IN_REPLIES}
    return [ModelName(provider, name) for name in names if isinstance(name, str) and name]


def _is_same_name(one: str, other: str) -> bool:
    names = [_LATEST.sub("", name.lower().rpartition("/")[2]) for name in (one, other)]
    undated = [_DATE.sub("", name) for name in names]
    # of two dates, each is a model of its own
    return names[0] == names[1] or undated[0] == names[1] or undated[1] == names[0]


def _may_be_one_provider(given: object, own: ModelName, other: object, known: ModelName) -> bool:
    if own.provider is None or known.provider is None or own.provider == known.provider:
        return True
    # what a reply says is no word of LangChain's default, which makes a provider of the name of a class
    named = [model for model in (given, other) if isinstance(model, BaseChatModel)]
    return len(named) == 1 and type(named[0])._get_ls_params is BaseChatModel._get_ls_params


def _identity(model: Any) -> dict[str, Any]:
    return {
        name: value for name, value in model._identifying_params.items() if name not in _SAMPLING
    }


def address_of(model: BaseChatModel) -> str:
    """Returns the address of the model's server, without user and password; "" where it has none."""
    given = [getattr(model, name, None) for name in _ADDRESSES]
    given.append(getattr(getattr(model, "root_client", None), "base_url", None))
    given += [getattr(getattr(model, "llm", None), name, None) for name in _ADDRESSES]
    parts = urlsplit(next((str(address) for address in given if address), ""))
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
    )


def free_name(model: object, taken: Collection[str]) -> str:
    """Returns a name for a model, or "provider:model": the last part of its own, with a number where it is taken."""
    known = (
        getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
    )
    full = model if isinstance(model, str) else str(known)
    name = (full.partition(":")[2] or full).rstrip("/").rpartition("/")[2]
    name = name.replace(":", "-").replace("|", "-").lstrip("_") or "model"
    return next(
        free
        for free in chain([name], (f"{name}-{number}" for number in count(2)))
        if free not in taken
    )
