"""A litellm proxy in front of the server. Tried where COE_LITELLM names the proxy's command:

python -m venv FOLDER && FOLDER/bin/pip install 'litellm[proxy]==1.106.2'    # then FOLDER/bin/litellm
"""

import json
import os
import subprocess
import time

import httpx
import openai
import pytest

from tests.client_table import seen
from tests.ports import reserved_port
from tests.serve.groups import AGREEING, DISAGREEING, create_group
from tests.serve.live import serving

pytestmark = [pytest.mark.slow, pytest.mark.clients]
PROXY, KEY, PATIENCE = "litellm proxy", "sk-local", 600
QUESTION = [{"role": "user", "content": "What is the capital?"}]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """A client of a proxy with the models "agreeing" and "disagreeing"."""
    command = os.environ.get("COE_LITELLM")
    if not command:
        pytest.skip("COE_LITELLM names no litellm; see the first lines of this file")
    with serving(create_group(*AGREEING)) as yes, serving(create_group(*DISAGREEING)) as no:
        models = [
            {"model_name": name, "litellm_params": {"model": "openai/g", "api_base": f"{url}/v1", "api_key": "none"}}
            for name, url in (("agreeing", yes), ("disagreeing", no))
        ]
        folder = tmp_path_factory.mktemp("litellm")
        (folder / "config.yaml").write_text(json.dumps({"model_list": models}))  # JSON is YAML
        with reserved_port() as port:
            own = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            with (folder / "log").open("w") as log:
                process = subprocess.Popen(
                    [command, "--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
                    cwd=folder,
                    env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own,
                    stdout=log,
                    stderr=log,
                )
            try:
                wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "log")
                with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0) as client:
                    yield client.chat.completions.create
            finally:
                process.terminate()
                process.wait(120)


def wait_for(url, process, log):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=10).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    pytest.fail(f"litellm did not start: {log.read_text()[-2000:]}")


def test_an_answer_comes_with_the_numbers(proxy):
    completion = proxy(model="agreeing", messages=QUESTION)
    assert (completion.choices[0].message.content, completion.coe["action"]) == ("Paris", "answer")
    seen(PROXY, "a question that is answered", "`content`; the numbers in `coe`")


def test_a_refusal_is_moved(proxy):
    completion = proxy(model="disagreeing", messages=QUESTION)
    message = completion.choices[0].message
    assert (message.refusal, completion.coe["action"]) == (None, "abstain")
    assert message.content == message.provider_specific_fields["refusal"]
    assert message.content.startswith("No answer: ")
    seen(
        PROXY,
        "a question that is not answered",
        "the sentence in `content`; `provider_specific_fields` has the `refusal`",
    )


def test_a_stream_shows_the_refusal(proxy):
    for model, expected in (("agreeing", "Paris"), ("disagreeing", "No answer: ")):
        stream = proxy(model=model, messages=QUESTION, stream=True)
        text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
        assert text.startswith(expected)
    seen(PROXY, "streams of both", "the answer; the sentence in `content`, without the `refusal`, which litellm drops")


def test_what_is_refused_and_a_stricter_gate_are_passed_on(proxy):
    with pytest.raises(openai.BadRequestError, match='"n" is not supported'):
        proxy(model="agreeing", messages=QUESTION, n=2)
    with pytest.raises(openai.BadRequestError, match="the operator's"):
        proxy(model="agreeing", messages=QUESTION, extra_body={"coe": {"max_coe": 0.9}})
    seen(PROXY, "`n=2`; a looser `max_coe`", "400 with the reason")
