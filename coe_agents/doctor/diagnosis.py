"""Owns the diagnosis of `doctor`: its probes, which findings are problems, and the remedy for each.

An agent is asked for a few samples, and a clusterer with a model compares three answers.
"""

import copy
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from coe_agents import __version__
from coe_agents._steps import start_call
from coe_agents.agents import ChatEntailment, ModelAgent
from coe_agents.agents.error_mapping import remedy_for
from coe_agents.agents.greedy_decoding import REMEDY
from coe_agents.agents.requests.chat_models import client_name_of
from coe_agents.clustering import Clusterer, EmbeddingSimilarity
from coe_agents.clustering.unjudged import note_unjudged
from coe_agents.config.build import create_agents, create_clusterer
from coe_agents.config.schema import Config
from coe_agents.config.validation import guarantee_notes
from coe_agents.errors import CoEError, IgnoredTemperatureError, InvalidReplyError, secrets_of
from coe_agents.text import for_terminal, one_line, safe_message
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer
from coe_agents.types import AgentRequest, Fields, JsonObject, Sampling

QUESTION = "What is the capital of France?"
N_SAMPLES = 3
ANSWER = "The capital of France is Paris."
PARAPHRASE = "Paris is the capital of France."
OTHER = "The capital of France is Lyon."
TOOL_QUESTION = "What is the weather in Paris? Call get_weather."
TOOL: Fields = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object"}},
}

_LONGEST = 500
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The error of a part, without keys, and its remedy."""

    part: str = ""
    error: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class AgentReport:
    """The results of asking an agent's model for `n_asked` samples.

    Attributes:
        seconds: From the request to the last sample, without `load_seconds`, the loading of a model in this process.
        on_greedy: How its responses count if its temperature has no effect.
        ignores_temperature: None if unknown.
        probe: What probes of an ignored temperature showed; None if there were none.
        n_requests: Without those probes; 1 if the server honours `n`.
        logprobs: Whether all, some or none of the responses have log-probabilities.
        n_distinct: Number of different texts among the responses.
        calls_tools: Whether it called a tool when it was asked to; None if it was not asked.
    """

    temperature: float
    on_greedy: str
    ignores_temperature: bool | None
    probe: str | None
    n_asked: int
    seconds: float
    load_seconds: float | None
    n_returned: int
    n_requests: int
    logprobs: Literal["all", "some", "none"]
    n_distinct: int
    n_empty: int
    input_tokens: int | None
    output_tokens: int | None
    device: str | None
    calls_tools: bool | None = None

    @property
    def n_in_one_request(self) -> bool | None:
        """Whether one request returned all samples; None if only one was requested."""
        if self.n_asked == 1:
            return None
        return self.n_requests == 1 and self.n_returned == self.n_asked


def probe_agent(agent: ModelAgent, *, with_tools: bool = False) -> AgentReport | Problem:
    """Asks an agent's model for its number of samples, and probes its temperature if these are all equal.

    With `with_tools` it is then asked to call a tool.
    """
    start = time.perf_counter()
    examined = copy.copy(agent)
    examined.on_greedy = "exclude"  # detects an ignored temperature under every setting
    try:
        loaded = _load(examined.model())
        ready = time.perf_counter()
        messages = [{"role": "user", "content": QUESTION}]
        try:
            reply = examined.sample(AgentRequest(question=QUESTION, messages=messages, round=0))
            sampling = reply["sampling"]
            usage = reply["usage"]
            n_distinct = len({response["text"].strip() for response in reply["responses"]})
        except IgnoredTemperatureError as error:
            sampling = error.sampling
            usage = error.usage
            n_distinct = 1
        seconds = round(time.perf_counter() - ready, 3)
        calls_tools = _calls_tool(examined) if with_tools else None
    except Exception as error:
        return _to_problem(error, agent)

    load_seconds = None
    if loaded is not None:
        load_seconds = round(ready - start, 3)
    probe = sampling["probe"]
    if probe is not None:
        probe = for_terminal(probe)
    return AgentReport(
        temperature=agent.temperature,
        on_greedy=agent.on_greedy,
        ignores_temperature=sampling["ignores_temperature"],
        probe=probe,
        n_asked=agent.n_samples,
        seconds=seconds,
        load_seconds=load_seconds,
        n_returned=sampling["n_received"],
        n_requests=sampling["n_requests"],
        logprobs=_which_have_logprobs(sampling),
        n_distinct=n_distinct,
        n_empty=sampling["n_empty"],
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        device=getattr(loaded, "device", None),
        calls_tools=calls_tools,
    )


def _which_have_logprobs(sampling: Sampling) -> Literal["all", "some", "none"]:
    if sampling["logprobs_missing"] == 0:
        return "all"
    return "none" if sampling["logprobs_missing"] == sampling["n_received"] else "some"


def _load(model: object) -> object:
    """Loads a model in this process, and returns what has its device; None for one behind a server."""
    load = getattr(model, "load", None)
    return None if load is None else load()


def _calls_tool(agent: ModelAgent) -> bool:
    agent.on_greedy = "trust"  # equal calls are what is asked for
    message = {"role": "user", "content": TOOL_QUESTION}
    request = AgentRequest(question=TOOL_QUESTION, messages=[message], round=0, tools=[dict(TOOL)])
    try:
        reply = agent.sample(request)
    except InvalidReplyError:  # it called, in a form that does not fit
        return True
    return any(response.get("calls") for response in reply["responses"])


def all_within(
    seconds: float, tasks: Mapping[str, Callable[[], _Result]]
) -> dict[str, _Result | None]:
    """Runs all tasks at once and returns their results; None for a task that is not done in time; it keeps running."""
    calls = {name: start_call(task) for name, task in tasks.items()}
    done, _ = wait(calls.values(), seconds)
    results = dict[str, _Result | None]()
    for name, call in calls.items():
        results[name] = call.result() if call in done else None
    return results


def _to_problem(error: Exception, holder: object) -> Problem:
    """Returns an error of a model or its client without secrets, with its remedy."""
    secrets = secrets_of(holder, error)
    message = error.args[0] if isinstance(error, CoEError) else str(error)  # the hint is the remedy
    text = one_line(f"{type(error).__name__}: {safe_message(message, secrets)}", _LONGEST)
    return Problem(error=text, remedy=safe_message(remedy_for(error), secrets))


_Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class ClustererReport:
    """What a clusterer makes of an answer, an obvious paraphrase of it, and another answer.

    Attributes:
        joins_paraphrase: Whether it puts answer and paraphrase together, as it should.
        joins_other: Whether it puts the other answer with the first, as it should not.
        device: Of a model in this process.
        cosines: Of embeddings: the lowest of obvious pairs that mean the same, and the highest of those that do not.
        pairs: Those that have these two.
        threshold: Of embeddings: the least cosine of two answers that it takes for one.
    """

    model: str
    joins_paraphrase: bool
    joins_other: bool
    seconds: float
    device: str | None
    cosines: tuple[float, float] | None = None
    pairs: tuple[_Pair, _Pair] | None = None
    threshold: float | None = None


_SAME: tuple[_Pair, ...] = (
    (ANSWER, PARAPHRASE),
    ("Canberra", "It is Canberra."),
    ("Tokyo", "That would be Tokyo."),
    ("Tokyo", "The capital of Japan is Tokyo."),
    ("1912", "The Titanic sank in 1912."),
)
_DIFFERENT: tuple[_Pair, ...] = (
    (ANSWER, OTHER),
    ("Canberra", "It is Sydney."),
    # whoever answers in sentences repeats the question: one word is all that differs
    ("The capital of Australia is Canberra.", "The capital of Australia is Sydney."),
    ("The Titanic sank in 1912.", "The Titanic sank in 1913."),
    ("It was written by Jane Austen.", "It was written by Emily Brontë."),
    ("It has seven moons.", "It has eight moons."),
)


def _hardest_pairs(
    clusterer: EmbeddingSimilarity,
) -> tuple[tuple[float, float], tuple[_Pair, _Pair]]:
    """Returns the lowest cosine of pairs that mean the same, the highest of others, and the pairs that have them."""
    same = dict(zip(_SAME, clusterer.cosines(_SAME), strict=True))
    different = dict(zip(_DIFFERENT, clusterer.cosines(_DIFFERENT), strict=True))
    furthest = min(same, key=same.__getitem__)
    nearest = max(different, key=different.__getitem__)
    cosines = (round(same[furthest], 3), round(different[nearest], 3))
    return cosines, (furthest, nearest)


def probe_of(clusterer: Clusterer) -> Callable[[], ClustererReport | Problem] | None:
    """Returns the probe of a clusterer, in wordings that tinyworld's model knows, too; None for one without a model."""
    model = getattr(clusterer, "model", None) or getattr(clusterer, "embeddings", None)
    if model is None:
        return None
    if isinstance(model, ChatEntailment):
        model = model.model

    return partial(_probe_clusterer, clusterer, model)


def _probe_clusterer(clusterer: Clusterer, model: object) -> ClustererReport | Problem:
    start = time.perf_counter()
    try:
        loaded = _load(model)
        with note_unjudged() as noted:
            [labels] = clusterer.cluster([[ANSWER, PARAPHRASE, OTHER]], [QUESTION])
        noted.check()
        answer, paraphrase, other = labels
        cosines = pairs = threshold = None
        if isinstance(clusterer, EmbeddingSimilarity):
            cosines, pairs = _hardest_pairs(clusterer)
            threshold = clusterer.threshold
    except Exception as error:
        return _to_problem(error, clusterer)
    return ClustererReport(
        model=_name_of(model),
        joins_paraphrase=paraphrase == answer,
        joins_other=other == answer,
        seconds=round(time.perf_counter() - start, 3),
        device=getattr(loaded, "device", None),
        cosines=cosines,
        pairs=pairs,
        threshold=threshold,
    )


def _name_of(model: object) -> str:
    """Returns the name of a client's model, without the path to it on this machine, or the client's class."""
    name = client_name_of(model)
    if name is None:
        return type(model).__name__
    return Path(name).name if Path(name).exists() else name


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
        for report in self.agents.values():
            if report is not None and report.ignores_temperature:
                return False
        return not self.problems

    def to_json(self) -> JsonObject:
        agents = dict[str, JsonObject]()
        for name, report in self.agents.items():
            agents[name] = {"reachable": report is not None}
            if report is not None:
                agents[name] |= asdict(report)
                agents[name]["n_in_one_request"] = report.n_in_one_request
        findings = asdict(self)
        del findings["late"]
        return {"ok": not self.problems, **findings, "agents": agents}


def examine(config: Config | None, *, timeout: float) -> Examination:
    """Probes the clusterer and all agents at once, each for at most `timeout` seconds."""
    notes = _notes_of(config)
    probes = _probes_of(config)
    needs_logprobs = config is not None and config.graph.weighting == "probability"
    results = all_within(timeout, {probe.part: probe.ask for probe in probes})
    late = Problem(
        error=f"no reply within {timeout:g} s",
        remedy="Look at the server's log, or raise --timeout: a model of the hub is downloaded on first use",
    )
    problems = list[Problem]()
    reports = JsonObject()
    devices = set[str]()
    for probe in probes:
        result = results[probe.part] or late
        faults, further_notes = _judge(probe, result, needs_logprobs=needs_logprobs)
        problems += faults
        notes += further_notes
        if isinstance(result, Problem):
            continue
        reports[probe.part] = result
        if result.device:
            devices.add(result.device)
    return Examination(
        agents={probe.agent: reports.get(probe.part) for probe in probes if probe.agent},
        clusterer=reports.get("clusterer"),
        versions=versions(),
        device=", ".join(sorted(devices)) or "none: no model runs in this process",
        problems=problems,
        notes=notes,
        late=None in results.values(),
    )


class _Probe(NamedTuple):
    """What asks a part of the group.

    Attributes:
        agent: The agent's name; None for the clusterer.
        address: That of its server.
        is_single: Whether the group takes one response of it a round.
    """

    agent: str | None
    address: str | None
    ask: Callable[[], AgentReport | ClustererReport | Problem]
    is_single: bool = False

    @property
    def part(self) -> str:
        return "clusterer" if self.agent is None else f"agent {self.agent}"


def _probes_of(config: Config | None) -> list[_Probe]:
    probes = list[_Probe]()
    address = None
    if config is None:
        clusterer: Clusterer = tinyworld_clusterer()
        for agent in tinyworld_agents(n_samples=N_SAMPLES):
            probes.append(_Probe(agent.name, None, partial(probe_agent, agent)))
    else:
        with_tools = config.clusterer.kind == "actions"
        created = create_agents(config, n_samples=N_SAMPLES)
        for section, agent in zip(config.agents, created, strict=True):
            ask = partial(probe_agent, agent, with_tools=with_tools)
            is_single = section.n_samples == 1
            probes.append(_Probe(agent.name, section.base_url, ask, is_single))
        clusterer = create_clusterer(config)
        address = getattr(config.clusterer, "base_url", None)

    ask_clusterer = probe_of(clusterer)
    if ask_clusterer is not None:
        probes.append(_Probe(None, address, ask_clusterer))
    return probes


def _judge(
    probe: _Probe, result: AgentReport | ClustererReport | Problem, *, needs_logprobs: bool
) -> tuple[list[Problem], list[str]]:
    """Returns what is wrong with a part, and what else is to be said of it."""
    where = probe.part
    if probe.address:
        where += f" at {probe.address}"
    if isinstance(result, Problem):
        return [replace(result, part=where)], []

    if isinstance(result, ClustererReport):
        where += f" {result.model}"
        faults = _faults_of_clusterer(result)
        notes = _notes_of_cosines(result)
    else:
        faults = _faults_of_agent(result, needs_logprobs=needs_logprobs, is_single=probe.is_single)
        notes = _notes_of_agent(result, is_single=probe.is_single)
    problems = [replace(fault, part=where) for fault in faults]
    return problems, [f"{probe.part}: {note}" for note in notes]


def _notes_of(config: Config | None) -> list[str]:
    """Returns what a configuration says about itself, before anything is asked."""
    notes = list[str]()
    folder = Path()
    if config is not None:
        folder = config.folder
        notes += guarantee_notes(config)
        notes += _shared_notes(config)
    if (folder / "langgraph.json").is_file() and not os.environ.get("COE_GATE_SECRET"):
        notes.append(
            "langgraph.json: the server keeps threads, and COE_GATE_SECRET is not set: after a restart, gates ask "
            "people again and refuse calls that wait for their tools"
        )
    return notes


def _shared_notes(config: Config) -> Iterator[str]:
    """Yields which agents share a model, a server or a family of models, of which one need not hear another's vote."""
    sharing = dict[tuple[str, str], list[str]]()
    for agent in config.agents:
        _, _, model = agent.model.rstrip("/").rpartition("/")
        family, *_ = re.split(r"[\W\d_]", model, maxsplit=1)
        may_be_shared = {"model": model, "family": family.lower(), "server": agent.base_url or ""}
        for what, value in may_be_shared.items():
            if value:
                sharing.setdefault((what, value), []).append(agent.name)

    noted = list[list[str]]()
    for (what, value), names in sharing.items():
        # who shares a model shares its family, too
        if len(names) > 1 and names not in noted:
            noted.append(names)
            yield f"{', '.join(names)} share the {what} {for_terminal(value)}: they may err together"


def versions() -> dict[str, str | None]:
    """Returns the versions of the relevant packages; None for one that is not installed."""
    known: dict[str, str | None] = {"python": platform.python_version(), "coe-agents": __version__}
    for package in _PACKAGES:
        try:
            known[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            known[package] = None
    return known


def _faults_of_clusterer(report: ClustererReport) -> Iterator[Problem]:
    fault = _fault_of_threshold(report)
    if fault is not None:
        yield fault
        return
    remedy = (
        "Use another model: for entailment one trained on MNLI whose config.json has the right id2label, for "
        '"llm" a more able one; or for embeddings another threshold'
    )
    if not report.joins_paraphrase:
        yield Problem(error=f'it tells "{PARAPHRASE}" from "{ANSWER}"', remedy=remedy)
    if report.joins_other:
        yield Problem(error=f'it takes "{OTHER}" for "{ANSWER}"', remedy=remedy)


def _faults_of_agent(
    report: AgentReport, *, needs_logprobs: bool, is_single: bool
) -> Iterator[Problem]:
    if report.ignores_temperature and report.on_greedy == "exclude" and not is_single:
        yield Problem(error=f"{_copies(report)}, so its responses are excluded", remedy=REMEDY)
    if report.n_empty == report.n_returned:
        remedy = 'Raise "max_tokens": a model that reasons may spend them all before it answers'
        yield Problem(error="all its responses are empty", remedy=remedy)
    if report.calls_tools is False:
        yield Problem(
            error="asked to call a tool, it called none: its server may ignore tools",
            remedy="Turn them on there (vLLM: --enable-auto-tool-choice, --tool-call-parser), or use another model",
        )
    if needs_logprobs and report.logprobs != "all":
        yield Problem(
            error='it returns no log-probabilities, but weighting = "probability" needs them',
            remedy='Set weighting = "auto", or use a server that returns them',
        )


def _fault_of_threshold(report: ClustererReport) -> Problem | None:
    """Returns what is wrong with a threshold that joins obviously different answers, or that another one betters."""
    if report.cosines is None or report.pairs is None or report.threshold is None:
        return None
    lowest, highest = report.cosines
    if lowest <= highest:
        if report.threshold > highest:
            # it joins nothing wrongly: what it tells apart makes the group less sure, not wrong
            return None
        return Problem(
            error=f"threshold = {report.threshold:g} joins {_quoted(report.pairs[1])}, whose cosine is {highest:g}",
            remedy='Take kind = "entailment", or have short answers and take kind = "normalized". A threshold above '
            f"{highest:g} joins none of these pairs wrongly, but tells apart much that means the same",
        )
    if highest < report.threshold <= lowest:
        return None

    middle = (lowest + highest) / 2
    proposed = round(middle, 2)
    if not highest < proposed <= lowest:
        proposed = round(middle, 4)
    if report.threshold > lowest:
        does = f"above {lowest:g}: it tells apart what obviously means the same"
    else:
        does = f"at most {highest:g}: it joins what obviously does not mean the same"
    return Problem(
        error=f"threshold = {report.threshold:g} is {does}",
        remedy=f"Set threshold = {proposed:g}, which lies between their cosines",
    )


def _quoted(pair: _Pair) -> str:
    return f'"{pair[0]}" and "{pair[1]}"'


def _inseparable(report: ClustererReport) -> str:
    """Returns the note that cosines of this model do not tell which answers mean the same."""
    assert report.cosines is not None
    assert report.pairs is not None
    lowest, highest = report.cosines
    furthest, nearest = map(_quoted, report.pairs)
    note = (
        f"no threshold tells answers apart by this model: {furthest} mean the same and have a cosine of "
        f"{lowest:g}; {nearest} do not, and have one of {highest:g}"
    )
    if report.threshold is not None and report.threshold > highest:
        note += f". Your threshold = {report.threshold:g} joins neither, so it tells apart much that means the same"
    return note


def _notes_of_cosines(report: ClustererReport) -> Iterator[str]:
    if report.cosines is None:
        return
    lowest, highest = report.cosines
    cosines = f"obvious pairs that mean the same have cosines of at least {lowest:g}, others of at most {highest:g}"
    if lowest <= highest:
        yield _inseparable(report)
    elif _fault_of_threshold(report) is None:
        yield f"{cosines}; your threshold = {report.threshold:g} lies between them"
    else:
        yield cosines
    yield (
        "these pairs are ours, most of them sentences. Cosines of short answers are others: "
        "EmbeddingSimilarity.cosines in Python has those of pairs of your own (docs/concepts.md)"
    )


def _notes_of_agent(report: AgentReport, *, is_single: bool) -> Iterator[str]:
    if report.n_returned < report.n_asked:
        yield f"returned {report.n_returned} of {report.n_asked} responses"
    if report.ignores_temperature and is_single:
        yield f"{_copies(report)}; it gives one response a round, which counts"
    elif report.ignores_temperature and report.on_greedy != "exclude":
        counts = "all its responses count"
        if report.on_greedy == "count_once":
            counts = "its responses count as one"
        yield f'{_copies(report)}; by on_greedy = "{report.on_greedy}" {counts}'
    is_repeated = report.n_returned > 1 and report.n_distinct == 1
    if report.ignores_temperature is None and report.temperature > 0 and is_repeated:
        probe = f"; {report.probe}" if report.probe else ""
        yield (
            f"gave the same response {report.n_returned} times at temperature {report.temperature:g}; "
            f"it is certain, or a cache or an ignored temperature is the cause{probe}"
        )


def _copies(report: AgentReport) -> str:
    return (
        f"its temperature of {report.temperature:g} has no effect: it gave the same response "
        f"{report.n_returned} times, and {report.probe}"
    )
