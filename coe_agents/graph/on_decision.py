"""Owns what a graph passes on once a case is decided: the case, and to whom."""

import hashlib
import uuid
import warnings
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeAlias, runtime_checkable

from langchain_core.runnables import RunnableConfig

from coe_agents._steps import Call, Steps
from coe_agents.checks import has_method
from coe_agents.decision.case import DecidedCase
from coe_agents.errors import describe_error
from coe_agents.graph.nodes.finish import finish
from coe_agents.graph.runnables import OneForm, TwoForms, steps_node
from coe_agents.graph.state import CoEState


@runtime_checkable
class Recorder(Protocol):
    """Anything that records decided cases: `coe_agents.rulings.Recording`."""

    def check(self) -> None:
        """Refuses a run whose cases could not be recorded, before any agent is asked."""
        ...

    def record(self, case: DecidedCase) -> Steps[None]:
        """Records a case. It warns where its store fails: the answer is worth more than its record."""
        ...


OnDecision: TypeAlias = Recorder | Callable[[DecidedCase], object]
"""A recorder, or a function of the decided case; an asynchronous run calls the function in a thread."""


def check_on_decision(on_decision: object, where: str) -> None:
    """Refuses, by a TypeError, what is neither a recorder nor a function."""
    is_function = callable(on_decision) and not isinstance(on_decision, type)
    if not is_function:
        has_method(on_decision, "record", where, advice="Pass Recording(), or a function")
        return
    call = getattr(on_decision, "__call__", None)  # noqa: B004 - of an object, its method
    if iscoroutinefunction(on_decision) or iscoroutinefunction(call):
        raise TypeError(
            f"{where} must be a plain function; got {on_decision!r:.200}, which nobody would await. "
            'Write "def": an asynchronous run calls it in a thread'
        )


def finish_node(on_decision: OnDecision | None) -> TwoForms:
    """Returns the node that ends a run, and passes the case on if somebody is to be told."""
    if on_decision is None:
        return OneForm(finish)

    def steps(state: CoEState, config: RunnableConfig) -> Steps[dict[str, Any]]:
        update = finish(state)
        case = DecidedCase(
            id=_id_of_turn(state, config),
            question=state["turn"]["question"],
            conversation=state["turn"]["conversation"],
            decision=update["decision"],
            leading=(state["measured"] or {}).get("answer"),
            responses=state["responses"],
            labels=state["labels"],
        )
        if isinstance(on_decision, Recorder):
            yield from on_decision.record(case)
            return update
        try:
            yield Call(on_decision, None, (case,))
        except Exception as error:  # the answer is worth more than what the function does with it
            function = getattr(on_decision, "__qualname__", type(on_decision).__name__)
            described = describe_error(error, on_decision)
            warnings.warn(
                f'"on_decision", {function}, failed, and the decision stands: {described}',
                stacklevel=2,
            )
        return update

    return steps_node(steps, name="finish")


def _id_of_turn(state: CoEState, config: RunnableConfig) -> str:
    """Returns an id: the same if a turn is resumed or replayed, others for other gates and edited questions.

    Without a thread nothing is resumed, and clients may repeat the ids of messages: each turn has a random one.
    """
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    if thread is None:
        return uuid.uuid4().hex
    *gates, _ = configurable.get("checkpoint_ns", "").split("|")  # "gate:TASK|finish:TASK"
    place = [gate.partition(":")[0] for gate in gates]
    turn = state["turn"]
    name = "\n".join([str(thread), *place, str(turn["last_seen"]), turn["question"]])
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
