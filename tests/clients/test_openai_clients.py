"""Clients of OpenAI's API that are not ours: each asks the same questions of the same group, and prints its rows.

A client runs by its script in this folder, in an environment of the folder that `COE_OPENAI_CLIENTS` names, which
`make clients` sets. The SDKs of OpenAI and LangChain are here anyway.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_table import CLIENTS, shown_by
from tests.clients.server import versed_group
from tests.serve.live import serving

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def address():
    with serving(versed_group()) as served:
        yield f"{served}/v1"


def check(script, printed):
    found = json.loads(printed.splitlines()[-1])
    for form, shown in found["shown"].items():
        cells = shown_by(script, found["version"], form, shown)
        assert cells["refusal"] != "nothing", form


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # a client that warns goes on
@pytest.mark.parametrize(
    "script", [script for script, (_, folder) in CLIENTS.items() if folder is None]
)
def test_a_client_that_is_here(address, script, monkeypatch, capsys):
    path = FOLDER / f"ask_{script}.py"
    monkeypatch.setattr(sys, "argv", [str(path), address])
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "report", raising=False)
    runpy.run_path(str(path))
    check(script, capsys.readouterr().out)


def ask(address, script, folder):
    if script.endswith(".mjs"):
        for name in (
            "report.mjs",
            f"ask_{script}",
        ):  # beside the packages, where node looks for them
            shutil.copy(FOLDER / name, folder)
        command = ["node", folder / f"ask_{script}", address]
    else:
        command = [folder / "bin" / "python", FOLDER / f"ask_{script}.py", address]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = {
        "OPENAI_API_KEY": "none",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HOME": os.environ.get("HOME", "/tmp"),
    }
    env = kept | own
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=600, env=env
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize(
    ("script", "folder"), [(script, folder) for script, (_, folder) in CLIENTS.items() if folder]
)
def test_a_client_in_its_own_environment(address, script, folder):
    place = os.environ.get("COE_OPENAI_CLIENTS")
    if not place:
        pytest.skip("COE_OPENAI_CLIENTS names no folder of environments; see make clients")
    check(script, ask(address, script, Path(place) / folder))
