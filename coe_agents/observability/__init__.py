"""Owns the hook into OpenTelemetry: a callback handler that turns runs into spans, decisions into events and metrics.

It is off unless passed as a callback; the application's own providers decide what is exported, and where. Names that
begin with "gen_ai." are those of OpenTelemetry's conventions for generative AI, which are still in development.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.types import Command

from coe_agents._removed import refuses_removed
from coe_agents.checks import flag
from coe_agents.decision.views import kind_of
from coe_agents.errors import CoEError, is_control_flow
from coe_agents.types import Fields, JsonObject, Usage, add_usages, usage_of

__all__ = ["CoETelemetry"]

try:
    from opentelemetry import metrics, trace
    from opentelemetry._logs import LoggerProvider, LogRecord, SeverityNumber, get_logger
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    raise ImportError(
        'coe_agents.observability needs OpenTelemetry; pip install "coe-agents[otel]"'
    ) from error

_ENDS = ("answer", "abstain", "escalate")
_NUMBERS = ("coe", "aleatoric", "epistemic")
_KINDS = {
    "cluster": "EVALUATOR",
    "measure": "EVALUATOR",
    "coordinator": "GUARDRAIL",
    "escalation": "DECISION",
    **dict.fromkeys(_ENDS, "DECISION"),
}
"""The kinds of the graph's own nodes in the words of OpenInference; its ends are decisions."""
_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0)


@dataclass(eq=False)
class _Run:
    """A LangChain run in progress; without a span of its own it passes on its parent's context."""

    parent: "_Run | None"
    context: Context | None = None  # holds the span that is the parent of its children's
    span: trace.Span | None = None
    node: str | None = None  # the node's name, if it is one
    kind: str = "CHAIN"  # of its span, in the words of OpenInference
    has_requests: bool = False  # whether a request in it or below it has a span, with its tokens
    has_decided: bool = False  # whether a decision in it or below it is counted

    def and_above(self) -> "Iterator[_Run]":
        run: _Run | None = self
        while run is not None:
            yield run
            run = run.parent

    @property
    def root(self) -> "_Run":
        *_, root = self.and_above()
        return root


class CoETelemetry(BaseCallbackHandler):
    """A callback handler that reports runs of a CoE graph, alone or inside another graph, to OpenTelemetry.

    Spans: the run (`invoke_workflow` and its name), each node by its name (`prepare`, `cluster`, `measure`,
    `coordinator`, the end), but each agent as `invoke_agent` and its name, each request to a model (`chat` and the
    model) under its agent, and each tool (`execute_tool` and its name). A span's parent is the one that was current
    when the run started. They have the attributes of OpenTelemetry's conventions (`gen_ai.operation.name`,
    `gen_ai.agent.name`, `gen_ai.request.model`, `gen_ai.tool.name`, `gen_ai.usage.input_tokens`, ...), `error.type`,
    and `coe.` with `round`, `n_responses`, `n_clusters`, `coe`, `aleatoric`, `epistemic`, `regime`, `action`,
    `n_rounds`, and the `failed_agents` of a council and whether it only `observed`. A failed agent's span has the
    status ERROR, and so has that of a council all of whose members failed; an interrupt is not a failure. The tokens
    of an agent are on the spans of its requests, or on its own if it has none.

    Events `gen_ai.evaluation.result`, by the Logs API, under the span of the run that was evaluated: for each decision
    "coe" (its label is the regime), "coe.aleatoric", "coe.epistemic" and "coe.decision" (its label is the action);
    for each turn of a council "coe.council", with the support of what it judged; and for each question to a
    `CoEDecisionModel` the first three, with `coe.question_id`, under the span of its run.

    No question, response, reason or error message is exported unless `content` is true; of errors then those of
    coe-agents, in which keys are redacted, and never those of a model's client. One handler serves any number
    of runs at a time, synchronous and asynchronous.

    Args:
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        logger_provider: Of the events; the global one by default.
        content: Adds `gen_ai.input.messages` (the question), `gen_ai.output.messages` (responses and the answer),
            `gen_ai.tool.call.arguments`, `coe.reason`, `gen_ai.evaluation.explanation` and `error.message`.
        openinference: Adds `openinference.span.kind` to each span: AGENT, LLM, TOOL, EVALUATOR (`cluster`, `measure`),
            GUARDRAIL (`coordinator`, a council), DECISION (the end, an escalation, a decision model) or CHAIN.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer
        >>> graph = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.5))
        >>> observed = graph.compile().with_config(callbacks=[CoETelemetry()])
    """

    @refuses_removed
    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        content: bool = False,
        openinference: bool = False,
    ) -> None:
        self._content = flag(content, '"content" of CoETelemetry')
        self._openinference = openinference
        self._runs: dict[UUID, _Run] = {}
        own_version = version("coe-agents")
        self._tracer = trace.get_tracer("coe_agents", own_version, tracer_provider)
        self._logger = get_logger("coe_agents", own_version, logger_provider)

        meter = metrics.get_meter("coe_agents", own_version, meter_provider)
        self._decisions = meter.create_counter(
            "coe.decisions", unit="{decision}", description="Decisions by action and regime"
        )
        self._failures = meter.create_counter(
            "coe.failures", unit="{failure}", description="Rounds in which an agent failed"
        )
        self._tokens = meter.create_counter(
            "coe.tokens", unit="{token}", description="Tokens by agent and type"
        )
        self._coe = meter.create_histogram(
            "coe.collaborative_entropy",
            unit="1",
            description="CoE of the decisions, in nats",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        tags = kwargs.get("tags") or ()
        is_node = any(tag.startswith("graph:step:") for tag in tags)
        name = str(kwargs.get("name"))
        run = self._begin(run_id, parent_run_id, node=name if is_node else None)
        if is_node:
            run.kind = _KINDS.get(name, "CHAIN")
            self._open(run, name, {})
        # a decision model of LangChain's: chat models do not begin here
        elif kwargs.get("run_type") == "llm":
            run.kind = "DECISION"
            self._open(run, name, {})
        elif run.parent is None:
            name, about = _operation("invoke_workflow", {"gen_ai.workflow.name": name})
            self._open(run, name, about)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._take(run_id)
        if run.span is not None:
            for update in _updates(outputs):
                self._describe(run, run.span, update)
            # of `coe_agents.decisions`
            for question, decision in getattr(outputs, "decisions", {}).items():
                self._measure(run.context, decision, {"coe.question_id": question})
        self._close(run)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._take(run_id)
        if run.span is not None and not is_control_flow(error):
            # the text of any other error is a client's own, which may quote a key: the agent's span has it, redacted
            message = str(error) if isinstance(error, CoEError) else ""
            self._blame(run.span, type(error).__name__, message)
        self._close(run)

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        metadata = kwargs.get("metadata") or {}
        about = {
            "gen_ai.request.model": metadata.get("ls_model_name"),
            "gen_ai.provider.name": metadata.get("ls_provider"),
            "gen_ai.request.temperature": metadata.get("ls_temperature"),
        }
        run = self._begin(run_id, parent_run_id)
        run.kind = "LLM"
        for above in run.and_above():
            above.has_requests = True
        name, about = _operation("chat", about)
        self._open(run, name, about, SpanKind.CLIENT)

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._take(run_id)
        if run.span is not None:
            _set_usage(run.span, usage_of(response))
        self._close(run)

    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        about = {
            "gen_ai.tool.name": (serialized or {}).get("name"),
            "gen_ai.tool.call.id": kwargs.get("tool_call_id"),
        }
        if self._content:
            about["gen_ai.tool.call.arguments"] = json.dumps(kwargs.get("inputs"), default=str)
        run = self._begin(run_id, parent_run_id)
        run.kind = "TOOL"
        name, about = _operation("execute_tool", about)
        self._open(run, name, about)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._close(self._take(run_id))

    on_llm_error = on_tool_error = on_chain_error

    def _begin(self, run_id: UUID, parent_run_id: UUID | None, *, node: str | None = None) -> _Run:
        parent = None if parent_run_id is None else self._runs.get(parent_run_id)
        context = None if parent is None else parent.context
        run = _Run(parent, context, node=node)
        self._runs[run_id] = run
        return run

    def _take(self, run_id: UUID) -> _Run:
        """Returns a run that has ended; one whose beginning was not seen has no span."""
        return self._runs.pop(run_id, _Run(None))

    def _open(
        self, run: _Run, name: str, attributes: Fields, kind: SpanKind = SpanKind.INTERNAL
    ) -> None:
        run.span = self._tracer.start_span(name, run.context, kind, attributes)
        run.context = trace.set_span_in_context(run.span, run.context)

    def _close(self, run: _Run) -> None:
        if run.span is not None:
            self._end(run, run.span)
        if run.parent is not None:
            return
        for run_id, other in list(self._runs.items()):
            if other.root is not run:
                continue
            # an abandoned request reports no end
            abandoned = self._runs.pop(run_id, None)
            if abandoned is not None and abandoned.span is not None:
                abandoned.span.set_status(Status(StatusCode.ERROR, "abandoned"))
                self._end(abandoned, abandoned.span)

    def _end(self, run: _Run, span: trace.Span) -> None:
        if self._openinference:
            span.set_attribute("openinference.span.kind", run.kind)
        span.end()

    def _blame(self, span: trace.Span, kind: str, message: str) -> None:
        span.set_attribute("error.type", kind)
        if self._content and message:
            span.set_attribute("error.message", message)
        span.set_status(Status(StatusCode.ERROR, kind))

    def _describe(self, run: _Run, span: trace.Span, update: Fields) -> None:
        turn = update.get("turn")
        if self._content and isinstance(turn, Mapping) and "question" in turn:
            question = _messages("user", [turn["question"]])
            span.set_attribute("gen_ai.input.messages", question)
        if run.node is not None:
            if isinstance(update.get("responses"), list):
                self._describe_agent(run, run.node, span, update)
            if "labels" in update:
                n_clusters = len(set(update["labels"]))
                span.set_attribute("coe.n_clusters", n_clusters)
        for part in ("measured", "settled", "decision"):
            values = update.get(part)
            if isinstance(values, Mapping):
                self._describe_values(span, values)

        evaluated = run.context if run.parent is None else run.parent.context
        council = update.get("council")
        if run.node is not None and isinstance(council, Mapping):
            self._describe_council(run, span, council, evaluated)
        decision = update.get("decision") or {}
        if run.node in _ENDS and not run.has_decided and "coe" in decision:
            self._count(decision, evaluated)
            for above in run.and_above():  # a node around a whole graph returns the same decision
                above.has_decided = True

    def _describe_values(self, span: trace.Span, values: Fields) -> None:
        names = [*_NUMBERS, "regime", "action", "n_rounds"]
        if self._content:
            names.append("reason")
            if values.get("answer") is not None:
                answer = _messages("assistant", [values["answer"]])
                span.set_attribute("gen_ai.output.messages", answer)
        for name in names:
            if values.get(name) is not None:
                span.set_attribute(f"coe.{name}", values[name])

    def _describe_council(
        self, run: _Run, span: trace.Span, council: Fields, evaluated: Context | None
    ) -> None:
        run.kind = "GUARDRAIL"
        if council["observed"]:
            span.set_attribute("coe.observed", True)
        if council["failed_agents"]:
            self._describe_failures(span, council)
        proposer = council["proposer"] or "driver"
        supports = council["support"] or {}
        self._evaluate(
            evaluated, "coe.council", council, value=supports.get(proposer), label=council["action"]
        )

    def _describe_failures(self, span: trace.Span, council: Fields) -> None:
        """Says which members of a council failed; a council of which all failed did not work."""
        failed = council["failed_agents"]
        span.set_attribute("coe.failed_agents", list(failed))
        have_all_failed = len(failed) == council["n_asked"]
        for name, error in failed.items():
            self._count_failure(name, error)
            if have_all_failed:
                self._blame(span, *_kind_and_message(error))

    def _count_failure(self, agent: str, error: str) -> None:
        about = {"gen_ai.agent.name": agent, "error.type": kind_of(error)}
        self._failures.add(1, about)

    def _describe_agent(self, run: _Run, agent: str, span: trace.Span, update: Fields) -> None:
        rows = [row for row in update["responses"] if row["agent"] == agent]
        if not rows:
            return
        texts = [row["text"] for row in rows if row["error"] is None]
        errors = [row["error"] for row in rows if row["error"] is not None]

        run.kind = "AGENT"
        name, about = _operation("invoke_agent", {"gen_ai.agent.name": agent})
        span.update_name(name)
        about["coe.round"] = rows[0]["round"]
        about["coe.n_responses"] = len(texts)
        span.set_attributes(about)
        usages = update.get("usages")
        if usages and not run.has_requests:
            _set_usage(span, add_usages(request["usage"] for request in usages))
        if self._content:
            span.set_attribute("gen_ai.output.messages", _messages("assistant", texts))
        for error in errors:
            self._blame(span, *_kind_and_message(error))
            self._count_failure(agent, error)

    def _count(self, decision: Fields, evaluated: Context | None) -> None:
        action = decision["action"]
        regime = decision["regime"] or "none"
        self._decisions.add(1, {"coe.action": action, "coe.regime": regime})
        # too few agents look certain
        if decision["coe"] is not None and decision["regime"] is not None:
            self._coe.record(decision["coe"], {"coe.action": action})
            self._measure(evaluated, decision, {})
        self._evaluate(evaluated, "coe.decision", decision, label=action)

        for agent, usage in decision["tokens"].items():
            for direction in ("input", "output"):
                n_tokens = usage[f"{direction}_tokens"]
                if n_tokens is not None:
                    about = {"gen_ai.agent.name": agent, "gen_ai.token.type": direction}
                    self._tokens.add(n_tokens, about)

    def _measure(self, evaluated: Context | None, measured: Fields, about: Fields) -> None:
        """Emits CoE and its parts as results of evaluations."""
        self._evaluate(evaluated, "coe", about, value=measured["coe"], label=measured["regime"])
        for part in ("aleatoric", "epistemic"):
            self._evaluate(evaluated, f"coe.{part}", about, value=measured[part])

    def _evaluate(
        self,
        evaluated: Context | None,
        name: str,
        decided: Fields,
        *,
        value: float | None = None,
        label: str | None = None,
    ) -> None:
        """Emits one result of an evaluation under the span that was evaluated."""
        attributes = {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": value,
            "gen_ai.evaluation.score.label": label,
            "coe.decided_by": decided.get("decided_by"),
            "coe.question_id": decided.get("coe.question_id"),
        }
        if self._content:
            attributes["gen_ai.evaluation.explanation"] = decided.get("reason")
        event = LogRecord(
            context=evaluated,
            severity_number=SeverityNumber.INFO,
            event_name="gen_ai.evaluation.result",
            attributes=_known(attributes),
        )
        self._logger.emit(event)


def _known(attributes: Fields) -> JsonObject:
    return {name: value for name, value in attributes.items() if value is not None}


def _operation(operation: str, attributes: Fields) -> tuple[str, JsonObject]:
    """Returns the name of an operation's span, which ends with the first attribute, and the known attributes."""
    first = next(iter(attributes.values()))
    name = operation if first is None else f"{operation} {first}"
    return name, {"gen_ai.operation.name": operation, **_known(attributes)}


def _kind_and_message(error: str) -> tuple[str, str]:
    """Returns the parts of a failure's text, as `describe_error` writes it."""
    kind = kind_of(error)
    return kind, error.removeprefix(f"{kind}:").strip()


def _set_usage(span: trace.Span, usage: Usage) -> None:
    for name, count in usage.items():
        if isinstance(count, int):
            span.set_attribute(f"gen_ai.usage.{name}", count)


def _messages(role: str, texts: Sequence[str]) -> str:
    """Returns texts in the form of the conventions: JSON, a message for each."""
    messages = list[JsonObject]()
    for text in texts:
        messages.append({"role": role, "parts": [{"type": "text", "content": text}]})
    return json.dumps(messages)


def _updates(outputs: Any) -> Iterator[Fields]:
    """Yields the updates of the state among what a node returned."""
    if not isinstance(outputs, list):
        outputs = [outputs]
    for output in outputs:
        update = output.update if isinstance(output, Command) else output
        if isinstance(update, Mapping):
            yield update
