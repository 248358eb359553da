"""Owns the replay of policies on saved responses: what each would have done, without a model.

The first responses of an agent stand for what it would have been asked for. More samples in a round, and a round that
asks the same question again, take the next ones while they last. A debate, or any round that shows or rephrases
something, has no saved responses: the replay ends there without an answer, and counts how often.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coe_agents.clustering import Clusterer
from coe_agents.clustering.refusals import response_text
from coe_agents.config.schema import Config
from coe_agents.evaluation.origin import Item
from coe_agents.evaluation.scoring.correctness import (
    Criterion,
    Prediction,
    holds_reference,
    judge,
    on_inside,
)
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.comparison import PolicyOutcomes, Prices, with_cost
from coe_agents.measurement.statistics import Statistics
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import Measurement, Policy, measure, settle
from coe_agents.policy.base import regime_thresholds
from coe_agents.policy.bounds import Spent, price_of
from coe_agents.policy.settle import Rules, representative_of
from coe_agents.rounds import Resample
from coe_agents.rounds.strategies import Strategies
from coe_agents.rounds.trajectory import round_data
from coe_agents.text import quantity
from coe_agents.types import RoundData, Sample, SampledQuestion
from coe_agents.uncertainty import regime

Counts = tuple[tuple[str, int], ...]
"""How many responses of each agent are used, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPolicy:
    """A policy with what its graph would do around it.

    Attributes:
        name: What it is called.
        policy: Decides.
        n_samples: How many responses each agent gives in the first round, by name. Where a question has none of these
            agents, all its agents stand in, and each gives the most that any of these would.
        weights: Of the agents, by name; 1 for those not named.
        rules: The bounds of its rounds, and how many agents must answer.
        strategies: How another round is asked.
        weighting: How responses count.
        has_arbiter: Whether an arbiter would decide what is escalated.
        prices: Of the agents' tokens.
        config: The file that it is from; None without one.
    """

    name: str
    policy: Policy
    n_samples: Mapping[str, int]
    weights: Mapping[str, float] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    strategies: Strategies = field(default_factory=Strategies)
    weighting: Weighting = "auto"
    has_arbiter: bool = False
    prices: Prices = field(default_factory=dict)
    config: Config | None = None


class Saved:
    """The saved responses of one question, clustered once; what they come to is computed once for each number used."""

    def __init__(self, statistics: Statistics) -> None:
        self.question = statistics.question
        self.rows = statistics.responses
        self.labels: list[int] = statistics.labels.tolist()
        self.available = Counter(row["agent"] for row in self.rows)
        self._verdicts: dict[tuple[str, str, str], float | None] = {}
        self._measured: dict[Any, Measurement] = {}

    def take(self, counts: Counts) -> tuple[list[Sample], list[int]]:
        """Returns the first responses of each agent, and their clusters, numbered without gaps."""
        left = dict(counts)
        numbers: dict[int, int] = {}
        rows = []
        labels = []
        for row, label in zip(self.rows, self.labels, strict=True):
            if left.get(row["agent"], 0) > 0:
                left[row["agent"]] -= 1
                rows.append(row)
                labels.append(numbers.setdefault(label, len(numbers)))
        return rows, labels

    def measure(self, counts: Counts, of: ReplayedPolicy) -> Measurement:
        measurement = self._measure(counts, of)
        aleatoric_threshold, epistemic_threshold = regime_thresholds(of.policy)
        by_its_thresholds = regime(
            measurement.aleatoric,
            measurement.epistemic,
            aleatoric_threshold=aleatoric_threshold,
            epistemic_threshold=epistemic_threshold,
        )
        return replace(measurement, regime=by_its_thresholds)

    def _measure(self, counts: Counts, of: ReplayedPolicy) -> Measurement:
        """Returns the measurement of so many responses, made once for all policies that measure alike."""
        key = (counts, of.weighting, tuple(of.weights.items()))
        if key not in self._measured:
            rows, labels = self.take(counts)
            weights = None
            if of.weights:
                weights = {row["agent"]: of.weights.get(row["agent"], 1.0) for row in rows}
            self._measured[key] = measure(
                rows, labels, weights=weights, weighting=of.weighting, question=self.question.text
            )
        return self._measured[key]

    def verdict(
        self, measurement: Measurement, answer: str | None, criterion: Criterion
    ) -> float | None:
        """Returns whether an answer is right, by the references or by the labels of all responses of its cluster.

        None stands for the leading answer.
        """
        response = representative_of(measurement, answer)
        judged = measurement.answer if answer is None else answer
        key = (criterion.name, response, judged)
        if key not in self._verdicts:
            labels = self._labels_of_cluster(response)
            prediction = Prediction(self.question.text, judged, self.question.references, labels)
            (self._verdicts[key],) = judge([prediction], criterion)
        return self._verdicts[key]

    def is_inside(self, answer: str, response: str) -> bool:
        """Returns whether an answer that is wrong has a reference in it, and no label says that it is wrong."""
        prediction = Prediction(
            question=self.question.text,
            answer=answer,
            references=self.question.references,
            verdicts=self._labels_of_cluster(response),
            is_action=any(row.get("calls") is not None for row in self.rows),
        )
        return holds_reference(prediction)

    def _labels_of_cluster(self, response: str) -> tuple[bool | None, ...]:
        """Returns the data's labels of all responses that are clustered with a response."""
        clusters = set()
        for row, cluster in zip(self.rows, self.labels, strict=True):
            if response_text(row).strip() == response:
                clusters.add(cluster)

        labels = []
        for row, cluster in zip(self.rows, self.labels, strict=True):
            if cluster in clusters:
                labels.append(row["correct"])
        return tuple(labels)


def load_saved(questions: Iterable[SampledQuestion], clusterer: Clusterer) -> list[Saved]:
    """Returns the saved responses of the questions that have any."""
    return [Saved(each) for each in iter_statistics(questions, clusterer=clusterer)]


def replay(
    saved: Sequence[Saved], policy: ReplayedPolicy, criterion: Criterion, *, n_failed: int = 0
) -> PolicyOutcomes:
    """Returns what a policy would have done with each question, and in notes what a replay cannot say.

    `n_failed` questions were left out, because none of their responses is saved.
    """
    counts = Counter[str]()
    outcomes = {}
    for each in saved:
        outcomes[each.question.id] = _Replay(each, policy, criterion, counts).run()

    notes = []
    if n_failed:
        notes.append(f"left out: {quantity(n_failed, 'question')} without a saved response")
    notes += _on_unknown_agents(saved, policy)
    for name, note in _NOTES.items():
        n = counts[name]
        if n:
            they_count = "it counts" if n == 1 else "they count"
            notes.append(note.format(questions=quantity(n, "question"), they_count=they_count))

    inside = on_inside(outcomes.values(), criterion.name)
    if inside is not None:
        notes.append(inside)

    knows_tokens = any(outcome.tokens is not None for outcome in outcomes.values())
    if knows_tokens and counts["without input"]:
        notes.append(
            "tokens and costs are those of the responses: the samples do not say what the prompts took"
        )
    is_cut_short = any(counts[name] for name in ("debate", "ran out", "arbiter"))
    return PolicyOutcomes(policy.name, outcomes, n_failed, notes, is_cut_short)


def _on_unknown_agents(saved: Sequence[Saved], policy: ReplayedPolicy) -> list[str]:
    """Returns a note on the agents of a policy that answered no question, which may be misnamed."""
    known = set[str]()
    for each in saved:
        known.update(each.available)
    unknown = [name for name in policy.n_samples if name not in known]
    if not unknown:
        return []
    are_not = "is not an agent" if len(unknown) == 1 else "are not agents"
    named = ", ".join(f'"{name}"' for name in unknown)
    return [f"{named} {are_not} of the samples, which have {', '.join(sorted(known))}"]


_NOTES = {
    "stand-in": "none of its agents is in the samples: theirs stand in, in {questions}",
    "short": "in {questions} fewer responses are saved than it would ask for",
    "silent": "in {questions} no agent of a weight above 0 has a saved response",
    "debate": "{questions} would go to a round that cannot be replayed; {they_count} as not answered",
    "ran out": "{questions} would ask again, and no response is left; {they_count} as not answered",
    "arbiter": "{questions} would go to an arbiter, which cannot be replayed; {they_count} as escalated",
}
"""What is said about the questions that are counted under a name."""


class _Replay:
    """One policy on one question; `counts` is shared by all questions."""

    def __init__(
        self, saved: Saved, policy: ReplayedPolicy, criterion: Criterion, counts: Counter[str]
    ) -> None:
        self._saved = saved
        self._of = policy
        self._criterion = criterion
        self._counts = counts

        planned = {name: n for name, n in policy.n_samples.items() if name in saved.available}
        self._asked = list(policy.n_samples)
        if not planned:
            counts["stand-in"] += 1
            most = max(policy.n_samples.values(), default=1)
            planned = dict.fromkeys(sorted(saved.available), most)
            self._asked = list(planned)
        self._planned = planned

        self._rules = policy.rules
        if policy.rules.min_agents is not None:
            # agents that stand in may be fewer than those that the policy asks
            fewest = min(policy.rules.min_agents, len(self._asked))
            self._rules = replace(policy.rules, min_agents=fewest)

        self._n_taken = dict.fromkeys(planned, 0)
        self._n_requests = Counter[str]()
        self._is_short = False

    def run(self) -> Item:
        number = 0
        history: list[RoundData] = []
        while True:
            added = self._ask_round()
            spent = self._spent(number)
            measurement = self._measure(history, spent)
            decision = settle(
                self._of.policy,
                measurement,
                self._rules,
                asked=self._asked,
                answered={name for name, _ in self._counts_now},
                spent=spent,
            )
            if decision.action != "another_round" or measurement is None:
                is_escalated = decision.action == "escalate"
                self._counts["arbiter"] += self._of.has_arbiter and is_escalated
                return self._outcome(measurement, decision.action, decision.answer, number)
            if not self._is_saved(measurement, decision.strategy, added):
                return self._outcome(measurement, "abstain", None, number)

            # a replay compares no agent's answers with those of the round before
            data = round_data(
                measurement,
                round=number,
                strategy=None,
                tokens=0,
                n_responses=0,
                shows_answers=False,
                former=None,
                former_labels={},
            )
            history.append(data)
            number += 1

    def _measure(self, history: Sequence[RoundData], spent: Spent) -> Measurement | None:
        """Returns the measurement of what is taken so far; None where no agent of a weight above 0 answered."""
        counts = self._counts_now
        weights = [self._of.weights.get(name, 1.0) for name, _ in counts]
        if max(weights, default=0.0) <= 0.0:
            return None
        measurement = self._saved.measure(counts, self._of)
        tokens_left = self._rules.bounds.tokens_left(spent)
        run = replace(measurement.run, history=tuple(history), tokens_left=tokens_left)
        return replace(measurement, run=run)

    def _is_saved(
        self, measurement: Measurement, wanted: str | None, added: Mapping[str, int]
    ) -> bool:
        """Plans another round; returns whether responses to it are saved."""
        _, strategy = self._of.strategies.of(measurement.regime, wanted=wanted)
        if not isinstance(strategy, Resample):
            self._counts["debate"] += 1
            return False

        wished = {}
        for name, n in added.items():
            wished[name] = strategy.n_samples(n) if n else self._of.n_samples.get(name, 1)
        self._planned = self._rules.bounds.fit(wished, self._spent())
        if not any(map(self._left, self._planned)):
            self._counts["ran out"] += 1
            return False
        return True

    def _ask_round(self) -> dict[str, int]:
        """Takes the round's responses; returns how many each agent gave."""
        added = {}
        for name, n in self._planned.items():
            added[name] = min(n, self._left(name))
            self._n_requests[name] += added[name] > 0
            self._n_taken[name] += added[name]

        if added != self._planned and not self._is_short:
            self._is_short = True
            self._counts["short"] += 1
        return added

    @property
    def _counts_now(self) -> Counts:
        return tuple((name, n) for name, n in sorted(self._n_taken.items()) if n)

    def _left(self, name: str) -> int:
        return self._saved.available[name] - self._n_taken[name]

    def _usage(self) -> list[tuple[str, float, float]] | None:
        """Returns the agents with the tokens of their prompts and of their responses; None where not known."""
        rows, _ = self._saved.take(self._counts_now)
        n_output = Counter[str]()
        n_input = Counter[str]()
        for row in rows:
            name = row["agent"]
            if row["n_tokens"] is None:
                return None
            n_output[name] += row["n_tokens"]
            prompt = row.get("input_tokens")
            n_input[name] = prompt if isinstance(prompt, int) else 0

        usage: list[tuple[str, float, float]] = []
        for name in sorted(n_output):
            usage.append((name, n_input[name] * self._n_requests[name], n_output[name]))
        return usage

    def _spent(self, number: int = 0) -> Spent:
        usage = self._usage()
        tokens = None
        if usage is not None:
            tokens = float(sum(n_input + n_output for _, n_input, n_output in usage))
        n_responses = sum(self._n_taken.values())
        cost = None if usage is None else price_of(usage, self._of.prices)
        return Spent(
            number, tokens, n_responses=n_responses, n_agents=len(self._counts_now), cost=cost
        )

    def _outcome(
        self, measurement: Measurement | None, action: str, answer: str | None, number: int
    ) -> Item:
        tokens: dict[str, dict[str, float]] | None = None
        verdict = None
        is_inside = False
        if measurement is None:
            self._counts["silent"] += 1
        else:
            tokens = self._tokens_by_agent()
            verdict = self._saved.verdict(measurement, answer, self._criterion)
            if answer is not None and verdict == 0.0:
                response = representative_of(measurement, answer)
                is_inside = self._saved.is_inside(answer, response)

        agents = {}
        for name, n in self._n_requests.items():
            agents[name] = {"sampling": [{"n_requests": n}]}
        item = Item(
            id=self._saved.question.id,
            question=self._saved.question.text,
            action=action,
            correct=None if answer is None else verdict,
            verdicts=(verdict,),
            is_escalated=action == "escalate",
            is_inside=is_inside,
            decision={
                "decided_by": "group",
                "n_rounds": number + 1,
                "conformity": None,
                "tokens": tokens,
                "agents": agents,
                "failed_agents": {},
            },
        )
        return with_cost(item, self._of.prices)

    def _tokens_by_agent(self) -> dict[str, dict[str, float]] | None:
        usage = self._usage()
        if usage is None:
            return None
        if not any(n_input for _, n_input, _ in usage):
            self._counts["without input"] += 1

        tokens = {}
        for name, n_input, n_output in usage:
            tokens[name] = {"input_tokens": n_input, "output_tokens": n_output}
        return tokens
