"""Owns the command `sample`: asks every agent many questions, and keeps what they say."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.engine import (
    ActorsOption,
    AddressOption,
    EngineOption,
    GpusOption,
    PartitionOption,
    RayEngine,
    create_share,
    engine_of,
    served_at_most,
    shared,
)
from coe_agents.cli.options import ConfigOption, Exit

if TYPE_CHECKING:
    from coe_agents.config.group import Group, SelfCheck
    from coe_agents.config.schema import Config
    from coe_agents.distributed import SampleParts
    from coe_agents.evaluation.datasets import Question, QuestionSet
    from coe_agents.evaluation.samples.store import Store, Unit

DatasetOption = Annotated[
    str,
    typer.Option(
        help="triviaqa, squad, squad_v2, nq_open or truthfulqa (from the hub); tinyworld; one of their official files; "
        "JSON Lines; Parquet; or a folder of a dataset."
    ),
]
OutOption = Annotated[Path, typer.Option(help="The run's folder. The same command goes on where it stopped.")]
SplitOption = Annotated[str | None, typer.Option(help="Of the dataset; default: validation.")]
LimitOption = Annotated[int, typer.Option(min=0, help="How many questions, drawn by --seed; 0 for all.")]
SeedOption = Annotated[int, typer.Option(help="Draws questions and examples; samples, too, of agents without a seed.")]
ContextOption = Annotated[bool, typer.Option("--with-context", help="Show the passage with each question.")]
ShotsOption = Annotated[int, typer.Option(min=0, help="Examples shown before each question.")]
PromptOption = Annotated[Path | None, typer.Option(help="TOML file: instruction, question, with_context.")]
AtOnceOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Questions put at once to each server of an agent; default: 8, and 1 to a model in this process: in a "
        "batch, which is faster, the last digits of its log-probabilities hang on who shares it.",
    ),
]
PFalseOption = Annotated[
    bool, typer.Option("--p-false", help="Ask each agent about its own answers: its probability that one is false.")
]
VerbalOption = Annotated[
    bool, typer.Option("--verbal-confidence", help="Ask each agent about its own answers: how sure it says it is.")
]
SAMPLE_EPILOG = (
    "Exit status: 0 all replied, 1 some failed or could not be kept, 2 a mistake in the command, 130 stopped."
)
_STOPPED = 130


def sample(
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
    engine: EngineOption = "local",
    address: AddressOption = None,
    actors: ActorsOption = None,
    gpus_per_actor: GpusOption = 0.0,
    partition_size: PartitionOption = 100,
) -> None:
    """Ask every agent the questions of a dataset, and keep all responses as they come."""
    from coe_agents.cli.ask import load_quietly

    ray = engine_of(engine, address=address, actors=actors, gpus_per_actor=gpus_per_actor)
    settings = load_quietly(config)
    asked: dict[SelfCheck, bool] = {"p_false": p_false, "verbal_conf": verbal_confidence}
    sample_to(
        out,
        load_set(dataset, split),
        settings,
        limit=limit,
        seed=seed,
        with_context=with_context,
        shots=shots,
        prompt=prompt,
        at_once=at_once,
        self_checks=[field for field, wanted in asked.items() if wanted],
        engine=ray,
        partition_size=partition_size,
    )


def sample_to(
    out: Path,
    found: "QuestionSet",
    settings: "Config | None",
    *,
    limit: int,
    seed: int,
    with_context: bool = False,
    shots: int = 0,
    prompt: Path | None = None,
    at_once: int | None = None,
    self_checks: "Sequence[SelfCheck]" = (),
    engine: RayEngine | None = None,
    partition_size: int = 100,
) -> None:
    """Asks the agents of a configuration questions of a set, and keeps what they say in the run's folder.

    Raises:
        Exit: Some failed, or it was stopped; the same call goes on.
    """
    from coe_agents.evaluation.datasets import examples_from, load_prompt, subset

    wording = load_prompt(found.kind, prompt)
    questions = subset(found.questions, limit or None, seed=seed)
    examples = examples_from(found.questions, shots, seed=seed, with_context=with_context)
    prompts = {
        question.id: wording.text(question, examples(question), with_context=with_context) for question in questions
    }
    from coe_agents.config.group import create_group  # heavy, and not before a mistake is told

    group = create_group(settings, prompts, seed=seed, at_once=at_once, self_checks=self_checks, passages=with_context)
    told = {
        "dataset": {
            "source": found.source,
            "n_records": found.n_records,
            "n_questions": len(found.questions),
            "limit": limit,
            "sha256": _digest([asdict(question) for question in questions]),
        },
        "seed": seed,
        "prompt": {**asdict(wording), "passages": with_context, "shots": shots, "sha256": _digest(prompts)},
        **group.settings,
    }
    if engine is None:
        _run(group, questions, told, out)
        return
    from coe_agents.distributed import SampleParts, cluster
    from coe_agents.distributed import sample as sample_parts

    with (
        SampleParts(out, told, questions, group.participants, size=partition_size, numbers=self_checks) as parts,
        _shown(group, questions, parts) as advance,
    ):
        if parts.pending():
            with cluster(engine.address):
                pool = engine.pool(n_parts=parts.n_unfinished, bound=served_at_most(settings, at_once))
                create = partial(
                    create_share,
                    config=shared(settings, pool.n_actors),
                    seed=seed,
                    at_once=at_once,
                    n_sharing=pool.n_actors,
                    self_checks=self_checks,
                    passages=with_context,
                )
                sample_parts(parts, prompts, create, pool, on_unit=advance)


def load_set(dataset: str, split: str | None) -> "QuestionSet":
    """Returns the questions of tinyworld, or of a dataset that `load_questions` knows."""
    if dataset == "tinyworld":
        from coe_agents.tinyworld.questions import tinyworld_questions

        return tinyworld_questions(split or "validation")
    from coe_agents.evaluation.datasets import load_questions

    return load_questions(dataset, split=split)


def _run(group: "Group", questions: "Sequence[Question]", settings: dict[str, Any], out: Path) -> None:
    import asyncio

    from coe_agents.evaluation.runner import sample as sample_all
    from coe_agents.evaluation.runner import units_of
    from coe_agents.evaluation.samples.store import Store

    with (
        Store(out, settings, units_of(questions, group.participants)) as store,
        _shown(group, questions, store) as advance,
    ):
        asking = sample_all(
            questions,
            group.participants,
            group.ask,
            store,
            annotate=group.annotate,
            secrets=group.secrets,
            on_unit=advance,
        )
        asyncio.run(asking)


@contextmanager
def _shown(
    group: "Group", questions: "Sequence[Question]", kept: "Store | SampleParts"
) -> "Iterator[Callable[[Unit], None]]":
    """Shows how far a run is, and says in the end what is there, and what failed.

    Raises:
        Exit: Some failed, or it was stopped.
    """
    from coe_agents.cli.display.progress import progress
    from coe_agents.redaction import clean

    agents = group.participants
    missing = Counter(agent for _, agent in kept.pending())
    totals = {agent.name: (len(questions) - missing[agent.name], len(questions)) for agent in agents}
    try:
        with progress(totals) as advance:
            yield lambda unit: advance(unit[1], unit in kept.errors)
    except KeyboardInterrupt:
        print(f"Stopped; {len(kept.pending())} replies are missing. The same command goes on.")
        raise typer.Exit(_STOPPED) from None
    print(f"{len(questions)} questions, {len(agents)} agents: {clean(str(kept.path))}")
    for agent in agents:
        told = [error for (_, name), error in kept.errors.items() if name == agent.name]
        if told:
            print(f"{clean(agent.name)} failed {len(told)} times, first so: {clean(told[0])}")
    if kept.errors:
        print("The same command asks again what failed.")
        raise typer.Exit(Exit.FAILED)


def _digest(value: object) -> str:
    """Returns what tells two values of JSON apart."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
