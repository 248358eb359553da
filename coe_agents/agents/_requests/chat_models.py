"""Owns the preparation of chat models: which are rejected, their settings, and the address of their server."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, count
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding

_SAMPLING = frozenset(("temperature", "top_p", "top_k", "seed", "n", "max_tokens", "logprobs", "stream", "streaming"))
_ADDRESSES = ("openai_api_base", "azure_endpoint", "anthropic_api_url", "base_url", "endpoint_url", "api_base")


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
        raise _pipeline_error("a HuggingFacePipeline", str(getattr(wrapped, "model_id", None) or "folder or hub id"))


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
        raise ImportError(f'the model "{name}" needs langchain; pip install "coe-agents[openai]"') from error
    model: BaseChatModel = init_chat_model(name, **options)
    check_model(model)
    return model


def bind_tools(model: BaseChatModel, tools: Sequence[Mapping[str, Any]]) -> tuple[BaseChatModel, Mapping[str, Any]]:
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
    settings = {name: value for name, value in wanted.items() if name in fields and value is not None}
    if "n" in fields:
        settings["n"] = fields["n"].default  # requests say how many they want
    settings |= {"cache": False, "disable_streaming": True}
    for root, used in (("root_client", "client"), ("root_async_client", "async_client")):
        client = getattr(model, root, None)
        if client is not None and hasattr(client, "with_options"):
            settings[root] = client.with_options(max_retries=0)
            settings[used] = settings[root].chat.completions
    return model.model_copy(update=settings)


def is_same_model(given: BaseChatModel | str, model: BaseChatModel) -> bool:
    """Returns whether two models are one: one object, or what is asked for the same name at the same address.

    Settings of sampling make no other model. Of a class that says nothing of its models, each object is one.
    """
    if isinstance(given, str):
        known = model._get_ls_params()
        return given in (f"{known.get('ls_provider')}:{known.get('ls_model_name')}", known.get("ls_model_name"))
    if given is model or type(given) is not type(model):
        return given is model
    own = _identity(given)
    return bool(own) and own == _identity(model) and address_of(given) == address_of(model)


def _identity(model: BaseChatModel) -> dict[str, Any]:
    return {name: value for name, value in model._identifying_params.items() if name not in _SAMPLING}


def address_of(model: BaseChatModel) -> str:
    """Returns the address of the model's server, without user and password; "" where it has none."""
    given = [getattr(model, name, None) for name in _ADDRESSES]
    given.append(getattr(getattr(model, "root_client", None), "base_url", None))
    given += [getattr(getattr(model, "llm", None), name, None) for name in _ADDRESSES]
    parts = urlsplit(next((str(address) for address in given if address), ""))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def free_name(model: object, taken: set[str]) -> str:
    """Returns a name for a model, or "provider:model": the last part of its own, with a number where it is taken."""
    known = getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
    full = model if isinstance(model, str) else str(known)
    name = (full.partition(":")[2] or full).rstrip("/").rpartition("/")[2]
    name = name.replace(":", "-").replace("|", "-").lstrip("_") or "model"
    return next(free for free in chain([name], (f"{name}-{number}" for number in count(2))) if free not in taken)
