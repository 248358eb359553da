"""Owns the diagnosis of `doctor`: which findings are problems, and the remedy for each."""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from coe_agents import __version__
from coe_agents.agents import ModelAgent
from coe_agents.agents.greedy_decoding import REMEDY
from coe_agents.config.build import create_agents, create_clusterer
from coe_agents.config.schema import Config
from coe_agents.config.validation import check
from coe_agents.doctor import probes
from coe_agents.doctor.probes import ANSWER, OTHER, PARAPHRASE, AgentReport, ClustererReport, Problem, probe_of
from coe_agents.policy.guarantee import UNKEPT
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer

_PACKAGES = ("torch", "transformers", "langgraph", "langchain-core", "langchain-openai")


@dataclass(frozen=True, kw_only=True)
class Examination:
    """All findings; `late` is whether a probe still runs after its time limit."""

    agents: Mapping[str, AgentReport | None]
    clusterer: ClustererReport | None
    versions: Mapping[str, str | None]
    device: str
    problems: list[Problem]
    notes: list[str]
    late: bool

    @property
    def is_well(self) -> bool:
        return not self.problems and not any(report and report.ignores_temperature for report in self.agents.values())

    def to_json(self) -> dict[str, Any]:
        agents: dict[str, Any] = {}
        for name, report in self.agents.items():
            fields = {} if report is None else {**asdict(report), "n_in_one_request": report.n_in_one_request}
            agents[name] = {"reachable": report is not None, **fields}
        found = asdict(self)
        del found["late"]
        return {"ok": not self.problems, **found, "agents": agents}


def examine(config: Config | None, *, timeout: float) -> Examination:
    """Probes the clusterer and all agents at once, each for at most `timeout` seconds."""
    notes = [] if config is None else [line for line in check(config) if line.startswith(UNKEPT)]
    folder = Path() if config is None else config.folder
    if (folder / "langgraph.json").is_file() and not os.environ.get("COE_GATE_SECRET"):
        notes.append(
            "langgraph.json: the server keeps threads, and COE_GATE_SECRET is not set: after a restart, gates ask "
            "people again and refuse calls that wait for their tools"
        )
    agents = _agents(config)
    clusterer = tinyworld_clusterer() if config is None else create_clusterer(config)
    probe = probe_of(clusterer)

    with_tools = config is not None and config.clusterer.kind == "actions"
    tasks: dict[str, Any] = {
        f"agent {name}": partial(probes.probe_agent, agent, with_tools=with_tools)
        for name, (agent, *_) in agents.items()
    }
    if probe is not None:
        tasks["clusterer"] = probe
    found = probes.all_within(timeout, tasks)
    late = Problem(
        error=f"no reply within {timeout:g} s",
        remedy="Look at the server's log, or raise --timeout: a model of the hub is downloaded on first use",
    )
    results = {name: late if result is None else result for name, result in found.items()}

    places = {f"agent {name}": address for name, (_, address, _) in agents.items()}
    single = {f"agent {name}" for name, (*_, is_single) in agents.items() if is_single}
    if config is not None:
        places["clusterer"] = getattr(config.clusterer, "base_url", None) or ""
    needs_logprobs = config is not None and config.graph.weighting == "probability"
    problems = list[Problem]()
    for part, result in results.items():
        place = f"{part} at {places[part]}" if places.get(part) else part
        named = f"{place} {result.model}" if isinstance(result, ClustererReport) else place
        faults = _faults(result, needs_logprobs=needs_logprobs, is_single=part in single)
        problems += [replace(fault, part=named) for fault in faults]
        notes += _notes(part, result, is_single=part in single)
    reports = {name: None if isinstance(result, Problem) else result for name, result in results.items()}
    devices = sorted({report.device for report in reports.values() if report is not None and report.device})
    return Examination(
        agents={name: reports[f"agent {name}"] for name in agents},
        clusterer=reports.get("clusterer"),
        versions=versions(),
        device=", ".join(devices) or "none: no model runs in this process",
        problems=problems,
        notes=notes,
        late=late in results.values(),
    )


def _agents(config: Config | None) -> dict[str, tuple[ModelAgent, str, bool]]:
    """Returns by name an agent, its server's address, and whether the group takes one response a round."""
    n_samples = probes.N_SAMPLES
    if config is None:
        return {agent.name: (agent, "", False) for agent in tinyworld_agents(n_samples=n_samples)}
    made = zip(config.agents, create_agents(config, n_samples=n_samples), strict=True)
    return {agent.name: (agent, section.base_url or "", section.n_samples == 1) for section, agent in made}


def versions() -> dict[str, str | None]:
    """Returns the versions of the relevant packages; None for one that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "coe-agents": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _faults(result: Any, *, needs_logprobs: bool, is_single: bool) -> Iterator[Problem]:
    if isinstance(result, Problem):
        yield result
    elif isinstance(result, ClustererReport):
        remedy = (
            "Use another model: for entailment one trained on MNLI whose config.json has the right id2label, for "
            '"llm" a more able one; or for embeddings another threshold'
        )
        if not result.joins_paraphrase:
            yield Problem(error=f'it tells "{PARAPHRASE}" from "{ANSWER}"', remedy=remedy)
        if result.joins_other:
            yield Problem(error=f'it takes "{OTHER}" for "{ANSWER}"', remedy=remedy)
    else:
        if result.ignores_temperature and result.on_greedy == "exclude" and not is_single:
            yield Problem(error=f"{_copies(result)}, so its responses are excluded", remedy=REMEDY)
        if result.n_empty == result.n_returned:
            remedy = 'Raise "max_tokens": a model that reasons may spend them all before it answers'
            yield Problem(error="all its responses are empty", remedy=remedy)
        if result.calls_tools is False:
            yield Problem(
                error="asked to call a tool, it called none: its server may ignore tools",
                remedy="Turn them on there (vLLM: --enable-auto-tool-choice, --tool-call-parser), or use another model",
            )
        if needs_logprobs and result.logprobs != "all":
            yield Problem(
                error='it returns no log-probabilities, but weighting = "probability" needs them',
                remedy='Set weighting = "auto", or use a server that returns them',
            )


def _notes(part: str, result: Any, *, is_single: bool) -> Iterator[str]:
    if isinstance(result, Problem | ClustererReport):
        return
    if result.n_returned < result.n_asked:
        yield f"{part}: returned {result.n_returned} of {result.n_asked} responses"
    if result.ignores_temperature and is_single:
        yield f"{part}: {_copies(result)}; it gives one response a round, which counts"
    elif result.ignores_temperature and result.on_greedy != "exclude":
        counts = "its responses count as one" if result.on_greedy == "count_once" else "all its responses count"
        yield f'{part}: {_copies(result)}; by on_greedy = "{result.on_greedy}" {counts}'
    unclear = result.ignores_temperature is None
    found = f"; {result.probe}" if result.probe else ""
    if unclear and result.temperature > 0 and result.n_returned > 1 and result.n_distinct == 1:
        yield (
            f"{part}: gave the same response {result.n_returned} times at temperature {result.temperature:g}; "
            f"it is certain, or a cache or an ignored temperature is the cause{found}"
        )


def _copies(report: AgentReport) -> str:
    return (
        f"its temperature of {report.temperature:g} has no effect: it gave the same response "
        f"{report.n_returned} times, and {report.probe}"
    )
