"""Spans and metrics of real runs, through the SDK's in-memory exporters."""

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
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from coe_agents import ModelAgent, RegimePolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.state import CoEState
from coe_agents.observability import CoETelemetry
from tests.doubles import CountingModel, ScriptedAgent

NODES = ["a", "abstain", "b", "cluster", "coordinator", "measure", "prepare"]


class Recorded:
    """A handler whose exports stay in memory."""

    def __init__(self, **options):
        self.exporter, self.reader, self.tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader])
        self.handler = CoETelemetry(tracer_provider=self.tracers, meter_provider=meters, **options)
        self.handler.raise_error = True  # LangChain would only log it

    @property
    def config(self):
        return {"callbacks": [self.handler]}

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def named(self, name):
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def points(self, name):
        scopes = self.reader.get_metrics_data().resource_metrics[0].scope_metrics
        found = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return {tuple(sorted(p.attributes.items())): p for metric in found for p in metric.data.data_points}

    def everything(self):
        return " ".join(f"{span.name} {dict(span.attributes)} {span.status.description}" for span in self.spans) + str(
            self.reader.get_metrics_data()
        )


def graph(*agents, **options):
    agents = agents or (ScriptedAgent("a", ["secret Paris"]), ScriptedAgent("b", ["secret Lyon"]))
    policy = RegimePolicy(0.5, 0.3, actions={"conflict": options.pop("conflict", "abstain")})
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, retries=0, **options)


def test_each_node_is_a_span_under_the_run():
    recorded, compiled = Recorded(), graph().compile()
    with recorded.tracers.get_tracer("caller").start_as_current_span("caller") as caller:
        compiled.invoke({"question": "Q?"}, recorded.config)
    run = recorded.named("coe run")
    assert run.parent.span_id == caller.get_span_context().span_id
    below = [span for span in recorded.spans if span.name not in ("caller", "coe run")]
    assert sorted(span.name for span in below) == NODES
    assert {span.parent.span_id for span in below} == {run.context.span_id}
    assert {span.context.trace_id for span in below} == {run.context.trace_id}
    assert run.attributes["coe.action"] == "abstain"
    assert recorded.named("a").attributes["coe.n_responses"] == 1
    assert recorded.named("cluster").attributes["coe.n_clusters"] == 2
    assert recorded.named("measure").attributes["coe.coe"] == pytest.approx(0.6931, abs=1e-4)  # log 2
    assert recorded.named("coordinator").attributes["coe.action"] == "abstain"
    assert {span.status.status_code for span in below} == {StatusCode.UNSET}
    assert not recorded.handler._runs


def test_runs_at_the_same_time_do_not_mix():
    recorded, compiled, n_runs = Recorded(), graph().compile(), 8

    async def arun():
        await asyncio.gather(*(compiled.ainvoke({"question": f"{i}?"}, recorded.config) for i in range(n_runs)))

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(compiled.invoke, {"question": f"{i}?"}, recorded.config) for i in range(n_runs)]
        asyncio.run(arun())
        for future in done:
            future.result()
    roots = {span.context.span_id: span for span in recorded.spans if span.name == "coe run"}
    assert len(roots) == 2 * n_runs
    assert len({span.context.trace_id for span in roots.values()}) == 2 * n_runs
    by_root = {root: [span for span in recorded.spans if span.parent and span.parent.span_id == root] for root in roots}
    for root, below in by_root.items():
        assert sorted(span.name for span in below) == NODES
        assert {span.context.trace_id for span in below} == {roots[root].context.trace_id}
    ((attributes, point),) = recorded.points("coe.decisions").items()
    assert (dict(attributes), point.value) == ({"coe.action": "abstain", "coe.regime": "conflict"}, 2 * n_runs)


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


def test_a_failed_agent_is_an_error_and_the_run_is_not():
    recorded = Recorded()
    agents = ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", OSError("secret address"))
    graph(*agents, min_agents=1).compile().invoke({"question": "Q?"}, recorded.config)
    failed = recorded.named("b")
    assert (failed.status.status_code, failed.attributes["error.type"]) == (StatusCode.ERROR, "OSError")
    assert recorded.named("coe run").status.status_code == StatusCode.UNSET
    ((attributes, point),) = recorded.points("coe.failures").items()
    assert (dict(attributes), point.value) == ({"coe.agent": "b", "error.type": "OSError"}, 1)
    assert "secret" not in recorded.everything()


@pytest.mark.parametrize("content", [False, True])
def test_content_is_exported_only_if_asked_for(content):
    recorded = Recorded(content=content)
    graph().compile().invoke({"question": "a secret question?"}, recorded.config)
    assert ("secret Paris" in recorded.everything()) is content
    assert ("secret question" in recorded.everything()) is content
    assert ("coe.reason" in recorded.named("coordinator").attributes) is content


def test_a_request_to_a_model_is_a_span_under_its_agent():
    recorded = Recorded()
    agents = [ModelAgent(name, CountingModel(), n_samples=2) for name in "ab"]
    graph(*agents).compile().invoke({"question": "Q?"}, recorded.config)
    agent_ids = {recorded.named(name).context.span_id for name in "ab"}
    requests = [span for span in recorded.spans if span.name == "chat"]
    assert {span.parent.span_id for span in requests} == agent_ids
    assert {span.attributes["gen_ai.operation.name"] for span in requests} == {"chat"}


def test_a_graph_in_a_graph_counts_once_and_an_interrupt_is_no_error():
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
    outer = recorded.named("answer")
    assert recorded.named("measure").parent.span_id == outer.context.span_id
    assert [point.value for point in recorded.points("coe.decisions").values()] == [1]
    assert recorded.named("person").status.status_code == StatusCode.UNSET


def test_a_request_that_was_given_up_ends_with_its_run():
    class Hanging(CountingModel):
        async def _agenerate(self, *args, **kwargs):
            await asyncio.sleep(600)

    recorded = Recorded()
    agents = [ModelAgent(name, Hanging(), n_samples=1, timeout=1.0, retries=0) for name in "ab"]
    asyncio.run(graph(*agents).compile().ainvoke({"question": "Q?"}, recorded.config))
    assert recorded.named("a").attributes["error.type"] == "AgentTimeoutError"
    assert {span.status.status_code for span in recorded.spans if span.name == "chat"} == {StatusCode.ERROR}
    assert not recorded.handler._runs


def test_it_is_off_and_not_imported_by_default():
    code = "import sys, coe_agents.cli.ask, coe_agents.config.build; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "coe_agents.graph" in done.stdout.split()
    assert "coe_agents.observability" not in done.stdout.split()
