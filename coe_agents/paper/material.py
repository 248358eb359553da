"""Owns the data of `reproduce`: responses sampled once and stored, or read from saved files."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import coe_agents
from coe_agents.cli.inputs import create_setting, load_quietly
from coe_agents.cli.options import SamplingOptions, ScoringOptions
from coe_agents.cli.sample import sample_to
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.clustering.entailment_wrappers import CachedEntailment
from coe_agents.config.build import create_clusterer
from coe_agents.config.sampling_group import judging_of
from coe_agents.config.schema import Config, load_config
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.scoring.correctness import create_criterion
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.paper.algorithm_1 import GENERATIONS, fewest_responses, needs_responses
from coe_agents.paper.ranking import order_by_responses
from coe_agents.text import quantity
from coe_agents.types import SampledQuestion

SHIPPED = Path(__file__).parent / "reproduce.toml"
TEMPERATURES = (0.8, 0.9, 1.0)
_TWIN = " (2)"
_MOST_PAIRS = 10_000_000
"""Entailments to cache: enough for all of a run."""


Questions = Sequence[SampledQuestion]
Load = Callable[[], Questions]
"""Returns questions; they are sampled or read when it is first called."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """The data that experiments read.

    Attributes:
        agents: The models' names, in the order in which they join a group.
        twins: The names of their second instances.
        setting: How responses become numbers; results of its entailment model are cached.
        provenance: The lines under every table.
        datasets: By name, the training questions (None without any) and the validation questions.
        panels: What stands for TriviaQA and for SQuAD, after a description of it.
        temperatures: The responses of the first two agents at other temperatures, where they can be asked.
        left_out: The experiments that "all" omits, and why.
    """

    agents: tuple[str, ...]
    twins: tuple[str, ...]
    setting: ScoringSetup
    provenance: Mapping[str, str]
    datasets: Mapping[str, tuple[Load | None, Load]]
    panels: Sequence[tuple[str, Load]]
    temperatures: Mapping[float, Load] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def main(self) -> Questions:
        """The questions that stand for TriviaQA."""
        _, load = self.panels[0]
        return load()

    def panel(self, place: int) -> tuple[str, Questions]:
        """Returns the questions that stand for TriviaQA (0) or SQuAD (1), after a description of them."""
        if place == len(self.panels):
            raise ConfigurationError(
                f"{self.panels[0][0]} has no second split", hint='Pass "--dataset" twice'
            )
        source, load = self.panels[place]
        return source, load()


def create_sampled_material(
    config: Path | None, datasets: Sequence[str] | None, folder: Path, *, limit: int, seed: int
) -> Material:
    """Returns material from the agents of a configuration, by default `reproduce.toml`.

    Responses are sampled when first needed, and stored under `folder`, in a folder for each run.
    """
    load_quietly(config)  # sets the environment
    settings = load_config(config or SHIPPED)
    sources = ["triviaqa", "squad"] if config else ["tinyworld"]
    if datasets:
        sources = list(datasets)
    judging = judging_of(settings, is_tinyworld=sources[0] == "tinyworld")
    clusterer = create_clusterer(settings)
    criterion = create_criterion(judging.correctness, clusterer)
    setting = _with_cache(ScoringSetup(clusterer, criterion))
    sampled = _create_sampling(settings, folder, limit=limit, seed=seed)

    loads: dict[str, tuple[Load | None, Load]] = {}
    panels: list[tuple[str, Load]] = []
    for source in sources:
        train, validation = _splits(source)
        load_train = None if train is None else partial(sampled, source, train)
        load_validation = partial(sampled, source, validation)
        loads[source] = (load_train, load_validation)
        panels.append((_panel_name(source, validation), load_validation))
        if load_train is not None and len(sources) == 1:
            panels.append((_panel_name(source, train), load_train))  # stands for SQuAD

    _, main_split = _splits(sources[0])
    load_main = partial(sampled, sources[0], main_split)
    by_temperature: dict[float, Load] = {}
    of_config = {agent.temperature for agent in settings.agents[:2]}
    if len(of_config) == 1:  # the main responses are there already
        by_temperature[of_config.pop()] = load_main
    for temperature in TEMPERATURES:
        by_temperature[temperature] = partial(load_main, temperature=temperature)

    names = tuple(agent.name for agent in settings.agents)
    return Material(
        agents=names,
        twins=tuple(name + _TWIN for name in names),
        setting=setting,
        provenance={
            "dataset": " and ".join(sources),
            "agents": ", ".join(names),
            "n": _size(settings, limit),
            "temperature": _join(agent.temperature for agent in settings.agents),
            "seed": str(seed),
            **_provenance(setting, settings),
        },
        datasets=loads,
        panels=panels,
        temperatures=by_temperature,
    )


def _size(settings: Config, limit: int) -> str:
    """Returns how many questions are asked, and how often, in words."""
    n_questions = quantity(limit, "question") if limit else "all questions"
    sizes = _join(agent.n_samples for agent in settings.agents)
    n_responses = "1 response" if sizes == "1" else f"{sizes} responses"
    return f"{n_questions}, {n_responses} of each agent"


def _create_sampling(
    settings: Config, folder: Path, *, limit: int, seed: int
) -> Callable[..., Questions]:
    """Returns a function of a source, a split and a temperature, which samples each once."""

    @cache
    def sampled(source: str, split: str | None, temperature: float | None = None) -> Questions:
        name = Path(source).name
        if split is not None:
            name += f"-{split}"
        if temperature is not None:
            name += f"-temperature-{temperature:g}"
        options = SamplingOptions(
            dataset=source,
            split=split,
            out=folder / name,
            limit=limit,
            seed=seed,
            p_false=temperature is None,
        )
        sample_to(options, _varied(settings, temperature, seed=seed))
        return _read([options.out / SAMPLES])

    return sampled


def _panel_name(source: str, split: str | None) -> str:
    return source if split is None else f"{source}, {split}"


def _varied(settings: Config, temperature: float | None, *, seed: int) -> Config:
    """Returns a copy with a second instance of each agent, or with the first two agents at another temperature."""
    config = settings.model_copy(deep=True)
    if temperature is None:
        twins = [agent.model_copy(deep=True) for agent in config.agents]
        for agent in twins:
            agent.name += _TWIN
            seed_of_first = seed if agent.seed is None else agent.seed
            agent.seed = seed_of_first + 1
        config.agents += twins
    else:
        del config.agents[2:]
        for agent in config.agents:
            agent.temperature = temperature
    return config


def read_saved_material(
    paths: Sequence[Path], agents: Sequence[str] | None, *, config: Path | None
) -> Material:
    """Returns material from files of samples; they are judged as `score` does it, and no agent is asked."""
    questions = _read(paths)
    counts = []
    in_files: set[str] = set()
    for question in questions:
        by_agent = Counter(response["agent"] for response in question.responses)
        counts.append(by_agent)
        in_files |= by_agent.keys()
    if agents is None:
        # by their responses only, so that groups do not depend on names
        models = [name for name in in_files if not name.endswith(_TWIN)]
        agents = order_by_responses(models, questions)
    missing = [name for name in agents if name not in in_files]
    if missing:
        hint = f"The files have {', '.join(sorted(in_files))}"
        raise ConfigurationError(
            f'"--agents" must name agents of the files; got {", ".join(missing)}', hint=hint
        )

    n_responses = [by_agent[name] for by_agent in counts for name in agents]
    n_questions = quantity(len(questions), "question")

    left_out = {
        "squad": "the files count as one dataset; run it by name to use them in place of SQuAD"
    }
    fewest = fewest_responses(questions, agents[:2])
    if fewest < GENERATIONS[0] and len(agents) > 1:
        left_out["sampling"] = f"it {needs_responses(fewest)}"

    twins = tuple(name + _TWIN for name in agents)
    if not in_files.issuperset(twins):
        twins = ()
    setting, _ = create_setting(ScoringOptions(config=config), paths)
    setting = _with_cache(setting)
    source = ", ".join(path.name for path in paths)
    return Material(
        agents=tuple(agents),
        twins=twins,
        setting=setting,
        provenance={
            "dataset": source,
            "agents": ", ".join(agents),
            "n": f"{n_questions}, {min(n_responses)} to {max(n_responses)} responses of each agent",
            "temperature and seed": "unknown: the files do not state them",
            **_provenance(setting, None),
        },
        datasets={source: (None, lambda: questions)},
        panels=[(source, lambda: questions)] * 2,
        left_out=left_out,
    )


def _read(paths: Sequence[Path]) -> list[SampledQuestion]:
    with Samples(paths) as samples:
        return list(samples)


def _with_cache(setting: ScoringSetup) -> ScoringSetup:
    if not isinstance(setting.clusterer, BidirectionalEntailment):
        return setting
    model = CachedEntailment(setting.clusterer.model, max_pairs=_MOST_PAIRS)
    return replace(setting, clusterer=setting.clusterer.with_model(model), entailment=model)


def _splits(source: str) -> tuple[str | None, str | None]:
    if Path(source).is_file():
        return None, None
    training = "calibration" if source == "tinyworld" else "train"
    return training, "validation"


def _provenance(setting: ScoringSetup, config: Config | None) -> dict[str, str]:
    clusterer = type(setting.clusterer).__name__
    if isinstance(setting.clusterer, BidirectionalEntailment):
        model = type(setting.clusterer.model).__name__
        if config:
            model = getattr(config.clusterer, "model", None) or model
        clusterer += f" ({model})"
    return {
        "clusterer": clusterer,
        "right by": setting.criterion.name,
        "weighting": setting.weighting,
        "date": datetime.now(UTC).date().isoformat(),
        "version": f"coe-agents {coe_agents.__version__}",
    }


def _join(values: Iterable[float]) -> str:
    distinct = sorted(set(values))
    return ", ".join(f"{value:g}" for value in distinct)
