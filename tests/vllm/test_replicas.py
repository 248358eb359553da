"""Two vLLM servers of one model, one of which is killed while questions are under way."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent
from coe_agents.tinyworld import load_facts, model_folder
from coe_agents.types import AgentRequest
from examples.vllm_three_servers import serving
from tests.client_table import seen
from tests.vllm.conftest import vllm_python

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


async def test_no_question_is_lost_with_a_server_that_is_killed():
    folder, done = str(model_folder("tiny-llama")), []
    questions = [fact.question for fact in load_facts()][:200]
    with (
        tempfile.TemporaryDirectory(prefix="coe") as scratch,  # short: paths of sockets go under it
        serving(
            {"sound": folder, "doomed": folder},
            python=vllm_python(),
            folder=Path(scratch),
            flags=("--served-model-name", "served"),
        ) as servers,
    ):
        chats = [ChatOpenAI(model="served", base_url=server.url, api_key="none") for server in servers.values()]
        agent = ModelAgent("a", chats, n_samples=10, max_tokens=32, seed=1)

        async def ask(question: str) -> None:
            messages = [{"role": "user", "content": question}]
            reply = await agent.asample(AgentRequest(question=question, messages=messages, round=0))
            done.append(len(reply["responses"]))
            if len(done) == 40:
                os.killpg(servers["doomed"].process.pid, signal.SIGKILL)

        await asyncio.gather(*map(ask, questions))
        assert servers["doomed"].process.wait(timeout=20) == -signal.SIGKILL
    assert done == [10] * 200
    seen("vLLM", "a killed server of several with the same model", "no question is lost")
