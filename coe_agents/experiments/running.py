"""Owns `run`: a whole graph is asked many questions, with rounds and escalation, and each decision is kept."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph
from typing_extensions import Unpack

import coe_agents
from coe_agents.checks import flag, has_method, instance, require, to_path
from coe_agents.clustering import NormalizedMatch
from coe_agents.config.sampling_group import group_of_agents, name_of_clusterer
from coe_agents.config.schema import Config
from coe_agents.evaluation.datasets.sources import QuestionsOnDisk
from coe_agents.evaluation.origin import DECIDER, DECISIONS, JUDGED, Judging, check_items
from coe_agents.evaluation.sample_collection import units_of
from coe_agents.evaluation.samples.store import Store
from coe_agents.evaluation.scoring.correctness import Criterion, create_criterion
from coe_agents.experiments.asking import (
    Models,
    Questions,
    check_at_once,
    config_of,
    folder_of_result,
    is_configuration,
    is_tinyworld,
    members_of,
    note_what_is_missing,
    open_dataset,
    refuse_beside_configuration,
    remove_with,
)
from coe_agents.experiments.blocking import create_awaited, create_blocking
from coe_agents.experiments.dataset_run import (
    Row,
    RunGroup,
    Timings,
    create_run_group,
    decide_all,
    keep_prices,
)
from coe_agents.experiments.fingerprint import fingerprint
from coe_agents.experiments.progress import progress as show_progress
from coe_agents.experiments.runs import Runs
from coe_agents.graph import create_coe_graph
from coe_agents.graph.builder import GraphArguments
from coe_agents.presets import short_answers
from coe_agents.text import quantity, redact_all
from coe_agents.types import Fields, JsonObject

ModelsOrGraph: TypeAlias = "Models | StateGraph[Any, Any, Any, Any] | Runnable[Any, Any]"
"""As of `sample`, or a graph: of `create_coe_graph`, of `create_sequential_graph`, or compiled, of your own."""


class RunArguments(GraphArguments, total=False):
    """The arguments of `create_coe_graph`, and the split and the columns of a dataset, as of `sample`."""

    split: str | None
    columns: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Which questions a group decides, and with which settings.

    Attributes:
        config: The configuration of the group; None for tinyworld's, and for a group that was built in Python.
        creating: How the group is made: the arguments of `create_run_group` besides the configuration.
        out: The folder of the decisions; None for one that ends with the runs.
        name: What the run is called where no folder names it.
    """

    dataset: QuestionsOnDisk
    group: RunGroup
    config: Config | None
    creating: Mapping[str, Any]
    settings: Fields
    out: Path | None
    name: str
    is_shown: bool

    async def collect(self) -> Runs:
        """Asks what the folder lacks."""
        with folder_of_result(self.out) as folder:
            with self.open_store(folder) as (store, timings, on_row):
                asked = self.dataset.questions
                await decide_all(asked, self.group, store, timings, on_row=on_row)
            is_temporary = self.out is None
            runs = Runs(
                folder,
                name=self.name if is_temporary else None,
                criterion=self.group.criterion.name,
                is_temporary=is_temporary,
            )
        if is_temporary:
            remove_with(runs, folder)
        return runs

    @contextmanager
    def open_store(self, folder: Path) -> Iterator[tuple[Store, Timings, Callable[[Row], None]]]:
        """Opens the store of the decisions, and shows the progress; each row that the store gets is passed on."""
        questions = self.dataset.questions
        n_all = len(questions)
        units = units_of(questions, {DECIDER: 1})
        with (
            Store(folder, self.settings, units, name=DECISIONS) as store,
            Timings(folder) as timings,
            note_what_is_missing(lambda: quantity(store.n_pending, "question is", "questions are")),
            show_progress(
                {"questions": (n_all - store.n_pending, n_all)},
                what="question",
                is_shown=self.is_shown,
            ) as advance,
        ):
            if store.n_pending < n_all:
                check_items(folder)  # before anything is asked: another release may have written it
            keep_prices(folder, self.group.prices)
            yield store, timings, lambda row: advance("questions", row["error"] is not None)


def prepare(
    models: ModelsOrGraph,
    questions: Questions,
    *,
    n_samples: int | None = None,
    correctness: Criterion | str | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    at_once: int | None = None,
    progress: bool = True,
    input_key: str = "question",
    decision_key: str = "decision",
    **arguments: Unpack[RunArguments],
) -> Running:
    """Asks a whole group every question, with its policy, rounds and escalation, and returns what it decided.

    Each decision is on the disk before the next one: in `out`, where the same call resumes, or in a temporary folder
    that ends with the object. A question that fails is a row whose `error` gives the reason, and no decision; the same
    call asks it again. Of what was built in Python, the folder records a fingerprint; a resume with another is refused.

    Args:
        models: As of `sample`; or a graph: of `create_coe_graph`, a chain of `create_sequential_graph`, whose last step
            is judged, or a compiled graph of your own that holds a CoE graph as a node.
        questions: As of `sample`.
        n_samples: As of `sample`.
        correctness: When an answer is right: a criterion or its name, as of `score`; "reference_or_label" unless given.
        out: A folder for the decisions. A folder that holds other settings is refused.
        seed: As of `sample`.
        limit: How many questions; all unless given.
        at_once: Concurrent questions: 8, and 1 for a model in this process.
        progress: Whether the progress is shown.
        input_key: Where a graph of your own takes the question.
        decision_key: Where its output has the decision, such as "decision" or "gate.decision".
        arguments: As of `create_coe_graph`, with the same defaults: `policy`, `max_rounds`, `strategies`, `answers`,
            `clusterer` and all others; and `split`, of a named dataset.

    Raises:
        ConfigurationError: `out` holds a run with other settings; the message names them.
        DatasetError: The questions cannot be read.
        ValueError: An argument does not fit the others; a graph and a configuration have their own policy.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Lyon"], ["Paris"])]
        >>> from coe_agents import RegimePolicy
        >>> from coe_agents.policy import FixedRounds
        >>> asked = [{"question": "Capital of France?", "references": ["Paris"]}]
        >>> debate = run(agents, asked, policy=FixedRounds(2, then=RegimePolicy()), progress=False)
        >>> [(item.action, item.correct, item.verdicts) for item in debate]
        [('answer', 1.0, (0.0, 1.0))]
    """
    split = arguments.pop("split", None)
    columns = arguments.pop("columns", None)
    dataset, described = open_dataset(
        questions, split=split, seed=seed, limit=limit, columns=columns
    )
    check_at_once(at_once)
    config = None
    creating: dict[str, Any] = {}
    name = "run"
    if is_configuration(models):
        refuse_beside_configuration(n_samples=n_samples, **arguments)
        must = '"correctness" must be a name beside a configuration'
        require(isinstance(correctness, str | None), must, correctness, "Pass a list of models")
        config = config_of(models)
        creating = {
            "seed": seed,
            "at_once": at_once,
            "correctness": correctness,
            "is_tinyworld": is_tinyworld(questions),
        }
        group = create_run_group(config, **creating)
    else:
        is_graph = isinstance(models, StateGraph | Runnable)
        if is_graph:
            _refuse_beside_graph(n_samples=n_samples, **arguments)
        elif arguments.get("policy") is not None:
            name = type(arguments["policy"]).__name__
        group = _group_of(
            models if is_graph else members_of(models, n_samples=n_samples, seed=seed),
            arguments,
            correctness=correctness,
            seed=seed,
            at_once=at_once,
            keys=_check_keys(input_key=input_key, decision_key=decision_key),
        )
    return Running(
        dataset=dataset,
        group=group,
        config=config,
        creating=creating,
        settings={"dataset": described, **group.settings},
        out=None if out is None else to_path(out, '"out"'),
        name=name,
        is_shown=flag(progress, '"progress"'),
    )


def _check_keys(**keys: str) -> dict[str, str]:
    """Returns the keys of a graph, by argument; refuses what is no text."""
    for argument, key in keys.items():
        advice = "Omit it, unless the graph is your own"
        instance(key, str, f'"{argument}"', what="the name of a key", advice=advice)
    return keys


def _refuse_beside_graph(**named: object) -> None:
    """Refuses arguments with which a graph was built."""
    for argument, value in named.items():
        must = f'"{argument}" must be omitted beside a graph, which was built with its own'
        require(value is None, must, value, "Pass it to create_coe_graph")


def _group_of(
    parts: Any,
    arguments: GraphArguments,
    *,
    correctness: Criterion | str | None,
    seed: int,
    at_once: int | None,
    keys: Mapping[str, str],
) -> RunGroup:
    """Returns the group of a graph that was built in Python, or of agents for which one is built."""
    answers = arguments.get("answers")
    clusterer = arguments.get("clusterer")
    settings: JsonObject = {"coe_agents": coe_agents.__version__, "seed": seed, **keys}
    graph = parts
    secrets: frozenset[str] = frozenset()
    if isinstance(parts, list):
        graph = create_coe_graph(parts, **arguments)
        if answers is None and clusterer is None:
            answers = short_answers()
        asked = group_of_agents(parts, answers, at_once=at_once)
        secrets = frozenset(asked.secrets)
        settings["agents"] = asked.settings["agents"]
        settings["policy"] = type(arguments.get("policy")).__name__
        at_once = min(participant.at_once for participant in asked.participants)
    graph = graph.compile() if isinstance(graph, StateGraph) else graph
    settings["sha256"] = fingerprint(graph)

    if answers is not None:
        clusterer = answers.clusterer
    elif clusterer is None:
        clusterer = NormalizedMatch()
    criterion = Judging().correctness if correctness is None else correctness
    if isinstance(criterion, str):
        criterion = create_criterion(criterion, clusterer)
    advice = 'Pass a name such as "f1", or an object with "judge" and "name"'
    has_method(criterion, "judge", '"correctness"', advice=advice)
    settings[JUDGED] = Judging(name_of_clusterer(clusterer), criterion.name).to_json()
    return RunGroup(
        graph=graph,
        criterion=criterion,
        at_once=at_once or 8,
        settings=redact_all(settings, secrets),
        secrets=secrets,
        input_key=keys["input_key"],
        decision_key=keys["decision_key"],
    )


run = create_blocking(prepare, "run", returns=Runs, owner="create_coe_graph")
arun = create_awaited(prepare, "arun", returns=Runs, owner="create_coe_graph")
