"""Owns the tables of `config check` and `doctor`: how they look on a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from coe_agents.cli.terminal import clean, create_console
from coe_agents.config.models import is_served
from coe_agents.config.schema import Config, CustomPart, ModelSection
from coe_agents.doctor.diagnosis import AgentReport, Examination
from coe_agents.extensions import is_reference, origin_of
from coe_agents.text import as_sentence, quantity

_EXTENSIONS = ("coordination", "estimator")
"""The fields that may name code."""
_EMPTY = '""'
_SHORT = 20
"""Characters up to which a name stays on one line."""


def show_config(config: Config, notes: Sequence[str], *, path: str) -> None:
    """Prints the settings of a configuration."""
    console = create_console()
    console.print(Text.assemble((clean(path), "bold"), (" is valid.", "bold green")))
    console.print()
    heads = ("agent", "provider", "model", "samples", "T", "weight", "key")
    rows = []
    for agent in config.agents:
        cells = [
            agent.name,
            agent.provider,
            _model(agent),
            str(agent.n_samples),
            f"{agent.temperature:g}",
            f"{agent.weight:g}",
            _key(agent),
        ]
        rows.append(cells)

    settings = []
    for name in ("answers", "clusterer", "policy", "escalation", "judge", "graph"):
        section = getattr(config, name)
        if section is not None:
            settings.append((name, _settings(section)))

    console.print(Padding(_table(heads, rows), (0, 0, 0, 2)))
    console.print()
    console.print(Padding(_definitions(settings), (0, 0, 0, 2)))
    _show_remarks("note", "yellow", notes, console=console)
    console.print()
    end = f"No model was called or loaded. Next: coe-agents doctor --config {clean(path)}"
    console.print(Text(end, style="dim"))


def show_examination(examination: Examination, *, console: Console | None = None) -> None:
    """Prints the findings of `doctor`."""
    console = console or create_console()
    heads = (
        "agent",
        "reached",
        "loading",
        "latency",
        "n at once",
        "logprobs",
        "distinct",
        "tokens",
    )
    rows = [(name, *_agent_cells(report)) for name, report in examination.agents.items()]
    console.print(_table(heads, rows))
    console.print()

    definitions = []
    clusterer = examination.clusterer
    if clusterer is not None:
        definitions.append(("clusterer", f"{clusterer.model}; {clusterer.seconds:.2f} s"))
    versions = []
    for name, version in examination.versions.items():
        versions.append(f"{name} {version or 'not installed'}")
    definitions.append(("versions", ", ".join(versions)))
    definitions.append(("device", examination.device))
    console.print(_definitions(definitions))

    _show_remarks("note", "yellow", examination.notes, console=console)
    problems = []
    for problem in examination.problems:
        error = as_sentence(problem.error)
        remedy = as_sentence(problem.remedy)
        problems.append(f"{problem.part}: {error} {remedy}")
    _show_remarks("problem", "red", problems, console=console)
    console.print()
    if problems:
        console.print(Text(f"{quantity(len(problems), 'problem')}.", style="bold red"))
    elif examination.is_well:
        console.print(Text("No problems.", style="bold green"))
    else:
        end = "No problems, but the temperature of an agent has no effect: see the notes."
        console.print(Text(end, style="bold yellow"))


def _show_remarks(head: str, style: str, remarks: Iterable[str], *, console: Console) -> None:
    for remark in remarks:
        console.print()
        console.print(Text.assemble((f"{head}: ", f"bold {style}"), clean(remark)))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """Returns a table without lines; texts wrap, short names do not, and markup in them is shown as text."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    table.columns[0].no_wrap = all(len(name) <= _SHORT for name, *_ in rows)
    for name, *cells in rows:
        table.add_row(_to_text(name, "bold"), *map(_to_text, cells))
    return table


def _definitions(items: Iterable[tuple[str, str]]) -> Table:
    heads = (Column(no_wrap=True), Column(overflow="fold"))
    table = Table(*heads, box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in items:
        table.add_row(Text(name, style="dim"), _to_text(text))
    return table


def _to_text(cell: str | Text, style: str = "") -> Text:
    return cell if isinstance(cell, Text) else Text(clean(cell), style=style)


def _agent_cells(report: AgentReport | None) -> Sequence[str | Text]:
    if report is None:
        return (Text("no", style="bold red"), *["-"] * 6)
    loading = "-" if report.load_seconds is None else f"{report.load_seconds:.2f} s"
    several = f"no, {quantity(report.n_requests, 'request')}"
    at_once = {True: "yes", False: several, None: "-"}[report.n_in_one_request]
    logprobs = {"all": "yes", "some": "on some", "none": "no"}[report.logprobs]
    n_tokens = (report.input_tokens, report.output_tokens)
    tokens = ["?" if n is None else str(n) for n in n_tokens]
    return (
        Text("yes", style="green"),
        loading,
        f"{report.seconds:.2f} s",
        at_once,
        logprobs,
        f"{report.n_distinct} of {report.n_returned} at T={report.temperature:g}",
        " + ".join(tokens),
    )


def _model(section: ModelSection) -> str:
    if section.base_url:
        # a query may hold a key
        return f"{section.model} at {section.base_url.partition('?')[0]}"
    place = _place(section)
    return f"{section.model} ({place})" if place else section.model


def _place(section: ModelSection) -> str:
    """Returns where a model is loaded from into this process; "" for one that is not."""
    if section.provider not in ("transformers", "huggingface"):
        return ""
    path = Path(section.model)
    if path.suffix == ".gguf":
        return "file"
    return "folder" if path.is_dir() else "hub"


def _key(section: ModelSection) -> str:
    if section.api_key_env is not None:
        return f"${section.api_key_env}, set"
    if not is_served(section) or _place(section) == "folder":
        return "not needed"
    return "none sent" if section.base_url else "the provider's own variable"


def _settings(section: BaseModel) -> str:
    """Returns the fields of a section that are set, on one line."""
    settings = []
    fields = section.model_dump(exclude_none=True)
    if kind := fields.pop("kind", None):
        settings.append(_named(kind) if isinstance(section, CustomPart) else kind)
    if isinstance(section, ModelSection):
        settings.append(f"{section.provider} {_model(section)} (key: {_key(section)})")
        for name in ModelSection.model_fields:
            fields.pop(name, None)
    for name, value in fields.items():
        if name in _EXTENSIONS:
            settings.append(f"{name} = {_named(value)}")
        elif value != {}:
            settings.append(f"{name} = {value if value != '' else _EMPTY}")
    return "; ".join(settings)


def _named(name: str) -> str:
    """Returns a name, and the file that it is from where that is known."""
    file = origin_of(name) if is_reference(name) else ""
    return f"{name} (from {file})" if file else name
