"""Owns how a decision looks on a terminal. Markup and control characters of models are only text."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_BAR = 24
_SHOWN = 4
_HEADS = {"answer": "bold green", "abstain": "bold yellow", "escalate": "bold magenta"}
_REGIMES = {
    "consensus": "sure, and of one mind",
    "conflict": "sure, but of different answers",
    "ambiguous": "each hesitates between the same answers",
    "unknown": "unsure, and of different minds",
}


def show_decision(
    question: str, decision: Mapping[str, Any], seconds: float, *, note: str = "", console: Console | None = None
) -> None:
    """Prints a decision: the answer or the refusal first, then the numbers, then each agent."""
    console = console or Console(highlight=False)
    asked = Text.assemble(("? ", "dim"), (clean(question), "bold"))
    if note:
        asked.append(f"  ({note})", style="dim")
    console.print()
    console.print(asked)
    console.print(_head(decision))
    console.print(Padding(Group(Text(clean(decision["reason"]), style="dim"), *_numbers(decision)), (0, 0, 0, 2)))
    console.print(Padding(_agents(decision), (0, 0, 0, 2)))
    tokens = sum(usage["output_tokens"] for usage in decision["tokens"].values())
    rounds = f"{decision['n_rounds']} round" + ("s" if decision["n_rounds"] > 1 else "")
    console.print(Text(f"  {rounds}, {tokens} tokens, {seconds:.2f} s", style="dim"))


def show_note(text: str) -> None:
    """Prints a paragraph of our own."""
    Console(highlight=False).print(Text(text, style="dim"))


def clean(text: str) -> str:
    """Returns `text` on one line, its control characters replaced, so that no model can steer a terminal."""
    return "".join(character if character.isprintable() else "�" for character in " ".join(text.split()))


def _head(decision: Mapping[str, Any]) -> Text:
    action = decision["action"]
    said = (
        clean(decision["answer"]) if action == "answer" else {"abstain": "No answer.", "escalate": "Escalated."}[action]
    )
    by = "" if decision["decided_by"] == "group" else f"  (decided by {clean(decision['decided_by'])})"
    return Text.assemble(("→ ", "dim"), (said, _HEADS[action]), (by, "dim"))


def _numbers(decision: Mapping[str, Any]) -> list[Text]:
    if decision["coe"] is None:
        return []
    interval = decision["interval"]
    spread = f"  (95 % bootstrap {interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
    return [
        Text.assemble((decision["regime"], "bold"), f": {_REGIMES[decision['regime']]}"),
        Text.assemble(
            ("CoE ", "bold"),
            f"{decision['coe']:.3f} = aleatoric {decision['aleatoric']:.3f} "
            f"+ epistemic {decision['epistemic']:.3f} nats",
            (spread, "dim"),
        ),
    ]


def _agents(decision: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for name, agent in decision["agents"].items():
        ranked = sorted(agent["distribution"].items(), key=lambda item: -item[1])
        for place, (answer, share) in enumerate(ranked[:_SHOWN]):
            bar = Text("█" * max(1, round(share * _BAR)), style="cyan")
            label = Text(clean(name) if place == 0 else "", style="bold")
            table.add_row(label, bar, Text(f"{share:4.0%}"), Text(clean(answer), overflow="ellipsis", no_wrap=True))
        if len(ranked) > _SHOWN:
            rest = sum(share for _, share in ranked[_SHOWN:])
            table.add_row(
                "",
                Text("░" * max(1, round(rest * _BAR)), style="dim"),
                Text(f"{rest:4.0%}", style="dim"),
                Text(f"{len(ranked) - _SHOWN} others", style="dim"),
            )
        if any(record.get("counted") == "once" for record in agent.get("sampling", ())):
            table.add_row("", "", "", Text("one response: its temperature has no effect", style="yellow"))
    for name, reason in decision["failed_agents"].items():
        table.add_row(
            Text(clean(name), style="bold red"), Text("failed", style="red"), "", Text(clean(reason), style="red")
        )
    return table
