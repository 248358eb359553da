"""Owns the tables of `config check` and `doctor`: how they look on a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from coe_agents.cli.terminal import clean, create_console
from coe_agents.config.models import LOCAL_PROVIDERS
from coe_agents.config.schema import Config, CustomPart, ModelSection
from coe_agents.doctor.diagnosis import AgentReport, Examination
from coe_agents.extensions import is_reference, origin_of
from coe_agents.text import quantity

_EXTENSIONS = ("coordination", "estimator")
"""The fields that may name code."""
_SHORT = 20
"""Characters up to which a name stays on one line."""


def show_config(config: Config, notes: Sequence[str], *, path: str) -> None:
    """Prints the settings of a configuration."""
    console = create_console()
    console.print(Text.assemble((clean(path), "bold"), (" is valid.", "bold green")))
    console.print()
    heads = ("agent", "provider", "model", "samples", "T", "weight", "key")
    rows = [
        (
            each.name,
            each.provider,
            _model(each),
            str(each.n_samples),
            *map("{:g}".format, numbers),
            _key(each),
        )
        for each in config.agents
        for numbers in ((each.temperature, each.weight),)
    ]
    parts = {
        name: getattr(config, name)
        for name in ("answers", "clusterer", "policy", "escalation", "judge", "graph")
    }
    settings = [
        (name, _settings(name, section)) for name, section in parts.items() if section is not None
    ]
    console.print(Padding(_table(heads, rows), (0, 0, 0, 2)))
    console.print()
    console.print(Padding(_definitions(settings), (0, 0, 0, 2)))
    _show_remarks("note", "yellow", notes, console=console)
    console.print()
    console.print(
        Text(
            f"No model was called or loaded. Next: coe-agents doctor --config {clean(path)}",
            style="dim",
        )
    )


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
    versions = ", ".join(
        f"{name} {version or 'not installed'}" for name, version in examination.versions.items()
    )
    found = examination.clusterer
    clusterer = [] if found is None else [("clusterer", f"{found.model}; {found.seconds:.2f} s")]
    console.print(
        _definitions([*clusterer, ("versions", versions), ("device", examination.device)])
    )
    _show_remarks("note", "yellow", examination.notes, console=console)
    problems = [
        f"{problem.part}: {problem.error.rstrip('.')}. {problem.remedy}."
        for problem in examination.problems
    ]
    _show_remarks("problem", "red", problems, console=console)
    console.print()
    end, style = (
        "No problems, but the temperature of an agent has no effect: see the notes.",
        "yellow",
    )
    if problems or examination.is_well:
        end, style = (
            (f"{quantity(len(problems), 'problem')}.", "red")
            if problems
            else ("No problems.", "green")
        )
    console.print(Text(end, style=f"bold {style}"))


def _show_remarks(head: str, style: str, remarks: Iterable[str], *, console: Console) -> None:
    for remark in remarks:
        console.print()
        console.print(Text.assemble((f"{head}: ", f"bold {style}"), clean(remark)))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Returns a table without lines; texts wrap, short names do not, and markup in them is shown as text."""
    table, rows = Table(box=None, padding=(0, 2, 0, 0), header_style="dim"), list(rows)
    for place, head in enumerate(heads):
        is_name = place == 0 and all(len(name) <= _SHORT for name, *_ in rows)
        table.add_column(head, overflow="fold", no_wrap=is_name)
    for name, *cells in rows:
        first = name if isinstance(name, Text) else Text(clean(name), style="bold")
        table.add_row(
            first, *(cell if isinstance(cell, Text) else Text(clean(cell)) for cell in cells)
        )
    return table


def _definitions(items: Iterable[tuple[str, str | Text]]) -> Table:
    table = Table(
        Column(no_wrap=True),
        Column(overflow="fold"),
        box=None,
        show_header=False,
        padding=(0, 2, 0, 0),
    )
    for name, text in items:
        table.add_row(
            Text(name, style="dim"), text if isinstance(text, Text) else Text(clean(text))
        )
    return table


def _agent_cells(report: AgentReport | None) -> Sequence[str | Text]:
    if report is None:
        return (Text("no", style="bold red"), *["-"] * 6)
    loading = "-" if report.load_seconds is None else f"{report.load_seconds:.2f} s"
    in_one = {True: "yes", False: f"no, {quantity(report.n_requests, 'request')}", None: "-"}[
        report.n_in_one_request
    ]
    return (
        Text("yes", style="green"),
        loading,
        f"{report.seconds:.2f} s",
        in_one,
        {"all": "yes", "some": "on some", "none": "no"}[report.logprobs],
        f"{report.n_distinct} of {report.n_returned} at T={report.temperature:g}",
        " + ".join(
            "?" if count is None else str(count)
            for count in (report.input_tokens, report.output_tokens)
        ),
    )


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


def _settings(part: str, section: BaseModel) -> str:
    fields = {
        name: value for name, value in section.model_dump(exclude_none=True).items() if value != {}
    }
    said = []
    if kind := fields.pop("kind", None):
        said.append(_named(kind) if isinstance(section, CustomPart) else kind)
    if isinstance(section, ModelSection):
        said.append(f"{section.provider} {_model(section)} (key: {_key(section)})")
        fields = {
            name: value for name, value in fields.items() if name not in ModelSection.model_fields
        }
    for name, value in fields.items():
        shown = '""' if value == "" else value
        said.append(f"{name} = {_named(value) if name in _EXTENSIONS else shown}")
    return "; ".join(said)


def _named(name: str) -> str:
    return f"{name} (from {origin_of(name)})" if is_reference(name) and origin_of(name) else name
