"""Metrics of real runs, through the SDK's in-memory reader."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from coe_agents import ModelAgent, RegimePolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import CoEState
from coe_agents.observability import CoETelemetry
from tests.doubles import CountingModel, ScriptedAgent


class Recorded:
    """A handler whose metrics stay in memory."""

    def __init__(self):
        self.reader = InMemoryMetricReader()
        self.handler = CoETelemetry(meter_provider=MeterProvider([self.reader]))
        self.handler.raise_error = True  # LangChain would only log it

    @property
    def config(self):
        return {"callbacks": [self.handler]}

    def points(self, name):
        scopes = self.reader.get_metrics_data().resource_metrics[0].scope_metrics
        found = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return {tuple(sorted(p.attributes.items())): p for metric in found for p in metric.data.data_points}

    def everything(self):
        return str(self.reader.get_metrics_data())


def graph(*agents, **options):
    agents = agents or (ScriptedAgent("a", ["secret Paris"]), ScriptedAgent("b", ["secret Lyon"]))
    policy = RegimePolicy(0.5, 0.3, actions={"conflict": options.pop("conflict", "abstain")})
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, retries=0, **options)


def test_runs_at_the_same_time_do_not_mix():
    recorded, compiled, n_runs = Recorded(), graph().compile(), 8

    async def arun():
        await asyncio.gather(*(compiled.ainvoke({"question": f"{i}?"}, recorded.config) for i in range(n_runs)))

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(compiled.invoke, {"question": f"{i}?"}, recorded.config) for i in range(n_runs)]
        asyncio.run(arun())
        for future in done:
            future.result()
    assert not recorded.handler._runs
    ((attributes, point),) = recorded.points("coe.decisions").items()
    assert (dict(attributes), point.value) == ({"coe.action": "abstain", "coe.regime": "conflict"}, 2 * n_runs)


@pytest.mark.parametrize(("divergence", "named"), [("js", {}), ("wasserstein", {"coe.divergence": "total_variation"})])
def test_a_divergence_without_a_unit_is_named(divergence, named):
    recorded = Recorded()
    graph(divergence=divergence).compile().invoke({"question": "Q?"}, recorded.config)
    (attributes,) = recorded.points("coe.collaborative_entropy")
    assert dict(attributes) == {"coe.action": "abstain", **named}


def test_decisions_tokens_and_entropy_are_counted():
    recorded = Recorded()
    graph().compile().invoke({"question": "Q?"}, recorded.config)
    (entropy,) = recorded.points("coe.collaborative_entropy").values()
    assert (entropy.count, entropy.sum) == (1, pytest.approx(0.6931, abs=1e-4))
    (attributes,) = recorded.points("coe.collaborative_entropy")
    assert dict(attributes) == {"coe.action": "abstain"}
    tokens = {
        (dict(key)["coe.agent"], dict(key)["coe.direction"]): p.value
        for key, p in recorded.points("coe.tokens").items()
    }
    assert tokens == {("a", "input"): 3, ("a", "output"): 1, ("b", "input"): 3, ("b", "output"): 1}
    assert not recorded.points("coe.failures")


def test_several_rounds_are_one_decision():
    recorded = Recorded()
    graph(conflict="another_round", max_rounds=2).compile().invoke({"question": "Q?"}, recorded.config)
    assert [point.value for point in recorded.points("coe.decisions").values()] == [1]


def test_a_failed_agent_is_counted_by_its_error():
    recorded = Recorded()
    agents = ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", OSError("secret address"))
    graph(*agents, min_agents=1).compile().invoke({"question": "Q?"}, recorded.config)
    ((attributes, point),) = recorded.points("coe.failures").items()
    assert (dict(attributes), point.value) == ({"coe.agent": "b", "error.type": "OSError"}, 1)
    assert "secret" not in recorded.everything()


def test_nothing_measured_has_no_entropy_and_no_regime():
    recorded = Recorded()
    graph(*(ScriptedAgent(name, OSError("gone")) for name in "ab")).compile().invoke(
        {"question": "Q?"}, recorded.config
    )
    assert [dict(key)["coe.regime"] for key in recorded.points("coe.decisions")] == ["none"]
    assert not recorded.points("coe.collaborative_entropy")


def test_a_graph_in_a_graph_counts_once():
    def ask_a_person(state):
        interrupt(state["decision"]["reason"])
        return {}

    recorded = Recorded()
    parent = StateGraph(CoEState)
    parent.add_node("answer", graph().compile())  # named like an end of ours
    parent.add_node("person", ask_a_person)
    parent.add_edge(START, "answer")
    parent.add_edge("answer", "person")
    config = {**recorded.config, "configurable": {"thread_id": "1"}}
    parent.compile(checkpointer=InMemorySaver()).invoke({"question": "Q?"}, config)
    assert [point.value for point in recorded.points("coe.decisions").values()] == [1]


def test_a_request_that_was_given_up_ends_with_its_run():
    class Hanging(CountingModel):
        async def _agenerate(self, *args, **kwargs):
            await asyncio.sleep(600)

    recorded = Recorded()
    agents = [ModelAgent(name, Hanging(), n_samples=1, timeout=1.0, retries=0) for name in "ab"]
    asyncio.run(graph(*agents).compile().ainvoke({"question": "Q?"}, recorded.config))
    assert {dict(key)["error.type"] for key in recorded.points("coe.failures")} == {"AgentTimeoutError"}
    assert not recorded.handler._runs


def test_it_is_off_and_not_imported_by_default():
    code = "import sys, coe_agents.cli.ask, coe_agents.config.build; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "coe_agents.graph" in done.stdout.split()
    assert "coe_agents.observability" not in done.stdout.split()
