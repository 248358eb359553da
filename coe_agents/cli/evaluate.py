"""Owns the command `evaluate`: `sample`, then `score` on the responses."""

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace

from coe_agents.cli.options import (
    EngineOptions,
    JsonOption,
    PartitionOption,
    SamplingOptions,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.sample import sample_questions
from coe_agents.cli.score import show_scores


@expand_options
def evaluate(
    sampling: SamplingOptions,
    scoring: ScoringOptions,
    engine: EngineOptions,
    as_json: JsonOption = False,
    partition_size: PartitionOption = 100,
) -> None:
    """Run `sample`, then `score`; both --clusterer and --correctness are by default what the run records."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        sample_questions(sampling, engine, partition_size)
    names_all = scoring.clusterer is not None and scoring.correctness != "judge"
    scoring = replace(scoring, config=None if names_all else sampling.config)
    show_scores([sampling.out], scoring, as_json=as_json)
