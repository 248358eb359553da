"""Owns what `doctor` finds: which findings are problems, and what to do about each."""

import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from typing import Any

from coe_agents import __version__
from coe_agents.cli import probes
from coe_agents.cli.assemble import create_agents, create_clusterer
from coe_agents.cli.checks import check
from coe_agents.cli.config import Config
from coe_agents.cli.probes import AgentReport, EntailmentReport, Failure
from coe_agents.clustering import EntailmentModel
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer

_PACKAGES = ("torch", "transformers", "langgraph", "langchain-core", "langchain-openai")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something needed that is broken, and what to do."""

    part: str
    error: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Examination:
    """All findings. `late` says whether something still runs that was not waited for."""

    agents: Mapping[str, AgentReport | None]
    entailment: EntailmentReport | None
    versions: Mapping[str, str | None]
    device: str
    problems: list[Problem]
    notes: list[str]
    late: bool

    def to_json(self) -> dict[str, Any]:
        """Returns what `doctor --json` prints."""
        agents: dict[str, Any] = {}
        for name, report in self.agents.items():
            said = {} if report is None else {**asdict(report), "n_in_one_request": report.n_in_one_request}
            agents[name] = {"reachable": report is not None, **said}
        return {
            "ok": not self.problems,
            "agents": agents,
            "entailment": None if self.entailment is None else asdict(self.entailment),
            "versions": dict(self.versions),
            "device": self.device,
            "problems": [asdict(problem) for problem in self.problems],
            "notes": self.notes,
        }


def examine(config: Config | None, *, timeout: float) -> Examination:
    """Asks all agents and the entailment model at once, each for at most `timeout` seconds.

    Raises:
        ConfigurationError: If the configuration cannot work.
    """
    if config is not None:
        check(config)
    n_samples = probes.N_SAMPLES
    agents = tinyworld_agents(n_samples=n_samples) if config is None else create_agents(config, n_samples=n_samples)
    clusterer = tinyworld_clusterer() if config is None else create_clusterer(config)
    entailment = getattr(clusterer, "model", None)

    tasks: dict[str, Any] = {f"agent {agent.name}": partial(probes.probe_agent, agent) for agent in agents}
    if isinstance(entailment, EntailmentModel):
        tasks["entailment"] = partial(probes.probe_entailment, entailment)
    found = probes.all_within(timeout, tasks)
    late = {name for name, result in found.items() if result is None}
    results = {name: _late(timeout) if result is None else result for name, result in found.items()}

    places = {} if config is None else {f"agent {agent.name}": agent.base_url for agent in config.agents}
    needs_logprobs = config is not None and config.graph.weighting == "probability"
    problems, notes = list[Problem](), list[str]()
    for part, result in results.items():
        place = f"{part} at {places[part]}" if places.get(part) else part
        problems += _problems(place, result, needs_logprobs=needs_logprobs)
        notes += _notes(part, result)
    reports = {name: None if isinstance(result, Failure) else result for name, result in results.items()}
    devices = sorted({report.device for report in reports.values() if report is not None and report.device})
    return Examination(
        agents={agent.name: reports[f"agent {agent.name}"] for agent in agents},
        entailment=reports.get("entailment"),
        versions=versions(),
        device=", ".join(devices) or "none: no model runs in this process",
        problems=problems,
        notes=notes,
        late=bool(late),
    )


def versions() -> dict[str, str | None]:
    """Returns the versions of what matters; None where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "coe-agents": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _late(timeout: float) -> Failure:

    return Failure(
        error=f"no reply within {timeout:g} s",
        remedy="Look at the server's log, or raise --timeout: a model of the hub is downloaded at its first use",
    )


def _problems(place: str, result: Any, *, needs_logprobs: bool) -> Iterator[Problem]:

    if isinstance(result, Failure):
        yield Problem(part=place, error=result.error, remedy=result.remedy)
    elif isinstance(result, EntailmentReport):
        yield from _entailment_problems(place, result)
    else:
        if result.n_empty == result.n_returned:
            yield Problem(
                part=place,
                error="all its responses are empty",
                remedy='Raise "max_tokens": a model that reasons may spend them all before it answers',
            )
        if needs_logprobs and result.logprobs != "all":
            yield Problem(
                part=place,
                error='it gives no log-probabilities, and weighting = "probability" needs them',
                remedy='Set weighting = "auto", or use a server that gives them',
            )


def _entailment_problems(place: str, report: EntailmentReport) -> Iterator[Problem]:

    wrong = None
    if report.entailed.label != "entailment":
        wrong = f'"{probes.PREMISE}" entails "{probes.ENTAILED}", and it says {report.entailed.label}'
    elif report.contradicted.label == "entailment":
        wrong = f'"{probes.PREMISE}" does not entail "{probes.CONTRADICTED}", and it says that it does'
    if wrong:
        yield Problem(
            part=f"{place} {report.model}",
            error=wrong,
            remedy="Use a model trained on MNLI, and check that id2label in its config.json is right",
        )


def _notes(part: str, result: Any) -> Iterator[str]:

    if isinstance(result, Failure):
        return
    if isinstance(result, EntailmentReport):
        if result.contradicted.label == "neutral":
            yield f"{part}: an obvious contradiction counts as neutral; that keeps the two apart all the same"
        return
    if result.n_returned < result.n_asked:
        yield f"{part}: gave {result.n_returned} of {result.n_asked} responses"
    if result.temperature > 0 and result.n_returned > 1 and result.n_distinct == 1:
        yield (
            f"{part}: said the same {result.n_returned} times at temperature {result.temperature:g}; "
            "it is sure, or a cache or an ignored temperature is at work"
        )
