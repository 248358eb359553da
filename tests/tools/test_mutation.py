import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutation.__main__ import iter_modules
from tools.mutation.changes import iter_changes
from tools.mutation.explanations import Explanations
from tools.mutation.run import path_of

ROOT = Path(__file__).parent.parent.parent
FILES = {
    "coe_agents/__init__.py": "",
    "coe_agents/rounds/__init__.py": "",
    "coe_agents/rounds/limits.py": "def is_large(value: int) -> bool:\n    return value > 10\n",
    "tests/rounds/test_limits.py": """from coe_agents.rounds.limits import is_large

def test_both_sides():
    assert is_large(20) and not is_large(3)
""",
    "conftest.py": "from hypothesis import settings\n\nsettings.register_profile('mutation')",
    "pytest.ini": "[pytest]\nmarkers =\n  slow\n  clients",
}


@pytest.mark.slow  # it starts pytest a dozen times
def test_what_no_test_notices_is_listed_and_what_was_found_is_kept(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    command = [sys.executable, "-m", "tools.mutation", "rounds.limits", "--jobs", "1"]
    # the package of that folder comes before the one that is installed
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        assert (
            "NOT EXPLAINED: rounds.limits:2 is_large: value > 10 -> value >= 10 (compare)"
            in done.stdout
        )
        assert (
            "| `rounds.limits` | 5 | 2 | 0 | 3 | 0 | 0 |" in done.stdout
        )  # killed: always True, always False
        assert len((tmp_path / "mutants/results.jsonl").read_text().splitlines()) == 5


@pytest.mark.slow
def test_every_reason_why_a_change_may_survive_is_about_a_change():
    explanations = Explanations()
    changes = []
    for module in iter_modules():
        path = path_of(module)
        changes += iter_changes(module, path.read_text("utf-8"), str(path))
    stale = [each for each in explanations if not any(map(each.matches, changes_of(each, changes)))]
    assert stale == []


def changes_of(explanation, changes):
    place = (explanation.module, explanation.function)
    return [change for change in changes if (change.module, change.function) == place]
