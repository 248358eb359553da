"""Owns the command `evaluate`: `sample`, then `score` on what it kept."""

import sys
from contextlib import ExitStack, redirect_stdout

from coe_agents.cli.engine import (
    ActorsOption,
    AddressOption,
    EngineOption,
    GpusOption,
    PartitionOption,
    engine_of,
)
from coe_agents.cli.options import ConfigOption, JsonOption
from coe_agents.cli.sample import (
    AtOnceOption,
    ContextOption,
    DatasetOption,
    LimitOption,
    OutOption,
    PFalseOption,
    PromptOption,
    SeedOption,
    ShotsOption,
    SplitOption,
    VerbalOption,
    sample,
)
from coe_agents.cli.score import ClustererOption, CorrectnessOption, WeightingOption, figures_of, show


def evaluate(
    *,
    dataset: DatasetOption,
    out: OutOption,
    split: SplitOption = None,
    limit: LimitOption = 200,
    seed: SeedOption = 0,
    with_context: ContextOption = False,
    shots: ShotsOption = 0,
    prompt: PromptOption = None,
    config: ConfigOption = None,
    at_once: AtOnceOption = None,
    p_false: PFalseOption = False,
    verbal_confidence: VerbalOption = False,
    clusterer: ClustererOption = None,
    weighting: WeightingOption = "auto",
    correctness: CorrectnessOption = "reference_or_label",
    as_json: JsonOption = False,
    engine: EngineOption = "local",
    address: AddressOption = None,
    actors: ActorsOption = None,
    gpus_per_actor: GpusOption = 0.0,
    partition_size: PartitionOption = 100,
) -> None:
    """Sample, then score: by the clusterer of --config, or tinyworld's without, unless --clusterer names another."""
    ray = engine_of(engine, address=address, actors=actors, gpus_per_actor=gpus_per_actor)
    with ExitStack() as stack:
        if ray is not None:
            from coe_agents.distributed import cluster

            stack.enter_context(cluster(ray.address))  # one for both
        with redirect_stdout(sys.stderr) if as_json else ExitStack():
            sample(
                dataset=dataset,
                out=out,
                split=split,
                limit=limit,
                seed=seed,
                with_context=with_context,
                shots=shots,
                prompt=prompt,
                config=config,
                at_once=at_once,
                p_false=p_false,
                verbal_confidence=verbal_confidence,
                engine=engine,
                address=address,
                actors=actors,
                gpus_per_actor=gpus_per_actor,
                partition_size=partition_size,
            )
        figures = figures_of(
            [out],
            clusterer=clusterer or ("tinyworld" if config is None else None),
            config=config if clusterer is None or correctness == "judge" else None,
            weighting=weighting,
            correctness=correctness,
            engine=ray,
            out=out / "scores",
        )
    show(figures, as_json=as_json)
