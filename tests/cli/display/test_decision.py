import io

import pytest
from rich.console import Console

from coe_agents.cli.display.decision import show_decision
from coe_agents.decision.views import to_json

DECISION = {
    "action": "answer",
    "answer": "Paris",
    "cause": "confident",
    "reason": "CoE 0.1 is low",
    "decided_by": "group",
    "regime": "consensus",
    "coe": 0.1,
    "aleatoric": 0.06,
    "epistemic": 0.04,
    "n_rounds": 1,
    "contested": None,
    "claims": None,
    "tied": [],
    "failed_agents": {"c": "OSError: gone"},
    "tokens": {"a": {"input_tokens": 1, "output_tokens": 12}},
    "agents": {"a": {"distribution": {"Paris": 0.75, "Lyon": 0.25}}},
}


def shown(*, width=100, **changes):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    decision = {**DECISION, **changes}
    agents = {name: {"sampling": [], **agent} for name, agent in decision["agents"].items()}
    show_decision("Capital?", {**decision, "agents": agents}, 0.5, console=console)
    return console.file.getvalue()


@pytest.mark.wording
def test_the_answer_comes_first_then_the_agents_then_the_numbers():
    lines = [line.strip() for line in shown().splitlines() if line.strip()]
    assert lines[:2] == ["? Capital?", "→ Paris"]
    assert "CoE 0.100 = aleatoric 0.060 + epistemic 0.040 nats" in lines
    assert any(line.startswith("a") and "75%" in line and "Paris" in line for line in lines)
    assert any(
        line.startswith("c") and "failed" in line and "OSError: gone" in line for line in lines
    )
    assert [line.split()[0] for line in lines[2:]] == [
        "CoE",
        "a",
        "██████",
        "c",
        "CoE",
        "consensus:",
        "1",
    ]
    assert lines[-1] == "1 round, 12 output tokens, 0.50 s"


def test_eighty_columns_cut_nothing_off():
    answer = "Nobody knows " * 10 + "but it is Canberra."
    out = shown(width=80, agents={"a": {"distribution": {answer: 0.6, "Sydney": 0.4}}})
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert "…" not in out
    assert "".join(answer.split()) in "".join(out.split())


def test_answers_that_are_not_shown_are_counted():
    said = {f"answer {place}": 1 / 5 for place in range(5)}
    assert (
        shown(agents={"a": {"distribution": said}}).splitlines()[8].rstrip().endswith("20% 1 other")
    )
    said["answer 5"] = 0.0
    assert (
        shown(agents={"a": {"distribution": said}})
        .splitlines()[8]
        .rstrip()
        .endswith("20% 2 others")
    )


def test_who_decided_is_said_where_it_was_not_the_group():
    assert shown(decided_by="jud\x1bge").splitlines()[2] == "→ Paris  (decided by jud�ge)"
    keys = {
        "question",
        "seconds",
        "action",
        "answer",
        "cause",
        "reason",
        "regime",
        "coe",
        "aleatoric",
        "epistemic",
        "n_rounds",
    }
    assert set(to_json("Capital?", DECISION, 0.5)) == keys | {"agents", "failed_agents"}
    assert to_json("Capital?", {**DECISION, "decided_by": "judge"}, 0.5)["decided_by"] == "judge"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, "."),  # one agent was measured: the policy's reason says it all
        ({"agents": {"a": {"Paris": 1.0}, "b": {"Lyon": 1.0}}}, ": they disagree."),
        (
            {"agents": {"a": {"Paris": 0.3, "Lyon": 0.7}, "b": {"Paris": 0.6, "Lyon": 0.4}}},
            ": they are not sure.",
        ),
        (
            {"agents": {"a": {"Paris": 1.0}, "b": {"Lyon": 1.0}}, "tied": ["Lyon", "Paris"]},
            ": it is a tie.",
        ),
        (
            {"agents": {"a": {"I don't know.": 1.0}, "b": {"I don't know.": 1.0}}},
            ": they decline to answer.",
        ),
        (  # each hesitates between the same answers, whichever it leans to
            {
                "agents": {"a": {"Paris": 0.8, "Lyon": 0.2}, "b": {"Paris": 1.0}},
                "regime": "ambiguous",
            },
            ": they are not sure.",
        ),
        (
            {"agents": {"a": {"Paris": 1.0}, "b": {"Paris": 0.95, "Lyon": 0.05}}},
            ".",
        ),  # agreement explains nothing
        ({"regime": None}, ": too few agents answered."),
    ],
)
def test_a_refusal_comes_first_with_its_cause(changes, cause):
    if "agents" in changes:
        changes = {
            **changes,
            "agents": {name: {"distribution": said} for name, said in changes["agents"].items()},
        }
    for action, head in (("abstain", "→ No answer"), ("escalate", "→ Escalated")):
        assert shown(action=action, answer=None, **changes).splitlines()[2] == f"{head}{cause}"


PAY = [f'[{{"args":{{"amount":{amount},"to":"ann"}},"name":"pay"}}]' for amount in (5, 900)]
VALUES = [{"value": 5, "agents": ["a", "b"]}, {"value": 900, "agents": ["c"]}]
PROPOSED = {
    "answer_kind": "call",
    "calls": [{"name": "pay", "args": {"amount": 5, "to": "Ann"}, "id": "1"}],
    "contested": {"arguments": {"amount": 0.6}, "candidates": {"pay.amount": VALUES}},
    "answer": PAY[0],
    "reason": "two propose one call; CoE 0.1 is low",
    "agents": {
        "a": {"distribution": {PAY[0]: 1.0}},
        "c": {"distribution": {PAY[1]: 0.5, "[]": 0.5}},
    },
}


@pytest.mark.wording
def test_actions_are_shown_as_people_read_them_with_what_is_contested_first():
    lines = [line.strip() for line in shown(**PROPOSED).splitlines() if line.strip()]
    assert lines[1:3] == [
        '→ pay(amount=5, to="ann")',
        "Two propose one call. They disagree about `amount` of `pay`: 5 (a, b) or 900 (c).",
    ]
    assert any(line.endswith('pay(amount=900, to="ann")') for line in lines)
    assert any(line.endswith("no call") for line in lines)


@pytest.mark.wording
def test_markup_and_control_characters_of_a_model_are_only_text_and_cannot_steer_the_terminal():
    values = [{"value": "\x1b[2J\u202e", "agents": ["a"]}, {"value": None, "agents": ["c\n"]}]
    contested = shown(
        **{**PROPOSED, "contested": {"arguments": {}, "candidates": {"pay.to": values}}}
    )
    plain = shown(
        answer="[red]x[/red]\x1b[2J\x07",
        agents={"a": {"distribution": {"[bold]\x1b]0;t\x07": 1.0}}},
    )
    assert all(text in contested for text in ("`to` of `pay`", "omitted (c )"))
    assert all(text in plain for text in ("[red]x[/red]", "[bold]"))
    assert not {"\x1b", "\x07", "\u202e"} & {*contested, *plain}
