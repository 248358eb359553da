"""Owns how a decision looks on a terminal. Markup and control characters of models are only text."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.clustering import answer_kind
from coe_agents.policy.weighing import ranked
from coe_agents.policy.wording import MOSTLY, decomposition

_BAR = 24
_SHOWN = 4
_HEADS = {"answer": "bold green", "abstain": "bold yellow", "escalate": "bold magenta"}
_REGIMES = {
    "consensus": "little doubt within the agents, little disagreement between them",
    "conflict": "little doubt within the agents, much disagreement between them",
    "ambiguous": "much doubt within the agents, little disagreement between them",
    "unknown": "much doubt within the agents, much disagreement between them",
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
    console.print(Padding(Group(Text(_sentence(decision)), *_numbers(decision)), (0, 0, 0, 2)))
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


def _sentence(decision: Mapping[str, Any]) -> str:
    """Returns the reason as a sentence; where an agent's name begins it, that stays as it is written."""
    reason = clean(decision["reason"])
    is_name = any(reason.startswith(f"{clean(name)} ") for name in decision["agents"])
    return f"{reason if is_name else reason[:1].upper() + reason[1:]}." if reason else ""


def _head(decision: Mapping[str, Any]) -> Text:
    action = decision["action"]
    if action == "answer":
        said = clean(decision["answer"])
    else:
        cause = _cause(decision)
        said = f"{'No answer' if action == 'abstain' else 'Escalated'}{f': {cause}' if cause else ''}."
    by = "" if decision["decided_by"] == "group" else f"  (decided by {clean(decision['decided_by'])})"
    return Text.assemble(("→ ", "dim"), (said, _HEADS[action]), (by, "dim"))


def _cause(decision: Mapping[str, Any]) -> str:
    """Returns why nothing is answered, in a few words; "" where only the policy can say."""
    if decision["coe"] is not None and decision["regime"] is None:
        return "too few agents answered"
    if decision.get("tied"):
        return "it is a tie"
    distributions = [agent["distribution"] for agent in decision["agents"].values()]
    if len(distributions) < 2:
        return ""
    answers = [{text for text, share in each.items() if share >= MOSTLY} or set(each) for each in distributions]
    if {answer_kind(text) for said in answers for text in said} == {"refusal"}:
        return "they decline to answer"
    if any(said != answers[0] for said in answers):
        return "they disagree"
    return "they are not sure" if len(answers[0]) > 1 else ""


def _numbers(decision: Mapping[str, Any]) -> list[Text]:
    if decision["coe"] is None:
        return []
    interval = decision["interval"]
    spread = f"  (95 % interval {interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
    parts = {name: decision[name] for name in ("coe", "aleatoric", "epistemic")}
    split = decomposition(**parts, divergence=decision.get("divergence") or "kl")
    lines = [Text.assemble(("CoE ", "bold"), split, (spread, "dim"))]
    regime = decision["regime"]
    # agreement is no reason to withhold an answer, and without a quorum there is no regime
    if regime is not None and (decision["action"] == "answer" or regime != "consensus"):
        lines.append(Text(f"{regime}: {_REGIMES[regime]}", style="dim"))
    return lines


def _agents(decision: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for name, agent in decision["agents"].items():
        answers = ranked(agent["distribution"].items())
        for place, (answer, share) in enumerate(answers[:_SHOWN]):
            bar = Text("█" * max(1, round(share * _BAR)), style="cyan")
            label = Text(clean(name) if place == 0 else "", style="bold")
            table.add_row(label, bar, Text(f"{share:4.0%}"), Text(clean(answer), overflow="ellipsis", no_wrap=True))
        if len(answers) > _SHOWN:
            rest = sum(share for _, share in answers[_SHOWN:])
            table.add_row(
                "",
                Text("░" * max(1, round(rest * _BAR)), style="dim"),
                Text(f"{rest:4.0%}", style="dim"),
                Text(f"{len(answers) - _SHOWN} others", style="dim"),
            )
        if any(record.get("counted") == "once" for record in agent.get("sampling", ())):
            table.add_row("", "", "", Text("one response: its temperature has no effect", style="yellow"))
    for name, reason in decision["failed_agents"].items():
        table.add_row(
            Text(clean(name), style="bold red"), Text("failed", style="red"), "", Text(clean(reason), style="red")
        )
    return table
