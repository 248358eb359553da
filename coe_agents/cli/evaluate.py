"""Owns the command `evaluate`: `sample`, then `score` on the responses."""

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace

from coe_agents.cli.ask import load_quietly
from coe_agents.cli.engine import ray_options
from coe_agents.cli.options import (
    EngineOptions,
    JsonOption,
    PartitionOption,
    SamplingOptions,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.sample import find_questions, sample_to
from coe_agents.cli.score import figures_of, show


@expand_options
def evaluate(
    sampling: SamplingOptions,
    scoring: ScoringOptions,
    engine: EngineOptions,
    as_json: JsonOption = False,
    partition_size: PartitionOption = 100,
) -> None:
    """Run `sample`, then `score`, with the clusterer of --config or tinyworld's; --clusterer overrides both."""
    ray, config = ray_options(engine), sampling.config
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        settings = load_quietly(config)
        found = find_questions(sampling.dataset, sampling.split, seed=sampling.seed)
        sample_to(sampling, found, settings, engine=ray, partition_size=partition_size)
    needs_config = scoring.clusterer is None or scoring.correctness == "judge"
    scoring = replace(
        scoring,
        clusterer=scoring.clusterer or ("tinyworld" if config is None else None),
        config=config if needs_config else None,
    )
    show(figures_of([sampling.out], scoring), as_json=as_json)
