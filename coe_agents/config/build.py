"""Owns the step from a configuration to its objects and its graph; `load` is the public way in."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from langgraph.graph import StateGraph
from pydantic import BaseModel

from coe_agents.agents import Arbiter, ChatEntailment, ChatJudge, ModelAgent
from coe_agents.clustering import (
    BidirectionalEntailment,
    CachedEntailment,
    Clusterer,
    EmbeddingSimilarity,
    EntailmentModel,
    NormalizedMatch,
)
from coe_agents.config.clients import FieldError, create_chat_model, create_embeddings, replicas_of
from coe_agents.config.schema import (
    AgentConfig,
    ArbiterConfig,
    CalibratedConfig,
    Config,
    EmbeddingClusterer,
    EntailmentClusterer,
    GraphConfig,
    JudgeClusterer,
    ModelSection,
    NormalizedClusterer,
    ThresholdConfig,
    load_config,
)
from coe_agents.errors import ConfigurationError
from coe_agents.graph import CoEInput, CoEOutput, CoEState, create_coe_graph
from coe_agents.policy import CalibratedPolicy, Policy, RegimePolicy, ThresholdPolicy
from coe_agents.rounds import AdaptiveSampling
from coe_agents.tinyworld import (
    ENTAILMENT_MODEL,
    model_folder,
    tinyworld_agents,
    tinyworld_clusterer,
    tinyworld_policy,
)

_ALIASES = {"solver": "coordination"}
_Part = TypeVar("_Part")


def assemble(config: Config | None) -> Any:
    """Returns the uncompiled graph of a configuration, or of tinyworld for None; no model is loaded yet.

    Raises:
        ConfigurationError: If the parts cannot be combined; the message has a line for each mistake.
    """
    if config is None:
        return create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy())
    creates = (create_agents, create_clusterer, create_policy, create_escalation)
    parts: list[Any] = _all([partial(create, config) for create in creates])
    agents, clusterer, policy, escalation = parts
    options, adaptive = config.graph.model_dump(), config.graph.adaptive
    options["adaptive"] = None if adaptive is None else AdaptiveSampling(**adaptive.model_dump())
    if isinstance(clusterer, BidirectionalEntailment) and (config.graph.max_rounds > 1 or adaptive is not None):
        # each round clusters all responses of a question again
        clusterer = clusterer.with_model(CachedEntailment(clusterer.model))
    try:
        return create_coe_graph(agents, clusterer=clusterer, policy=policy, escalation=escalation, **options)
    except ValueError as error:
        message = str(error)
        # the graph speaks of agents by name
        named = [i for i, agent in enumerate(config.agents) if f"got {agent.name!r}" in message]
        place = ("agents", named[-1], "name") if named else ("graph", *_field(message, GraphConfig))
        raise ConfigurationError(config.fault(message, *place)) from error


def create_agents(config: Config, *, n_samples: int | None = None) -> list[ModelAgent]:
    """Returns the agents of a configuration; `n_samples` replaces their own, except at temperature 0, where it is 1.

    Raises:
        ConfigurationError: If an agent cannot be created.
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
        ConfigurationError: If it cannot be created.
    """
    return _at(config, lambda: _clusterer(config), type(config.clusterer), "clusterer")


def create_policy(config: Config) -> Policy:
    """Returns the policy of a configuration.

    Raises:
        ConfigurationError: If it cannot be created.
    """
    return _at(config, lambda: _policy(config), type(config.policy), "policy")


def create_escalation(config: Config) -> Arbiter | None:
    """Returns the arbiter of a configuration, if it has one.

    Raises:
        ConfigurationError: If it cannot be created.
    """
    chosen = config.escalation
    if chosen is None:
        return None
    return _at(
        config,
        lambda: Arbiter(create_chat_model(chosen, owner="the arbiter"), name=chosen.name),
        ArbiterConfig,
        "escalation",
    )


def create_judge(config: Config, *, at_once: int = 8) -> ChatJudge | None:
    """Returns the judge of correctness of a configuration, if it has one; it judges `at_once` answers at a time.

    Raises:
        ConfigurationError: If it cannot be created.
    """
    chosen = config.judge
    if chosen is None:
        return None
    return _at(
        config,
        lambda: ChatJudge(
            create_chat_model(chosen, owner="the judge"), name=f"judge {chosen.model}", max_concurrency=at_once
        ),
        ModelSection,
        "judge",
    )


def _all(creates: Sequence[Callable[[], _Part]]) -> list[_Part]:
    """Calls each function, and raises one error with the mistakes of all."""
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
    """Calls `create`; an invalid argument or a missing package becomes an error at `place` of the file."""
    try:
        return create()
    except ImportError as error:
        chosen = "provider" if issubclass(section, ModelSection) else "kind"
        raise ConfigurationError(config.fault(str(error), *place, chosen)) from error
    except FieldError as error:
        raise ConfigurationError(config.fault(str(error), *place, error.field)) from error
    except ValueError as error:
        message = str(error)
        raise ConfigurationError(config.fault(message, *place, *_field(message, section))) from error


def _field(message: str, section: type[BaseModel]) -> tuple[str, ...]:
    """Returns the field of the section whose quoted name begins the message, if there is one."""
    found = re.match(r'"(\w+)"', message)
    name = _ALIASES.get(found[1], found[1]) if found else ""
    return (name,) if name in section.model_fields else ()


def _agent(config: AgentConfig, n_samples: int | None) -> ModelAgent:
    sampling = config.model_dump(exclude={"name", *ModelSection.model_fields})
    if n_samples is not None:
        sampling["n_samples"] = n_samples if config.temperature > 0 else 1
    models = [create_chat_model(replica, owner=f'agent "{config.name}"') for replica in replicas_of(config)]
    return ModelAgent(config.name, models, **sampling)


def _clusterer(config: Config) -> Clusterer:
    chosen = config.clusterer
    match chosen:
        case NormalizedClusterer():
            return NormalizedMatch()
        case EmbeddingClusterer():
            return EmbeddingSimilarity(create_embeddings(chosen, owner="the clusterer"), threshold=chosen.threshold)
        case JudgeClusterer():
            # a judge must not vary
            model = create_chat_model(chosen, owner="the clusterer", defaults={"temperature": 0})
            judge: EntailmentModel = ChatEntailment(model, max_concurrency=chosen.max_concurrency)
        case EntailmentClusterer():
            from coe_agents.backends import TransformersEntailment

            folder = str(model_folder(ENTAILMENT_MODEL)) if chosen.model == "tinyworld" else chosen.model
            judge = TransformersEntailment(folder, device=chosen.device)
    return BidirectionalEntailment(judge, strict=chosen.strict)


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
        raise FieldError("path", str(error)) from error
    clusterer = "NormalizedMatch" if isinstance(config.clusterer, NormalizedClusterer) else "BidirectionalEntailment"
    calibrated = policy.calibration
    for part, now, then in (
        ("clusterer", clusterer, calibrated.clusterer),
        ("divergence", config.graph.divergence, "kl"),
        ("agents", sorted(agent.name for agent in config.agents), sorted(calibrated.agents)),
    ):
        if now != then:
            message = f"the calibrated risk does not hold: {part} {now} differs from {then} at calibration"
            warnings.warn(message, stacklevel=2)
    return policy


@dataclass(frozen=True, slots=True)
class Configuration:
    """The objects of a configuration file.

    Attributes:
        agents: The agents, in the order of the file.
        clusterer: Decides which responses mean the same.
        policy: Decides between an answer, an abstention, an escalation and another round.
        settings: The validated fields of the file.
    """

    agents: list[ModelAgent]
    clusterer: Clusterer
    policy: Policy
    settings: Config = field(repr=False)

    def create_graph(self) -> StateGraph[CoEState, None, CoEInput, CoEOutput]:
        """Returns the graph of the file, uncompiled; see `coe_agents.create_coe_graph`.

        Raises:
            ConfigurationError: If the parts cannot be combined; the message has a line for each mistake.
        """
        graph: StateGraph[CoEState, None, CoEInput, CoEOutput] = assemble(self.settings)
        return graph


def load(path: str | Path) -> Configuration:
    """Reads a TOML file and returns its objects; no model is called or loaded yet.

    Raises:
        ConfigurationError: If the file cannot be read or is invalid; the message names file, line and field.

    Example:
        >>> from importlib import resources
        >>> with resources.as_file(resources.files("coe_agents.cli") / "coe.toml") as path:
        ...     config = load(path)
        >>> [agent.name for agent in config.agents], config.policy
        (['llama', 'qwen'], ThresholdPolicy(0.7, otherwise='abstain'))
    """
    settings = load_config(Path(path))
    return Configuration(create_agents(settings), create_clusterer(settings), create_policy(settings), settings)
