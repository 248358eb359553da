import asyncio
import json
import sys
import threading

import pytest

from coe_agents.distributed.parts import _create_asker, _to_ask, fail_part
from coe_agents.distributed.ray_cluster import Pool, cluster, cut_parts, unpack, work_through
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.sample_collection import Participant
from coe_agents.evaluation.samples.store import SAMPLES, Store
from coe_agents.testing import create_response

QUESTIONS = [Question(str(number), f"Question {number}?", ("Paris",)) for number in range(5)]
AGENTS = (Participant("a", 2), Participant("b", 1))
UNITS = {(question.id, agent.name): agent.n_samples for question in QUESTIONS for agent in AGENTS}


class Speaking:
    """Agents that repeat the question; those of `failing` fail at question 3."""

    participants, annotate, secrets = AGENTS, None, ()

    def __init__(self, failing=()):
        self._failing = failing
        self.asked = []

    async def ask(self, name, question):
        self.asked.append((question.id, name))
        if name in self._failing and question.id == "3":
            raise TimeoutError("too late")
        n = 2 if name == "a" else 1
        return {
            "responses": [
                create_response(name, question.question, index=index) for index in range(n)
            ]
        }


def store_in(folder):
    return Store(folder, {"seed": 0}, UNITS)


def parts_of(store):
    return list(cut_parts(_to_ask(QUESTIONS, store, ["a", "b"]), 2))


def ask_all(folder, failing=()):
    """Returns which units failed, and which were asked."""
    groups = []

    def create():
        groups.append(Speaking(failing))
        return groups[-1]

    with store_in(folder) as store:
        work = _create_asker(create)
        for part in parts_of(store):
            store.append(((*unit,), rows) for unit, rows in unpack(asyncio.run(work(part))))
        store.finish()
        failed = [unit for unit in UNITS if store.has_failed(unit)]
        return failed, [unit for group in groups for unit in group.asked]


def test_only_what_failed_is_asked_again_and_the_rows_are_in_order(tmp_path):
    failed, asked = ask_all(tmp_path, failing="b")
    assert (sorted(asked), failed) == (list(UNITS), [("3", "b")])
    assert '"TimeoutError: too late"' in (tmp_path / SAMPLES).read_text()
    assert ask_all(tmp_path) == ([], [("3", "b")])
    rows = [json.loads(line) for line in (tmp_path / SAMPLES).read_bytes().splitlines()]
    assert [(row["id"], row["agent"], row["index"]) for row in rows] == [
        (identifier, *said) for identifier in "01234" for said in (("a", 0), ("a", 1), ("b", 0))
    ]
    assert all(row["text"] == f"Question {row['id']}?" for row in rows)
    assert ask_all(tmp_path) == ([], [])


def test_what_is_missing_of_a_part_that_is_given_up_failed(tmp_path):
    ask_all(tmp_path, failing="b")
    with store_in(tmp_path) as store:
        (part,) = parts_of(store)
    ((unit, rows),) = unpack(fail_part(part, "too late"))
    assert (unit, [row["error"] for row in rows]) == (["3", "b"], ["too late"])


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ImportError, match=r'pip install "coe-agents\[ray\]"'), cluster():
        pass


def test_an_address_where_nobody_listens_is_told_at_once(monkeypatch):
    pytest.importorskip("ray")
    message = r"no Ray cluster can be reached at 127\.0\.0\.1:1"
    with pytest.raises(ConfigurationError, match=message), cluster("127.0.0.1:1"):
        pass


def test_a_part_is_made_when_it_is_taken(tmp_path):
    asked = []
    read = (asked.append(question.id) or question for question in QUESTIONS)
    with store_in(tmp_path) as store:
        waiting = cut_parts(_to_ask(read, store, ["a", "b"]), 2)
        for expected in ("01", "0123", "01234"):
            next(waiting)
            assert "".join(asked) == expected
        assert list(waiting) == []


def fail_nothing(content, reason):
    raise AssertionError(reason)


def test_work_that_cannot_be_sent_is_refused_before_an_actor_starts():
    pytest.importorskip("ray")
    client = threading.Lock()
    with pytest.raises(TypeError, match=r'"create" must be picklable.*cannot pickle.*lock'):
        list(work_through([b""], lambda: client, Pool(1), fail_nothing))
    assert list(work_through([], lambda: client, Pool(1), fail_nothing)) == []
