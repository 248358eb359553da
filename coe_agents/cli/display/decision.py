"""Owns how a decision looks on a terminal. Markup and control characters in model output are shown as text."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.cli.terminal import clean, create_console
from coe_agents.clustering.refusals import answer_kind
from coe_agents.decision.claims import outcome, who_says
from coe_agents.measurement.weighting import rank_texts
from coe_agents.measurement.wording import (
    MOSTLY,
    action_in_words,
    contested_in_words,
    is_about_actions,
    lacking_in_words,
    parts_in_words,
    regime_in_words,
)
from coe_agents.text import decomposition, quantity
from coe_agents.types import add_usages

_WIDE = 100
"""From so many columns on, bars are long."""
_BARS = {True: 24, False: 12}
_SHOWN = 4
_MOST_CHARS = 300
"""A longer answer is shortened next to its bar; the head shows the answer of the group in full."""
_HEADS = {"answer": "bold green", "abstain": "bold yellow", "escalate": "bold magenta"}

_CLAIMS = {"keep": "green", "mark": "yellow", "drop": "red strike"}

_QUOTED = re.compile(r'"[^"]*"')
_CLAUSE_END = re.compile(r'; (?=(?:[^"]*"[^"]*")*[^"]*$)(?![^()]*\))')
"""A semicolon outside of parentheses and of quoted model text, which itself never contains a double quote."""


def show_decision(
    question: str,
    decision: Mapping[str, Any],
    seconds: float,
    *,
    note: str = "",
    n_judged: int = 0,
    console: Console | None = None,
) -> None:
    """Prints a decision: the answer or the refusal, the reason in plain words, the answers, the numbers.

    `n_judged` requests were sent to judges of meaning and an arbiter.
    """
    console = console or create_console()
    asked = Text.assemble(("? ", "dim"), (clean(question), "bold"))
    if note:
        asked.append(f"  ({note})", style="dim")
    console.print()
    console.print(asked)
    console.print(_head(decision))
    plain, numeric = _reason(decision)
    contested = decision.get("contested")
    differing = (
        "" if contested is None else contested_in_words(contested, n_agents=len(decision["agents"]))
    )
    lines = Group(
        Text(f"{plain} {clean(differing)}".rstrip()),
        _agents(decision, wide=console.width >= _WIDE)
        if not decision.get("claims")
        else _claims(decision["claims"]),
        *([Text(numeric)] if numeric else []),
        *_numbers(decision),
    )
    console.print(Padding(lines, (0, 0, 0, 2)))
    tokens = add_usages(decision["tokens"].values())["output_tokens"]
    cost = "tokens not known" if tokens is None else quantity(tokens, "token")
    records = [
        record for agent in decision["agents"].values() for record in agent.get("sampling", ())
    ]
    sent = [record.get("n_requests", 0) for record in records]
    parts = [
        quantity(decision["n_rounds"], "round"),
        *([quantity(sum(sent), "request")] if sent else []),
    ]
    parts += [f"{n_judged} to judges", cost] if n_judged else [cost]
    console.print(Text(f"  {', '.join(parts)}, {seconds:.2f} s", style="dim"))


def show_note(text: str, *, to_stderr: bool = False) -> None:
    """Prints a paragraph of our own."""
    create_console(stderr=to_stderr).print(Text(text, style="dim"))


def _reason(decision: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the reason as two sentences: in plain words, and with numbers; without the parts of CoE.

    A sentence that begins with an agent's name is not capitalised.
    """
    reason = clean(decision["reason"])
    if decision["coe"] is not None:
        reason = reason.replace(parts_in_words(decision["aleatoric"], decision["epistemic"]), "")
    clauses = _CLAUSE_END.split(reason)
    plain = [
        clause for clause in clauses if not re.search(r"\d\.\d", _QUOTED.sub("", clause))
    ] or clauses
    numeric = [clause for clause in clauses if clause not in plain]
    is_name = any(reason.startswith(f"{clean(name)} ") for name in decision["agents"])
    first, last = (f"{'; '.join(part)}." if any(part) else "" for part in (plain, numeric))
    return first if is_name else first[:1].upper() + first[1:], last[:1].upper() + last[1:]


def _head(decision: Mapping[str, Any]) -> Text:
    action = decision["action"]
    if action == "answer":
        text = clean(_reader_of(decision)(decision["answer"]))
    else:
        cause = _cause(decision)
        text = (
            f"{'No answer' if action == 'abstain' else 'Escalated'}{f': {cause}' if cause else ''}."
        )
    by = (
        ""
        if decision["decided_by"] == "group"
        else f"  (decided by {clean(decision['decided_by'])})"
    )
    return Text.assemble(("→ ", "dim"), (text, _HEADS[action]), (by, "dim"))


def _reader_of(decision: Mapping[str, Any]) -> Callable[[str], str]:
    return action_in_words if is_about_actions(decision) else str


def _cause(decision: Mapping[str, Any]) -> str:
    """Returns why there is no answer, as a clause; "" where only the policy's reason explains it."""
    if decision["coe"] is not None and decision["regime"] is None:
        return "too few agents answered"
    if lacking := lacking_in_words(decision["agents"].values(), only_most=True):
        return lacking
    if decision.get("tied"):
        return "it is a tie"
    distributions = [agent["distribution"] for agent in decision["agents"].values()]
    if len(distributions) < 2:
        return ""
    answers = [
        {text for text, share in each.items() if share >= MOSTLY} or set(each)
        for each in distributions
    ]
    if {answer_kind(text) for own in answers for text in own} == {"refusal"}:
        return "they decline to answer"
    if decision["regime"] == "ambiguous":  # they differ little, however their answers are rounded
        return "they are not sure"
    if any(own != answers[0] for own in answers):
        return "they disagree"
    return "they are not sure" if len(answers[0]) > 1 else ""


def _numbers(decision: Mapping[str, Any]) -> list[Text]:
    if decision["coe"] is None or decision.get(
        "claims"
    ):  # of long answers as a whole it says nothing
        return []
    parts = {name: decision[name] for name in ("coe", "aleatoric", "epistemic")}
    split = decomposition(**parts)
    lines = [Text.assemble(("CoE ", "bold"), split)]
    regime = decision["regime"]
    # agreement is no reason to withhold an answer, and without a quorum there is no regime
    if regime is not None and (decision["action"] == "answer" or regime != "consensus"):
        entropies = [
            agent["entropy"] for agent in decision["agents"].values() if "entropy" in agent
        ]
        words = regime_in_words(regime, entropies, n_agents=len(decision["agents"]))
        is_lacking = lacking_in_words(decision["agents"].values(), only_most=True)
        if words not in decision["reason"] and not is_lacking:
            lines.append(Text(f"{regime}: {words}", style="dim"))
    return lines


def _claims(claims: Sequence[Mapping[str, Any]]) -> Text:
    """Returns each claim, underlined as far as the other models support it, and who says what."""
    lines = Text()
    for claim in claims:
        text, style = clean(claim["text"]), _CLAIMS[claim["action"]]
        said = Text(text, style=style)
        said.stylize("underline", 0, round((claim["support_between"] or 0.0) * len(text)))
        lines.append_text(said).append(
            f"  {outcome(claim)}: {clean(who_says(claim))}\n", style="dim"
        )
    lines.rstrip()
    return lines


def _agents(decision: Mapping[str, Any], *, wide: bool) -> Table:
    longest, read = _BARS[wide], _reader_of(decision)
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for options in (
        {"overflow": "fold"},
        {"no_wrap": True},
        {"no_wrap": True},
        {"overflow": "fold"},
    ):
        table.add_column(**options)
    for name, agent in decision["agents"].items():
        answers = rank_texts(agent["distribution"].items())
        for place, (answer, share) in enumerate(answers[:_SHOWN]):
            bar = Text("█" * max(1, round(share * longest)), style="cyan")
            label = Text(clean(name) if place == 0 else "", style="bold")
            table.add_row(label, bar, Text(f"{share:4.0%}"), Text(clean(read(answer), _MOST_CHARS)))
        if len(answers) > _SHOWN:
            rest, n_others = sum(share for _, share in answers[_SHOWN:]), len(answers) - _SHOWN
            cells = "░" * max(1, round(rest * longest)), f"{rest:4.0%}", quantity(n_others, "other")
            table.add_row("", *(Text(cell, style="dim") for cell in cells))
        if any(record.get("counted") == "once" for record in agent.get("sampling", ())):
            table.add_row(
                "", "", "", Text("one response: its temperature has no effect", style="yellow")
            )
    for name, reason in decision["failed_agents"].items():
        failed, why = Text("failed", style="red"), Text(clean(reason), style="red")
        table.add_row(Text(clean(name), style="bold red"), failed, "", why)
    return table
