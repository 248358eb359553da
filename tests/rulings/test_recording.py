import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from coe_agents import AskPerson, Recording, ThresholdPolicy
from coe_agents.errors import ConfigurationError, StoreError
from coe_agents.rulings import recording
from coe_agents.rulings.recorded import NAMESPACE, case_row, cases, pending_cases, rule, sample_rows
from coe_agents.testing import ScriptedAgent
from coe_agents.types import create_response
from tests.graph.groups import THREAD, graph
from tests.graph.test_persistence import server  # noqa: F401 (a fixture)

AGREE = (["Paris"], ["Paris"])
DIFFER = (["Paris", "Paris", "Lyon"], ["Lyon", "Nice", "Lyon"])


def create(said, *, otherwise="escalate", audit_rate=0.0, **options):
    agents = [ScriptedAgent(name, texts) for name, texts in zip("ab", said, strict=True)]
    policy = ThresholdPolicy(0.5, otherwise=otherwise)
    return graph(*agents, policy=policy, on_decision=Recording(audit_rate=audit_rate), **options)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "memory":
        opening = nullcontext(InMemoryStore())
    elif request.param == "sqlite":
        from langgraph.store.sqlite import SqliteStore

        opening = SqliteStore.from_conn_string(str(tmp_path / "s.sqlite"))
    else:
        from langgraph.store.postgres import PostgresStore

        opening = PostgresStore.from_conn_string(request.getfixturevalue("server"))
    with opening as found:
        if request.param != "memory":
            found.setup()
        for item in found.search(NAMESPACE, limit=1000):
            found.delete(NAMESPACE, item.key)
        yield found


def test_an_answer_is_recorded_for_an_audit_and_ruled_on(store):
    recording = create(AGREE, audit_rate=1.0).compile(store=store)
    result = recording.invoke({"question": "Which?"})
    assert result["decision"]["action"] == "answer"
    (case,) = pending_cases(store)
    assert (case["kind"], case["seen_probability"]) == ("audit", 1.0)
    assert (case["question"], case["answer"]) == ("Which?", "Paris")
    assert case["responses"] == result["responses"]
    assert case["labels"] == result["labels"]
    assert list(sample_rows(case)) == []
    ruled = rule(store, case["id"], correct=True)
    assert pending_cases(store) == []
    assert cases(store, status="ruled") == cases(store) == [ruled]
    assert {row["correct"] for row in sample_rows(ruled)} == {True}
    with pytest.raises(ValueError, match="must be pending to be ruled on"):
        rule(store, case["id"], correct=False)


def test_a_persons_ruling_is_recorded(store):
    asking = create(DIFFER, escalation=AskPerson()).compile(
        store=store, checkpointer=InMemorySaver()
    )
    asking.invoke({"question": "Which?"}, THREAD)
    assert cases(store) == []  # nothing before the ruling
    decision = asking.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)[
        "decision"
    ]
    (case,) = cases(store)
    assert case["kind"] == "escalation"
    assert case["status"] == "ruled"
    assert case["seen_probability"] == 1.0
    assert case["ruling"]["answer"] == decision["answer"] == "Lyon"
    assert {row["text"]: row["correct"] for row in sample_rows(case)} == {
        "Paris": False,
        "Lyon": True,
        "Nice": False,
    }
    assert case_row(case) is None  # it says nothing about answers that were given


@pytest.mark.filterwarnings("error")
def test_text_that_no_database_stores_is_recorded_all_the_same(store):
    """Half of a surrogate pair, which JSON may escape, and NUL, which PostgreSQL refuses."""
    said = (["Par\ud83dis\0"], ["Par\ud83dis\0"])
    recording = create(said, audit_rate=1.0).compile(store=store)
    recording.invoke({"question": "Which\ud83d?\0"})
    (case,) = pending_cases(store)
    assert (case["question"], case["answer"]) == ("Which\ufffd?\ufffd", "Par\ufffdis\ufffd")
    ruled = rule(store, case["id"], correct=False, answer="Ly\ud83don\0")
    assert ruled["ruling"]["answer"] == "Ly\ufffdon\ufffd"
    assert cases(store) == [ruled]
    assert [row["correct"] for row in sample_rows(ruled)] == [False, False]


@pytest.mark.slow
def test_the_audit_rate_is_the_share_of_answers():
    store = InMemoryStore()
    audited = create(AGREE, audit_rate=0.3).compile(store=store)
    for _ in range(100):
        audited.invoke({"question": "The same question?"})
    assert 7 <= len(cases(store)) <= 53  # 30 expected, 5 standard deviations
    assert {case["seen_probability"] for case in cases(store)} == {0.3}


GIVEN = {"action": "answer", "answer": "A", "reason": "."}


@pytest.mark.parametrize(
    ("said", "options", "kinds"),
    [
        (AGREE, {}, []),  # no audit
        (DIFFER, {"otherwise": "abstain", "audit_rate": 1.0}, []),
        (DIFFER, {"audit_rate": 1.0}, ["escalation"]),
        (
            DIFFER,
            {"audit_rate": 1.0, "escalation": lambda case: GIVEN},
            [],
        ),  # a model's ruling is no label
        (DIFFER, {"escalation": lambda case: GIVEN | {"action": "escalate"}}, ["escalation"]),
    ],
)
def test_what_is_recorded(said, options, kinds):
    store = InMemoryStore()
    recording = create(said, **options).compile(store=store)
    recording.invoke({"question": "Which?"})
    assert [case["kind"] for case in cases(store)] == kinds


@pytest.mark.parametrize("said", [AGREE, DIFFER])
def test_what_a_person_ruled_outlasts_a_replay(said):
    store, saver = InMemoryStore(), InMemorySaver()
    audited = create(said, audit_rate=1.0).compile(store=store, checkpointer=saver)
    audited.invoke({"question": "Which?"}, THREAD)
    ruled = rule(store, pending_cases(store)[0]["id"], correct=False, answer="Nice")
    for state in [
        state
        for state in audited.get_state_history(THREAD)
        if {*state.next} - {"__start__", "prepare"}
    ]:
        audited.invoke(None, state.config)
        assert cases(store) == [ruled]


def test_a_store_that_fails_does_not_cost_the_answer_and_a_graph_without_one_asks_nobody():
    class Failing(InMemoryStore):
        def put(self, *args, **kwargs):
            raise OSError("the disk is full")

        aput = put

    audited = create(AGREE, audit_rate=1.0).compile(store=Failing())
    asked = {"question": "Which?"}
    for run in (audited.invoke, lambda given: asyncio.run(audited.ainvoke(given))):
        with pytest.warns(UserWarning, match="could not be recorded: OSError: the disk is full"):
            assert run(asked)["decision"]["answer"] == "Paris"
    with pytest.raises(ConfigurationError, match="compiled without a store"):
        create(AGREE).compile().invoke({"question": "Which?"})


def test_an_error_that_is_not_the_stores_ends_the_run(monkeypatch):
    def fail(*_):
        raise KeyError("responses")

    monkeypatch.setattr(recording, "to_storable", fail)
    audited = create(AGREE, audit_rate=1.0).compile(store=InMemoryStore())
    with pytest.raises(KeyError, match="responses"):
        audited.invoke({"question": "Which?"})


SAID = {"a": ["Lyon", "lyon."], "b": ["Paris", "Lyon"], "c": ["Nice", "Paris"]}
RESPONSES = [
    create_response(name, text, index=i)
    for name, texts in SAID.items()
    for i, text in enumerate(texts)
]
KNOWN = {"id": "1", "kind": "audit", "status": "ruled", "time": "2026-01-31T12:00:00.000+00:00"}
ASKED = {
    "seen_probability": 0.1,
    "question": "Which?",
    "conversation": [],
    "answer": "Lyon",
    "reason": "",
}
FAILED = create_response("d", "", error="it failed")
CASE = KNOWN | ASKED | {"responses": [*RESPONSES, FAILED], "labels": [0, 0, 1, 0, 2, 1]}
WAITING = CASE | {"status": "pending", "ruling": None}


@pytest.mark.parametrize(
    ("correct", "answer", "verdicts"),
    [
        # the given answer is right, and what means something else is wrong
        (True, None, [True, True, False, True, False, False]),
        # Paris is right: everything is known
        (False, "Paris", [False, False, True, False, False, True]),
        # only that Lyon is wrong: an agent that said something else may be right
        (False, None, [False, False, None, False, None, None]),
        (False, "Oslo", [False, False, None, False, None, None]),
        # a contradiction is not believed
        (False, "Lyon", [False, False, None, False, None, None]),
    ],
)
def test_what_a_ruling_says_about_each_response(correct, answer, verdicts):
    case = CASE | {"ruling": {"correct": correct, "answer": answer, "time": ""}}
    rows = list(sample_rows(case))
    assert [row["correct"] for row in rows] == [*verdicts, None]
    assert {row["seen_probability"] for row in rows} == {0.1}
    assert [row["references"] for row in rows] == [
        [*filter(None, ["Lyon" if correct else answer])]
    ] * 7
    assert case_row(case) == {
        "id": "1",
        "correct": correct,
        "seen_probability": 0.1,
        "time": CASE["time"],
    }


def test_a_person_who_abstains_says_nothing_and_an_answer_to_an_escalation_is_a_reference():
    case = CASE | {"kind": "escalation", "ruling": {"correct": None, "answer": None, "time": ""}}
    assert (list(sample_rows(case)), case_row(case)) == ([], None)
    rows = list(
        sample_rows(case | {"ruling": {"correct": None, "answer": "Marseille", "time": ""}})
    )
    assert {(row["correct"], *row["references"]) for row in rows} == {
        (None, "Marseille")
    }  # nobody said so


@pytest.mark.parametrize("kind", ["audit", "escalation"])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, 'got no "correct"'),
        ({"correct": True, "answer": "Paris"}, ValueError, "for an answer that was wrong"),
        ({"correct": 1}, TypeError, '"correct" must be True, False or None'),
        ({"answer": 1}, TypeError, '"answer" must be a text or None'),
    ],
)
def test_a_ruling_must_say_what_is_right(options, error, message, kind):
    store = InMemoryStore()
    store.put(NAMESPACE, "1", WAITING | {"kind": kind})
    with pytest.raises(error, match=message):
        rule(store, "1", **options)
    assert len(pending_cases(store)) == 1
    with pytest.raises(KeyError, match="there is no case '2'"):
        rule(store, "2", correct=True)


def test_two_threads_that_rule_on_one_case_do_not_both_succeed():
    both = threading.Barrier(2)

    class Slow(InMemoryStore):
        def get(self, *args, **kwargs):
            found = super().get(*args, **kwargs)
            with suppress(
                threading.BrokenBarrierError
            ):  # the other thread reads, too, or waits for this one
                both.wait(timeout=0.3)
            return found

    store = Slow()
    store.put(NAMESPACE, "1", WAITING)

    def ruled(correct):
        try:
            return rule(store, "1", correct=correct)
        except ValueError:
            return None

    with ThreadPoolExecutor(2) as pool:
        (kept,) = filter(None, pool.map(ruled, (True, False)))
    assert cases(store) == [kept]


WRONG = [
    {"time": 5},
    {"ruling": {"correct": "yes", "answer": None, "time": ""}},
    {"labels": [0] * 8},
]


@pytest.mark.parametrize(
    "value", [{"x": 1}, CASE | {"responses": ["Lyon"]}, *(CASE | each for each in WRONG)]
)
def test_what_is_no_case_is_named(value):
    store = InMemoryStore()
    store.put(
        NAMESPACE,
        "mine",
        CASE | {"id": "mine", "ruling": {"correct": True, "answer": None, "time": ""}},
    )
    store.put((*NAMESPACE, "deeper"), "elsewhere", {"x": 1})  # which is not looked at
    store.put(NAMESPACE, "foreign", value)
    for read in (cases, lambda store: rule(store, "foreign", correct=True)):
        with pytest.raises(
            StoreError, match="what is under 'foreign' in the store is not a recorded case"
        ):
            read(store)
    store.delete(NAMESPACE, "foreign")
    assert [case["id"] for case in cases(store)] == ["mine"]
