"""Runs that are written by hand: what `coe-agents run` would have stored."""

import json

from coe_agents.evaluation.origin import DECISIONS, PRICES, SECONDS
from tests.evaluation.invented import write


def step(
    question="Which?",
    *,
    action="answer",
    correct=1.0,
    leading=None,
    coe=0.1,
    rounds=1,
    by="group",
    tokens=None,
    **more,
):
    leading = correct if leading is None else leading
    tokens = {"a": (10, 5), "b": (10, 5)} if tokens is None else tokens
    usage = {
        name: {"input_tokens": given, "output_tokens": said}
        for name, (given, said) in tokens.items()
    }
    sampling = [{"n_requests": 1}] * rounds
    decision = {
        "action": action,
        "answer": "Paris" if action == "answer" else None,
        "reason": "so it is",
        "decided_by": by,
        "coe": coe,
        "aleatoric": coe,
        "epistemic": 0.0,
        "conformity": None,
        "n_rounds": rounds,
        "failed_agents": {},
        "agents": {name: {"sampling": sampling} for name in "ab"},
        "tokens": usage,
        "trajectory": [
            {"round": number, "answer": "Paris", "coe": coe} for number in range(rounds)
        ],
        **more,
    }
    return {
        "question": question,
        "references": ["Paris"],
        "answerable": True,
        "action": action,
        "answer": decision["answer"],
        "decided_by": by,
        "escalated": action == "escalate" or by != "group",
        "correct": correct if action == "answer" else None,
        "verdicts": [leading] * rounds,
        "decision": decision,
    }


def went_on(*rounds, regime="consensus", adopted=None, question="Which?"):
    """Returns a question of several rounds, each (U_A, U_E, whether the leading answer is right)."""
    trajectory = [
        {
            "round": number,
            "strategy": "debate" if number else None,
            "coe": aleatoric + epistemic,
            "aleatoric": aleatoric,
            "epistemic": epistemic,
            "regime": regime,
            "answer": "Paris" if right else "Lyon",
            "led": ["Paris"],
            "leading": {"a": "Paris", "b": "Paris" if right else "Lyon"},
            "flips": {"a": False, "b": bool(number)} if number else {},
            "adopted": ({"a": False, "b": False} if adopted is None else adopted) if number else {},
            "tokens": 10 * (number + 1),
            "n_responses": 4,
        }
        for number, (aleatoric, epistemic, right) in enumerate(rounds)
    ]
    sampling = [{"n_requests": 1, "round": number} for number in range(len(rounds))]
    found = step(
        question,
        action="abstain",
        rounds=len(rounds),
        coe=trajectory[-1]["coe"],
        trajectory=trajectory,
        agents={name: {"sampling": sampling} for name in "ab"},
    )
    return {**found, "verdicts": [None if right is None else float(right) for *_, right in rounds]}


def written(folder, rows, *, seconds=None, prices=None):
    """Writes a run: rows by id, each the fields of a `step`, or a text for a failure."""
    folder.mkdir(parents=True)
    held = {name: {"error": row} if isinstance(row, str) else row for name, row in rows.items()}
    write(
        folder / DECISIONS,
        [{"id": name, "agent": "group", "error": None, **row} for name, row in held.items()],
    )
    write(
        folder / SECONDS,
        [{"id": name, "seconds": value} for name, value in (seconds or {}).items()],
    )
    if prices:
        (folder / PRICES).write_text(json.dumps(prices))
    return folder
