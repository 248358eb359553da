"""Owns what a run asks, and what it records: the agents of a sampling run, and the clusterer by which it is judged.

The name of a clusterer, and a recorded table, are read as a section of a configuration would be, so that each
clusterer is made in one place.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

import coe_agents
from coe_agents.agents import ModelAgent
from coe_agents.agents.judge import ask_p_false
from coe_agents.checks import at_field
from coe_agents.clustering import BidirectionalEntailment, Clusterer, NormalizedMatch
from coe_agents.clustering.embedding import EmbeddingSimilarity
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.clustering.refusals import answer_kind, response_text
from coe_agents.config import schema
from coe_agents.config.build import clusterer_of, create_agents
from coe_agents.config.models import default_at_once
from coe_agents.config.schema import Config, describe_unknown
from coe_agents.errors import ConfigurationError, InvalidReplyError, secrets_of
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.kept import Kept
from coe_agents.evaluation.origin import Judging
from coe_agents.evaluation.sample_collection import Participant, SampledGroup
from coe_agents.extensions import is_reference
from coe_agents.graph.shown_tools import check_tools
from coe_agents.presets import preset
from coe_agents.text import for_prompt, redact_all
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder, tinyworld_agents
from coe_agents.types import Agent, AgentReply, AgentRequest, Fields, JsonObject, Response, usable

NAMES = ("normalized", "mathematics", "actions", "tinyworld")
"""The clusterers that a name is enough for, besides those of other packages."""
_TINYWORLD = {"kind": "entailment", "model": "tinyworld"}
_OF_MACHINE = {"base_url", "api_key_env", "device"}
_SECTION: TypeAdapter[Any] = TypeAdapter(schema.ClustererSection)


def judging_of(
    config: Config | None, *, is_tinyworld: bool, correctness: str | None = None
) -> Judging:
    """Returns how a run of a configuration, None for tinyworld's, is judged, by default or with a criterion.

    Where the dataset is tinyworld (`is_tinyworld`) and its own model clusters, that model says what is right, too: its
    language models answer in sentences, which no reference equals.
    """
    parts = {"clusterer": "tinyworld"} if config is None else judging_parts(config)
    judging = Judging(parts["clusterer"])
    if correctness is None and is_tinyworld and judging.clusterer == "tinyworld":
        correctness = "entailment"
    if correctness is None:
        return judging
    if correctness == "judge":
        judging = replace(judging, judge=parts.get("judge"))
    return replace(judging, correctness=correctness)


def judging_parts(config: Config) -> JsonObject:
    """Returns what a configuration says of how answers are judged: the clusterer, and the judge; see `Judging`."""
    judge = config.judge
    return {
        "clusterer": describe(config),
        "judge": None if judge is None else f"{judge.provider}:{judge.model}",
    }


def describe(config: Config) -> str | JsonObject:
    """Returns the clusterer of a configuration by its name, else as its table, without addresses and keys."""
    table = config.clusterer.model_dump(mode="json", exclude=_OF_MACHINE)
    tinyworlds = section_of("tinyworld")
    if table == tinyworlds.model_dump(mode="json", exclude=_OF_MACHINE):
        return "tinyworld"
    stated = {name: value for name, value in table.items() if value != {}}
    if stated.keys() == {"kind"}:
        return str(stated["kind"])
    recorded: JsonObject = redact_all(stated, config.secrets)
    return recorded


def name_of_clusterer(clusterer: Clusterer | str) -> str | JsonObject:
    """Returns how a clusterer is recorded: by a name or table from which it can be created, else by its class."""
    if isinstance(clusterer, str):
        return clusterer
    kind = type(clusterer)
    if kind is NormalizedMatch:
        return "normalized"
    if isinstance(clusterer, BidirectionalEntailment) and _is_ours(clusterer.model):
        model: Any = clusterer.model
        is_by_name = model.dtype is None and model.revision is None
        plain = BidirectionalEntailment(model, strict=clusterer.strict)
        if is_by_name and vars(clusterer) == vars(plain):
            is_tinyworld = model.model == str(model_folder(ENTAILMENT_MODEL))
            if is_tinyworld and clusterer.strict:
                return "tinyworld"
            return {"kind": "entailment", "model": model.model, "strict": clusterer.strict}
    return f"{kind.__module__}:{kind.__qualname__}"


def _is_ours(model: object) -> bool:
    """Returns whether a model is a `TransformersEntailment`, whose module is slow to import."""
    kind = type(model)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name == "coe_agents.backends.entailment_transformers.TransformersEntailment"


def model_of(agent: Agent) -> JsonObject:
    """Returns what a run records of an agent's model: who serves it, and its name, as far as they are known."""
    return {
        "provider": getattr(agent, "configured_provider", None),
        "model": getattr(agent, "model_name", None),
    }


def create_named_clusterer(name: str) -> Clusterer:
    """Returns the clusterer of a name: one without a model, tinyworld's, or one of the user's; else a ValueError."""
    check_clusterer_name(name)
    try:
        return clusterer_of(section_of(name), folder=Path())
    except ValueError as error:
        raise at_field(error, "clusterer") from None


def check_clusterer_name(name: str) -> None:
    """Raises a ValueError if no clusterer can have this name; no code behind a name of the user's is run."""
    if name not in NAMES and not is_reference(name):
        raise at_field(ValueError(describe_unknown("clusterer", NAMES, name)), "clusterer")


def section_of(clusterer: str | Fields) -> schema.ClustererSection:
    """Returns the section that a name or a recorded table stands for; a ValueError if there is no such one."""
    table: Any = clusterer
    if isinstance(clusterer, str):
        table = _TINYWORLD if clusterer == "tinyworld" else {"kind": clusterer}
    section: schema.ClustererSection = _SECTION.validate_python(table)
    return section


def create_recorded_clusterer(recorded: str | Fields) -> Clusterer:
    """Returns the clusterer that a run recorded.

    A record is data that may come from anybody: it names no module whose code is run, and no server that is asked.

    Raises:
        ConfigurationError: It needs an address, options or code that only a configuration can give.
    """
    try:
        if isinstance(recorded, str) and ":" not in recorded:
            return create_named_clusterer(recorded)
        section = section_of(recorded)
        if _is_whole(section):
            return clusterer_of(section, folder=Path())
    except ValueError as error:  # also pydantic's
        raise _not_rebuilt(recorded, str(error)) from error
    raise _not_rebuilt(recorded, "it takes an address, options or code of yours")


def _is_whole(section: schema.ClustererSection) -> bool:
    """Returns whether a section says all that its clusterer needs, and leads to no server and no code."""
    if isinstance(section, schema.EmbeddingClusterer):
        return section.provider == "huggingface" and not section.options
    return isinstance(section, schema.EntailmentClusterer | schema.ActionsClusterer)


def create_kept_clusterer(
    named: Config | str | Fields, create: Callable[[], Any], path: Path
) -> Clusterer:
    """Returns the clusterer that `create` returns; if it has a model, one that asks it for what is not kept.

    `named` is what it is created from: a configuration, a name, or a recorded table. `path` is the file that keeps.
    """
    create = cache(create)
    if not path.exists():
        create()  # what it lacks is told at once
    try:
        section = named.clusterer if isinstance(named, Config) else section_of(named)
    except ValueError:
        section = None  # `create` says what is wrong
    match section:
        case schema.EmbeddingClusterer():
            kept = Kept(path, identity_of(section), lambda: create().embeddings)
            return EmbeddingSimilarity(kept, threshold=section.threshold)
        case schema.EntailmentClusterer() | schema.JudgeClusterer():
            kept = Kept(path, identity_of(section), lambda: create().model)
            return BidirectionalEntailment(kept, strict=section.strict)
    clusterer: Clusterer = create()
    return clusterer


def identity_of(section: Any) -> list[Any]:
    """Returns what the numbers of a section's model depend on: our release, its settings, and a local folder's files.

    A file is known by its size and the time of its last change, a model of a hub or of a server by its name.
    """
    settings = section.model_dump(mode="json")
    name = settings["model"]
    folder = model_folder(ENTAILMENT_MODEL) if name == "tinyworld" else Path(name)
    files = []
    for file in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        if file.is_file():
            status = file.stat()
            files.append([str(file), status.st_size, status.st_mtime_ns])
    return [coe_agents.__version__, settings, files]


def _not_rebuilt(recorded: object, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the clusterer that the run recorded, {recorded}, cannot be created from its record: {why}",
        hint="Name it: the configuration of the run, or a clusterer",
    )


_STORED = [
    "name",
    "n_samples",
    "temperature",
    "seed",
    "max_tokens",
    "system_prompt",
    "max_response_chars",
    "on_greedy",
]


def create_group(
    config: Config | None,
    *,
    seed: int,
    at_once: int | None = None,
    n_sharing: int = 1,
    p_false: bool = False,
    passages: bool = False,
) -> SampledGroup:
    """Returns the agents of a configuration, or tinyworld's (None); those without a seed of their own take `seed`.

    Args:
        config: None for tinyworld.
        seed: For the responses of agents without one.
        at_once: Concurrent questions to each agent; by default as in `create_run_group`.
        n_sharing: Number of processes, including this one, that ask the same servers at the same time.
        p_false: Whether each agent says of its own answers how probably they are false.
        passages: Whether they are shown the passage of each question.
    """
    models = list[Fields]()
    answers = None
    secrets = frozenset[str]()
    if config is None:
        agents = tinyworld_agents(seed=seed)
        for agent in agents:
            models.append({"provider": "tinyworld", "model": agent.name})
    else:
        config.seed_agents(seed)
        agents = create_agents(config)
        for section in config.agents:
            models.append(section.model_dump(include={"provider", "model", "options"}))
        if config.answers is not None:
            form = config.answers
            answers = preset(form.kind, NormalizedMatch(), form.instruction)
        secrets = config.secrets
    return group_of_agents(
        agents,
        answers,
        models=models,
        at_once=at_once,
        n_sharing=n_sharing,
        p_false=p_false,
        passages=passages,
        secrets=secrets,
    )


def group_of_agents(
    agents: Sequence[Agent],
    answers: AnswerPreset | None,
    *,
    models: Sequence[Fields] | None = None,
    at_once: int | None = None,
    n_sharing: int = 1,
    p_false: bool = False,
    passages: bool = False,
    secrets: Collection[str] = (),
) -> SampledGroup:
    """Returns the group of these agents; see `create_group`.

    `models` are the provider, the model and perhaps options of each agent; what they tell of themselves if None.
    `answers` says how short answers are asked
    for and found, and `secrets` are strings that no error may contain, besides those that the agents hold.
    """
    if models is None:
        models = [model_of(agent) for agent in agents]
    by_name = {agent.name: agent for agent in agents}
    if len(by_name) < len(agents):
        raise ConfigurationError(
            "two agents have the same name", hint="Give each agent its own name"
        )
    all_secrets = set(secrets)
    for agent in agents:
        all_secrets |= secrets_of(agent)

    participants: list[Participant] = []
    recorded: list[JsonObject] = []
    for agent, model in zip(agents, models, strict=True):
        n_at_once = at_once or default_at_once(model["provider"])
        own_share = max(1, n_at_once // n_sharing)
        n_samples = getattr(agent, "n_samples", None)
        participants.append(Participant(agent.name, n_samples, own_share))

        fields = {name: getattr(agent, name) for name in _STORED if hasattr(agent, name)}
        fields.update(model)
        if getattr(agent, "stated_confidence", False):
            fields["stated_confidence"] = True
        recorded.append(fields)

    settings: JsonObject = {
        "coe_agents": coe_agents.__version__,
        "agents": recorded,
        "answers": "" if answers is None else answers.recorded,
    }
    if p_false:
        settings["p_false"] = True
    asking = _Asking(by_name, answers, passages)
    return SampledGroup(
        participants=tuple(participants),
        ask=asking.ask,
        annotate=asking.annotate if p_false else None,
        settings=redact_all(settings, all_secrets),
        secrets=frozenset(all_secrets),
    )


@dataclass(frozen=True, slots=True)
class _Asking:
    """How agents are asked; `passages` says whether they are shown the passage of a question."""

    agents: Mapping[str, Agent]
    answers: AnswerPreset | None
    passages: bool

    async def ask(self, name: str, question: Question) -> AgentReply:
        """Returns an agent's reply; the short answers in it are found here, as a graph finds them."""
        message = {"role": "user", "content": question.prompt(with_context=self.passages)}
        request = AgentRequest(question=question.question, messages=[message], round=0)
        answers = self.answers if question.tools is None else None
        if question.tools is not None:
            where = f'"tools" of the question {question.id!r}'
            request["tools"] = check_tools(question.tools, where=where)
        if answers is not None:
            request["instruction"] = answers.instruction
        try:
            reply = await self.agents[name].asample(request)
        except InvalidReplyError as error:
            if error.reply is None:
                raise
            return cast("AgentReply", error.reply)  # its invalid proposals are what was asked for
        if answers is not None:
            for row in usable(reply["responses"]):
                row["answer"] = answers.canonicalize(row["text"])
        return reply

    async def annotate(self, name: str, question: Question, rows: list[JsonObject]) -> None:
        """Adds to each response how probably its agent holds it to be false."""
        prompt = question.question
        if self.passages and question.context is not None:
            passage = for_prompt(question.context, limit=len(question.context))
            prompt = f"{passage}\n{prompt}"

        answers = [response_text(cast("Response", row)) for row in rows]
        p_false: dict[str, float | None] = {}
        for answer in dict.fromkeys(answers):
            if answer_kind(answer) == "answer":
                agent = cast("ModelAgent", self.agents[name])
                p_false[answer] = await ask_p_false(agent, prompt, answer)
        for row, answer in zip(rows, answers, strict=True):
            row["p_false"] = p_false.get(answer)
