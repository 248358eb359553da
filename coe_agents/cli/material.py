"""Owns what experiments are made of: responses asked for once and kept, or read from saved files."""

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
from coe_agents.experiments.groups import ordered_by_responses
from coe_agents.tinyworld import beliefs, load_facts
from coe_agents.tinyworld.correctness import answer_span

if TYPE_CHECKING:
    from coe_agents.cli.config import Config

TEMPERATURES = (0.8, 0.9, 1.0)
_TWIN = " (2)"
_MOST_PAIRS = 10_000_000
"""Entailments to remember: all of a run's."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A dataset that agents are asked.

    Attributes:
        source: As `coe-agents sample --dataset` takes it.
        train: The split that stands for training questions; None where there is none.
        validation: The split that is reported; None for a file, which has no splits.
    """

    source: str
    train: str | None
    validation: str | None

    @classmethod
    def of(cls, source: str) -> "Asked":
        """Returns a dataset with the names that its splits have."""
        if Path(source).is_file():
            return cls(source, None, None)
        return cls(source, "calibration" if source == "tinyworld" else "train", "validation")


@dataclass(frozen=True)
class Material(ABC):
    """What experiments read.

    Attributes:
        agents: The models' names, in the order in which they join a group.
        twins: Of their second instances.
        setting: How responses become numbers; what its entailment model said once is remembered.
        told: What stands under every table.
        left_out: The experiments that "all" leaves out, and why.
    """

    agents: tuple[str, ...]
    twins: tuple[str, ...]
    setting: Setting
    told: Mapping[str, str]
    left_out: Mapping[str, str]

    @abstractmethod
    def panel(self, place: int) -> tuple[str, Sequence[SampledQuestion]]:
        """Returns the questions in place of TriviaQA (0) or SQuAD (1), and what they are."""

    @abstractmethod
    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        """Returns training questions, None where there are none, and validation questions, by dataset."""

    @abstractmethod
    def by_temperature(self) -> dict[float, Sequence[SampledQuestion]]:
        """Returns questions with the responses of the first two agents at other temperatures."""

    @abstractmethod
    def generation_seconds(self) -> float | None:
        """Returns the wall-clock seconds a question that sampling took; None where it was done before."""

    @cached_property
    def main(self) -> Sequence[SampledQuestion]:
        return self.panel(0)[1]

    @property
    def plain_setting(self) -> Setting:
        """The setting without memory, for the time that judging takes."""
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
    """Responses that are asked for when they are needed first, and kept under `folder`.

    Attributes:
        config: The agents.
        sources: At most two.
        folder: Holds a folder for each run.
        limit: Questions of each.
        seed: Of questions and samples.
        with_context: Whether passages are shown.
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
        """Returns a dataset's validation questions; of a lone dataset, its other split in place of the second."""
        if place < len(self.sources):
            source = self.sources[place]
            return _said(source.source, source.validation), self._run(source.source, source.validation)
        source = self.sources[0]
        if source.train is None:
            raise ConfigurationError(f"{source.source} has no second split", hint='Pass "--dataset" twice')
        return _said(source.source, source.train), self._run(source.source, source.train)

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
        """Returns the first dataset's validation questions at each temperature, the configuration's own among them."""
        source, two = self.sources[0], self.config.agents[:2]
        found = {each: self._run(source.source, source.validation, temperature=each) for each in TEMPERATURES}
        own = {agent.temperature for agent in two}
        return {**dict.fromkeys(own, self.main), **found} if len(own) == 1 else dict(found)

    def generation_seconds(self) -> float | None:
        """Returns what the first dataset's validation run took, if it was whole when it began and ended here."""
        _ = self.main
        source = self.sources[0]
        seconds = self._seconds.get(_name(source.source, source.validation, None))
        return None if seconds is None else seconds / len(self.main)

    def _run(self, source: str, split: str | None, *, temperature: float | None = None) -> list[SampledQuestion]:
        name = _name(source, split, temperature)
        if name not in self._runs:
            self._runs[name] = self._asked(name, source, split, temperature)
        return self._runs[name]

    def _asked(self, name: str, source: str, split: str | None, temperature: float | None) -> list[SampledQuestion]:
        from coe_agents.cli.sample import load_set, sample_to
        from coe_agents.evaluation.store import SAMPLES

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
        shown = self.with_context and all(question.context is not None for question in found.questions)
        out = self.folder / name
        fresh, start = not out.exists(), time.perf_counter()
        sample_to(
            out,
            found,
            config,
            limit=self.limit,
            seed=self.seed,
            with_context=shown,
            self_checks=["p_false"] if temperature is None else [],
        )
        if fresh:
            self._seconds[name] = time.perf_counter() - start
        return read([out / SAMPLES])


@dataclass(frozen=True)
class SavedMaterial(Material):
    """Responses from saved files; nobody is asked.

    Attributes:
        questions: With the responses of the agents.
        source: What they are from.
    """

    questions: Sequence[SampledQuestion]
    source: str

    def panel(self, place: int) -> tuple[str, Sequence[SampledQuestion]]:
        """Returns the files' questions, whatever they stand for."""
        return self.source, self.questions

    def datasets(self) -> dict[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]]:
        """Returns the files' questions as validation questions."""
        return {self.source: (None, self.questions)}

    def by_temperature(self) -> dict[float, Sequence[SampledQuestion]]:
        """Returns nothing: files have one temperature, and do not say which."""
        return {}

    def generation_seconds(self) -> float | None:
        """Returns None: they were generated elsewhere."""
        return None


def read(paths: Sequence[Path]) -> list[SampledQuestion]:
    """Returns the questions of files of samples, in memory."""
    with Samples(paths) as samples:
        return list(samples)


def remembered(setting: Setting) -> Setting:
    """Returns the setting with an entailment model that is asked for each pair once."""
    clusterer = setting.clusterer
    if not isinstance(clusterer, BidirectionalEntailment):
        return setting
    model = CachedEntailment(clusterer.model, max_pairs=_MOST_PAIRS)
    return Setting(clusterer.with_model(model), setting.criterion, model, setting.weighting)


def known_beliefs(identifier: str, agent: str) -> Mapping[str, float] | None:
    """Returns what a model of tinyworld believes about one of its facts; None of any other."""
    fact = {fact.id: fact for fact in load_facts()}.get(identifier)
    return None if fact is None else beliefs(fact).get(agent.removesuffix(_TWIN))


def span_of(question: SampledQuestion, response: Sample) -> str:
    """Returns the short answer that came with the data, else the one that is found in the text."""
    found = answer_span(question, response)
    if found != response["text"]:
        return found
    return response["answer"] if response["answer"] is not None else canonical_answer(response["text"])


def twins_of(agents: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the second instances."""
    return tuple(agent + _TWIN for agent in agents)


def without_twins(questions: Sequence[SampledQuestion]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the agents of saved samples, and the second instances of those where all of them have one.

    Their order is one that only their responses decide, so that names choose no group.
    """
    names = {response["agent"] for question in questions for response in question.responses}
    agents = tuple(ordered_by_responses((name for name in names if not name.endswith(_TWIN)), questions))
    twins = twins_of(agents)
    return agents, twins if all(twin in names for twin in twins) else ()


def _said(source: str, split: str | None) -> str:
    return source if split is None else f"{source}, {split}"


def _name(source: str, split: str | None, temperature: float | None) -> str:
    parts = [Path(source).name, split, None if temperature is None else f"temperature-{temperature:g}"]
    return "-".join(part for part in parts if part is not None)
