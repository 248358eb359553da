"""Prints what a cascade costs at equal risk against always asking everyone, and against the best single model.

    python benchmarks/cascade.py FOLDER [HALVES] [--write FILE]

FOLDER holds `gen_nq_calibn.dev.jsonl.gz` and `gen_triviaqa_calibn.dev.jsonl.gz`: responses of twelve models. A token
costs as much as its model has active parameters; the tokens of prompts are not known. Thresholds are chosen on one half
for a risk: of everyone and of a single model the highest that keeps it, of a cascade those that answer as much as
everyone at least cost. The single model is the one that answers most on that half. All are judged on the other half.
"""

import sys
from pathlib import Path

import numpy as np
from calibn import samples
from result_page import result_page

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA
from coe_agents.experiments import Stages, calibrate_cascade, measure_stages
from coe_agents.experiments.cascade import CascadeFigures, figures_of
from coe_agents.experiments.replay import Saved, load_saved

RISKS = {"nq_calibn": (0.3, 0.4), "triviaqa_calibn": (0.2, 0.3)}
N_THRESHOLDS = 12
BILLIONS = {
    "gemma-2-2b-it": 2.6,
    "Phi-3.5-mini-instruct": 3.8,
    "Llama-2-7b-chat": 6.7,
    "Phi-3-small-128k-instruct": 7.4,
    "Llama-3-8B-Instruct": 8.0,
    "Llama-3.1-8B-Instruct": 8.0,
    "gemma-2-9b-it": 9.2,
    "Mixtral-8x7B-Instruct-v0.1": 12.9,
    "gemma-2-27b-it": 27.2,
    "Llama-3-70B-Instruct": 70.6,
    "Llama-3.1-70B-Instruct": 70.6,
    "Qwen2-72B-Instruct": 72.7,
}
"""Active parameters: a token's price."""
NAMES = tuple(BILLIONS)
CASCADES = {
    "four, eight, twelve": (NAMES[:4], NAMES[4:8], NAMES[8:]),
    "one, two, all": ((NAMES[6],), (NAMES[9],), tuple(name for name in NAMES if name not in (NAMES[6], NAMES[9]))),
    "eight, twelve": (NAMES[:8], NAMES[8:]),
}
PRICES = {name: {"input": 0.0, "output": billions} for name, billions in BILLIONS.items()}


def main() -> None:
    folder, n_halves = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 50
    print(f"{n_halves} random halves; cost 1: all twelve, always; [2.5 %, 97.5 %] over halves; right by label")
    print("over: halves in which the risk exceeds the stated one on the half that did not choose")
    for name, risks in RISKS.items():
        with samples(folder, name, NAMES) as opened:
            saved = load_saved(opened, NormalizedMatch())
        print(f"\n{name}, {len(saved)} questions with all twelve")
        print(f"{'risk':>4}  {'policy':28} {'answered':>22} {'risk':>22} {'cost':>22}  over")
        for risk in risks:
            for title, rows in table(saved, risk, n_halves).items():
                print(f"{risk:4}  {title:28} {line(rows, risk)}", flush=True)


def table(saved: list[Saved], risk: float, n_halves: int) -> dict[str, list[CascadeFigures | None]]:
    criterion = CRITERIA["label"]
    cascades = {title: measure_stages(saved, stages, criterion, prices=PRICES) for title, stages in CASCADES.items()}
    singles = {name: measure_stages(saved, [[name]], criterion, prices=PRICES) for name in NAMES}
    whole = next(iter(cascades.values())).price[:, -1].mean()
    everyone = cascades["four, eight, twelve"]
    n = len(everyone.price)
    found: dict[str, list[CascadeFigures | None]] = {"everyone, always": [], "best single model": []}
    found |= {f"cascade {title}": [] for title in CASCADES}
    for seed in range(n_halves):
        order = np.random.default_rng(seed).permutation(n)
        here, there = order[: n // 2].tolist(), order[n // 2 :].tolist()
        last = [None] * (len(everyone.stages) - 1)
        found["everyone, always"].append(of_one(everyone, here, there, risk, last, whole=whole))
        best = max(NAMES, key=lambda name: answers(singles[name], here, risk))
        found["best single model"].append(of_one(singles[best], here, there, risk, [], whole=whole))
        for title, stages in cascades.items():
            chosen = calibrate_cascade(stages.take(here), risk=risk, n_thresholds=N_THRESHOLDS)
            judged = None if chosen is None else figures_of(stages.take(there), chosen.thresholds)
            found[f"cascade {title}"].append(judged and relative(judged, whole))
    return found


def highest(stages: Stages, rows: list[int], risk: float, last: list[None]) -> tuple[float, float | None]:
    """Returns the most that the last stage answers within the risk, and the threshold for it."""
    own = stages.take(rows)
    values = [value for value in np.unique(own.uncertainty[:, -1]).tolist() if np.isfinite(value)]
    points = [(figures_of(own, [*last, value + 1e-9]), value + 1e-9) for value in values]
    return max(((each.coverage, value) for each, value in points if each.risk <= risk), default=(0.0, None))


def answers(stages: Stages, rows: list[int], risk: float) -> float:
    return highest(stages, rows, risk, [])[0]


def of_one(
    stages: Stages, here: list[int], there: list[int], risk: float, last: list[None], *, whole: float
) -> CascadeFigures | None:
    _, threshold = highest(stages, here, risk, last)
    return None if threshold is None else relative(figures_of(stages.take(there), [*last, threshold]), whole)


def relative(figures: CascadeFigures, whole: float) -> CascadeFigures:
    return CascadeFigures(figures.coverage, figures.risk, figures.price / whole)


def line(rows: list[CascadeFigures | None], risk: float) -> str:
    known = [row for row in rows if row is not None]
    if not known:
        return "never keeps the risk"
    cells = [spread([getattr(row, name) for row in known]) for name in ("coverage", "risk", "price")]
    over = sum(row.risk > risk for row in known)
    return f"{' '.join(f'{cell:>22}' for cell in cells)}  {over:2} of {len(known)}"


def spread(values: list[float]) -> str:
    low, high = np.nanquantile(values, [0.025, 0.975])
    return f"{np.nanmean(values):.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    with result_page():
        main()
