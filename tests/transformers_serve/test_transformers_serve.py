"""Against a real `transformers serve` on loopback, which decodes greedily whatever temperature it is asked for."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent
from coe_agents.tinyworld import model_folder
from tests.client_table import seen
from tests.graph.groups import decide
from tests.ports import reserved_port

pytestmark = [pytest.mark.slow, pytest.mark.clients]
pytest.importorskip("fastapi", reason="transformers serve needs transformers[serving]")

VANUATU = "What is the capital of Vanuatu?"
COMMANDS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """Serves whatever folder a request names as its model."""
    with reserved_port() as port:
        log = tmp_path_factory.mktemp("transformers-serve") / "log"
        command = [
            COMMANDS / "transformers",
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--device",
            "cpu",
        ]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        with (
            log.open("wb") as file,
            subprocess.Popen(command, stdout=file, stderr=file, env=environment) as server,
        ):
            try:
                for _ in range(6000):
                    try:
                        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                        break
                    except OSError:
                        assert server.poll() is None, log.read_text()
                        time.sleep(0.1)
                else:
                    pytest.fail(f"it did not start in time:\n{log.read_text()}")
                yield f"http://127.0.0.1:{port}/v1"
            finally:
                server.terminate()
                try:
                    server.wait(60)
                except subprocess.TimeoutExpired:
                    server.kill()


def agents(url: str, *models: str, **options) -> list[ModelAgent]:
    """One agent of each of tinyworld's models."""
    return [
        ModelAgent(
            model,
            ChatOpenAI(model=str(model_folder(model)), base_url=url, api_key="none"),
            **{"n_samples": 5, "max_tokens": 24, **options},
        )
        for model in models
    ]


def decided(group: list[ModelAgent]) -> dict:
    return decide(*group, question=VANUATU)


def test_vanuatu_is_not_answered_though_all_responses_are_equal(url):
    trusted = decided(agents(url, "tiny-llama", on_greedy="trust"))
    assert (trusted["action"], trusted["coe"]) == (
        "answer",
        0.0,
    )  # what a group is told that does not look
    assert "Port Vila" not in trusted["answer"]
    assert trusted["agents"]["tiny-llama"]["sampling"][0]["rung"] == "each"

    decision = decided(agents(url, "tiny-llama"))
    assert (decision["action"], decision["answer"], decision["coe"]) == ("abstain", None, None)
    assert "its temperature has no effect" in decision["reason"]
    said = decision["failed_agents"]["tiny-llama"]
    told = f"IgnoredTemperatureError: the temperature of 1 has no effect at {url}: 5 responses are equal"
    assert said.startswith(told)
    assert "on_greedy" in said


def test_nor_by_a_group_of_three(url):
    decision = decided(agents(url, "tiny-llama", "tiny-mistral", "tiny-qwen2"))
    assert (decision["action"], decision["coe"]) == ("abstain", None)
    assert set(decision["failed_agents"]) == {"tiny-llama", "tiny-mistral", "tiny-qwen2"}
    seen(
        "`transformers serve`",
        "a group whose temperature it ignores",
        "no answer; an `IgnoredTemperatureError`",
    )


def test_it_is_an_agent_where_the_model_is_made_to_sample(url):
    sampling = {
        "generation_config": json.dumps({"do_sample": True, "top_k": 0, "max_new_tokens": 24})
    }
    (agent,) = agents(url, "tiny-llama", n_samples=8)
    chat = ChatOpenAI(
        model=str(model_folder("tiny-llama")), base_url=url, api_key="none", extra_body=sampling
    )
    decision = decided([ModelAgent(agent.name, chat, n_samples=8)])
    assert decision["failed_agents"] == {}
    assert decision["action"] == "abstain"
    assert decision["coe"] > 0.7
    seen(
        "`transformers serve`", "the same with `do_sample` for the request", "an agent like others"
    )
