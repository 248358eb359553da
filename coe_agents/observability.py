"""Owns the hook into OpenTelemetry: a callback handler that turns runs into spans and decisions into metrics.

It is off unless passed as a callback; the application's own providers decide what is exported, and where.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.types import Command

from coe_agents.decision.views import kind_of
from coe_agents.errors import CoEError, is_control_flow
from coe_agents.uncertainty.divergences import unit_of

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Status, StatusCode
except ModuleNotFoundError as error:
    raise ImportError('coe_agents.observability needs OpenTelemetry; pip install "coe-agents[otel]"') from error

_ENDS = ("answer", "abstain", "escalate")
_NUMBERS = ("coe", "aleatoric", "epistemic")
_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0)


@dataclass(eq=False)
class _Run:
    """A LangChain run in progress; without a span of its own it passes on its parent's context."""

    parent: "_Run | None"
    context: Context | None = None  # holds the span that is the parent of its children's
    span: trace.Span | None = None
    node: str | None = None  # the node's name, if it is one
    has_decided: bool = False  # whether a decision in it or below it is counted

    @property
    def root(self) -> "_Run":
        return self if self.parent is None else self.parent.root


class CoETelemetry(BaseCallbackHandler):
    """A callback handler that reports runs of a CoE graph, alone or inside another graph, to OpenTelemetry.

    Spans: the run (`coe run`), each node by its name (`prepare`, every agent, `cluster`, `measure`, `coordinator`, the
    end), and each request to a model (`chat`) under its agent. A span's parent is the one that was current when the run
    started. Their attributes are `coe.` with `agent`, `round`, `n_responses`, `n_clusters`, `coe`, `aleatoric`,
    `epistemic`, `regime`, `action`, `n_rounds`, and `error.type`. A failed agent's span has the status ERROR; an
    interrupt is not a failure.

    Metrics, one addition for each decision: `coe.decisions` by action and regime ("none" if nothing was measured);
    `coe.collaborative_entropy`, a histogram by action, in nats under "kl" and "js" (`coe.divergence` names another
    divergence, which has no unit); `coe.tokens` by agent and direction; `coe.failures` by agent and `error.type`, one
    for each round in which the agent failed.

    No question, response, reason or error message is exported unless `content` is true; of errors then those of
    coe-agents, in which keys are redacted, and never those of a model's client. One handler serves any number
    of runs at a time, synchronous and asynchronous.

    Args:
        tracer_provider: The global one by default.
        meter_provider: The global one by default.
        content: Adds `coe.question`, `coe.responses`, `coe.answer`, `coe.reason` and `error.message`.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer
        >>> graph = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.5))
        >>> observed = graph.compile().with_config(callbacks=[CoETelemetry()])
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: bool = False,
    ) -> None:
        self._content = content
        self._runs: dict[UUID, _Run] = {}
        self._tracer = trace.get_tracer("coe_agents", version("coe-agents"), tracer_provider)
        meter = metrics.get_meter("coe_agents", version("coe-agents"), meter_provider)
        self._decisions = meter.create_counter("coe.decisions", "{decision}", "Decisions by action and regime")
        self._failures = meter.create_counter("coe.failures", "{failure}", "Rounds in which an agent failed")
        self._tokens = meter.create_counter("coe.tokens", "{token}", "Tokens by agent and direction")
        self._coe = meter.create_histogram(
            "coe.collaborative_entropy",
            "1",
            "CoE of the decisions, in nats unless coe.divergence names a divergence without a unit",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        is_node = any(tag.startswith("graph:step:") for tag in kwargs.get("tags") or ())
        run = self._begin(run_id, parent_run_id, node=str(kwargs.get("name")) if is_node else None)
        if is_node or run.parent is None:
            self._open(run, run.node or "coe run", {})

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        if (run := self._runs.pop(run_id, None)) is None:
            return
        update = outputs.update if isinstance(outputs, Command) else outputs
        if run.span is not None and isinstance(update, Mapping):
            self._describe(run, run.span, update)
        self._close(run)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if (run := self._runs.pop(run_id, None)) is None:
            return
        if run.span is not None and not is_control_flow(error):
            # the text of any other error is a client's own, which may quote a key: the agent's span has it, redacted
            self._blame(run.span, type(error).__name__, str(error) if isinstance(error, CoEError) else "")
        self._close(run)

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        model = (kwargs.get("metadata") or {}).get("ls_model_name")
        named = {"gen_ai.request.model": str(model)} if model else {}
        self._open(self._begin(run_id, parent_run_id), "chat", {"gen_ai.operation.name": "chat", **named})

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        if (run := self._runs.pop(run_id, None)) is not None:
            self._close(run)

    on_llm_error = on_chain_error

    def _begin(self, run_id: UUID, parent_run_id: UUID | None, *, node: str | None = None) -> _Run:
        parent = self._runs.get(parent_run_id) if parent_run_id is not None else None
        run = _Run(parent, context=parent.context if parent else None, node=node)
        self._runs[run_id] = run
        return run

    def _open(self, run: _Run, name: str, attributes: Mapping[str, str]) -> None:
        run.span = self._tracer.start_span(name, run.context, attributes=attributes)
        run.context = trace.set_span_in_context(run.span, run.context)

    def _close(self, run: _Run) -> None:
        if run.span is not None:
            run.span.end()
        if run.parent is None:  # an abandoned request reports no end
            for run_id in [run_id for run_id, other in list(self._runs.items()) if other.root is run]:
                left = self._runs.pop(run_id, None)
                if left is not None and left.span is not None:
                    left.span.set_status(Status(StatusCode.ERROR, "abandoned"))
                    left.span.end()

    def _blame(self, span: trace.Span, kind: str, message: str) -> None:
        span.set_attribute("error.type", kind)
        if self._content and message:
            span.set_attribute("error.message", message)
        span.set_status(Status(StatusCode.ERROR, kind))

    def _describe(self, run: _Run, span: trace.Span, update: Mapping[str, Any]) -> None:
        if self._content and isinstance(turn := update.get("turn"), Mapping) and "question" in turn:
            span.set_attribute("coe.question", turn["question"])
        if isinstance(update.get("responses"), list) and run.node is not None:
            self._describe_agent(run.node, span, update["responses"])
        if "labels" in update and run.node is not None:
            span.set_attribute("coe.n_clusters", len(set(update["labels"])))
        names = (*_NUMBERS, "regime", "action", "n_rounds", *(("answer", "reason") if self._content else ()))
        for part in ("measured", "verdict", "decision"):
            if isinstance(values := update.get(part), Mapping):
                span.set_attributes({f"coe.{name}": values[name] for name in names if values.get(name) is not None})
        if run.node in _ENDS and not run.has_decided and "coe" in (update.get("decision") or ()):
            self._count(update["decision"])
            above: _Run | None = run
            while above is not None:  # a node around a whole graph returns the same decision
                above.has_decided, above = True, above.parent

    def _describe_agent(self, agent: str, span: trace.Span, responses: Sequence[Mapping[str, Any]]) -> None:
        rows = [row for row in responses if row["agent"] == agent]
        if not rows:
            return
        errors = [row["error"] for row in rows if row["error"] is not None]
        span.set_attributes({"coe.agent": agent, "coe.round": rows[0]["round"]})
        span.set_attribute("coe.n_responses", len(rows) - len(errors))
        if self._content:
            span.set_attribute("coe.responses", [row["text"] for row in rows if row["error"] is None])
        for error in errors:
            kind = kind_of(error)
            self._blame(span, kind, error.removeprefix(f"{kind}:").strip())
            self._failures.add(1, {"coe.agent": agent, "error.type": kind})

    def _count(self, decision: Mapping[str, Any]) -> None:
        action = decision["action"]
        self._decisions.add(1, {"coe.action": action, "coe.regime": decision["regime"] or "none"})
        if decision["coe"] is not None:
            named = decision.get("divergence") or "kl"
            unitless = {} if unit_of(named) else {"coe.divergence": named}
            self._coe.record(decision["coe"], {"coe.action": action, **unitless})
        for agent, usage in decision["tokens"].items():
            for direction in ("input", "output"):
                if (count := usage[f"{direction}_tokens"]) is not None:
                    self._tokens.add(count, {"coe.agent": agent, "coe.direction": direction})
