"""Replays sampling plans on stored responses: what a plan costs, and what it decides otherwise; for other scripts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
from percentile_interval import percentile_interval

from coe_agents import ThresholdPolicy
from coe_agents.clustering import Clusterer, cluster_responses
from coe_agents.policy import measure
from coe_agents.policy.measurement import forecast, response_text
from coe_agents.policy.weighting import log_probabilities, weighed_agents
from coe_agents.rounds import AdaptiveSampling
from coe_agents.uncertainty.forecast import CoEForecast

RULES = ("forecast", "bootstrap")
CONFIDENCES, STARTS, STEPS = (0.8, 0.9, 0.95, 0.99), (2, 3, 4, 5), (1, 2, 3, 10)
CHOSEN = AdaptiveSampling()
Plan = tuple[str, AdaptiveSampling]


class Replay:
    """The stored responses of one question."""

    def __init__(self, rows: Sequence[dict], clusterer: Clusterer) -> None:
        self.rows, self.clusterer = sorted(rows, key=lambda row: (row["agent"], row["index"])), clusterer
        agents = [row["agent"] for row in rows]
        self.n = {agent: agents.count(agent) for agent in sorted(set(agents))}
        self.n_output = [row["n_tokens"] for row in self.rows]
        self.n_input = {row["agent"]: row.get("input_tokens") for row in rows}
        self.seen, self.expected = cache(self._seen), cache(self._expected)

    def _seen(self, k: int):
        """Returns each agent's first `k` responses, their labels, and what they come to."""
        rows = [row for row in self.rows if row["index"] < k]
        texts = [response_text(row) for row in rows]
        labels = cluster_responses(texts, question=rows[0]["question"], clusterer=self.clusterer)
        return rows, labels, measure(rows, labels, n_resamples=0)

    def _expected(self, k: int, rule: str, confidence: float) -> CoEForecast:
        rows, labels, _ = self.seen(k)
        if rule == "forecast":
            left = {agent: max(0, n - k) for agent, n in self.n.items()}
            return forecast(rows, labels, left, confidence=confidence)
        _, agents, weights = weighed_agents(rows, None)
        log_probs, _ = log_probabilities(rows, "auto")
        options = {"confidence": confidence, "n_resamples": 200}
        found = percentile_interval(labels, agents, log_probs=log_probs, weights=weights, **options)
        return CoEForecast(*found, 1.0, confidence)

    def decided(self, k: int, policy: ThresholdPolicy) -> int | None:
        """Returns the cluster, among those of all responses, of the answer after `k` of each agent; None if none."""
        measured = self.seen(k)[2]
        if policy.decide(measured, round=0, max_rounds=1).action != "answer" or measured.answer_kind != "answer":
            return None
        rows, labels, _ = self.seen(self.most)
        return {response_text(row).strip(): label for row, label in zip(rows, labels, strict=True)}[measured.answer]

    @property
    def most(self) -> int:
        return max(self.n.values())

    def askings(self, plan: Plan, policy: ThresholdPolicy) -> list[int]:
        """Returns how many responses each agent has given after each asking, where it has so many."""
        rule, adaptive = plan
        given = [min(adaptive.start, self.most)]
        while given[-1] < self.most:
            expected = self.expected(given[-1], rule, adaptive.confidence)
            if policy.is_settled(replace(self.seen(given[-1])[2], forecast=expected)):
                break
            given.append(given[-1] + adaptive.n_samples(given[-1], left=self.most - given[-1]))
        return given

    def n_asked(self, given: Sequence[int]) -> int:
        """Returns how many requests these askings are, of all agents."""
        return sum(before < n for n in self.n.values() for before in [0, *given[:-1]])


class Outcome:
    """What a plan costs and changes on some questions, relative to asking for all responses at once."""

    def __init__(self, replays: Sequence[Replay], plan: Plan, max_coe: float) -> None:
        policy = ThresholdPolicy(max_coe)
        runs = [(replay, replay.askings(plan, policy)) for replay in replays]
        changed = [replay.decided(given[-1], policy) != replay.decided(replay.most, policy) for replay, given in runs]
        self.n_changed, self.changed = sum(changed), float(np.mean(changed))
        all_responses = sum(len(replay.rows) for replay in replays)
        drawn = sum(len(replay.seen(given[-1])[0]) for replay, given in runs)
        self.responses = 1 - drawn / all_responses
        n_asked, n_agents = sum(replay.n_asked(given) for replay, given in runs), sum(len(each.n) for each in replays)
        self.requests = n_asked / n_agents
        # in units of an average response
        self.break_even = (all_responses - drawn) / (n_asked - n_agents) if n_asked > n_agents else np.inf
        self.output = self.input = self.tokens = np.nan
        if all(n is not None for replay in replays for n in replay.n_output):
            full = sum(sum(replay.n_output) for replay in replays)
            spent = sum(row["n_tokens"] for replay, given in runs for row in replay.seen(given[-1])[0])
            self.output = 1 - spent / full
            if all(n is not None for replay in replays for n in replay.n_input.values()):
                prompts = sum(sum(replay.n_input.values()) for replay in replays)
                sent = sum(
                    prompt
                    for replay, given in runs
                    for agent, prompt in replay.n_input.items()
                    for before in [0, *given[:-1]]
                    if before < replay.n[agent]
                )
                self.input, self.tokens = 1 - sent / prompts, 1 - (sent + spent) / (prompts + full)

    @property
    def saved(self) -> float:
        """The share of tokens saved; of responses where tokens are not known."""
        return self.responses if np.isnan(self.tokens) else self.tokens


HEAD = "rule       confidence  start  step   tokens saved  output  input  responses  changed  break-even prompt"


def line(plan: Plan, outcome: Outcome) -> str:
    rule, adaptive = plan
    shares = " ".join(
        f"{value:{width}.3f}" for value, width in ((outcome.tokens, 14), (outcome.output, 7), (outcome.input, 6))
    )
    step = "rest" if adaptive.step == STEPS[-1] else adaptive.step
    return (
        f"{rule:9}  {adaptive.confidence:10g}  {adaptive.start:5}  {step:>4} {shares.replace('nan', '  -')}"
        f"  {outcome.responses:9.3f}  {outcome.changed:7.3f}  {outcome.break_even:10.1f} responses"
    )


def plans() -> Iterable[Plan]:
    for rule, confidence, start, step in product(RULES, CONFIDENCES, STARTS, STEPS):
        yield rule, AdaptiveSampling(start=start, step=step, confidence=confidence)


def at(confidence: float) -> list[Plan]:
    return [(rule, AdaptiveSampling(start=CHOSEN.start, step=CHOSEN.step, confidence=confidence)) for rule in RULES]


def frontier(found: Sequence[tuple[Plan, Outcome]]) -> list[tuple[Plan, Outcome]]:
    """Returns the plans than which none changes as little and saves more."""
    best, kept = -np.inf, []
    for plan, outcome in sorted(found, key=lambda pair: (pair[1].n_changed, -pair[1].saved)):
        if outcome.saved > best:
            best = outcome.saved
            kept.append((plan, outcome))
    return kept
