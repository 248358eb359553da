"""Owns the stream of one run for the server's own page: each event of the graph, and at last the whole decision.

Unlike a chat completion it shows what each agent said, also where the gate withholds the answer.
"""

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.types import Scope

from coe_agents.actions.proposals import describe_action
from coe_agents.decision import GroupDecision
from coe_agents.decision.refusal import refusal
from coe_agents.graph.context import CallersLimits
from coe_agents.serve.api_error import ApiError
from coe_agents.serve.chat_request import read_messages
from coe_agents.serve.request_log import note_decision
from coe_agents.serve.runs import Runs


def read_question(body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Mapping[str, Any]]:
    """Returns the conversation, with the question at its end, and the options of the gate in a body.

    Raises `ApiError` if it holds anything else.
    """
    question, options, before = body.get("question"), body.get("coe") or {}, body.get("messages") or []
    if not isinstance(question, str) or not question.strip():
        raise ApiError(400, '"question" must be a text that is not blank. Add it', param="question")
    if (
        not isinstance(options, Mapping)
        or not isinstance(before, list)
        or not {*body} <= {"question", "coe", "messages"}
    ):
        must = 'the body must hold "question" and at most an object "coe" and a list "messages"'
        raise ApiError(400, f"{must}. Correct it")
    return read_messages([*before, {"role": "user", "content": question}]), options


async def stream_events(
    runs: Runs, asked: Sequence[Mapping[str, Any]], limits: CallersLimits, scope: Scope
) -> AsyncIterator[str]:
    """Yields server-sent events: those of `coe_agents.graph.events` by name, then "decision" or "error"."""
    start, question = time.perf_counter(), asked[-1]["content"]
    try:
        async for chunk in runs.stream({"messages": list(asked)}, limits):
            if "event" in chunk:
                yield _format(chunk["event"], chunk)
                continue
            note_decision(scope, chunk["decision"])
            gate = runs.group.describe_policy(limits)
            yield _format("decision", to_report(question, chunk, time.perf_counter() - start, gate))
    except ApiError as error:
        yield _format("error", {"message": error.message})


def to_report(question: str, result: Mapping[str, Any], seconds: float, gate: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the result of a run, which took so many seconds under the thresholds of `gate`, as JSON.

    Returns:
        The keys of `coe_agents.decision.DecisionData`, and: "question"; "seconds"; "headline", one plain sentence;
        "explanation", the sentences of `GroupDecision.explain`; "thresholds"; "clusters", for each one a
        "representative" and its "support"; "responses", by agent, of "text", "answer", "cluster" (the place in
        "clusters"; None for a failure), "round" and "error".
    """
    decision, labels = result["decision"], result["labels"]
    responses: dict[str, list[dict[str, Any]]] = {}
    for place, row in enumerate(result["responses"]):
        shown = {name: row[name] for name in ("text", "answer", "round", "error")}
        cluster = labels[place] if place < len(labels) else None
        responses.setdefault(row["agent"], []).append({**shown, "cluster": cluster})
    headline = decision["answer"] if decision["action"] == "answer" else refusal(decision)
    if calls := decision.get("calls"):
        headline = describe_action(json.dumps(calls))
    return {
        **decision,
        "question": question,
        "seconds": round(seconds, 3),
        "headline": headline,
        "explanation": GroupDecision.from_state(result).explain().splitlines(),
        "thresholds": {name: value for name, value in gate.items() if name != "type"},
        "clusters": [{"representative": text, "support": share} for text, share in decision["support"].items()],
        "responses": responses,
    }


def _format(kind: str, content: Mapping[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n"
