"""Prints how the default gate does on tinyworld, inside and outside its world.

    python benchmarks/tinyworld_gate.py [--outside QUESTIONS.jsonl[.gz]] [--write FILE]

The threshold is chosen on the calibration questions, and the figures are of the validation questions. tinyworld shows
that the machinery works; nothing here says how good Collaborative Entropy is on large models.
"""

import argparse
import os
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from calibn import records
from result_page import result_page
from sklearn.metrics import roc_auc_score

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.tinyworld import MAX_COE, tinyworld_agents, tinyworld_clusterer
from coe_agents.tinyworld.facts import Fact, extract_answer, load_facts

TARGET = 0.95
ALWAYS = 100.0  # nats; more than any CoE


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--outside", type=Path, default=Path(__file__).parent / "data" / "nq_open_200.jsonl"
    )
    outside_path = parser.parse_args().outside
    graph = create_coe_graph(
        tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(ALWAYS)
    ).compile()

    def ask(questions: list[str]) -> list[dict]:
        results = graph.batch(
            [{"question": question} for question in questions], config={"max_concurrency": 4}
        )
        return [result["decision"] for result in results]

    def judge_facts(split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, Counter]:
        facts = [fact for fact in load_facts() if fact.split == split]
        decisions = ask([fact.question for fact in facts])
        coe = np.array([decision["coe"] for decision in decisions])
        willing = np.array(
            [decision["action"] == "answer" for decision in decisions]
        )  # not a refusal
        right = np.array(
            [
                is_right(fact, decision["answer"])
                for fact, decision in zip(facts, decisions, strict=True)
            ]
        )
        return coe, willing, right, Counter(decision["regime"] for decision in decisions)

    start, cpu = time.perf_counter(), time.process_time()
    coe, willing, right, _ = judge_facts("calibration")
    print(
        f"calibration: {len(coe)} questions; most coverage with accuracy >= {TARGET}: "
        f"max_coe = {best(coe, willing, right):.2f} nats"
    )
    print(f"default policy: ThresholdPolicy({MAX_COE})")

    coe, willing, right, regimes = judge_facts("validation")
    answered = willing & (coe <= MAX_COE)
    print(f"validation: {len(coe)} questions, accuracy if all were answered {right.mean():.3f}")
    print(f"  coverage                     {answered.mean():.3f}")
    print(f"  accuracy of what is answered {right[answered].mean():.3f}")
    print(f"  AUROC of CoE, wrong answers  {roc_auc_score(~right, coe):.3f}")
    print(f"  regimes                      {dict(regimes.most_common())}")

    outside = [record["question"] for record in records(outside_path)][:200]
    decisions = ask(outside)
    passed = [
        q
        for q, d in zip(outside, decisions, strict=True)
        if d["action"] == "answer" and d["coe"] <= MAX_COE
    ]
    print(
        f"outside its world: {len(outside)} real questions, abstained on {1 - len(passed) / len(outside):.3f}"
    )
    for question in passed:
        print(f"  answered: {question}")
    print(f"{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} CPU s")


def is_right(fact: Fact, answer: str | None) -> bool:
    if answer is None:
        return False
    said = normalize_answer(extract_answer(fact.relation, fact.subject, answer))
    return said in {normalize_answer(reference) for reference in fact.references}


def best(coe: np.ndarray, willing: np.ndarray, right: np.ndarray) -> float:
    """Returns the largest CoE up to which the accuracy of the willing is at least the target."""
    passing = [limit for limit in coe[willing] if right[willing & (coe <= limit)].mean() >= TARGET]
    return float(max(passing, default=0.0))


if __name__ == "__main__":
    with result_page():
        main()
