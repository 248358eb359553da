"""Owns the step from a configuration to its objects and its graph; `load` is the public way in."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.graph import StateGraph
from pydantic import BaseModel

from coe_agents import _ring
from coe_agents._removed import refuses_removed
from coe_agents.actions import ActionMatch
from coe_agents.agents import Arbiter, ChatEntailment, ModelAgent
from coe_agents.agents.judge import ChatJudge
from coe_agents.checks import at_field
from coe_agents.clustering import (
    BidirectionalEntailment,
    Clusterer,
    EmbeddingSimilarity,
    EntailmentModel,
    MathematicsMatch,
    NormalizedMatch,
)
from coe_agents.clustering.entailment_wrappers import CachedEntailment
from coe_agents.config import schema
from coe_agents.config.models import FieldError, create_chat_model, create_embeddings
from coe_agents.config.schema import Config, ModelSection, load_config
from coe_agents.errors import CoEError, ConfigurationError, prints_secret, secrets_of
from coe_agents.extensions import did_you_mean, load_extension
from coe_agents.files import missing_model
from coe_agents.graph import CoEContext, GraphOptions, create_coe_graph
from coe_agents.graph.answer_judge import AnswerJudge
from coe_agents.graph.on_decision import OnDecision
from coe_agents.graph.options import OnUnavailable
from coe_agents.graph.state import CoEInput, CoEOutput, CoEState
from coe_agents.policy import AgentWeights, CalibratedPolicy, Policy, RegimePolicy, ThresholdPolicy
from coe_agents.presets import preset
from coe_agents.text import redact
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder
from coe_agents.uncertainty import coordinate
from coe_agents.uncertainty.solvers import BUILT_IN as SOLVERS

if TYPE_CHECKING:
    from coe_agents.middleware import CoECouncil

_METHODS = {
    "clusterer": ("cluster", ("responses", "questions"), ()),
    "policy": ("decide", ("measurement",), ("round", "max_rounds")),
}
"""The method of a named part, with its arguments by position and by name."""
_NOT_BY_NAME = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_Create: TypeAlias = Callable[[Config], Any]
_Graph: TypeAlias = StateGraph[CoEState, CoEContext, CoEInput, CoEOutput]


def assemble(
    config: Config,
    *,
    on_unavailable: OnUnavailable = "abstain",
    on_decision: OnDecision | None = None,
) -> _Graph:
    """Returns the uncompiled graph of a configuration; no model is loaded yet.

    Parts that cannot be combined are a ConfigurationError with a line for each mistake.
    """
    parts = _create_all(config, (*_OBJECTS, *_OF_GRAPH.values()))
    agents, clusterer, policy, *of_graph = parts
    objects = Configuration(agents, clusterer, policy, config)
    return _connect(objects, of_graph, on_decision, on_unavailable=on_unavailable)


def _connect(
    objects: "Configuration",
    of_graph: Sequence[Any],
    on_decision: OnDecision | None,
    **options: Any,
) -> _Graph:
    """Returns the graph of these objects; `of_graph` are the parts of `_OF_GRAPH`, and `options` of `GraphOptions`."""
    config = objects.settings
    clusterer = objects.clusterer
    section = config.graph.model_dump()
    section.update(zip(_OF_GRAPH, of_graph, strict=True))
    if isinstance(clusterer, BidirectionalEntailment) and section["max_rounds"] != 1:
        # each round clusters all responses of a question again
        clusterer = clusterer.with_model(CachedEntailment(clusterer.model))
    comparing: dict[str, Any] = {"clusterer": clusterer}
    if config.answers is not None:
        comparing = {"answers": preset(config.answers.kind, clusterer, config.answers.instruction)}

    for name in _RARE:
        options[name] = section.pop(name)
    answer_judge = create_claims(config, clusterer)
    try:
        return create_coe_graph(
            objects.agents,
            **comparing,
            policy=objects.policy,
            answer_judge=answer_judge,
            on_decision=on_decision,
            options=GraphOptions(**options),
            **section,
        )
    except ValueError as error:
        # the graph speaks of agents by name; of two with one name, the last is at fault
        field_at_fault = getattr(error, "field", None)
        for place in reversed(range(len(config.agents))):
            if field_at_fault == f"agents.{config.agents[place].name}":
                raise config.fault(str(error), "agents", place, "name") from error
        raise config.fault(str(error), "graph", *_field_of(error, schema.GraphConfig)) from error


def create_agents(config: Config, *, n_samples: int | None = None) -> list[ModelAgent]:
    """Returns the agents of a configuration; `n_samples` replaces their own, except at temperature 0, where it is 1."""
    creates = []
    for place in range(len(config.agents)):
        creates.append(partial(_create_agent, place=place, n_samples=n_samples))
    return _create_all(config, creates)


def _create_agent(config: Config, place: int, n_samples: int | None) -> ModelAgent:
    section = config.agents[place]
    sampling = section.model_dump(exclude={"name", *ModelSection.model_fields})
    if n_samples is not None:
        sampling["n_samples"] = n_samples if section.temperature > 0 else 1
    with _faults_at(config, schema.AgentConfig, "agents", place):
        _check_path(section)
        model = create_chat_model(section, owner=f'agent "{section.name}"')
        return ModelAgent(section.name, model, **sampling)


def _check_path(section: object) -> None:
    """Refuses a model in this process whose name is a path, and which is not there, before anybody is asked."""
    match section:
        case (
            schema.EntailmentClusterer(model=model)
            | schema.EmbeddingClusterer(provider="huggingface", model=model)
            | ModelSection(provider="transformers", model=model)
        ):
            missing = missing_model(model)
            if missing is not None:
                message = f'{missing}. Correct the path, or use a hub id ("owner/name")'
                raise FieldError("model", message)


def create_clusterer(config: Config) -> Clusterer:
    """Returns the clusterer of a configuration."""
    with _faults_at(config, type(config.clusterer), "clusterer"):
        _check_path(config.clusterer)
        return clusterer_of(config.clusterer, folder=config.folder)


def clusterer_of(section: schema.ClustererSection, *, folder: Path) -> Clusterer:
    """Returns the clusterer of a section, be it of a configuration or of what a run recorded.

    Modules of the user's are looked for in `folder`. Of a field that is at fault the ValueError begins with its name.
    """
    match section:
        case schema.CustomPart():
            named: Clusterer = _create_named("clusterer", section, folder)
            return named
        case schema.NormalizedClusterer():
            return NormalizedMatch()
        case schema.MathematicsClusterer():
            return MathematicsMatch()
        case schema.ActionsClusterer():
            return ActionMatch(**schema.read_rules(section.options))
        case schema.EmbeddingClusterer():
            embeddings = create_embeddings(section, owner="the clusterer")
            return EmbeddingSimilarity(embeddings, threshold=section.threshold)
        case schema.JudgeClusterer():
            # a judge must not vary
            model = create_chat_model(section, owner="the clusterer", defaults={"temperature": 0})
            judge: EntailmentModel = ChatEntailment(model, max_concurrency=section.max_concurrency)
        case schema.EntailmentClusterer():
            from coe_agents.backends import TransformersEntailment

            model_name = section.model
            if model_name == schema.TINYWORLD:
                model_name = str(model_folder(ENTAILMENT_MODEL))
            judge = TransformersEntailment(model_name, device=section.device)
    return BidirectionalEntailment(judge, strict=section.strict)


def create_claims(config: Config, clusterer: Clusterer) -> AnswerJudge | None:
    """Returns what judges long answers claim by claim; None where the configuration has no `[claims]`."""
    section = config.claims
    if section is None:
        return None
    with _faults_at(config, schema.ClaimsConfig, "claims"):
        support = None
        if section.support == "entailment":
            if not isinstance(clusterer, BidirectionalEntailment):
                raise ValueError(
                    '"support" may be "entailment" with an entailment [clusterer] alone. Add one, or omit it'
                )
            support = clusterer.model

        create_policy_of_claims = _ring.load("claims:ClaimPolicy")
        if section.policy is None:
            policy = create_policy_of_claims(section.min_support, section.mark_from)
        else:
            policy = create_policy_of_claims.load(config.folder / section.policy)

        create_judge_of_claims = _ring.load("claims:Claims")
        judge: AnswerJudge = create_judge_of_claims(support=support, policy=policy)
        return judge


def create_policy(config: Config) -> Policy:
    """Returns the policy of a configuration."""
    section = config.policy
    with _faults_at(config, type(section), "policy"):
        match section:
            case schema.CustomPart():
                named: Policy = _create_named("policy", section, config.folder)
                return named
            case schema.ThresholdSection():
                return ThresholdPolicy(section.max_coe, otherwise=section.otherwise)
            case schema.RegimeSection():
                return RegimePolicy(
                    section.aleatoric_threshold,
                    section.epistemic_threshold,
                    actions=section.actions,
                )
            case schema.CalibratedSection():
                return _load_policy(section, config.folder)


def _load_policy(section: schema.CalibratedSection, folder: Path) -> CalibratedPolicy:
    estimator = None
    if section.estimator is not None:
        wanted = "a class or function that computes a score"
        estimator = _load_named(
            "estimator", section.estimator, folder, field="estimator", wanted=wanted
        )
    try:
        return CalibratedPolicy.load(
            folder / section.path, estimator=estimator, otherwise=section.otherwise
        )
    except ConfigurationError as error:
        raise FieldError("path", str(error)) from error


def create_judge(config: Config) -> ChatJudge | None:
    """Returns the judge of correctness of a configuration, if it has one."""
    section = config.judge
    if section is None:
        return None
    with _faults_at(config, ModelSection, "judge"):
        _check_path(section)
        model = create_chat_model(section, owner="the judge")
        return ChatJudge(model, name=f"judge {section.model}", max_concurrency=8)


def _create_escalation(config: Config) -> Arbiter | None:
    section = config.escalation
    if section is None:
        return None
    with _faults_at(config, schema.ArbiterConfig, "escalation"):
        _check_path(section)
        return Arbiter(create_chat_model(section, owner="the arbiter"), name=section.name)


def load_weights(config: Config) -> dict[str, float] | None:
    """Returns the weights of the file that a configuration names, by agent; None if it names none.

    The file must name all agents of the group and no other: its weights may be shares, beside which the 1.0 of an agent
    that it lacks would decide alone.
    """
    name = config.graph.weights
    if name is None:
        return None
    with _faults_at(config, schema.GraphConfig, "graph"):
        try:
            weights = dict(AgentWeights.load(config.folder / name).weights)
        except ConfigurationError as error:
            raise FieldError("weights", str(error)) from error
        names = {agent.name for agent in config.agents}
        different = sorted(names ^ weights.keys())
        if names and different:
            does = "lacks" if different[0] in names else "names an agent that is not in the group:"
            message = f'{name} must name the agents of the group; it {does} "{different[0]:.80}"'
            raise FieldError("weights", message)
        return weights


def _check_solver(config: Config) -> str | None:
    name = config.graph.coordination
    if name is None:
        return None
    with _faults_at(config, schema.GraphConfig, "graph"):
        if name not in SOLVERS:
            wanted = "a function from distributions to distributions"
            _load_named("solver", name, config.folder, field="coordination", wanted=wanted)
        try:
            coordinate([[1.0]], solver=name)
        except Exception as error:  # it may raise anything
            raise FieldError("coordination", f'solver "{name}" does not work: {error}') from error
    return name


_OBJECTS: Sequence[_Create] = (create_agents, create_clusterer, create_policy)
_OF_GRAPH: dict[str, _Create] = {
    "escalation": _create_escalation,
    "coordination": _check_solver,
    "weights": load_weights,
}
"""What a graph needs besides agents, clusterer and policy."""
_RARE = ("coordination", "weighting", "max_question_chars", "cost_budget")
"""The fields of `[graph]` that are those of `GraphOptions`."""


def _create_all(config: Config, creates: Iterable[_Create]) -> list[Any]:
    """Returns the parts of a configuration; the mistakes of all that cannot be created are one error."""
    parts = []
    faults = list[ConfigurationError]()
    for create in creates:
        try:
            parts.append(create(config))
        except ConfigurationError as error:
            faults.append(error)
    if faults:
        raise join_faults(faults)
    return parts


def join_faults(faults: Sequence[ConfigurationError]) -> ConfigurationError:
    """Returns one error about several mistakes, with a line for each, and the first one's field."""
    return ConfigurationError("\n".join(map(str, faults)), field=faults[0].field)


@contextmanager
def _faults_at(config: Config, section: type[BaseModel], *place: str | int) -> Iterator[None]:
    """Turns an invalid argument or a missing package into an error at `place` of the file."""
    try:
        yield
    except ConfigurationError:  # it says where
        raise
    except (ImportError, ValueError) as error:
        if isinstance(error, ImportError):
            needing = "provider" if issubclass(section, ModelSection) else "kind"
            error = at_field(error, needing)
        raise config.fault(str(error), *place, *_field_of(error, section)) from error


def _field_of(error: Exception, section: type[BaseModel]) -> tuple[str, ...]:
    """Returns the field of the section that an error is about, and the option in it, if it says one."""
    field, *option = getattr(error, "field", "").split(".", 1)
    return (field, *option) if field in section.model_fields else ()


def _create_named(part: str, section: schema.CustomPart, folder: Path) -> Any:
    """Calls the class or function that a section names with its options, and checks that it returns such a part."""
    options = section.options
    label = f'{part} "{section.kind}"'
    wanted = f"a class or function that creates a {part}"
    create = _load_named(part, section.kind, folder, field="kind", wanted=wanted)
    _check_options(create, options, label)
    try:
        created = create(**options)
    except (Exception, SystemExit) as error:  # it may raise anything
        option = getattr(error, "field", None)
        if option is None:
            # a class of the user's own raises no such error; its message may begin with the option
            quoted = re.match(r'"(\w+)"', str(error))
            option = quoted and quoted[1]
        field = f"options.{option}" if option in options else "options"
        described = str(error)
        if not isinstance(error, CoEError | ValueError):
            described = f"{type(error).__name__}: {error}"
        in_one_line = " ".join(described.split())

        secrets = secrets_of(SimpleNamespace(options=options))
        message = redact(f"{label} cannot be created: {in_one_line}", secrets)
        cause = None if prints_secret(error, secrets) else error
        raise FieldError(field, message) from cause

    method, by_position, by_name = _METHODS[part]
    try:
        signature = inspect.signature(getattr(created, method))
        signature.bind(*by_position, **dict.fromkeys(by_name))
    except (AttributeError, TypeError) as error:
        keywords = ("*", *by_name) if by_name else ()
        wanted = ", ".join([*by_position, *keywords])
        must = f"{label} must create an object with the method {method}({wanted})"
        raise FieldError("kind", f"{must}; got {type(created).__name__}") from error
    return created


def _load_named(part: str, name: str, folder: Path, *, field: str, wanted: str) -> Any:
    try:
        loaded = load_extension(part, name, folder=folder)
    except ConfigurationError as error:
        raise FieldError(field, str(error)) from error
    if not callable(loaded):
        must = f'{part} "{name}" must be {wanted}'
        raise FieldError(field, f"{must}; got {type(loaded).__name__}. Name another object")
    return loaded


def _check_options(create: Callable[..., Any], options: Mapping[str, Any], label: str) -> None:
    try:
        signature = inspect.signature(create)
    except ValueError:  # some classes written in C have none
        return
    names = list[str]()
    required = list[str]()
    takes_any = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind not in _NOT_BY_NAME:
            names.append(parameter.name)
            if parameter.default is parameter.empty:
                required.append(parameter.name)

    for name in options:
        if name not in names and not takes_any:
            known = f"Its options are {', '.join(names)}" if names else "It takes none"
            hint = did_you_mean(name, names) or known
            raise FieldError(f"options.{name}", f"unknown option of {label}. {hint}")
    for name in required:
        if name not in options:
            raise FieldError("options", f'{label} requires the option "{name}". Add it')


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

    @refuses_removed
    def create_graph(
        self,
        *,
        on_unavailable: OnUnavailable = "abstain",
        compares_texts: bool = False,
        on_decision: OnDecision | None = None,
    ) -> StateGraph[CoEState, CoEContext, CoEInput, CoEOutput]:
        """Returns the graph of these objects, uncompiled; see `coe_agents.create_coe_graph`.

        `[record]` is for the commands: here cases are recorded by `on_decision`, in the store of `compile`.

        Raises:
            ConfigurationError: If the parts cannot be combined; the message has a line for each mistake.
        """
        of_graph = _create_all(self.settings, _OF_GRAPH.values())
        return _connect(
            self,
            of_graph,
            on_decision,
            on_unavailable=on_unavailable,
            compares_texts=compares_texts,
        )

    def create_council(self, **options: Any) -> "CoECouncil":
        """Returns the council of these agents by `[council]`; `options` are further ones of `CoECouncil`.

        Raises:
            ConfigurationError: If the parts cannot be combined.
        """
        from coe_agents.middleware import CoECouncil
        from coe_agents.middleware.gated import read_condition

        stated = {**self.settings.council, **options}
        try:
            tools = stated.get("tools")
            if isinstance(tools, dict):
                conditions = {}
                for name, condition in tools.items():
                    is_text = isinstance(condition, str)
                    conditions[name] = read_condition(condition) if is_text else condition
                stated["tools"] = conditions
            return CoECouncil(self.agents, **stated)
        except (TypeError, ValueError) as error:
            raise self.settings.fault(str(error), "council") from error


def load(path: str | Path) -> Configuration:
    """Reads a TOML file and returns its objects; no model is called or loaded yet.

    Raises:
        ConfigurationError: If the file cannot be read or is invalid; the message names file, line and field.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "coe.toml")
        ...     _ = path.write_text('agents = [{name = "a", provider = "tinyworld", model = "tiny-llama"}]')
        ...     config = load(path)
        >>> [agent.name for agent in config.agents], config.settings.answers.kind
        (['a'], 'short')
    """
    settings = load_config(Path(path))
    agents, clusterer, policy = _create_all(settings, _OBJECTS)
    return Configuration(agents, clusterer, policy, settings)
