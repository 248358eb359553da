"""Prints what escalating a share of the questions to a stronger model brings, by the score that chooses the share.

    python benchmarks/escalation.py FOLDER [--write FILE]

FOLDER holds the generations that `PAIRS` names, `gen_*.dev.jsonl.gz`. A question that is escalated is answered by the
stronger model, which is not in the group; all others by the group's leading answer. At equal budgets, all scores
escalate the same share of the questions, the least certain ones; ties count by their expected value. The scores are
1 - the vote share of the leading answer, CoE, and its two parts alone. The oracle escalates where it helps most.

Then: what escalation and further samples change, by the regime at the default thresholds of .5 and .3 nats. Of further
samples, the first two responses of each agent are compared with all of them.
"""

import sys
from pathlib import Path

import defaults
import numpy as np
from calibn import EQUALS, SETS, UNEQUALS
from real_groups import CALIBN, LETTERS, MATHS, PROMPTS, judged
from result_page import result_page

from coe_agents.advice.advice import choose_escalated
from coe_agents.evaluation.metrics.bootstrap import mean_with_interval
from coe_agents.evaluation.metrics.tallies import join_ties
from coe_agents.types import REGIMES

SHARES = (0.1, 0.2, 0.3, 0.5)
OPEN = {"equal": EQUALS, "unequal": UNEQUALS, **CALIBN}
OPEN_STRONG = ("Llama-3.1-70B-Instruct", "gemma-2-27b-it")
STRONG_MATHS = ("claude-3-5-sonnet-20241022", "gpt-4o-2024-08-06")
SMALL_MATHS = {name: defaults.MATHS[name] for name in ("small", "unequal")} | MATHS
WEAK_LETTERS = {
    name: defaults.LETTERS[name] for name in ("strong", "middle", "small", "unequal")
} | LETTERS
EVOUNA = {
    "others": ("ChatGPT-3.5", "text-davinci-003"),
    "three": ("ChatGPT-3.5", "text-davinci-003", "DPR-FiD"),
}
PAIRS = {
    **dict.fromkeys(SETS, ("open", OPEN, OPEN_STRONG)),
    **dict.fromkeys(("gsm_zeroeval", "mathl5_zeroeval"), ("maths", SMALL_MATHS, STRONG_MATHS)),
    "triviaqa_evouna": ("open", EVOUNA, ("GPT-4",)),
    "mmlupro_calib": ("choice", WEAK_LETTERS, ("gpt-4.1", "gemini-2.0-flash")),
    "realmistake_prompts": ("choice", PROMPTS, ("gpt-4-0613", "Llama-2-13b-chat-hf")),
    "realmistake_sc": (
        "choice",
        {"two": ("gpt-3.5-turbo-0125", "Mixtral-8x7B-Instruct-v0.1")},
        ("gpt-4-0125-preview",),
    ),
}
"""By set: its kind, the groups, and the stronger models; a pair counts if the model is better and not in the group."""
SCORES = ("vote share", "coe", "aleatoric", "epistemic")


def main() -> None:
    folder = Path(sys.argv[1])
    budgets = ", ".join(f"{share:.0%}" for share in SHARES)
    print(f"accuracy by share escalated: never, {budgets} (mean of the four), always")
    found, regimes, resampled = [], [], []
    for name, (kind, groups, stronger) in PAIRS.items():
        alone = {model: verdicts(judged(folder, name, (model,))) for model in stronger}
        for title, models in groups.items():
            rows = judged(folder, name, models)
            scores = all_scores(rows)
            for model in stronger:
                known = np.array([row.id in alone[model] for row in rows])
                right = np.array([row.correct for row in rows])[known]
                strong = np.array([alone[model][row.id] for row in rows if row.id in alone[model]])
                if model in models or strong.mean() <= right.mean():
                    continue
                parts = [scores[score][known] for score in SCORES]
                found.append((kind, show(f"{name} {title} -> {model}", right, strong, parts)))
                kinds = np.array([row.measurement.regime for row in rows])[known]
                regimes.append((kind, strong - right, kinds))
            if (
                min(agent.n_responses for row in rows for agent in row.measurement.agents.values())
                > 2
            ):
                few = {row.id: row for row in judged(folder, name, models, most=2)}
                both = [(row, few[row.id]) for row in rows if row.id in few]
                gains = np.array([row.correct - first.correct for row, first in both])
                resampled.append(
                    (kind, gains, np.array([first.measurement.regime for _, first in both]))
                )
    for kind in ("open", "maths", "choice"):
        summarise(kind, [each for own, each in found if own == kind])
    summarise("all", [each for _, each in found])
    show_regimes("the stronger model's accuracy less the group's", regimes)
    show_regimes("the accuracy of all responses less that of two of each agent", resampled)


def verdicts(rows):
    return {row.id: row.correct for row in rows}


def all_scores(rows):
    """Each score of each question, higher = less sure."""
    measured = [row.measurement for row in rows]
    votes = [1.0 - max(each.support) for each in measured]
    parts = [
        [getattr(each, name) for each in measured] for name in ("coe", "aleatoric", "epistemic")
    ]
    return dict(zip(SCORES, map(join_ties, [votes, *parts]), strict=True))


def show(title, right, strong, scores):
    """Prints the curves of one pair; returns by score the mean accuracy at equal budgets less the vote share's."""
    gain = strong - right
    curves = {"random": [share * gain for share in SHARES]}
    curves |= {
        name: [choose_escalated(score, share) * gain for share in SHARES]
        for name, score in zip(SCORES, scores, strict=True)
    }
    curves["oracle"] = [choose_escalated(gain, share) * gain for share in SHARES]
    never, always = right.mean(), strong.mean()
    print(f"\n{title}: {right.size} questions, never {never:.3f}, always {always:.3f}")
    means = {name: np.mean(curve, axis=0) for name, curve in curves.items()}
    differences = {
        name: mean_with_interval(own - means["vote share"]) for name, own in means.items()
    }
    for name, curve in curves.items():
        points = " ".join(f"{never + each.mean():.3f}" for each in curve)
        value, low, high = differences[name]
        less = (
            ""
            if name == "vote share"
            else f"  less vote share {value:+.4f} [{low:+.4f} {high:+.4f}]"
        )
        print(f"  {name:10} {points} ({never + means[name].mean():.3f}){less}", flush=True)
    return differences


def summarise(kind, found):
    print(
        f"\n{kind}, {len(found)} pairs: mean accuracy at the four budgets less that of the vote share; beyond chance"
    )
    for name in ("random", *SCORES[1:], "oracle"):
        values = np.array([each[name] for each in found])
        better, worse = int((values[:, 1] > 0).sum()), int((values[:, 2] < 0).sum())
        print(f"  {name:10} {values[:, 0].mean():+.4f}  {better:2} better, {worse:2} worse")


def show_regimes(title, found):
    print(
        f"\n{title}, by regime: mean over all questions of all pairs or groups [95 % interval], their number"
    )
    for kind in dict.fromkeys(kind for kind, *_ in found):
        gains, kinds = (
            np.concatenate([each[place] for each in found if each[0] == kind]) for place in (1, 2)
        )
        for regime in REGIMES:
            own = gains[kinds == regime]
            if own.size:
                value, low, high = mean_with_interval(own)
                print(f"  {kind:7} {regime:10} {value:+.3f} [{low:+.3f} {high:+.3f}] {own.size:6}")


if __name__ == "__main__":
    with result_page():
        main()
