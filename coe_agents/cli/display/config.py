"""Owns the tables of `config check` and `doctor`: how they look on a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents._plurals import quantity
from coe_agents.cli.terminal import clean, create_console
from coe_agents.config import schema
from coe_agents.config.clients import LOCAL_PROVIDERS
from coe_agents.config.schema import Config, ModelSection
from coe_agents.doctor.agents import AgentReport
from coe_agents.doctor.clusterers import EmbeddingReport, EntailmentReport
from coe_agents.doctor.diagnosis import Examination
from coe_agents.extensions import find_extension, origin_of
from coe_agents.policy import RegimePolicy
from coe_agents.policy.base import quorum


def show_config(config: Config, notes: Sequence[str], *, path: str) -> None:
    """Prints the settings of a configuration."""
    console = create_console()
    console.print(Text.assemble((clean(path), "bold"), (" is valid.", "bold green")))
    console.print()
    heads = ("agent", "provider", "model", "samples", "temperature", "weight", "key")
    rows = [
        (
            agent.name,
            agent.provider,
            _model(agent),
            str(agent.n_samples),
            f"{agent.temperature:g}",
            f"{agent.weight:g}",
            _key(agent),
        )
        for agent in config.agents
    ]
    settings = [("clusterer", _clusterer(config)), ("policy", _policy(config))]
    if config.escalation is not None:
        settings.append(("escalation", f"{config.escalation.name} decides: {_server(config.escalation)}"))
    if config.judge is not None:
        settings.append(("judge", f"for --correctness judge: {_server(config.judge)}"))
    settings.append(("graph", _graph(config)))
    console.print(Padding(_table(heads, rows), (0, 0, 0, 2)))
    console.print()
    console.print(Padding(_definitions(settings), (0, 0, 0, 2)))
    _show_remarks("note", "yellow", notes, console=console)
    console.print()
    console.print(Text(f"No model was called or loaded. Next: coe-agents doctor --config {clean(path)}", style="dim"))


def show_examination(examination: Examination, *, console: Console | None = None) -> None:
    """Prints the findings of `doctor`."""
    console = console or create_console()
    heads = ("agent", "reachable", "loading", "latency", "n at once", "logprobs", "distinct", "tokens")
    rows = [(name, *_agent_cells(report)) for name, report in examination.agents.items()]
    console.print(_table(heads, rows))
    console.print()
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in examination.versions.items())
    console.print(
        _definitions([*_clustering(examination.clusterer), ("versions", versions), ("device", examination.device)])
    )
    _show_remarks("note", "yellow", examination.notes, console=console)
    problems = [f"{problem.part}: {problem.error.rstrip('.')}. {problem.remedy}." for problem in examination.problems]
    _show_remarks("problem", "red", problems, console=console)
    console.print()
    if problems:
        console.print(Text(f"{quantity(len(problems), 'problem')}.", style="bold red"))
    elif examination.is_well:
        console.print(Text("No problems.", style="bold green"))
    else:
        console.print(
            Text("No problems, but the temperature of an agent has no effect: see the notes.", style="bold yellow")
        )


def _show_remarks(head: str, style: str, remarks: Iterable[str], *, console: Console) -> None:
    """Prints each remark after a blank line, with its heading."""
    for remark in remarks:
        console.print()
        console.print(Text.assemble((f"{head}: ", f"bold {style}"), clean(remark)))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Returns a table without lines; texts wrap, and markup in them is shown as text."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for name, *cells in rows:
        first = name if isinstance(name, Text) else Text(clean(name), style="bold")
        table.add_row(first, *(cell if isinstance(cell, Text) else Text(clean(cell)) for cell in cells))
    return table


def _definitions(items: Iterable[tuple[str, str | Text]]) -> Table:
    """Returns a table with a name and a description in each row."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in items:
        table.add_row(Text(name, style="dim"), text if isinstance(text, Text) else Text(clean(text)))
    return table


def _agent_cells(report: AgentReport | None) -> Sequence[str | Text]:
    if report is None:
        return (Text("no", style="bold red"), *["-"] * 6)
    loading = "-" if report.load_seconds is None else f"{report.load_seconds:.2f} s"
    in_one = {True: "yes", False: f"no, {quantity(report.n_requests, 'request')}", None: "-"}[report.n_in_one_request]
    return (
        Text("yes", style="green"),
        loading,
        f"{report.seconds:.2f} s",
        in_one,
        {"all": "yes", "some": "on some", "none": "no"}[report.logprobs],
        f"{report.n_distinct} of {report.n_returned} at T={report.temperature:g}",
        f"{report.input_tokens} + {report.output_tokens}",
    )


def _clustering(report: EntailmentReport | EmbeddingReport | None) -> Iterable[tuple[str, str]]:
    if isinstance(report, EntailmentReport):
        labels = f", with the labels {', '.join(report.labels)}" if report.labels else ""
        yield "entailment", f"{report.model}{labels}; {report.seconds:.2f} s"
        for name, judgement in (
            ("obvious entailment", report.entailed),
            ("obvious contradiction", report.contradicted),
        ):
            yield f"  {name}", f"{judgement.label} ({judgement.probability:.3f})"
    elif report is not None:
        yield "embedding", f"{report.model}; {report.seconds:.2f} s"
        for name, cosine in (("obvious paraphrase", report.paraphrase), ("another answer", report.other)):
            side = "at or above" if cosine >= report.threshold else "below"
            yield f"  {name}", f"{cosine:.3f}, {side} the threshold of {report.threshold:g}"


def _model(section: ModelSection) -> str:
    if section.base_url:
        # a query may hold a key
        return f"{section.model} at {section.base_url.partition('?')[0]}"
    if section.provider != "transformers":
        return section.model
    return f"{section.model} ({'folder' if Path(section.model).is_dir() else 'hub'})"


def _key(section: ModelSection) -> str:
    if section.api_key_env is not None:
        return f"${section.api_key_env}, set"
    if section.provider in LOCAL_PROVIDERS:
        return "not needed"
    return "none sent" if section.base_url else "the provider's own variable"


def _clusterer(config: Config) -> str:
    chosen = config.clusterer
    if isinstance(chosen, schema.CustomPart):
        return _custom("clusterer", chosen)
    if isinstance(chosen, schema.NormalizedClusterer):
        return "normalized: equal except for case, articles and punctuation; no model"
    if isinstance(chosen, schema.ActionsClusterer):
        rules = ", ".join(f"{name} {rule}" for name, rule in chosen.options.get("compare", {}).items())
        return f"actions: tool calls with equal arguments; no model{f'; {rules}' if rules else ''}"
    if isinstance(chosen, schema.EmbeddingClusterer):
        return f"embedding by {_server(chosen)}; same meaning from a cosine of {chosen.threshold:g}"
    lenient = "lenient: no contradiction, and not neutral in both directions"
    rule = "each response must entail the other" if chosen.strict else lenient
    if isinstance(chosen, schema.JudgeClusterer):
        return f"llm: {_server(chosen)} judges; {rule}"
    source = "shipped" if chosen.model == "tinyworld" else "folder" if Path(chosen.model).is_dir() else "hub"
    return f"entailment by {chosen.model} ({source}); {rule}"


def _custom(part: str, section: schema.CustomPart) -> str:
    options = ", ".join(f"{name} = {value!r}" for name, value in section.options.items())
    return _named(part, section.kind) + (f"; options: {options}" if options else "")


def _named(part: str, name: str) -> str:
    """Returns a name, and for an extension where it was loaded from."""
    entry = find_extension(part, name)
    return name if entry is None else f"{name} (from {origin_of(entry)})"


def _server(section: ModelSection) -> str:
    return f"{section.provider} {_model(section)} (key: {_key(section)})"


def _policy(config: Config) -> str:
    chosen = config.policy
    if isinstance(chosen, schema.CustomPart):
        return _custom("policy", chosen)
    unit = "nats" if config.graph.divergence == "kl" else "on the scale of kl"
    if isinstance(chosen, schema.RegimeConfig):
        policy = RegimePolicy(chosen.aleatoric_threshold, chosen.epistemic_threshold, actions=chosen.actions)
        actions = ", ".join(f"{regime} -> {action}" for regime, action in policy.actions.items())
        return (
            f"regime, at {chosen.aleatoric_threshold:g} {unit} (aleatoric) and {chosen.epistemic_threshold:g} "
            f"(epistemic): {actions}"
        )
    if isinstance(chosen, schema.CalibratedConfig):
        return f"calibrated: {chosen.path}, otherwise {chosen.otherwise}"
    return f"threshold: answer while CoE is at most {chosen.max_coe:g} {unit}, otherwise {chosen.otherwise}"


def _graph(config: Config) -> str:
    graph, n_agents = config.graph, len(config.agents)
    bounds = [quantity(graph.max_rounds, "round")]
    if graph.token_budget is not None:
        bounds.append(quantity(graph.token_budget, "token"))
    if graph.deadline is not None:
        bounds.append(f"{graph.deadline:g} s")
    if (adaptive := graph.adaptive) is None:
        more = ""
    else:
        first = f"{quantity(adaptive.start, 'response')} of each agent at first, then {adaptive.step} more at a time"
        more = f"; {first} while they could change the decision (confidence {adaptive.confidence:g})"
    strategies = "".join(f"; {regime} -> {strategy}" for regime, strategy in graph.strategies.items())
    shown = "" if graph.tools is None else f"; tools {_named('tools', graph.tools)}"
    return (
        f"{', '.join(bounds)} at most{strategies}{more}; "
        f"{quorum(n_agents, graph.min_agents)} of {quantity(n_agents, 'agent')} must answer; "
        f"{'' if graph.weights is None else f'weights of {clean(graph.weights)}; '}"
        f"weighting {graph.weighting}; divergence {_named('divergence', graph.divergence)}; "
        f"coordination {_named('solver', graph.coordination or 'off')}{shown}"
    )
