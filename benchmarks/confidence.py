"""Prints what the confidence of models, stated or of their tokens, adds to the learned gate.

    python benchmarks/confidence.py FOLDER [HALVES] [--write FILE]

FOLDER holds `gen_mmlupro_calib.dev.jsonl.gz` with its MANIFEST.json, and the four `gen_*_calibn*.dev.jsonl.gz`. All
gates are learned on other questions than they judge. "present" is the gate without confidences: the others differ in
what they are shown, and none is forced to use it.
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from actions import opened
from calibn import EQUALS, SETS, UNEQUALS, records, to_samples
from defaults import LETTERS, generations
from learned_gate import figures, judged_rows, share_right
from result_page import result_page
from scipy.stats import binom

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import calibrate, judge_samples
from coe_agents.evaluation.calibration.learned import fit_gate, to_folds

GROUPS = {
    "strong": LETTERS["strong"],
    "unequal": LETTERS["unequal"],
    "mid": (
        "Qwen2.5-32B-Instruct",
        "gemma-3-27b-it",
        "Mistral-Small-24B-Instruct-2501",
        "Meta-Llama-3.1-70B-Instruct-Turbo",
        "Phi-3.5-MoE-instruct",
    ),
    "small": LETTERS["small"],
}
SHOWN = {"present": (), "stated": ("confidence",), "token": ("token_confidence",)}
SHOWN["both"] = SHOWN["stated"] + SHOWN["token"]
RISKS, CONFIDENCE = (0.05, 0.1, 0.2), 0.9
TOLERATED = 0.005


def main() -> None:
    folder, n_halves = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    sets = [("mmlupro_calib", title, models) for title, models in GROUPS.items()]
    sets += [(name, title, models) for name in SETS for title, models in (("equal", EQUALS), ("unequal", UNEQUALS))]
    print("AUROC, mean over five folds; then the largest share that is answered with at most 5, 10 and 20 % wrong,")
    print("by scores of gates that were learned on the other folds\n")
    print(f"{'set':22} {'models':8} {'n':>4} " + " ".join(f"{shown:>7}" for shown in SHOWN), end="")
    print("".join(f"  {shown:>17}" for shown in ("present", "both")))
    losses = {}
    with ProcessPoolExecutor(2) as pool:
        for (name, title, _), (n, areas, shares) in zip(
            sets, pool.map(in_folds, [folder] * len(sets), *zip(*sets, strict=True)), strict=True
        ):
            cells = "".join(f"  {' '.join(f'{share:.3f}' for share in each)}" for each in shares)
            print(f"{name:22} {title:8} {n:4} " + " ".join(f"{area:7.4f}" for area in areas) + cells, flush=True)
            losses[f"{name}, {title}"] = areas[0] - min(areas[1:])
        worst = max(losses, key=losses.get)
        print(f"\nmost lost to the present gate: {losses[worst]:.4f} ({worst}); tolerated: {TOLERATED}")
        print(f"\ncalibrated at confidence {CONFIDENCE} on one of {n_halves} random halves, applied to the other:")
        print("coverage, risk of halves with an answer, share of halves above the risk beyond sampling error (.05)")
        print(f"{'models':8} risk" + "".join(f"  {shown:>20}" for shown in ("present", "both")))
        for lines in pool.map(on_halves, [folder] * len(GROUPS), GROUPS, [n_halves] * len(GROUPS)):
            print(lines, flush=True)
    accuracies(folder)


def rows_of(folder, name, models):
    if name in SETS:
        return judged_rows(folder, name, models)
    with opened([sample for record in generations(folder, name) for sample in to_samples(record, models)]) as questions:
        rows = judge_samples(questions, clusterer=NormalizedMatch(), every_cluster=True)
    return [row for row in rows if row.correct is not None and row.measurement.n_agents == len(models)]


def show_only(rows, shown):
    """The rows with no other confidences than these."""
    hidden = {name: None for name in SHOWN["both"] if name not in shown}

    def without(agents):
        return {name: replace(agent, **hidden) for name, agent in agents.items()}

    return [replace(row, measurement=replace(row.measurement, agents=without(row.measurement.agents))) for row in rows]


def in_folds(folder, name, title, models):
    rows = rows_of(folder, name, models)
    areas = {shown: figures(show_only(rows, read), trust=True)[1] for shown, read in SHOWN.items()}
    return len(rows), [*areas.values()], [coverages(show_only(rows, SHOWN[shown])) for shown in ("present", "both")]


def coverages(rows):
    fold = to_folds([row.id for row in rows], [1.0 - row.correct for row in rows])
    scores, right = np.empty(len(rows)), np.empty(len(rows))
    for number in range(5):
        outside = [row for row, own in zip(rows, fold, strict=True) if own != number]
        gate = fit_gate([row.measurement for row in outside], [row.verdicts for row in outside])
        for i in np.flatnonzero(fold == number):
            scores[i], right[i] = gate.uncertainty(rows[i].measurement), share_right(rows[i], gate)
    order = np.argsort(scores, kind="stable")
    is_last = np.append(np.diff(scores[order]) > 1e-9, True)  # of those with equal scores, all or none are answered
    wrong = np.cumsum(1.0 - right[order]) / np.arange(1, len(rows) + 1)
    return [max(np.flatnonzero((wrong <= risk) & is_last) + 1, default=0) / len(rows) for risk in RISKS]


def on_halves(folder, title, n_halves):
    rows = rows_of(folder, "mmlupro_calib", GROUPS[title])
    lines = []
    found = {
        shown: [one_half(show_only(rows, SHOWN[shown]), seed) for seed in range(n_halves)]
        for shown in ("present", "both")
    }
    for place, risk in enumerate(RISKS):
        cells = ""
        for each in found.values():
            coverage, realised, beyond = np.array(each, dtype=float)[:, place].T
            mean = np.nanmean(realised) if np.isfinite(realised).any() else np.nan
            cells += f"  {coverage.mean():6.3f} {mean:6.3f} {beyond.mean():6.3f}"
        lines.append(f"{title:8} {risk:4}{cells}")
    return "\n".join(lines)


def remember_gates():
    """Makes `calibrate` learn a gate once for all risks: it does not depend on them."""
    known = {}

    def fit_once(measurements, verdicts):
        key = tuple(map(id, measurements))
        if key not in known:
            known[key] = fit_gate(measurements, verdicts)
        return known[key]

    sys.modules[calibrate.__module__].fit_gate = fit_once


def one_half(rows, seed):
    """Coverage, risk, and whether it exceeds the stated one beyond sampling error, for each stated risk."""
    remember_gates()
    order = np.random.default_rng(seed).permutation(len(rows))
    fitted, held_out = ([rows[i] for i in half] for half in np.split(order, [len(rows) // 2]))
    found = []
    for risk in RISKS:
        named = {"clusterer": "NormalizedMatch", "correctness": "reference_or_label"}
        policy = calibrate(fitted, risk=risk, confidence=CONFIDENCE, score="learned", **named)
        with warnings.catch_warnings(action="ignore"):
            answered = [
                row for row in held_out if policy.decide(row.measurement, round=0, max_rounds=1).action == "answer"
            ]
        n_wrong = sum(1.0 - row.verdict(policy.calibration) for row in answered)
        beyond = bool(answered) and binom.sf(int(n_wrong) - 1, len(answered), risk) < 0.05
        found.append((len(answered) / len(held_out), n_wrong / len(answered) if answered else np.nan, beyond))
    return found


def accuracies(folder):
    """How often models are right where they answer alone, and where they also state a confidence: other prompts."""
    print("\nshare right by the judge, asked for the answer alone (0_shot) and with its probability (verb), all models")
    for name in SETS:
        right = {"0_shot": [], "verb": []}
        for record in records(folder / f"gen_{name}.dev.jsonl.gz"):
            for responses in record["responses"].values():
                by_style = {each["style"]: each["judge"] for each in responses or () if each.get("judge") is not None}
                if right.keys() <= by_style.keys():
                    for style, own in right.items():
                        own.append(by_style[style])
        alone, stated = (np.array(own, dtype=float) for own in right.values())
        gain = (stated - alone).mean()
        error = 1.96 * (stated - alone).std(ddof=1) / np.sqrt(alone.size)
        interval = f"[{gain - error:+.3f}, {gain + error:+.3f}]"
        print(f"{name:22} {alone.size:5} pairs  {alone.mean():.3f} {stated.mean():.3f}  {gain:+.3f} {interval}")


if __name__ == "__main__":
    with result_page():
        main()
