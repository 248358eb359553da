"""Nothing passes a decision model but by the rule of a council: see `decision_machine`.

`make soak` runs it 2,000 times. `docs/gate_attacks.md` lists its rules, and the faults that are planted.
"""

from contextlib import ExitStack
from inspect import getdoc, getmembers
from pathlib import Path
from unittest.mock import patch

import pytest

pytest.importorskip("langchain_core.decisions", reason="langchain-core 1.8 has decision models")

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from langchain_core.decisions import ChoiceAnswer, NoulAnswer, ScoreAnswer

from coe_agents.agents.choice import probability
from coe_agents.decisions import CoEDecisionModel, decision_model, shown_state
from coe_agents.policy.base import majority
from coe_agents.types import create_usage
from tests.decisions.decision_machine import DecisionMachine

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
PAGE = Path(__file__).parents[2] / "docs" / "gate_attacks.md"


def attack(*, n_runs, n_steps):
    run_state_machine_as_test(
        DecisionMachine, settings=settings(max_examples=n_runs, stateful_step_count=n_steps)
    )


def test_nothing_passes_but_by_the_rule():
    attack(n_runs=5, n_steps=15)


@pytest.mark.slow
def test_nothing_passes_but_by_the_rule_in_many_runs():
    attack(n_runs=max(200, settings.default.max_examples), n_steps=30)


def first_word(text, choices):
    """A reply counts by its first token."""
    return next((choice for choice in choices if text.startswith(choice)), None)


def by_the_mean(self, passing, votes, parts):
    """The rule of 0.3, of which a lower `aleatoric_threshold` makes "unknown" of a conflict."""
    return parts.epistemic <= self.epistemic_threshold or parts.aleatoric > self.aleatoric_threshold


def despite_doubt(self, passing, votes, parts):
    """Disagreement blocks only where members are sure."""
    is_conflict = (
        parts.epistemic > self.epistemic_threshold and parts.aleatoric <= self.aleatoric_threshold
    )
    return len(passing) >= majority(len(votes)) and not is_conflict


def of_those_who_answered(self, passing, votes, parts):
    """A member that fails lowers the bar."""
    n_answered = sum(not isinstance(vote, str) for vote in votes.values())
    return len(passing) >= majority(n_answered) and parts.epistemic <= self.epistemic_threshold


def an_even_split(self, passing, votes, parts):
    """Half of the members are enough."""
    return len(passing) * 2 >= len(votes) and parts.epistemic <= self.epistemic_threshold


def as_reported(usage):
    """What a member says of its usage is believed."""
    return create_usage(usage.get("input_tokens"), usage.get("output_tokens"))


ANY_ANSWER = dict.fromkeys(("noul", "choice", "score"), NoulAnswer | ChoiceAnswer | ScoreAnswer)
FAULTS = {
    "choices of little mass": (("replies", "scores"), [(decision_model, "MIN_MASS", 0.0)]),
    "first tokens": (("replies",), [(probability, "parse_choice", first_word)]),
    "replies that are not whole": (("replies",), [(probability, "judge_end", lambda _: "whole")]),
    "the mean": (("model",), [(CoEDecisionModel, "_passes", by_the_mean)]),
    "a lower aleatoric threshold": (("model",), [(CoEDecisionModel, "_passes", despite_doubt)]),
    "failing members": (("fails", "high"), [(CoEDecisionModel, "_passes", of_those_who_answered)]),
    "an even split": (("high",), [(CoEDecisionModel, "_passes", an_even_split)]),
    "blocks instead of the default": (("model",), [(decision_model, "DEFAULT_BLOCKS", {})]),
    "a misspelt name": (("model",), [(decision_model, "require", lambda *_: None)]),
    "blocks of a message that vanish": (("clear",), [(shown_state, "_is_shown", lambda *_: True)]),
    "a usage that cannot be read": (("usage",), [(decision_model, "to_usage", as_reported)]),
    "an answer of another kind": (("other",), [(decision_model, "_ANSWERS", ANY_ANSWER)]),
}
QUICK = ("an even split", "an answer of another kind")
"""Those which `make test` plants, too."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.slow) for fault in FAULTS],
)
def test_the_machine_finds_a_planted_fault(fault):
    kinds, patches = FAULTS[fault]
    machine = type("Machine", (DecisionMachine,), {"kinds": kinds})
    once = {
        "phases": [Phase.generate],
        "report_multiple_bugs": False,
        "derandomize": True,
        "database": None,
    }
    found = settings(max_examples=150, stateful_step_count=30, **once)
    with ExitStack() as stack:
        for where, name, replacement in patches:
            stack.enter_context(patch.object(where, name, replacement))
        with pytest.raises(AssertionError, match="not by the rule"):
            run_state_machine_as_test(machine, settings=found)


def test_the_documentation_names_each_rule_and_each_planted_fault():
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Decision models")
    section, _, _ = section.partition("\n## ")
    rules = [
        getdoc(found)
        for _, found in getmembers(DecisionMachine)
        if hasattr(found, "hypothesis_stateful_rule")
    ]
    rows = [f"| {described} | closed |" for described in sorted(rules)]
    rows += [f"| {fault} | found |" for fault in FAULTS]
    assert [
        line
        for line in section.splitlines()
        if line.startswith("| ") and not line.endswith("| outcome |")
    ] == rows
