"""Owns the Ray engine of the commands: how many actors run, and how they share the limits of an endpoint."""

from typing import TYPE_CHECKING

import typer

from coe_agents.cli.interrupts import clean_up_after_interrupt
from coe_agents.cli.options import EngineOptions

if TYPE_CHECKING:
    from coe_agents.config.schema import Config
    from coe_agents.distributed import Pool


def ray_options(options: EngineOptions) -> EngineOptions | None:
    """Returns the options of the Ray engine, None for this process.

    Raises:
        BadParameter: If an option of Ray is given without `--engine ray`.
    """
    if options.engine == "ray":
        clean_up_after_interrupt()
        return options
    given = {
        "--address": options.address,
        "--actors": options.actors,
        "--gpus-per-actor": options.gpus_per_actor or None,
    }
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter("it requires --engine ray. Add --engine ray, or omit it", param_hint=name)
    return None


def create_pool(ray: EngineOptions, *, n_parts: int, bound: int | None) -> "Pool":
    """Returns the actors: as many as requested, else one for each machine, but no more than there is work for.

    Args:
        ray: The options of the Ray engine.
        n_parts: Parts of the work; an idle actor would waste its share of the endpoints.
        bound: How many actors can share the limits of the endpoints; None without endpoints.
    """
    from coe_agents.distributed import Pool, n_nodes

    bounds = (ray.actors or n_nodes(), n_parts, *(() if bound is None else (bound,)))
    return Pool(max(1, min(bounds)), ray.gpus_per_actor)


def share_limits(config: "Config | None", n_actors: int) -> "Config | None":
    """Returns a copy in which each endpoint's limit is one actor's share of it; all shares together fit the limit."""
    if config is None:
        return None
    config = config.model_copy(deep=True)
    for section in (*config.agents, config.clusterer):
        if hasattr(section, "max_concurrency"):
            section.max_concurrency = max(1, section.max_concurrency // n_actors)
    return config
