"""Owns scoring: of one question, a row that can be kept; of all, score vectors, verdicts, and the report of them."""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from coe_agents._removed import refuses_removed
from coe_agents.activity import COUNT, announce
from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.clustering.refusals import answer_kind
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.bootstrap import Estimate, Estimates, estimate_all, to_plain
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS
from coe_agents.evaluation.metrics.tallies import BoolArray, FloatArray, join_ties
from coe_agents.evaluation.parallel import map_in_processes
from coe_agents.evaluation.samples.reader import Samples, SamplesPart, without_rulings
from coe_agents.evaluation.scoring.correctness import (
    CRITERIA,
    Criterion,
    is_inside,
    with_equality_of,
    with_verdicts,
)
from coe_agents.evaluation.scoring.statistics import BATCH, iter_statistics
from coe_agents.measurement.estimators import BEST_SINGLE_MODEL, Estimator, find_estimators
from coe_agents.measurement.measurement import count_lacking
from coe_agents.measurement.statistics import ActionKind, Statistics
from coe_agents.measurement.weighted_vote import TRUSTED_VOTE_SHARE, mean_agreements, to_weights
from coe_agents.measurement.weighting import Weighting
from coe_agents.types import Fields, JsonObject, SampledQuestion
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
        max_tokens: The most tokens of a response of each agent, by name, as far as they are known.
    """

    clusterer: Clusterer
    criterion: Criterion = CRITERIA["reference_or_label"]
    entailment: EntailmentModel | None = None
    weighting: Weighting = "auto"
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    proposer: str | None = None
    max_tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_estimators(self) -> dict[str, Estimator]:
        return find_estimators(self.estimators, of_proposal=self.proposer is not None)

    def judge(
        self, questions: Iterable[SampledQuestion]
    ) -> Iterator[tuple[Statistics, float | None]]:
        """Yields the statistics of each question that has a response, with the verdict on what is judged."""
        statistics = iter_statistics(
            questions,
            clusterer=self.clusterer,
            weighting=self.weighting,
            entailment=self.entailment,
            proposer=self.proposer,
        )
        return with_verdicts(statistics, with_equality_of(self.clusterer, self.criterion))


class AgentScore(NamedTuple):
    """One agent's responses to one question.

    Attributes:
        agreement: The mean probability that another agent gives the same answer, in [0, 1]; NaN if no other responded.
        support: Its probability of the leading answer, in [0, 1]; the mean over answers that tie.
        lacking: How many of its responses lack an answer or a part of it: see `AgentMeasurement`.
    """

    entropy: float
    n_responses: int
    by_probability: bool
    agreement: float
    support: float
    lacking: Mapping[str, int]


_NO_SCORE = AgentScore(np.nan, 0, False, np.nan, np.nan, {})


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
    unanswered = []

    def answered() -> Iterator[SampledQuestion]:
        for question in without_rulings(questions):
            if not question.responses:
                unanswered.append(ScoredQuestion(question.id, _failures(question)))
            yield question

    for statistics, verdict in setup.judge(answered()):
        on_question(statistics, verdict)
        scores = {}
        if verdict is not None:
            for name, estimator in estimators.items():
                scores[name] = estimator(statistics)

        yield ScoredQuestion(
            id=statistics.question.id,
            failures=_failures(statistics.question),
            agents=_agent_scores(statistics),
            correct=verdict,
            tied=statistics.is_tied and setup.proposer is None,
            scores=scores,
            kind=statistics.action_kind,
            lacks_proposal=setup.proposer is not None and statistics.proposal is None,
            is_inside=is_inside(statistics, verdict),
        )
        yield from unanswered
        unanswered.clear()
    yield from unanswered


def _agent_scores(statistics: Statistics) -> dict[str, AgentScore]:
    leading = list(statistics.leading)
    supports = statistics.distributions[:, leading].mean(axis=1).tolist()
    lacking = count_lacking(statistics.responses)
    scores = map(
        AgentScore,
        statistics.entropies,
        statistics.n_responses,
        statistics.counts_by_probability,
        _agreements(statistics),
        supports,
        (lacking.get(name, {}) for name in statistics.names),
    )
    return dict(zip(statistics.names, scores, strict=True))


def _agreements(statistics: Statistics) -> list[float]:
    if len(statistics.names) == 1:
        return [np.nan]

    is_answer = []
    for cluster in range(len(statistics.support)):
        kind = answer_kind(statistics.answer_of(cluster)) if statistics.is_text else "answer"
        is_answer.append(kind == "answer")
    return mean_agreements(statistics.distributions, is_answer)


def _failures(question: SampledQuestion) -> Mapping[str, int]:
    return Counter(failure["agent"] for failure in question.failures)


_PART = 2 * BATCH
"""Questions in a part: whole batches, so that all array operations are those of one process, to the last bit."""


@dataclass(slots=True)
class AgentCount:
    """What one agent contributed: questions with a response, responses, and failed requests.

    On `by_probability` of its questions its responses count by probability; by frequency on the others. What `lacking`
    and `sampling` say is as in `coe_agents.decision.DecisionData`.
    """

    n_questions: int = 0
    n_responses: int = 0
    n_failures: int = 0
    by_probability: int = 0
    lacking: dict[str, int] = field(default_factory=dict)
    sampling: list[dict[str, int]] = field(default_factory=list)

    def add(self, agent: AgentScore) -> None:
        """Counts one question that the agent responded to."""
        self.n_questions += 1
        self.n_responses += agent.n_responses
        self.by_probability += agent.by_probability
        for lack, n in agent.lacking.items():
            self.lacking[lack] = self.lacking.get(lack, 0) + n


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


def score_samples(samples: Samples, setup: ScoringSetup, *, n_processes: int = 1) -> Scores:
    """Scores every question with every estimator, in so many processes; only the score vectors are kept.

    These are some 300 bytes a question. With a `proposer`, what is judged is that agent's first response, not the
    group's answer, and two scores more are computed: "support" and "own_entropy". For several processes, `setup` is
    without a model, which every process would load.

    Raises:
        SamplesError: A line of the samples is malformed.
        ValueError: The weighting is "probability" and an agent lacks log-probabilities; or an estimator has a name that
            is taken, or returns something else than a finite number or None.
    """
    score_part = partial(_score_part, setup)

    def rows() -> Iterator[ScoredQuestion]:
        for part in map_in_processes(score_part, samples.parts(_PART), n_processes):
            yield from part
            if n_processes > 1:  # the count of another process is not ours
                COUNT.get()(len(part))

    return to_scores(rows(), setup)


def _score_part(setup: ScoringSetup, part: SamplesPart) -> list[ScoredQuestion]:
    return list(score_each(part, setup))


def to_scores(rows: Iterable[ScoredQuestion], setup: ScoringSetup) -> Scores:
    """Returns the score vectors of rows in the order of ids, scored with this setup.

    Rows whose `correct` is known have a value, or None, of every estimator.
    """
    n_questions = n_unanswered = n_without_proposal = n_ties = n_inside = 0
    agents = defaultdict[str, AgentCount](AgentCount)
    columns = _Columns(setup.all_estimators)
    kinds = []

    for row in rows:
        n_questions += 1
        n_unanswered += not row.agents
        n_without_proposal += row.lacks_proposal
        for name, n_failures in row.failures.items():
            agents[name].n_failures += n_failures
        for name, agent in row.agents.items():
            agents[name].add(agent)
        columns.add_agreements(row.agents)

        if row.correct is not None:
            n_ties += row.tied
            n_inside += row.is_inside
            kinds.append(row.kind)
            columns.add_row(row, row.correct)

    # the run may have agents that these samples do not hold
    for name in agents.keys() & setup.max_tokens.keys():
        agents[name].sampling.append({"max_tokens": setup.max_tokens[name]})

    values = {}
    absent = {}
    for name, column in columns.all_scores().items():
        n_missing = int(np.isnan(column).sum())
        if n_missing:
            absent[name] = n_missing
        else:
            values[name] = join_ties(column)

    return Scores(
        correct=np.asarray(columns.correct),
        n_ties=n_ties,
        values=values,
        absent=absent,
        criterion=setup.criterion.name,
        clusterer=type(setup.clusterer).__name__,
        weighting=setup.weighting,
        n_questions=n_questions,
        n_unanswered=n_unanswered,
        n_unjudged=n_questions - n_unanswered - n_without_proposal - len(kinds),
        agents=dict(sorted(agents.items())),
        proposer=setup.proposer,
        n_without_proposal=n_without_proposal,
        kinds=tuple(kinds),
        n_inside=n_inside,
    )


class _Columns:
    """The numbers of all rows, by column; NaN marks what could not be computed.

    They are arrays, since these grow by eight bytes a number.
    """

    def __init__(self, estimators: Iterable[str]) -> None:
        self.correct = array("d")
        self._halves = array("b")
        self._scores = {name: array("d") for name in estimators}
        self._entropies: dict[str, array[float]] = {}
        self._supports: dict[str, array[float]] = {}
        self._agreement_sums: dict[str, float] = defaultdict(float)
        self._agreement_counts: dict[str, int] = defaultdict(int)

    def add_agreements(self, agents: Mapping[str, AgentScore]) -> None:
        for name, agent in agents.items():
            if not math.isnan(agent.agreement):
                self._agreement_sums[name] += agent.agreement
                self._agreement_counts[name] += 1

    def add_row(self, row: ScoredQuestion, correct: float) -> None:
        for name, column in self._scores.items():
            value = row.scores[name]
            column.append(np.nan if value is None else value)

        # an agent that is new has no value in the rows before
        for name in row.agents.keys() - self._entropies.keys():
            self._entropies[name] = array("d", [np.nan]) * len(self.correct)
            self._supports[name] = array("d", [np.nan]) * len(self.correct)
        for name, column in self._entropies.items():
            agent = row.agents.get(name, _NO_SCORE)
            column.append(agent.entropy)
            self._supports[name].append(agent.support)

        self.correct.append(correct)
        self._halves.append(in_second_half(row.id))

    def all_scores(self) -> dict[str, FloatArray]:
        """Returns each score by row, with those that need all rows; they share the memory of the columns."""
        correct = np.asarray(self.correct)
        means = {}
        for name, total in self._agreement_sums.items():
            means[name] = total / self._agreement_counts[name]

        scores = _to_arrays(self._scores)
        entropies = _to_arrays(self._entropies)
        halves = np.asarray(self._halves).astype(np.bool_)
        scores[BEST_SINGLE_MODEL] = best_single_model(entropies, correct, halves)
        supports = _to_arrays(self._supports)
        scores[TRUSTED_VOTE_SHARE] = trusted_vote_share(supports, means, n_rows=len(correct))
        return scores


def _to_arrays(columns: Mapping[str, "array[float]"]) -> dict[str, FloatArray]:
    return {name: np.asarray(column) for name, column in columns.items()}


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
    not_chosen = np.full(correct.size, np.nan)
    whole = []
    for values in entropies.values():
        if not np.isnan(values).any():
            whole.append(join_ties(values))
    score = not_chosen.copy()

    for other in (halves, ~halves):
        if not whole or not other.any():
            return not_chosen
        areas = np.empty(len(whole))
        for place, values in enumerate(whole):
            areas[place] = auroc(correct=correct[other], uncertainty=values[other])
        if np.isnan(areas).any():
            return not_chosen
        best = np.array(whole)[areas > areas.max() - TIE]
        score[~other] = best.mean(axis=0)[~other]

    return score


def trusted_vote_share(
    supports: Mapping[str, FloatArray], agreements: Mapping[str, float], *, n_rows: int
) -> FloatArray:
    """1 - the vote share of the leading answer in which agents count by how far the others agree with them.

    The weights are those of `agreement_weights`, over all questions and without labels; an agent that
    did not respond does not count. All NaN where an agent never responded beside another, or no two ever agree, so that
    there are no weights.

    Args:
        supports: By agent, shape `(n_rows,)`: its probability of the leading answer; NaN where it did not respond.
        agreements: By agent: its mean agreement.
        n_rows: Of questions.
    """
    names = sorted(supports)
    means = np.array([agreements.get(name, np.nan) for name in names])
    if not names or np.isnan(means).any() or not means.any():
        return np.full(n_rows, np.nan)

    weights = to_weights(means)
    rows = np.array([supports[name] for name in names])
    weight_of_responding = weights @ ~np.isnan(rows)
    with np.errstate(invalid="ignore"):  # only agents of weight 0 responded
        return np.asarray(1.0 - weights @ np.nan_to_num(rows) / weight_of_responding)


@refuses_removed
def report(scores: Scores, *, n_resamples: int = 1000, n_processes: int = 1) -> JsonObject:
    """Returns the figures of every score as plain data that JSON can hold; a figure that is NaN is None.

    Differences are taken to "coe"; `n_resamples` is that of the bootstrap behind every interval, which `n_processes`
    share.

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
    estimate = partial(estimate_all, n_resamples=n_resamples, n_processes=n_processes)
    with announce("computing the intervals"):
        of_all = _figures(scores.correct, scores.values, estimate)
    agents = {name: asdict(count) for name, count in scores.agents.items()}
    figures: JsonObject = {
        "n_questions": scores.n_questions,
        "n_scored": of_all["n_scored"],
        "accuracy": of_all["accuracy"],
        "correctness": scores.criterion,
        "scores": of_all["scores"],
        "n_ties": scores.n_ties,
        "details": {
            "clusterer": scores.clusterer,
            "weighting": scores.weighting,
            "n_unanswered": scores.n_unanswered,
            "n_unjudged": scores.n_unjudged,
            "n_inside": scores.n_inside,
            "agents": agents,
            "absent": dict(scores.absent),
            "reference": "coe",
            "n_resamples": n_resamples,
        },
    }
    if scores.proposer is not None:
        figures["proposer"] = scores.proposer
        figures["details"]["n_without_proposal"] = scores.n_without_proposal

    kinds = np.array(scores.kinds, dtype=object)
    by_kind = {}
    for kind in ("call", "no_call"):
        if kind in scores.kinds:
            rows = kinds == kind
            values = {name: column[rows] for name, column in scores.values.items()}
            by_kind[kind] = _figures(scores.correct[rows], values, estimate)
    if by_kind:
        figures["by_kind"] = by_kind
    return figures


def _figures_of_score(
    estimates: Mapping[str, Estimate], differences: Mapping[str, Estimate]
) -> JsonObject:
    area, low, high = estimates["aurac"]
    accuracies = {}
    for share in RETENTIONS:
        accuracies[str(share)] = to_plain(estimates[f"accuracy at {share}"])

    figures: JsonObject = {
        "auroc": to_plain(estimates["auroc"]),
        "aurac": to_plain(estimates["aurac"]),
        "rejection_accuracy": accuracies,
        "aurc": to_plain((1.0 - area, 1.0 - high, 1.0 - low)),
        "paper_aurac": to_plain(estimates["paper_aurac"]),
    }
    for metric in ("auroc", "aurac"):
        if metric in differences:
            figures[f"{metric}_difference"] = to_plain(differences[metric])
    return figures


def _figures(
    correct: FloatArray, scores: Mapping[str, FloatArray], estimate: Callable[..., Estimates]
) -> JsonObject:
    if not correct.size:
        return {"n_scored": 0, "accuracy": None, "scores": {}}

    estimates, differences = estimate(correct, scores)
    figures = {}
    for name, of_score in estimates.items():
        figures[name] = _figures_of_score(of_score, differences.get(name, {}))
    return {"n_scored": int(correct.size), "accuracy": float(correct.mean()), "scores": figures}


def find_standout(scores: Fields) -> str | None:
    """Returns the name in a report's "scores" with the highest AUROC if its interval holds no other's; else None."""
    ranked = []
    for name, figures in scores.items():
        area, low, _ = figures["auroc"]
        if area is not None:
            ranked.append((area, low, name))
    if not ranked:
        return None

    ranked.sort(key=lambda entry: entry[0], reverse=True)
    _, low, best = ranked[0]
    is_alone = len(ranked) == 1 or ranked[1][0] < low
    return best if is_alone else None
