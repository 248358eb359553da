"""Owns the live view of a run: agents finishing, clusters forming, the decision of each round.

On a terminal the view is redrawn in place; elsewhere each event is a line.
"""

from contextlib import nullcontext
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from coe_agents._plurals import quantity
from coe_agents.cli.terminal import clean, create_console
from coe_agents.graph import Clustered, Event, Measured
from coe_agents.policy.wording import decomposition

_BAR = 30
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_ACTIONS = {"answer": "bold green", "abstain": "bold yellow", "escalate": "bold magenta", "another_round": "bold cyan"}


def watch(graph: Any, question: str, *, console: Console | None = None) -> dict[str, Any]:
    """Runs a compiled graph, shows its progress on standard error, and returns its result."""
    console = console or create_console(stderr=True)
    result, view = dict[str, Any](), View()
    with Live(view, console=console, refresh_per_second=12) if console.is_terminal else nullcontext():
        for mode, chunk in graph.stream({"question": question}, stream_mode=["custom", "values"]):
            if mode == "values":
                result = chunk
            elif console.is_terminal:
                view.add(chunk)
            else:
                console.print(Text(f"round {chunk['round'] + 1}: ").append_text(describe(chunk)), soft_wrap=True)
    return result


class View:
    """The events so far, one row for each agent and each step of each round."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str, str], Event] = {}
        self._spinner = Spinner("dots", style="cyan")

    def add(self, event: Event) -> None:
        """Adds an event; the reply of an agent replaces the row of its request."""
        is_of_agent = event["event"] in ("agent_asked", "agent_sampled")
        self._rows[event["round"], "agent" if is_of_agent else event["event"], str(event.get("agent", ""))] = event

    def __rich__(self) -> Table:
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
        several = any(number for number, _, _ in self._rows)
        for (number, _, _), event in self._rows.items():
            mark: Spinner | Text = Text("✓", style="green")
            if event["event"] == "agent_asked":
                mark = self._spinner
            elif event["event"] == "agent_sampled" and event["error"] is not None:
                mark = Text("✗", style="red")
            table.add_row(Text(f"round {number + 1}" if several else "", style="dim"), mark, describe(event))
        return table


def describe(event: Event) -> Text:
    """Returns the event as text.

    Example:
        >>> print(describe({"event": "decided", "round": 0, "action": "answer", "reason": "CoE 0 is at most 0.6 nats"}))
        answer: CoE 0 is at most 0.6 nats
    """
    if event["event"] == "agent_asked":
        return Text(f"{clean(event['agent'])} …", style="dim")
    if event["event"] == "agent_sampled":
        name = Text(clean(event["agent"]), style="bold")
        if event["error"] is not None:
            return name.append(f": failed, {clean(event['error'])}", style="red")
        return name.append(
            f": {quantity(event['n_responses'], 'response')}, {event['seconds']:.2f} s", style="not bold"
        )
    if event["event"] == "clustered":
        return _clusters(event)
    if event["event"] == "measured":
        return _numbers(event)
    action = Text(event["action"].replace("_", " "), style=_ACTIONS[event["action"]])
    why = f", decided by {event['decided_by']}" if event["event"] == "ruled" else f": {event['reason']}"
    return Text.assemble(action, clean(why))


def _clusters(event: Clustered) -> Text:
    total, count, sizes = sum(event["sizes"]), event["n_clusters"], sorted(event["sizes"], reverse=True)
    text = Text(f"{quantity(total, 'response')} in {quantity(count, 'cluster')} ")
    for place, size in enumerate(sizes):
        text.append("█" * max(1, round(_BAR * size / total)), style=_COLOURS[place % len(_COLOURS)])
    return text.append(f" {', '.join(map(str, sizes))}", style="dim")


def _numbers(event: Measured) -> Text:
    if event["coe"] is None:
        return Text("nothing to measure", style="yellow")
    parts = {name: float(event[name] or 0.0) for name in ("coe", "aleatoric", "epistemic")}
    split = decomposition(**parts, divergence=event.get("divergence") or "kl")
    return Text.assemble(("CoE ", "bold"), f"{split}: ", (str(event["regime"]), "bold"))
