"""What a server says in an error: no key and no escape of a terminal leaves the process, wherever it came from."""

import asyncio
import gc
import json
import logging
import warnings

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coe_agents import ModelAgent, _ring
from coe_agents.agents.requests import send
from coe_agents.decision import GroupDecision
from coe_agents.errors import AgentError
from tests.doubles import REQUEST
from tests.graph.groups import graph
from tests.servers import Served, running, served, write

KEY = "sk-planted-0123456789"


class Quoting(Served):
    """A server that quotes the key of each request in an error, and an escape sequence."""

    def __init__(self, status):
        super().__init__()
        self.status = status

    def handle(self, handler, body):
        sent = handler.headers.get("Authorization") or handler.headers["Api-Key"]
        said = {"error": {"message": f"no access with \x1b[2J{sent}\u202e", "code": 1}}
        write(handler, self.status, json.dumps(said).encode())


def rotating():
    """Returns a function that gives another key each time, as short-lived tokens are."""
    number = iter(range(10**6))
    return lambda: f"sk-planted-{next(number):010}"


def with_key(key):
    return lambda server: ChatOpenAI(
        model="served", base_url=server.url, api_key=key, max_retries=0
    )


draw = rotating()


async def coroutine():
    return draw()


def azure(server):
    options = {"azure_endpoint": server.url, "api_version": "1", "azure_deployment": "d"}
    return AzureChatOpenAI(**options, azure_ad_token_provider=rotating())


@pytest.mark.parametrize(
    ("model", "status"),
    [(with_key(KEY), 401), (with_key(rotating()), 403), (with_key(coroutine), 500), (azure, 200)],
    ids=["static", "function", "coroutine", "azure"],
)
def test_neither_a_key_nor_an_escape_leaves_the_process(
    model, status, caplog, recwarn, monkeypatch
):
    monkeypatch.setattr(send, "_FIRST_WAIT", 0.02)
    caplog.set_level(logging.DEBUG, logger="coe_agents")
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with running(Quoting(status)) as server:
        agents = [ModelAgent(name, model(server), n_samples=1, retries=1) for name in "ab"]
        callbacks = []
        if _ring.is_there("observability"):
            telemetry = _ring.load("observability:CoETelemetry")
            callbacks.append(telemetry(tracer_provider=provider, content=True))
        run = (
            graph(*agents, retries=1)
            .compile()
            .ainvoke({"question": "Capital?"}, {"callbacks": callbacks})
        )
        decision = asyncio.run(run)["decision"]
        with pytest.raises(AgentError) as raised:
            asyncio.run(agents[0].asample(REQUEST))
    assert set(decision["failed_agents"]) == {"a", "b"}
    exported = [
        f"{span.name} {dict(span.attributes)} {span.events}"
        for span in exporter.get_finished_spans()
    ]
    logged = [
        record.getMessage() for record in caplog.records if record.name.startswith("coe_agents")
    ]
    shown = [
        json.dumps(decision),
        GroupDecision.from_data(decision).explain(),
        str(raised.value),
        *exported,
        *logged,
    ]
    for text in shown:
        assert "planted" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_model_answers_in_one_event_loop_after_another():
    async def ask_and_close():
        reply = await agent.asample(REQUEST)
        await chat.root_async_client.close()
        return reply

    with served(("Paris",), keeps_alive=True) as server, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # the connections of the loops that have ended
        chat = server.chat()
        agent = ModelAgent("a", chat, n_samples=3, retries=0)
        replies = [asyncio.run(agent.asample(REQUEST)) for _ in range(3)]
        replies.append(asyncio.run(ask_and_close()))
        gc.collect()
    assert [len(reply["responses"]) for reply in replies] == [3, 3, 3, 3]
