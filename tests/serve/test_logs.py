import asyncio
import io
import logging
import re
import warnings
from dataclasses import replace

import pytest

from coe_agents.serve import access
from coe_agents.serve.http_server import SafeFormatter, log_warning
from tests.serve.groups import (
    AGREEING,
    DISAGREEING,
    KEY,
    WITHHELD,
    body_of,
    client_of,
    create_group,
)
from tests.serve.test_event_stream import BrokenPolicy


@pytest.fixture
def log(caplog, monkeypatch):
    """The log as the command writes it, from the first level on."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(
        caplog.handler, "formatter", SafeFormatter("%(name)s %(levelname)s %(message)s")
    )
    return caplog


async def test_a_line_for_each_request(log):
    async with client_of(create_group(*DISAGREEING)) as client:
        await client.post("/v1/chat/completions", json=body_of())
        await client.get("/v1/models?key=secret")
        await client.get("/v1/secret")
    lines = [line for line in log.text.splitlines() if line.startswith("coe_agents.serve INFO")]
    assert lines[0].startswith("coe_agents.serve INFO POST /v1/chat/completions 200 0.")
    assert lines[0].endswith(" action abstain regime conflict coe 1.099")
    assert "GET /v1/models 200" in lines[1]
    assert "GET (another address) 404" in lines[2]
    assert not any(line.endswith(" ") for line in lines)
    assert "secret" not in "".join(lines)


async def test_no_question_response_or_key_is_logged(log):
    broken = create_group(["Canberra"], ["Canberra"], policy=BrokenPolicy())
    failing = create_group(["Canberra"], ["Sydney"], ConnectionError("Melbourne lost"), retries=1)
    headers = {"authorization": f"Bearer {KEY}"}
    for group in (create_group(*DISAGREEING), broken, failing):
        async with client_of(group, key=KEY, headers=headers) as client:
            await asyncio.gather(
                client.post("/v1/chat/completions", json=body_of("What is planted?")),
                client.post("/events", json={"question": "What is planted?"}),
                client.get("/group", headers={"authorization": f"Bearer {KEY}x"}),
            )
    shown = log.text
    assert "POST /events 200" in shown
    assert "RuntimeError" in shown  # the kind of a failure, and where
    assert "test_event_stream.py" in shown
    assert not [word for word in (*WITHHELD, "planted", KEY) if word in shown]


async def test_a_fault_of_the_server_itself_is_a_500_without_its_message(log):
    class Unprintable:
        def __repr__(self):
            return "planted"

    async with client_of(replace(create_group(*AGREEING), examples=(Unprintable(),))) as client:
        response = await client.get("/group")
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "coe_agents.serve ERROR TypeError\n" in log.text
    assert "coe_agents.serve INFO GET /group 500" in log.text
    assert "planted" not in response.text + log.text


def test_messages_of_other_packages_are_not_shown():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter("%(levelname)s %(message)s"))
    for name in ("langgraph.pregel", "uvicorn.error"):
        try:
            raise ValueError("planted")
        except ValueError as error:
            record = logging.LogRecord(name, logging.ERROR, "x.py", 1, "all is %s", ("lost",), None)
            record.exc_info = (ValueError, error, error.__traceback__)
            handler.handle(record)
    assert stream.getvalue() == (
        "ERROR langgraph.pregel logs a message, which is not shown (ValueError)\nERROR all is lost (ValueError)\n"
    )


def test_a_warning_is_logged_by_its_kind_and_place_alone(log, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = log_warning
        warnings.warn("expected a number, got input_value='Canberra'", UserWarning, stacklevel=1)
    assert re.fullmatch(r"coe_agents.serve WARNING UserWarning at \S+test_logs.py:\d+\n", log.text)
    assert capsys.readouterr().err == ""


def test_the_line_of_a_request_has_no_numbers_of_too_few_agents():
    decision = {"action": "abstain", "coe": 0.0, "regime": None, "failed_agents": {"b": "down"}}
    scope = {access._OUTCOME: {}}
    access.note_decision(scope, decision)
    assert scope[access._OUTCOME] == {"action": "abstain", "failed": 1}
    access.note_decision(scope, {**decision, "regime": "consensus"})
    assert scope[access._OUTCOME]["coe"] == "0.000"
