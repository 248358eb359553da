"""Groups to serve, without models, and a client that asks an application in this process."""

import asyncio
import threading

import httpx

from coe_agents import SupportPolicy, ThresholdPolicy
from coe_agents.clustering import NormalizedMatch
from coe_agents.serve import Group, create_app
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import with_options
from tests.waiting import until

KEY = "planted-key-0123456789"
AGREEING = (["Paris"], ["paris."], ["Paris"])
DISAGREEING = (["Canberra"], ["Sydney"], ["Melbourne"])
WITHHELD = ("Canberra", "Sydney", "Melbourne")


def create_group(*said, **options):
    """Returns a group of agents "a", "b", ... each of which says its list of responses, or raises its exception."""
    return group_of(
        *(ScriptedAgent(name, each) for name, each in zip("abcdef", said, strict=False)), **options
    )


def supporting(*said, **options):
    """Returns a group of agents that say one text, or propose one list of calls, each; most support counts."""
    return create_group(*([each] for each in said), **{"policy": SupportPolicy(0.5), **options})


def group_of(*agents, max_coe=0.6, policy=None, **options):
    """Returns the group "g" of these agents."""
    policy = policy or ThresholdPolicy(max_coe)
    return Group.of(
        [*agents],
        clusterer=NormalizedMatch(),
        policy=policy,
        name="g",
        **with_options({"retries": 0, **options}),
    )


class SlowAgent(ScriptedAgent):
    def __init__(self, name, *rounds, seconds):
        super().__init__(name, *rounds)
        self.seconds = seconds
        self.n_started = 0
        self.n_ended = 0
        self.started = asyncio.Event()

    async def asample(self, request, config=None):
        self.n_started += 1
        self.started.set()
        await asyncio.sleep(self.seconds)
        self.n_ended += 1
        return self.sample(request, config)


class HeldAgent(SlowAgent):
    """Answers once it is let, which may be from another thread, and from then on at once."""

    def __init__(self, name, *rounds):
        super().__init__(name, *rounds, seconds=0)
        self.let = threading.Event()

    async def asample(self, request, config=None):
        await until(self.let.is_set)
        return await super().asample(request, config)


def client_of(group, *, headers=None, **options):
    app = create_app(group, **options)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=headers or {}
    )


def body_of(question="What is the capital?", **fields):
    return {"model": "g", "messages": [{"role": "user", "content": question}], **fields}


async def complete(group, question="What is the capital?", **fields):
    async with client_of(group) as client:
        return await client.post("/v1/chat/completions", json=body_of(question, **fields))


async def respond(group, given="What is the capital?", **fields):
    """Asks one question of the Responses API; returns the response."""
    async with client_of(group) as client:
        return await client.post("/v1/responses", json={"model": "g", "input": given, **fields})
