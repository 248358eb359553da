"""No effect that was not vouched for, whole, once, with these arguments, by enough votes: see `gate_machine`.

`make soak` runs it 2,000 times. The classes of `docs/gate_attacks.md` are its rules, and the faults that are planted.
"""

from contextlib import ExitStack
from inspect import getdoc, getmembers
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from coe_agents.actions import ActionMatch, Text, match
from coe_agents.actions.match import read_action
from coe_agents.middleware import council, council_request, council_review, once, verdict
from coe_agents.middleware.deliberation import Deliberation
from coe_agents.middleware.parsing import _ArgumentParser
from tests.middleware.gate_machine import KINDS, GateMachine, World

PAGE = Path(__file__).parents[2] / "docs" / "gate_attacks.md"


def machine(kind, **attributes):
    return type("Machine", (GateMachine,), {"kind": kind, **attributes})


def attack(kind, *, n_runs, n_steps):
    run_state_machine_as_test(machine(kind), settings=settings(max_examples=n_runs, stateful_step_count=n_steps))


@pytest.mark.parametrize("kind", KINDS)
def test_every_effect_was_vouched_for(kind):
    attack(kind, n_runs=2, n_steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_effect_was_vouched_for_in_many_runs(kind):
    n_runs = max(200, settings.default.max_examples) // len(KINDS)
    attack(kind, n_runs=n_runs, n_steps=30)


def test_what_is_drawn_does_not_depend_on_what_runs(capsys, monkeypatch):
    few = settings(max_examples=2, stateful_step_count=15, verbosity=Verbosity.debug, derandomize=True, database=None)

    def steps():
        run_state_machine_as_test(machine("council interrupt verify"), settings=few)
        return [line for line in capsys.readouterr().out.splitlines() if "state." in line]

    drawn = steps()
    monkeypatch.setattr(World, "run", lambda self, *_, n=1, **__: [{}] * n)
    assert len(drawn) > 10
    assert steps() == drawn


def votes_of_those_who_answered(self, proposals):
    """The rule of 0.2: a member that fails lowers the bar."""
    answered = [one for one in proposals.replies.values() if not isinstance(one, Exception)]
    with patch.object(self._policy, "min_votes", len(answered) // 2 + 1):
        return RULE(self, proposals)


def alone(self, action, call_id, *rest):
    """Each call by itself, without waiting for the others."""
    return START(self, once.VouchedAction(action.key + call_id, frozenset({call_id})), call_id, *rest)


def always(self, action, call_id, *rest):
    yield from ()


def nothing_of_models(self, value, kind, inner):
    """An alternative of a union counts without its properties."""
    return {f"${kind.__name__}": None}


def without_schemas(text):
    """An action whose clusterer does not know which arguments an enum or a format fixes."""
    return [{key: part for key, part in call.items() if key != "exact"} for call in READ(text) or []]


def among(*behaviours):
    """Restricts the members to what matters for a fault, which is then found sooner."""
    return {"behaviours": ("agree", *behaviours)}


RULE, START, READ = Deliberation.rule, once.Register.start, read_action
COUNCIL, GATE = "council block verify", "gate block"
FAULTS = {
    "schema alternatives": (COUNCIL, among("otherwise"), [(_ArgumentParser, "_tagged", nothing_of_models)]),
    "a clusterer of one's own": (
        COUNCIL,
        among("cased") | {"loose": ActionMatch(compare={"pay.unit": Text()})},
        [(match, "read_action", without_schemas)],
    ),
    "loose equality": (COUNCIL, among("alike") | {"loose": ActionMatch(text="loose")}, []),
    "a forged mark": (COUNCIL, {}, [(one, "is_mark", lambda *_: True) for one in (council, council_review)]),
    "a forged verdict": (GATE, {}, [(verdict, "is_mark", lambda *_: True)]),
    "failing members": (COUNCIL, among("fail"), [(Deliberation, "rule", votes_of_those_who_answered)]),
    "members who are shown": (COUNCIL, among("copy"), [(council_request, "without_withheld", list)]),
    "twice": (GATE, among(), [(once.Register, "start", always)]),
    "half": (COUNCIL, among(), [(once.Register, "start", alone)]),
}


QUICK = ("failing members", "twice")
"""Those which `make test` plants, too: one in a council, one in a gate."""


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.slow) for fault in FAULTS]
)
def test_the_machine_finds_a_planted_fault(fault):
    kind, attributes, patches = FAULTS[fault]
    found = settings(max_examples=150, stateful_step_count=30, phases=[Phase.generate], derandomize=True, database=None)
    with ExitStack() as stack:
        for where, name, replacement in patches:
            stack.enter_context(patch.object(where, name, replacement))
        with pytest.raises(AssertionError, match="ran on thread"):
            run_state_machine_as_test(machine(kind, **attributes), settings=found)


def test_the_documentation_names_each_rule_and_each_planted_fault():
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Classes of attacks")
    section, _, _ = section.partition("\n## ")
    rules = [getdoc(found) for _, found in getmembers(GateMachine) if hasattr(found, "hypothesis_stateful_rule")]
    rows = [f"| {rule.splitlines()[0]} | all | closed |" for rule in sorted(rules)]
    rows += [f"| {fault} | `{kind}` | found |" for fault, (kind, _, _) in FAULTS.items()]
    shown = [line for line in section.splitlines() if line.startswith("| ") and not line.endswith("| outcome |")]
    assert shown == rows
    assert all(f"`{kind}`" in section for kind in KINDS)
