"""Owns calibration: from judged samples to a policy that keeps a stated risk with a stated confidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from coe_agents.checks import one_of, require
from coe_agents.clustering import Clusterer
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
    distributions_of,
)
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import CalibratedPolicy, Measurement, agreement_weights
from coe_agents.policy.calibrated import (
    SUPPORT,
    AgentWeighting,
    CalibratedAgent,
    Calibration,
    GroupThreshold,
    counts_agents_by,
)
from coe_agents.types import SampledQuestion


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
        return (
            self.correct
            if chosen == leading_cluster(self.measurement) and not self.measurement.tied
            else None
        )


def judge_samples(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    every_cluster: bool = False,
    proposer: str | None = None,
    weights: Mapping[str, float] | None = None,
    score: str | None = None,
    estimator: Estimator | None = None,
) -> list[Judged]:
    """Measures and judges every question that has a response, in the order of the questions.

    With `every_cluster` each cluster is judged, not only the leading ones: what chooses the answer by trust or by
    confidence needs it. With a `proposer`,
    only its first response is. `weights` are the agents' by name, 1 for those without; questions that only agents of
    weight 0 answered are left out. All built-in scores are computed; a `score` that is an estimator of your own must be
    named here, as "package.module:name" unless the `estimator` itself is given. The other arguments are as in
    `ScoringSetup`.

    Raises:
        ConfigurationError: The estimator cannot be imported.
        ValueError: There is no score of this name.
    """
    own = None if score in (None, SUPPORT, TRUSTED_VOTE_SHARE, *RUN_TIME_SCORES) else score
    if own is not None and estimator is None:
        estimator = find_score(own, folder=Path())
    statistics = iter_statistics(
        questions, clusterer=clusterer, weighting=weighting, proposer=proposer, weights=weights
    )
    if proposer is not None or not every_cluster:
        return [
            Judged(
                s.question.id, _scored(s, own, estimator), verdict, is_inside=is_inside(s, verdict)
            )
            for s, verdict in with_verdicts(statistics, criterion)
        ]
    rows = []
    for s, verdicts in judge_clusters(((s, range(len(s.support))) for s in statistics), criterion):
        leading = [verdicts[cluster] for cluster in s.leading]
        correct = None if None in leading else mean_verdict(leading)
        said = {
            name: tuple(s.labels[s.agents == place].tolist()) for place, name in enumerate(s.names)
        }
        rows.append(
            Judged(
                s.question.id,
                _scored(s, own, estimator),
                correct,
                tuple(verdicts),
                said,
                is_inside(s, correct),
            )
        )
    return rows


def _scored(statistics: Statistics, own: str | None, estimator: Estimator | None) -> Measurement:
    """Returns the measurement with its scores in place of the responses, which would fill the memory."""
    scores = {name: ESTIMATORS[name](statistics) for name in RUN_TIME_SCORES}
    if (
        own is not None and estimator is not None
    ):  # as of a new question: without references and verdicts
        scores[own] = compute_score(statistics.measurement, own, estimator)
    run = Run(scores=scores)
    return replace(statistics.measurement, run=run)


def calibrate(
    rows: Sequence[Judged],
    *,
    risk: float,
    confidence: float,
    score: str | None = None,
    halves: bool = False,
    proposer: str | None = None,
    clusterer: str,
    correctness: str,
    weights: Mapping[str, float] | WeightsFrom = "equal",
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
        clusterer: What the clusterer is called, for the record.
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
    given = weights if isinstance(weights, Mapping) else {}
    known = sorted(
        (row for row in rows if row.correct is not None), key=lambda row: hash_of(row.id)
    )
    if not known:
        raise ValueError(
            '"rows" must hold questions with a verdict; none has one. Add references or labels'
        )
    if proposer is not None:
        known = [row for row in known if proposer in row.measurement.proposals.support]
        must = f'"rows" must hold questions with responses of "{proposer}" and of another agent'
        require(bool(known), must, known, "Name an agent of the samples")
    by_name = {name: given.get(name, 1.0) for row in known for name in row.measurement.agents}
    if not all(counts_agents_by(row.measurement, by_name) for row in known):
        raise ValueError(
            '"rows" must be measured with the weights that are given; got rows measured with others. Pass the same '
            '"weights" to "judge_samples"'
        )
    open_record = Calibration(
        risk=risk,
        confidence=confidence,
        threshold=None,
        n_questions=0,
        n_answered=0,
        n_wrong=0,
        bound=None,
        agents={},
        clusterer=clusterer,
        correctness=correctness,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        uncertainties=(),
        proposer=proposer,
        weights=by_name if given else None,
        prompt=None if origin is None else origin.prompt,
        answers=None if origin is None else origin.answers,
        score=score,
        # what is fitted replaces it
        trust=dict.fromkeys(by_name, 1.0) if score == TRUSTED_VOTE_SHARE else None,
    )
    if open_record.is_of_own:
        open_record = replace(open_record, estimator=estimator or find_score(score, folder=Path()))
    if open_record.chooses_answer or weights_from == "learned":
        known = _with_verdicts(known, proposer)
    if not _is_fitted(score, weights_from):
        policy = _with_threshold(open_record, known)
    else:
        usable = _with_all_agents(known) if weights_from == "learned" else known
        fitted_on = [row for row in usable if not (halves and in_second_half(row.id))]
        chosen_on = [row for row in usable if not halves or in_second_half(row.id)]
        if not chosen_on or not fitted_on:
            raise ValueError(
                '"rows" must leave questions for each half; got none for one. Add questions'
            )
        record = replace(open_record, fit="halves" if halves else "whole")
        fitted = _fit(record, fitted_on, weights_from)
        policy = _with_threshold(fitted, measurable_rows(fitted, chosen_on))
    asked = {} if origin is None else {name: asdict(agent) for name, agent in origin.agents.items()}
    agents = {name: replace(agent, **asked.get(name, {})) for name, agent in policy.agents.items()}
    return CalibratedPolicy(replace(policy, agents=agents))


def check_score(
    score: str | None, proposer: str | None = None, estimator: Estimator | None = None
) -> str:
    """Returns the name of the score to calibrate, "support" or the default one where none is given.

    Raises:
        ConfigurationError: An estimator cannot be imported.
        ValueError: There is no such score, or it does not judge what is to be judged.
    """
    if score is None:
        return DEFAULT_SCORE if proposer is None else SUPPORT
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
        find_score(score, folder=Path())
    return score


def check_weights_from(
    weights: Mapping[str, float] | WeightsFrom, *, score: str, halves: bool = False
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
    """Returns how near a calibration without a threshold came to one; None if no question can be answered."""
    judged = answerable_rows(calibration, rows)
    if not judged:
        return None
    how = {"risk": calibration.risk, "confidence": calibration.confidence}
    uncertainty = [calibration.uncertainty(row.measurement) for row, _ in judged]
    return shortfall(correct=[verdict for _, verdict in judged], uncertainty=uncertainty, **how)


def answerable_rows(calibration: Calibration, rows: Sequence[Judged]) -> list[tuple[Judged, float]]:
    """Returns the rows that a calibrated policy can answer, each with the verdict on its answer, which is known."""
    usable = [
        row for row in measurable_rows(calibration, rows) if calibration.can_answer(row.measurement)
    ]
    return [(row, verdict) for row in usable if (verdict := row.verdict(calibration)) is not None]


def measurable_rows(record: Calibration, rows: Sequence[Judged]) -> list[Judged]:
    """Returns the rows of which a calibrated policy can compute its uncertainty."""
    return [
        row
        for row in rows
        if not record.find_lacking(row.measurement)
        and (record.proposer is None or record.proposer in row.measurement.proposals.support)
        and np.isfinite(record.uncertainty(row.measurement))
    ]


def _with_threshold(record: Calibration, rows: Sequence[Judged]) -> Calibration:
    scores = np.array([record.uncertainty(row.measurement) for row in rows])
    if lacking := [
        row.id for row, score in zip(rows, scores, strict=True) if not np.isfinite(score)
    ]:
        raise ValueError(
            f'the score "{record.score}" must be computable of every question; it is not of {len(lacking)}, such as '
            f"{lacking[0]!r:.80}. Name another one"
        )
    right = [row.verdict(record) if record.can_answer(row.measurement) else None for row in rows]
    return _complete_record(record, rows, scores, _choose_all(record, rows, right, scores))


_Group = tuple[str, ...] | None
"""The one tool that a proposal calls, () for none; None of all other questions, which share a threshold."""


def _choose_all(
    record: Calibration, rows: Sequence[Judged], right: Sequence[float | None], scores: FloatArray
) -> dict[_Group, GroupThreshold]:
    """Returns the threshold of each group that has one of its own, and last that of all the others.

    `right` is None for a question that is never answered.
    """
    groups: dict[_Group, list[int]] = {}
    for place, row in enumerate(rows):
        names = record.group_of(row.measurement)
        groups.setdefault(names if names is not None and len(names) <= 1 else None, []).append(
            place
        )

    def choose(places: Sequence[int]) -> GroupThreshold:
        answerable = [
            (verdict, scores[place]) for place in places if (verdict := right[place]) is not None
        ]
        choice = NO_THRESHOLD
        if answerable:
            correct, uncertainty = zip(*answerable, strict=True)
            how = {"risk": record.risk, "confidence": record.confidence}
            choice = choose_threshold(correct=correct, uncertainty=uncertainty, **how)
        return GroupThreshold(n_questions=len(places), **choice._asdict())

    common = groups.pop(None, [])
    chosen: dict[_Group, GroupThreshold] = {}
    for group, places in sorted(groups.items(), key=lambda item: item[0] or ()):
        found = choose(places)
        if found.threshold is not None or not group:
            chosen[group] = found
        else:
            common += places
    return chosen | {None: choose(sorted(common))}


def _complete_record(
    record: Calibration,
    rows: Sequence[Judged],
    scores: FloatArray,
    choices: Mapping[_Group, GroupThreshold],
) -> Calibration:
    return replace(
        record,
        **asdict(choices[None]),
        tools={group[0]: threshold for group, threshold in choices.items() if group},
        no_call=choices.get(()),
        agents=_agents(row.measurement for row in rows),
        uncertainties=tuple(np.sort(scores).tolist()),
        n_ties=sum(record.choose_cluster(row.measurement) is None for row in rows),
    )


def _with_verdicts(rows: Sequence[Judged], proposer: str | None) -> list[Judged]:
    if proposer is None and not all(row.verdicts for row in rows):
        raise ValueError(
            '"rows" must have a verdict on every cluster where weights or confidences choose the answer; they lack '
            'them. Pass every_cluster=True to "judge_samples"'
        )
    return list(rows)


def _with_all_agents(rows: Sequence[Judged]) -> list[Judged]:
    names = {name for row in rows for name in row.measurement.agents}
    complete = [row for row in rows if names <= row.measurement.agents.keys()]
    if not complete:
        raise ValueError(
            f'"rows" must hold questions with all {len(names)} agents; got none. Add questions'
        )
    return complete


def _fit(record: Calibration, rows: Sequence[Judged], weights_from: WeightsFrom) -> Calibration:
    """Returns the record with what is learned: whose support counts, or the agents' weights."""
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
    judged = [row for row in rows if None not in row.verdicts]
    if not judged:
        return dict.fromkeys(agents, 1.0 / len(agents))
    distributions = [distributions_of(row.measurement, agents) for row in judged]
    weights = fit_trust(distributions, [np.array(row.verdicts, dtype=np.float64) for row in judged])
    return dict(zip(agents, weights.tolist(), strict=True))


def _agents(measurements: Iterable[Measurement]) -> dict[str, CalibratedAgent]:
    seen: dict[str, list[tuple[int, AgentWeighting]]] = {}
    for measurement in measurements:
        for name, agent in measurement.agents.items():
            seen.setdefault(name, []).append((agent.n_responses, agent.weighting))
    found = {}
    for name, entries in sorted(seen.items()):
        counts, weightings = (
            {count for count, _ in entries},
            {weighting for _, weighting in entries},
        )
        kind: AgentWeighting = "mixed" if len(weightings) > 1 else weightings.pop()
        found[name] = CalibratedAgent(min(counts), max(counts), kind)
    return found
