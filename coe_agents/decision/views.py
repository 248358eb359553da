"""Owns the views of a decision for others: what the command prints, and what a caller of the server is shown."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.actions.canonical import tool_key
from coe_agents.measurement.wording import is_about_actions

_PRINTED = (
    "action",
    "answer",
    "cause",
    "reason",
    "regime",
    "coe",
    "aleatoric",
    "epistemic",
    "n_rounds",
    "agents",
    "failed_agents",
)
_OF_PROPOSALS = ("answer_kind", "calls", "contested")
_NUMBERS = ("regime", "coe", "aleatoric", "epistemic", "surprisal", "n_rounds", "conformity")

_CLASS = re.compile(r"[A-Za-z_]\w*(?:Error|Exception|Timeout)", re.ASCII)


def to_json(question: str, decision: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Returns the object that `ask --json` prints; some keys are there only where they say something.

    "claims" is there where a long answer was judged claim by claim, "decided_by" where the group did not decide itself,
    "answer_kind", "calls" and "contested" where agents proposed tool calls.
    """
    names = list(_PRINTED)
    if is_about_actions(decision):
        names += _OF_PROPOSALS
    if decision.get("claims"):
        names.append("claims")
    printed: dict[str, Any] = {"question": question}
    for name in names:
        printed[name] = decision[name]
    printed["seconds"] = round(seconds, 3)
    if decision["decided_by"] != "group":
        printed["decided_by"] = decision["decided_by"]
    return printed


def to_public(
    decision: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    *,
    most_calls: int | None = None,
    must_call: bool = False,
) -> dict[str, Any]:
    """Returns the decision as a caller may see it, who showed the group these tools.

    What is contested is named only by names that the tools' schemas have, and without the values: these are withheld.
    An argument of another name counts in the "rest". In "where" are the tool and the name of each contested argument,
    most votes against the leading proposal first. More calls than `most_calls` are withheld altogether, rather than cut
    to the first: nobody proposed that. An answer without calls is withheld from who must be given one.
    """
    public = dict(decision)
    if decision["contested"]:
        public["contested"] = _to_names(decision["contested"], tools)
    if not tools:
        public["calls"] = None

    unfit = None
    n_calls = len(public["calls"] or ())
    if most_calls is not None and n_calls > most_calls:
        unfit = "the agents agree on several calls, and the request allows one"
    elif must_call and decision["action"] == "answer" and n_calls == 0:
        unfit = "the agents agree to call nothing, and the request requires a call"
    if unfit is not None:
        public |= {
            "action": "abstain",
            "answer": None,
            "calls": None,
            "cause": "limit_of_caller",
            "reason": unfit,
            "is_unfit": True,
        }
    if public["action"] != "answer":
        public.pop("fields", None)
    return public


def _to_names(contested: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    stated = {}
    for tool in tools:
        function = tool["function"]
        properties = (function.get("parameters") or {}).get("properties")
        if isinstance(properties, Mapping):
            for argument in properties:
                key = f"{tool_key(function['name'])}.{argument}"
                stated[key] = (function["name"], argument)

    where = [list(stated[key]) for key in contested["candidates"] if key in stated]
    names = {argument for _, argument in where}
    nats_of = contested["arguments"]
    arguments = {name: nats for name, nats in nats_of.items() if name in names}
    hidden = sum(nats_of.values()) - sum(arguments.values())
    return {
        "tool": contested["tool"],
        "call": contested["call"],
        "arguments": arguments,
        "rest": contested["rest"] + hidden,
        "where": where,
    }


def to_numbers(decision: Mapping[str, Any], ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the action, the numbers, and which agents failed with which kind of error.

    Of a long answer that is given it has the claims, also those that were left out; of no other answer any text.
    """
    names = ["action", "cause", "decided_by", "answer_kind", "contested", *_NUMBERS]
    if "fields" in decision:
        names.append("fields")
    numbers = {name: decision[name] for name in names}

    agents = {}
    for name, agent in decision["agents"].items():
        agents[name] = {"n_responses": agent["n_responses"], "entropy": agent["entropy"]}
    numbers["agents"] = agents
    failed = decision["failed_agents"]
    numbers["failed_agents"] = {name: kind_of(error) for name, error in failed.items()}

    numbers["claims"] = decision.get("claims") if decision["action"] == "answer" else None
    numbers["ignored"] = list(ignored)
    return numbers


def kind_of(error: str) -> str:
    """Returns the class of an error that is written as `describe_error` writes it: "Class: message".

    An agent of your own may report one in any words, and quote a response: such an error is an "Error".
    """
    kind, colon, _ = error.partition(":")
    return kind if colon and _CLASS.fullmatch(kind) else "Error"
