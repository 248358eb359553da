"""Owns the data of experiments: responses sampled once and stored, or read from saved files."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from coe_agents.clustering import (
    BidirectionalEntailment,
    CachedEntailment,
    Clusterer,
    NormalizedMatch,
    canonical_answer,
)
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import Sample, SampledQuestion, Samples
from coe_agents.experiments import Setting
from coe_agents.experiments.groups import order_by_responses
from coe_agents.tinyworld import beliefs, load_facts
from coe_agents.tinyworld.correctness import answer_span

if TYPE_CHECKING:
    from coe_agents.config.schema import Config

TEMPERATURES = (0.8, 0.9, 1.0)
_TWIN = " (2)"
_MOST_PAIRS = 10_000_000
"""Entailments to cache: enough for all of a run."""


@dataclass(frozen=True, slots=True)
class Asked:
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
    def of(cls, source: str) -> "Asked":
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
    setting: Setting
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
    def plain_setting(self) -> Setting:
        """The setting without a cache, to measure how long clustering takes."""
        clusterer = self.setting.clusterer
        if isinstance(clusterer, BidirectionalEntailment) and isinstance(clusterer.model, CachedEntailment):
            return Setting(clusterer.with_model(clusterer.model.model), self.setting.criterion)
        return self.setting

    @property
    def clusterers(self) -> dict[str, Clusterer]:
        """The setting's clusterer, and the one without a model."""
        chosen = self.setting.clusterer
        return {type(chosen).__name__: chosen, "NormalizedMatch": NormalizedMatch()}


@dataclass(frozen=True)
class AskedMaterial(Material):
    """Responses that are sampled when first needed, and stored under `folder`.

    Attributes:
        config: Names the agents.
        sources: The datasets, at most two.
        folder: Contains a folder for each run.
        limit: Number of questions of each dataset; 0 for all.
        seed: For the choice of questions and for the responses.
        with_context: Whether agents are shown passages.
    """

    config: "Config"
    sources: tuple[Asked, ...]
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
            return _described(source.source, source.validation), self._run(source.source, source.validation)
        source = self.sources[0]
        if source.train is None:
            raise ConfigurationError(f"{source.source} has no second split", hint='Pass "--dataset" twice')
        return _described(source.source, source.train), self._run(source.source, source.train)

    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        """Returns both splits of each dataset."""
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
        seconds = self._seconds.get(_name(source.source, source.validation, None))
        return None if seconds is None else seconds / len(self.main)

    def _run(self, source: str, split: str | None, *, temperature: float | None = None) -> list[SampledQuestion]:
        name = _name(source, split, temperature)
        if name not in self._runs:
            self._runs[name] = self._sample(name, source, split, temperature)
        return self._runs[name]

    def _sample(self, name: str, source: str, split: str | None, temperature: float | None) -> list[SampledQuestion]:
        from coe_agents.cli.options import SamplingOptions
        from coe_agents.cli.sample import load_set, sample_to
        from coe_agents.evaluation.samples.store import SAMPLES

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
        return read([out / SAMPLES])


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
        """Returns the questions of the files, for either panel."""
        return self.source, self.questions

    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        """Returns the files' questions as validation questions."""
        return {self.source: (None, self.questions)}

    def by_temperature(self) -> dict[float, Sequence[SampledQuestion]]:
        """Returns nothing: files do not state the temperature of their responses."""
        return {}

    def generation_seconds(self) -> float | None:
        """Returns None: the responses were generated elsewhere."""
        return None


def read(paths: Sequence[Path]) -> list[SampledQuestion]:
    """Returns the questions of files of samples, in memory."""
    with Samples(paths) as samples:
        return list(samples)


def with_cache(setting: Setting) -> Setting:
    """Returns the setting with an entailment model that judges each pair once."""
    clusterer = setting.clusterer
    if not isinstance(clusterer, BidirectionalEntailment):
        return setting
    model = CachedEntailment(clusterer.model, max_pairs=_MOST_PAIRS)
    return Setting(clusterer.with_model(model), setting.criterion, model, setting.weighting)


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


def twins_of(agents: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the second instances."""
    return tuple(agent + _TWIN for agent in agents)


def without_twins(questions: Sequence[SampledQuestion]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the agents of saved samples, and their second instances if all of them have one.

    Their order depends on their responses only, so that groups do not depend on names.
    """
    names = {response["agent"] for question in questions for response in question.responses}
    agents = tuple(order_by_responses((name for name in names if not name.endswith(_TWIN)), questions))
    twins = twins_of(agents)
    return agents, twins if all(twin in names for twin in twins) else ()


def _described(source: str, split: str | None) -> str:
    return source if split is None else f"{source}, {split}"


def _name(source: str, split: str | None, temperature: float | None) -> str:
    parts = [Path(source).name, split, None if temperature is None else f"temperature-{temperature:g}"]
    return "-".join(part for part in parts if part is not None)
