"""Owns the commands that ask the group: `ask` and `demo`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.options import ConfigOption, Exit, JsonOption, WatchOption

if TYPE_CHECKING:
    from coe_agents.cli.config import Config

EPILOG = (
    "Exit status: 0 an answer, 3 an abstention, 4 an escalation, 2 a mistake in the command or its configuration, "
    "1 a failure."
)
_BY_ACTION = {"answer": Exit.ANSWERED, "abstain": Exit.ABSTAINED, "escalate": Exit.ESCALATED}

_DEMO = (
    ("What is the capital of France?", "all three know it"),
    ("What is the capital of Australia?", "they were taught different answers"),
    ("What is the capital of Bolivia?", "each was taught two answers"),
    ("What is the capital of Vanuatu?", "hardly any was taught it"),
    ("Who won the first season of the great northern baking show?", "nothing of the kind is in their world"),
)


def ask(
    question: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
    watched: WatchOption = False,
) -> None:
    """Ask the group: the answer or the refusal first, then why."""
    if question == "-":
        question = sys.stdin.read().strip()
    if not question.strip():
        raise typer.BadParameter("it is empty", param_hint="QUESTION")
    start = time.perf_counter()
    graph = _graph(config)
    if watched:
        from coe_agents.cli.watch import watch

        result = watch(graph, question)
    else:
        result = graph.invoke({"question": question})
    seconds = time.perf_counter() - start
    if as_json:
        print(json.dumps(to_json(question, result["decision"], seconds)))
    else:
        from coe_agents.cli.render import show_decision

        show_decision(question, result["decision"], seconds)
    raise typer.Exit(_BY_ACTION[result["decision"]["action"]])


def demo() -> None:
    """Ask tinyworld five questions: one for each regime, and one from outside its world."""
    from coe_agents.cli.render import show_decision, show_note

    graph = _graph(None)
    show_note(
        "Three small neural models, trained by this project on invented knowledge and shipped with it, are sampled ten "
        "times each; an entailment model clusters what they say. Nothing is downloaded, and no text is scripted."
    )
    for question, note in _DEMO:
        start = time.perf_counter()
        decision = graph.invoke({"question": question})["decision"]
        show_decision(question, decision, time.perf_counter() - start, note=note)


def to_json(question: str, decision: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Returns what `ask --json` prints; who decided is said where it was not the group."""
    names = (
        "action",
        "answer",
        "reason",
        "regime",
        "coe",
        "aleatoric",
        "epistemic",
        "n_rounds",
        "agents",
        "failed_agents",
    )
    said = {"question": question, **{name: decision[name] for name in names}, "seconds": round(seconds, 3)}
    return said if decision["decided_by"] == "group" else {**said, "decided_by": decision["decided_by"]}


def load_quietly(path: Path | None) -> "Config | None":
    """Returns the configuration, None for tinyworld, after setting the environment for models in this process."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if path is None:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # tinyworld's matrices are too small to share
        return None
    from coe_agents.cli.config import load_config

    return load_config(path)


def _graph(path: Path | None) -> Any:
    settings = load_quietly(path)
    from coe_agents.cli.assemble import assemble

    return assemble(settings).compile()
