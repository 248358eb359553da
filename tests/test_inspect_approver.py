"""The approver for inspect_ai. Collected only where COE_INSPECT_PYTHON names an interpreter:

python -m venv FOLDER && FOLDER/bin/pip install '.[openai]' inspect_ai==0.3.285    # then FOLDER/bin/python
"""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.clients]
ROOT = Path(__file__).parent.parent


def test_the_example_runs_what_the_group_would_do_and_nothing_else():
    done = subprocess.run(
        [os.environ["COE_INSPECT_PYTHON"], str(ROOT / "examples" / "inspect_approver.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = [line.split()[1] for line in done.stdout.splitlines() if "group:" in line]
    assert outcomes == ["approve.", "reject.", "escalate."]
    assert done.stdout.count("did not run") == 2
