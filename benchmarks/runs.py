"""Prints whether other models' runs of a task tell that a run of an agent is wrong.

    python benchmarks/runs.py FOLDER [--write FILE]

FOLDER holds `act_workbench`: office tasks, and every call of eight whole runs of each by five models (WorkBench, Styles
et al. 2024). A run is unsure by 1 - the share of the four other models whose run makes the same set of calls with side
effects, whatever their case. "own 2nd": whether the same model's other run, with more or fewer tools, makes them.
"""

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from result_page import result_page

from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.bootstrap import resamples, with_interval
from coe_agents.evaluation.metrics.tallies import Ranking, area_under_roc

N_RESAMPLES = 1000
Effects = frozenset[str]


def main() -> None:
    with gzip.open(
        Path(sys.argv[1]) / "act_workbench.dev.jsonl.gz", "rt", encoding="utf-8"
    ) as lines:
        tasks = [json.loads(line) for line in lines]
    templates = {
        name: place for place, name in enumerate(dict.fromkeys(task["template"] for task in tasks))
    }
    print(
        f"{len(tasks)} tasks of {len(templates)} templates; intervals: 95 %, bootstrap over templates"
    )
    print(
        "clean: runs that ended without an error; acting: those of them that change something; accept: the share of"
    )
    print("acting runs whose effects two others share, and how many of these are wrong\n")
    print(
        f"{'proposer (tools)':21} {'wrong':>5}  {'AUROC: all':20}  {'clean':5}  {'acting':>6} {'wrong':>5}  "
        f"{'AUROC: acting':20}  {'own 2nd: acting':20}  accept (wrong)"
    )
    kinds = sorted(
        {(run["tools"], run["model"]) for task in tasks for run in task["runs"]},
        key=lambda kind: kind[::-1],
    )
    pooled: list[list] = []
    for tools, model in sorted(kinds, key=lambda kind: (kind[0] == "all", kind[1])):
        rows = [row for task in tasks if (row := judge(task, model, tools, templates)) is not None]
        every, own = table(rows), table([row for row in rows if row["own"] is not None])
        acting, own_acting = (of[of["acting"]] for of in (every, own))
        pooled += [row for row in rows if row["acting"]] if tools == "domain" else []
        shared = acting[acting["unsure"] <= 0.5 + 1e-9]
        accept = f"{len(shared) / len(acting):.3f} ({shared['wrong'].mean():.3f})"
        print(
            f"{f'{model} ({tools})':21} {every['wrong'].mean():.3f}  {area(every):20}  "
            f"{area(every[every['clean']], short=True)}  {len(acting):6} {acting['wrong'].mean():.3f}  "
            f"{area(acting):20}  {area(own_acting, by='own') if len(own_acting) else '-':20}  {accept}"
        )
    print(f"\nall acting runs with the tools of their domain: {area(table(pooled))}")


def judge(task: dict, model: str, tools: str, templates: dict[str, int]) -> dict | None:
    """Returns how a model's run of a task compares with the others'; None without such a run."""
    runs = {(run["model"], run["tools"]): run for run in task["runs"]}
    run = runs.get((model, tools))
    if run is None:
        return None
    done = effects(run)
    others = [
        effects(other) == done
        for (name, of), other in runs.items()
        if name != model and of == "domain"
    ]
    second = runs.get((model, "all" if tools == "domain" else "domain"))
    return {
        "unsure": 1.0 - np.mean(others),
        "own": None if second is None else float(effects(second) != done),
        "wrong": not run["correct"],
        "clean": run["error"] is None,
        "acting": run["error"] is None and bool(done),
        "template": templates[task["template"]],
    }


def effects(run: dict) -> Effects:
    calls = (
        {"name": call["name"], "args": call["args"]} for call in run["calls"] if call["side_effect"]
    )
    return frozenset(json.dumps(call, sort_keys=True).lower() for call in calls)


def table(rows: Sequence[dict]) -> np.ndarray:
    kinds = [
        ("unsure", float),
        ("own", float),
        ("wrong", bool),
        ("clean", bool),
        ("acting", bool),
        ("template", int),
    ]
    values = [
        tuple(np.nan if row[name] is None else row[name] for name, _ in kinds) for row in rows
    ]
    return np.array(values, dtype=kinds)


def area(rows: np.ndarray, *, by: str = "unsure", short: bool = False) -> str:
    right = ~rows["wrong"]
    value = auroc(correct=right, uncertainty=rows[by])
    if short:
        return f"{value:.3f}"
    ranking = Ranking(right, rows[by])
    blocks = resamples(int(rows["template"].max()) + 1, n_resamples=N_RESAMPLES)
    drawn = np.concatenate(
        [area_under_roc(ranking.tally(counts[:, rows["template"]])) for counts in blocks]
    )
    _, low, high = with_interval(value, drawn)
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    with result_page():
        main()
