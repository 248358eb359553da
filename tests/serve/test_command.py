import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.cli.command import run
from tests.serve.groups import KEY
from tests.serve.live import command, written
from tests.servers import Served, running


def get(url, **options):
    return httpx.get(url, timeout=120, **options)


def ask(address, **fields):
    body = {
        "model": "coe",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        **fields,
    }
    return httpx.post(f"{address}/v1/chat/completions", json=body, timeout=120)


def test_a_port_in_use_is_one_message(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("serve", "--config", written(tmp_path), "--port", taken.getsockname()[1], code=1)
    assert (
        "is taken: Address already in use. Choose another with --port; 0 takes a free one"
        in done.stderr
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_questions_in_flight_are_answered_before_it_ends(number, tmp_path):
    with (
        running(Served(("Paris",), seconds=0.5, gathers=6)) as model,
        ThreadPoolExecutor() as threads,
    ):
        path = written(tmp_path, model.url)
        with command("--config", path) as process:
            assert get(f"{process.address}/v1/models").json()["data"][0]["id"] == "coe"
            asked = [threads.submit(ask, process.address) for _ in range(5)]
            with model.lock:
                assert model.lock.wait_for(lambda: model.n_busy == 5, 60)
                process.send_signal(number)
                model.gathers = 5
                model.lock.notify_all()
            answers = [each.result().json()["choices"][0]["message"]["content"] for each in asked]
            assert answers == ["Paris"] * 5
            assert process.wait(60) == 0
            with pytest.raises(httpx.ConnectError):
                ask(process.address)
            log = process.log
    assert log.count("POST /v1/chat/completions 200") == 5
    assert "Paris" not in log


@pytest.mark.slow
def test_a_question_that_takes_longer_than_the_grace_is_given_up(tmp_path):
    with running(Served(("Paris",), seconds=600)) as model, ThreadPoolExecutor() as threads:
        path = written(tmp_path, model.url)
        with command("--config", path, "--grace", 1) as process:
            asked = threads.submit(ask, process.address)
            with model.lock:
                assert model.lock.wait_for(lambda: model.n_busy == 1, 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0  # the model takes ten minutes
            assert asked.exception() is not None or asked.result().status_code >= 500
            log = process.log
    assert "Traceback" not in log


@pytest.mark.slow
def test_the_command_behind_a_key(tmp_path):
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    options = ("--host", "0.0.0.0", "--allow-host", "ask.example", "--metrics", "--open")
    with command(
        "--api-key-env", "COE_PLANTED", *options, COE_PLANTED=KEY, BROWSER=f"{browser} %s"
    ) as process:
        assert get(f"{process.address}/health", headers={"host": "ask.example"}).status_code == 200
        assert get(f"{process.address}/health", headers={"host": "0.0.0.0"}).status_code == 400
        assert opened.read_text().strip() == process.address
        assert get(f"{process.address}/health").status_code == 200
        for path in ("/", "/metrics", "/group", "/v1/models"):
            assert get(f"{process.address}{path}").status_code == 401
            shown = get(f"{process.address}{path}", headers={"authorization": f"Bearer {KEY}"})
            assert shown.status_code == 200
        group = get(f"{process.address}/group", auth=("", KEY)).json()
        assert group["model"] == "tinyworld"
        assert group["is_toy"] is True
        assert len(group["examples"]) == 5
        asked = {"question": "What is the capital of Australia?"}
        events = httpx.post(
            f"{process.address}/events", json=asked, auth=("", KEY), timeout=120
        ).text
        assert '"action": "abstain"' in events
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0
        log = process.log
    assert KEY not in log
    assert "Canberra" not in log
