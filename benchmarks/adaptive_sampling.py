"""Prints what adaptive sampling saves and what it decides otherwise, replayed on stored responses.

    python benchmarks/adaptive_sampling.py [FOLDER] [--explore] [--keep FILE] [--plot FILE] [--write FILE]

tinyworld is sampled once, ten responses an agent, and kept in FILE if one is named, which is read if it is there. Then
plans are replayed: of each agent the first `start` responses, and `step` more while the decision is not settled. Tokens
count as they are paid: a top-up sends the prompt again. A decision is changed if its action is another one, or its
answer of another cluster, than with all ten. The validation questions show how the default does; `--explore` also
prints how it was chosen, on the calibration questions, and other groups and thresholds. FOLDER holds saved responses,
`*.samples.jsonl` or the generations of `calibn.py`, clustered by `NormalizedMatch`; what their prompts cost is not
known. `--plot` draws what every plan saves and changes.

"forecast" is the rule of `AdaptiveSampling`; "bootstrap" takes the percentile interval of CoE in its place.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from calibn import EQUALS, samples
from replaying import CHOSEN, CONFIDENCES, HEAD, RULES, Outcome, Plan, Replay, at, frontier, line, plans
from result_page import result_page

from coe_agents import ThresholdPolicy
from coe_agents.clustering import (
    BidirectionalEntailment,
    CachedEntailment,
    Clusterer,
    NormalizedMatch,
    canonical_answer,
)
from coe_agents.clustering.entailment_wrappers import CountingEntailment
from coe_agents.evaluation import SampledQuestion, Samples
from coe_agents.tinyworld import MAX_COE, tinyworld_agents, tinyworld_clusterer
from coe_agents.tinyworld.facts import load_facts
from coe_agents.types import AgentRequest

TOLERATED = 0.01
SAVED = {
    "subjectivity": ("Llama-3.1-8B-Instruct-GPTQ-INT4", "Mistral-7B-Instruct-v0.3-GPTQ-4bit", "openai-unnamed"),
    "realmistake_sc": ("Mixtral-8x7B-Instruct-v0.1", "gpt-3.5-turbo-0125", "gpt-4-0125-preview"),
    "nq_calibn": EQUALS,
    "triviaqa_calibn": EQUALS,
}
"""Generations with several responses of each model; in the last two each is to another prompt."""


def tinyworld(keep: Path, *, explore: bool) -> list[Replay]:
    """Prints what the default saves, and what all plans do if `explore`; returns the validation questions."""
    if not keep.exists():
        keep.write_text("".join(json.dumps(row) + "\n" for row in sampled()))
    counting = CountingEntailment(CachedEntailment(tinyworld_clusterer().model))  # plans share most of their pairs
    clusterer = BidirectionalEntailment(counting)
    rows = read(keep)
    by_split = {split: [each for each in rows if each[0]["split"] == split] for split in ("calibration", "validation")}
    if explore:
        show_choice(by_split["calibration"], clusterer)
    validation = [Replay(each, clusterer) for each in by_split["validation"]]
    print(f"tinyworld, validation: {len(validation)} questions, max_coe {MAX_COE}\n{HEAD}")
    for plan in at(CHOSEN.confidence):
        print(line(plan, Outcome(validation, plan, MAX_COE)))
    print("pairs passed to the entailment model, " + pairs(by_split["validation"], counting))
    if explore:
        table(by_split["validation"], clusterer)
    return validation


def show_choice(rows: list[list[dict]], clusterer: Clusterer) -> None:
    """Prints the plans among which the default was chosen."""
    calibration = [Replay(each, clusterer) for each in rows]
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
    table(rows, clusterer)
    print()


def table(rows: list[list[dict]], clusterer: Clusterer) -> None:
    names = sorted({row["agent"] for row in rows[0]})
    groups = {"each alone": [[name] for name in names], "all three": [names]}
    shown = [at(confidence)[place] for place in range(len(RULES)) for confidence in CONFIDENCES]
    head = "".join(f"{f'{rule} {adaptive.confidence:g}':>17}" for rule, adaptive in shown)
    print(f"group       max_coe{head}")
    for group, members in groups.items():
        own = [[row for row in each if row["agent"] in some] for some in members for each in rows]
        replays = [Replay(each, clusterer) for each in own]
        for max_coe in (0.3, MAX_COE, 1.0):
            found = [Outcome(replays, plan, max_coe) for plan in shown]
            cells = (f"{f'{outcome.responses:.2f} / {outcome.changed:.3f}':>17}" for outcome in found)
            print(f"{group:10}  {max_coe:7g}{''.join(cells)}")


def pairs(rows: list[list[dict]], counting: CountingEntailment) -> str:
    """Returns how many pairs clustering asks with the default and with all at once: a top-up clusters all again."""
    plan, policy = at(CHOSEN.confidence)[0], ThresholdPolicy(MAX_COE)

    def count_pairs(cluster: Callable[[Replay], object]) -> int:
        before = counting.n_pairs
        for each in rows:
            cluster(Replay(each, BidirectionalEntailment(counting)))
        return counting.n_pairs - before

    adaptive = count_pairs(lambda replay: [replay.seen(k) for k in replay.askings(plan, policy)])
    return f"adaptive {adaptive}, all at once {count_pairs(lambda replay: replay.seen(replay.most))}"


def saved(folder: Path, *, explore: bool) -> Iterator[tuple[str, list[Replay]]]:
    """Prints what the default comes to on each set of saved responses, and yields the set."""
    for name, rows in sets(folder):
        replays = [Replay(each, NormalizedMatch()) for each in rows]
        sizes = ", ".join(f"{agent} {n}" for agent, n in replays[0].n.items())
        print(f"\n{name}: {len(replays)} questions; responses: {sizes}\nmax_coe  {HEAD}")
        for max_coe in (0.3, MAX_COE, 1.0) if explore else (MAX_COE,):
            for plan in at(CHOSEN.confidence):
                print(f"{max_coe:7g}  {line(plan, Outcome(replays, plan, max_coe))}")
        yield name, replays


def sets(folder: Path) -> Iterator[tuple[str, list[list[dict]]]]:
    for path in sorted(folder.glob("*.samples.jsonl")):
        yield path.name.removesuffix(".samples.jsonl"), read(path)
    for name, models in SAVED.items():
        if (folder / f"gen_{name}.dev.jsonl.gz").exists():
            with samples(folder, name, models) as questions:
                yield name, answered(questions)


def plot(found: Mapping[str, Sequence[tuple[Plan, Outcome]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(found), figsize=(2.9 * len(found), 3.4), layout="constrained", sharey=True, squeeze=False
    )
    for panel, (name, outcomes) in zip(panels[0], found.items(), strict=True):
        for rule, color in zip(RULES, ("#2a6f97", "#c9772b"), strict=True):
            own = [pair for pair in outcomes if pair[0][0] == rule]
            panel.scatter(*coordinates(own), s=8, color=color, alpha=0.35, linewidths=0)
            panel.plot(*coordinates(frontier(own)), ".-", color=color, label=rule)
        chosen = [pair for pair in outcomes if pair[0] == (RULES[0], CHOSEN)]
        panel.plot(*coordinates(chosen), "*", color="black", markersize=11, label="the default", linestyle="none")
        panel.axvline(100 * TOLERATED, color="#999999", linewidth=0.8, linestyle="--")
        what = "responses" if np.isnan(outcomes[0][1].tokens) else "tokens"
        panel.set(title=name, xlabel="decisions changed, %", ylabel=f"{what} saved, %", xlim=(-0.3, None))
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    panels[0][0].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=130)


def coordinates(found: Sequence[tuple[Plan, Outcome]]) -> tuple[list[float], list[float]]:
    return [100 * each.changed for _, each in found], [100 * each.saved for _, each in found]


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
    with Samples([path]) as questions:
        return answered(questions)


def answered(questions: Iterable[SampledQuestion]) -> list[list[dict]]:
    return [list(question.responses) for question in questions if question.responses]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="saved responses")
    parser.add_argument("--keep", type=Path, help="where tinyworld's responses are, or will be")
    parser.add_argument("--explore", action="store_true", help="print other plans, groups and thresholds, too")
    parser.add_argument("--plot", type=Path, help="where to draw what every plan saves and changes, a PNG")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"tinyworld": tinyworld(args.keep or Path(folder) / "tinyworld.samples.jsonl", explore=args.explore)}
    if args.folder:
        found |= saved(args.folder, explore=args.explore)
    if args.plot:
        every = {name: [(plan, Outcome(replays, plan, MAX_COE)) for plan in plans()] for name, replays in found.items()}
        plot(every, args.plot)


if __name__ == "__main__":
    with result_page():
        main()
