"""Owns the data of `reproduce`: responses sampled once and stored, or read from saved files."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import coe_agents
from coe_agents.cli.ask import load_quietly
from coe_agents.cli.options import SamplingOptions, ScoringOptions
from coe_agents.cli.sample import load_set, sample_to
from coe_agents.cli.score import create_setting
from coe_agents.clustering import (
    BidirectionalEntailment,
    CachedEntailment,
    Clusterer,
    NormalizedMatch,
    canonical_answer,
)
from coe_agents.config.build import create_clusterer
from coe_agents.config.schema import Config, load_config
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import CRITERIA, Criterion, SameMeaning, Sample, SampledQuestion, Samples, ScoringSetup
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.experiments.groups import order_by_responses
from coe_agents.tinyworld import beliefs, load_facts
from coe_agents.tinyworld.correctness import answer_span, tinyworld_criterion

SHIPPED = Path(__file__).parent / "reproduce.toml"
TEMPERATURES = (0.8, 0.9, 1.0)
_TWIN = " (2)"
_MOST_PAIRS = 10_000_000
"""Entailments to cache: enough for all of a run."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset whose questions the agents are asked.

    Attributes:
        source: As `coe-agents sample --dataset` takes it.
        train: The split used as training questions; None without one.
        validation: The split that results are reported on; None for a file, which has no splits.
    """

    source: str
    train: str | None
    validation: str | None

    @classmethod
    def of(cls, source: str) -> "Dataset":
        """Returns a dataset with the names of its splits."""
        if Path(source).is_file():
            return cls(source, None, None)
        return cls(source, "calibration" if source == "tinyworld" else "train", "validation")


@dataclass(frozen=True)
class Material(ABC):
    """The data that experiments read.

    Attributes:
        agents: The models' names, in the order in which they join a group.
        twins: The names of their second instances.
        setting: How responses become numbers; results of its entailment model are cached.
        provenance: The lines under every table.
        left_out: The experiments that "all" omits, and why.
    """

    agents: tuple[str, ...]
    twins: tuple[str, ...]
    setting: ScoringSetup
    provenance: Mapping[str, str]
    left_out: Mapping[str, str]

    @abstractmethod
    def panel(self, place: int) -> tuple[str, Sequence[SampledQuestion]]:
        """Returns the questions that stand for TriviaQA (0) or SQuAD (1), after a description of them."""

    @abstractmethod
    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        """Returns training questions (None without any) and validation questions, by dataset."""

    @abstractmethod
    def by_temperature(self) -> dict[float, Sequence[SampledQuestion]]:
        """Returns questions with the responses of the first two agents at other temperatures."""

    @abstractmethod
    def generation_seconds(self) -> float | None:
        """Returns the wall-clock seconds of sampling per question; None if the responses were sampled before."""

    @cached_property
    def main(self) -> Sequence[SampledQuestion]:
        return self.panel(0)[1]

    @property
    def plain_setting(self) -> ScoringSetup:
        """The setting without a cache, to measure how long clustering takes."""
        clusterer = self.setting.clusterer
        if isinstance(clusterer, BidirectionalEntailment) and isinstance(clusterer.model, CachedEntailment):
            return ScoringSetup(clusterer.with_model(clusterer.model.model), self.setting.criterion)
        return self.setting

    @property
    def clusterers(self) -> dict[str, Clusterer]:
        """The setting's clusterer, and the one without a model."""
        chosen = self.setting.clusterer
        return {type(chosen).__name__: chosen, "NormalizedMatch": NormalizedMatch()}


@dataclass(frozen=True)
class SampledMaterial(Material):
    """Responses that are sampled when first needed, and stored under `folder`.

    Attributes:
        config: Names the agents.
        sources: The datasets, at most two.
        folder: Contains a folder for each run.
        limit: Number of questions of each dataset; 0 for all.
        seed: For the choice of questions and for the responses.
        with_context: Whether agents are shown passages.
    """

    config: Config
    sources: tuple[Dataset, ...]
    folder: Path
    limit: int
    seed: int
    with_context: bool = False
    _runs: dict[str, list[SampledQuestion]] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)

    def panel(self, place: int) -> tuple[str, Sequence[SampledQuestion]]:
        """Returns the validation questions of a dataset; the second panel of a single dataset is its other split."""
        if place < len(self.sources):
            source = self.sources[place]
            return _describe(source.source, source.validation), self._run(source.source, source.validation)
        source = self.sources[0]
        if source.train is None:
            raise ConfigurationError(f"{source.source} has no second split", hint='Pass "--dataset" twice')
        return _describe(source.source, source.train), self._run(source.source, source.train)

    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        return {
            source.source: (
                None if source.train is None else self._run(source.source, source.train),
                self._run(source.source, source.validation),
            )
            for source in self.sources
        }

    def by_temperature(self) -> dict[float, Sequence[SampledQuestion]]:
        """Returns the first dataset's validation questions at each temperature, including the configuration's own."""
        source, two = self.sources[0], self.config.agents[:2]
        found = {each: self._run(source.source, source.validation, temperature=each) for each in TEMPERATURES}
        own = {agent.temperature for agent in two}
        return {**dict.fromkeys(own, self.main), **found} if len(own) == 1 else dict(found)

    def generation_seconds(self) -> float | None:
        """Returns the seconds per question of the first dataset's validation run, if this process ran all of it."""
        _ = self.main
        source = self.sources[0]
        seconds = self._seconds.get(_name_run(source.source, source.validation, None))
        return None if seconds is None else seconds / len(self.main)

    def _run(self, source: str, split: str | None, *, temperature: float | None = None) -> list[SampledQuestion]:
        name = _name_run(source, split, temperature)
        if name not in self._runs:
            self._runs[name] = self._sample(name, source, split, temperature)
        return self._runs[name]

    def _sample(self, name: str, source: str, split: str | None, temperature: float | None) -> list[SampledQuestion]:
        config = self.config.model_copy(deep=True)
        if temperature is None:
            twins = [agent.model_copy(deep=True) for agent in config.agents]
            for agent in twins:
                agent.name += _TWIN
                agent.seed = (self.seed if agent.seed is None else agent.seed) + 1
            config.agents += twins
        else:
            del config.agents[2:]
            for agent in config.agents:
                agent.temperature = temperature
        found = load_set(source, split)
        out = self.folder / name
        options = SamplingOptions(
            dataset=source,
            split=split,
            out=out,
            limit=self.limit,
            seed=self.seed,
            with_context=self.with_context and all(question.context is not None for question in found.questions),
            p_false=temperature is None,
        )
        fresh, start = not out.exists(), time.perf_counter()
        sample_to(options, found, config)
        if fresh:
            self._seconds[name] = time.perf_counter() - start
        return _read([out / SAMPLES])


@dataclass(frozen=True)
class SavedMaterial(Material):
    """Responses from saved files; no agent is asked.

    Attributes:
        questions: The questions with the responses of the agents.
        source: The names of the files.
    """

    questions: Sequence[SampledQuestion]
    source: str

    def panel(self, place: int) -> tuple[str, Sequence[SampledQuestion]]:
        return self.source, self.questions

    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        return {self.source: (None, self.questions)}

    def by_temperature(self) -> dict[float, Sequence[SampledQuestion]]:
        return {}  # files do not state the temperature of their responses

    def generation_seconds(self) -> float | None:
        return None


def create_sampled_material(
    config: Path | None,
    datasets: Sequence[str] | None,
    folder: Path,
    *,
    limit: int,
    seed: int,
    with_context: bool,
    correctness: str | None,
) -> SampledMaterial:
    """Returns material from the agents of a configuration, by default `reproduce.toml`; no agent is asked yet.

    Raises:
        ConfigurationError: If the configuration is invalid.
    """
    load_quietly(config)  # sets the environment
    settings = load_config(config or SHIPPED)
    sources = tuple(Dataset.of(source) for source in datasets or (["triviaqa", "squad"] if config else ["tinyworld"]))
    clusterer = create_clusterer(settings)
    names = tuple(agent.name for agent in settings.agents)
    setting = _cache_entailments(
        ScoringSetup(clusterer, _criterion(correctness, clusterer, tinyworld=sources[0].source == "tinyworld"))
    )
    sampling = {(agent.n_samples, agent.temperature) for agent in settings.agents}
    provenance = {
        "dataset": " and ".join(source.source for source in sources),
        "agents": ", ".join(names),
        "n": f"{limit or 'all'} questions, {_join(n for n, _ in sampling)} responses of each agent",
        "temperature": _join(temperature for _, temperature in sampling),
        "seed": str(seed),
        **_provenance(setting, settings),
    }
    return SampledMaterial(
        agents=names,
        twins=_name_twins(names),
        setting=setting,
        provenance=provenance,
        left_out={},
        config=settings,
        sources=sources,
        folder=folder,
        limit=limit,
        seed=seed,
        with_context=with_context,
    )


def read_saved_material(
    paths: Sequence[Path], agents: Sequence[str] | None, *, config: Path | None, correctness: str | None
) -> SavedMaterial:
    """Returns material from files of samples; the clusterer is the configuration's, `NormalizedMatch` without one.

    Raises:
        ConfigurationError: If the files lack an agent.
        SamplesError: If a file is malformed.
    """
    questions = _read(paths)
    names, twins = _split_twins(questions)
    if agents is not None:
        in_files = {response["agent"] for question in questions for response in question.responses}
        missing = [name for name in agents if name not in in_files]
        if missing:
            raise ConfigurationError(
                f'"--agents" must name agents of the files; got {", ".join(missing)}',
                hint=f"The files have {', '.join(sorted(in_files))}",
            )
        names, twins = tuple(agents), tuple(twin for twin in _name_twins(agents) if twin in in_files)
    facts = {fact.id for fact in load_facts()}
    of_tinyworld = all(question.id in facts for question in questions)
    clusterer: Clusterer = (
        NormalizedMatch() if config is None else create_setting(ScoringOptions(config=config)).clusterer
    )
    setting = _cache_entailments(ScoringSetup(clusterer, _criterion(correctness, clusterer, tinyworld=of_tinyworld)))
    source = ", ".join(path.name for path in paths)
    left_out = {"squad": "the files count as one dataset; run it by name to use them in place of SQuAD"}
    if not of_tinyworld:
        left_out["contamination"] = "the knowledge of the models is known for tinyworld only"
    provenance = {
        "dataset": source,
        "agents": ", ".join(names),
        "n": f"{len(questions)} questions, {_responses(questions, names)} responses of each agent",
        "temperature and seed": "unknown: the files do not state them",
        **_provenance(setting, None),
    }
    return SavedMaterial(
        agents=names,
        twins=twins if len(twins) == len(names) else (),
        setting=setting,
        provenance=provenance,
        left_out=left_out,
        questions=questions,
        source=source,
    )


def known_beliefs(identifier: str, agent: str) -> Mapping[str, float] | None:
    """Returns the beliefs of a model of tinyworld about one of its facts; None for any other question."""
    fact = {fact.id: fact for fact in load_facts()}.get(identifier)
    return None if fact is None else beliefs(fact).get(agent.removesuffix(_TWIN))


def span_of(question: SampledQuestion, response: Sample) -> str:
    """Returns the short answer from the data, else the one extracted from the text."""
    span = answer_span(question, response)
    if span != response["text"]:
        return span
    return response["answer"] if response["answer"] is not None else canonical_answer(response["text"])


def _read(paths: Sequence[Path]) -> list[SampledQuestion]:
    with Samples(paths) as samples:
        return list(samples)


def _cache_entailments(setting: ScoringSetup) -> ScoringSetup:
    """Returns the setting with an entailment model that judges each pair once."""
    clusterer = setting.clusterer
    if not isinstance(clusterer, BidirectionalEntailment):
        return setting
    model = CachedEntailment(clusterer.model, max_pairs=_MOST_PAIRS)
    return replace(setting, clusterer=clusterer.with_model(model), entailment=model)


def _name_twins(agents: Sequence[str]) -> tuple[str, ...]:
    return tuple(agent + _TWIN for agent in agents)


def _split_twins(questions: Sequence[SampledQuestion]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the agents of saved samples, and their second instances if all of them have one.

    Their order depends on their responses only, so that groups do not depend on names.
    """
    names = {response["agent"] for question in questions for response in question.responses}
    agents = tuple(order_by_responses((name for name in names if not name.endswith(_TWIN)), questions))
    twins = _name_twins(agents)
    return agents, twins if all(twin in names for twin in twins) else ()


def _describe(source: str, split: str | None) -> str:
    return source if split is None else f"{source}, {split}"


def _name_run(source: str, split: str | None, temperature: float | None) -> str:
    parts = [Path(source).name, split, None if temperature is None else f"temperature-{temperature:g}"]
    return "-".join(part for part in parts if part is not None)


def _criterion(name: str | None, clusterer: Clusterer, *, tinyworld: bool) -> Criterion:
    if name == "entailment":
        return SameMeaning(clusterer)
    if name is None and tinyworld:
        return tinyworld_criterion()
    return CRITERIA[name or "reference_or_label"]


def _provenance(setting: ScoringSetup, config: Config | None) -> dict[str, str]:
    clusterer = type(setting.clusterer).__name__
    if isinstance(setting.clusterer, BidirectionalEntailment):
        model = getattr(config.clusterer, "model", None) if config else None
        clusterer += f" ({model or type(setting.clusterer.model).__name__})"
    return {
        "clusterer": clusterer,
        "right by": setting.criterion.name,
        "weighting": setting.weighting,
        "date": datetime.now(UTC).date().isoformat(),
        "version": f"coe-agents {coe_agents.__version__}",
    }


def _responses(questions: Sequence[SampledQuestion], agents: Sequence[str]) -> str:
    counts = [
        sum(response["agent"] == name for response in question.responses) for question in questions for name in agents
    ]
    return f"{min(counts)} to {max(counts)}"


def _join(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(set(values)))
