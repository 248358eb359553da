"""Owns `Runs`: what a group decided about many questions, round by round, read from the folder that `run` wrote."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coe_agents.decision.plots import put_legend_above
from coe_agents.evaluation.frames import import_pandas
from coe_agents.evaluation.metrics import risk_coverage_curve
from coe_agents.evaluation.origin import (
    DECISIONS,
    Item,
    Run,
    iter_items,
    origin_of,
    read_prices,
    read_settings,
    split_failed,
)
from coe_agents.evaluation.scoring.correctness import on_inside
from coe_agents.experiments.shown import Shown, create_axes
from coe_agents.text import for_screen, quantity
from coe_agents.types import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

_PARTS = ("coe", "aleatoric", "epistemic")
_OF_DECISION = (
    "answer",
    "cause",
    "reason",
    "regime",
    *_PARTS,
    "n_rounds",
    "decided_by",
    "conformity",
)
_FOR_STATISTICS = ("tokens", "n_rounds", "conformity", "decided_by", "failed_agents")


class Runs(Shown):
    """What a group decided about each question; iterating reads one `Item` at a time.

    An item has the `decision`, with every round in its `trajectory`, whether the answer was `correct`, and the
    `verdicts` on the leading answer after each round. Of a question that failed, `action` is "failed", and `error` says
    why.

    Args:
        folder: What `run` wrote.
        name: What it is called in comparisons; the folder's name unless given.
        criterion: By which its answers were judged; as recorded unless given.
        is_temporary: Whether the folder goes with the object, so that nobody is told of it.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        criterion: str | None = None,
        is_temporary: bool = False,
    ) -> None:
        self.path = Path(folder)
        self.is_temporary = is_temporary
        self.name = name or self.path.resolve().name
        self.settings = read_settings(self.path)
        self.prices = read_prices(self.path)
        judging = origin_of([self.path]).judging
        self.criterion = criterion or (judging and judging.correctness)

    def __iter__(self) -> Iterator[Item]:
        yield from iter_items(self.path)  # a generator keeps the object, and with it the folder

    def __len__(self) -> int:
        return len(self.outcomes.items) + len(self.outcomes.errors)

    @cached_property
    def outcomes(self) -> Run:
        """What statistics need of the decisions, which fits in memory where the decisions do not."""
        items, errors = split_failed(map(_for_statistics, self))
        return Run(self.name, items, errors, self.settings, self.prices)

    def to_frame(self, *, rounds: bool = False) -> Any:
        """Returns a pandas data frame, a row for each question; with `rounds` one for each question, round and agent.

        With `rounds`, `answer` is the agent's leading answer and `entropy` its semantic entropy in nats; `changed` says
        whether the answer means something else than in the round before, and `adopted` whether it became the group's.
        `group_answer` and `correct` are of the group after the round. An agent that failed in the last round has a row
        without an answer, whose `error` says why; those that failed in an earlier one are not kept.
        """
        # lists of columns take less memory than a dict for each row
        columns: dict[str, list[Any]] = {}
        n_rows = 0
        for item in self:
            rows = _rows_of_rounds(item) if rounds else [_row_of(item)]
            for row in rows:
                for name in row:
                    columns.setdefault(name, [None] * n_rows)
                for name, values in columns.items():
                    values.append(row.get(name))
                n_rows += 1
        return import_pandas().DataFrame(columns)

    def plot(self) -> "Figure":
        """Draws uncertainty over the rounds and, of judged answers, accuracy over the rounds and coverage against risk.

        Needs Matplotlib.
        """
        frame = self.to_frame(rounds=True).drop_duplicates(["id", "round"])
        is_judged = bool(frame["correct"].notna().any())
        figure, (entropy, *of_judged) = create_axes(3 if is_judged else 1)
        means = frame.groupby("round")[[*_PARTS, "correct"]].mean()
        means[[*_PARTS]].plot(ax=entropy, marker="o", ylabel="nats, mean over questions")
        entropy.set_xticks(means.index)
        put_legend_above(entropy)
        if not is_judged:
            return figure

        accuracy, risk = of_judged
        means["correct"].plot(ax=accuracy, marker="o", ylabel="accuracy of the leading answer")
        accuracy.set_xticks(means.index)
        last = frame.drop_duplicates("id", keep="last").dropna(subset=["coe", "correct"])
        if len(last):
            columns = last[["correct", "coe"]].to_numpy(float)
            curve = risk_coverage_curve(correct=columns[:, 0], uncertainty=columns[:, 1])
            risk.plot(curve.coverage, curve.values, label="by CoE")
        counts = self._counts
        if counts["judged"]:
            share_answered = counts["answered"] / max(1, len(self))
            share_wrong = counts["wrong"] / counts["judged"]
            risk.plot(share_answered, share_wrong, marker="o", linestyle="", label="the policy")
        risk.set_xlabel("coverage")
        risk.set_ylabel("risk")
        put_legend_above(risk)
        return figure

    @property
    def _counts(self) -> dict[str, float]:
        counts = dict.fromkeys(
            ("answered", "judged", "wrong", "escalated", "with_failed_agent"), 0.0
        )
        for item in self.outcomes.items.values():
            counts["answered"] += item.is_answered
            counts["escalated"] += item.is_escalated
            counts["with_failed_agent"] += bool(item.decision["failed_agents"])
            if item.correct is not None:
                counts["judged"] += 1
                counts["wrong"] += 1 - item.correct
        return counts

    def show(self, console: "Console") -> None:
        """Prints how many questions were answered, wrong, withheld and escalated, and what failed."""
        for line in self.in_words():
            console.print(line, soft_wrap=True, markup=False)

    def in_words(self) -> list[str]:
        """Returns the lines that are printed."""
        counts = self._counts
        n_decided = len(self.outcomes.items)
        judged = ""
        if counts["judged"]:
            judged = f", {counts['wrong']:.4g} of these wrong by {for_screen(str(self.criterion))}"
        elif counts["answered"]:
            judged = ", none judged"
        withheld = f"{n_decided - counts['answered']:g} withheld, {counts['escalated']:g} escalated"
        answered = f"{quantity(len(self), 'question')}: {counts['answered']:g} answered{judged}"
        place = "" if self.is_temporary else f" {for_screen(str(self.path / DECISIONS))}"
        lines = [f"{answered}; {withheld}.{place}"]
        if counts["with_failed_agent"]:
            lines.append(
                f"In {counts['with_failed_agent']:g} of them an agent failed in the last round; the others decided."
            )
        inside = on_inside(self.outcomes.items.values(), str(self.criterion))
        if inside is not None:
            lines.append(inside)
        if self.outcomes.lacking:
            lines.append(f"{self.outcomes.lacking}.")
        errors = self.outcomes.errors
        if errors:
            times = "once" if len(errors) == 1 else f"{len(errors)} times"
            first = for_screen(next(iter(errors.values())))
            lines.append(f"The group failed {times}; the first error: {first}")
        return lines


def _for_statistics(item: Item) -> Item:
    """Returns the item with the part of its decision that comparisons read."""
    if item.error is not None:
        return item
    decision = item.decision
    agents = {}
    for name, agent in decision["agents"].items():
        sampling = []
        for each in agent["sampling"]:
            sampling.append({key: each.get(key) for key in ("n_requests", "max_tokens")})
        counts = {key: agent[key] for key in ("n_responses", "lacking") if key in agent}
        agents[name] = {**counts, "sampling": sampling}
    figures = {name: decision[name] for name in _FOR_STATISTICS}
    return replace(item, decision={**figures, "agents": agents})


def _row_of(item: Item) -> JsonObject:
    of_decision = {name: item.decision.get(name) for name in _OF_DECISION}
    return {
        "id": item.id,
        "question": item.question,
        "action": item.action,
        **of_decision,
        "correct": item.correct,
        "tokens": None if item.error is not None else item.tokens,
        "seconds": item.seconds,
        "error": item.error,
    }


def _rows_of_rounds(item: Item) -> Iterator[JsonObject]:
    of_round: JsonObject = {"id": item.id, "question": item.question}
    if item.error is not None:
        yield {**of_round, "error": item.error}

    of_group: JsonObject = {}
    answered: set[str] = set()
    for data, verdict in zip(item.decision.get("trajectory", ()), item.verdicts, strict=True):
        of_round["round"] = data["round"]
        of_group = {"group_answer": data["answer"], "correct": verdict}
        for name in ("strategy", *_PARTS, "tokens"):
            of_group[name] = data[name]

        answered = set(data["leading"])
        for agent, answer in data["leading"].items():
            yield {
                **of_round,
                "agent": agent,
                "answer": answer,
                "entropy": data["entropies"].get(agent),
                "changed": data["flips"].get(agent),
                "adopted": data["adopted"].get(agent),
                **of_group,
                "error": None,
            }

    # a decision has the reasons of its last round alone
    for agent, why in item.decision.get("failed_agents", {}).items():
        if agent not in answered:
            yield {**of_round, "agent": agent, **of_group, "error": why}
