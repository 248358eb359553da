"""Owns the step from a model section of a configuration to its client, and the file for named models."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from coe_agents.agents.requests.chat_models import (
    LOCAL_PROVIDERS,
    free_name,
    load_model,
    shipped_model,
)
from coe_agents.config.schema import TINYWORLD, ModelSection
from coe_agents.errors import ConfigurationError
from coe_agents.extensions import did_you_mean
from coe_agents.text import as_sentence, redact

_Client = TypeVar("_Client")


def default_at_once(provider: str) -> int:
    """Returns the default number of concurrent questions to a server (8) or to a model in this process (1)."""
    return 1 if provider in LOCAL_PROVIDERS else 8


def is_served(section: ModelSection) -> bool:
    """Returns whether the model of a section is behind a server, not in this process."""
    return section.provider not in LOCAL_PROVIDERS


class FieldError(ValueError):
    """A mistake in one field of a section; "options.name" is a key of its options."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def create_chat_model(
    section: ModelSection, *, owner: str, defaults: Mapping[str, Any] | None = None
) -> BaseChatModel:
    """Returns the chat model of a section; the section's options override `defaults`."""
    options = {**(defaults or {}), **section.options}
    if section.provider in LOCAL_PROVIDERS:
        return _local(section, options, owner)
    if section.provider == "huggingface":
        raise FieldError(
            "provider",
            'a pipeline of "huggingface" returns one sample per request and no log-probabilities. '
            'Set provider = "transformers", which runs the same models',
        )
    name = f"{section.provider}:{section.model}"
    return _connect(section, owner, options, partial(load_model, name), lists="init_chat_model")


def create_embeddings(section: ModelSection, *, owner: str) -> Embeddings:
    """Returns the embeddings of a section; no model is loaded yet."""
    options = dict(section.options)
    if section.provider == "huggingface":
        from coe_agents.backends.local_embeddings import LocalEmbeddings

        local = partial(LocalEmbeddings, section.model)
        return _connect(section, owner, options, local, lists="init_embeddings")
    try:
        from langchain.embeddings import init_embeddings
    except ModuleNotFoundError as error:
        raise ImportError(
            f'the embeddings of {owner} need langchain; pip install "coe-agents[openai]"'
        ) from error
    if section.provider == "openai" and section.base_url:
        # otherwise the client would send token ids, in an encoding that it downloads
        options.setdefault("check_embedding_ctx_length", False)
    create = partial(init_embeddings, section.model, provider=section.provider)
    return _connect(section, owner, options, create, lists="init_embeddings")


def _local(section: ModelSection, options: Mapping[str, Any], owner: str) -> BaseChatModel:
    for field in ("base_url", "api_key_env"):
        if getattr(section, field):
            raise FieldError(
                field,
                f'"base_url" and "api_key_env" are for servers; {owner} has the provider "{section.provider}". '
                'Omit them, or set provider = "openai" for a server with its protocol',
            )
    from coe_agents.backends import ChatTransformers

    model = section.model
    if section.provider == "tinyworld":
        try:
            model = shipped_model(model, where=f'"model" of {owner}')
        except ValueError as error:
            raise FieldError("model", str(error)) from error
    try:
        return ChatTransformers(model, **options)
    except (TypeError, ValidationError) as error:
        raise FieldError("options", f"{owner} cannot be created: {_describe(error)}") from error


def _connect(
    section: ModelSection,
    owner: str,
    options: Mapping[str, Any],
    create: Callable[..., _Client],
    *,
    lists: str,
) -> _Client:
    """Calls `create` with the options, the server's address and its key; `lists` is LangChain's function.

    An invalid provider or option becomes an error of its field.
    """
    # without a key of its own for an address, the client would send the user's own key there
    access = dict[str, str]()
    if section.base_url:
        access = {"base_url": section.base_url, "api_key": "none"}
    secrets = set[str]()
    if section.api_key_env is not None:
        try:
            access["api_key"] = read_key(section.api_key_env, f" of {owner}")
        except ValueError as error:
            raise FieldError("api_key_env", str(error)) from error
        secrets.add(access["api_key"])
    try:
        return create(**{**options, **access})
    except Exception as error:
        field = "options" if isinstance(error, ValidationError | TypeError) else "provider"
        message = f"{owner} cannot be created: {_describe(error)}"
        if field == "provider" and isinstance(error, ValueError):
            # LangChain's message lists its providers
            _, _, listed = str(error).partition("\nSupported providers")
            providers = [*LOCAL_PROVIDERS, *re.findall(r"[\w-]+", listed)]
            near = did_you_mean(section.provider, providers)
            message = as_sentence(message)
            message += f' Use "openai" for any server with its protocol; see {lists} of LangChain for the others'
            if near:
                message += f". {near}"
        raise FieldError(field, redact(message, secrets)) from error


def _describe(error: Exception) -> str:
    """Returns the error on one line; pydantic's own message would quote the input, including keys."""
    if not isinstance(error, ValidationError):
        # LangChain's message continues with a list of its providers
        message, *_ = re.split(r"\n\n|\nSupported", str(error))
        return " ".join(message.split())
    faults = []
    for fault in error.errors(include_input=False, include_context=False, include_url=False):
        message = str(fault["msg"]).removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown option. Omit it"
        place = ".".join(["options", *map(str, fault["loc"])])
        faults.append(f"{place}: {message}")
    return "; ".join(faults)


_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def read_key(variable: str, whose: str = "") -> str:
    """Returns the key that an environment variable holds, else a ValueError; `whose` follows the variable in messages.

    What was given as the name is not shown where it may be the key itself: names of variables are capitals, digits and
    "_" by custom; keys rarely are.
    """
    key = os.environ.get(variable, "")
    if not key.strip() and _VARIABLE.fullmatch(variable) is None:
        got = "got text that is not shown, as it may be the key itself"
        advice = "Put the key into a variable, and name that"
        raise ValueError(f"must be the NAME of an environment variable{whose}; {got}. {advice}")
    must = f'the environment variable "{variable}"{whose} must hold a key'
    if not key.strip():
        raise ValueError(f"{must}; it is not set. Export it")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            f"{must}; it has blanks or other characters that no key contains. Export it again"
        )
    return key


EXAMPLES = (
    "transformers:Qwen/Qwen2.5-1.5B-Instruct",
    "transformers:HuggingFaceTB/SmolLM2-1.7B-Instruct",
)
"""The models of a file for which none are named: they need no server and no key."""
SHORT = 64
"""The most tokens of a short answer: a name, a number or a few words, with a sentence around it."""
_KEY = "OPENAI_API_KEY"
_HEAD = """\
# coe-agents ask "QUESTION" --config FILE: these models are asked, and answer only where each is sure and they agree.
# coe-agents doctor --config FILE tries each model. Every field is in examples/coe.toml of the repository.
"""
_OF_SERVERS = """\
# base_url = "http://127.0.0.1:8000/v1"   # of a server with OpenAI's protocol, such as vLLM
# api_key_env = "MY_KEY"                  # the NAME of the variable that holds the server's key
"""
_SHORT = 'kind = "short"                            # names, numbers, a few words; or "sentences", with a "judge"'
_POLICY = """
[policy]
kind = "regime"                           # answers in consensus only
# actions = { conflict = "escalate" }     # what to do where the models disagree; "abstain" unless given
"""
_OF_TINYWORLD = """
[clusterer]
kind = "entailment"                       # tinyworld's own; its models are asked the bare question
model = "tinyworld"
"""


def models_to_toml(
    models: Sequence[str],
    *,
    n_samples: int = 5,
    answers: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    system: str | None = None,
) -> str:
    """Returns the text of a configuration file that asks these models, each named as "provider:model".

    `answers` are "short" unless given, and of tinyworld's models alone sentences: these are asked the bare question,
    and compared by tinyworld's entailment model. Of other "sentences" the first model is the judge that is not of
    tinyworld. Those of openai are asked at `OPENAI_BASE_URL`, if it is set. Unless `max_tokens` is given, short answers
    of a model in this process have at most `SHORT`: it waits for each token. At servers a limit would often cut off
    what a model thinks before it answers, which counts there.

    Raises:
        ConfigurationError: If a name has no provider.

    Example:
        >>> [line for line in models_to_toml(["openai:gpt-5-mini"]).splitlines() if line.startswith("model")]
        ['model = "gpt-5-mini"']
    """
    server = _server_of_openai()
    is_bare = _is_bare(models, answers)
    answers = answers or "short"
    is_short = is_bare or answers == "short"
    text = _HEAD
    clients = list[tuple[str, str]]()
    names: set[str] = set()
    for place, model in enumerate(models):
        provider, separator, name = model.partition(":")
        if not (provider and separator and name):
            message = f'a model must be named as "provider:model"; got {model!r}'
            hint = "Write openai:gpt-5-mini, or transformers:FOLDER for a model in this process"
            raise ConfigurationError(message, hint=hint)
        agent = free_name(model, names)
        names.add(agent)

        fields = {"provider": provider, "model": name}
        if provider == "openai":
            fields.update(server)
        client = [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
        clients.append((provider, ", ".join(client)))

        options = {"max_tokens": max_tokens, "temperature": temperature, "system_prompt": system}
        if max_tokens is None and is_short and provider in LOCAL_PROVIDERS:
            options["max_tokens"] = SHORT
        lines = ["", "[[agents]]", f"name = {json.dumps(agent)}", *client]
        lines.append(f"n_samples = {n_samples}")
        for field, value in options.items():
            if value is not None:
                lines.append(f"{field} = {json.dumps(value, ensure_ascii=False)}")
        for line in lines:
            text += f"{line}\n"
        if place == 0 and "base_url" not in fields and provider != TINYWORLD:
            text += _OF_SERVERS

    text += _OF_TINYWORLD if is_bare else _answers_section(answers, clients)
    return text + _POLICY


def _server_of_openai() -> dict[str, str]:
    """Returns the fields of the server that the environment names for models of openai; none if it names none."""
    address = os.environ.get("OPENAI_BASE_URL")
    if not address:
        return {}
    server = {"base_url": address}
    if os.environ.get(_KEY):
        server["api_key_env"] = _KEY
    return server


def _is_bare(models: Sequence[str], answers: str | None) -> bool:
    """Returns whether all models are of tinyworld, which answer nonsense to anything but the bare question."""
    providers = {model.partition(":")[0] for model in models}
    return providers == {TINYWORLD} and answers in (None, "sentences")


def _answers_section(answers: str, clients: Sequence[tuple[str, str]]) -> str:
    """Returns how answers are asked for; `clients` are the providers of the models, with the fields that name each."""
    if answers == "sentences":
        able = [client for provider, client in clients if provider != TINYWORLD]
        return f'\n[answers]\nkind = "sentences"\njudge = {{ {able[0]} }}\n'
    if answers == "mathematics":
        return '\n[answers]\nkind = "mathematics"\n'
    return f"\n[answers]\n{_SHORT}\n"
