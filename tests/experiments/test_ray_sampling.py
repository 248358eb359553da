"""What a run in parts holds, without a cluster."""

import asyncio
import sys
import threading

import pytest

from coe_agents.errors import ConfigurationError, StoreError
from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.sample_collection import Participant
from coe_agents.evaluation.samples.parquet import rows_of
from coe_agents.experiments.ray_cluster import Pool, cluster, work_through
from coe_agents.experiments.ray_sampling import SampleParts, _Asking, fail_part

QUESTIONS = [Question(str(number), f"Question {number}?", ("Paris",)) for number in range(5)]
PROMPTS = {question.id: f"Please: {question.question}" for question in QUESTIONS}
AGENTS = (Participant("a", 2), Participant("b", 1))


def prompt_of(question):
    return PROMPTS[question.id]


class Speaking:
    """Agents that repeat their prompt; those of `failing` fail at question 3."""

    participants, annotate, secrets = AGENTS, None, ()

    def __init__(self, prompts, failing=()):
        self._prompts, self._failing = prompts, failing
        self.asked = []

    async def ask(self, name, question):
        self.asked.append((question.id, name))
        if name in self._failing and question.id == "3":
            raise TimeoutError("too late")
        n = 2 if name == "a" else 1
        return {"responses": [self.row(name, index, self._prompts[question.id]) for index in range(n)]}

    def row(self, name, index, text):
        base = {"agent": name, "round": 0, "index": index, "text": text, "answer": None}
        return {**base, "logprob": -1.0, "n_tokens": 2, "error": None}


def parts_in(folder, **options):
    return SampleParts(folder, {"seed": 0}, QUESTIONS, AGENTS, **{"size": 2, **options})


def ask_all(folder, failing=()):
    groups = []

    def create(prompts):
        groups.append(Speaking(prompts, failing))
        return groups[-1]

    with parts_in(folder) as parts, asyncio.Runner() as runner:
        work = _Asking(create, runner=runner)
        errors = {}
        for number, content in list(parts.to_ask(prompt_of)):
            errors |= {unit: error for unit, error in parts.keep(number, work(content)).items() if error is not None}
        return errors, [unit for group in groups for unit in group.asked]


def test_only_what_failed_is_asked_again_and_the_rows_are_in_order(tmp_path):
    errors, asked = ask_all(tmp_path, failing="b")
    units = [(question.id, agent.name) for question in QUESTIONS for agent in AGENTS]
    assert sorted(asked) == units
    assert errors == {("3", "b"): "TimeoutError: too late"}
    stood = [path.stat().st_ino for path in sorted((tmp_path / "samples").iterdir())]
    errors, asked = ask_all(tmp_path)
    assert (errors, asked) == ({}, [("3", "b")])
    files = sorted((tmp_path / "samples").iterdir())
    assert [file.name for file in files] == [f"part-0000{number}.parquet" for number in range(3)]
    assert [file.stat().st_ino == before for file, before in zip(files, stood, strict=True)] == [True, False, True]
    rows = [row for file in files for row in rows_of(file)]
    assert [(row["id"], row["agent"], row["index"]) for row in rows] == [
        (identifier, *said) for identifier in "01234" for said in (("a", 0), ("a", 1), ("b", 0))
    ]
    assert all(row["text"] == PROMPTS[row["id"]] for row in rows)
    assert ask_all(tmp_path) == ({}, [])


def test_what_is_missing_of_a_part_that_is_given_up_failed_and_is_asked_again(tmp_path):
    ask_all(tmp_path, failing="b")
    with parts_in(tmp_path) as parts:
        for number, content in list(parts.to_ask(prompt_of)):
            assert parts.keep(number, fail_part(AGENTS, content, "too late")) == {("3", "b"): "too late"}
    assert ask_all(tmp_path) == ({}, [("3", "b")])
    with parts_in(tmp_path / "other") as parts:
        errors = {}
        for number, content in list(parts.to_ask(prompt_of)):
            errors |= parts.keep(number, fail_part(AGENTS, content, "too late"))
        assert set(errors.values()) == {"too late"}
        assert len(errors) == len(QUESTIONS) * len(AGENTS)


def test_a_file_that_lacks_a_reply_or_holds_one_twice_is_refused(tmp_path):
    ask_all(tmp_path)
    first, second = (tmp_path / "samples" / f"part-0000{number}.parquet" for number in (0, 1))
    whole = first.read_bytes()
    for content, told in ((second.read_bytes(), "every reply once"), (b"torn", "not a part of a run")):
        first.write_bytes(content)
        with pytest.raises(StoreError, match=told), parts_in(tmp_path):
            pass
    first.write_bytes(whole)
    with parts_in(tmp_path) as parts, pytest.raises(StoreError, match="every reply once"):
        parts.keep(0, second.read_bytes())


def test_another_size_is_another_run(tmp_path):
    ask_all(tmp_path)
    with pytest.raises(ConfigurationError, match="partition_size: 2 there, 3 here"), parts_in(tmp_path, size=3):
        pass
    with parts_in(tmp_path), pytest.raises(StoreError, match="another process"), parts_in(tmp_path):
        pass


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ImportError, match=r'pip install "coe-agents\[ray\]"'), cluster():
        pass


def test_an_address_where_nobody_listens_is_told_at_once(monkeypatch):
    pytest.importorskip("ray")
    with (
        pytest.raises(ConfigurationError, match=r"no Ray cluster can be reached at 127\.0\.0\.1:1"),
        cluster("127.0.0.1:1"),
    ):
        pass


def test_a_part_is_made_when_it_is_taken(tmp_path):
    asked = []

    def prompt(question):
        asked.append(question.id)
        return PROMPTS[question.id]

    with parts_in(tmp_path) as parts:
        waiting = parts.to_ask(prompt)
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
        list(work_through([(0, b"")], lambda: client, Pool(1), fail_nothing))
    assert list(work_through([], lambda: client, Pool(1), fail_nothing)) == []
