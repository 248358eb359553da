import io
import time

import pytest
from rich.console import Console

from coe_agents import run
from coe_agents.activity import COUNT, activities, announce
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.progress import progress
from coe_agents.testing import ScriptedAgent
from coe_agents.types import SampledQuestion
from tests.evaluation.invented import row
from tests.waiting import until, wait_until


def shown(*, terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with progress({"a[b]": (1, 3), "c": (0, 2)}, console=console, every=0.0) as advance:
        for name, failed in (("a[b]", False), ("c", True), ("c", False), ("a[b]", False)):
            advance(name, failed)
    return out.getvalue()


def test_without_a_terminal_lines_count_all_requests_and_failures():
    lines = shown(terminal=False).splitlines()
    assert [line.split(" requests")[0] for line in lines] == [
        "2 of 5",
        "3 of 5",
        "4 of 5",
        "5 of 5",
    ]
    assert [line.rpartition(", ")[2] for line in lines] == [
        "0 failed",
        "1 failed",
        "1 failed",
        "1 failed",
    ]
    assert lines[0] == "2 of 5 requests, 0 failed"
    assert "a second" in lines[1]
    assert lines[-1].endswith("0 s left, 1 failed")


def test_without_a_terminal_there_is_a_line_before_the_first_request_is_done_and_after_it():
    out = io.StringIO()

    def has(line):
        return lambda: out.getvalue().splitlines()[-2:] == [line] * 2

    with progress({"a": (0, 4)}, console=Console(file=out, width=100), every=0.01) as advance:
        wait_until(has("0 of 4 requests, 0 failed"))
        advance("a", True)
        wait_until(has("1 of 4 requests, 1 failed"))
    n_lines = len(out.getvalue())
    time.sleep(0.05)
    assert len(out.getvalue()) == n_lines


def test_a_terminal_has_a_bar_for_each_agent():
    text = shown(terminal=True)
    assert "a[b]" in text
    assert "3/3" in text
    assert "2/2" in text
    assert "1 failed" in text


def test_a_terminal_shows_what_is_done_now():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with announce("loading a\x1b[2Jb[/c]"), progress({}, console=console, is_kept=False):
        pass
    assert "loading a\ufffd[2Jb[/c]" in out.getvalue()


def test_without_a_terminal_what_is_not_kept_leaves_no_line():
    out = io.StringIO()
    with progress({"a": (0, 1)}, console=Console(file=out), is_kept=False) as advance:
        advance("a", False)
    assert out.getvalue() == ""


def answered(index):
    return row(index=index, text=f"text {index}", answer=None, logprob=None, n_tokens=None)


@pytest.fixture
def counts():
    counted = []
    before = COUNT.set(counted.append)
    yield counted
    COUNT.reset(before)


def test_questions_are_counted_while_their_responses_are_compared(counts):
    """Ten texts each: the seventh question is the first to bring the texts to 64."""
    questions = []
    for number in range(20):
        rows = tuple(map(answered, range(10)))
        questions.append(SampledQuestion(f"q{number}", "?", (), rows, ()))
    statistics = iter_statistics(questions, clusterer=NormalizedMatch())
    assert counts == []
    next(statistics)
    assert counts == [7, 7, 6]


@pytest.mark.parametrize(
    ("n", "words"),
    [(1, "1 of 2 agents answered: a"), (2, "2 questions are asked: 2 of 4 agents answered")],
)
def test_a_run_shows_who_has_answered_within_a_question(n, words):
    seen = []

    class Slow(ScriptedAgent):
        async def asample(self, request, config=None):
            await until(lambda: bool(seen) or words in activities())
            seen.append(words)
            return self.sample(request)

    agents = [ScriptedAgent("a", ["Paris"]), Slow("b", ["Paris"])]
    questions = [f"Question {number}?" for number in range(n)]
    runs = run(agents, questions, at_once=n, progress=False)
    assert [item.error for item in runs] == [None] * n
    assert len(seen) == n
    assert activities() == []
