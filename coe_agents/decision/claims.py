"""Owns how the claims of a long answer are shown: each with its support, what was done with it, and who says what."""

from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.text import for_page

LABELS: Mapping[str, str] = {"keep": "kept", "mark": "marked", "drop": "left out"}
_VERBS = {"supports": "supports it", "contradicts": "contradicts it", "silent": "is silent"}
COLOURS: Mapping[str, str] = {"keep": "#1a7f37", "mark": "#9a6700", "drop": "#cf222e"}


def outcome(claim: Mapping[str, Any]) -> str:
    """Returns what was done with a claim, and its support: "left out, support 67 %"."""
    support = claim["support_between"]
    supported = "no other model" if support is None else f"support {support:.0%}"
    return f"{LABELS[claim['action']]}, {supported}"


def who_says(claim: Mapping[str, Any]) -> str:
    """Returns who supports a claim, who contradicts it, and who says nothing: "a supports it; b is silent"."""
    parts = []
    for name, shares in claim["agents"].items():
        verbs = []
        for kind, verb in _VERBS.items():
            share = shares[kind]
            if share > 0.995:
                verbs.append(verb)
            elif share > 0.005:
                verbs.append(f"{verb} ({share:.0%})")
        parts.append(f"{name} {', '.join(verbs)}")
    return "; ".join(parts)


def claims_in_words(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns two lines for each claim: its text, underlined as far as others support it, and who says what."""
    lines = []
    for claim in claims:
        text = claim["text"]
        support = claim["support_between"] or 0.0
        underline = "─" * round(support * min(len(text), 72))
        lines.append(text)
        lines.append(f"{underline} {outcome(claim)}: {who_says(claim)}".lstrip())
    return lines


def claims_as_html(claims: Sequence[Mapping[str, Any]]) -> str:
    """Returns the claims for a page: underlined by support, and each opens to show who says what."""
    parts = []
    for claim in claims:
        summary = f'{_underlined(claim)}<span style="opacity:.7"> {for_page(outcome(claim))}</span>'
        parts.append(
            f'<details style="margin:.1em 0"><summary style="cursor:pointer">{summary}</summary>'
            f'<div style="margin:.1em 1.2em;opacity:.8">{for_page(who_says(claim))}</div></details>'
        )
    return "".join(parts)


def _underlined(claim: Mapping[str, Any]) -> str:
    action = claim["action"]
    colour = COLOURS[action]
    share = claim["support_between"] or 0.0
    struck = "text-decoration:line-through;opacity:.7;" if action == "drop" else ""
    underline = f"linear-gradient({colour} 0 0) 0 100%/{share:.0%} 2px no-repeat"
    return f'<span style="{struck}background:{underline}">{for_page(claim["text"])}</span>'
