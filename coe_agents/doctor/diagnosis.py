"""Owns the diagnosis of `doctor`: which findings are problems, and the remedy for each."""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from coe_agents import ModelAgent, __version__
from coe_agents.agents.greedy_decoding import REMEDY
from coe_agents.config.build import create_agents, create_clusterer
from coe_agents.config.schema import Config
from coe_agents.config.validation import check
from coe_agents.doctor import probes
from coe_agents.doctor.probes import (
    CONTRADICTED,
    ENTAILED,
    PREMISE,
    AgentReport,
    EmbeddingReport,
    EntailmentReport,
    Problem,
    probe_of,
)
from coe_agents.policy.guarantee import UNKEPT
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer

_PACKAGES = ("torch", "transformers", "langgraph", "langchain-core", "langchain-openai")


@dataclass(frozen=True, kw_only=True)
class Examination:
    """All findings; `late` is whether a probe still runs after its time limit."""

    agents: Mapping[str, AgentReport | None]
    clusterer: EntailmentReport | EmbeddingReport | None
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
        clusterer = self.clusterer
        return {
            "ok": not self.problems,
            "agents": agents,
            "entailment": asdict(clusterer) if isinstance(clusterer, EntailmentReport) else None,
            "embedding": asdict(clusterer) if isinstance(clusterer, EmbeddingReport) else None,
            "versions": dict(self.versions),
            "device": self.device,
            "problems": [asdict(problem) for problem in self.problems],
            "notes": self.notes,
        }


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
    clustering, probe = probe_of(clusterer) or ("", None)

    tasks: dict[str, Any] = {
        f"agent {name}": partial(probes.probe_agent, agent) for name, (agent, *_) in agents.items()
    }
    if probe is not None:
        tasks[clustering] = probe
    found = probes.all_within(timeout, tasks)
    late = Problem(
        error=f"no reply within {timeout:g} s",
        remedy="Look at the server's log, or raise --timeout: a model of the hub is downloaded on first use",
    )
    results = {name: late if result is None else result for name, result in found.items()}

    places = {f"agent {name}": address for name, (_, address, _) in agents.items()}
    single = {f"agent {name}" for name, (*_, is_single) in agents.items() if is_single}
    if config is not None:
        places[clustering] = getattr(config.clusterer, "base_url", None) or ""
    needs_logprobs = config is not None and config.graph.weighting == "probability"
    problems = list[Problem]()
    for part, result in results.items():
        place = f"{part} at {places[part]}" if places.get(part) else part
        named = f"{place} {result.model}" if isinstance(result, EntailmentReport | EmbeddingReport) else place
        faults = _faults(result, needs_logprobs=needs_logprobs, is_single=part in single)
        problems += [replace(fault, part=named) for fault in faults]
        notes += _notes(part, result, is_single=part in single)
    reports = {name: None if isinstance(result, Problem) else result for name, result in results.items()}
    devices = sorted({report.device for report in reports.values() if report is not None and report.device})
    return Examination(
        agents={name: reports[f"agent {name}"] for name in agents},
        clusterer=reports.get(clustering),
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
    elif isinstance(result, EntailmentReport):
        yield from _entailment_faults(result)
    elif isinstance(result, EmbeddingReport):
        yield from _embedding_faults(result)
    else:
        if result.ignores_temperature and result.on_greedy == "exclude" and not is_single:
            yield Problem(error=f"{_copies(result)}, so its responses are excluded", remedy=REMEDY)
        if result.n_empty == result.n_returned:
            remedy = 'Raise "max_tokens": a model that reasons may spend them all before it answers'
            yield Problem(error="all its responses are empty", remedy=remedy)
        if needs_logprobs and result.logprobs != "all":
            yield Problem(
                error='it returns no log-probabilities, but weighting = "probability" needs them',
                remedy='Set weighting = "auto", or use a server that returns them',
            )


def _entailment_faults(report: EntailmentReport) -> Iterator[Problem]:
    wrong = None
    if report.entailed.label != "entailment":
        wrong = f'"{PREMISE}" entails "{ENTAILED}", but the model says {report.entailed.label}'
    elif report.contradicted.label == "entailment":
        wrong = f'"{PREMISE}" does not entail "{CONTRADICTED}", but the model says that it does'
    remedy = "Use a model trained on MNLI, and check that id2label in its config.json is right"
    if report.n_unclear is not None:
        remedy = 'Use a more able chat model, or an NLI model: kind = "entailment"'
    if report.n_unclear:
        wrong = f"for {report.n_unclear} of 2 pairs the model states none of the labels, so they count as neutral"
    if wrong:
        yield Problem(error=wrong, remedy=remedy)


def _embedding_faults(report: EmbeddingReport) -> Iterator[Problem]:
    same, other, threshold = f"{report.paraphrase:.3f}", f"{report.other:.3f}", f"the threshold of {report.threshold:g}"
    if report.paraphrase <= report.other:
        remedy = 'No threshold separates them. Use another model, or kind = "entailment"'
        yield Problem(error=f"another answer ({other}) is as similar as a paraphrase ({same})", remedy=remedy)
    elif report.paraphrase < report.threshold:
        remedy = f"Lower the threshold; another answer has {other}"
        yield Problem(error=f"a paraphrase has a cosine of {same}, below {threshold}", remedy=remedy)
    elif report.other >= report.threshold:
        remedy = f"Raise the threshold; a paraphrase has {same}"
        yield Problem(error=f"another answer has a cosine of {other}, not below {threshold}", remedy=remedy)


def _notes(part: str, result: Any, *, is_single: bool) -> Iterator[str]:
    if isinstance(result, Problem | EmbeddingReport):
        return
    if isinstance(result, EntailmentReport):
        if not result.n_unclear and result.contradicted.label == "neutral":
            yield f"{part}: an obvious contradiction counts as neutral; the two answers are still separated"
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
