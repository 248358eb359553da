"""Prints what debating does on tinyworld, round by round.

    python benchmarks/tinyworld_debate.py [--write FILE]

Its validation questions, three rounds. "unsure": a question goes on while CoE exceeds the default threshold. "all":
every question is debated twice, whatever was measured, which shows what debating itself does. tinyworld's models are
trained to weigh answers that they are shown; nothing here says how good debates are among large models.
"""

import argparse
import os
import time

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from result_page import result_page
from tinyworld_gate import is_right

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering.refusals import answer_kind
from coe_agents.policy import Decision, Measurement, Policy
from coe_agents.tinyworld import MAX_COE, tinyworld_agents, tinyworld_clusterer, tinyworld_debate
from coe_agents.tinyworld.facts import Fact, load_facts
from coe_agents.types import RoundData

N_ROUNDS = 3
DEBATES = dict.fromkeys(("consensus", "ambiguous", "conflict", "unknown"), tinyworld_debate())
MAX_CONFORMITY = 0.3


class Always:
    """Goes on to the last round."""

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        return Decision("another_round", reason="told to go on")


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    facts = [fact for fact in load_facts() if fact.split == "validation"]
    start, cpu = time.perf_counter(), time.process_time()
    print(
        f"{len(facts)} validation questions; answered: CoE of at most {MAX_COE} nats, and no refusal"
    )
    head = "round  asked  coverage  accuracy of answered  accuracy of all  mean CoE  mean epistemic  conformity  tokens"
    going_on = ThresholdPolicy(MAX_COE, otherwise="another_round")
    for name, policy in (("unsure", going_on), ("all", Always())):
        decisions = debate(facts, policy)
        print(f"\n{name}\n{head}")
        for number in range(N_ROUNDS):
            print(row(number, facts, [decision["trajectory"] for decision in decisions]))
        if policy is going_on:
            print(guarded(facts, decisions))
    print(f"\n{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} CPU s")


def debate(facts: list[Fact], policy: Policy) -> list[dict]:
    graph = create_coe_graph(
        tinyworld_agents(),
        clusterer=tinyworld_clusterer(),
        policy=policy,
        max_rounds=N_ROUNDS,
        strategies=DEBATES,
    ).compile()
    results = graph.batch(
        [{"question": fact.question} for fact in facts], config={"max_concurrency": 4}
    )
    return [result["decision"] for result in results]


def row(number: int, facts: list[Fact], trajectories: list[list[RoundData]]) -> str:
    """Returns the figures as if `number` had been the last round; who stopped before keeps what was said then."""
    last = [trajectory[min(number, len(trajectory) - 1)] for trajectory in trajectories]
    asked = [data for data in last if data["round"] == number]
    answered = np.array([is_answered(data) for data in last])
    right = np.array(
        [is_right(fact, data["answer"]) for fact, data in zip(facts, last, strict=True)]
    )
    adopted = [adopted for data in asked for adopted in data["adopted"].values()]
    conformity = f"{np.mean(adopted):.3f}" if adopted else "-"
    return (
        f"{number + 1:5}  {len(asked):5}  {answered.mean():8.3f}  {right[answered].mean():20.3f}  {right.mean():15.3f}"
        f"  {np.mean([data['coe'] for data in last]):8.3f}  {np.mean([data['epistemic'] for data in last]):14.3f}"
        f"  {conformity:>10}  {sum(data['tokens'] for data in asked):6}"
    )


def guarded(facts: list[Fact], decisions: list[dict]) -> str:
    """Returns what a bound on conformity would have held back of what the debates brought about."""
    late = [
        (is_right(fact, decision["answer"]), (decision["conformity"] or 0) > MAX_CONFORMITY)
        for fact, decision in zip(facts, decisions, strict=True)
        if decision["action"] == "answer" and decision["n_rounds"] > 1
    ]
    held = [right for right, holds in late if holds]
    kept = [right for right, holds in late if not holds]
    return (
        f"answered after a debate: {len(late)}; by a conformity above {MAX_CONFORMITY}: {len(held)}, right "
        f"{sum(held)}; others: {len(kept)}, right {sum(kept)}"
    )


def is_answered(data: RoundData) -> bool:
    return data["coe"] <= MAX_COE and answer_kind(data["answer"]) == "answer"


if __name__ == "__main__":
    with result_page():
        main()
