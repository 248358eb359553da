"""Owns the recording of cases in LangGraph's store: what people rule, and which answers they audit afterwards."""

import hashlib
import secrets
import uuid
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store

from coe_agents._steps import Call, Steps
from coe_agents.checks import instance, share
from coe_agents.errors import ConfigurationError, describe_error
from coe_agents.graph.nodes.finish import finish
from coe_agents.graph.rulings import NAMESPACE, RecordedCase, create_ruling, to_storable
from coe_agents.graph.runnables import TwoForms, steps_node
from coe_agents.graph.state import CoEState


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a graph records in the store of its `compile(store=...)`: all escalations, with what people rule on them.

    Cases hold the text of your users; see `coe_agents.graph.rulings`.

    Attributes:
        audit_rate: The probability with which an answer of the group is recorded, too, in [0, 1], for people to rule on
            afterwards; the answer does not wait for them.

    Raises:
        TypeError: If the rate is no number.
        ValueError: If it is not in [0, 1].

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.graph.rulings import pending_cases
        >>> from coe_agents.testing import ScriptedAgent
        >>> from langgraph.store.memory import InMemoryStore
        >>> agents, store = [ScriptedAgent(name, ["Paris"]) for name in "ab"], InMemoryStore()
        >>> parts = {"clusterer": NormalizedMatch(), "policy": ThresholdPolicy(0.5)}
        >>> graph = create_coe_graph(agents, recording=Recording(audit_rate=1.0), **parts).compile(store=store)
        >>> result = graph.invoke({"question": "What is the capital of France?"})
        >>> [(case["kind"], case["answer"]) for case in pending_cases(store)]
        [('audit', 'Paris')]
    """

    audit_rate: float = 0.0

    def __post_init__(self) -> None:
        share(
            self.audit_rate,
            '"audit_rate" of a Recording',
            advice="0.05 audits one answer of twenty",
        )


class Recorder:
    """Records escalations, and audits: a random share of the group's own answers.

    Which answers are audited is drawn by a hash of the case's id and a secret of this object, so that it depends on
    nothing that a question or a client could choose.
    """

    def __init__(self, recording: Recording) -> None:
        what, advice = "a Recording", "Pass Recording(), or omit it"
        instance(recording, Recording, '"recording"', what=what, advice=advice)
        self.audit_rate = recording.audit_rate
        self._secret = secrets.token_bytes(16)

    def check(self) -> None:
        """Refuses a run of a graph that was compiled without a store, before any agent is asked."""
        if get_store() is None:
            raise ConfigurationError(
                "the graph records cases, and was compiled without a store",
                hint="Pass one: graph.compile(store=...), or omit recording=",
            )

    def node(self) -> TwoForms:
        def steps(state: CoEState, config: RunnableConfig) -> Steps[dict[str, Any]]:
            update = finish(state)
            case, store = self.case_of(state, update, config), get_store()
            if case is not None and store is not None:
                try:
                    kept = yield Call(store.get, store.aget, (NAMESPACE, case["id"]))
                    # a replay repeats a case: it must change neither the answer that a person is shown, nor a ruling
                    if kept is None or (
                        case["ruling"] is not None and kept.value.get("status") == "pending"
                    ):
                        yield Call(
                            store.put, store.aput, (NAMESPACE, case["id"], to_storable(case))
                        )
                except Exception as error:  # the answer is worth more than its record
                    warnings.warn(
                        f"a case could not be recorded: {describe_error(error, store)}",
                        stacklevel=2,
                    )
            return update

        return steps_node(steps, name="finish")

    def case_of(
        self, state: CoEState, update: dict[str, Any], config: RunnableConfig
    ) -> RecordedCase | None:
        """Returns the case to record; None for an answer that was not drawn, and for what neither is."""
        decision = update["decision"]
        action, by = decision["action"], decision["decided_by"]
        digest = hashlib.sha256(_turn(state, config).encode(errors="surrogatepass")).hexdigest()
        is_audit = action == "answer" and by == "group"
        if is_audit:
            drawn = hashlib.sha256(self._secret + digest.encode()).digest()
            if (
                int.from_bytes(drawn[:7]) / 2**56 >= self.audit_rate
            ):  # in [0, 1), uniform over secrets
                return None
        is_ruled = by == "person"
        if not (is_audit or is_ruled or action == "escalate"):
            return None
        measured = state["measured"] or {}
        ruling = create_ruling(correct=None, answer=decision["answer"]) if is_ruled else None
        return RecordedCase(
            id=digest[:32],
            kind="audit" if is_audit else "escalation",
            status="ruled" if is_ruled else "pending",
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seen_probability=self.audit_rate if is_audit else 1.0,
            question=state["turn"]["question"],
            conversation=state["turn"]["conversation"],
            answer=decision["answer"] if is_audit else measured.get("answer"),
            cause=decision["cause"],
            reason=decision["reason"],
            responses=state["responses"],
            labels=state["labels"],
            ruling=ruling,
        )


def _turn(state: CoEState, config: RunnableConfig) -> str:
    """Returns the name of a turn: the same if it is resumed or replayed, others for other gates and edited questions.

    Without a thread nothing is resumed, and clients may repeat the ids of messages: each turn has a random name.
    """
    configurable = config.get("configurable") or {}
    if (thread := configurable.get("thread_id")) is None:
        return uuid.uuid4().hex
    *gates, _ = configurable.get("checkpoint_ns", "").split("|")  # "gate:TASK|finish:TASK"
    place = [gate.partition(":")[0] for gate in gates]
    return "\n".join(
        [str(thread), *place, str(state["turn"]["last_seen"]), state["turn"]["question"]]
    )
