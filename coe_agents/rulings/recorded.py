"""Owns what people rule: the cases that a graph records in LangGraph's store, and the samples that they become."""

import re
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from coe_agents.decision.case import PersonRuling, RecordedCase
from coe_agents.errors import StoreError

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

NAMESPACE = ("coe_agents", "rulings")
"""Where the cases are in the store; a case's key is its id."""
_PAGE = 100
_ONE_RULING = threading.Lock()
"""Stores cannot compare and set: without it, two threads could both rule on a case."""
_NOT_STORED = re.compile("[\0\ud800-\udfff]")


def cases(
    store: "BaseStore", *, status: Literal["pending", "ruled"] | None = None
) -> list[RecordedCase]:
    """Returns the recorded cases in the order of their decisions, those of one status or all.

    Raises:
        StoreError: What another program wrote is among them.
    """
    by_id: dict[str, RecordedCase] = {}
    wanted = None if status is None else {"status": status}
    offset = 0
    while page := store.search(NAMESPACE, filter=wanted, limit=_PAGE, offset=offset):
        for item in page:
            # a search finds longer namespaces, too
            if tuple(item.namespace) == NAMESPACE:
                by_id[item.key] = _to_case(item.key, item.value)
        offset += len(page)
    return sorted(by_id.values(), key=lambda case: (case["time"], case["id"]))


def pending_cases(store: "BaseStore") -> list[RecordedCase]:
    """Returns the cases that wait for a ruling, the oldest first."""
    return cases(store, status="pending")


def rule(
    store: "BaseStore", case_id: str, *, correct: bool | None = None, answer: str | None = None
) -> RecordedCase:
    """Records what a person ruled on a pending case, and returns the case.

    If threads of one process rule on a case at once, one succeeds. If processes do, a later ruling may replace another.

    Args:
        store: The store of the graph, synchronous.
        case_id: The id of the case: see `pending_cases`.
        correct: Whether the answer of the group was right; an audit needs it.
        answer: The right answer, where it is another one.

    Raises:
        KeyError: There is no such case.
        TypeError: An argument is of another kind.
        ValueError: The case was ruled on before, or the arguments do not say what is right.
        StoreError: Another program wrote what is there.

    Example:
        >>> from langgraph.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> case = {"id": "1", "kind": "audit", "status": "pending", "time": "2026-01-31T12:00:00+00:00"}
        >>> case |= {"question": "Capital of France?", "answer": "Lyon", "seen_probability": 0.1, "ruling": None}
        >>> case |= {"conversation": [], "reason": "", "responses": [], "labels": []}
        >>> store.put(NAMESPACE, "1", case)
        >>> rule(store, "1", correct=False, answer="Paris")["status"]
        'ruled'
        >>> pending_cases(store)
        []
    """
    if not isinstance(correct, bool | None):
        raise TypeError(
            f'"correct" must be True, False or None; got {correct!r}. Pass True if the answer was right'
        )
    if not isinstance(answer, str | None):
        raise TypeError(f'"answer" must be a text or None; got {answer!r}. Pass the right answer')
    with _ONE_RULING:
        item = store.get(NAMESPACE, case_id)
        if item is None:
            raise KeyError(
                f"there is no case {case_id!r} in the store. List those that wait: pending_cases(store) (coe-agents "
                "audit without --rule)"
            )
        case = _to_case(case_id, item.value)
        if case["status"] == "ruled":
            raise ValueError(
                f"a case must be pending to be ruled on; {case_id!r} was ruled on. Choose another"
            )
        if answer is not None:
            answer = answer.strip() or None
        # of an escalation the right answer says enough
        says_enough = case["kind"] == "escalation" and answer is not None
        if correct is None and not says_enough:
            raise ValueError(
                'a ruling must say whether the answer was right; got no "correct". Pass correct=True or correct=False'
            )
        if correct and answer is not None:
            raise ValueError(
                '"answer" is for an answer that was wrong; got both. Omit it, or pass correct=False'
            )
        if correct and case["answer"] is None:
            raise ValueError(
                'the case has no answer that could be right; got correct=True. Pass answer="..."'
            )
        ruling = to_storable(create_ruling(correct=correct, answer=answer))
        ruled: RecordedCase = {**case, "status": "ruled", "ruling": ruling}
        store.put(NAMESPACE, case_id, dict(ruled))
        return ruled


def _to_case(key: str, value: Any) -> RecordedCase:
    """Returns what is in a store as a case; refuses what no graph recorded."""
    try:
        case: RecordedCase = _form().validate_python(value, strict=True)
    except ValidationError:
        is_case = False
    else:
        is_case = _agrees_with_itself(key, case)
    if not is_case:
        raise StoreError(
            f"what is under {key!r:.80} in the store is not a recorded case",
            hint=f"Delete it if it is yours: store.delete({NAMESPACE}, {key!r:.80})",
        )
    return case


def _agrees_with_itself(key: str, case: RecordedCase) -> bool:
    if case["id"] != key or len(case["labels"]) > len(case["responses"]):
        return False
    is_ruled = case["status"] == "ruled"
    has_ruling = case["ruling"] is not None
    return is_ruled == has_ruling and 0.0 < case["seen_probability"] <= 1.0


@cache
def _form() -> TypeAdapter[RecordedCase]:
    return TypeAdapter(RecordedCase)


def create_ruling(*, correct: bool | None, answer: str | None) -> PersonRuling:
    """Returns a ruling of this moment."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return PersonRuling(correct=correct, answer=answer, time=now)


def to_storable(value: Any) -> Any:
    r"""Returns plain data with U+FFFD in place of lone surrogates and NUL, which not every database can store.

    Example:
        >>> ascii(to_storable({"text": ["Par\ud83dis", 1]}))
        "{'text': ['Par\\ufffdis', 1]}"
    """
    if isinstance(value, str):
        return _NOT_STORED.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {to_storable(name): to_storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_storable(item) for item in value]
    return value


def sample_rows(case: RecordedCase) -> Iterator[dict[str, Any]]:
    """Yields the responses of a ruled case as samples, labelled as far as the ruling says; none if it says nothing.

    The clusters decide which responses mean the same: where the right answer is one of the responses, those of its
    cluster are right and all others wrong. Otherwise `correct` is null, and the criterion compares the responses with
    the right answer in `references`; where only the given answer is known to be wrong, so is its cluster,
    and nothing is said about the others.

    Each sample has two fields of its own: `seen_probability` and `kind`.
    """
    ruling = case["ruling"]
    if ruling is None or (ruling["correct"] is None and ruling["answer"] is None):
        return
    right, verdicts = _verdicts(case, ruling)
    labels = case["labels"]
    for place, response in enumerate(case["responses"]):
        # responses behind the labels are failures, which nobody clustered
        is_clustered = place < len(labels)
        yield {
            "id": case["id"],
            "question": case["question"],
            "references": [] if right is None else [right],
            **response,
            "correct": verdicts.get(labels[place]) if is_clustered else None,
            "seen_probability": case["seen_probability"],
            "kind": case["kind"],
        }


def case_row(case: RecordedCase) -> dict[str, Any] | None:
    """Returns a ruled audit as a line for `coe-agents drift --cases`; None for what says nothing about answers."""
    ruling = case["ruling"]
    if case["kind"] != "audit" or ruling is None or ruling["correct"] is None:
        return None
    return {
        "id": case["id"],
        "correct": ruling["correct"],
        "seen_probability": case["seen_probability"],
        "time": case["time"],
    }


def _verdicts(case: RecordedCase, ruling: Mapping[str, Any]) -> tuple[str | None, dict[int, bool]]:
    """Returns the right answer, if known, and whether each cluster is right, as far as the ruling says."""
    cluster = _cluster_of(case, case["answer"])
    right = case["answer"] if ruling["correct"] else ruling["answer"]
    is_wrong = right is None or ruling["correct"] is False
    only_wrong: dict[int, bool] = {}
    if is_wrong and cluster is not None:
        only_wrong[cluster] = False
    if right is None:
        return None, only_wrong

    # a right answer in the cluster of the wrong one says that this cluster is of unlike responses
    right_cluster = _cluster_of(case, right)
    if right_cluster is None or (right_cluster == cluster and ruling["correct"] is False):
        return right, only_wrong
    return right, {label: label == right_cluster for label in case["labels"]}


def _cluster_of(case: RecordedCase, answer: str | None) -> int | None:
    """Returns the cluster of the responses that say exactly this; None if none does."""
    if answer is None:
        return None
    for response, label in zip(case["responses"], case["labels"], strict=False):
        if answer in (response["answer"], response["text"].strip()):
            return label
    return None
