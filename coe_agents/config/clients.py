"""Owns the step from a model's section of a configuration to its client; nobody is called."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from coe_agents.agents._requests.clients import create_model
from coe_agents.config.schema import AgentConfig, ModelSection
from coe_agents.redaction import redacted
from coe_agents.tinyworld import MODELS, model_folder

LOCAL_PROVIDERS = ("transformers", "tinyworld")
_Client = TypeVar("_Client")


def default_at_once(provider: str) -> int:
    """Returns how many questions are put at once to a server, or to a model in this process, unless told otherwise."""
    return 1 if provider in LOCAL_PROVIDERS else 8


class FieldError(ValueError):
    """A mistake in one field of a section."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def replicas_of(section: AgentConfig) -> list[AgentConfig]:
    """Returns a section for each address; the section itself where it has none."""
    return [section.model_copy(update={"base_url": [address]}) for address in section.base_url] or [section]


def create_chat_model(section: ModelSection, *, owner: str, defaults: Mapping[str, Any] | None = None) -> BaseChatModel:
    """Returns the chat model of a section, at its first address.

    Args:
        section: The agent's, or the clusterer's.
        owner: Who is to have it, for errors.
        defaults: Options of the model that hold unless the section has them.

    Raises:
        FieldError: If it cannot be made.
        ImportError: If a local model's packages are not installed.
    """
    options = {**(defaults or {}), **section.options}
    if section.provider in LOCAL_PROVIDERS:
        return _local(section, options, owner)
    if section.provider == "huggingface":
        raise FieldError(
            "provider",
            'a pipeline of "huggingface" gives one sample a request and no log-probabilities. '
            'Set provider = "transformers"; it runs the same models',
        )
    key = _key(section, owner)
    options |= _access(section, key)
    name = f"{section.provider}:{section.model}"
    return _made(lambda: create_model(name, options), key=key, owner=owner, lists="init_chat_model")


def create_embeddings(section: ModelSection, *, owner: str) -> Embeddings:
    """Returns the embeddings of a section; those of "huggingface" load their model when they are made.

    Raises:
        FieldError: If they cannot be made.
        ImportError: If langchain is not installed.
    """
    try:
        from langchain.embeddings import init_embeddings
    except ModuleNotFoundError as error:
        raise ImportError(f'the embeddings of {owner} need langchain; pip install "coe-agents[openai]"') from error
    key = _key(section, owner)
    options = {**section.options, **_access(section, key)}
    if section.provider == "openai" and section.base_url:
        # or the client would send numbers of tokens, in an encoding that it downloads
        options.setdefault("check_embedding_ctx_length", False)

    def create() -> Embeddings:
        return init_embeddings(section.model, provider=section.provider, **options)

    return _made(create, key=key, owner=owner, lists="init_embeddings")


def _local(section: ModelSection, options: Mapping[str, Any], owner: str) -> BaseChatModel:
    for field in ("base_url", "api_key_env"):
        if getattr(section, field):
            raise FieldError(
                field,
                f'"base_url" and "api_key_env" go with a server; {owner} is of the provider '
                f'"{section.provider}". Set provider = "openai" for a server that speaks its protocol',
            )
    from coe_agents.backends import ChatTransformers

    if section.provider == "tinyworld" and section.model not in MODELS:
        raise FieldError(
            "model", f'the models of tinyworld are {", ".join(MODELS)}; {owner} asks for "{section.model}"'
        )
    model = str(model_folder(section.model)) if section.provider == "tinyworld" else section.model
    try:
        return ChatTransformers(model, **options)
    except (TypeError, ValidationError) as error:
        raise FieldError("options", f"{owner} cannot be made: {_described(error)}") from error


def _access(section: ModelSection, key: str | None) -> dict[str, str]:
    """Returns the options that lead to the server, and in."""
    access: dict[str, str] = {}
    if section.base_url:
        access["base_url"] = section.base_url[0]
        access["api_key"] = "none"  # or the client would send the user's own key there
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
        raise FieldError("api_key_env", f"{variable}; it holds blanks or characters that no key has. Export it anew")
    return key


def _made(create: Callable[[], _Client], *, key: str | None, owner: str, lists: str) -> _Client:
    """Calls `create`; a wrong provider or option is a mistake of the file, and LangChain's function lists them."""
    try:
        return create()
    except Exception as error:
        field = "options" if isinstance(error, ValidationError | TypeError) else "provider"
        described = _described(error)
        if field == "provider" and isinstance(error, ValueError):
            described += f' "openai" suits any server of its protocol; {lists} of LangChain lists the others'
        message = redacted(f"{owner} cannot be made: {described}", {key} if key else ())
        raise FieldError(field, message) from error


def _described(error: Exception) -> str:
    """Returns what is wrong, on one line; pydantic's own message would quote what was given, keys and all."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_input=False, include_context=False, include_url=False)
        return "; ".join(".".join(["options", *map(str, fault["loc"])]) + f": {_plain(fault)}" for fault in faults)
    # LangChain goes on with a list of its providers
    return " ".join(re.split(r"\n\n|\nSupported", str(error))[0].split())


def _plain(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "extra_forbidden":
        return "there is no such option. Leave it out"
    return str(fault["msg"]).removeprefix("Value error, ")
