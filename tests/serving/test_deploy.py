"""What can be checked of `deploy/` without Docker, which runs neither in the tests nor where they were written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
EXAMPLE = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "example.env").read_text(), re.MULTILINE))


def services(name):
    return yaml.safe_load((DEPLOY / name).read_text())["services"]


def test_the_server_is_told_where_the_data_are_and_both_are_published_on_loopback_unless_asked_for_otherwise():
    (server,) = services("server.yml").values()
    assert {"DATABASE_URI", "REDIS_URI", "LANGGRAPH_CLOUD_LICENSE_KEY"} <= set(
        server["environment"]
    )
    assert server["ports"] == ["127.0.0.1:8123:8000"]
    data = services("data.yml")
    assert set(data) == {"postgres", "redis"}
    assert all(
        port.startswith("${DATA_ADDRESS:-127.0.0.1}:")
        for service in data.values()
        for port in service["ports"]
    )


@pytest.mark.parametrize("name", ["server.yml", "data.yml"])
def test_no_secret_stands_in_a_file_and_the_example_names_every_variable(name):
    text = (DEPLOY / name).read_text()
    required = set(re.findall(r"\$\{(\w+):\?", text))
    assert required
    assert required <= set(EXAMPLE)
    for service in services(name).values():
        for variable, value in service["environment"].items():
            assert not re.search("PASSWORD|KEY|AUTH|URI", variable) or value.startswith("${"), (
                variable
            )


def test_the_image_would_hold_every_graph(tmp_path):
    command = [
        str(Path(sys.executable).with_name("langgraph")),
        "dockerfile",
        str(tmp_path / "Dockerfile"),
    ]
    quiet = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    config = json.loads((ROOT / "langgraph.json").read_text())
    assert (config["python_version"], config["env"]["LANGSMITH_TRACING"]) == ("3.12", "false")
    served = re.search("LANGSERVE_GRAPHS='(.*)'", (tmp_path / "Dockerfile").read_text())[1]
    assert set(json.loads(served)) == set(config["graphs"])
