"""Prints what adaptive sampling saves and what it decides otherwise, replayed on stored responses; README shows it.

    python benchmarks/adaptive_sampling.py [--keep FILE] [--saved FOLDER]

tinyworld is sampled once, ten responses an agent, and kept in FILE if one is named, which is read if it is there. Then
plans are replayed: of each agent the first `start` responses, and `step` more while the decision is not settled. Tokens
count as they are paid: a top-up sends the prompt again. A decision is changed if its action is another one, or its
answer of another cluster, than with all ten. The setting is chosen on the calibration questions; the validation
questions tell how it does. FOLDER holds saved responses, `*.samples.jsonl`, clustered by `NormalizedMatch`.

"forecast" is the rule of `AdaptiveSampling`; "bootstrap" takes the percentile interval of CoE in its place.
"""

import argparse
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from coe_agents import AdaptiveSampling, ThresholdPolicy
from coe_agents.clustering import (
    BidirectionalEntailment,
    Clusterer,
    CountingEntailment,
    NormalizedMatch,
    canonical_answer,
    cluster_responses,
)
from coe_agents.policy import forecast, measure
from coe_agents.policy.measurement import response_text
from coe_agents.policy.weighing import log_probabilities, weighed_agents
from coe_agents.tinyworld import MAX_COE, load_facts, tinyworld_agents, tinyworld_clusterer
from coe_agents.types import AgentRequest
from coe_agents.uncertainty import CoEForecast, coe_interval

RULES = ("forecast", "bootstrap")
CONFIDENCES, STARTS, STEPS = (0.8, 0.9, 0.95, 0.99), (2, 3, 4, 5), (1, 2, 3, 10)
CHOSEN, TOLERATED = AdaptiveSampling(), 0.01
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
        found = coe_interval(
            labels, agents, log_probs=log_probs, weights=weights, confidence=confidence, n_resamples=200
        )
        return CoEForecast(found.total, found.aleatoric, found.epistemic, 1.0, confidence)

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
        extra = sum(replay.n_asked(given) - len(replay.n) for replay, given in runs)
        # in units of an average response
        self.break_even = (all_responses - drawn) / extra if extra else np.inf
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
    for plan, outcome in sorted(found, key=lambda pair: (pair[1].n_changed, -pair[1].tokens)):
        if outcome.tokens > best:
            best = outcome.tokens
            kept.append((plan, outcome))
    return kept


def tinyworld(keep: Path) -> None:
    if not keep.exists():
        keep.write_text("".join(json.dumps(row) + "\n" for row in sampled()))
    counting = CountingEntailment(Remembering(tinyworld_clusterer().model))
    clusterer = BidirectionalEntailment(counting)
    rows = read(keep)
    by_split = {split: [each for each in rows if each[0]["split"] == split] for split in ("calibration", "validation")}
    calibration = [Replay(each, clusterer) for each in by_split["calibration"]]
    print(f"tinyworld, calibration: {len(calibration)} questions, max_coe {MAX_COE}; the frontier of each rule")
    print(HEAD)
    found = [(plan, Outcome(calibration, plan, MAX_COE)) for plan in plans()]
    for rule in RULES:
        for pair in frontier([pair for pair in found if pair[0][0] == rule]):
            print(line(*pair))
    fitting = [(plan, outcome) for plan, outcome in found if outcome.changed <= TOLERATED and plan[0] == RULES[0]]
    fitting = [pair for pair in fitting if pair[0][1].confidence == CHOSEN.confidence]
    print(f"most saved with at most {TOLERATED:.0%} changed at confidence {CHOSEN.confidence}; the default: {CHOSEN}")
    print(line(*max(fitting, key=lambda pair: pair[1].tokens)))

    print("\nother groups and thresholds, calibration: responses saved / decisions changed")
    names = list(calibration[0].n)
    groups = {"each alone": [[name] for name in names], "all three": [names]}
    table(groups, by_split["calibration"], clusterer)

    validation = [Replay(each, clusterer) for each in by_split["validation"]]
    print(f"\nvalidation: {len(validation)} questions, max_coe {MAX_COE}\n{HEAD}")
    for plan in at(CHOSEN.confidence):
        print(line(plan, Outcome(validation, plan, MAX_COE)))
    print("pairs put to the entailment model, " + pairs(by_split["validation"], counting))
    table(groups, by_split["validation"], clusterer)


def table(groups: dict[str, list[list[str]]], rows: list[list[dict]], clusterer: Clusterer) -> None:
    head = "".join(f"{rule + ' ' + format(confidence, 'g'):>17}" for rule in RULES for confidence in CONFIDENCES)
    print(f"group       max_coe{head}")
    for group, members in groups.items():
        own = [[row for row in each if row["agent"] in some] for some in members for each in rows]
        replays = [Replay(each, clusterer) for each in own]
        for max_coe in (0.3, MAX_COE, 1.0):
            cells = []
            for rule, confidence in product(RULES, CONFIDENCES):
                plan = rule, AdaptiveSampling(start=CHOSEN.start, step=CHOSEN.step, confidence=confidence)
                outcome = Outcome(replays, plan, max_coe)
                cells.append(f"{outcome.responses:10.2f} / {outcome.changed:.3f}"[-17:].rjust(17))
            print(f"{group:10}  {max_coe:7g}{''.join(cells)}")


def pairs(rows: list[list[dict]], counting: CountingEntailment) -> str:
    """Returns how many pairs clustering asks with the default and with all at once: a top-up clusters all again."""
    plan, policy = at(CHOSEN.confidence)[0], ThresholdPolicy(MAX_COE)

    def asked(cluster: Callable[[Replay], object]) -> int:
        before = counting.n_pairs
        for each in rows:
            cluster(Replay(each, BidirectionalEntailment(counting)))
        return counting.n_pairs - before

    adaptive = asked(lambda replay: [replay.seen(k) for k in replay.askings(plan, policy)])
    return f"adaptive {adaptive}, all at once {asked(lambda replay: replay.seen(replay.most))}"


def saved(folder: Path) -> None:
    for path in sorted(folder.glob("*.samples.jsonl")):
        rows = read(path)
        replays = [Replay(each, NormalizedMatch()) for each in rows]
        sizes = ", ".join(f"{agent} {n}" for agent, n in replays[0].n.items())
        print(f"\n{path.name.removesuffix('.samples.jsonl')}: {len(replays)} questions; responses: {sizes}")
        print(f"max_coe  {HEAD}")
        for max_coe in (0.3, MAX_COE, 1.0):
            for plan in at(CHOSEN.confidence):
                print(f"{max_coe:7g}  {line(plan, Outcome(replays, plan, max_coe))}")


class Remembering:
    """Asks an entailment model each pair once: plans share most of theirs."""

    def __init__(self, model) -> None:
        self.model, self.known = model, {}

    def predict(self, pairs):
        if unknown := [pair for pair in dict.fromkeys(pairs) if pair not in self.known]:
            self.known.update(zip(unknown, self.model.predict(unknown), strict=True))
        return np.array([self.known[pair] for pair in pairs])


def sampled() -> Iterable[dict]:
    agents = tinyworld_agents()
    for fact in load_facts():
        if fact.split not in ("calibration", "validation"):
            continue
        asked = AgentRequest(question=fact.question, messages=[{"role": "user", "content": fact.question}], round=0)
        for agent in agents:
            reply = agent.sample(asked)
            about = {"id": fact.question, "question": fact.question, "split": fact.split}
            prompt = {"input_tokens": reply["usage"]["input_tokens"], "references": fact.references}
            for response in reply["responses"]:
                yield {**about, **prompt, **response, "answer": canonical_answer(response["text"]), "correct": None}


def read(path: Path) -> list[list[dict]]:
    """Returns the rows of each question, without failures."""
    found = defaultdict(list)
    for each in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(each)
        if row["error"] is None:
            found[row["id"]].append(row)
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="where tinyworld's responses are, or will be")
    parser.add_argument("--saved", type=Path, help="a folder of *.samples.jsonl")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tinyworld(args.keep or Path(folder) / "tinyworld.samples.jsonl")
    if args.saved:
        saved(args.saved)


if __name__ == "__main__":
    main()
