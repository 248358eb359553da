"""Real vLLM servers for the tests marked "vllm": tinyworld's three models, and one that a test may kill."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import MODELS
from examples.vllm_three_servers import Server, serving

DOOMED = "doomed"
# tinyworld's models write calls as Hermes does; this changes nothing in requests without tools
TOOL_FLAGS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


def vllm_python() -> str:
    """The interpreter of an environment with vLLM; without one the test is skipped."""
    python = os.environ.get("COE_VLLM_PYTHON")
    if not python:
        pytest.skip('COE_VLLM_PYTHON names no interpreter with vLLM; "make test-vllm" makes one and runs these tests')
    return python


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Server]]:
    python = vllm_python()
    models = {name: str(model_folder(name)) for name in MODELS} | {DOOMED: str(model_folder(MODELS[0]))}
    with (
        tempfile.TemporaryDirectory(prefix="coe") as folder,  # short: paths of sockets go under it
        serving(models, python=python, folder=Path(folder), flags=TOOL_FLAGS) as running,
    ):
        yield running
