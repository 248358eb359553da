"""Owns the option `--engine`: what runs on a Ray cluster, and how its actors share what an endpoint allows."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from coe_agents.config.group import Group, SelfCheck
    from coe_agents.config.schema import Config
    from coe_agents.distributed import Pool
    from coe_agents.evaluation import ScoringSetup

Name = Literal["local", "ray"]
EngineOption = Annotated[
    Name, typer.Option("--engine", help="local: this process; ray: a Ray cluster (coe-agents[ray]), Parquet out.")
]
AddressOption = Annotated[
    str | None, typer.Option(help="Of a Ray cluster; default: RAY_ADDRESS, else one on this machine.")
]
ActorsOption = Annotated[
    int | None, typer.Option(min=1, help="Processes on the Ray cluster; default: one for each machine.")
]
GpusOption = Annotated[float, typer.Option(min=0, help="GPUs of each actor; 0.5 lets two share one.")]
PartitionOption = Annotated[int, typer.Option(min=1, help="Questions in a Parquet file of --engine ray.")]
_JUDGED_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class RayEngine:
    """The options that go with `--engine ray`."""

    address: str | None
    actors: int | None
    gpus_per_actor: float

    def pool(self, *, n_parts: int, bound: int | None) -> "Pool":
        """Returns the actors: as many as were asked for, or machines there are, if there is work for them.

        Args:
            n_parts: Of the work; an idle actor would waste its share of the endpoints.
            bound: How many can share what the endpoints allow; None without endpoints.
        """
        from coe_agents.distributed import Pool, n_nodes

        bounds = (self.actors or n_nodes(), n_parts, *(() if bound is None else (bound,)))
        return Pool(max(1, min(bounds)), self.gpus_per_actor)


def engine_of(engine: Name, *, address: str | None, actors: int | None, gpus_per_actor: float) -> RayEngine | None:
    """Returns the Ray engine, None for this process.

    Raises:
        BadParameter: An option goes with another engine.
    """
    given = {"--address": address, "--actors": actors, "--gpus-per-actor": gpus_per_actor or None}
    if engine == "ray":
        return RayEngine(address, actors, gpus_per_actor)
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter("it goes with --engine ray", param_hint=name)
    return None


def served_at_most(config: "Config | None", at_once: int | None) -> int | None:
    """Returns how many actors can share what the agents' endpoints allow; None without endpoints."""
    from coe_agents.config.clients import LOCAL_PROVIDERS, default_at_once

    served = [agent for agent in config.agents if agent.provider not in LOCAL_PROVIDERS] if config else []
    bounds = [min(at_once or default_at_once(agent.provider), agent.max_concurrency) for agent in served]
    return min(bounds, default=None)


def judged_at_most(config: "Config | None", correctness: str) -> int | None:
    """The same of what scoring asks: the judge of equivalence, and that of correctness."""
    bounds = [_JUDGED_AT_ONCE] if correctness == "judge" else []
    if config and config.clusterer.kind == "llm":
        bounds.append(config.clusterer.max_concurrency)
    return min(bounds, default=None)


def shared(config: "Config | None", n_actors: int) -> "Config | None":
    """Returns a configuration in which each endpoint takes an actor's share: all shares fit into what it allows."""
    if config is None:
        return None
    config = config.model_copy(deep=True)
    for section in (*config.agents, config.clusterer):
        if hasattr(section, "max_concurrency"):
            section.max_concurrency = max(1, section.max_concurrency // n_actors)
    return config


def create_share(
    prompts: Mapping[str, str],
    *,
    config: "Config | None",
    seed: int,
    at_once: int | None,
    n_sharing: int,
    self_checks: "Collection[SelfCheck]",
    passages: bool,
) -> "Group":
    """Makes an actor's agents, in the actor, whose environment holds the keys."""
    from coe_agents.config.group import create_group

    return create_group(
        config,
        prompts,
        seed=seed,
        at_once=at_once,
        n_sharing=n_sharing,
        self_checks=self_checks,
        passages=passages,
    )


def create_scorer(*, clusterer: str | None, config: "Config | None", correctness: str, n_actors: int) -> "ScoringSetup":
    """Makes an actor's models for scoring, in the actor."""
    from coe_agents.cli.score import setting_of

    return setting_of(clusterer, config, correctness, judged_at_once=_JUDGED_AT_ONCE // n_actors)


def scorer_settings(clusterer: str | None, config: "Config | None") -> dict[str, Any]:
    """Returns what scores hang on of a configuration, without keys."""
    from coe_agents.redaction import redacted, secrets_of

    if config is None:
        return {"clusterer": clusterer or "normalized"}
    sections = {"clusterer": config.clusterer, "judge": config.judge}
    told = {name: section.model_dump(exclude={"base_url"}) for name, section in sections.items() if section is not None}
    secrets = frozenset().union(*(secrets_of(section) for section in sections.values() if section is not None))
    return {**json.loads(redacted(json.dumps(told), secrets)), **({"clusterer": clusterer} if clusterer else {})}
