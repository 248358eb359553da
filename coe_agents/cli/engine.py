"""Owns the Ray engine of the commands: how many actors run, and how they share the limits of an endpoint."""

from typing import TYPE_CHECKING

import typer

from coe_agents.cli.interrupts import clean_up_after_interrupt
from coe_agents.cli.options import EngineOptions

if TYPE_CHECKING:
    from coe_agents.config.schema import Config
    from coe_agents.experiments.distributed import Pool


def ray_options(options: EngineOptions) -> EngineOptions | None:
    """Returns the options of the Ray engine, None for this process."""
    if options.engine == "ray":
        clean_up_after_interrupt()
        return options
    for name in ("address", "actors", "gpus_per_actor", "part_timeout"):
        if getattr(options, name):
            raise typer.BadParameter(
                "it requires --engine ray. Add --engine ray, or omit it", param_hint=f"--{name.replace('_', '-')}"
            )
    return None


def create_pool(ray: EngineOptions, *, n_parts: int, bound: int | None) -> "Pool":
    """Returns the actors: as many as requested, else one for each machine, but no more than parts of the work.

    An idle actor would waste its share of the endpoints, whose limits at most `bound` actors can share.
    """
    from coe_agents.experiments.distributed import Pool, n_nodes

    bounds = (ray.actors or n_nodes(), n_parts, *(() if bound is None else (bound,)))
    limit = {} if ray.part_timeout is None else {"seconds": ray.part_timeout}
    return Pool(max(1, min(bounds)), ray.gpus_per_actor, **limit)


def share_limits(config: "Config | None", n_actors: int) -> "Config | None":
    """Returns a copy in which each endpoint's limit is one actor's share of it; all shares together fit the limit."""
    if config is None:
        return None
    config = config.model_copy(deep=True)
    for section in (*config.agents, config.clusterer):
        if hasattr(section, "max_concurrency"):
            section.max_concurrency = max(1, section.max_concurrency // n_actors)
    return config
