"""Real vLLM servers for the tests marked "vllm": tinyworld's three models."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import MODELS
from examples.vllm_three_servers import Server, serving

# tinyworld's models write calls as Hermes does; this changes nothing in requests without tools
FLAGS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
# they start sooner, with a process less each, and compile nothing for the first request
FLAGS += ["--distributed-executor-backend", "uni"]
SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCHDYNAMO_DISABLE": "1"}


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Server]]:
    python = os.environ.get("COE_VLLM_PYTHON")
    if not python:
        pytest.skip(
            'COE_VLLM_PYTHON names no interpreter with vLLM; "make test-vllm" makes one and runs these tests'
        )
    models = {name: str(model_folder(name)) for name in MODELS}
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="coe")
        )  # short: paths of sockets go under it
        with patch.dict(os.environ, SETTINGS):
            running = stack.enter_context(
                serving(models, python=python, folder=Path(folder), flags=FLAGS)
            )
        yield running
