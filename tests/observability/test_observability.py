import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from coe_agents import Arbiter, CoECouncil, ModelAgent, RegimePolicy
from coe_agents.graph.state import CoEState
from coe_agents.observability import CoETelemetry
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.tinyworld import tinyworld_tools
from tests.doubles import CountingModel, ScriptedAgent
from tests.graph import groups
from tests.graph.groups import saying

NODES = [
    "abstain",
    "cluster",
    "coordinator",
    "invoke_agent a",
    "invoke_agent b",
    "measure",
    "prepare",
]
RUN = "invoke_workflow LangGraph"


class Recorded:
    def __init__(self, **options):
        self.exporter, self.reader, self.tracers = (
            InMemorySpanExporter(),
            InMemoryMetricReader(),
            TracerProvider(),
        )
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.log, loggers = InMemoryLogRecordExporter(), LoggerProvider()
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.log))
        given = {"tracer_provider": self.tracers, "meter_provider": MeterProvider([self.reader])}
        self.handler = CoETelemetry(**given, logger_provider=loggers, **options)
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
        return {
            tuple(sorted(p.attributes.items())): p
            for metric in found
            for p in metric.data.data_points
        }

    @property
    def events(self):
        return [one.log_record for one in self.log.get_finished_logs()]

    def everything(self):
        said = [
            f"{span.name} {dict(span.attributes)} {span.status.description}" for span in self.spans
        ]
        return f"{said} {self.reader.get_metrics_data()} {[dict(event.attributes) for event in self.events]}"

    def told(self):
        """Everything but ids and times: the spans by their parents, and the events by the spans that they are under."""
        names = {span.context.span_id: span.name for span in self.spans}
        spans = [
            {
                "name": span.name,
                "under": names.get(span.parent.span_id) if span.parent else None,
                "kind": span.kind.name,
                "status": span.status.status_code.name,
                "attributes": rounded(span.attributes),
            }
            for span in self.spans
        ]
        events = [
            {
                "name": event.event_name,
                "under": names[event.span_id],
                "attributes": rounded(event.attributes),
            }
            for event in self.events
        ]
        return {"spans": sorted(spans, key=json.dumps), "events": events}


def rounded(attributes):
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in sorted(attributes.items())
    }


def graph(*agents, **options):
    policy = RegimePolicy(0.5, 0.3, actions={"conflict": options.pop("conflict", "abstain")})
    return groups.graph(
        *(agents or saying("secret Paris", "secret Lyon")), policy=policy, **options
    )


def question():
    recorded = Recorded(openinference=True)
    agents = [
        ModelAgent("asked", CountingModel(logprobs=True), n_samples=2),
        ScriptedAgent("b", ["x"], ["y"]),
    ]
    failing = ScriptedAgent("c", OSError("secret address"))
    graph(*agents, failing).compile().invoke({"question": "a secret question?"}, recorded.config)
    return recorded.told()


def council():
    recorded = Recorded(openinference=True, content=True)
    call = {"name": "transfer", "args": {"name": "Nina", "amount": 60}, "id": "c1"}
    members = [ScriptedAgent(name, [[{"name": "transfer", "args": call["args"]}]]) for name in "ab"]
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])
    agent = create_agent(
        driver, tinyworld_tools(), middleware=[CoECouncil(members, tools=["transfer"])]
    )
    agent.invoke({"messages": [("user", "Send Nina 60 euros.")]}, recorded.config)
    return recorded.told()


@pytest.mark.parametrize("n_failing", [1, 2])
@pytest.mark.parametrize("content", [False, True])
def test_members_of_a_council_that_fail_are_in_its_span(n_failing, content):
    recorded = Recorded(content=content)
    call = {"name": "transfer", "args": {"name": "Nina", "amount": 60}, "id": "c1"}
    agrees = ScriptedAgent("b", [[{"name": "transfer", "args": call["args"]}]])
    members = [ScriptedAgent("a", OSError("refused")), agrees]
    if n_failing == 2:
        members[1] = ScriptedAgent("b", TimeoutError("late"))
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[call])])
    council = CoECouncil(members, tools=["transfer"], max_blocked=1)
    create_agent(driver, tinyworld_tools(), middleware=[council]).invoke(
        {"messages": [("user", "Pay.")]}, recorded.config
    )
    (span,) = [span for span in recorded.spans if "coe.failed_agents" in span.attributes]
    assert span.name == "model"
    assert span.attributes["coe.failed_agents"] == ("a", "b")[:n_failing]
    assert span.status.status_code.name == ("ERROR" if n_failing == 2 else "UNSET")
    assert span.attributes.get("error.type") == (
        "TimeoutError" if n_failing == 2 else None
    )  # the last one's
    assert span.attributes.get("error.message") == ("late" if n_failing == 2 and content else None)
    assert sum(point.value for point in recorded.points("coe.failures").values()) == n_failing


@pytest.mark.parametrize("on_uncertain", ["observe", "block"])
def test_the_span_of_a_council_that_only_observes_says_so(on_uncertain):
    recorded = Recorded()
    call = {"name": "transfer", "args": {"name": "Nina", "amount": 60}, "id": "c1"}
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])
    council = CoECouncil(
        [ScriptedAgent("a", ["No."])], tools=["transfer"], on_uncertain=on_uncertain
    )
    create_agent(driver, tinyworld_tools(), middleware=[council]).invoke(
        {"messages": [("user", "Pay.")]}, recorded.config
    )
    observed = [span.name for span in recorded.spans if span.attributes.get("coe.observed")]
    assert observed == (["model"] if on_uncertain == "observe" else [])


def escalation():
    recorded = Recorded(openinference=True, content=True)
    arbiter = Arbiter(FakeListChatModel(responses=["CHOICE: 1"]), name="judge")
    compiled = graph(conflict="escalate", escalation=arbiter).compile()
    compiled.invoke({"question": "Q?"}, recorded.config)
    return recorded.told()


def decision_model():
    pytest.importorskip("langchain_core.decisions", reason="langchain-core 1.8 has decision models")
    from langchain_core.decisions import Noul

    from coe_agents.decisions import CoEDecisionModel
    from tests.decisions.scripted import dead, says

    recorded = Recorded(openinference=True, content=True)
    group = CoEDecisionModel([says(0.05), says(0.95), dead("a secret")])
    group.decide("a secret", {"is_risky": Noul(instructions="Is it risky?")}, recorded.config)
    assert "secret" not in recorded.everything()
    return recorded.told()


EXAMPLES = {run.__name__: run for run in (question, council, escalation, decision_model)}
GOLDEN = Path(__file__).parent / "telemetry.json"
"""What the examples export; written anew by `python -m tests.observability.test_observability`."""


WORDED = pytest.param("escalation", marks=pytest.mark.wording)  # its span has the question's text


@pytest.mark.parametrize("example", [*(name for name in EXAMPLES if name != "escalation"), WORDED])
def test_what_is_exported_is_as_it_was(example):
    assert EXAMPLES[example]() == json.loads(GOLDEN.read_text())[example]


def test_names_are_those_of_the_conventions():
    incubating = pytest.importorskip(
        "opentelemetry.semconv._incubating.attributes.gen_ai_attributes"
    )
    openinference = pytest.importorskip("openinference.semconv.trace")
    known = {value for name, value in vars(incubating).items() if name.startswith("GEN_AI_")}
    operations = {one.value for one in incubating.GenAiOperationNameValues}
    kinds = {one.value for one in openinference.OpenInferenceSpanKindValues}
    told = json.loads(GOLDEN.read_text()).values()
    attributes = [one["attributes"] for run in told for one in (*run["spans"], *run["events"])]
    names = {name for each in attributes for name in each}
    assert {name for name in names if name.startswith("gen_ai.")} <= known
    assert {
        "gen_ai.evaluation.score.value",
        "gen_ai.agent.name",
        "gen_ai.usage.input_tokens",
    } <= names
    used = {each["gen_ai.operation.name"] for each in attributes if "gen_ai.operation.name" in each}
    assert {"invoke_agent", "execute_tool", "chat"} <= used <= operations
    marked = {
        each["openinference.span.kind"]
        for run in told
        for each in [one["attributes"] for one in run["spans"]]
    }
    assert {"AGENT", "EVALUATOR", "GUARDRAIL", "DECISION", "LLM", "TOOL"} <= marked <= kinds
    assert openinference.SpanAttributes.OPENINFERENCE_SPAN_KIND in names
    assert {name for name in names if not name.startswith(("gen_ai.", "coe."))} <= {
        "openinference.span.kind",
        "error.type",
        "error.message",
    }


def test_runs_at_the_same_time_do_not_mix():
    recorded, compiled, n_runs = Recorded(), graph().compile(), 8

    async def arun():
        await asyncio.gather(
            *(compiled.ainvoke({"question": f"{i}?"}, recorded.config) for i in range(n_runs))
        )

    with ThreadPoolExecutor(4) as pool:
        done = [
            pool.submit(compiled.invoke, {"question": f"{i}?"}, recorded.config)
            for i in range(n_runs)
        ]
        asyncio.run(arun())
        for future in done:
            future.result()
    roots = {span.context.span_id: span for span in recorded.spans if span.name == RUN}
    assert len(roots) == 2 * n_runs
    assert len({span.context.trace_id for span in roots.values()}) == 2 * n_runs
    by_root = {
        root: [span for span in recorded.spans if span.parent and span.parent.span_id == root]
        for root in roots
    }
    for root, below in by_root.items():
        assert sorted(span.name for span in below) == NODES
        assert {span.context.trace_id for span in below} == {roots[root].context.trace_id}
        assert {span.status.status_code for span in below} == {StatusCode.UNSET}
    assert not recorded.handler._runs
    ((attributes, point),) = recorded.points("coe.decisions").items()
    assert (dict(attributes), point.value) == (
        {"coe.action": "abstain", "coe.regime": "conflict"},
        2 * n_runs,
    )


@pytest.mark.parametrize("content", [False, True])
def test_a_tool_that_fails_is_an_error_without_its_message_and_shows_its_arguments_if_asked_for(
    content,
):
    @tool
    def fail() -> str:
        """Fails."""
        raise OSError("a secret")

    recorded = Recorded(content=content)
    with pytest.raises(OSError, match="a secret"):
        fail.invoke({}, recorded.config)
    span = recorded.named("execute_tool fail")
    assert ("gen_ai.tool.call.arguments" in span.attributes) is content
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "OSError")
    assert "secret" not in recorded.everything()


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
    with recorded.tracers.get_tracer("caller").start_as_current_span("caller") as caller:
        parent.compile(checkpointer=InMemorySaver()).invoke({"question": "Q?"}, config)
    assert recorded.named(RUN).parent.span_id == caller.get_span_context().span_id
    outer = recorded.named("answer")
    assert recorded.named("measure").parent.span_id == outer.context.span_id
    assert [point.value for point in recorded.points("coe.decisions").values()] == [1]
    assert recorded.named("person").status.status_code == StatusCode.UNSET


def test_a_request_that_was_given_up_ends_with_its_run():
    class Hanging(CountingModel):
        async def _agenerate(self, *args, **kwargs):
            await asyncio.sleep(600)

    recorded = Recorded()
    agents = [ModelAgent(name, Hanging(), n_samples=1, timeout=0.2, retries=0) for name in "ab"]
    asyncio.run(graph(*agents).compile().ainvoke({"question": "Q?"}, recorded.config))
    assert recorded.named("invoke_agent a").attributes["error.type"] == "AgentTimeoutError"
    assert {span.status.status_code for span in recorded.spans if span.name == "chat"} == {
        StatusCode.ERROR
    }
    assert not recorded.handler._runs


if __name__ == "__main__":
    told = {name: run() for name, run in EXAMPLES.items()}
    GOLDEN.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", "utf-8")


def test_a_text_does_not_put_what_was_said_into_spans():
    with pytest.raises(TypeError, match='"content" of CoETelemetry must be True or False'):
        CoETelemetry(content="false")


def test_the_numbers_of_too_few_agents_are_not_among_those_of_decisions():
    recorded = Recorded()
    failing = [ScriptedAgent(name, OSError("down")) for name in "bc"]
    graph(*saying("Paris"), *failing).compile().invoke({"question": "?"}, recorded.config)
    assert [point.value for point in recorded.points("coe.decisions").values()] == [1]
    assert recorded.points("coe.collaborative_entropy") == {}
