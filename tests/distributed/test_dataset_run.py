"""What actors and the driver do, without a cluster; test_ray_machines.py has one."""

import asyncio
import os
import tracemalloc
from contextlib import contextmanager
from dataclasses import asdict

import pytest

from coe_agents import ThresholdPolicy
from coe_agents.distributed.parts import _create_decider, fail_questions
from coe_agents.distributed.ray_cluster import cut_parts, unpack
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.sources import on_disk
from coe_agents.evaluation.origin import DECIDER, DECISIONS, read_run
from coe_agents.evaluation.sample_collection import units_of
from coe_agents.evaluation.samples.store import Store
from coe_agents.experiments.dataset_run import (
    RunGroup,
    Timings,
    decide_all,
    keep,
    pending_questions,
)
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import graph


def questions(n):
    return on_disk(
        (Question(str(number), f"Question {number}?", ("Paris",)) for number in range(n)), seed=0
    )


def create():
    agents = [ScriptedAgent(name, ["Paris", "Paris", "Lyon"]) for name in "ab"]
    return RunGroup(graph(*agents, policy=ThresholdPolicy(float("inf"))).compile(), at_once=2)


@contextmanager
def stored(folder, asked):
    units = units_of(asked, {DECIDER: 1})
    with Store(folder, {}, units, name=DECISIONS) as store, Timings(folder) as timings:
        yield store, timings


def test_a_part_of_any_size_gives_the_lines_of_a_run_in_one_process(tmp_path):
    asked = questions(5)
    with stored(tmp_path / "one", asked) as (store, timings):
        asyncio.run(decide_all(asked, create(), store, timings))
    for size in (1, 2, 9):
        folder = tmp_path / f"parts of {size}"
        with stored(folder, asked) as (store, timings):
            for content in reversed(
                list(cut_parts(map(asdict, pending_questions(asked, store)), size))
            ):
                for row, seconds in unpack(asyncio.run(_create_decider(create)(content))):
                    keep(store, timings, row, seconds)
            store.finish()
        assert (folder / DECISIONS).read_bytes() == (tmp_path / "one" / DECISIONS).read_bytes()


def test_the_questions_of_a_part_that_is_given_up_failed_and_are_asked_again(tmp_path):
    asked = questions(3)
    for _ in range(2):
        with stored(tmp_path, asked) as (store, timings):
            assert store.n_pending == len(asked)
            for content in cut_parts(map(asdict, pending_questions(asked, store)), 2):
                for row, seconds in unpack(fail_questions(content, "too late")):
                    keep(store, timings, row, seconds)
            store.finish()
    assert set(read_run(tmp_path).errors.values()) == {"too late"}


def peak_of_a_run(folder, n):
    """The most memory that a driver needs for so many questions, beyond their file; each decision has 2 KB."""
    folder.mkdir()
    tracemalloc.start()
    try:
        asked = questions(n).first(n - 1)
        with stored(folder, asked) as (store, timings):
            for number, content in enumerate(
                cut_parts(map(asdict, pending_questions(asked, store)), 20)
            ):
                for question in unpack(content):
                    error = "lost " * 400 if number % 2 else None
                    keep(
                        store,
                        timings,
                        {"id": question["id"], "agent": DECIDER, "error": error, "x": "y" * 2000},
                        1.0,
                    )
            assert store.n_pending == 0
            store.finish()
        with stored(folder, asked) as (store, _):
            assert store.n_pending == sum(1 for number in range(n - 1) if number // 20 % 2)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_driver_keeps_the_name_and_the_place_of_a_question_and_nothing_else_of_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda file: None)
    peak_of_a_run(tmp_path / "first", 50)  # so that everything is loaded
    few, many = (peak_of_a_run(tmp_path / str(n), n) for n in (1000, 5000))
    assert many - few < 4000 * 1000, (few, many)  # bytes; a question's line alone has 2 KB
