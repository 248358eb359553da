"""Owns calibration: from judged samples to a policy that keeps a stated risk with a stated confidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from coe_agents.checks import require
from coe_agents.clustering import Clusterer
from coe_agents.evaluation.calibration.learned import fit_gate, fit_support, to_folds
from coe_agents.evaluation.calibration.risk_control import NO_THRESHOLD, Shortfall, choose_threshold, shortfall
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
from coe_agents.policy import CalibratedPolicy, Measurement
from coe_agents.policy.calibrated import (
    LEARNED,
    SUPPORT,
    AgentWeighting,
    CalibratedAgent,
    Calibration,
    GroupThreshold,
    counts_agents_by,
)
from coe_agents.policy.estimators import (
    DEFAULT_SCORE,
    ESTIMATORS,
    RUN_TIME_SCORES,
    Estimator,
    compute_score,
    find_score,
)
from coe_agents.policy.learned_gates import LearnedGate, SupportGate
from coe_agents.policy.statistics import Statistics
from coe_agents.policy.weighting import Weighting
from coe_agents.types import SampledQuestion
from coe_agents.uncertainty.ties import TIE


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
        return self.correct if chosen == self.measurement.leading and not self.measurement.tied else None


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

    With `every_cluster` each cluster is judged, not only the leading ones; a learned gate needs it. With a `proposer`,
    only its first response is. `weights` are the agents' by name, 1 for those without; questions that only agents of
    weight 0 answered are left out. All built-in scores are computed; a `score` that is an estimator of your own must be
    named here, as "package.module:name" unless the `estimator` itself is given. The other arguments are as in
    `ScoringSetup`.

    Raises:
        ConfigurationError: The estimator cannot be imported.
        ValueError: There is no score of this name.
    """
    own = None if score in (None, LEARNED, SUPPORT, *RUN_TIME_SCORES) else score
    if own is not None and estimator is None:
        estimator = find_score(own, folder=Path())
    statistics = iter_statistics(
        questions, clusterer=clusterer, weighting=weighting, proposer=proposer, weights=weights
    )
    if proposer is not None or not every_cluster:
        return [
            Judged(s.question.id, _scored(s, own, estimator), verdict, is_inside=is_inside(s, verdict))
            for s, verdict in with_verdicts(statistics, criterion)
        ]
    rows = []
    for s, verdicts in judge_clusters(((s, range(len(s.support))) for s in statistics), criterion):
        leading = [verdicts[cluster] for cluster in s.leading]
        correct = None if None in leading else mean_verdict(leading)
        said = {name: tuple(s.labels[s.agents == place].tolist()) for place, name in enumerate(s.names)}
        rows.append(
            Judged(s.question.id, _scored(s, own, estimator), correct, tuple(verdicts), said, is_inside(s, correct))
        )
    return rows


def _scored(statistics: Statistics, own: str | None, estimator: Estimator | None) -> Measurement:
    """Returns the measurement with its scores in place of the responses, which would fill the memory."""
    scores = {name: ESTIMATORS[name](statistics) for name in RUN_TIME_SCORES}
    if own is not None and estimator is not None:  # as of a new question: without references and verdicts
        scores[own] = compute_score(statistics.measurement, own, estimator)
    return replace(statistics.measurement, scores=scores, sampled=None)


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
    weights: Mapping[str, float] | None = None,
    origin: Origin | None = None,
    estimator: Estimator | None = None,
) -> CalibratedPolicy:
    """Calibrates a policy on judged questions.

    A group that declines or says nothing abstains whatever its uncertainty, and so does a tie that no learned weights
    break: such questions count as not answered, and do not enter the risk.

    The learned gate chooses the answer by learned trust in the agents and estimates the probability that it is wrong.
    With `halves`, it is fitted on one half of the questions (by a hash of their ids) and its threshold chosen on the
    other, so that the guarantee holds for it as for another score; `n_questions` counts the other half. Without, it is
    fitted on all. The threshold then comes from five gates, each fitted on four folds: the uncertainty of a
    question is the share of all questions that the gate of the other folds finds at most as uncertain. The share that
    passes the tests is converted to a threshold of the final gate. `n_answered`, `n_wrong` and `bound` are of these
    held-out shares. The guarantee is then empirical, since the five gates are not the final one: on random halves of
    real data the realised risk seldom exceeded the stated one by more than sampling error. `docs/results.md` has the
    figures.

    With a `proposer`, what is judged is that agent's first response, and the uncertainty is 1 - its support by the
    others, or what `fit_support` learns of it. Proposals that call one tool only are tested apart from the others, tool
    by tool: where such a test finds a threshold, the tool has its own. All other calls share one, chosen on them alone.
    Calling nothing has its own or none: models that agree on a call tell nothing about whether to call. So each of
    these thresholds comes with its own statement, that the share of wrong proposals among those of its kind that pass
    is at most `risk`, and each statement holds with `confidence` by itself, not all of them at once. For the shared
    threshold it is an approximation, on the safe side: tools leave the rest if they did well.

    Args:
        rows: From `judge_samples`, with `every_cluster` for a learned gate or with the same `proposer`; those without a
            verdict are left out.
        risk: The highest share of wrong answers among those given, in (0, 1).
        confidence: The probability with which it is kept, in (0, 1).
        score: What is compared with the threshold. "learned": the probability of a wrong answer that a logistic
            regression gives; else an estimator's name as `coe_agents.policy.estimators.find_score` takes it, or
            "support" of a proposer. None: "support" with a proposer, else "vote_share".
        halves: Whether a learned gate is fitted on one half and its threshold chosen on the other.
        proposer: The agent whose first response is judged; None: the group's answer is.
        clusterer: What the clusterer is called, for the record.
        correctness: What the criterion is called, for the record.
        weights: The agents' weights with which the rows were measured; the policy then holds for these. None: equal.
        estimator: What computes a score of your own, where its name is not "package.module:name".
        origin: How the responses came about (`origin_of`): where a graph asks otherwise, the policy claims no risk.

    Raises:
        ImportError: A gate is to be learned and scikit-learn is not installed.
        ValueError: No question has a verdict, the divergences differ, the rows were measured with other weights, the
            score is not known or cannot be computed of each question, or the gate cannot be learned.
    """
    score = check_score(score, proposer, estimator)
    known = sorted((row for row in rows if row.correct is not None), key=lambda row: hash_of(row.id))
    if not known:
        raise ValueError('"rows" must hold questions with a verdict; none has one. Add references or labels')
    if proposer is not None:
        known = [row for row in known if proposer in row.measurement.proposal_support]
        must = f'"rows" must hold questions with responses of "{proposer}" and of another agent'
        require(bool(known), must, known, "Name an agent of the samples")
    divergences = {row.measurement.divergence for row in known}
    must = '"rows" must be measured with one divergence'
    require(len(divergences) == 1, must, ", ".join(sorted(divergences)), "Measure them again")
    by_name = {name: (weights or {}).get(name, 1.0) for row in known for name in row.measurement.agents}
    if not all(counts_agents_by(row.measurement, by_name) for row in known):
        raise ValueError(
            '"rows" must be measured with the weights that are given; got rows measured with others. Pass the same '
            '"weights" to "judge_samples"'
        )
    if halves and score != LEARNED:
        raise ValueError(f'"halves" needs a learned gate; got score="{score}". Pass score="learned", or omit "halves"')
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
        divergence=divergences.pop(),
        proposer=proposer,
        weights=None if weights is None else by_name,
        prompt=None if origin is None else origin.prompt,
        answers=None if origin is None else origin.answers,
        score="" if score == LEARNED else score,
    )
    if open_record.is_of_own:
        open_record = replace(open_record, estimator=estimator or find_score(score, folder=Path()))
    if score != LEARNED:
        policy = _with_threshold(open_record, known)
    elif halves:
        complete = _with_all_agents(known, proposer)
        fitted = [row for row in complete if not in_second_half(row.id)]
        held_out = [row for row in complete if in_second_half(row.id)]
        if not held_out:
            raise ValueError('"rows" must leave questions for the threshold; got none. Add questions')
        record = replace(open_record, gate=_fit(fitted, proposer), fit="halves")
        policy = _with_threshold(record, measurable_rows(record, held_out))
    else:
        policy = _from_folds(replace(open_record, fit="folds"), _with_all_agents(known, proposer))
    asked = {} if origin is None else {name: asdict(agent) for name, agent in origin.agents.items()}
    agents = {name: replace(agent, **asked.get(name, {})) for name, agent in policy.agents.items()}
    return CalibratedPolicy(replace(policy, agents=agents))


def check_score(score: str | None, proposer: str | None = None, estimator: Estimator | None = None) -> str:
    """Returns the name of the score to calibrate, "support" or the default one where none is given.

    Raises:
        ConfigurationError: An estimator cannot be imported.
        ValueError: There is no such score, or it does not judge what is to be judged.
    """
    if score is None:
        return DEFAULT_SCORE if proposer is None else SUPPORT
    if (score == SUPPORT and proposer is None) or (proposer is not None and score not in (LEARNED, SUPPORT)):
        judged = "the group's answer" if proposer is None else "an agent's proposal"
        raise ValueError(f'"score" must judge {judged}; got "{score}". "support" and "learned" judge a proposer\'s')
    if score not in (LEARNED, SUPPORT) and estimator is None:
        find_score(score, folder=Path())
    return score


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
    usable = [row for row in measurable_rows(calibration, rows) if calibration.can_answer(row.measurement)]
    return [(row, verdict) for row in usable if (verdict := row.verdict(calibration)) is not None]


def measurable_rows(record: Calibration, rows: Sequence[Judged]) -> list[Judged]:
    """Returns the rows of which a calibrated policy can compute its uncertainty."""
    needed = set() if record.gate is None else set(record.gate.agents)
    return [
        row
        for row in rows
        if needed <= row.measurement.agents.keys()
        and (record.proposer is None or record.proposer in row.measurement.proposal_support)
        and np.isfinite(record.uncertainty(row.measurement))
    ]


def _with_threshold(record: Calibration, rows: Sequence[Judged]) -> Calibration:
    scores = np.array([record.uncertainty(row.measurement) for row in rows])
    if lacking := [row.id for row, score in zip(rows, scores, strict=True) if not np.isfinite(score)]:
        raise ValueError(
            f'the score "{record.score}" must be computable of every question; it is not of {len(lacking)}, such as '
            f"{lacking[0]!r:.80}. Name another one"
        )
    right = [row.verdict(record) if record.can_answer(row.measurement) else None for row in rows]
    return _complete_record(record, rows, scores, _choose_all(record, rows, right, scores))


def _from_folds(record: Calibration, rows: Sequence[Judged]) -> Calibration:
    fold = to_folds([row.id for row in rows], [1.0 - (row.correct or 0.0) for row in rows])
    shares = np.empty(len(rows))
    right: list[float | None] = [None] * len(rows)
    for number in range(fold.max() + 1):
        outside = [row for row, own in zip(rows, fold, strict=True) if own != number]
        scorer = replace(record, gate=_fit(outside, record.proposer))
        scores = np.array([scorer.uncertainty(row.measurement) for row in rows])
        inside = np.flatnonzero(fold == number)
        shares[inside] = to_shares(scores)[inside]
        for i in inside.tolist():
            right[i] = rows[i].verdict(scorer) if scorer.can_answer(rows[i].measurement) else None
    final = replace(record, gate=_fit(rows, record.proposer))
    scores = np.array([final.uncertainty(row.measurement) for row in rows])
    final_shares = to_shares(scores)

    def to_score(chosen: GroupThreshold) -> GroupThreshold:
        if chosen.threshold is None:
            return chosen
        within = scores[final_shares <= chosen.threshold + TIE]
        return replace(chosen, **({"threshold": float(within.max())} if within.size else NO_THRESHOLD._asdict()))

    choices = {group: to_score(chosen) for group, chosen in _choose_all(final, rows, right, shares).items()}
    return _complete_record(final, rows, scores, choices)


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
        groups.setdefault(names if names is not None and len(names) <= 1 else None, []).append(place)

    def choose(places: Sequence[int]) -> GroupThreshold:
        answerable = [(verdict, scores[place]) for place in places if (verdict := right[place]) is not None]
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
    record: Calibration, rows: Sequence[Judged], scores: FloatArray, choices: Mapping[_Group, GroupThreshold]
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


def _with_all_agents(rows: Sequence[Judged], proposer: str | None) -> list[Judged]:
    names = {name for row in rows for name in row.measurement.agents}
    complete = [row for row in rows if names <= row.measurement.agents.keys()]
    if not complete:
        raise ValueError(f'"rows" must hold questions with all {len(names)} agents; got none. Add questions')
    if proposer is None and not all(row.verdicts for row in complete):
        raise ValueError(
            'a learned gate needs a verdict on every cluster; "rows" lack them. '
            'Pass every_cluster=True to "judge_samples"'
        )
    return complete


def _fit(rows: Sequence[Judged], proposer: str | None) -> LearnedGate | SupportGate:
    if proposer is not None:
        right = [row.correct or 0.0 for row in rows]  # all are known here
        return fit_support([row.measurement for row in rows], right, proposer=proposer)
    return fit_gate([row.measurement for row in rows], [row.verdicts for row in rows])


def to_shares(scores: FloatArray) -> FloatArray:
    """The share of all scores that are at most each one; those within 1e-9 are equal."""
    return np.searchsorted(np.sort(scores), scores + TIE, side="right") / scores.size


def _agents(measurements: Iterable[Measurement]) -> dict[str, CalibratedAgent]:
    seen: dict[str, list[tuple[int, AgentWeighting]]] = {}
    for measurement in measurements:
        for name, agent in measurement.agents.items():
            seen.setdefault(name, []).append((agent.n_responses, agent.weighting))
    found = {}
    for name, entries in sorted(seen.items()):
        counts, weightings = {count for count, _ in entries}, {weighting for _, weighting in entries}
        kind: AgentWeighting = "mixed" if len(weightings) > 1 else weightings.pop()
        found[name] = CalibratedAgent(min(counts), max(counts), kind)
    return found
