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
from coe_agents.evaluation.origin import Item
from coe_agents.evaluation.scoring.correctness import Criterion, Prediction, judge
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.comparison import PolicyOutcomes, Prices, with_cost
from coe_agents.measurement.statistics import Statistics
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import (
    CalibratedPolicy,
    FixedRounds,
    Measurement,
    Policy,
    RegimePolicy,
    SupportPolicy,
    ThresholdPolicy,
    measure,
    settle,
)
from coe_agents.policy.base import regime_thresholds
from coe_agents.policy.bounds import Spent
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


_OUR_POLICIES = (ThresholdPolicy, RegimePolicy, SupportPolicy, CalibratedPolicy)


class Saved:
    """The saved responses of one question, clustered once; what they come to is computed once for each number used."""

    def __init__(self, statistics: Statistics) -> None:
        self.question, self.rows = statistics.question, statistics.responses
        self.labels = statistics.labels.tolist()
        self.available = Counter(row["agent"] for row in self.rows)
        self._verdicts: dict[tuple[str, str, str], float | None] = {}
        self._measured: dict[Any, Measurement] = {}

    def take(self, counts: Counts) -> tuple[list[Sample], list[int]]:
        """Returns the first responses of each agent, and their clusters, numbered without gaps."""
        left = dict(counts)
        rows, labels = list[Sample](), list[int]()
        for row, label in zip(self.rows, self.labels, strict=True):
            if left.get(row["agent"], 0) > 0:
                left[row["agent"]] -= 1
                rows.append(row)
                labels.append(label)
        places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
        return rows, [places[label] for label in labels]

    def measure(self, counts: Counts, of: ReplayedPolicy) -> Measurement:
        found = self._measure(counts, of)
        aleatoric, epistemic = regime_thresholds(of.policy)
        parts = found.aleatoric, found.epistemic
        now = regime(*parts, aleatoric_threshold=aleatoric, epistemic_threshold=epistemic)
        return replace(found, regime=now)

    def _measure(self, counts: Counts, of: ReplayedPolicy) -> Measurement:
        """Returns the measurement of so many responses, made once for all policies that measure alike."""
        with_contested = _may_read_contested(of.policy)
        key = (counts, of.weighting, tuple(of.weights.items()), with_contested)
        if key not in self._measured:
            rows, labels = self.take(counts)
            weights = None
            if of.weights:
                weights = {row["agent"]: of.weights.get(row["agent"], 1.0) for row in rows}
            self._measured[key] = measure(
                rows,
                labels,
                weights=weights,
                weighting=of.weighting,
                question=self.question.text,
                with_contested=with_contested,
            )
        return self._measured[key]

    def verdict(
        self, measurement: Measurement, answer: str | None, criterion: Criterion
    ) -> float | None:
        """Returns whether an answer is right, by the references or by the labels of all responses of its cluster.

        None stands for the leading answer.
        """
        text = representative_of(measurement, answer)
        judged = measurement.answer if answer is None else answer
        key = (criterion.name, text, judged)
        if key not in self._verdicts:
            rows = list(zip(self.rows, self.labels, strict=True))
            clusters = {label for row, label in rows if response_text(row).strip() == text}
            labelled = tuple(row["correct"] for row, label in rows if label in clusters)
            prediction = Prediction(self.question.text, judged, self.question.references, labelled)
            (self._verdicts[key],) = judge([prediction], criterion)
        return self._verdicts[key]


def _may_read_contested(policy: Policy) -> bool:
    """Returns whether a policy may read what proposals disagree about, which takes longer than all else: yours may."""
    if isinstance(policy, FixedRounds):
        return _may_read_contested(policy.then)
    if isinstance(policy, CalibratedPolicy) and policy.calibration.is_of_own:
        return True
    return type(policy) not in _OUR_POLICIES


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
    outcomes = {each.question.id: _Replay(each, policy, criterion, counts).run() for each in saved}
    notes = []
    if n_failed:
        notes.append(f"left out: {quantity(n_failed, 'question')} without a saved response")
    for name, note in _NOTES.items():
        if n_questions := counts[name]:
            they_count = "it counts" if n_questions == 1 else "they count"
            questions = quantity(n_questions, "question")
            notes.append(note.format(questions=questions, they_count=they_count))
    are_tokens_known = any(outcome.tokens is not None for outcome in outcomes.values())
    if are_tokens_known and counts["without input"]:
        notes.append(
            "tokens and costs are those of the responses: the samples do not say what the prompts took"
        )
    is_cut_short = any(counts[name] for name in ("debate", "ran out", "arbiter"))
    return PolicyOutcomes(policy.name, outcomes, n_failed, notes, is_cut_short)


_NOTES = {
    "stand-in": "none of its agents is in the samples: theirs stand in, in {questions}",
    "short": "in {questions} fewer responses are saved than it would ask for",
    "silent": "in {questions} no agent of a weight above 0 has a saved response",
    "debate": "{questions} would go to a round that cannot be replayed; {they_count} as not answered",
    "ran out": "{questions} would ask again, and no response is left; {they_count} as not answered",
    "arbiter": "{questions} would go to an arbiter, which cannot be replayed; {they_count} as escalated",
}
"""What a reader must know, by what `_Replay` counts."""


class _Replay:
    def __init__(
        self, saved: Saved, policy: ReplayedPolicy, criterion: Criterion, counts: Counter[str]
    ) -> None:
        self._saved = saved
        self._of = policy
        self._criterion = criterion
        self._counts = counts
        self._rules = policy.rules
        self._asked = list(policy.n_samples)
        self._planned = {name: n for name, n in policy.n_samples.items() if name in saved.available}
        if not self._planned:
            counts["stand-in"] += 1
            self._asked = sorted(saved.available)
            most = max(policy.n_samples.values(), default=1)
            self._planned = dict.fromkeys(self._asked, most)
            if self._rules.min_agents is not None:  # those that stand in may be fewer
                fewest = min(self._rules.min_agents, len(self._asked))
                self._rules = replace(self._rules, min_agents=fewest)
        self._given = dict.fromkeys(self._planned, 0)
        self._n_asked = Counter[str]()
        self._is_short = False

    def run(self) -> Item:
        of, number = self._of, 0
        history: list[RoundData] = []
        while True:
            added = self._ask_round()
            answered = {name for name, _ in self._counts_now}
            spent = self._spent(number)
            measurement = None
            if any(of.weights.get(name, 1.0) > 0.0 for name in answered):
                left = self._rules.bounds.tokens_left(spent)
                measured = self._saved.measure(self._counts_now, of)
                run = replace(measured.run, history=tuple(history), tokens_left=left)
                measurement = replace(measured, run=run)
            decision = settle(
                of.policy,
                measurement,
                self._rules,
                asked=self._asked,
                answered=answered,
                spent=spent,
            )
            if decision.action != "another_round" or measurement is None:
                self._counts["arbiter"] += of.has_arbiter and decision.action == "escalate"
                return self._outcome(measurement, decision.action, decision.answer, number)
            if not self._is_saved(measurement, decision.strategy, added):
                return self._outcome(measurement, "abstain", None, number)
            # a replay compares no agent's answers with those of the round before
            compared: dict[str, Any] = {"shows_answers": False, "former": None, "former_labels": {}}
            history.append(
                round_data(
                    measurement, round=number, strategy=None, tokens=0, n_responses=0, **compared
                )
            )
            number += 1

    def _is_saved(
        self, measurement: Measurement, wanted: str | None, added: Mapping[str, int]
    ) -> bool:
        of = self._of
        _, strategy = of.strategies.of(measurement.regime, wanted=wanted)
        if not isinstance(strategy, Resample):
            self._counts["debate"] += 1
            return False
        asked = {
            name: strategy.n_samples(n) if n else of.n_samples.get(name, 1)
            for name, n in added.items()
        }
        self._planned = self._rules.bounds.fit(asked, self._spent())
        if not any(self._left(name) for name in self._planned):
            self._counts["ran out"] += 1
            return False
        return True

    def _ask_round(self) -> dict[str, int]:
        """Takes the round's responses; returns how many each agent gave."""
        most = {name: min(n, self._left(name)) for name, n in self._planned.items()}
        if not self._is_short and any(most[name] < n for name, n in self._planned.items()):
            self._is_short = True
            self._counts["short"] += 1
        for name, n_more in most.items():
            self._n_asked[name] += n_more > 0
            self._given[name] += n_more
        return most

    @property
    def _counts_now(self) -> Counts:
        return tuple((name, n) for name, n in sorted(self._given.items()) if n)

    def _left(self, name: str) -> int:
        return self._saved.available[name] - self._given[name]

    def _usage(self) -> list[tuple[str, float, float]] | None:
        """Returns the agent, the input and the output tokens of each; None where they are not known."""
        rows, _ = self._saved.take(self._counts_now)
        n_output = Counter[str]()
        n_input = Counter[str]()  # of one prompt
        for row in rows:
            n_tokens, prompt = row["n_tokens"], row.get("input_tokens")
            if n_tokens is None:
                return None
            n_output[row["agent"]] += n_tokens
            n_input[row["agent"]] = prompt if isinstance(prompt, int) else 0
        return [
            (name, n_input[name] * self._n_asked[name], n) for name, n in sorted(n_output.items())
        ]

    def _spent(self, number: int = 0) -> Spent:
        n_responses, n_agents = sum(self._given.values()), len(self._counts_now)
        return Spent(number, self._tokens(), n_responses=n_responses, n_agents=n_agents)

    def _tokens(self) -> float | None:
        usage = self._usage()
        if usage is None:
            return None
        return float(sum(n_input + n_output for _, n_input, n_output in usage))

    def _outcome(
        self, measurement: Measurement | None, action: str, answer: str | None, number: int
    ) -> Item:
        usage, verdict = None, None
        if measurement is None:
            self._counts["silent"] += 1
        else:
            usage = self._usage()
            verdict = self._saved.verdict(measurement, answer, self._criterion)
        tokens = None
        if usage is not None:
            tokens = {
                name: {"input_tokens": n_input, "output_tokens": n_output}
                for name, n_input, n_output in usage
            }
            self._counts["without input"] += not any(n_input for _, n_input, _ in usage)
        decision = {
            "decided_by": "group",
            "n_rounds": number + 1,
            "conformity": None,
            "tokens": tokens,
            "agents": {
                name: {"sampling": [{"n_requests": n}]} for name, n in self._n_asked.items()
            },
            "failed_agents": {},
        }
        item = Item(
            id=self._saved.question.id,
            question=self._saved.question.text,
            action=action,
            correct=None if answer is None else verdict,
            verdicts=(verdict,),
            is_escalated=action == "escalate",
            decision=decision,
        )
        return with_cost(item, self._of.prices)
