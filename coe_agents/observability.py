"""Owns the hook into OpenTelemetry: a callback handler that turns decisions into metrics.

It is off unless passed as a callback; the application's own provider decides what is exported, and where. Spans are
made by any instrumentation of LangChain, such as LangSmith's with LANGSMITH_OTEL_ENABLED.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.types import Command

from coe_agents.uncertainty.divergences import unit_of

try:
    from opentelemetry import metrics
except ModuleNotFoundError as error:
    raise ImportError('coe_agents.observability needs OpenTelemetry; pip install "coe-agents[otel]"') from error

_ENDS = ("answer", "abstain", "escalate")
_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0)


@dataclass(eq=False)
class _Run:
    """A LangChain run in progress."""

    parent: "_Run | None"
    node: str | None  # the node's name, if it is one
    has_decided: bool = False  # whether a decision in it or below it is counted

    @property
    def root(self) -> "_Run":
        return self if self.parent is None else self.parent.root


class CoETelemetry(BaseCallbackHandler):
    """A callback handler that reports runs of a CoE graph, alone or inside another graph, to OpenTelemetry.

    Metrics, one addition for each decision: `coe.decisions` by action and regime ("none" if nothing was measured);
    `coe.collaborative_entropy`, a histogram by action, in nats under "kl" and "js" (`coe.divergence` names another
    divergence, which has no unit); `coe.tokens` by agent and direction; `coe.failures` by agent and `error.type`, one
    for each round in which the agent failed.

    No question, response, reason or error message is among them. One handler serves any number of runs at a time,
    synchronous and asynchronous.

    Args:
        meter_provider: The global one by default.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer
        >>> graph = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=ThresholdPolicy(0.5))
        >>> observed = graph.compile().with_config(callbacks=[CoETelemetry()])
    """

    def __init__(self, *, meter_provider: metrics.MeterProvider | None = None) -> None:
        self._runs: dict[UUID, _Run] = {}
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
        parent = self._runs.get(parent_run_id) if parent_run_id is not None else None
        self._runs[run_id] = _Run(parent, str(kwargs.get("name")) if is_node else None)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        run = self._end(run_id)
        update = outputs.update if isinstance(outputs, Command) else outputs
        if run is None or run.node is None or not isinstance(update, Mapping):
            return
        if isinstance(update.get("responses"), list):
            self._count_failures(run.node, update["responses"])
        if run.node in _ENDS and not run.has_decided and "coe" in (update.get("decision") or ()):
            self._count(update["decision"])
            above: _Run | None = run
            while above is not None:  # a node around a whole graph returns the same decision
                above.has_decided, above = True, above.parent

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._end(run_id)

    def _end(self, run_id: UUID) -> _Run | None:
        run = self._runs.pop(run_id, None)
        if run is not None and run.parent is None:  # what was abandoned below it reports no end
            for below in [key for key, other in list(self._runs.items()) if other.root is run]:
                self._runs.pop(below, None)
        return run

    def _count_failures(self, agent: str, responses: Sequence[Mapping[str, Any]]) -> None:
        for row in responses:
            if row["agent"] == agent and row["error"] is not None:
                self._failures.add(1, {"coe.agent": agent, "error.type": row["error"].partition(":")[0]})

    def _count(self, decision: Mapping[str, Any]) -> None:
        action = decision["action"]
        self._decisions.add(1, {"coe.action": action, "coe.regime": decision["regime"] or "none"})
        if decision["coe"] is not None:
            named = decision.get("divergence") or "kl"
            unitless = {} if unit_of(named) else {"coe.divergence": named}
            self._coe.record(decision["coe"], {"coe.action": action, **unitless})
        for agent, usage in decision["tokens"].items():
            for direction in ("input", "output"):
                self._tokens.add(usage[f"{direction}_tokens"], {"coe.agent": agent, "coe.direction": direction})
