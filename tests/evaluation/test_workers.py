"""What several processes compute is what one computes; all tests share two processes, which take a second to start."""

import signal
from multiprocessing import active_children
from time import sleep

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import SamplesError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.samples import reader
from coe_agents.evaluation.scoring.scores import ScoringSetup, report, score, score_samples
from coe_agents.evaluation.workers import ALONE, start_workers
from tests.evaluation.invented import group, row, write


@pytest.fixture(scope="module", params=[(1, "ForkProcess"), (2, "SpawnProcess")])
def workers(request):
    """Forked where no other thread can hold a lock, else spawned."""
    n_threads, kind = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coe_agents.evaluation.workers.active_count", lambda: n_threads)
        with start_workers(2) as found:
            patch.undo()
            assert kind in {type(process).__name__ for process in active_children()}
            yield found


def many(n):
    """Questions beyond one part, of different sizes; some without a response, whose batches hold fewer."""
    rows = group(n, n_samples=3)
    rows += [
        row(f"q{number:05}", "d", text="right", question=f"Question {number}?")
        for number in range(0, n, 3)
    ]
    return [
        *rows,
        *(row(f"q{number:05}x", text="", error="ServerError: 500") for number in range(0, n, 5)),
    ]


def test_figures_are_those_of_one_process_to_the_last_bit(tmp_path, workers, monkeypatch):
    path = write(tmp_path / "s.jsonl", many(100))
    with Samples([path]) as questions:
        whole = score(questions, clusterer=NormalizedMatch())
    monkeypatch.setattr(reader, "_SIZE", 10_000)
    for each in (ALONE, workers):
        with Samples([path], workers=each) as questions:
            found = score_samples(questions, ScoringSetup(NormalizedMatch()), workers=each)
        np.testing.assert_equal(found.values, whole.values)
        assert (found.agents, found.absent, found.n_unanswered) == (
            whole.agents,
            whole.absent,
            whole.n_unanswered,
        )
        assert report(found, n_resamples=30, workers=each) == report(whole, n_resamples=30)


def test_faults_name_the_line_of_the_file_whoever_read_it(tmp_path, workers, monkeypatch):
    monkeypatch.setattr(reader, "_SIZE", 500)
    rows = group(30)
    rows[111] = row(index=-1)
    path = write(tmp_path / "s.jsonl", rows)
    for each in (ALONE, workers):
        # once of each of the two
        with pytest.raises(SamplesError, match=r's\.jsonl:112: "index" must be.*\n.*s\.jsonl:112:'):
            Samples([path, path], workers=each)


def test_cases_seen_with_probabilities_of_their_own_are_not_pooled(tmp_path):
    with (
        Samples([write(tmp_path / "s.jsonl", [row(seen_probability=0.5)])]) as found,
        pytest.raises(SamplesError),
    ):
        score(found, clusterer=NormalizedMatch())


def test_a_process_that_is_ended_is_told_and_none_is_left():
    before = set(active_children())
    with (
        pytest.raises(ChildProcessError, match="one of 2 processes was ended"),
        start_workers(2) as found,
    ):
        list(found.map(signal.raise_signal, [signal.SIGKILL] * 3))
    assert set(active_children()) <= before


def test_an_interrupt_ends_the_processes_at_once():
    before = set(active_children())

    def items():
        yield from (60, 60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), start_workers(2) as found:
        list(found.map(sleep, items()))
    assert set(active_children()) <= before
