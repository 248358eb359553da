"""Owns the probes of `doctor`.

An agent is asked for a few samples, and a clusterer with a model compares three answers.
"""

import copy
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from coe_agents._steps import start_call
from coe_agents.agents import ChatEntailment, ModelAgent
from coe_agents.agents.error_mapping import remedy_for
from coe_agents.clustering import Clusterer
from coe_agents.errors import CoEError, IgnoredTemperatureError, InvalidReplyError, secrets_of
from coe_agents.text import for_terminal, one_line, safe_message
from coe_agents.types import AgentRequest

QUESTION = "What is the capital of France?"
N_SAMPLES = 3
ANSWER = "The capital of France is Paris."
PARAPHRASE = "Paris is the capital of France."
OTHER = "The capital of France is Lyon."
TOOL_QUESTION = "What is the weather in Paris? Call get_weather."
TOOL: Mapping[str, Any] = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}

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
        return None if self.n_asked == 1 else self.n_requests == 1 and self.n_returned == self.n_asked


def probe_agent(agent: ModelAgent, *, with_tools: bool = False) -> AgentReport | Problem:
    """Asks an agent's model for its number of samples, and probes its temperature if these are all equal.

    With `with_tools` it is then asked to call a tool.
    """
    start = time.perf_counter()
    examined = copy.copy(agent)
    examined.on_greedy = "exclude"  # detects an ignored temperature under every setting
    try:
        load = getattr(examined.model(), "load", None)
        loaded = load() if load is not None else None
        ready = time.perf_counter()
        request = AgentRequest(question=QUESTION, messages=[{"role": "user", "content": QUESTION}], round=0)
        try:
            reply = examined.sample(request)
            sampling, usage = reply["sampling"], reply["usage"]
            n_distinct = len({response["text"].strip() for response in reply["responses"]})
        except IgnoredTemperatureError as error:
            sampling, usage, n_distinct = error.sampling, error.usage, 1
        seconds = round(time.perf_counter() - ready, 3)
        calls_tools = _calls_tool(examined) if with_tools else None
    except Exception as error:
        return _to_problem(error, agent)
    n_received, n_without = sampling["n_received"], sampling["logprobs_missing"]
    return AgentReport(
        temperature=agent.temperature,
        on_greedy=agent.on_greedy,
        ignores_temperature=sampling["ignores_temperature"],
        probe=None if sampling["probe"] is None else for_terminal(sampling["probe"]),
        n_asked=agent.n_samples,
        seconds=seconds,
        load_seconds=None if loaded is None else round(ready - start, 3),
        n_returned=n_received,
        n_requests=sampling["n_requests"],
        logprobs="all" if n_without == 0 else "none" if n_without == n_received else "some",
        n_distinct=n_distinct,
        n_empty=sampling["n_empty"],
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        device=getattr(loaded, "device", None),
        calls_tools=calls_tools,
    )


def _calls_tool(agent: ModelAgent) -> bool:
    agent.on_greedy = "trust"  # equal calls are what is asked for
    message = {"role": "user", "content": TOOL_QUESTION}
    request = AgentRequest(question=TOOL_QUESTION, messages=[message], round=0, tools=[dict(TOOL)])
    try:
        return any(response.get("calls") for response in agent.sample(request)["responses"])
    except InvalidReplyError:  # it called, in a form that does not fit
        return True


def all_within(seconds: float, tasks: Mapping[str, Callable[[], _Result]]) -> dict[str, _Result | None]:
    """Runs all tasks at once and returns their results; None for a task that is not done in time; it keeps running."""
    calls = {name: start_call(task) for name, task in tasks.items()}
    done, _ = wait(calls.values(), seconds)
    return {name: call.result() if call in done else None for name, call in calls.items()}


def _to_problem(error: Exception, holder: object) -> Problem:
    """Returns an error of a model or its client without secrets, with its remedy."""
    secrets = secrets_of(holder, error)
    message = error.args[0] if isinstance(error, CoEError) else str(error)  # the hint is the remedy
    text = one_line(f"{type(error).__name__}: {safe_message(message, secrets)}", _LONGEST)
    return Problem(error=text, remedy=safe_message(remedy_for(error), secrets))


@dataclass(frozen=True, kw_only=True)
class ClustererReport:
    """What a clusterer makes of an answer, an obvious paraphrase of it, and another answer.

    Attributes:
        joins_paraphrase: Whether it puts answer and paraphrase together, as it should.
        joins_other: Whether it puts the other answer with the first, as it should not.
        device: Of a model in this process.
    """

    model: str
    joins_paraphrase: bool
    joins_other: bool
    seconds: float
    device: str | None


def probe_of(clusterer: Clusterer) -> Callable[[], ClustererReport | Problem] | None:
    """Returns the probe of a clusterer, in wordings that tinyworld's model knows, too; None for one without a model."""
    model = getattr(clusterer, "model", None) or getattr(clusterer, "embeddings", None)
    if model is None:
        return None
    model = getattr(model, "model", None) if isinstance(model, ChatEntailment) else model

    def probe() -> ClustererReport | Problem:
        start = time.perf_counter()
        try:
            load = getattr(model, "load", None)
            loaded = load() if load is not None else None
            ((answer, paraphrase, other),) = clusterer.cluster([[ANSWER, PARAPHRASE, OTHER]], [QUESTION])
        except Exception as error:
            return _to_problem(error, clusterer)
        return ClustererReport(
            model=_name_of(model),
            joins_paraphrase=paraphrase == answer,
            joins_other=other == answer,
            seconds=round(time.perf_counter() - start, 3),
            device=getattr(loaded, "device", None),
        )

    return probe


def _name_of(model: object) -> str:
    """Returns the name of a client's model, without the path of a folder, or the client's class if it has no name."""
    names = (getattr(model, field, None) for field in ("model_name", "model"))
    name = next((name for name in names if isinstance(name, str)), type(model).__name__)
    return Path(name).name if Path(name).is_dir() else name
