from io import StringIO

from rich.console import Console

from coe_agents import GroupDecision
from coe_agents.cli.display.decision import show_decision
from coe_agents.decision.views import to_json, to_numbers

CLAIM = {
    "start": 0,
    "end": 9,
    "support_within": None,
    "coe": 0.0,
    "aleatoric": 0.0,
    "epistemic": 0.0,
    "regime": None,
}


def says(supports, contradicts):
    return {
        "supports": supports,
        "contradicts": contradicts,
        "silent": 1.0 - supports - contradicts,
    }


WROTE = {"text": "Ada <b>wrote</b>.", "agents": {"b": says(1.0, 0.0), "c": says(0.0, 1.0)}}
DIED = {"text": "She died.\x1b[2J", "agents": {"b": says(0.0, 0.25)}}
CLAIMS = [
    {**CLAIM, **WROTE, "support_between": 0.5, "action": "keep"},
    {**CLAIM, **DIED, "support_between": 0.0, "action": "drop"},
]
DECISION = GroupDecision.from_data(
    {"action": "answer", "answer": "Ada <b>wrote</b>. [...]", "reason": "so", "claims": CLAIMS}
)


def test_every_view_shows_claims_by_support_and_who_says_what_and_no_markup_of_a_model():
    lines = DECISION.explain().splitlines()
    assert lines[2:4] == [
        "Ada <b>wrote</b>.",
        "──────── kept, support 50%: b supports it; c contradicts it",
    ]
    assert lines[5] == "left out, support 0%: b contradicts it (25%), is silent (75%)"
    html = DECISION._repr_html_()
    assert html.count("<details") == 2
    assert "0 100%/50% 2px" in html
    assert "c contradicts it" in html
    assert "<b>" not in html
    out = StringIO()
    show_decision("Who?", DECISION.data, 0.1, console=Console(file=out, width=120))
    assert "left out, support 0%" in out.getvalue()
    assert not [text for text in (DECISION.explain(), html, out.getvalue()) if "\x1b" in text]
    # the server names claims of answers alone
    assert to_numbers(DECISION.data)["claims"] == CLAIMS
    assert to_numbers({**DECISION.data, "action": "abstain", "answer": None})["claims"] is None
    assert to_json("Who?", DECISION.data, 0.1)["claims"] == CLAIMS
