"""Owns calibration: from judged samples to a policy that keeps a stated risk with a stated confidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from coe_agents.checks import instance, one_of, require
from coe_agents.clustering import Clusterer
from coe_agents.clustering.described import describe_clusterer
from coe_agents.evaluation.calibration.learned import fit_support, fit_trust
from coe_agents.evaluation.calibration.risk_control import (
    NO_THRESHOLD,
    Shortfall,
    choose_threshold,
    shortfall,
)
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.origin import Origin
from coe_agents.evaluation.scoring.correctness import (
    CRITERIA,
    Criterion,
    is_inside,
    judge_clusters,
    mean_verdict,
    with_equality_of,
    with_verdicts,
)
from coe_agents.evaluation.scoring.scores import hash_of, in_second_half
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.measurement.estimators import (
    DEFAULT_SCORE,
    ESTIMATORS,
    RUN_TIME_SCORES,
    Estimator,
    compute_score,
    find_score,
)
from coe_agents.measurement.measurement import Run, leading_cluster
from coe_agents.measurement.statistics import Statistics
from coe_agents.measurement.weighted_vote import (
    CONFIDENCE_VOTE_SHARE,
    TRUSTED_VOTE_SHARE,
    VOTE_SHARE,
    WEIGHTS_FROM,
    WeightsFrom,
    agreement_weights,
    distributions_of,
)
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import CalibratedPolicy, Measurement
from coe_agents.policy.calibrated import (
    SUPPORT,
    AgentWeighting,
    CalibratedAgent,
    Calibration,
    GroupThreshold,
    counts_agents_by,
)
from coe_agents.types import SampledQuestion, Weights


@dataclass(frozen=True, slots=True)
class Judged:
    """One question as a policy sees it, and whether the group was right.

    Attributes:
        measurement: What a policy would be shown.
        correct: The share of the leading answer that is right, in [0, 1]: 1 or 0, or between them where the labels of
            its cluster, or its tied clusters, differ; None where that cannot be said. Where an agent's proposal is
            judged, that of its first response.
        verdicts: The same for each cluster, in the order of `measurement.representatives`; () if not asked for.
        said: With `verdicts`: the cluster of each response of each agent, in order.
        is_inside: Whether the answer is wrong by its words alone, though a reference is in it.
    """

    id: str
    measurement: Measurement
    correct: float | None
    verdicts: tuple[float | None, ...] = ()
    said: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_inside: bool = False

    def verdict(self, policy: Calibration) -> float | None:
        """Returns whether the answer that a calibrated policy chooses is right; None on a tie or if not known."""
        chosen = policy.choose_cluster(self.measurement)
        if chosen is None:
            return None
        if policy.proposer is not None:
            return self.correct
        if self.verdicts:
            return self.verdicts[chosen]
        if self.measurement.tied or chosen != leading_cluster(self.measurement):
            return None
        return self.correct

    def verdict_if_answerable(self, policy: Calibration) -> float | None:
        """Returns the same; None also where the policy could not answer, whatever its threshold."""
        return self.verdict(policy) if policy.can_answer(self.measurement) else None


def judge_samples(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    every_cluster: bool = False,
    proposer: str | None = None,
    weights: Weights | None = None,
    score: str | None = None,
    estimator: Estimator | None = None,
) -> list[Judged]:
    """Measures and judges every question that has a response, in the order of the questions.

    With `every_cluster` each cluster is judged, not only the leading ones: what chooses the answer by trust or by
    confidence needs it. With a `proposer`, only its first response is. `weights` are the agents' by name, 1 for those
    without; questions that only agents of weight 0 answered are left out. All built-in scores are computed; a `score`
    that is an estimator of your own must be named here, as "package.module:name" unless the `estimator` itself is
    given. The other arguments are as in `ScoringSetup`.

    Raises:
        ConfigurationError: The estimator cannot be imported.
        ValueError: There is no score of this name.
    """
    estimators = {}
    if score is not None and score not in (SUPPORT, TRUSTED_VOTE_SHARE, *RUN_TIME_SCORES):
        estimators[score] = estimator or find_score(score, folder=Path())
    statistics = iter_statistics(
        questions, clusterer=clusterer, weighting=weighting, proposer=proposer, weights=weights
    )

    criterion = with_equality_of(clusterer, criterion)
    rows = []
    if proposer is not None or not every_cluster:
        for each, verdict in with_verdicts(statistics, criterion):
            rows.append(_judged(each, verdict, estimators))
        return rows

    all_clusters = ((each, range(len(each.support))) for each in statistics)
    for each, verdicts in judge_clusters(all_clusters, criterion):
        leading = [verdicts[cluster] for cluster in each.leading]
        correct = None if None in leading else mean_verdict(leading)
        said = {}
        for place, name in enumerate(each.names):
            labels = each.labels[each.agents == place]
            said[name] = tuple(labels.tolist())

        row = _judged(each, correct, estimators)
        rows.append(replace(row, verdicts=tuple(verdicts), said=said))
    return rows


def _judged(
    statistics: Statistics, correct: float | None, estimators: Mapping[str, Estimator]
) -> Judged:
    """Returns the row, whose measurement has its scores in place of the responses, which would fill the memory."""
    scores = {name: ESTIMATORS[name](statistics) for name in RUN_TIME_SCORES}
    for name, estimator in estimators.items():
        # as of a new question: without references and verdicts
        scores[name] = compute_score(statistics.measurement, name, estimator)
    return Judged(
        id=statistics.question.id,
        measurement=replace(statistics.measurement, run=Run(scores=scores)),
        correct=correct,
        is_inside=is_inside(statistics, correct),
    )


def calibrate(
    rows: Sequence[Judged],
    *,
    risk: float,
    confidence: float,
    score: str | None = None,
    halves: bool = False,
    proposer: str | None = None,
    clusterer: str | Clusterer,
    correctness: str,
    weights: Weights | WeightsFrom = "equal",
    origin: Origin | None = None,
    estimator: Estimator | None = None,
) -> CalibratedPolicy:
    """Calibrates a policy on judged questions.

    A group that declines or says nothing abstains whatever its uncertainty, and so does a tie that neither weights nor
    confidences break: such questions count as not answered, and do not enter the risk.

    Weights "learned" from the labels, or by "agreement" without them, are those of the one score
    (`coe_agents.measurement.weighted_vote`), and choose the answer, too. They are fitted on the questions on which the
    threshold is chosen, so that the guarantee is empirical: on random halves of real data the realised risk stayed
    below the stated one. With `halves` they are fitted on one half of the questions (by a hash of their ids) and the
    threshold is chosen on the other, with the guarantee of equal weights; `n_questions` counts the other half.

    With a `proposer`, what is judged is that agent's first response, and the uncertainty is 1 - its support by the
    others, or with weights "learned" what `fit_support` learns of it.

    Proposals that call one tool only are tested apart from the others, tool
    by tool: where such a test finds a threshold, the tool has its own. All other calls share one, chosen on them alone.
    Calling nothing has its own or none: models that agree on a call tell nothing about whether to call. So each of
    these thresholds comes with its own statement, that the share of wrong proposals among those of its kind that pass
    is at most `risk`, and each statement holds with `confidence` by itself, not all of them at once. For the shared
    threshold it is an approximation, on the safe side: tools leave the rest if they did well.

    Args:
        rows: From `judge_samples`, with the same `proposer`, or with `every_cluster` where weights or confidences
            choose the answer; those without a verdict are left out.
        risk: The highest share of wrong answers among those given, in (0, 1).
        confidence: The probability with which it is kept, in (0, 1).
        score: What is compared with the threshold: "vote_share", "confidence_vote_share", "trusted_vote_share", or
            another estimator's name as `coe_agents.measurement.estimators.find_score` takes it; "support" of a
            proposer. None: "support" with a proposer, else "vote_share".
        halves: Whether weights are fitted on one half and the threshold is chosen on the other.
        proposer: The agent whose first response is judged; None: the group's answer is.
        clusterer: What compared the answers, for the record; or what it is called, and then no graph's options of it
            are compared with those of the calibration.
        correctness: What the criterion is called, for the record.
        weights: "equal"; "agreement" or "learned", which the policy then has itself, for the first two scores; of a
            proposer "learned": whose support counts. Or the agents' weights by name with which the rows were measured;
            the policy then holds for a graph with these.
        estimator: What computes a score of your own, where its name is not "package.module:name".
        origin: How the responses came about (`origin_of`): where a graph asks otherwise, the policy claims no risk.

    Raises:
        ImportError: Support is to be learned and scikit-learn is not installed.
        ValueError: No question has a verdict, the rows were measured with other weights, the
            score is not known, does not go with the weights or cannot be computed of each question, or the weights
            cannot be learned.
    """
    score = check_score(score, proposer, estimator)
    weights_from = check_weights_from(weights, score=score, halves=halves)
    judged = _with_verdict(rows, proposer)
    by_name = _weights_by_name(judged, weights)

    name, options = describe_clusterer(clusterer)
    record = Calibration(
        risk=risk,
        confidence=confidence,
        threshold=None,
        n_questions=0,
        n_answered=0,
        n_wrong=0,
        bound=None,
        agents={},
        clusterer=name,
        clusterer_options=options,
        correctness=correctness,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        uncertainties=(),
        proposer=proposer,
        weights=by_name if isinstance(weights, Mapping) and weights else None,
        score=score,
        # what is fitted replaces it
        trust=dict.fromkeys(by_name, 1.0) if score == TRUSTED_VOTE_SHARE else None,
    )
    if record.is_of_own:
        record = replace(record, estimator=estimator or find_score(score, folder=Path()))
    if record.chooses_answer or weights_from == "learned":
        _check_every_cluster(judged, proposer)

    if _is_fitted(score, weights_from):
        record, judged = _fit(record, judged, weights_from, halves=halves)
    record = _with_threshold(record, judged)
    if origin is not None:
        record = _with_origin(record, origin)
    return CalibratedPolicy(record)


def _with_verdict(rows: Sequence[Judged], proposer: str | None) -> list[Judged]:
    """Returns the rows that can be calibrated on, in an order that depends on their ids alone."""
    judged = [row for row in rows if row.correct is not None]
    judged.sort(key=lambda row: hash_of(row.id))
    if not judged:
        raise ValueError(
            '"rows" must hold questions with a verdict; none has one. Add references or labels'
        )
    if proposer is None:
        return judged

    proposed = [row for row in judged if proposer in row.measurement.proposals.support]
    must = f'"rows" must hold questions with responses of "{proposer}" and of another agent'
    require(bool(proposed), must, proposed, "Name an agent of the samples")
    return proposed


def _weights_by_name(rows: Sequence[Judged], weights: Weights | WeightsFrom) -> dict[str, float]:
    """Returns the weight with which each agent of the rows was measured; 1 unless they are given by name."""
    given = weights if isinstance(weights, Mapping) else {}
    by_name = {}
    for row in rows:
        for name in row.measurement.agents:
            by_name[name] = given.get(name, 1.0)

    if not all(counts_agents_by(row.measurement, by_name) for row in rows):
        raise ValueError(
            '"rows" must be measured with the weights that are given; got rows measured with others. Pass the same '
            '"weights" to "judge_samples"'
        )
    return by_name


def _with_origin(record: Calibration, origin: Origin) -> Calibration:
    agents = dict(record.agents)
    for name in agents.keys() & origin.agents.keys():
        agents[name] = replace(agents[name], **asdict(origin.agents[name]))
    return replace(record, agents=agents, prompt=origin.prompt, answers=origin.answers)


def check_score(
    score: str | None, proposer: str | None = None, estimator: Estimator | None = None
) -> str:
    """Returns the name of the score to calibrate, "support" or the default one where none is given.

    Raises:
        ConfigurationError: An estimator cannot be imported.
        ValueError: There is no such score, or it does not judge what is to be judged.
    """
    if proposer is not None:
        advice = "Omit it for the group's answer"
        instance(proposer, str, '"proposer"', what="the name of an agent", advice=advice)
    if score is None:
        return DEFAULT_SCORE if proposer is None else SUPPORT
    advice = f'"{DEFAULT_SCORE}" is the default'
    instance(score, str, '"score"', what="the name of a score", advice=advice)
    if score == "learned":
        raise ValueError(
            'the score "learned" is gone: pass weights="learned" (--weights learned) with the score "vote_share", '
            '"confidence_vote_share" or a proposer'
        )
    if (score == SUPPORT) != (proposer is not None):
        judged = "the group's answer" if proposer is None else "an agent's proposal"
        raise ValueError(
            f'"score" must judge {judged}; got "{score}". "support" judges a proposer\'s'
        )
    if score not in (SUPPORT, TRUSTED_VOTE_SHARE) and estimator is None:
        find_score(score, folder=Path(), further=[TRUSTED_VOTE_SHARE])
    return score


def check_weights_from(
    weights: Weights | WeightsFrom, *, score: str, halves: bool = False
) -> WeightsFrom:
    """Returns where the weights of the score are from: "equal" where they are given by name.

    Raises:
        ValueError: The weights do not go with the score, or there is nothing to fit on a half.
    """
    weights_from: WeightsFrom = "equal" if isinstance(weights, Mapping) else weights
    one_of(weights_from, '"weights"', WEIGHTS_FROM, advice="Or pass the weights by name")
    allowed = {
        VOTE_SHARE: WEIGHTS_FROM,
        CONFIDENCE_VOTE_SHARE: WEIGHTS_FROM,
        SUPPORT: ("equal", "learned"),
    }.get(score, ("equal",))
    if weights_from not in allowed:
        raise ValueError(
            f'"weights" of the score "{score}" must be {" or ".join(allowed)}; got "{weights_from}". "agreement" and '
            '"learned" weigh "vote_share" and "confidence_vote_share"'
        )
    if halves and not _is_fitted(score, weights_from):
        raise ValueError(
            '"halves" must go with weights that are fitted, "learned" or "agreement"; got equal ones. Omit "halves"'
        )
    return weights_from


def _is_fitted(score: str, weights_from: WeightsFrom) -> bool:
    return weights_from != "equal" or score == TRUSTED_VOTE_SHARE


def nearest(calibration: Calibration, rows: Sequence[Judged]) -> Shortfall | None:
    """Returns how near a calibration without a threshold came to one; None if no question can be answered.

    `rows` are those that were calibrated on; those on which weights alone were fitted do not count. Of proposals it is
    that of those that share a threshold, unless all call nothing.
    """
    _, chosen_on = _divide(
        _with_verdict(rows, calibration.proposer),
        needs_all_agents=calibration.trust_from == "learned",
        halves=calibration.fit == "halves",
    )

    verdicts = []
    uncertainties = []
    for row, verdict in answerable_rows(calibration, chosen_on):
        if calibration.n_questions and calibration.group_of(row.measurement) == ():
            continue  # calling nothing has a threshold of its own
        verdicts.append(verdict)
        uncertainties.append(calibration.uncertainty(row.measurement))
    if not verdicts:
        return None
    return shortfall(
        correct=verdicts,
        uncertainty=uncertainties,
        risk=calibration.risk,
        confidence=calibration.confidence,
    )


def answerable_rows(calibration: Calibration, rows: Sequence[Judged]) -> list[tuple[Judged, float]]:
    """Returns the rows that a calibrated policy can answer, each with the verdict on its answer, which is known."""
    answerable = []
    for row in measurable_rows(calibration, rows):
        verdict = row.verdict_if_answerable(calibration)
        if verdict is not None:
            answerable.append((row, verdict))
    return answerable


def measurable_rows(record: Calibration, rows: Sequence[Judged]) -> list[Judged]:
    """Returns the rows of which a calibrated policy can compute its uncertainty."""
    measurable = []
    for row in rows:
        measurement = row.measurement
        if record.proposer is not None and record.proposer not in measurement.proposals.support:
            continue
        if record.find_lacking(measurement):
            continue
        if np.isfinite(record.uncertainty(measurement)):
            measurable.append(row)
    return measurable


def _with_threshold(record: Calibration, rows: Sequence[Judged]) -> Calibration:
    scores = np.array([record.uncertainty(row.measurement) for row in rows])
    lacking = np.flatnonzero(~np.isfinite(scores))
    if lacking.size:
        raise ValueError(
            f'the score "{record.score}" must be computable of every question; it is not of {lacking.size}, such as '
            f"{rows[lacking[0]].id!r:.80}. Name another one"
        )
    verdicts = [row.verdict_if_answerable(record) for row in rows]
    choices = _choose_all(record, rows, verdicts, scores)
    return _complete_record(record, rows, scores, choices)


_Group = tuple[str, ...] | None
"""The one tool that a proposal calls, () for none; None of all other questions, which share a threshold."""


def _choose_all(
    record: Calibration,
    rows: Sequence[Judged],
    verdicts: Sequence[float | None],
    scores: FloatArray,
) -> dict[_Group, GroupThreshold]:
    """Returns the threshold of each group that has one of its own, and last that of all the others.

    A verdict is None for a question that is never answered.
    """
    groups: dict[_Group, list[int]] = {}
    for place, row in enumerate(rows):
        names = record.group_of(row.measurement)
        group = names if names is not None and len(names) <= 1 else None
        groups.setdefault(group, []).append(place)

    def choose(places: Sequence[int]) -> GroupThreshold:
        answerable = [place for place in places if verdicts[place] is not None]
        choice = NO_THRESHOLD
        if answerable:
            choice = choose_threshold(
                correct=np.array([verdicts[place] for place in answerable], dtype=np.float64),
                uncertainty=scores[answerable],
                risk=record.risk,
                confidence=record.confidence,
            )
        return GroupThreshold(n_questions=len(places), **choice._asdict())

    common = groups.pop(None, [])
    chosen = {}
    for group in sorted(groups, key=lambda names: names or ()):
        places = groups[group]
        threshold = choose(places)
        if threshold.threshold is not None or not group:
            chosen[group] = threshold
        else:
            common += places

    chosen[None] = choose(sorted(common))
    return chosen


def _complete_record(
    record: Calibration,
    rows: Sequence[Judged],
    scores: FloatArray,
    choices: Mapping[_Group, GroupThreshold],
) -> Calibration:
    tools = {group[0]: threshold for group, threshold in choices.items() if group}
    return replace(
        record,
        **asdict(choices[None]),
        tools=tools,
        no_call=choices.get(()),
        agents=_agents(row.measurement for row in rows),
        uncertainties=tuple(np.sort(scores).tolist()),
        n_ties=sum(record.choose_cluster(row.measurement) is None for row in rows),
    )


def _check_every_cluster(rows: Sequence[Judged], proposer: str | None) -> None:
    if proposer is None and not all(row.verdicts for row in rows):
        raise ValueError(
            '"rows" must have a verdict on every cluster where weights or confidences choose the answer; they lack '
            'them. Pass every_cluster=True to "judge_samples"'
        )


def with_all_agents(rows: Sequence[Judged]) -> list[Judged]:
    """Returns the rows in which each agent of any row responded."""
    names = set[str]()
    for row in rows:
        names.update(row.measurement.agents)
    return [row for row in rows if names <= row.measurement.agents.keys()]


def _divide(
    rows: Sequence[Judged], *, needs_all_agents: bool, halves: bool
) -> tuple[list[Judged], list[Judged]]:
    """Returns the rows on which weights are fitted, and those on which the threshold is chosen."""
    usable = with_all_agents(rows) if needs_all_agents else list(rows)
    must = '"rows" must hold questions with all agents'
    require(bool(usable), must, len(usable), "Add questions")
    if not halves:
        return usable, usable

    fitted_on = [row for row in usable if not in_second_half(row.id)]
    chosen_on = [row for row in usable if in_second_half(row.id)]
    if not chosen_on or not fitted_on:
        raise ValueError(
            '"rows" must leave questions for each half; got none for one. Add questions'
        )
    return fitted_on, chosen_on


def _fit(
    record: Calibration, rows: list[Judged], weights_from: WeightsFrom, *, halves: bool
) -> tuple[Calibration, list[Judged]]:
    """Returns the record with what is learned, and the rows on which its threshold is to be chosen."""
    fitted_on, chosen_on = _divide(rows, needs_all_agents=weights_from == "learned", halves=halves)
    fitted = _learn(replace(record, fit="halves" if halves else "whole"), fitted_on, weights_from)
    return fitted, measurable_rows(fitted, chosen_on)


def _learn(record: Calibration, rows: Sequence[Judged], weights_from: WeightsFrom) -> Calibration:
    """Returns the record with whose support counts, or the agents' weights."""
    measurements = [row.measurement for row in rows]
    if weights_from != "learned":
        trust = agreement_weights(measurements, n_resamples=1).weights
        return replace(record, trust=trust, trust_from="agreement")
    if record.proposer is not None:
        right = [row.correct or 0.0 for row in rows]  # all are known here
        support = fit_support(measurements, right, proposer=record.proposer)
        return replace(record, learned_support=support, trust_from="learned")
    return replace(record, trust=learn_weights(rows), trust_from="learned")


def learn_weights(rows: Sequence[Judged]) -> dict[str, float]:
    """Returns the weights of agents by name that `fit_trust` learns.

    Args:
        rows: With the same agents, at least one; from `judge_samples` with `every_cluster`. Those with a cluster whose
            verdict is not known are left out.
    """
    agents = sorted(rows[0].measurement.agents)
    distributions = []
    correct = []
    for row in rows:
        if None not in row.verdicts:
            distributions.append(distributions_of(row.measurement, agents))
            correct.append(np.array(row.verdicts, dtype=np.float64))
    if not correct:
        return dict.fromkeys(agents, 1.0 / len(agents))

    weights = fit_trust(distributions, correct)
    return dict(zip(agents, weights.tolist(), strict=True))


def _agents(measurements: Iterable[Measurement]) -> dict[str, CalibratedAgent]:
    counts: dict[str, set[int]] = {}
    weightings: dict[str, set[AgentWeighting]] = {}
    for measurement in measurements:
        for name, agent in measurement.agents.items():
            counts.setdefault(name, set()).add(agent.n_responses)
            weightings.setdefault(name, set()).add(agent.weighting)

    agents = {}
    for name in sorted(counts):
        kinds = weightings[name]
        kind: AgentWeighting = "mixed" if len(kinds) > 1 else kinds.pop()
        n_responses = counts[name]
        agents[name] = CalibratedAgent(min(n_responses), max(n_responses), kind)
    return agents
