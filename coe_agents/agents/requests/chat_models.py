"""Owns the preparation of chat models: which are rejected, their settings, and the address of their server."""

from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding

from coe_agents.checks import instance, number, one_of, require
from coe_agents.types import Fields, JsonObject

_SHIPPED = "tinyworld"
LOCAL_PROVIDERS = ("transformers", _SHIPPED)
"""The providers of models in this process."""
_ADDRESSES = (
    "openai_api_base",
    "azure_endpoint",
    "anthropic_api_url",
    "base_url",
    "endpoint_url",
    "api_base",
)


def check_model(model: object) -> None:
    """Refuses what cannot be sampled, by a TypeError or ValueError."""
    if not isinstance(model, BaseChatModel | str):
        raise TypeError(
            f'"model" in ModelAgent must be a chat model or "provider:model"; got {type(model).__name__}. '
            "Pass one model that nothing is bound to, with its settings as its own fields; put a proxy in front of "
            "several servers of it"
        )
    if isinstance(model, str):
        _check_name(model)
        return
    wrapped = getattr(model, "llm", None)
    if any(kind.__name__ == "HuggingFacePipeline" for kind in type(wrapped).__mro__):
        name = getattr(wrapped, "model_id", None) or "folder or hub id"
        raise _pipeline_error("a HuggingFacePipeline", str(name))


def _check_name(model: str) -> None:
    provider, colon, name = model.partition(":")
    if provider == "huggingface":
        raise _pipeline_error(f'"{model}"', name)
    if provider in LOCAL_PROVIDERS and name:
        if provider == _SHIPPED:
            shipped_model(name, where=f'"model" in ModelAgent, after "{_SHIPPED}:",')
        return
    is_installed = colon and provider.isidentifier() and find_spec(f"langchain_{provider}")
    if not is_installed:
        _check_provider(model)


def _check_provider(name: str) -> None:
    """Refuses a name whose provider LangChain does not know; it knows that of "gpt-5-mini" without being given it."""
    try:
        load_model(name)
    except UnknownProviderError:
        raise
    # whatever a client raises: what it lacks, such as a key, is reported when it is asked
    except Exception:
        return


def _pipeline_error(got: str, name: str) -> ValueError:
    return ValueError(
        f'"model" in ModelAgent must give several samples and their log-probabilities; got {got}, which keeps one of '
        "n sequences, has neither log-probabilities nor async, and may repeat the prompt. Load the same model with "
        f'coe_agents.backends.ChatTransformers("{name}")'
    )


class UnknownProviderError(ValueError):
    """A model's name does not say whose it is."""


def load_model(name: str, **options: Any) -> BaseChatModel:
    """Returns the chat model of a name, by which every part of this package knows it.

    Names are "provider:model", for a provider of LangChain's `init_chat_model`; "transformers:FOLDER", or a hub id
    in place of the folder, for `ChatTransformers`, whose weights are read at the first call; and "tinyworld:tiny-llama"
    for a model that comes with the package. A server with OpenAI's protocol has the provider "openai", and the address
    of `base_url` or of the variable `OPENAI_BASE_URL`.

    Args:
        name: The name.
        **options: Of the model's class, such as `temperature`, `max_tokens` or `base_url`.

    Raises:
        TypeError: If `name` is not a string.
        ValueError: If its provider is not known, or an option cannot work.
        ImportError: If a package that the provider needs is not installed.

    Example:
        >>> model = load_model("tinyworld:tiny-llama", max_tokens=8)
        >>> type(model).__name__, model.max_tokens
        ('ChatTransformers', 8)
    """
    advice = 'Write "openai:gpt-5-mini", or "transformers:FOLDER"'
    instance(name, str, '"name" of load_model', what="a string", advice=advice)
    provider, _, place = name.partition(":")
    if provider in LOCAL_PROVIDERS and place:
        from coe_agents.backends import ChatTransformers

        if provider == _SHIPPED:
            place = shipped_model(place, where=f'"name" of load_model, after "{_SHIPPED}:",')
        return ChatTransformers(place, **options)
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError as error:
        raise ImportError(
            f'the model "{name}" needs langchain; pip install "coe-agents[openai]"'
        ) from error
    try:
        model: BaseChatModel = init_chat_model(name, **options)
    except ValueError as error:
        if "infer model provider" in str(error):
            raise UnknownProviderError(
                f'a model must be named as "provider:model", such as "openai:gpt-5-mini"; got "{name}", whose provider '
                'is not known. Write it in front; "transformers:FOLDER" is a model in this process'
            ) from None
        raise
    check_model(model)
    return model


def shipped_model(name: str, *, where: str) -> str:
    """Returns the folder of a chat model that comes with the package; `where` says in the error what names it."""
    folders = _shipped_folders()
    names = sorted(template.parent.name for template in folders.glob("*/chat_template.jinja"))
    one_of(name, where, names)
    return str(folders / name)


def _shipped_folders() -> Path:
    return Path(str(resources.files("coe_agents"))) / "tinyworld" / "models"


def is_shipped(model: object) -> bool:
    """Returns whether a chat model, or its name, is one that comes with the package."""
    if isinstance(model, str):
        return model.partition(":")[0] == _SHIPPED
    folder = getattr(model, "model", None)
    return isinstance(folder, str) and Path(folder).parent == _shipped_folders()


def bind_tools(model: BaseChatModel, tools: Sequence[Fields]) -> tuple[BaseChatModel, Fields]:
    """Returns the model to call, and the options of a call with which it is shown tools, in its provider's own way."""
    try:
        bound = model.bind_tools([dict(tool) for tool in tools])
    except NotImplementedError as error:
        raise _no_tools(model) from error
    if isinstance(bound, BaseChatModel):
        return bound, {}
    if isinstance(bound, RunnableBinding) and isinstance(bound.bound, BaseChatModel):
        return bound.bound, bound.kwargs
    raise _no_tools(model)


def check_tools(model: BaseChatModel) -> None:
    """Refuses, by a TypeError, a model that cannot be shown tools."""
    if type(model).bind_tools is BaseChatModel.bind_tools:
        raise _no_tools(model)


def _no_tools(model: BaseChatModel) -> TypeError:
    return TypeError(
        f'"model" in ModelAgent must take tools ("bind_tools"); got {type(model).__name__}, which takes none. '
        'Omit "tools", or pass another model'
    )


def without_input(error: ValueError) -> ValueError:
    """Returns an error of pydantic's without its input, which may hold keys; any other error as it is."""
    read_faults = getattr(error, "errors", None)
    if not callable(read_faults):
        return error
    faults = list[str]()
    for fault in read_faults(include_input=False, include_context=False, include_url=False):
        place = ".".join(str(part) for part in fault["loc"]) or "the model"
        message = str(fault["msg"]).removeprefix("Value error, ")  # pydantic's words
        faults.append(f"{place}: {message}")
    return ValueError(f"the model cannot be made; {'; '.join(faults)}")


def without_streaming(model: BaseChatModel) -> JsonObject:
    """Returns the settings with which a model streams nothing; one that streams by itself would not know the first."""
    settings = JsonObject(disable_streaming=True)
    if "streaming" in type(model).model_fields:
        settings["streaming"] = False
    return settings


def prepare(model: BaseChatModel, wanted: Fields) -> BaseChatModel:
    """Returns a copy of `model` with the settings that its class has fields for; cache and streaming are off.

    So are the retries of ChatOpenAI's clients, which were made with the model, so that no field changes them.
    """
    fields = type(model).model_fields
    settings = JsonObject()
    for name, value in wanted.items():
        if name in fields and value is not None:
            settings[name] = value
    settings["cache"] = False
    settings |= without_streaming(model)
    if "n" in fields:
        settings["n"] = fields["n"].default  # requests say how many they want

    for root, used in (("root_client", "client"), ("root_async_client", "async_client")):
        client = getattr(model, root, None)
        if client is not None and hasattr(client, "with_options"):
            without_retries = client.with_options(max_retries=0)
            settings[root] = without_retries
            settings[used] = without_retries.chat.completions
    return model.model_copy(update=settings)


def read_price(price: Mapping[str, float] | None) -> dict[str, float] | None:
    """Returns the price of a million tokens that a user gives, once it is known to be one."""
    if price is None:
        return None
    where = '"price_per_million" of ModelAgent'
    must = f'{where} must have the keys "input" and "output"'
    require(set(price) == {"input", "output"}, must, [*price], "Name the price of each")
    for kind, amount in price.items():
        number(amount, f"{where}, {kind}", least=0, advice="0 for a model that costs nothing")
    return dict(price)


def address_of(model: BaseChatModel) -> str:
    """Returns the address of the model's server, without user and password; "" where it has none."""
    holders: list[tuple[object, str]] = [(model, name) for name in _ADDRESSES]
    holders.append((getattr(model, "root_client", None), "base_url"))
    holders += [(getattr(model, "llm", None), name) for name in _ADDRESSES]
    for holder, name in holders:
        address = getattr(holder, name, None)
        if address:
            parts = urlsplit(str(address))
            _, _, host = parts.netloc.rpartition("@")
            path = parts.path.rstrip("/")
            return urlunsplit((parts.scheme, host, path, "", ""))
    return ""


def client_name_of(model: object) -> str | None:
    """Returns the name of a model by the fields of its client; None where it has none."""
    for field in ("model_name", "model"):
        name = getattr(model, field, None)
        if isinstance(name, str) and name:
            return name
    return None


def free_name(model: object, taken: Collection[str]) -> str:
    """Returns a name for a model, or "provider:model": the last part of its own, with a number where it is taken."""
    full = model
    if not isinstance(full, str):
        full = client_name_of(model) or type(model).__name__
    _, _, behind_provider = full.partition(":")
    name = behind_provider or full
    _, _, name = name.rstrip("/").rpartition("/")
    name = name.replace(":", "-").replace("|", "-").lstrip("_") or "model"

    free = name
    number = 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
