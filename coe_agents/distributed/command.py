"""Owns `--engine ray` of the commands `sample` and `run`: the cluster, its actors, and their share of the limits."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from coe_agents.cli.options import EngineOptions
from coe_agents.config.models import default_at_once, is_served
from coe_agents.config.schema import Config
from coe_agents.distributed.parts import decide_parts, sample_parts
from coe_agents.distributed.ray_cluster import Pool, cluster, n_nodes
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.samples.store import Store, Unit
from coe_agents.experiments.dataset_run import Row, Timings


def sample_on_cluster(
    engine: EngineOptions,
    config: Config | None,
    create_group: Callable[..., Any],
    questions: Iterable[Question],
    store: Store,
    *,
    missing: Mapping[str, int],
    on_unit: Callable[[Unit], None],
    **options: Any,
) -> None:
    """Asks the agents what the store lacks on a Ray cluster; `missing` is how many replies of each agent."""
    with cluster(engine.address):
        n_questions = max(missing.values())
        pool, create, size = create_pool(
            engine, config, create_group, n_questions=n_questions, usual_size=100, **options
        )
        agents = list(missing)
        sample_parts(questions, create, store, pool, agents=agents, size=size, on_unit=on_unit)


def decide_on_cluster(
    engine: EngineOptions,
    config: Config | None,
    create_group: Callable[..., Any],
    questions: Iterable[Question],
    store: Store,
    *,
    timings: Timings,
    on_row: Callable[[Row], None],
    **options: Any,
) -> None:
    """Decides the questions that the store lacks on a Ray cluster."""
    with cluster(engine.address):
        n_questions = store.n_pending
        pool, create, size = create_pool(
            engine, config, create_group, n_questions=n_questions, usual_size=10, **options
        )
        decide_parts(questions, create, store, timings, pool, size=size, on_row=on_row)


def create_pool(
    ray: EngineOptions,
    config: Config | None,
    create: Callable[..., Any],
    *,
    n_questions: int,
    usual_size: int,
    at_once: int | None,
    **options: Any,
) -> tuple[Pool, Callable[..., Any], int]:
    """Returns the actors, what makes the group in each, and how many of the questions are in a part.

    The group is what `create` returns, called with its share of a configuration.

    There are as many actors as requested, else one for each machine, but no more than parts of the work, and than can
    share the limits of the endpoints: an idle one would waste its share.
    """
    size = ray.partition_size or usual_size
    n_parts = math.ceil(n_questions / size)
    n_actors = min(ray.actors or n_nodes(), n_parts)
    most = most_actors(config, at_once)
    if most is not None:
        n_actors = min(n_actors, most)

    pool = Pool(max(1, n_actors), ray.gpus_per_actor)
    if ray.part_timeout is not None:
        pool = replace(pool, seconds=ray.part_timeout)
    # called in the actors, whose environment holds the keys
    share = share_limits(config, pool.n_actors)
    return pool, partial(create, share, n_sharing=pool.n_actors, at_once=at_once, **options), size


def most_actors(config: Config | None, at_once: int | None) -> int | None:
    """Returns how many actors can share the limits of the agents' endpoints; None without endpoints."""
    if config is None:
        return None
    limits = []
    for agent in config.agents:
        if is_served(agent):
            n_at_once = at_once or default_at_once(agent.provider)
            limits.append(min(n_at_once, agent.max_concurrency))
    return min(limits, default=None)


def share_limits(config: Config | None, n_actors: int) -> Config | None:
    """Returns a copy in which each endpoint's limit is one actor's share of it; all shares together fit the limit."""
    if config is None:
        return None
    config = config.model_copy(deep=True)
    for section in (*config.agents, config.clusterer):
        if hasattr(section, "max_concurrency"):
            section.max_concurrency = max(1, section.max_concurrency // n_actors)
    return config
