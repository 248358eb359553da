"""Owns the group that a server asks, a configuration's, tinyworld's, or your own; what a caller may limit; its runs.

A caller may make the gate tighter than the operator made it, and nothing else. Of a failed run nothing but its kind is
in any log.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.store.base import BaseStore

from coe_agents._removed import refuses_removed
from coe_agents.config.build import Configuration
from coe_agents.decision import GroupDecision
from coe_agents.errors import ConfigurationError, GroupUnavailableError
from coe_agents.extensions import did_you_mean
from coe_agents.graph import GraphOptions, create_coe_graph
from coe_agents.graph.context import CallersLimits
from coe_agents.graph.on_decision import OnDecision
from coe_agents.policy import CalibratedPolicy, Policy
from coe_agents.policy.base import regime_thresholds
from coe_agents.policy.bounds import NAMES, Bounds
from coe_agents.policy.fixed_rounds import rounds_of
from coe_agents.rounds.strategies import Strategies
from coe_agents.serve.access import log_failure
from coe_agents.serve.api_error import ApiError
from coe_agents.tinyworld import EXAMPLES, tinyworld_agents, tinyworld_clusterer, tinyworld_policy
from coe_agents.types import Agent, Fields, JsonObject

_MAX_QUESTION_CHARS = 100_000
_OPTIONS = ("agents", *NAMES)
"""The names of `CoEContext`, which a request's `coe` may set."""


@refuses_removed
@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of agents that answers as one model.

    Attributes:
        name: The model's name for callers.
        agents: The agents' names.
        policy: The operator's gate.
        create_graph: Returns the uncompiled graph.
        limits: The operator's limits.
        max_question_chars: A longer question is refused.
        is_toy: Whether its knowledge is invented.
        examples: Questions to try.
        store: Where the graph records cases; None where it records none.
    """

    name: str
    agents: tuple[str, ...]
    policy: Policy
    create_graph: Callable[[], Any]
    limits: Bounds
    max_question_chars: int = _MAX_QUESTION_CHARS
    is_toy: bool = False
    examples: tuple[str, ...] = ()
    store: BaseStore | None = None

    @classmethod
    def of(
        cls,
        agents: Sequence[Agent],
        *,
        policy: Policy,
        name: str = "group",
        store: BaseStore | None = None,
        options: GraphOptions | None = None,
        **arguments: Any,
    ) -> Group:
        """Returns the group of these parts; `arguments` are those of `create_coe_graph`, such as `answers`.

        With an `on_decision` that is a `Recording`, cases are recorded in `store`.

        Raises:
            ConfigurationError: If a run might stop to ask a person.
        """
        if options is None:
            options = GraphOptions()
        strategies = Strategies(arguments.get("strategies"))
        may_clarify = options.clarify or strategies.may_clarify
        asks_person = getattr(arguments.get("escalation"), "interrupts", False)
        if may_clarify or asks_person:
            raise ConfigurationError(
                "a group that stops to ask a person cannot be served as a model",  # its caller cannot reply
                hint='Omit the strategy "clarify" and AskPerson, or serve the graph with the LangGraph server',
            )
        max_rounds = rounds_of(policy, arguments.get("max_rounds"))
        limits = _thresholds_of(policy).change(**arguments)
        for_callers = replace(options, on_unavailable="raise", compares_texts=True)
        return cls(
            name=name,
            agents=tuple(agent.name for agent in agents),
            policy=policy,
            create_graph=partial(
                create_coe_graph, agents, policy=policy, options=for_callers, **arguments
            ),
            limits=limits.change(max_rounds=max_rounds),
            max_question_chars=options.max_question_chars,
            store=store,
        )

    @classmethod
    def from_configuration(
        cls,
        configuration: Configuration,
        *,
        name: str,
        on_decision: OnDecision | None = None,
        store: BaseStore | None = None,
    ) -> Group:
        """Returns the group of a configuration, which records cases as `of` says.

        Raises:
            ConfigurationError: If a run might stop to ask a person.
        """
        section = configuration.settings.graph
        group = cls.of(
            configuration.agents,
            policy=configuration.policy,
            name=name,
            options=GraphOptions(max_question_chars=section.max_question_chars),
            strategies=section.strategies,
            **section.bounds.to_dict(),
        )
        create = partial(
            configuration.create_graph,
            on_unavailable="raise",
            compares_texts=True,
            on_decision=on_decision,
        )
        return replace(group, create_graph=create, store=store)

    @classmethod
    def from_tinyworld(cls, *, name: str = "tinyworld", **arguments: Any) -> Group:
        """Returns the group of the models that are shipped with the package; `arguments` are further ones of `of`."""
        parts: JsonObject = {"clusterer": tinyworld_clusterer(), "policy": tinyworld_policy()}
        group = cls.of(tinyworld_agents(), **parts, name=name, **arguments)
        examples = tuple(question for question, _ in EXAMPLES)
        return replace(group, is_toy=True, examples=examples)

    def tighten(self, options: Fields) -> CallersLimits:
        """Returns the limits that a request sets, by the names of `CoEContext`, each at most the operator's.

        A request's deadline ends the run without an answer. In the graph, a deadline cuts off the slow agents and
        lets the others decide, so that a caller could choose who is heard.

        Raises:
            ApiError: If an option is unknown, invalid or above the operator's.
        """
        limits = JsonObject()
        for name, value in options.items():
            if name not in _OPTIONS:
                hint = did_you_mean(name, _OPTIONS) or f"The options are {', '.join(_OPTIONS)}"
                raise _refused(name, f'"{name}" is not an option of "coe". {hint}')
            if value is None:
                continue
            if name == "agents":
                names = {str(name) for name in value} if isinstance(value, list) else set()
                if names != set(self.agents):
                    agents = ", ".join(self.agents)
                    message = f'"agents" must be all agents, {agents}: a caller cannot choose who is asked. Omit it'
                    raise _refused(name, message)
            elif name == "n_samples":
                message = '"n_samples" is set by the operator: fewer responses would measure less uncertainty. Omit it'
                raise _refused(name, message)
            else:
                limits[name] = _at_most(name, value, getattr(self.limits, name))
        return CallersLimits(**limits)

    def check_question(self, question: str, *, param: str) -> None:
        """Refuses, by an `ApiError`, a question that the graph would refuse as too long."""
        longest = self.max_question_chars
        if len(question) > longest:
            message = f"the question must have at most {longest} characters; got {len(question)}. Shorten it"
            raise ApiError(400, message, param=param, code="context_length_exceeded")

    def describe(self) -> JsonObject:
        """Returns what the group is, as JSON."""
        return {
            "model": self.name,
            "agents": list(self.agents),
            "policy": self.describe_policy(),
            "max_rounds": self.limits.max_rounds,
            "is_toy": self.is_toy,
            "examples": list(self.examples),
        }

    def describe_policy(self, lower: Bounds | None = None) -> JsonObject:
        """Returns the gate, with the lower limits of a request: its class, and the thresholds in nats.

        `max_coe` is None where the gate compares no CoE. The other two also divide the plane of the regimes.
        """
        aleatoric, epistemic = regime_thresholds(self.policy)
        gate = {
            "type": type(self.policy).__name__,
            "max_coe": self.limits.max_coe,
            "aleatoric_threshold": aleatoric,
            "epistemic_threshold": epistemic,
        }
        for name in gate:
            threshold = getattr(lower, name, None)
            if threshold is not None:
                gate[name] = threshold
        return gate


def _at_most(name: str, value: Any, limit: float | None) -> float:
    try:
        wanted: float = getattr(Bounds(**{name: value}), name)
    except (TypeError, ValueError) as error:
        raise _refused(name, str(error)) from error
    if limit is not None and wanted > limit:
        must = f'"{name}" must be at most {limit:g}, the operator\'s; got {wanted:g}. Lower it'
        raise _refused(name, must)
    return wanted + 0  # 0.0 for -0.0


def _refused(name: str, message: str) -> ApiError:
    return ApiError(400, message, param=f"coe.{name}", code="invalid_value")


def _thresholds_of(policy: Policy) -> Bounds:
    """Returns the thresholds that a policy compares with CoE and its parts.

    Those of a policy of another kind are unknown here; a request may still add its own.
    """
    max_coe = getattr(policy, "max_coe", None)
    if isinstance(policy, CalibratedPolicy) and policy.calibration.score == "coe":
        max_coe = policy.calibration.threshold
    if max_coe == math.inf:  # no JSON, and no limit
        max_coe = None
    return Bounds(
        max_coe=max_coe,
        aleatoric_threshold=getattr(policy, "aleatoric_threshold", None),
        epistemic_threshold=getattr(policy, "epistemic_threshold", None),
    )


_RETRY_AFTER = "30"
"""Seconds after which a caller may ask a group again of which no model answered."""


class Runs:
    """Asks a group, any number of times at once; a run that fails raises `ApiError`. `callbacks` observe every run."""

    def __init__(self, group: Group, callbacks: Sequence[BaseCallbackHandler] = ()) -> None:
        self.group = group
        self._config = {"callbacks": list(callbacks)}
        # raises now what would fail every request
        self._graph = group.create_graph().compile(store=group.store)

    async def run(self, graph_input: Fields, limits: CallersLimits) -> Fields:
        """Returns the result of a run; its decision is to abstain if the request's deadline passes before."""
        async for chunk in self.stream(graph_input, limits):
            result = chunk
        return result

    async def stream(self, graph_input: Fields, limits: CallersLimits) -> AsyncIterator[Fields]:
        """Yields the events of a run, and at last its result, the only one without the key "event"; see `run`."""
        result: JsonObject = {}
        end = None
        if limits.deadline is not None:
            end = asyncio.get_running_loop().time() + limits.deadline
        stream = self._graph.astream(
            graph_input, self._config, context=limits, stream_mode=["custom", "values"]
        )
        try:
            async with aclosing(stream):
                while True:
                    async with _watch(end):
                        part = await anext(stream, None)
                    if part is None:
                        break
                    mode, chunk = part
                    if mode == "values":
                        result = chunk
                    else:
                        yield chunk
        except TimeoutError:
            decision = GroupDecision(
                action="abstain",
                answer=None,
                cause="deadline",
                reason="there was no decision before the deadline of the request",
                n_rounds=0,
            ).data
            result = {"decision": {**decision, "is_late": True}, "responses": [], "labels": []}
        yield result


@asynccontextmanager
async def _watch(end: float | None) -> AsyncIterator[None]:
    """Ends the block at a time of the event loop's clock, by `TimeoutError`; another failure becomes an `ApiError`."""
    try:
        async with asyncio.timeout_at(end) as limit:
            yield
    except Exception as error:
        if limit.expired() and isinstance(error, TimeoutError):
            raise
        log_failure(error)
        if isinstance(error, GroupUnavailableError):
            message = "no model of the group answered. Ask later; the operator finds the cause with coe-agents doctor"
            raise ApiError(
                503, message, code="group_unavailable", headers={"Retry-After": _RETRY_AFTER}
            ) from None
        message = f"the group failed ({type(error).__name__}). The operator can find the cause with coe-agents doctor"
        raise ApiError(500, message, code="group_failed") from None
