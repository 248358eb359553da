"""Owns `sample`: every agent is asked many questions, and each response is kept as it arrives."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict, Unpack

from coe_agents.checks import at_field, flag, has_method, instance, to_path
from coe_agents.clustering import Clusterer
from coe_agents.clustering.protocols import AnswerPreset
from coe_agents.config.sampling_group import (
    check_clusterer_name,
    create_group,
    group_of_agents,
    judging_of,
    name_of_clusterer,
)
from coe_agents.config.schema import Config
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.datasets.sources import QuestionsOnDisk
from coe_agents.evaluation.origin import JUDGED, Judging, origin_of
from coe_agents.evaluation.sample_collection import SampledGroup, units_of
from coe_agents.evaluation.sample_collection import sample as sample_all
from coe_agents.evaluation.samples.store import Store, Unit, differences
from coe_agents.evaluation.scoring.correctness import check_criterion
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
from coe_agents.experiments.fingerprint import fingerprint
from coe_agents.experiments.judging import HOW_TO_CLUSTER
from coe_agents.experiments.progress import progress as show_progress
from coe_agents.presets import check_answers, short_answers
from coe_agents.text import quantity
from coe_agents.types import MOST_SAMPLES, Agent, Fields


class RareSampleArguments(TypedDict, total=False):
    """The rare arguments of `sample`.

    Attributes:
        split: Of a named dataset; "validation" unless given.
        columns: By a field of ours, what a file of questions calls it.
        with_context: Whether the passage is shown with each question.
        p_false: Whether each agent is asked how probably its own answers are false.
    """

    split: str | None
    columns: Mapping[str, str] | None
    with_context: bool
    p_false: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What is asked of whom, and where the replies are kept.

    Attributes:
        config: The configuration of the group; None for tinyworld's, and for a group that was built in Python.
        asking: How the agents are asked: the arguments of `create_group` besides the configuration.
        out: The folder of the responses; None for one that ends with the samples.
        clusterer: What compares the responses later, where it was passed.
    """

    dataset: QuestionsOnDisk
    group: SampledGroup
    config: Config | None
    asking: Mapping[str, Any]
    settings: Fields
    out: Path | None
    clusterer: Clusterer | None
    is_shown: bool

    async def collect(self) -> Samples:
        """Asks what the folder lacks."""
        with folder_of_result(self.out) as folder:
            with self.open_store(folder) as (store, on_unit):
                await sample_all(self.dataset.questions, self.group, store, on_unit=on_unit)
            samples = Samples([folder])
        samples.clusterer = self.clusterer
        if self.out is None:
            remove_with(samples, folder)
        return samples

    @contextmanager
    def open_store(self, folder: Path) -> Iterator[tuple[Store, "OnUnit"]]:
        """Opens the store of the replies, and shows the progress; each unit that the store gets is passed on."""
        n_samples = {}
        for agent in self.group.participants:
            n_samples[agent.name] = agent.n_samples or MOST_SAMPLES
        units = units_of(self.dataset.questions, n_samples)
        with Store(folder, self.settings, units) as store:
            missing = Counter(agent for name, agent in store.pending_units())
            n_all = len(self.dataset.questions)
            totals = {name: (n_all - missing[name], n_all) for name in n_samples}
            with (
                note_what_is_missing(
                    lambda: quantity(missing.total(), "request is", "requests are")
                ),
                show_progress(totals, is_shown=self.is_shown) as show,
            ):

                def on_unit(unit: Unit) -> None:
                    _, agent = unit
                    missing[agent] -= 1
                    show(agent, store.has_failed(unit))

                yield store, on_unit


OnUnit = Callable[[Unit], None]


def prepare(
    models: Models,
    questions: Questions,
    *,
    n_samples: int | None = None,
    answers: AnswerPreset | None = None,
    clusterer: Clusterer | str | None = None,
    correctness: str | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    limit: int | None = None,
    at_once: int | None = None,
    progress: bool = True,
    **rare: Unpack[RareSampleArguments],
) -> Sampling:
    """Asks every agent every question, and returns the responses, with what they were made with (`samples.origin`).

    Each response is on the disk as soon as it arrives: in `out`, where the same call resumes, or in a temporary folder
    that ends with the object. A failed request is a row whose `error` gives the reason; the same call asks it again.

    Args:
        models: Names such as "openai:gpt-5-mini", chat models or agents, as in `ask`; or a configuration: its file, or
            "tinyworld".
        questions: Texts; records with "question", and "references" to judge answers by; a data frame of these; a file;
            or a dataset's name, such as "triviaqa".
        n_samples: Responses of each agent to a question, in place of its own number; None keeps that, and is 5 for
            names and chat models. An agent at temperature 0 keeps its one response, an agent of your own without an
            attribute `n_samples` its number. A configuration says its own, as a graph does.
        answers: How answers are asked for and compared: `short_answers()` unless a `clusterer` is given.
        clusterer: What compares the responses later, unless `answers` does.
        correctness: The name of a criterion by which an answer is right, for later: see `score`.
        out: A folder for the responses. A folder that holds other settings is refused. What is not given of how answers
            are judged is as it records.
        seed: Draws the order of the questions, and the responses of agents without a seed of their own.
        limit: How many questions; all unless given.
        at_once: Concurrent questions to each agent: 8, and 1 for a model in this process.
        progress: Whether the progress is shown.
        rare: See `RareSampleArguments`.

    Raises:
        ConfigurationError: `out` holds a run with other settings; the message names them.
        DatasetError: The questions cannot be read.
        TypeError: An argument is of the wrong kind, or does not exist.
        ValueError: An argument is given that the configuration says, or a name that no criterion or clusterer has.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent(name, ["Paris", "Paris"]) for name in ("a", "b")]
        >>> samples = sample(agents, [{"question": "Capital of France?", "references": ["Paris"]}], progress=False)
        >>> len(samples), list(samples)[0].responses[0]["text"]
        (1, 'Paris')
    """
    dataset, described = open_dataset(
        questions, split=rare.get("split"), seed=seed, limit=limit, columns=rare.get("columns")
    )
    asking = _asking(dataset, at_once, rare)
    _check_judging(answers, clusterer, correctness)
    folder = None if out is None else to_path(out, '"out"')

    is_clusterer_said = answers is not None or clusterer is not None
    config = None
    if is_configuration(models):
        refuse_beside_configuration(n_samples=n_samples, answers=answers)
        config = config_of(models)
        group = create_group(config, seed=seed, **asking)
        judging = judging_of(config, is_tinyworld=is_tinyworld(questions), correctness=correctness)
    else:
        if not is_clusterer_said:
            answers = short_answers()
        group = _group_of(members_of(models, n_samples=n_samples, seed=seed), answers, asking)
        judging = Judging(correctness=correctness or Judging().correctness)
        if answers is not None:
            clusterer = answers.clusterer

    if clusterer is not None:
        judging = replace(judging, clusterer=name_of_clusterer(clusterer))
    judging = _as_recorded(
        folder,
        judging,
        is_clusterer_said=is_clusterer_said,
        is_correctness_said=correctness is not None,
    )
    settings = {
        "dataset": described,
        "seed": seed,
        JUDGED: judging.to_json(),
        "prompt": {"passages": asking["passages"]},
        **group.settings,
    }
    return Sampling(
        dataset=dataset,
        group=group,
        config=config,
        asking=asking,
        settings=settings,
        out=folder,
        clusterer=None if isinstance(clusterer, str) else clusterer,
        is_shown=flag(progress, '"progress"'),
    )


def _asking(
    dataset: QuestionsOnDisk, at_once: int | None, rare: RareSampleArguments
) -> dict[str, Any]:
    """Returns how the agents are asked: the arguments of `create_group` besides the configuration.

    A ConfigurationError where passages are to be shown and a question has none.
    """
    check_at_once(at_once)
    passages = flag(rare.get("with_context", False), '"with_context"')
    if passages:
        for question in dataset.questions:
            question.prompt(with_context=True)
    p_false = flag(rare.get("p_false", False), '"p_false"')
    return {"at_once": at_once, "passages": passages, "p_false": p_false}


def _check_judging(answers: object, clusterer: Any, correctness: Any) -> None:
    """Raises an error for what is no preset, no clusterer or no criterion, or the name of none."""
    if answers is not None:
        check_answers(answers)
    if isinstance(clusterer, str):
        check_clusterer_name(clusterer)
    elif clusterer is not None:
        has_method(clusterer, "cluster", '"clusterer"', advice=HOW_TO_CLUSTER)
    if correctness is None:
        return
    instance(
        correctness,
        str,
        '"correctness" of sample',
        what="the name of a criterion",
        advice="Pass a criterion of your own to score, calibrate or compare",
    )
    try:
        check_criterion(correctness)
    except ValueError as error:
        raise at_field(error, "correctness") from None


def _as_recorded(
    folder: Path | None, judging: Judging, *, is_clusterer_said: bool, is_correctness_said: bool
) -> Judging:
    """Returns how a folder records that its answers are judged; `judging` if it holds no run.

    No response depends on it: a part that is not said in this call stays as it is there. If another one is said, that
    is a ConfigurationError.
    """
    recorded = None if folder is None else origin_of([folder]).judging
    if recorded is None:
        return judging
    here = recorded
    if is_clusterer_said:
        here = replace(here, clusterer=judging.clusterer)
    if is_correctness_said:
        here = replace(here, correctness=judging.correctness, judge=judging.judge)
    lines = []
    for name, before, now in differences(recorded.to_json(), here.to_json(), JUDGED):
        lines.append(f"{name}: {before!r} there, {now!r} here")
    if lines:
        listed = "\n".join(lines)
        raise ConfigurationError(
            f"{folder} holds a run with other settings:\n{listed}",
            hint="No response depends on it: omit it here, and pass it to score, calibrate or compare",
        )
    return recorded


def _group_of(
    agents: list[Agent], answers: AnswerPreset | None, asking: Mapping[str, Any]
) -> SampledGroup:
    """Returns the group of agents that were built in Python, with their fingerprint."""
    group = group_of_agents(agents, answers, **asking)
    return replace(group, settings={**group.settings, "sha256": fingerprint(agents, answers)})


sample = create_blocking(prepare, "sample", returns=Samples)
asample = create_awaited(prepare, "asample", returns=Samples)
