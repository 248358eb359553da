"""Owns `compare`: runs side by side, or policies replayed on saved responses."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coe_agents._removed import refuses_removed
from coe_agents.checks import has_method, instance, require
from coe_agents.clustering import Clusterer
from coe_agents.config.schema import load_config
from coe_agents.evaluation.calibration.calibrate import Judged
from coe_agents.evaluation.calibration.drift import are_own_questions, judged_otherwise
from coe_agents.evaluation.origin import Judging, origin_of, read_agents
from coe_agents.evaluation.origin import in_words as judging_in_words
from coe_agents.evaluation.samples.reader import without_rulings
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion
from coe_agents.experiments.comparison import Comparison, compare_outcomes, outcomes_of
from coe_agents.experiments.judging import (
    JudgingArguments,
    SavedSamples,
    check_resamples,
    create_setup,
    open_samples,
)
from coe_agents.experiments.not_taken import not_taken
from coe_agents.experiments.progress import count_questions
from coe_agents.experiments.replays import ReplayedPolicy, Saved, load_saved, replay
from coe_agents.experiments.runs import Runs
from coe_agents.policy import CalibratedPolicy, Policy
from coe_agents.policy.bounds import Bounds, CostBudget
from coe_agents.policy.calibrated import Calibration
from coe_agents.policy.fixed_rounds import FixedRounds, rounds_of
from coe_agents.policy.settle import Rules
from coe_agents.rounds.strategies import Strategies


@refuses_removed
def compare(
    *runs: Runs | SavedSamples,
    policies: Mapping[str, Policy | str | Path] | None = None,
    max_rounds: int | None = None,
    clusterer: Clusterer | str | None = None,
    correctness: Criterion | str | None = None,
    resamples: int = 1000,
    progress: bool = True,
) -> Comparison:
    """Returns coverage, risk, tokens, rounds and cost of policies side by side, with paired intervals of differences.

    Runs are compared on the questions that they share; the first is the reference. With `policies`, each is replayed on
    saved responses, without a model: the first responses of an agent stand for what it would be asked for, further
    rounds take the next ones, and a debate, which no saved response answers, ends there without an answer.

    Args:
        runs: From `run`, or their folders; with `policies` the samples, or their files.
        policies: By name: policies, or files of configurations, whose agents and bounds count, too. A note names what
            does not: how a file would ask the agents, and compare their answers, otherwise than the samples record.
        max_rounds: Of policies that ask for another round, as of `create_coe_graph`.
        clusterer: As of `score`, for `policies`.
        correctness: As of `score`, for `policies`. Unless given, that of all calibrated policies counts, if it is one
            and needs no model.
        resamples: Bootstrap resamples behind each interval.
        progress: As of `score`, for `policies`.

    Raises:
        SamplesError: A run decided no question, or two were asked different questions of one id.
        ValueError: There is nothing to compare, or the arguments do not fit together.

    Example:
        >>> import pandas
        >>> from coe_agents import ThresholdPolicy
        >>> from coe_agents.evaluation import Samples
        >>> said = [("1", "a", "Paris"), ("1", "b", "Paris"), ("2", "a", "Lima"), ("2", "b", "Rome")]
        >>> frame = pandas.DataFrame(said, columns=["id", "agent", "text"]).assign(references="Paris")
        >>> policies = {"strict": ThresholdPolicy(0.1), "lax": ThresholdPolicy(9.0, otherwise="escalate")}
        >>> comparison = compare(Samples.from_frame(frame), policies=policies, resamples=10)
        >>> [each.figures["coverage"][0] for each in comparison.policies]
        [0.5, 0.5]
    """
    check_resamples(resamples)
    if policies is None:
        for name, value in (("clusterer", clusterer), ("correctness", correctness)):
            must = f'"{name}" must be omitted without "policies": runs are compared as they were judged'
            require(value is None, must, value, 'Omit it, or add "policies"')
        must = '"runs" must hold at least one run'
        require(bool(runs), must, runs, "Pass what `run` returned, or its folder")
        return _compare_runs([_as_runs(run) for run in runs], resamples)
    advice = "Pass {name: policy}"
    instance(policies, Mapping, '"policies"', what="a mapping of names", advice=advice)
    require(bool(policies), '"policies" must hold at least one', policies, advice)
    judging = JudgingArguments(clusterer=clusterer, correctness=correctness)
    return compare_policies(
        _only(runs), policies, judging, max_rounds, resamples, progress=progress
    )


def _as_runs(run: Any) -> Runs:
    if isinstance(run, Runs):
        return run
    advice = 'Pass what `run` returned, or its folder; of samples, compare "policies", too'
    is_folder = isinstance(run, str | Path)
    require(is_folder, '"runs" must be runs, or their folders', run, advice)
    return Runs(run)


def _only(samples: Sequence[Any]) -> Any:
    """Returns samples that are passed alone, or the files that are passed."""
    must = '"runs" must be samples, or their files, with "policies"'
    require(bool(samples), must, samples, "Pass what `sample` returned")
    return samples[0] if len(samples) == 1 else samples


def _compare_runs(runs: Sequence[Runs], resamples: int) -> Comparison:
    names = names_of(runs)
    outcomes = []
    sources: dict[str, None] = {}
    judgings = {}
    for name, run in zip(names, runs, strict=True):
        outcomes.append(outcomes_of(run.outcomes, name=name))
        dataset = run.settings.get("dataset")
        source = str(dataset.get("source")) if isinstance(dataset, dict) else "not recorded"
        sources[source] = None
        judgings[name] = origin_of([run.path]).judging

    note = None
    criteria = {name: _criterion_in_words(judging) for name, judging in judgings.items()}
    if len(set(criteria.values())) > 1:
        each = "; ".join(f"{name}: {criterion}" for name, criterion in criteria.items())
        note = f"The runs are judged in different ways: {each}."
    judged = {name: judging and judging.to_json() for name, judging in judgings.items()}
    return compare_outcomes(
        outcomes,
        n_resamples=resamples,
        settings={"questions": "; ".join(sources)},
        judged=judged,
        note=note,
    )


def _criterion_in_words(judging: Judging | None) -> str:
    """Returns by what answers were judged; a clusterer counts where it judges them."""
    if judging is not None and judging.correctness != "entailment":
        judging = replace(judging, clusterer="")
    return judging_in_words(judging)


def names_of(runs: Sequence[Runs]) -> list[str]:
    """Returns the name of each run; the later ones of one name have a number behind it."""
    counts = Counter[str]()
    names = []
    for run in runs:
        counts[run.name] += 1
        number = counts[run.name]
        names.append(run.name if number == 1 else f"{run.name} {number}")
    return names


def compare_policies(
    samples: SavedSamples,
    policies: Mapping[str, Policy | str | Path],
    judging: JudgingArguments,
    max_rounds: int | None,
    resamples: int,
    *,
    progress: bool,
) -> Comparison:
    """Replays policies on saved responses; see `compare`."""
    # before the responses are clustered, which may take long
    loaded = _load_policies(policies, max_rounds)
    judging = replace(judging, calibrated=_criterion_of(loaded.values()))
    with open_samples(samples) as questions:
        setup, resolved = create_setup(questions.paths, judging, recorded=questions.clusterer)
        with count_questions(len(questions), is_shown=progress):
            saved = load_saved(without_rulings(questions), setup.clusterer)
        n_failed = len(questions) - len(saved)
        names = ", ".join(path.name for path in questions.paths)
        answers = questions.origin.answers
        asked = read_agents(questions.paths)
    if not saved:
        raise ValueError('"runs" must hold a response; no question has one. Sample again')

    outcomes = []
    clusterer = type(setup.clusterer).__name__
    criterion = setup.criterion.name
    for name, of_name in loaded.items():
        if isinstance(of_name, ReplayedPolicy):
            replayed = of_name
        else:
            replayed = _policy_of_samples(of_name, name, saved, max_rounds)
        outcome = replay(saved, replayed, setup.criterion, n_failed=n_failed)
        if replayed.config is not None:
            used = resolved.used.clusterer
            notes = not_taken(replayed.config, clusterer=used, answers=answers, asked=asked)
            outcome = replace(outcome, notes=[*outcome.notes, *notes])
        calibration = _calibration_of(replayed.policy)
        if calibration is not None:
            notes = judged_otherwise(calibration, setup.clusterer, criterion)
            if are_own_questions(calibration, _as_calibrated(saved, calibration, setup.criterion)):
                notes.append(_OWN_QUESTIONS)
            outcome = replace(outcome, notes=[*outcome.notes, *notes])
        outcomes.append(outcome)
    return compare_outcomes(
        outcomes,
        n_resamples=resamples,
        settings={"samples": names, "clusterer": clusterer, "right": criterion},
        judged=resolved.to_json(),
        note=resolved.note(),
    )


_OWN_QUESTIONS = (
    "all uncertainties are those of its calibration: if these are its own questions, its risk looks lower than it is, "
    "so sample new ones"
)


def _as_calibrated(
    saved: Sequence[Saved], calibration: Calibration, criterion: Criterion
) -> list[Judged]:
    """Returns the questions as a calibration measures them: by all of their responses."""
    how = ReplayedPolicy(
        name="",
        policy=CalibratedPolicy(calibration),
        n_samples={},
        weights=calibration.weights or {},
    )
    rows = []
    for each in saved:
        if not any(how.weights.get(name, 1.0) > 0.0 for name in each.available):
            continue  # a calibration leaves it out, too
        measurement = each.measure(tuple(sorted(each.available.items())), how)
        correct = each.verdict(measurement, None, criterion)
        rows.append(Judged(each.question.id, measurement, correct))
    return rows


def _load_policies(
    policies: Mapping[str, Policy | str | Path], max_rounds: int | None
) -> dict[str, Policy | ReplayedPolicy]:
    """Returns the policies by name, those of files with what is around them there."""
    loaded: dict[str, Policy | ReplayedPolicy] = {}
    for name, policy in policies.items():
        if isinstance(policy, str | Path):
            loaded[name] = _policy_of_file(Path(policy), name)
            continue
        advice = "Pass RegimePolicy(), for example"
        has_method(policy, "decide", f'"policies" {name!r}', advice=advice)
        rounds_of(policy, max_rounds)  # raises an error if it is no number of rounds
        loaded[name] = policy
    return loaded


def _criterion_of(policies: Iterable[Policy | ReplayedPolicy]) -> str | None:
    """Returns by what all calibrated policies were judged, if it is one criterion and needs no model."""
    criteria = set()
    for policy in policies:
        calibration = _calibration_of(policy)
        if calibration is not None:
            criteria.add(calibration.correctness)
    if len(criteria) == 1 and criteria <= CRITERIA.keys():
        return criteria.pop()
    return None


def _calibration_of(policy: Any) -> Calibration | None:
    """Returns what a policy was calibrated on, or the policy that decides in the end; None where neither was."""
    if isinstance(policy, ReplayedPolicy):
        return _calibration_of(policy.policy)
    if isinstance(policy, FixedRounds):
        return _calibration_of(policy.then)
    return policy.calibration if isinstance(policy, CalibratedPolicy) else None


def _policy_of_samples(
    policy: Policy, name: str, saved: Sequence[Saved], max_rounds: int | None
) -> ReplayedPolicy:
    """Returns a policy that asks each agent for all of its responses, or for an equal part of them in each round."""
    rounds = rounds_of(policy, max_rounds)
    n_samples: dict[str, int] = {}
    for question in saved:
        for agent, n in question.available.items():
            n_samples[agent] = max(n_samples.get(agent, 1), n // rounds)
    rules = Rules(bounds=Bounds(max_rounds=rounds))
    return ReplayedPolicy(name=name, policy=policy, n_samples=n_samples, rules=rules)


def _policy_of_file(path: Path, name: str) -> ReplayedPolicy:
    from coe_agents.config.build import create_policy, load_weights

    config = load_config(path)
    graph = config.graph
    n_samples = {}
    weights = {}
    for agent in config.agents:
        n_samples[agent.name] = agent.n_samples if agent.temperature > 0 else 1
        weights[agent.name] = agent.weight
    weights.update(load_weights(config) or {})
    policy = create_policy(config)
    try:
        bounds = graph.bounds.change(max_rounds=rounds_of(policy, graph.max_rounds))
    except ValueError as error:
        raise config.fault(str(error), "graph", "max_rounds") from error
    cost_budget = None
    if graph.cost_budget is not None:
        cost_budget = CostBudget(graph.cost_budget, config.prices)
    return ReplayedPolicy(
        name=name,
        policy=policy,
        n_samples=n_samples,
        weights=weights,
        rules=Rules(bounds=bounds, min_agents=graph.min_agents, cost_budget=cost_budget),
        strategies=Strategies(dict(graph.strategies)),
        weighting=graph.weighting,
        has_arbiter=config.escalation is not None,
        prices=config.prices,
        config=config,
    )
