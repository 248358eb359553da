"""Owns the command `sample`: asks every agent many questions and stores the responses."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from coe_agents.cli.ask import load_quietly
from coe_agents.cli.engine import create_pool, ray_options, share_limits
from coe_agents.cli.interrupts import clean_up_after_interrupt
from coe_agents.cli.options import EngineOptions, Exit, PartitionOption, SamplingOptions, expand_options
from coe_agents.cli.terminal import clean, print_lines

if TYPE_CHECKING:
    from pathlib import Path

    from coe_agents.config.group import Group, SelfCheck
    from coe_agents.config.schema import Config
    from coe_agents.distributed import SampleParts
    from coe_agents.evaluation.datasets import Question, QuestionSet
    from coe_agents.evaluation.samples.store import Store, Unit

SAMPLE_EPILOG = (
    "Exit status: 0 all agents answered, 1 a request failed or a response could not be stored, 2 a mistake in the "
    "command, 130 interrupted."
)
_INTERRUPTED = 130


@expand_options
def sample(sampling: SamplingOptions, engine: EngineOptions, partition_size: PartitionOption = 100) -> None:
    """Ask every agent the questions of a dataset, and store each response as it arrives."""
    ray = ray_options(engine)
    config = load_quietly(sampling.config)
    questions = load_set(sampling.dataset, sampling.split)
    sample_to(sampling, questions, config, engine=ray, partition_size=partition_size)


def sample_to(
    options: SamplingOptions,
    found: "QuestionSet",
    config: "Config | None",
    *,
    engine: EngineOptions | None = None,
    partition_size: int = 100,
) -> None:
    """Asks the agents of a configuration the questions of a set, and stores the responses in the folder `options.out`.

    `found` and `config` (None for tinyworld) are what `dataset`, `split` and `config` of the options name.
    """
    from coe_agents.evaluation.datasets import examples_from, load_prompt, subset

    seed, passages = options.seed, options.with_context
    wording = load_prompt(found.kind, options.prompt)
    questions = subset(found.questions, options.limit or None, seed=seed)
    examples = examples_from(found.questions, options.shots, seed=seed, with_context=passages)
    prompts = {
        # where tools are shown, a wording that asks for a short answer would ask for something else
        question.id: question.question
        if question.tools is not None and options.prompt is None
        else wording.text(question, examples(question), with_context=passages)
        for question in questions
    }
    from coe_agents.config.group import create_group  # slow to import: mistakes above are reported first

    fields: dict[SelfCheck, bool] = {"p_false": options.p_false, "verbal_conf": options.verbal_confidence}
    self_checks = [field for field, is_wanted in fields.items() if is_wanted]
    asked: dict[str, Any] = {"seed": seed, "at_once": options.at_once, "self_checks": self_checks, "passages": passages}
    group = create_group(config, prompts, **asked)
    settings = {
        "dataset": {
            "source": found.source,
            "n_records": found.n_records,
            "n_questions": len(found.questions),
            "limit": options.limit,
            "sha256": _digest([asdict(question) for question in questions]),
        },
        "seed": seed,
        "prompt": {**asdict(wording), "passages": passages, "shots": options.shots, "sha256": _digest(prompts)},
        **group.settings,
    }
    if engine is None:
        _run(group, questions, settings, options.out)
        return
    from coe_agents.distributed import SampleParts, cluster
    from coe_agents.distributed import sample as sample_parts

    with (
        SampleParts(
            options.out, settings, questions, group.participants, size=partition_size, numbers=self_checks
        ) as parts,
        _progress_and_summary(group, questions, parts) as advance,
    ):
        if parts.pending_units():
            with cluster(engine.address):
                pool = create_pool(engine, n_parts=parts.n_unfinished, bound=most_actors(config, options.at_once))
                # called in the actors, whose environment holds the keys
                create = partial(create_group, share_limits(config, pool.n_actors), n_sharing=pool.n_actors, **asked)
                sample_parts(parts, prompts, create, pool, on_unit=advance)


def most_actors(config: "Config | None", at_once: int | None) -> int | None:
    """Returns how many actors can share the limits of the agents' endpoints; None without endpoints."""
    from coe_agents.config.clients import LOCAL_PROVIDERS, default_at_once

    remote = [agent for agent in config.agents if agent.provider not in LOCAL_PROVIDERS] if config else []
    bounds = [min(at_once or default_at_once(agent.provider), agent.max_concurrency) for agent in remote]
    return min(bounds, default=None)


def load_set(dataset: str, split: str | None) -> "QuestionSet":
    """Returns the questions of tinyworld or of any dataset that `load_questions` reads."""
    if dataset == "tinyworld":
        from coe_agents.tinyworld.questions import tinyworld_questions

        return tinyworld_questions(split or "validation")
    from coe_agents.evaluation.datasets import load_questions

    return load_questions(dataset, split=split)


def _run(group: "Group", questions: "Sequence[Question]", settings: dict[str, Any], out: "Path") -> None:
    import asyncio

    from coe_agents.evaluation.runner import sample as sample_all
    from coe_agents.evaluation.runner import units_of
    from coe_agents.evaluation.samples.store import Store

    with (
        Store(out, settings, units_of(questions, group.participants)) as store,
        _progress_and_summary(group, questions, store) as advance,
    ):
        asyncio.run(sample_all(questions, group, store, on_unit=advance))


@contextmanager
def _progress_and_summary(
    group: "Group", questions: "Sequence[Question]", kept: "Store | SampleParts"
) -> "Iterator[Callable[[Unit], None]]":
    """Shows the progress of a run; at its end prints where the responses are, and what failed."""
    from coe_agents.cli.display.progress import progress

    agents = group.participants
    missing = Counter(agent for _, agent in kept.pending_units())
    totals = {agent.name: (len(questions) - missing[agent.name], len(questions)) for agent in agents}
    clean_up_after_interrupt()
    try:
        with progress(totals) as advance:
            yield lambda unit: advance(unit[1], unit in kept.errors)
    except KeyboardInterrupt:
        print_lines(f"Interrupted; {len(kept.pending_units())} replies are missing. Rerun the same command to resume.")
        raise typer.Exit(_INTERRUPTED) from None
    print_lines(f"{len(questions)} questions, {len(agents)} agents: {clean(str(kept.path))}")
    for agent in agents:
        errors = [error for (_, name), error in kept.errors.items() if name == agent.name]
        if errors:
            times = "once" if len(errors) == 1 else f"{len(errors)} times"
            print_lines(f"{clean(agent.name)} failed {times}; the first error: {clean(errors[0])}")
    if kept.errors:
        print_lines("Rerun the same command to repeat the failed requests.")
        raise typer.Exit(Exit.FAILED)


def _digest(value: object) -> str:
    """Returns the SHA-256 digest of a value of JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
