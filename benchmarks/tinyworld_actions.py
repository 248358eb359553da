"""Prints how tinyworld's models call tools, alone and as a group.

    python benchmarks/tinyworld_actions.py [--write FILE]

320 requests on which no model was trained, each with all three tools shown; ten proposals of each model. A model
proposes, and the two others vouch for it: its support is their mean probability of its first proposal. Thresholds are
chosen on one half of the requests and used on the other. The models' mistakes are invented: this shows that the
machinery works, and nothing about large models.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from result_page import result_page
from sklearn.metrics import roc_auc_score

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.actions import ActionMatch, canonical_action
from coe_agents.clustering import cluster_responses
from coe_agents.policy import Measurement, measure
from coe_agents.tinyworld import tinyworld_agents, tinyworld_tools
from coe_agents.tinyworld.facts import MODELS
from coe_agents.types import Response
from tools.tinyworld.requests import Request, tinyworld_requests

TARGET = 0.95
ALWAYS = 100.0  # nats; more than any CoE
TOOLS = tinyworld_tools()


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    requests, start, cpu = tinyworld_requests(), time.perf_counter(), time.process_time()
    rows = propose(requests)
    found = [measure_proposals(each) for each in rows]
    fits = np.array([bool(request.calls) for request in requests])
    validates = np.array([request.split == "validation" for request in requests])
    print(
        f"{len(requests)} requests, no tool fits {np.sum(~fits)} of them; all shares, temperature 0.7"
    )
    print("model         right  right if a tool fits  if none fits  invalid")
    for name in MODELS:
        right = np.array(
            [
                mean_right(request, own(each, name))
                for request, each in zip(requests, rows, strict=True)
            ]
        )
        invalid = np.mean([row["error"] is not None for each in rows for row in own(each, name)])
        print(
            f"{name:12}  {right.mean():.3f}  {right[fits].mean():20.3f}  {right[~fits].mean():12.3f}  {invalid:7.3f}"
        )
    right = np.array(
        [lead_share(request, each) for request, each in zip(requests, found, strict=True)]
    )
    print(
        f"{'plurality':12}  {right.mean():.3f}  {right[fits].mean():20.3f}  {right[~fits].mean():12.3f}        -"
    )

    coe, tied = (
        np.array([each.coe for each in found]),
        np.array([bool(each.tied) for each in found]),
    )
    auroc = roc_auc_score(right[~tied] < 1, coe[~tied])
    print(f"\nties {tied.sum()}; AUROC of CoE, wrong pluralities without a tie {auroc:.3f}")
    print(
        "\nproposer      right  AUROC of support  of CoE  least support  coverage  right of what passes (validation)"
    )
    for name in MODELS:
        pairs = [(request, each) for request, each in zip(requests, found, strict=True)]
        correct = np.array(
            [each.proposals.by_agent.get(name) == action(request.action) for request, each in pairs]
        )
        support = np.array([each.proposals.support.get(name, 0.0) for _, each in pairs])
        least = least_support(correct[~validates], support[~validates])
        passing = validates & (support >= least)
        print(
            f"{name:12}  {correct.mean():.3f}  {roc_auc_score(correct, support):16.3f}"
            f"  {roc_auc_score(~correct, coe):6.3f}  {least:13.2f}  {passing.sum() / validates.sum():8.3f}"
            f"  {correct[passing].mean():.3f}"
        )
    print(f"\n{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} CPU s")


def propose(requests: Sequence[Request]) -> list[list[Response]]:
    graph = create_coe_graph(
        tinyworld_agents(tools=TOOLS), clusterer=ActionMatch(TOOLS), policy=ThresholdPolicy(ALWAYS)
    ).compile()
    asked = [{"question": request.question} for request in requests]
    results = graph.batch(asked, config={"max_concurrency": 4})
    return [result["responses"] for result in results]


def measure_proposals(rows: Sequence[Response]) -> Measurement:
    good = [row for row in rows if row["error"] is None]
    clusterer = ActionMatch(TOOLS)
    labels = cluster_responses(
        [row["answer"] or "" for row in good], question="", clusterer=clusterer
    )
    return measure(good, labels, clusterer=clusterer)


def own(rows: Sequence[Response], name: str) -> list[Response]:
    return [row for row in rows if row["agent"] == name]


def mean_right(request: Request, rows: Sequence[Response]) -> float:
    """Returns the share of proposals that are right; an invalid one is wrong."""
    said = [
        row["error"] is None and action(row["calls"] or []) == action(request.action)
        for row in rows
    ]
    return float(np.mean(said))


def lead_share(request: Request, found: Measurement) -> float:
    """Returns the share of the leading clusters that are right: 0 or 1 without a tie."""
    leading = found.tied or (found.representatives[int(np.argmax(found.support))],)
    return float(np.mean([text == action(request.action) for text in leading]))


def action(calls: Sequence[dict[str, Any]]) -> str:
    return canonical_action(calls, tools=TOOLS)


def least_support(correct: np.ndarray, support: np.ndarray) -> float:
    """Returns the smallest support from which on the accuracy is at least the target."""
    passing = [limit for limit in support if correct[support >= limit].mean() >= TARGET]
    return float(min(passing, default=1.0))


if __name__ == "__main__":
    with result_page():
        main()
