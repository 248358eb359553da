"""Owns the step from a model section of a configuration to its client; no server is called."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from coe_agents.agents._requests.clients import create_model
from coe_agents.config.schema import AgentConfig, ModelSection
from coe_agents.extensions import did_you_mean
from coe_agents.redaction import redact
from coe_agents.tinyworld import MODELS, model_folder

LOCAL_PROVIDERS = ("transformers", "tinyworld")
_Client = TypeVar("_Client")


def default_at_once(provider: str) -> int:
    """Returns the default number of concurrent questions to a server (8) or to a model in this process (1)."""
    return 1 if provider in LOCAL_PROVIDERS else 8


class FieldError(ValueError):
    """A mistake in one field of a section; "options.name" is a key of its options."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def replicas_of(section: AgentConfig) -> list[AgentConfig]:
    """Returns a section for each address; the section itself if it has no address."""
    return [section.model_copy(update={"base_url": [address]}) for address in section.base_url] or [section]


def create_chat_model(section: ModelSection, *, owner: str, defaults: Mapping[str, Any] | None = None) -> BaseChatModel:
    """Returns the chat model of a section, at its first address.

    Args:
        section: The section of an agent, a clusterer, an arbiter or a judge.
        owner: The owner of the model, for error messages.
        defaults: Options of the model that the section may override.

    Raises:
        FieldError: If it cannot be created.
        ImportError: If a local model's packages are not installed.
    """
    options = {**(defaults or {}), **section.options}
    if section.provider in LOCAL_PROVIDERS:
        return _local(section, options, owner)
    if section.provider == "huggingface":
        raise FieldError(
            "provider",
            'a pipeline of "huggingface" returns one sample per request and no log-probabilities. '
            'Set provider = "transformers", which runs the same models',
        )
    key = _key(section, owner)
    options |= _access(section, key)
    name = f"{section.provider}:{section.model}"
    return _create_client(
        lambda: create_model(name, options), provider=section.provider, key=key, owner=owner, lists="init_chat_model"
    )


def create_embeddings(section: ModelSection, *, owner: str) -> Embeddings:
    """Returns the embeddings of a section; those of "huggingface" load their model at once.

    Raises:
        FieldError: If they cannot be created.
        ImportError: If langchain is not installed.
    """
    try:
        from langchain.embeddings import init_embeddings
    except ModuleNotFoundError as error:
        raise ImportError(f'the embeddings of {owner} need langchain; pip install "coe-agents[openai]"') from error
    key = _key(section, owner)
    options = {**section.options, **_access(section, key)}
    if section.provider == "openai" and section.base_url:
        # otherwise the client would send token ids, in an encoding that it downloads
        options.setdefault("check_embedding_ctx_length", False)

    def create() -> Embeddings:
        return init_embeddings(section.model, provider=section.provider, **options)

    return _create_client(create, provider=section.provider, key=key, owner=owner, lists="init_embeddings")


def _local(section: ModelSection, options: Mapping[str, Any], owner: str) -> BaseChatModel:
    for field in ("base_url", "api_key_env"):
        if getattr(section, field):
            raise FieldError(
                field,
                f'"base_url" and "api_key_env" are for servers; {owner} has the provider "{section.provider}". '
                'Omit them, or set provider = "openai" for a server with its protocol',
            )
    from coe_agents.backends import ChatTransformers

    if section.provider == "tinyworld" and section.model not in MODELS:
        raise FieldError(
            "model",
            f'"model" of {owner} must be one of {", ".join(MODELS)} with provider = "tinyworld"; got "{section.model}"',
        )
    model = str(model_folder(section.model)) if section.provider == "tinyworld" else section.model
    try:
        return ChatTransformers(model, **options)
    except (TypeError, ValidationError) as error:
        raise FieldError("options", f"{owner} cannot be created: {_describe(error)}") from error


def _access(section: ModelSection, key: str | None) -> dict[str, str]:
    """Returns the options for the address and the key of the server."""
    access: dict[str, str] = {}
    if section.base_url:
        access["base_url"] = section.base_url[0]
        access["api_key"] = "none"  # otherwise the client would send the user's own key there
    if key:
        access["api_key"] = key
    return access


def _key(section: ModelSection, owner: str) -> str | None:
    if section.api_key_env is None:
        return None
    key = os.environ.get(section.api_key_env, "")
    variable = f'the environment variable "{section.api_key_env}" of {owner} must hold a key'
    if not key:
        raise FieldError("api_key_env", f"{variable}; it is not set. Export it")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FieldError(
            "api_key_env", f"{variable}; it has blanks or other characters that no key contains. Export it again"
        )
    return key


def _create_client(create: Callable[[], _Client], *, provider: str, key: str | None, owner: str, lists: str) -> _Client:
    """Calls `create`; an invalid provider or option becomes an error of its field. `lists` is LangChain's function."""
    try:
        return create()
    except Exception as error:
        field = "options" if isinstance(error, ValidationError | TypeError) else "provider"
        described = _describe(error)
        if field == "provider" and isinstance(error, ValueError):
            # LangChain's message lists its providers
            supported = re.findall(r"[\w-]+", str(error).partition("\nSupported providers")[2])
            near = did_you_mean(provider, [*LOCAL_PROVIDERS, *supported])
            described += f' Use "openai" for any server with its protocol; see {lists} of LangChain for the others'
            described += f". {near}" if near else ""
        message = redact(f"{owner} cannot be created: {described}", {key} if key else ())
        raise FieldError(field, message) from error


def _describe(error: Exception) -> str:
    """Returns the error on one line; pydantic's own message would quote the input, including keys."""
    if not isinstance(error, ValidationError):
        # LangChain's message continues with a list of its providers
        return " ".join(re.split(r"\n\n|\nSupported", str(error))[0].split())
    faults = []
    for fault in error.errors(include_input=False, include_context=False, include_url=False):
        message = str(fault["msg"]).removeprefix("Value error, ")
        is_unknown = fault["type"] == "extra_forbidden"
        place = ".".join(["options", *map(str, fault["loc"])])
        faults.append(f"{place}: {'unknown option. Omit it' if is_unknown else message}")
    return "; ".join(faults)
