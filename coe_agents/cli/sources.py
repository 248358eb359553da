"""Owns the step from the options of `reproduce` to the data of its experiments."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import coe_agents
from coe_agents.cli.material import Asked, AskedMaterial, SavedMaterial, read, twins_of, with_cache, without_twins
from coe_agents.cli.options import ScoringOptions
from coe_agents.cli.score import create_setting
from coe_agents.clustering import BidirectionalEntailment, Clusterer, NormalizedMatch
from coe_agents.config.schema import Config, load_config
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import CRITERIA, Criterion, SameMeaning, SampledQuestion
from coe_agents.experiments import Setting
from coe_agents.tinyworld import load_facts
from coe_agents.tinyworld.correctness import tinyworld_criterion

SHIPPED = Path(__file__).parent / "reproduce.toml"


def asked_material(
    config: Path | None,
    datasets: Sequence[str] | None,
    folder: Path,
    *,
    limit: int,
    seed: int,
    with_context: bool,
    correctness: str | None,
) -> AskedMaterial:
    """Returns material from the agents of a configuration, by default `reproduce.toml`; no agent is asked yet.

    Raises:
        ConfigurationError: If the configuration is invalid.
    """
    from coe_agents.cli.ask import load_quietly
    from coe_agents.config.build import create_clusterer

    load_quietly(config)  # sets the environment
    settings = load_config(config or SHIPPED)
    sources = tuple(Asked.of(source) for source in datasets or (["triviaqa", "squad"] if config else ["tinyworld"]))
    clusterer = create_clusterer(settings)
    names = tuple(agent.name for agent in settings.agents)
    setting = with_cache(
        Setting(clusterer, _criterion(correctness, clusterer, tinyworld=sources[0].source == "tinyworld"))
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
    return AskedMaterial(
        agents=names,
        twins=twins_of(names),
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


def saved_material(
    paths: Sequence[Path], agents: Sequence[str] | None, *, config: Path | None, correctness: str | None
) -> SavedMaterial:
    """Returns material from files of samples; the clusterer is the configuration's, `NormalizedMatch` without one.

    Raises:
        ConfigurationError: If the files lack an agent.
        SamplesError: If a file is malformed.
    """
    questions = read(paths)
    names, twins = without_twins(questions)
    if agents is not None:
        in_files = {response["agent"] for question in questions for response in question.responses}
        missing = [name for name in agents if name not in in_files]
        if missing:
            raise ConfigurationError(
                f'"--agents" must name agents of the files; got {", ".join(missing)}',
                hint=f"The files have {', '.join(sorted(in_files))}",
            )
        names, twins = tuple(agents), tuple(twin for twin in twins_of(agents) if twin in in_files)
    facts = {fact.id for fact in load_facts()}
    of_tinyworld = all(question.id in facts for question in questions)
    clusterer: Clusterer = (
        NormalizedMatch() if config is None else create_setting(ScoringOptions(config=config)).clusterer
    )
    setting = with_cache(Setting(clusterer, _criterion(correctness, clusterer, tinyworld=of_tinyworld)))
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


def _criterion(name: str | None, clusterer: Clusterer, *, tinyworld: bool) -> Criterion:
    if name == "entailment":
        return SameMeaning(clusterer)
    if name is None and tinyworld:
        return tinyworld_criterion()
    return CRITERIA[name or "reference_or_label"]


def _provenance(setting: Setting, config: Config | None) -> dict[str, str]:
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
