"""Owns scoring: of one question, a row that can be kept; of all, score vectors, verdicts, and the report of them."""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.clustering.refusals import answer_kind
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.bootstrap import Estimate, Estimates, estimate_all, to_plain
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS
from coe_agents.evaluation.metrics.tallies import BoolArray, FloatArray, join_ties
from coe_agents.evaluation.samples.reader import Samples, SamplesPart, without_rulings
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, is_inside, with_verdicts
from coe_agents.evaluation.scoring.statistics import BATCH, iter_statistics
from coe_agents.evaluation.workers import ALONE, Workers
from coe_agents.measurement.estimators import BEST_SINGLE_MODEL, Estimator, find_estimators
from coe_agents.measurement.statistics import ActionKind, Statistics
from coe_agents.measurement.weighted_vote import TRUSTED_VOTE_SHARE, mean_agreements, to_weights
from coe_agents.measurement.weighting import Weighting
from coe_agents.types import SampledQuestion
from coe_agents.uncertainty.ties import TIE


@dataclass(frozen=True, slots=True)
class ScoringSetup:
    """How responses become scores and verdicts.

    Attributes:
        entailment: For the distances between clusters that `coe_wasserstein` reads; None: 0/1.
        weighting: How responses count within their agent: "auto", "frequency" or "probability".
        estimators: Scores beyond the built-in ones, by name: each takes `Statistics` and returns a
            float, higher = less sure, or None where it cannot be computed.
        proposer: The agent whose first response is judged; None: the group's answer is.
    """

    clusterer: Clusterer
    criterion: Criterion = CRITERIA["reference_or_label"]
    entailment: EntailmentModel | None = None
    weighting: Weighting = "auto"
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    proposer: str | None = None

    @property
    def all_estimators(self) -> dict[str, Estimator]:
        return find_estimators(self.estimators, of_proposal=self.proposer is not None)

    def judge(
        self, questions: Iterable[SampledQuestion]
    ) -> Iterator[tuple[Statistics, float | None]]:
        """Yields the statistics of each question that has a response, with the verdict on what is judged."""
        names = ("clusterer", "weighting", "entailment", "proposer")
        how: dict[str, Any] = {name: getattr(self, name) for name in names}
        return with_verdicts(iter_statistics(questions, **how), self.criterion)


class AgentScore(NamedTuple):
    """One agent's responses to one question.

    Attributes:
        agreement: The mean probability that another agent gives the same answer, in [0, 1]; NaN if no other responded.
        support: Its probability of the leading answer, in [0, 1]; the mean over answers that tie.
    """

    entropy: float
    n_responses: int
    by_probability: bool
    agreement: float
    support: float


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """The result of scoring one question.

    Attributes:
        failures: Failed requests by agent.
        agents: Of each agent that responded; empty where none did.
        correct: Whether the group's answer was right, in [0, 1]; of a tie the share of its answers that is right. None
            where that is not known. With a proposer, whether its proposal was.
        tied: Whether several answers share the lead; with a proposer nothing ties.
        scores: By estimator, None where it could not be computed; empty unless `correct` is known.
        kind: Whether what is judged calls a tool; None of texts.
        is_inside: Whether the answer is wrong by its words alone, though a reference is in it.
    """

    id: str
    failures: Mapping[str, int]
    agents: Mapping[str, AgentScore] = field(default_factory=dict)
    correct: float | None = None
    tied: bool = False
    scores: Mapping[str, float | None] = field(default_factory=dict)
    kind: ActionKind | None = None
    lacks_proposal: bool = False
    is_inside: bool = False


def score_each(
    questions: Iterable[SampledQuestion],
    setup: ScoringSetup,
    *,
    on_question: Callable[[Statistics, float | None], None] = lambda statistics, correct: None,
) -> Iterator[ScoredQuestion]:
    """Yields the result of each question; a few are held at a time.

    `on_question` is called with the statistics of each that has a response, and whether the answer was right.
    """
    estimators = setup.all_estimators
    unanswered: list[ScoredQuestion] = []

    def answered() -> Iterator[SampledQuestion]:
        for question in without_rulings(questions):
            if not question.responses:
                unanswered.append(ScoredQuestion(question.id, _failures(question)))
            yield question

    for each, verdict in setup.judge(answered()):
        on_question(each, verdict)
        supports = each.distributions[:, list(each.leading)].mean(axis=1).tolist()
        agents = map(
            AgentScore,
            each.entropies,
            each.n_responses,
            each.counts_by_probability,
            _agreements(each),
            supports,
        )
        yield ScoredQuestion(
            each.question.id,
            _failures(each.question),
            dict(zip(each.names, agents, strict=True)),
            verdict,
            each.is_tied and setup.proposer is None,
            {}
            if verdict is None
            else {name: estimator(each) for name, estimator in estimators.items()},
            each.action_kind,
            setup.proposer is not None and each.proposal is None,
            is_inside(each, verdict),
        )
        yield from unanswered
        unanswered.clear()
    yield from unanswered


def _agreements(statistics: Statistics) -> list[float]:
    if len(statistics.names) == 1:
        return [np.nan]
    clusters = range(len(statistics.support))
    is_answer = [
        not statistics.is_text or _is_answer(statistics.answer_of(cluster)) for cluster in clusters
    ]
    return mean_agreements(statistics.distributions, is_answer)


def _is_answer(text: str) -> bool:
    return answer_kind(text) == "answer"


def _failures(question: SampledQuestion) -> Mapping[str, int]:
    return Counter(failure["agent"] for failure in question.failures)


_PART = 2 * BATCH
"""Questions in a part: whole batches, so that all array operations are those of one process, to the last bit."""


@dataclass(slots=True)
class AgentCount:
    """What one agent contributed: questions with a response, responses, and failed requests.

    On `by_probability` of its questions its responses count by probability; by frequency on the others.
    """

    n_questions: int = 0
    n_responses: int = 0
    n_failures: int = 0
    by_probability: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """The score vectors of a set of samples; a row is a question that could be scored, in the order of ids.

    Attributes:
        correct: Whether the group's answer was right, in [0, 1]: of a tie the share of its answers that is right, of a
            cluster whose labels differ the share of its labels that is right.
        n_ties: The rows where several answers share the lead.
        values: Each score that could be computed for all rows; higher = less sure. Values within 1e-9 are equal
            (`join_ties`).
        absent: Each other score, with the number of rows that lack it.
        n_questions: All questions, scored or not.
        n_unanswered: Those without any response.
        n_unjudged: Those whose correctness is not known.
        proposer: The agent whose first response is judged in place of the group's answer; None without one.
        n_without_proposal: The questions to which others responded, but not the proposer.
        kinds: Of each row, whether what is judged calls a tool; None of texts.
        n_inside: The rows that are wrong by their words alone, though a reference is in the answer.
    """

    correct: FloatArray
    n_ties: int
    values: dict[str, FloatArray]
    absent: dict[str, int]
    criterion: str
    clusterer: str
    weighting: Weighting
    n_questions: int
    n_unanswered: int
    n_unjudged: int
    agents: dict[str, AgentCount]
    proposer: str | None = None
    n_without_proposal: int = 0
    kinds: tuple[ActionKind | None, ...] = ()
    n_inside: int = 0


def score(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    entailment: EntailmentModel | None = None,
    estimators: Mapping[str, Estimator] | None = None,
    proposer: str | None = None,
) -> Scores:
    """Scores every question with every estimator; only the score vectors are kept, some 300 bytes a question.

    With a `proposer`, what is judged is that agent's first response, not the group's answer, and two scores more are
    computed: "support" and "own_entropy".

    The questions are read one at a time. The other arguments are explained in `ScoringSetup`.

    Raises:
        SamplesError: A line of the samples is malformed.
        ValueError: `weighting` is "probability" and an agent lacks log-probabilities; or an estimator has a name that
            is taken, or returns something else than a finite number or None.
    """
    setup = ScoringSetup(clusterer, criterion, entailment, weighting, estimators or {}, proposer)
    return to_scores(score_each(questions, setup), setup)


def score_samples(samples: Samples, setup: ScoringSetup, *, workers: Workers = ALONE) -> Scores:
    """Scores samples part by part in the processes of `workers`; the result is that of `score`.

    `setup` is without a model, which every process would load.
    """
    parts = workers.map(partial(_score_part, setup), samples.parts(_PART))
    return to_scores(chain.from_iterable(parts), setup)


def _score_part(setup: ScoringSetup, part: SamplesPart) -> list[ScoredQuestion]:
    return list(score_each(part, setup))


def to_scores(rows: Iterable[ScoredQuestion], setup: ScoringSetup) -> Scores:
    """Returns the score vectors of rows in the order of ids, scored with this setup.

    Rows whose `correct` is known have a value, or None, of every estimator.
    """
    n_questions = n_unanswered = n_without_proposal = n_ties = n_inside = 0
    agents = defaultdict[str, AgentCount](AgentCount)
    # arrays, since they grow by eight bytes a number; NaN marks what could not be computed
    correct, halves = array("d"), array("b")
    scores = {name: array("d") for name in setup.all_estimators}
    entropies = dict[str, "array[float]"]()
    supports = dict[str, "array[float]"]()
    agreements = defaultdict[str, list[float]](lambda: [0.0, 0])  # the sum, and of how many
    kinds: list[ActionKind | None] = []
    for row in rows:
        n_questions += 1
        n_unanswered += not row.agents
        n_without_proposal += row.lacks_proposal
        for name, n_failures in row.failures.items():
            agents[name].n_failures += n_failures
        for name, agent in row.agents.items():
            count = agents[name]
            count.n_questions += 1
            count.n_responses += agent.n_responses
            count.by_probability += agent.by_probability
            if not math.isnan(agent.agreement):
                agreements[name][0] += agent.agreement
                agreements[name][1] += 1
        if row.correct is None:
            continue
        n_ties += row.tied
        n_inside += row.is_inside
        for name, column in scores.items():
            value = row.scores[name]
            column.append(np.nan if value is None else value)
        for name in row.agents.keys() - entropies.keys():
            entropies[name] = array("d", [np.nan]) * len(correct)
            supports[name] = array("d", [np.nan]) * len(correct)
        for name, column in entropies.items():
            agent_score = row.agents.get(name)
            column.append(np.nan if agent_score is None else agent_score.entropy)
            supports[name].append(np.nan if agent_score is None else agent_score.support)
        correct.append(row.correct)
        kinds.append(row.kind)
        halves.append(in_second_half(row.id))
    right = np.asarray(correct)  # the same memory, as below
    columns = {name: np.asarray(column) for name, column in scores.items()}
    columns[BEST_SINGLE_MODEL] = best_single_model(
        {name: np.asarray(column) for name, column in entropies.items()},
        right,
        np.asarray(halves).astype(np.bool_),
    )
    means = {name: total / n for name, (total, n) in agreements.items()}
    columns[TRUSTED_VOTE_SHARE] = trusted_vote_share(
        {name: np.asarray(column) for name, column in supports.items()}, means, n_rows=len(correct)
    )
    absent = {name: n for name, column in columns.items() if (n := int(np.isnan(column).sum()))}
    for name in absent:
        del columns[name]
    return Scores(
        correct=right,
        n_ties=n_ties,
        values={name: join_ties(column) for name, column in columns.items()},
        absent=absent,
        criterion=setup.criterion.name,
        clusterer=type(setup.clusterer).__name__,
        weighting=setup.weighting,
        n_questions=n_questions,
        n_unanswered=n_unanswered,
        n_unjudged=n_questions - n_unanswered - n_without_proposal - len(correct),
        agents=dict(sorted(agents.items())),
        proposer=setup.proposer,
        n_without_proposal=n_without_proposal,
        kinds=tuple(kinds),
        n_inside=n_inside,
    )


def hash_of(identifier: str) -> bytes:
    """A digest of an id, by which questions are dealt whatever their order."""
    return sha256(identifier.encode("utf-8", "surrogatepass")).digest()


def in_second_half(identifier: str) -> bool:
    """Returns which half of the questions an id belongs to, for cross-fitting; it depends on nothing else."""
    return hash_of(identifier)[0] % 2 == 1


def best_single_model(
    entropies: Mapping[str, FloatArray], correct: FloatArray, halves: BoolArray
) -> FloatArray:
    """The semantic entropy of the agent whose entropy separated wrong answers from right ones best on the *other* half.

    Where several agents tie as the best, it is the mean of their entropies, so that no name and no order chooses. All
    NaN where no agent responded everywhere, or a half has only right or only wrong answers, so that nothing can be
    chosen on it. `entropies` are NaN where an agent did not respond, and `halves` the half that each question is in.
    """
    score = np.full(correct.size, np.nan)
    whole = [join_ties(values) for values in entropies.values() if not np.isnan(values).any()]
    for half in (False, True):
        other = halves != half
        if not whole or not other.any():
            return np.full(correct.size, np.nan)
        rated = np.array(
            [auroc(correct=correct[other], uncertainty=values[other]) for values in whole]
        )
        if np.isnan(rated).any():
            return np.full(correct.size, np.nan)
        best = [
            values for values, rate in zip(whole, rated, strict=True) if rate > rated.max() - TIE
        ]
        score[~other] = np.mean(best, axis=0)[~other]
    return score


def trusted_vote_share(
    supports: Mapping[str, FloatArray], agreements: Mapping[str, float], *, n_rows: int
) -> FloatArray:
    """1 - the vote share of the leading answer in which agents count by how far the others agree with them.

    The weights are those of `coe_agents.policy.agreement_weights`, over all questions and without labels; an agent that
    did not respond does not count. All NaN where an agent never responded beside another, or no two ever agree, so that
    there are no weights.

    Args:
        supports: By agent, shape `(n_rows,)`: its probability of the leading answer; NaN where it did not respond.
        agreements: By agent: its mean agreement.
        n_rows: Of questions.
    """
    names = sorted(supports)
    known = np.array([agreements.get(name, np.nan) for name in names])
    if not names or np.isnan(known).any() or not known.any():
        return np.full(n_rows, np.nan)
    weights = to_weights(known)
    rows = np.array([supports[name] for name in names])
    counted = weights @ ~np.isnan(rows)
    with np.errstate(invalid="ignore"):  # only agents of weight 0 responded
        return np.asarray(1.0 - weights @ np.nan_to_num(rows) / counted)


def report(scores: Scores, *, n_resamples: int = 1000, workers: Workers = ALONE) -> dict[str, Any]:
    """Returns the figures of every score as plain data that JSON can hold; a figure that is NaN is None.

    Differences are taken to "coe"; `n_resamples` is that of the bootstrap behind every interval, which `workers` share.

    Returns:
        "n_questions", "n_scored", "accuracy", "correctness" and "scores", by name: "auroc", "aurac", "aurc",
        "paper_aurac" and "rejection_accuracy" by retention, each as [value, low, high] with a 95 % interval; for the
        other scores "auroc_difference" and "aurac_difference", paired. "n_ties" counts the scored questions where
        several answers share the lead; each counts by the share of these that is right, so "accuracy" is an expected
        one. "details" says what was left out, and why; "n_inside" counts wrong answers with a reference in them.

        Where one agent's proposal is judged, "proposer" names it, and "n_without_proposal" in "details" counts the
        questions to which it gave no response. Where there are tool calls, "by_kind" has "n_scored", "accuracy" and
        "scores" of the "call" and "no_call" rows apart: by whether what is judged calls a tool.
    """
    estimate = partial(estimate_all, n_resamples=n_resamples, workers=workers)
    whole = _figures(scores.correct, scores.values, estimate)
    found: dict[str, Any] = {
        "n_questions": scores.n_questions,
        "n_scored": whole["n_scored"],
        "accuracy": whole["accuracy"],
        "correctness": scores.criterion,
        "scores": whole["scores"],
        "n_ties": scores.n_ties,
        "details": {
            "clusterer": scores.clusterer,
            "weighting": scores.weighting,
            "n_unanswered": scores.n_unanswered,
            "n_unjudged": scores.n_unjudged,
            "n_inside": scores.n_inside,
            "agents": {name: asdict(count) for name, count in scores.agents.items()},
            "absent": dict(scores.absent),
            "reference": "coe",
            "n_resamples": n_resamples,
        },
    }
    if scores.proposer is not None:
        found["proposer"] = scores.proposer
        found["details"]["n_without_proposal"] = scores.n_without_proposal
    kinds = np.array(scores.kinds, dtype=object)
    if rows_of := {kind: kinds == kind for kind in ("call", "no_call") if kind in scores.kinds}:
        found["by_kind"] = {
            kind: _figures(
                scores.correct[rows],
                {name: each[rows] for name, each in scores.values.items()},
                estimate,
            )
            for kind, rows in rows_of.items()
        }
    return found


def _shown(
    estimates: Mapping[str, Estimate], differences: Mapping[str, Estimate]
) -> dict[str, Any]:
    area, low, high = estimates["aurac"]
    figures: dict[str, Any] = {
        "auroc": to_plain(estimates["auroc"]),
        "aurac": to_plain(estimates["aurac"]),
        "rejection_accuracy": {
            str(share): to_plain(estimates[f"accuracy at {share}"]) for share in RETENTIONS
        },
        "aurc": to_plain((1.0 - area, 1.0 - high, 1.0 - low)),
        "paper_aurac": to_plain(estimates["paper_aurac"]),
    }
    for metric in ("auroc", "aurac"):
        if metric in differences:
            figures[f"{metric}_difference"] = to_plain(differences[metric])
    return figures


def _figures(
    correct: FloatArray, scores: Mapping[str, FloatArray], estimate: Callable[..., Estimates]
) -> dict[str, Any]:
    n_scored = int(correct.size)
    estimates, differences = estimate(correct, scores) if n_scored else ({}, {})
    figures = {name: _shown(found, differences.get(name, {})) for name, found in estimates.items()}
    return {
        "n_scored": n_scored,
        "accuracy": float(correct.mean()) if n_scored else None,
        "scores": figures,
    }


def find_standout(scores: Mapping[str, Any]) -> str | None:
    """Returns the name in a report's "scores" with the highest AUROC if its interval holds no other's; else None."""
    known = {
        name: found["auroc"] for name, found in scores.items() if found["auroc"][0] is not None
    }
    best = max(known, key=lambda name: known[name][0], default=None)
    if best is None or any(known[best][1] <= known[name][0] for name in known if name != best):
        return None
    return best
