"""Owns the step from a configuration to a graph."""

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coe_agents.agents import ModelAgent
from coe_agents.cli.config import (
    AgentConfig,
    CalibratedConfig,
    Config,
    GraphConfig,
    NormalizedClusterer,
    ThresholdConfig,
)
from coe_agents.clustering import BidirectionalEntailment, Clusterer, NormalizedMatch
from coe_agents.errors import ConfigurationError
from coe_agents.graph import create_coe_graph
from coe_agents.policy import CalibratedPolicy, Policy, RegimePolicy, ThresholdPolicy
from coe_agents.redaction import redacted
from coe_agents.tinyworld import (
    ENTAILMENT_MODEL,
    MODELS,
    model_folder,
    tinyworld_agents,
    tinyworld_clusterer,
    tinyworld_policy,
)

LOCAL_PROVIDERS = ("transformers", "tinyworld")
_ALIASES = {"solver": "coordination"}
_Part = TypeVar("_Part")


class _FieldError(ValueError):
    """A mistake in one field of a section."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def assemble(config: Config | None) -> Any:
    """Returns the uncompiled graph of a configuration, or of tinyworld without one; no model is loaded yet.

    Raises:
        ConfigurationError: If the parts do not fit together; the message has a line for each mistake.
    """
    if config is None:
        return create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy())
    parts: list[Any] = _all([partial(create, config) for create in (create_agents, create_clusterer, create_policy)])
    agents, clusterer, policy = parts
    try:
        return create_coe_graph(agents, clusterer=clusterer, policy=policy, **config.graph.model_dump())
    except ValueError as error:
        message = str(error)
        # the graph speaks of agents by name
        named = [i for i, agent in enumerate(config.agents) if f"{agent.name!r} came" in message]
        place = ("agents", named[-1], "name") if named else ("graph", *_field(message, GraphConfig))
        raise ConfigurationError(config.fault(message, *place)) from error


def create_agents(config: Config, *, n_samples: int | None = None) -> list[ModelAgent]:
    """Returns the agents of a configuration; with `n_samples`, that many from each whose temperature allows it.

    Raises:
        ConfigurationError: If one cannot be made.
    """
    return _all(
        [
            partial(_at, config, partial(_agent, agent, n_samples), AgentConfig, "agents", place)
            for place, agent in enumerate(config.agents)
        ]
    )


def create_clusterer(config: Config) -> Clusterer:
    """Returns the clusterer of a configuration.

    Raises:
        ConfigurationError: If it cannot be made.
    """
    return _at(config, lambda: _clusterer(config), type(config.clusterer), "clusterer")


def create_policy(config: Config) -> Policy:
    """Returns the policy of a configuration.

    Raises:
        ConfigurationError: If it cannot be made.
    """
    return _at(config, lambda: _policy(config), type(config.policy), "policy")


def _all(creates: Sequence[Callable[[], _Part]]) -> list[_Part]:
    """Calls each, so that all mistakes are told at once."""
    parts, faults = list[_Part](), list[str]()
    for create in creates:
        try:
            parts.append(create())
        except ConfigurationError as error:
            faults.append(str(error))
    if faults:
        raise ConfigurationError("\n".join(faults))
    return parts


def _at(config: Config, create: Callable[[], _Part], section: type[BaseModel], *place: str | int) -> _Part:
    """Calls `create`; wrong arguments, and packages that are missing, are a mistake of the file, at `place`."""
    try:
        return create()
    except ImportError as error:
        chosen = "provider" if section is AgentConfig else "kind"
        raise ConfigurationError(config.fault(str(error), *place, chosen)) from error
    except _FieldError as error:
        raise ConfigurationError(config.fault(str(error), *place, error.field)) from error
    except ValueError as error:
        message = str(error)
        raise ConfigurationError(config.fault(message, *place, *_field(message, section))) from error


def _field(message: str, section: type[BaseModel]) -> tuple[str, ...]:
    """Returns the section's field with whose name, in quotes, our errors begin."""
    found = re.match(r'"(\w+)"', message)
    name = _ALIASES.get(found[1], found[1]) if found else ""
    return (name,) if name in section.model_fields else ()


def _agent(config: AgentConfig, n_samples: int | None) -> ModelAgent:
    sampling = config.model_dump(exclude={"name", "provider", "model", "base_url", "api_key_env", "options"})
    if n_samples is not None:
        sampling["n_samples"] = n_samples if config.temperature > 0 else 1
    if config.provider in LOCAL_PROVIDERS:
        return _local(config, sampling)
    if config.provider == "huggingface":
        raise _FieldError(
            "provider",
            'a pipeline of "huggingface" gives one sample a request and no log-probabilities. '
            'Set provider = "transformers"; it runs the same models',
        )
    options, key = dict(config.options), _key(config)
    if config.base_url is not None:
        options["base_url"] = config.base_url
        options["api_key"] = "none"  # or the client would send the user's own key there
    if key:
        options["api_key"] = key
    agent = ModelAgent(config.name, f"{config.provider}:{config.model}", model_options=options, **sampling)
    try:
        agent.model()  # calls nobody; a wrong provider or option is a mistake of the file, not of the agent
    except Exception as error:
        described = redacted(_described(error), {key} if key else ())
        raise _FieldError(_blamed(error), f'agent "{config.name}" cannot be made: {described}') from error
    return agent


def _local(config: AgentConfig, sampling: dict[str, Any]) -> ModelAgent:
    for field in ("base_url", "api_key_env"):
        if getattr(config, field) is not None:
            raise _FieldError(
                field,
                f'"base_url" and "api_key_env" go with a server; agent "{config.name}" is of the provider '
                f'"{config.provider}". Set provider = "openai" for a server that speaks its protocol',
            )
    from coe_agents.backends import ChatTransformers

    if config.provider == "tinyworld" and config.model not in MODELS:
        raise _FieldError(
            "model", f'the models of tinyworld are {", ".join(MODELS)}; agent "{config.name}" asks for "{config.model}"'
        )
    model = str(model_folder(config.model)) if config.provider == "tinyworld" else config.model
    try:
        chat = ChatTransformers(model, **config.options)
    except (TypeError, ValidationError) as error:
        raise _FieldError("options", f'agent "{config.name}" cannot be made: {_described(error)}') from error
    return ModelAgent(config.name, chat, **sampling)


def _key(config: AgentConfig) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "")
    variable = f'the environment variable "{config.api_key_env}" of agent "{config.name}" must hold a key'
    if not key:
        raise _FieldError("api_key_env", f"{variable}; it is not set. Export it")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise _FieldError("api_key_env", f"{variable}; it holds blanks or characters that no key has. Export it anew")
    return key


def _blamed(error: Exception) -> str:
    return "options" if isinstance(error, ValidationError | TypeError) else "provider"


def _described(error: Exception) -> str:
    """Returns what is wrong, on one line; pydantic's own message would quote what was given, keys and all."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_input=False, include_context=False, include_url=False)
        return "; ".join(".".join(["options", *map(str, fault["loc"])]) + f": {_plain(fault)}" for fault in faults)
    first = " ".join(str(error).split("\n\n")[0].split())  # LangChain goes on with a list of its providers
    if _blamed(error) == "provider" and isinstance(error, ValueError):
        return f'{first} "openai" suits any server of its protocol; init_chat_model of LangChain lists the others'
    return first


def _plain(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "extra_forbidden":
        return "there is no such option. Leave it out"
    return str(fault["msg"]).removeprefix("Value error, ")


def _clusterer(config: Config) -> Clusterer:
    chosen = config.clusterer
    if isinstance(chosen, NormalizedClusterer):
        return NormalizedMatch()
    from coe_agents.backends import TransformersEntailment

    model = str(model_folder(ENTAILMENT_MODEL)) if chosen.model == "tinyworld" else chosen.model
    return BidirectionalEntailment(TransformersEntailment(model, device=chosen.device), strict=chosen.strict)


def _policy(config: Config) -> Policy:
    chosen = config.policy
    if isinstance(chosen, ThresholdConfig):
        return ThresholdPolicy(chosen.max_coe, otherwise=chosen.otherwise)
    if isinstance(chosen, CalibratedConfig):
        return _calibrated(config, chosen)
    return RegimePolicy(chosen.aleatoric_threshold, chosen.epistemic_threshold, actions=chosen.actions)


def _calibrated(config: Config, chosen: CalibratedConfig) -> CalibratedPolicy:
    try:
        policy = CalibratedPolicy.load(config.folder / chosen.path, otherwise=chosen.otherwise)
    except ConfigurationError as error:
        raise _FieldError("path", str(error)) from error
    clusterer = "NormalizedMatch" if isinstance(config.clusterer, NormalizedClusterer) else "BidirectionalEntailment"
    calibrated = policy.calibration
    for field, now, then in (
        ("clusterer", clusterer, calibrated.clusterer),
        ("divergence", config.graph.divergence, "kl"),
        ("agents", sorted(agent.name for agent in config.agents), sorted(calibrated.agents)),
    ):
        if now != then:
            message = f"the calibrated risk does not hold: {field} {now}, and {then} when calibrated"
            warnings.warn(message, stacklevel=2)
    return policy
