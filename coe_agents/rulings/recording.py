"""Owns the recording of cases in LangGraph's store: what people rule, and which answers they audit afterwards."""

import hashlib
import secrets
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from langgraph.config import get_store

from coe_agents._removed import refuses_removed
from coe_agents._steps import Call, Steps
from coe_agents.checks import share
from coe_agents.decision.case import DecidedCase, RecordedCase
from coe_agents.errors import ConfigurationError, describe_error
from coe_agents.rulings.recorded import NAMESPACE, create_ruling, to_storable


@refuses_removed
@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a graph records in the store of its `compile(store=...)`: all escalations, with what people rule on them.

    An observing `CoECouncil` records all calls that it would have blocked, in the store of `create_agent(store=...)`.

    Cases hold the text of your users; see `coe_agents.rulings`.

    Attributes:
        audit_rate: The probability with which an answer of the group is recorded, too, in [0, 1], for people to rule on
            afterwards; the answer does not wait for them.

    Raises:
        TypeError: If the rate is no number.
        ValueError: If it is not in [0, 1].

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.rulings import Recording, pending_cases
        >>> from coe_agents.testing import ScriptedAgent
        >>> from langgraph.store.memory import InMemoryStore
        >>> agents, store = [ScriptedAgent(name, ["Paris"]) for name in "ab"], InMemoryStore()
        >>> parts = {"clusterer": NormalizedMatch(), "policy": ThresholdPolicy(0.5)}
        >>> graph = create_coe_graph(agents, on_decision=Recording(audit_rate=1.0), **parts).compile(store=store)
        >>> result = graph.invoke({"question": "What is the capital of France?"})
        >>> [(case["kind"], case["answer"]) for case in pending_cases(store)]
        [('audit', 'Paris')]
    """

    audit_rate: float = 0.0
    _secret: bytes = field(
        default_factory=partial(secrets.token_bytes, 16), init=False, repr=False, compare=False
    )
    """Which answers are audited is drawn with it, so that it depends on nothing that a client could choose."""

    def __post_init__(self) -> None:
        share(
            self.audit_rate,
            '"audit_rate" of a Recording',
            advice="0.05 audits one answer of twenty",
        )

    def check(self) -> None:
        """Refuses a run of a graph that was compiled without a store, before any agent is asked."""
        if get_store() is None:
            raise ConfigurationError(
                "the graph records cases, and was compiled without a store",
                hint="Pass one: graph.compile(store=...), or omit on_decision=",
            )

    def record(self, case: DecidedCase) -> Steps[None]:
        """Records an escalation, what a person ruled in the run, or an answer that was drawn for an audit."""
        recorded = self._to_recorded(case)
        store = get_store()
        if recorded is None or store is None:
            return
        storable = to_storable(recorded)
        try:
            kept = yield Call(store.get, store.aget, (NAMESPACE, recorded["id"]))

            # a replay repeats a case: it must change neither the answer that a person is shown, nor a ruling
            is_new_ruling = recorded["ruling"] is not None and kept is not None
            if kept is None or (is_new_ruling and kept.value.get("status") == "pending"):
                yield Call(store.put, store.aput, (NAMESPACE, recorded["id"], storable))
        except Exception as error:  # the answer is worth more than its record
            described = describe_error(error, store)
            warnings.warn(f"a case could not be recorded: {described}", stacklevel=2)

    def _to_recorded(self, case: DecidedCase) -> RecordedCase | None:
        """Returns the case as it is recorded; None for an answer that was not drawn, and for what is no such case."""
        decision = case["decision"]
        is_answer = decision["action"] == "answer" and decision["decided_by"] == "group"
        is_ruled = decision["decided_by"] == "person"
        kind: Literal["escalation", "audit", "observed"]
        if is_answer:
            if not self._is_drawn(case["id"]):
                return None
            kind = "audit"
        elif decision.get("observed") is True:
            kind = "observed"
        elif is_ruled or decision["action"] == "escalate":
            kind = "escalation"
        else:
            return None

        ruling = None
        if is_ruled:
            ruling = create_ruling(correct=None, answer=decision["answer"])
        return RecordedCase(
            id=case["id"],
            kind=kind,
            status="ruled" if is_ruled else "pending",
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seen_probability=self.audit_rate if is_answer else 1.0,
            question=case["question"],
            conversation=case["conversation"],
            answer=decision["answer"] if is_answer else case["leading"],
            cause=decision["cause"],
            reason=decision["reason"],
            responses=case["responses"],
            labels=case["labels"],
            ruling=ruling,
        )

    def _is_drawn(self, case_id: str) -> bool:
        """Returns whether an answer is audited: the hash is uniform in [0, 1) over secrets."""
        digest = hashlib.sha256(self._secret + case_id.encode()).digest()
        uniform = int.from_bytes(digest[:7]) / 2**56
        return uniform < self.audit_rate
