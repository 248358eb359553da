"""What several processes compute is what one computes."""

import os
import signal

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import SamplesError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.parallel import map_in_processes
from coe_agents.evaluation.scoring.scores import ScoringSetup, report, score_samples
from tests.evaluation.invented import group, row, score, write


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


@pytest.mark.slow
def test_figures_are_those_of_one_process_to_the_last_bit(tmp_path):
    path = write(tmp_path / "s.jsonl", many(300))
    with Samples([path]) as questions:
        whole = score(questions, clusterer=NormalizedMatch())
        found = score_samples(questions, ScoringSetup(NormalizedMatch()), n_processes=2)
    np.testing.assert_equal(found.values, whole.values)
    assert (found.agents, found.absent, found.n_unanswered) == (
        whole.agents,
        whole.absent,
        whole.n_unanswered,
    )
    assert report(found, n_resamples=30, n_processes=2) == report(whole, n_resamples=30)


def test_cases_seen_with_probabilities_of_their_own_are_not_pooled(tmp_path):
    with (
        Samples([write(tmp_path / "s.jsonl", [row(seen_probability=0.5)])]) as found,
        pytest.raises(SamplesError),
    ):
        score(found, clusterer=NormalizedMatch())


def end_process(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_is_ended_is_named():
    with pytest.raises(ChildProcessError, match="one of 2 processes was ended"):
        list(map_in_processes(end_process, [1, 2], 2))
