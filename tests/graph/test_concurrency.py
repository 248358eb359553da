import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.graph.groups import decide, saying


@pytest.mark.slow
def test_it_takes_less_than_three_times_an_empty_graph():
    # in a process of its own: full garbage collections walk through what other tests left in the memory of this one
    code = "import json, sys; sys.path.insert(0, 'benchmarks'); from concurrency import costs\n"
    command = [sys.executable, "-c", code + "print(json.dumps(costs(saved=False, repeats=3)))"]
    printed = subprocess.check_output(
        command, cwd=Path(__file__).parents[2], text=True
    ).splitlines()[-1]
    ratios = {clock: ratio for clock, (_, _, ratio) in json.loads(printed).items()}
    assert ratios["wall"] < 10  # it would be more if agents waited for one another
    assert ratios["cpu"] < 3


def test_an_agent_that_answers_is_not_searched_for_secrets():
    class Watched(dict):
        def items(self):
            raise AssertionError("searched: this took longer than the rest of a run")

    agents = saying("Paris", "Paris")
    agents[0].options = Watched(api_key="sk-0123456789")
    assert decide(*agents)["answer"] == "Paris"
