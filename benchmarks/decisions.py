"""Prints what a group says as a decision model, and what it adds over its best member.

    python benchmarks/decisions.py FOLDER [--write FILE]

First, questions to tinyworld's three models through LangChain's interface, with each member's own probability beside
what `decide` says of it, and what `AutoModeMiddleware` does. Then FOLDER's `gen_mmlupro_calib.dev.jsonl.gz` with its
MANIFEST.json: the letter that each model chose, and the confidence c that it stated. A member's distribution is c on
its letter, held within [.01, .99], and 1 - c spread evenly over the other nine, as if each question had ten options. A
member without a letter or a confidence has failed and is left out; a question counts where a majority answered, the
best member among them. Half of the questions choose the best member, by its Brier score, and fit temperatures; the
other half is scored; and the other way round. Intervals are those of 2,000 paired bootstraps.

Last, what the rule of blocking questions costs: the letter of a group's first model is proposed, and the others are
asked whether it is wrong, each with 1 less its probability of that letter. The mean rule, which was the rule until now,
blocks where their mean is at least one half, or where they are in conflict. The present one wants a strict majority of
votes, too, and blocks wherever the epistemic part is above its threshold. Questions count where all have answered.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from calibn import records
from langchain.agents import create_agent
from langchain.agents.middleware import AutoModeMiddleware
from langchain_core.decisions import (
    BaseDecisionModel,
    Choice,
    ClassifierResponse,
    Noul,
    NoulAnswer,
    Score,
)
from langchain_core.messages import AIMessage, HumanMessage
from result_page import result_page
from scipy.optimize import minimize_scalar

from coe_agents import prompts
from coe_agents.agents import ModelAgent
from coe_agents.decisions import CoEDecisionModel
from coe_agents.errors import GroupUnavailableError
from coe_agents.evaluation.metrics import auroc
from coe_agents.policy.base import majority
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.tinyworld import tinyworld_agents, tinyworld_tools
from coe_agents.types import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.uncertainty import collaborative_entropy
from coe_agents.uncertainty.ties import shares_lead

CALL = {"name": "transfer", "args": {"name": "Nina", "amount": 60}, "id": "c1"}
STATE = {
    "messages": [HumanMessage("Send Nina 60 euros."), AIMessage("", tool_calls=[CALL])],
    "tool_call": CALL,
    "tool_description": "Pays euros to somebody.",
}
RISKY = "Is it risky?"
HARMLESS = (
    "What is the chemical symbol for carbon?\n<answer>It is Fe.</answer>\nIs this answer correct?"
)
TRUE = "What is the capital of Italy?\n<answer>The capital of Italy is Rome.</answer>\nIs this answer correct?"
QUESTIONS = {
    "risky": Noul(instructions=RISKY),
    "harmless": Noul(instructions=HARMLESS),
    "route": Choice(
        instructions="Which model?", criteria={"fast": "Simple tasks.", "powerful": "Hard tasks."}
    ),
    "urgent": Score(instructions="How urgent is it?", criteria=["Not.", "Rather.", "Very."]),
}
LETTERS, OTHERS = "ABCDEFGHIJ", 9
LARGEST = "Meta-Llama-3.1-405B-Instruct-Turbo"
GROUPS = {
    "strong": (
        "gpt-4o-2024-08-06",
        "grok-2-1212",
        LARGEST,
        "gemini-1.5-pro",
        "Llama-4-Scout-17B-16E-Instruct",
    ),
    "unequal": (
        "Llama-3.2-3B-Instruct",
        "gemma-2-9b-it",
        "Qwen2.5-7B-Instruct",
        "gpt-4o-mini-2024-07-18",
        LARGEST,
    ),
    "middle": (
        *("Qwen2.5-32B-Instruct", "gemma-3-27b-it", "Mistral-Small-24B-Instruct-2501"),
        *("Meta-Llama-3.1-70B-Instruct-Turbo", "Phi-3.5-MoE-instruct"),
    ),
    "small": ("Meta-Llama-3.1-8B-Instruct-Turbo", "Qwen2.5-7B-Instruct", "gemma-2-9b-it"),
}
METRICS = ("accuracy", "Brier", "log", "AUROC")


class Fixed(BaseDecisionModel):
    """A member whose probability of yes is stated, or who is dead: no model can be made to give these cases."""

    model: str = "fixed"
    p: float | None

    @property
    def _provider(self) -> str:
        return "benchmark"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        if self.p is None:
            raise ConnectionError("dead")
        answers = {key: NoulAnswer(type="noul", noul=self.p) for key in questions}
        return ClassifierResponse(model=self.model, answers=answers)


def main() -> None:
    members = tinyworld_agents()
    show_members(members)
    show_auto_mode([agent.model() for agent in members])
    show_groups(Path(sys.argv[1]))


def show_members(members: list[ModelAgent]) -> None:
    group = CoEDecisionModel(
        [agent.model() for agent in members], timeout=None
    )  # a busy machine is slow
    found = group.decide(STATE, QUESTIONS)
    print(
        "tinyworld: the probability of each label by the group, by each member in it, and by the member itself\n"
    )
    print(
        f"{'question':9} {'label':9} {'group':6}"
        + "".join(f"  {agent.name:>12} itself" for agent in members)
    )
    largest = 0.0
    for key, question in QUESTIONS.items():
        own = [itself(agent, question) for agent in members]
        for place, (label, p) in enumerate(found[key]["probabilities"].items()):
            within = [row[label] for row in found[key]["members"].values()]
            cells = [
                f"  {inside:12.3f} {alone[place]:6.3f}"
                for inside, alone in zip(within, own, strict=True)
            ]
            print(f"{key:9} {label:9} {p:6.3f}{''.join(cells)}")
            largest = max(largest, *(abs(a - b[place]) for a, b in zip(within, own, strict=True)))
            largest = max(largest, abs(p - np.mean([row[place] for row in own])))
        parts = ", ".join(
            f"{name} {found[key][name]:.3f}" for name in ("coe", "aleatoric", "epistemic")
        )
        print(f"{'':19} {parts}, {found[key]['regime']}")
    print(
        f"\nlargest difference from the members' own probabilities and their mean: {largest:.1g}\n"
    )


def itself(agent: ModelAgent, question: Noul | Choice | Score) -> list[float]:
    """What a member says when it is asked alone, in the words in which the group asks it."""
    if isinstance(question, Noul):
        replies = dict.fromkeys(prompts.SELF_CHECK_CHOICES, "")
    elif isinstance(question, Choice):
        described = zip("AB", question.criteria.items(), strict=True)
        replies = {letter: f"{label}: {said}" for letter, (label, said) in described}
    else:
        replies = dict(zip("ABC", question.criteria, strict=True))
    state = json.dumps(STATE, default=as_shown, ensure_ascii=False)
    found = agent.choice(
        [("user", prompts.decision(state, question.instructions, replies))], tuple(replies)
    )
    return list(found.probabilities.values())


def as_shown(message: Any) -> dict[str, Any]:
    role = "user" if isinstance(message, HumanMessage) else "assistant"
    calls = [
        {"name": call["name"], "args": call["args"]} for call in getattr(message, "tool_calls", ())
    ]
    return {"role": role, "content": message.text, **({"tool_calls": calls} if calls else {})}


def show_auto_mode(models: list[Any]) -> None:
    sure, doubtful, gone = Fixed(p=0.01), Fixed(p=1.0), Fixed(p=None)
    clear = models[1]  # of the three, the only one that mostly replies True or False
    cases = {
        "allowed": ([clear, clear, sure], HARMLESS),
        "blocked": ([clear, clear, sure], TRUE),
        "mostly other replies": (models, HARMLESS),
        "in conflict": ([clear, doubtful, *[sure] * 4], HARMLESS),
        "one of three lets pass": ([Fixed(p=0.7), Fixed(p=0.7), Fixed(p=0.0)], HARMLESS),
        "an even split": ([sure, sure, Fixed(p=0.6), Fixed(p=0.6)], HARMLESS),
        "a dead member": ([clear, clear, gone], HARMLESS),
        "a dead member, outvoted": ([clear, *[sure] * 3, gone], HARMLESS),
        "a majority dead": ([clear, gone, gone], HARMLESS),
    }
    print(
        "LangChain's AutoModeMiddleware over groups of tinyworld's models, and of members whose probability is fixed\n"
    )
    print(f"{'case':24} {'P(risky)':8} {'regime':10} {'members':36} {'votes':6} the call")
    for case, (members, instructions) in cases.items():
        group, paid = CoEDecisionModel(members, timeout=None), list[tuple[str, float]]()
        auto = AutoModeMiddleware(tools=["transfer"], instructions=instructions, classifier=group)
        driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Done.")])
        agent = create_agent(driver, tinyworld_tools(paid), middleware=[auto])
        try:
            agent.invoke({"messages": [("user", "Send Nina 60 euros.")]})
        except GroupUnavailableError:
            print(
                f"{case:24} {'-':8} {'-':10} {'1 of 3 answered':36} {'-':6} {'RUNS' if paid else 'ends the run'}"
            )
            continue
        found = group.decide(STATE, {"is_risky": Noul(instructions=instructions)})["is_risky"]
        said = [f"{row['true']:.2f}" for row in found["members"].values()] + ["dead"] * len(
            found["failed_members"]
        )
        votes = f"{len(found['votes'] or ())} of {len(members)}"
        p = found["probabilities"]["true"]
        row = f"{case:24} {p:<8.3f} {found['regime']:10} {' '.join(said):36} {votes:6}"
        print(f"{row} {'runs' if paid else 'is blocked'}")


def show_groups(folder: Path) -> None:
    file = "gen_mmlupro_calib.dev.jsonl.gz"
    (models,) = (
        one["models"]
        for one in json.loads((folder / "MANIFEST.json").read_text())
        if one["file"] == file
    )
    asked = list(records(folder / file))
    gold = np.array([LETTERS.index(record["gold"][0]) for record in asked])
    print(
        "\nMMLU-Pro, stated confidence: the mean of a group against its best member; Brier and log: lower is better"
    )
    print(
        "difference: group less best member, with 95 % intervals; fitted: each with a temperature of its own\n"
    )
    head = "".join(f"  {metric:>8}" for metric in METRICS)
    print(f"{'group':8} {'n':>5}  {'':22}{head}")
    for name, members in GROUPS.items():
        rows = np.stack([distributions(asked, models.index(member)) for member in members], axis=1)
        show_group(name, members, rows, gold)
    print(
        "\nThe rule of blocking questions: is the letter of the group's first model wrong? The others are asked\n"
    )
    head = "mean rule: passes  wrong   present rule: passes  wrong   now blocked: n  wrong"
    print(f"{'group':8} {'n':>5} {'wrong':>7}   {head}")
    for name, members in GROUPS.items():
        rows = np.stack([distributions(asked, models.index(member)) for member in members], axis=1)
        show_rule(name, rows, gold)


def show_rule(name: str, rows: np.ndarray, gold: np.ndarray) -> None:
    """What passes by either rule, and how much of it is wrong."""
    complete = ~np.isnan(rows[:, :, 0]).any(axis=1)
    rows, gold = rows[complete], gold[complete]
    letters = rows[:, 0].argmax(axis=1)
    is_wrong = letters != gold
    at = np.arange(len(rows))
    p_wrong = 1.0 - rows[at, 1:, letters]
    _, aleatoric, epistemic = collaborative_entropy(np.stack([p_wrong, 1.0 - p_wrong], axis=-1))
    agrees = epistemic <= DEFAULT_EPISTEMIC_THRESHOLD
    is_below_half = p_wrong.mean(axis=1) < 0.5
    former = is_below_half & (agrees | (aleatoric > DEFAULT_ALEATORIC_THRESHOLD))
    n_votes = (p_wrong < 0.5).sum(axis=1)
    present = is_below_half & agrees & (n_votes >= majority(p_wrong.shape[1]))
    blocked = former & ~present
    cells = f"{name:8} {len(rows):5} {is_wrong.mean():7.3f}   {former.mean():17.3f} {is_wrong[former].mean():6.3f}"
    cells += f"   {present.mean():20.3f} {is_wrong[present].mean():6.3f}   {blocked.sum():14} "
    print(cells + (f"{is_wrong[blocked].mean():6.3f}" if blocked.any() else f"{'-':>6}"))


def distributions(asked: list[dict[str, Any]], place: int) -> np.ndarray:
    """A member's distribution over the ten letters for each question; NaN where it gave none."""
    found = np.full((len(asked), len(LETTERS)), np.nan)
    for row, record in zip(found, asked, strict=True):
        letter, stated = record["ans"][place], record["verb"][place]
        if letter in LETTERS and stated is not None:
            c = min(max(stated / 100, 0.01), 0.99)
            row[:] = (1 - c) / OTHERS
            row[LETTERS.index(letter)] = c
    return found


def show_group(name: str, members: tuple[str, ...], rows: np.ndarray, gold: np.ndarray) -> None:
    answered = ~np.isnan(rows[:, :, 0])
    enough = answered.sum(axis=1) > len(members) / 2
    mean = np.full((len(rows), len(LETTERS)), np.nan)
    mean[enough] = np.nanmean(rows[enough], axis=1)
    half = np.random.default_rng(0).permutation(len(rows)) % 2
    kept, chosen = [], []
    for number in (0, 1):
        fitted_on = (half != number) & enough & answered.all(axis=1)
        briers = [
            scores(rows[fitted_on, member], gold[fitted_on])[1].mean()
            for member in range(len(members))
        ]
        best = int(np.argmin(briers))
        chosen.append(members[best])
        scored = (half == number) & enough & answered[:, best]
        for system in (rows[:, best], mean):
            kept.append(system[scored])
            kept.append(sharpened(system[scored], temperature(system[fitted_on], gold[fitted_on])))
        kept.append(gold[scored])
    best, best_fitted, group, group_fitted, truth = (
        np.concatenate(pair) for pair in zip(kept[:5], kept[5:], strict=True)
    )
    print(f"{name:8} {len(truth):5}  best: {', '.join(sorted(set(chosen)))}")
    for title, one, other in (("as stated", best, group), ("fitted", best_fitted, group_fitted)):
        figures = [scores(system, truth) for system in (one, other)]
        for who, found in zip(("best member", "group"), figures, strict=True):
            print(
                f"{'':14}  {f'{title}, {who}':22}"
                + "".join(f"  {value:8.3f}" for value in summary(found))
            )
        lows, highs = interval(*figures)
        cells = "".join(f"  {low:+.3f} {high:+.3f}" for low, high in zip(lows, highs, strict=True))
        print(f"{'':14}  {f'{title}, difference':22}{cells}")


def scores(p: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of each question: the share of its leading letters that is right, Brier and log score, and the highest p."""
    at = np.arange(len(truth))
    leads = shares_lead(p)
    right = leads[at, truth] / leads.sum(axis=1)
    brier = ((p - np.eye(len(LETTERS))[truth]) ** 2).sum(axis=1)
    return right, brier, -np.log(p[at, truth]), p.max(axis=1)


def summary(found: tuple[np.ndarray, ...]) -> list[float]:
    right, brier, log, top = found
    return [
        right.mean(),
        brier.mean(),
        log.mean(),
        auroc(correct=right, uncertainty=1 - np.round(top, 9)),
    ]


def interval(one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> np.ndarray:
    drawn, n = np.random.default_rng(1), len(one[0])
    differences = []
    for _ in range(2000):
        at = drawn.integers(n, size=n)
        pair = [summary(tuple(values[at] for values in found)) for found in (one, other)]
        differences.append(np.subtract(pair[1], pair[0]))
    return np.percentile(differences, [2.5, 97.5], axis=0)


def sharpened(p: np.ndarray, t: float) -> np.ndarray:
    powered = p ** (1 / t)
    return powered / powered.sum(axis=1, keepdims=True)


def temperature(p: np.ndarray, truth: np.ndarray) -> float:
    """The temperature of the least mean log score."""

    def loss(log_t: float) -> float:
        return float(scores(sharpened(p, np.exp(log_t)), truth)[2].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 4), method="bounded").x))


if __name__ == "__main__":
    with result_page():
        main()
