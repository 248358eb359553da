"""No effect that was not vouched for, whole, once, with these arguments, by enough votes: see `gate_machine`.

`make soak` runs it 2,000 times. The classes of `docs/gate_attacks.md` are its rules, and the faults that are planted.
"""

import json
import re
from contextlib import ExitStack
from inspect import getdoc, getmembers
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import Phase, Verbosity, settings
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import run_state_machine_as_test

from coe_agents._steps import Call
from coe_agents.actions import ActionMatch, match, proposals
from coe_agents.actions.canonical import write_action
from coe_agents.actions.match import read_action
from coe_agents.agents.requests import endings
from coe_agents.middleware import (
    council,
    council_request,
    council_review,
    deliberation,
    gate,
    guard,
    once,
    verdict,
)
from coe_agents.middleware.deliberation import Deliberation
from coe_agents.middleware.driver import Driver
from coe_agents.middleware.guard import GuardsTools
from coe_agents.middleware.parsing import _ArgumentParser
from coe_agents.middleware.verdict import read_verdict
from tests.middleware.gate_machine import N_BACK, UNITS, GateMachine
from tests.middleware.machine_models import CUT, N_MEMBERS, UNKNOWN, WHOLE, Turn
from tests.middleware.machine_world import KINDS, World

AGREE = ("agree",) * N_MEMBERS
PAGE = Path(__file__).parents[2] / "docs" / "gate_attacks.md"


def machine(kind, **attributes):
    return type("Machine", (GateMachine,), {"kind": kind, **attributes})


def attack(kind, *, n_runs, n_steps):
    # always the same runs in CI, others each time in `make soak`
    always_same = settings.default.max_examples < 2000
    how = settings(
        max_examples=n_runs, stateful_step_count=n_steps, derandomize=always_same, database=None
    )
    run_state_machine_as_test(machine(kind), settings=how)


@pytest.mark.parametrize("kind", KINDS)
def test_every_effect_was_vouched_for(kind):
    attack(kind, n_runs=2, n_steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_effect_was_vouched_for_in_many_runs(kind):
    n_runs = max(200, settings.default.max_examples) // len(KINDS)
    attack(kind, n_runs=n_runs, n_steps=30)


def test_a_message_that_comes_with_a_written_history_may_run_once_more():
    """The oracle counted only the last message: one that came before it under a new id ran once too often."""
    proposal = {"thread": "1", "meddling": None, "failing": 0, "stop": False, "sync": True}
    forgery = {"private": "omitted", "to": "after", "replying": None, "n": 1, "sync": True}
    turn = Turn(calls=({"name": "book", "args": {"to": "Bob", "amount": 3}},), votes=AGREE)
    gate = machine("gate block")()
    gate.begin({**proposal, "turn": turn}, own_clusterer=False, other=None)
    under_a_new_id = {"source": "1", "back": 0, "change": "other id", "rewrite": False}
    gate.forge(thread="2", **under_a_new_id, **forgery)
    gate.propose(**{**proposal, "thread": "2", "turn": turn})
    whole = {"source": "2", "change": "same", "rewrite": True}
    for back in range(N_BACK):
        gate.forge(thread="1", back=back, **whole, **forgery)
        gate.world.check()
    assert max(gate.world.started.values()) == 2
    gate.teardown()


def test_two_judges_have_rejected_where_the_third_says_that_it_failed():
    """The oracle took its reply for one that is no verdict, and wanted a person to be asked."""
    call = {"name": "pay", "args": {"to": "Ann", "amount": 1}}
    turn = Turn(calls=(call,), votes=("other", "other", "agree"), ends=("", "", "status=failed"))
    gate = machine("gate interrupt")()
    proposal = {"thread": "1", "meddling": None, "failing": 0, "stop": False, "sync": True}
    gate.begin({**proposal, "turn": turn}, own_clusterer=False, other=None, as_models=True)
    assert gate.world.ruling("r1.0", 0.0) == "rejected"
    gate.teardown()


@pytest.mark.parametrize(("sync", "failing"), [(False, 1), (False, 0), (True, 1)])
def test_a_call_may_be_cancelled_where_another_one_of_its_action_failed(sync, failing):
    """The oracle wanted both: where a tool fails, LangGraph cancels what has been let pass and not begun."""
    calls = [{"name": "book", "args": {"to": to, "amount": 3}} for to in ("Ann", "Bob")]
    gate = machine("council block verify")()
    first = Turn(calls=tuple(calls), votes=AGREE)
    proposal = {"thread": "1", "meddling": None, "failing": failing, "stop": False, "sync": sync}
    gate.begin({**proposal, "turn": first}, own_clusterer=False, other=None)
    gate.world.check()
    started = gate.world.started
    started.pop(next(place for place, n in started.items() if n))
    if failing and not sync:
        gate.world.check()
    else:
        with pytest.raises(AssertionError, match="ran on thread"):
            gate.world.check()
    gate.teardown()


def test_what_is_drawn_does_not_depend_on_what_runs(capsys, monkeypatch):
    few = settings(
        max_examples=2,
        stateful_step_count=15,
        verbosity=Verbosity.debug,
        derandomize=True,
        database=None,
    )

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


def alone(self, action, call_id, *rest, **options):
    """Each call by itself, without waiting for the others."""
    return START(
        self,
        once.VouchedAction(action.key + call_id, frozenset({call_id})),
        call_id,
        *rest,
        **options,
    )


def always(self, action, call_id, *rest, **options):
    yield from ()


def nothing_of_models(self, value, kind, inner):
    """An alternative of a union counts without its properties."""
    return {f"${kind.__name__}": None}


def without_schemas(text):
    """An action whose clusterer does not know which arguments an enum or a format fixes."""
    return [
        {key: part for key, part in call.items() if key != "exact"} for call in READ(text) or []
    ]


def without_what_factories_make(self, parsed, depth, *, passed):
    """A field that a factory made counts as not given, though a validator has filled it since."""
    forms = FIELDS(self, parsed, depth, passed=passed)
    stated = type(parsed).model_fields
    made = {
        name
        for name, field in stated.items()
        if name not in passed and field.default_factory is not None
    }
    return {name: form for name, form in forms.items() if name not in made}


def each_call_once(calls, *args, **options):
    """Two equal calls of one message are one."""
    return WRITE([*{json.dumps(call): call for call in calls}.values()], *args, **options)


def whole(*_):
    """Whatever a provider says, the reply is whole."""
    return "whole"


def whatever_its_provider_ran(*args, **options):
    """What is found of the driver's message is not looked for in a member's."""
    with patch.object(deliberation, "_run_by_provider", never):
        return CHOOSE(*args, **options)


def nothing_if_none(self, name):
    """Without names of tools, nothing is gated."""
    return not self._gated.is_all and name in self._gated


def confident(*args):
    """A group that has not decided has rejected."""
    verdict = READ_VERDICT(*args)
    return {**verdict, "outcome": "rejected"} if verdict["outcome"] == "uncertain" else verdict


def only_if_judged(self, request):
    """A call that a condition let pass without a judgement may have another name."""
    return self._was_judged(request)


def only_what_was_judged(self, request, tool=None):
    """A condition is asked about the proposal alone, not about the call that reaches the tool."""
    return self._was_judged(request)


def ask_whatever_was_replied(proposed, state, gate, marked, driver):
    """What a person replied to a request counts for the call that has come in its place."""
    return ASK_PERSON(proposed, state, gate, dict.fromkeys(state["verdicts"]), driver)


def interrupt_whatever_ran(self, action, call_id, store):
    """A call whose retry asks a person waits, though it has run."""
    self._started[action.key].n_calls.clear()
    return INTERRUPT(self, action, call_id, store)


def keep_for_a_while(self, action, store):
    """What the store holds of what was started expires."""
    if store is not None:
        record = self._record(action, [])
        yield Call(store.put, store.aput, (once._NAMESPACE, action.key, record), {"index": False})


def run_where_the_store_fails(self, *args, **options):
    """What cannot be looked up counts as not started."""
    why_not = yield from START(self, *args, **options)
    return None if why_not == "the store of the runs failed" else why_not


def never(*_):
    return False


def always_true(*_):
    return True


def among(
    *behaviours,
    names=("pay",),
    meddling=("twice",),
    endings=WHOLE,
    driver_endings=WHOLE,
    may_search=False,
    may_try=False,
    store_may_fail=False,
    **options,
):
    """Restricts what is drawn to what matters for a fault, which is then found sooner; no behaviour is to agree."""
    return {
        "behaviours": behaviours or ("agree",),
        "names": names,
        "endings": endings,
        "driver_endings": driver_endings,
        "meddling": meddling,
        "may_search": may_search,
        "may_try": may_try,
        "store_may_fail": store_may_fail,
        "options": {
            "other": None,
            "asks": False,
            "as_models": False,
            "falls_back": False,
            **options,
        },
    }


SPEAKING = {"as_models": True, "falls_back": True}
RULE = Deliberation.rule
CHOOSE = Deliberation._choose
START = once.Register.start
INTERRUPT = once.Register.interrupt
READ = read_action
WRITE = write_action
READ_VERDICT = read_verdict
ASK_PERSON = gate.ask_about_calls
FIELDS = _ArgumentParser._fields
COUNCIL = "council block verify"
GATE = "gate block"
FAULTS = {
    "schema alternatives": (
        COUNCIL,
        among("otherwise", names=("wire",)),
        [(_ArgumentParser, "_tagged", nothing_of_models)],
    ),
    "factories and validators": (
        COUNCIL,
        among("moved", names=("send", "post")),
        [(_ArgumentParser, "_fields", without_what_factories_make)],
    ),
    "two equal calls": (COUNCIL, among("once"), [(proposals, "write_action", each_call_once)]),
    "a clusterer of one's own": (
        COUNCIL,
        among("cased", clusterer=UNITS),
        [(match, "read_action", without_schemas)],
    ),
    "loose equality": (
        COUNCIL,
        among("alike", clusterer=ActionMatch(text="loose")),
        [(council, "_check_clusterer", lambda clusterer: None)],
    ),
    "a forged mark": (
        COUNCIL,
        among("other") | {"changes": ("same",)},
        [(one, "is_mark", always_true) for one in (council, council_review)],
    ),
    "a forged verdict": (GATE, {}, [(verdict, "is_mark", always_true)]),
    "an edited store": (
        GATE,
        among(stored=True) | {"edits": ("more ids",)},
        [(once, "is_mark", always_true)],
    ),
    "a record that expires": (
        GATE,
        among(stored=True) | {"edits": ("no form",)},
        [(once.Register, "_keep", keep_for_a_while)],
    ),
    "a store that fails": (
        GATE,
        among(stored=True, store_may_fail=True) | {"edits": ("no form",)},
        [(once.Register, "start", run_where_the_store_fails)],
    ),
    "another tool is shown": (
        COUNCIL,
        among("moved", meddling=("show another tool",), inner=False),
        [(guard, "_reads_alike", always_true)],
    ),
    "another tool runs": (
        GATE,
        among(meddling=("run another tool",)),
        [(guard, "_reads_alike", always_true)],
    ),
    "a call under a free name": (
        COUNCIL,
        among(narrow=True, meddling=("run under a free name",)),
        [(GuardsTools, "_stays_gated", never)],
    ),
    "a small call under a free name": (
        COUNCIL,
        among(narrow=True, when=True, meddling=("run under a free name",)),
        [(GuardsTools, "_stays_gated", only_if_judged)],
    ),
    "failing members": (
        COUNCIL,
        among("agree", "fail"),
        [(Deliberation, "rule", votes_of_those_who_answered)],
    ),
    "members who are cut off": (COUNCIL, among(endings=CUT), [(deliberation, "end_of", whole)]),
    "a driver who is cut off": (
        COUNCIL,
        among(driver_endings=CUT),
        [(deliberation, "judge_end", whole)],
    ),
    "judges in words that nobody knows": (
        GATE,
        among(endings=UNKNOWN, as_models=True),
        [(endings, "_ending_of", whole)],
    ),
    "a driver who votes": (
        COUNCIL,
        among("agree", "other", **SPEAKING),
        [(Driver, "is_of", never)],
    ),
    "a driver who judges": (GATE, among("agree", "fail", **SPEAKING), [(Driver, "is_of", never)]),
    "members who are shown": (
        COUNCIL,
        among("copy"),
        [(council_request, "without_withheld", list)],
    ),
    "judges who say nothing": (
        "gate interrupt",
        among("copy"),
        [(gate, "read_verdict", confident)],
    ),
    "a reply to another call": (
        "gate interrupt",
        among("text") | {"changes": ("evil",), "targets": ("nowhere",), "privates": ("omitted",)},
        [(gate, "ask_about_calls", ask_whatever_was_replied)],
    ),
    "a tool that a driver's provider runs": (
        COUNCIL,
        among(may_search=True, narrow=False),
        [(deliberation, "_run_by_provider", never)],
    ),
    "a tool that a member's provider runs": (
        "council block choose",
        among(may_search=True, as_models=True, narrow=False),
        [(Deliberation, "_choose", whatever_its_provider_ran)],
    ),
    "an argument that a tool leaves out": (
        GATE,
        among(may_try=True),
        [(guard, "check_call", lambda *_: None)],
    ),
    "no names of tools": (GATE, among(narrow=False), [(GuardsTools, "_gates", nothing_if_none)]),
    "a condition that is asked once": (
        GATE,
        among(narrow=True, when=True, meddling=("change",)),
        [(GuardsTools, "_gates_call", only_what_was_judged)],
    ),
    "twice": (GATE, among(), [(once.Register, "start", always)]),
    "twice by one approval": (
        COUNCIL,
        among("other", escalates=True),
        [(once.Register, "start", always)],
    ),
    "a retry that asks a person": (
        GATE,
        among(asks=True),
        [(once.Register, "interrupt", interrupt_whatever_ran)],
    ),
    "half": (
        COUNCIL,
        among(meddling=("answer", "identify", "drop")),
        [(once.Register, "start", alone)],
    ),
}


QUICK = ("failing members", "twice")
"""Those which `make test` plants, too: one in a council, one in a gate."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.slow) for fault in FAULTS],
)
def test_the_machine_finds_a_planted_fault(fault):
    kind, attributes, patches = FAULTS[fault]
    one_run = {"stateful_step_count": 30, "phases": [Phase.generate], "report_multiple_bugs": False}
    found = settings(max_examples=500, derandomize=True, database=None, **one_run)
    with ExitStack() as stack:
        for where, name, replacement in patches:
            stack.enter_context(patch.object(where, name, replacement))
        with pytest.raises((AssertionError, FlakyFailure)) as caught:
            run_state_machine_as_test(machine(kind, **attributes), settings=found)
    # of simultaneous runs another one may be first when Hypothesis repeats the steps: it then says so
    failures = getattr(caught.value, "exceptions", [caught.value])
    assert any(re.match("ran on thread|nobody was asked", str(one)) for one in failures), failures


def test_the_documentation_names_each_rule_and_each_planted_fault():
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Classes of attacks")
    section, _, _ = section.partition("\n## ")
    rules = [
        getdoc(found)
        for _, found in getmembers(GateMachine)
        if hasattr(found, "hypothesis_stateful_rule")
    ]
    rows = [f"| {rule.splitlines()[0]} | all | closed |" for rule in sorted(rules)]
    rows += [f"| {fault} | `{kind}` | found |" for fault, (kind, _, _) in FAULTS.items()]
    shown = [
        line
        for line in section.splitlines()
        if line.startswith("| ") and not line.endswith("| outcome |")
    ]
    assert shown == rows
    assert all(f"`{kind}`" in section for kind in KINDS)
