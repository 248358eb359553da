"""Owns how a decision looks on a terminal. Markup and control characters in model output are shown as text."""

import re
from collections.abc import Callable, Iterable, Sequence

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
    lacks_most,
    parts_in_words,
    regime_in_words,
)
from coe_agents.text import decomposition, quantity
from coe_agents.types import Fields, add_usages

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
_UNNAMED = (
    "regime: not put in words, since most responses of an agent lack an answer or a part of it"
)


def show_decision(
    question: str,
    decision: Fields,
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
    head = Text.assemble(("? ", "dim"), (clean(question), "bold"))
    if note:
        head.append(f"  ({note})", style="dim")
    console.print()
    console.print(head)
    console.print(_head(decision))

    plain, numeric = _reason(decision)
    contested = decision["contested"]
    if contested is not None:
        sentence = contested_in_words(contested, n_agents=len(decision["agents"]))
        plain += f" {clean(sentence)}"
    lines: list[Text | Table] = [Text(plain.rstrip())]
    if decision["claims"]:
        lines.append(_claims(decision["claims"]))
    else:
        lines.append(_agents(decision, wide=console.width >= _WIDE))
    if numeric:
        lines.append(Text(numeric))
    lines += _numbers(decision)
    console.print(Padding(Group(*lines), (0, 0, 0, 2)))
    cost = _cost(decision, n_judged)
    console.print(Text(f"  {cost}, {seconds:.2f} s", style="dim"))


def _cost(decision: Fields, n_judged: int) -> str:
    """Returns the rounds, the requests and the tokens of a decision."""
    parts = [quantity(decision["n_rounds"], "round")]
    records: list[Fields] = []
    for agent in decision["agents"].values():
        records += agent["sampling"]
    if records:
        n_requests = sum(record.get("n_requests", 0) for record in records)
        parts.append(quantity(n_requests, "request"))
    if n_judged:
        parts.append(f"{n_judged} to judges")
    tokens = add_usages(decision["tokens"].values())["output_tokens"]
    parts.append("tokens not known" if tokens is None else quantity(tokens, "output token"))
    return ", ".join(parts)


def show_note(text: str, *, to_stderr: bool = False) -> None:
    """Prints a paragraph of our own."""
    create_console(stderr=to_stderr).print(Text(text, style="dim"))


def _reason(decision: Fields) -> tuple[str, str]:
    """Returns the reason as two sentences: in plain words, and with numbers; without the parts of CoE.

    A sentence that begins with an agent's name is not capitalised.
    """
    reason = clean(decision["reason"])
    if decision["coe"] is not None:
        reason = reason.replace(parts_in_words(decision["aleatoric"], decision["epistemic"]), "")
    clauses = _CLAUSE_END.split(reason)
    plain: list[str] = []
    numeric: list[str] = []
    for clause in clauses:
        has_number = re.search(r"\d\.\d", _QUOTED.sub("", clause))
        if has_number:
            numeric.append(clause)
        else:
            plain.append(clause)
    if not plain:
        plain = clauses
        numeric = []

    first = _to_sentence(plain)
    is_name = any(first.startswith(f"{clean(name)} ") for name in decision["agents"])
    if not is_name:
        first = _capitalize(first)
    return first, _capitalize(_to_sentence(numeric))


def _to_sentence(clauses: Sequence[str]) -> str:
    return f"{'; '.join(clauses)}." if any(clauses) else ""


def _capitalize(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _head(decision: Fields) -> Text:
    action = decision["action"]
    if action == "answer":
        text = clean(_reader_of(decision)(decision["answer"]))
    else:
        text = "No answer" if action == "abstain" else "Escalated"
        if cause := _cause(decision):
            text += f": {cause}"
        text += "."
    by = ""
    if decision["decided_by"] != "group":
        by = f"  (decided by {clean(decision['decided_by'])})"
    return Text.assemble(("→ ", "dim"), (text, _HEADS[action]), (by, "dim"))


def _reader_of(decision: Fields) -> Callable[[str], str]:
    return action_in_words if is_about_actions(decision) else str


def _cause(decision: Fields) -> str:
    """Returns why there is no answer, as a clause; "" where only the policy's reason explains it."""
    if decision["coe"] is not None and decision["regime"] is None:
        return "too few agents answered"
    agents = decision["agents"].values()
    if lacking := lacking_in_words(agents, only_most=True):
        differing = _despite_lacking(agents)
        return f"{lacking}; {differing}" if differing else lacking
    if decision["tied"]:
        return "it is a tie"
    if len(agents) < 2:
        return ""
    answers = [_said_by(agent) for agent in agents]
    if {answer_kind(text) for text in set().union(*answers)} == {"refusal"}:
        return "they decline to answer"
    if decision["regime"] == "ambiguous":  # they differ little, however their answers are rounded
        return "they are not sure"
    if any(texts != answers[0] for texts in answers):
        return "they disagree"
    return "they are not sure" if len(answers[0]) > 1 else ""


def _said_by(agent: Fields) -> set[str]:
    """Returns what an agent mostly says, else all that it says."""
    distribution = agent["distribution"]
    mostly = {text for text, share in distribution.items() if share >= MOSTLY}
    return mostly or set(distribution)


def _despite_lacking(agents: Iterable[Fields]) -> str:
    """Returns how the answers differ where most of an agent's lack a part; "" where they do not.

    What was cut off may have gone on alike, so it does not disagree. Agents with whole answers do.
    """
    answers = []
    of_whole = []
    is_cut = False
    for agent in agents:
        lacking = agent.get("lacking") or {}
        is_cut = is_cut or "cut" in lacking
        answers.append(_said_by(agent))
        if not lacks_most(agent["n_responses"], lacking):
            of_whole.append(answers[-1])
    if any(texts != of_whole[0] for texts in of_whole):
        return "the other agents disagree"
    if is_cut and any(texts != answers[0] for texts in answers):
        return "as far as they go, the answers differ"
    return ""


def _numbers(decision: Fields) -> list[Text]:
    regime = decision["regime"]
    # of long answers as a whole the numbers say nothing, nor of too few agents, which look certain
    if decision["coe"] is None or decision["claims"] or regime is None:
        return []
    split = decomposition(
        coe=decision["coe"], aleatoric=decision["aleatoric"], epistemic=decision["epistemic"]
    )
    lines = [Text.assemble(("CoE ", "bold"), split)]

    # agreement is no reason to withhold an answer
    if regime == "consensus" and decision["action"] != "answer":
        return lines
    agents = decision["agents"].values()
    entropies = [agent["entropy"] for agent in agents if "entropy" in agent]
    words = regime_in_words(regime, entropies, n_agents=len(agents))
    if lacking_in_words(agents, only_most=True):
        # an agent without a view neither agrees nor disagrees
        lines.append(Text(_UNNAMED, style="dim"))
    elif words not in decision["reason"]:
        lines.append(Text(f"{regime}: {words}", style="dim"))
    return lines


def _claims(claims: Sequence[Fields]) -> Text:
    """Returns each claim, underlined as far as the other models support it, and who says what."""
    lines = Text()
    for claim in claims:
        text = Text(clean(claim["text"]), style=_CLAIMS[claim["action"]])
        support = claim["support_between"] or 0.0
        text.stylize("underline", 0, round(support * len(text)))
        lines.append_text(text)
        lines.append(f"  {outcome(claim)}: {clean(who_says(claim))}\n", style="dim")
    lines.rstrip()
    return lines


def _agents(decision: Fields, *, wide: bool) -> Table:
    longest = _BARS[wide]
    read = _reader_of(decision)
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, agent in decision["agents"].items():
        label = clean(name)
        answers = rank_texts(agent["distribution"].items())
        for answer, share in answers[:_SHOWN]:
            bar = Text(_bar("█", share, longest), style="cyan")
            shown = clean(read(answer), _MOST_CHARS)
            table.add_row(Text(label, style="bold"), bar, f"{share:4.0%}", Text(shown))
            label = ""  # which its first line has

        others = answers[_SHOWN:]
        if others:
            share = sum(share for _, share in others)
            n_others = quantity(len(others), "other")
            rest = _bar("░", share, longest)
            table.add_row("", rest, f"{share:4.0%}", n_others, style="dim")
        if any(record.get("counted") == "once" for record in agent["sampling"]):
            remark = Text("one response: its temperature has no effect", style="yellow")
            table.add_row("", "", "", remark)
    for name, reason in decision["failed_agents"].items():
        failed = Text(clean(name), style="bold")
        table.add_row(failed, "failed", "", Text(clean(reason)), style="red")
    return table


def _bar(character: str, share: float, longest: int) -> str:
    return character * max(1, round(share * longest))
