"""Owns how saved answers are judged: as a call says, else as the samples recorded it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from coe_agents.checks import at_field, has_method, instance, integer, one_of
from coe_agents.clustering import BidirectionalEntailment, Clusterer, NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.calibration.calibrate import Judged, judge_samples
from coe_agents.evaluation.kept import Kept, path_of_kept
from coe_agents.evaluation.origin import (
    RECORD,
    Origin,
    ResolvedJudging,
    read_max_tokens,
    resolve_judging,
)
from coe_agents.evaluation.samples.reader import without_rulings
from coe_agents.evaluation.scoring.correctness import Criterion, create_criterion
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.experiments.progress import count_questions
from coe_agents.measurement.weighting import WEIGHTINGS, Weighting
from coe_agents.types import Fields, JsonObject, SampledQuestion

if TYPE_CHECKING:
    from coe_agents.config.schema import Config

SavedSamples: TypeAlias = Samples | str | Path | Sequence[str | Path]
"""Samples, or the files or folders that hold them."""
HOW_TO_CLUSTER = "Pass NormalizedMatch(), for example"
Check: TypeAlias = Callable[[Iterable[SampledQuestion]], Iterable[SampledQuestion]]


@contextmanager
def open_samples(samples: SavedSamples) -> Iterator[Samples]:
    """Opens files of samples for a block; samples that are open stay open."""
    if isinstance(samples, Samples):
        yield samples
        return
    with Samples(samples) as questions:
        yield questions


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingArguments:
    """How answers are compared and judged; what is None is as the samples recorded it.

    Attributes:
        clusterer: A clusterer, or its name.
        correctness: A criterion, or its name; without a record "reference_or_label".
        config: A configuration, or its file, whose clusterer and judge count.
        weighting: How responses count.
        calibrated: The criterion by which a policy was calibrated, which counts before a record.
    """

    clusterer: Clusterer | str | None = None
    correctness: Criterion | str | None = None
    config: "Config | str | Path | None" = None
    weighting: Weighting = "auto"
    calibrated: str | None = None

    def __post_init__(self) -> None:
        one_of(self.weighting, '"weighting"', WEIGHTINGS)
        if not isinstance(self.correctness, str | None):
            advice = 'Pass a name such as "f1", or an object with "judge" and "name"'
            has_method(self.correctness, "judge", '"correctness"', advice=advice)
        if not isinstance(self.config, str | Path | None):
            advice = "Pass the file of a configuration"
            has_method(self.config, "model_dump", '"config"', advice=advice)


def create_setup(
    paths: Iterable[Path], arguments: JudgingArguments, *, recorded: Clusterer | None = None
) -> tuple[ScoringSetup, ResolvedJudging]:
    """Returns how responses become scores and verdicts, and what an output says of it.

    Without a record, texts are compared after normalisation, with references or labels. `recorded` is the clusterer
    that a record names, where it is at hand.

    Raises:
        ValueError: If the arguments do not fit together; its `field` is the one at fault.
        ConfigurationError: If the recorded clusterer cannot be created from its record.
    """
    clusterer = arguments.clusterer
    correctness = arguments.correctness
    config = arguments.config
    if isinstance(config, str | Path):
        from coe_agents.config.schema import load_config

        config = load_config(Path(config))
    named: dict[str, JsonObject] = {
        "clusterer": {"clusterer": _name_of(clusterer)},
        "correctness": {"correctness": getattr(correctness, "name", correctness)},
        "the policy": {"correctness": arguments.calibrated},
    }
    if config is not None:
        from coe_agents.config.sampling_group import judging_parts

        named["config"] = judging_parts(config)
    arguments = replace(arguments, config=config)
    paths = list(paths)
    kept = path_of_kept(paths)
    judging = resolve_judging(paths, named)
    used = judging.used
    source = judging.sources["clusterer"]
    compares = _create_clusterer(used.clusterer, source, arguments, recorded, kept)
    of_criterion = compares
    of_run = judging.recorded
    is_own_verdict = judging.sources["correctness"] == RECORD and used.correctness == "entailment"
    if of_run and is_own_verdict and used.clusterer != of_run.clusterer:
        # the run's own model says what is right, whatever clusters its responses
        of_criterion = _create_clusterer(of_run.clusterer, RECORD, arguments, recorded, kept)

    judge = None
    if used.correctness == "judge" and config is not None:
        judge = _create_judge(config, kept)
    criterion = correctness
    if criterion is None or isinstance(criterion, str):
        try:
            criterion = create_criterion(used.correctness, of_criterion, judge)
        except ValueError as error:
            raise at_field(error, "correctness") from None
    model = compares.model if isinstance(compares, BidirectionalEntailment) else None
    limits = read_max_tokens(paths)
    return ScoringSetup(compares, criterion, model, arguments.weighting, max_tokens=limits), judging


def _create_judge(config: "Config", kept: Path | None) -> Criterion | None:
    """Returns the judge of a configuration, if it has one; it is asked for what is not kept."""
    from coe_agents.config.build import create_judge
    from coe_agents.config.sampling_group import identity_of

    judge = create_judge(config)
    if judge is None or kept is None:
        return judge
    return Kept(kept, identity_of(config.judge), partial(create_judge, config), judge.name)


def _name_of(clusterer: Clusterer | str | None) -> Any:
    if clusterer is None or isinstance(clusterer, str):
        return clusterer
    has_method(clusterer, "cluster", '"clusterer"', advice=HOW_TO_CLUSTER)
    from coe_agents.config.sampling_group import name_of_clusterer

    return name_of_clusterer(clusterer)


def _create_clusterer(
    name: str | Fields,
    source: str,
    arguments: JudgingArguments,
    recorded: Clusterer | None,
    kept: Path | None,
) -> Clusterer:
    """Returns the clusterer that a source of a `ResolvedJudging` names; one with a model asks it for what is new."""
    given: Clusterer | str | None = None
    if source == RECORD:
        given = recorded
    elif source == "clusterer":
        given = arguments.clusterer
    if name == "normalized" and given in (None, "normalized"):
        return NormalizedMatch()  # without the parts of a configuration, which are slow to import
    from coe_agents.config import build, sampling_group

    config: Any = arguments.config if source == "config" else None

    def create() -> Clusterer:
        if isinstance(given, str):
            return sampling_group.create_named_clusterer(given)
        if given is not None:
            return given
        if config is not None:
            return build.create_clusterer(config)
        return sampling_group.create_recorded_clusterer(name)

    if kept is None:
        return create()
    return sampling_group.create_kept_clusterer(config or name, create, kept)


class JudgedSamples(list[Judged]):
    """The questions that have a response, each with its measurement and whether the group was right.

    Attributes:
        setup: By what they were clustered and judged; None where that is not at hand.
        judging: What said so.
        origin: What the samples were made with.
        n_silent: How many questions have no response to judge.
    """

    def __init__(
        self,
        rows: Iterable[Judged],
        setup: ScoringSetup | None,
        judging: ResolvedJudging,
        origin: Origin,
        *,
        n_silent: int,
    ) -> None:
        super().__init__(rows)
        self.setup = setup
        self.judging = judging
        self.origin = origin
        self.n_silent = n_silent

    def __getitem__(self, place: Any) -> Any:
        chosen = super().__getitem__(place)
        if not isinstance(place, slice):
            return chosen
        return JudgedSamples(chosen, self.setup, self.judging, self.origin, n_silent=0)

    @property
    def n_judged(self) -> int:
        """How many of them have a verdict."""
        return sum(row.correct is not None for row in self)


def judge_saved(
    samples: Samples,
    setup: ScoringSetup,
    *,
    check: Check = without_rulings,
    progress: bool = False,
    **options: Any,
) -> tuple[list[Judged], int]:
    """Returns the questions that have a response to judge, with measurement and verdict, and how many have none.

    `check` is called with the questions, and returns them; by default it refuses rulings. `progress`: whether it is
    shown. `options` are further ones of `judge_samples`.
    """
    with count_questions(len(samples), is_shown=progress):
        rows = judge_samples(
            check(samples),
            clusterer=setup.clusterer,
            weighting=setup.weighting,
            criterion=setup.criterion,
            **options,
        )
    return rows, len(samples) - len(rows)


def judge(samples: Samples, arguments: JudgingArguments, **options: Any) -> JudgedSamples:
    """Measures and judges every question; see `Samples.judge`."""
    setup, judging = create_setup(samples.paths, arguments, recorded=samples.clusterer)
    rows, n_silent = judge_saved(samples, setup, **options)
    return JudgedSamples(rows, setup, judging, samples.origin, n_silent=n_silent)


def check_resamples(resamples: object) -> None:
    """Refuses what is no number of resamples."""
    integer(resamples, '"resamples"', least=1, advice="1000 is the default")


def check_proposer(proposer: str | None, agents: Iterable[str]) -> None:
    """Refuses a proposer that is no agent of the samples."""
    if proposer is None:
        return
    instance(proposer, str, '"proposer"', what="the name of an agent", advice="Omit it for none")
    names = sorted(agents)
    if proposer not in names:
        from coe_agents.extensions import did_you_mean

        hint = did_you_mean(proposer, names) or f"The samples have {', '.join(names)}"
        message = f'"proposer" must be an agent of the samples; got "{proposer}". {hint}'
        raise at_field(ValueError(message), "proposer")
