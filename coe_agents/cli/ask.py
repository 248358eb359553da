"""Owns the commands that ask the group: `ask` and `demo`."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents import _ring
from coe_agents.cli.inputs import load_named, load_quietly
from coe_agents.cli.options import ConfigOption, Exit, JsonOption, ModelOptions, expand_options
from coe_agents.cli.stores import AuditRateOption, RecordOption, open_recording
from coe_agents.cli.terminal import print_json, print_lines, show_work

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler

    from coe_agents.config.schema import Config

EPILOG = (
    "Exit status: 0 an answer, 3 an abstention, 4 an escalation, 2 a mistake in the command or its configuration, "
    "or a missing key, 1 a failure, 130 interrupted."
)
_BY_ACTION = {"answer": Exit.ANSWERED, "abstain": Exit.ABSTAINED, "escalate": Exit.ESCALATED}


@expand_options
def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    named: ModelOptions,
    config: ConfigOption = None,
    record: RecordOption = None,
    audit_rate: AuditRateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the group of models a question; show the answer or the refusal first, then the reason."""
    if question == "-":
        question = sys.stdin.read().strip()
    if not question.strip():
        raise typer.BadParameter("it must not be empty", param_hint="'question'")
    start = time.perf_counter()
    settings = load_named(config, named)
    if settings is None and not as_json:
        from coe_agents.cli.display.decision import show_note

        note = "tinyworld: small models trained on an invented world. Others: --model or --config FILE."
        show_note(note, to_stderr=True)
    nodes = list[str | None]()
    with open_recording(settings, record, audit_rate) as recording:
        observed = {"callbacks": [record_nodes(nodes)]}
        with show_work("loading the group") as show:
            graph = _create_graph(settings, **recording)
            decision = _decide(graph, {"question": question}, show, **observed)
    seconds = time.perf_counter() - start
    if as_json:
        from coe_agents.decision.views import to_json

        print_json(to_json(question, decision, seconds))
    else:
        from coe_agents.cli.display.decision import show_decision

        agents = {*decision["agents"], *decision["failed_agents"]}
        n_judged = sum(node not in agents for node in nodes)
        show_decision(question, decision, seconds, n_judged=n_judged)
    raise typer.Exit(_BY_ACTION[decision["action"]])


def _decide(
    graph: Any, asked: Mapping[str, Any], show: Callable[[str], None], **config: Any
) -> Any:
    """Returns the decision of a graph on a question; `show` is passed what is done now."""
    from coe_agents.graph.events import Answering

    answering = Answering(show)
    result: Any = None
    for mode, chunk in graph.stream(asked, config, stream_mode=["custom", "values"]):
        if mode == "values":
            result = chunk
        else:
            answering.note(chunk)
    return result["decision"]


def record_nodes(nodes: list[str | None]) -> "BaseCallbackHandler":
    """Returns a handler of callbacks that adds to a list the graph's node of each request to a chat model."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Handler(BaseCallbackHandler):
        run_inline = True

        def on_chat_model_start(
            self, *_: Any, metadata: Mapping[str, Any] | None = None, **__: Any
        ) -> None:
            nodes.append((metadata or {}).get("langgraph_node"))

    return Handler()


def demo() -> None:
    """Ask tinyworld five questions, then for three actions and a paragraph.

    Of the actions one is run, one is stopped, and nothing is to be called. The paragraph loses a false sentence.
    """
    from coe_agents.cli.display.decision import show_decision, show_note
    from coe_agents.tinyworld import (
        ACTIONS,
        EXAMPLES,
        PARAGRAPH,
        tinyworld_tools,
        tinyworld_writers,
    )
    from coe_agents.tinyworld.tools import tool_schemas

    with show_work("loading the group"):
        graph = _create_graph(load_quietly(None))
    tools = {tool.name: tool for tool in tinyworld_tools()}

    def show_asked(request: str, note: str, asked: Any = graph, **options: Any) -> None:
        start = time.perf_counter()
        with show_work("asking") as show:
            decision = _decide(asked, {"question": request, **options}, show)
        show_decision(request, decision, time.perf_counter() - start, note=note)
        for call in decision["calls"] or []:
            show_note(f"  {call['name']} was run: {tools[call['name']].invoke(call['args'])}")

    show_note(
        "Three small neural models, trained by this project on invented knowledge and shipped with it, are sampled ten "
        "times each; an entailment model clusters their responses. Nothing is downloaded, and no text is scripted."
    )
    for question, note in EXAMPLES:
        show_asked(question, note)
    print_lines("")
    show_note(
        "The same models with tools: each proposes what to call, and a call is run only if they agree."
    )
    for request, note in ACTIONS:
        show_asked(request, note, tools=[*tool_schemas().values()])
    if not _ring.is_there("claims"):
        return
    print_lines("")
    show_note(
        "The same models, trained on to write paragraphs: each sentence is kept if the other models support it."
    )
    show_asked(*PARAGRAPH, asked=tinyworld_writers().compile())


def _create_graph(config: "Config | None", *, on_decision: Any = None, store: Any = None) -> Any:
    if config is None:
        # without what reads configurations, which is slow to import
        from coe_agents.graph import GraphOptions
        from coe_agents.tinyworld import tinyworld_graph

        options = GraphOptions(on_unavailable="raise")
        return tinyworld_graph(on_decision=on_decision, options=options).compile(store=store)
    from coe_agents.config.build import assemble
    from coe_agents.policy.calibrated import UnkeptRiskWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnkeptRiskWarning)  # the reason of the decision says it
        graph = assemble(config, on_unavailable="raise", on_decision=on_decision)
        return graph.compile(store=store)
