"""Prints four policies side by side: on tinyworld live, and on saved responses by replay.

    python benchmarks/policies.py [FOLDER] [--write FILE]

Each is tuned for a risk on calibration questions and judged on others, with intervals of the differences to the first
on the same questions. threshold: the highest max_coe that keeps the risk. debate: regimes, and where agents disagree a
second round shows them the answers. adaptive: the same threshold, few responses first. calibrated: `coe-agents
calibrate --score learned`, for the risk with 90 % confidence.

tinyworld is asked live, 200 questions a policy. FOLDER holds `gen_nq_calibn.dev.jsonl.gz` and
`gen_triviaqa_calibn.dev.jsonl.gz`: one half of each tunes, the other judges. A debate cannot be replayed there, and
counts as not answered. A token of tinyworld's models costs 1; of the others it costs as much as the model has billions
of active parameters, and what prompts took is not known.
"""

import asyncio
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from calibn import EQUALS, samples
from result_page import result_page

from coe_agents import RegimePolicy, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import CachedEntailment, Clusterer, NormalizedMatch
from coe_agents.evaluation import CRITERIA, SampledQuestion, calibrate, judge_samples
from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.datasets.sources import on_disk
from coe_agents.evaluation.origin import DECIDER, DECISIONS, read_run
from coe_agents.evaluation.sample_collection import Units
from coe_agents.evaluation.samples.store import Store
from coe_agents.evaluation.scoring.correctness import Criterion
from coe_agents.experiments.comparison import Comparison, PolicyOutcomes, compare, in_words, outcomes_of
from coe_agents.experiments.dataset_run import RunGroup, Timings, decide_all
from coe_agents.experiments.replay import ReplayedPolicy, Saved, load_saved, replay
from coe_agents.policy import Policy
from coe_agents.policy.bounds import Bounds
from coe_agents.policy.settle import Rules
from coe_agents.rounds import AdaptiveSampling
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_debate
from coe_agents.tinyworld.questions import tinyworld_criterion, tinyworld_questions

RISKS = {"tinyworld": 0.1, "nq_calibn": 0.3, "triviaqa_calibn": 0.2}
ALWAYS = ThresholdPolicy(float("inf"))
SHOWN = ("coverage", "risk", "tokens", "cost", "rounds")
MODELS = ("tiny-llama", "tiny-qwen2", "tiny-mistral")
AT_ONCE = 4
BILLIONS = dict(zip(EQUALS, (70.6, 72.7, 12.9), strict=True))
"""Active parameters: a token's price."""
N_THRESHOLDS = 60


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print("value [95 % interval]; below it the difference to threshold on the same questions, paired")
    show("tinyworld, live", RISKS["tinyworld"], compare(tinyworld()))
    for name in ("nq_calibn", "triviaqa_calibn") if folder else ():
        with samples(folder, name, EQUALS) as opened:
            calibration, test = halve(load_saved(opened, NormalizedMatch()))
        found = replayed(calibration, test, RISKS[name], NormalizedMatch())
        show(f"{name}, replayed: {', '.join(EQUALS)}", RISKS[name], compare(found))


def halve(saved: Sequence[Saved]) -> tuple[list[Saved], list[Saved]]:
    """Returns a calibration half and a test half; which one a question is in depends on its id alone."""
    keys = {each.question.id: hashlib.sha256(repr(("half", each.question.id)).encode()).digest() for each in saved}
    ordered = sorted(saved, key=lambda each: keys[each.question.id])
    middle = len(ordered) // 2
    return ordered[:middle], ordered[middle:]


def tune(
    saved: Sequence[Saved], agents: dict[str, int], *, risk: float, criterion: Criterion, clusterer: Clusterer
) -> dict[str, Policy]:
    """Returns the policies, tuned on calibration questions."""
    base = ReplayedPolicy(name="base", policy=ALWAYS, n_samples=agents)
    shares = np.linspace(0, 1, N_THRESHOLDS)
    max_coe = highest(
        saved, base, {value: ThresholdPolicy(value) for value in coe(saved, base, shares)}, risk, criterion
    )
    asks = {"consensus": "answer", "conflict": "another_round", "unknown": "another_round", "ambiguous": "abstain"}
    regimes = {factor: RegimePolicy(0.5 * factor, 0.3 * factor, actions=asks) for factor in (4 * shares).tolist()}
    factor = highest(saved, base, regimes, risk, criterion)
    calibrated = calibrate(
        judge_samples([each.question for each in saved], clusterer=clusterer, criterion=criterion, every_cluster=True),
        risk=risk,
        confidence=0.9,
        score="learned",
        clusterer=type(clusterer).__name__,
        correctness=criterion.name,
    )
    return {
        "threshold": ThresholdPolicy(max_coe),
        "debate": regimes[factor],
        "adaptive": ThresholdPolicy(max_coe),
        "calibrated": calibrated,
    }


def coe(saved: Sequence[Saved], base: ReplayedPolicy, shares: np.ndarray) -> list[float]:
    """Returns thresholds that are met by these shares of the questions, by all their responses."""
    most = max(base.n_samples.values())
    values = []
    for each in saved:
        own = {name: min(n, each.available[name]) for name, n in base.n_samples.items() if each.available[name]}
        counts = own or {name: min(most, n) for name, n in each.available.items()}
        values.append(each.measure(tuple(sorted(counts.items())), base).comparable_coe)
    return [value + 1e-9 for value in sorted({round(float(value), 6) for value in np.quantile(values, shares)})]


def highest(
    saved: Sequence[Saved], base: ReplayedPolicy, policies: dict[float, Policy], risk: float, criterion: Criterion
) -> float:
    """Returns the threshold at which most is answered within the risk."""
    points = []
    for threshold, policy in policies.items():
        tuned = replace(base, policy=policy)
        answered = [each for each in replay(saved, tuned, criterion).outcomes.values() if each.is_answered]
        wrong = np.mean([1 - each.correct for each in answered]) if answered else 0.0
        points.append((len(answered) if wrong <= risk else -1, threshold))
    return max(points)[1]


def tinyworld() -> list[PolicyOutcomes]:
    clusterer, criterion = tinyworld_clusterer(), tinyworld_criterion()
    clusterer = clusterer.with_model(CachedEntailment(clusterer.model))  # policies share most of their pairs
    with tempfile.TemporaryDirectory() as scratch:
        questions = on_disk(tinyworld_questions("calibration"), seed=0)
        graph = create_coe_graph(tinyworld_agents(), clusterer=clusterer, policy=ALWAYS).compile()
        results = graph.batch([{"question": question.question} for question in questions], {"max_concurrency": AT_ONCE})
        asked = [(question, result["responses"]) for question, result in zip(questions, results, strict=True)]
        saved = load_saved((to_sampled(question, rows) for question, rows in asked), clusterer)
        prices = {name: {"input": 1.0, "output": 1.0} for name in MODELS}
        judging = {"criterion": criterion, "clusterer": clusterer}
        tuned = tune(saved, dict.fromkeys(MODELS, 10), risk=RISKS["tinyworld"], **judging)
        found = []
        for name, policy in tuned.items():
            options: dict[str, Any] = {"policy": policy}
            if name == "debate":
                debate = tinyworld_debate()
                options |= {"max_rounds": 2, "strategies": {"conflict": debate, "unknown": debate}}
            elif name == "adaptive":
                options["adaptive"] = AdaptiveSampling()
            found.append(outcomes_of(replace(live(Path(scratch) / name, options, clusterer, criterion), prices=prices)))
        return found


def to_sampled(question: Question, rows: list[dict]) -> SampledQuestion:
    asked = {"id": question.id, "question": question.question, "references": list(question.references), "correct": None}
    return SampledQuestion(
        question.id, question.question, question.references, tuple({**row, **asked} for row in rows), ()
    )


def live(folder: Path, options: dict[str, Any], clusterer: Clusterer, criterion: Criterion) -> Any:
    questions = on_disk(tinyworld_questions(), seed=0)
    with warnings.catch_warnings(action="ignore"):
        graph = create_coe_graph(tinyworld_agents(), clusterer=clusterer, **options).compile()
    group = RunGroup(graph, criterion, at_once=AT_ONCE)
    with Store(folder, {}, Units(questions, {DECIDER: 1}, seed=0), name=DECISIONS) as store, Timings(folder) as timings:
        asyncio.run(decide_all(questions, group, store, timings))
    return read_run(folder)


def replayed(
    calibration: Sequence[Saved], test: Sequence[Saved], risk: float, clusterer: Clusterer
) -> list[PolicyOutcomes]:
    criterion = CRITERIA["label"]
    agents = dict.fromkeys(EQUALS, 4)
    prices = {name: {"input": 0.0, "output": BILLIONS[name]} for name in EQUALS}
    tuned = tune(calibration, agents, risk=risk, criterion=criterion, clusterer=clusterer)
    found = []
    for name, policy in tuned.items():
        rules = Rules(bounds=Bounds(max_rounds=2 if name == "debate" else 1))
        options: dict[str, Any] = {"prices": prices, "rules": rules}
        if name == "adaptive":
            options["adaptive"] = AdaptiveSampling(start=2, step=1)
        found.append(replay(test, ReplayedPolicy(name=name, policy=policy, n_samples=agents, **options), criterion))
    return found


def show(title: str, risk: float, comparison: Comparison) -> None:
    print(f"\n{title}; tuned for a risk of {risk:g}, judged on {comparison.policies[0].n_questions} questions")
    print(f"{'policy':11}" + "".join(f"{name:>26}" for name in SHOWN))
    for each in comparison.policies:
        print(f"{each.name:11}" + "".join(f"{cell(each.figures[name]):>26}" for name in SHOWN))
        if each.differences:
            print(f"{'':11}" + "".join(f"{cell(each.differences[name], '+'):>26}" for name in SHOWN))
    for line in in_words(comparison):
        print(line)
    for each in comparison.policies:
        for note in each.notes:
            if "cannot be replayed" in note:
                print(f"{each.name}: {note}")


def cell(estimate: tuple[float, float, float], sign: str = "") -> str:
    if np.isnan(estimate[0]):
        return "-"
    digits = 3 if max(map(abs, estimate)) < 10 else 1
    value, low, high = (f"{number:{sign}.{digits}f}" for number in estimate)
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    with result_page():
        main()
