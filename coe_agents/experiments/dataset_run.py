"""Owns runs of a policy over a dataset.

Questions are asked concurrently; each decision is on the disk before the next one, in one file.
"""

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import StreamMode

import coe_agents
from coe_agents.activity import announce
from coe_agents.config.build import assemble, create_clusterer, create_judge, load_weights
from coe_agents.config.models import default_at_once
from coe_agents.config.sampling_group import create_named_clusterer, judging_of
from coe_agents.config.schema import CalibratedSection, Config, MathematicsClusterer
from coe_agents.errors import AgentError, ConfigurationError, describe_error
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.origin import DECIDER, JUDGED, OTHERS, PRICES, SECONDS, count_requests
from coe_agents.evaluation.sample_collection import run_all
from coe_agents.evaluation.samples.store import Store
from coe_agents.evaluation.scoring.correctness import (
    CRITERIA,
    Criterion,
    Prediction,
    create_criterion,
    judge,
)
from coe_agents.files import append, write
from coe_agents.graph.events import Answering
from coe_agents.graph.resuming import CoEStateGraph
from coe_agents.text import redact_all
from coe_agents.tinyworld import tinyworld_graph
from coe_agents.types import Fields, JsonObject, Usage, create_usage

_PRICED = "price_per_million"
_NOT_STORED = {"base_url", "api_key_env", _PRICED}


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The graph of a run.

    Attributes:
        graph: A compiled CoE graph, or one that holds a CoE graph.
        at_once: How many questions are asked concurrently.
        settings: All that its decisions depend on, without keys and addresses.
        prices: Price per million tokens of each agent that has one, as {"input": ..., "output": ...}.
        secrets: Strings that no error may contain.
        input_key: Where the graph takes the question.
        decision_key: Where its output has the decision; dots lead into what a key holds.
    """

    graph: Runnable[Any, Any]
    criterion: Criterion = CRITERIA["reference"]
    at_once: int = 1
    settings: Fields = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    secrets: Collection[str] = ()
    input_key: str = "question"
    decision_key: str = "decision"

    async def decide(self, question: Question, answering: Answering) -> tuple[JsonObject, float]:
        """Returns the line of a question, and how many seconds it took; `answering` is told of its agents.

        A failure is a line whose `error` gives the reason; it is not a decision, and the next run asks again. That too
        few agents answered is such a failure: nothing was measured.
        """
        start = time.monotonic()
        row: JsonObject = {"id": question.id, "agent": DECIDER, "question": question.question}
        try:
            row |= await self._ask(question, answering)
            row["error"] = None
        except Exception as error:  # whatever a part of the user's raises
            row["error"] = describe_error(error, secrets=self.secrets)
        answering.end(question.id)
        return row, time.monotonic() - start

    async def _ask(self, question: Question, answering: Answering) -> JsonObject:
        usage = UsageCounter()
        given = {self.input_key: question.question}
        observed: RunnableConfig = {"callbacks": [usage]}
        result: Any = None
        if isinstance(self.graph, Pregel):
            modes: list[StreamMode] = ["custom", "values"]
            async for mode, chunk in self.graph.astream(given, observed, stream_mode=modes):
                if mode == "values":
                    result = chunk
                else:
                    answering.note(chunk, question.id)
        else:
            result = await self.graph.ainvoke(given, observed)
        decision = _find_decision(result, self.decision_key)
        if decision["coe"] is None:
            reasons = [f"{name}: {reason}" for name, reason in decision["failed_agents"].items()]
            why = "; ".join(reasons) or decision["reason"]
            raise AgentError(f"too few agents answered. {why}")

        answers = [data["answer"] for data in decision["trajectory"]]
        answers.append(decision["answer"])
        *verdicts, correct = await asyncio.to_thread(self._judge, question, answers)

        # a graph of others may ask models beside the group
        tokens = decision["tokens"]
        other_requests = 0
        if not isinstance(getattr(self.graph, "builder", None), CoEStateGraph):
            tokens = usage.with_others(tokens)
            other_requests = max(0, usage.n_requests - count_requests(decision))
        return {
            "references": list(question.references),
            "answerable": question.answerable,
            "action": decision["action"],
            "answer": decision["answer"],
            "decided_by": decision["decided_by"],
            "escalated": decision["action"] == "escalate" or decision["decided_by"] != "group",
            "correct": correct,
            "verdicts": verdicts,
            "other_requests": other_requests,
            "decision": {**decision, "tokens": dict(sorted(tokens.items()))},
        }

    def _judge(self, question: Question, answers: Sequence[str | None]) -> list[float | None]:
        """Returns the verdict on each answer; None where an answer cannot be judged."""
        if not question.answerable:
            return [None if answer is None else 0.0 for answer in answers]
        predictions = []
        for answer in answers:
            if answer is not None:
                predictions.append(Prediction(question.question, answer, question.references))
        verdicts = iter(judge(predictions, self.criterion))
        return [None if answer is None else next(verdicts) for answer in answers]


def _find_decision(result: Any, key: str) -> Any:
    value = result
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            there_is = type(value).__name__
            if isinstance(value, Mapping):
                there_is = ", ".join(map(str, value))
            raise ValueError(
                f'"decision_key" must lead to the decision of a CoE graph; got {key!r}, and there is only {there_is}. '
                "Name the key of the output that holds it"
            )
        value = value[name]
    return value


class UsageCounter(BaseCallbackHandler):
    """Counts the requests to all chat models that a graph asks, and their tokens."""

    def __init__(self) -> None:
        self.n_requests = 0
        self._tokens = Counter[str]()

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        """Adds the tokens of one request, as far as the server tells them."""
        for choices in response.generations:
            self.n_requests += 1
            # each choice of a request says what all of them took
            message = getattr(choices[0], "message", None)
            usage = getattr(message, "usage_metadata", None) or {}
            for name in ("input_tokens", "output_tokens"):
                self._tokens[name] += usage.get(name, 0)

    def with_others(self, tokens: Mapping[str, Usage]) -> dict[str, Usage]:
        """Returns the tokens of a decision; those of "others" are of earlier steps of a chain, and of other nodes."""
        tokens = dict(tokens)
        others = self._tokens.copy()
        for counts in tokens.values():
            if None in counts.values():
                return tokens
            others.subtract(counts)
        if any(n > 0 for n in others.values()):
            tokens[OTHERS] = create_usage(others["input_tokens"], others["output_tokens"])
        return tokens


def create_run_group(
    config: Config | None,
    *,
    seed: int = 0,
    at_once: int | None = None,
    n_sharing: int = 1,
    correctness: str | None = None,
    is_tinyworld: bool = False,
) -> RunGroup:
    """Returns the graph of a configuration, or tinyworld's (None); agents without a seed of their own take `seed`.

    `at_once` questions are asked at a time; by default 8, and 1 if a model is in this process: the last digits of its
    log-probabilities depend on the batch, and a resumed run must end with the same file. `n_sharing` processes,
    including this one, ask the same servers at the same time.
    `correctness` is a name as of `score`; by default it is what `judging_of` says.
    """
    judging = judging_of(config, is_tinyworld=is_tinyworld, correctness=correctness)
    criterion = _create_criterion(judging.correctness, config)
    settings: JsonObject = {
        "coe_agents": coe_agents.__version__,
        "seed": seed,
        JUDGED: judging.to_json(),
    }
    if config is None:
        settings["config"] = "tinyworld"
        graph = tinyworld_graph(seed=seed).compile()
        return RunGroup(graph, criterion, at_once or 1, settings)

    for regime, strategy in config.graph.strategies.items():
        if strategy == "clarify":
            message = '"clarify" asks a person, and a run has none'
            raise config.fault(message, "graph", "strategies", regime)

    config.seed_agents(seed)
    settings |= _settings_of(config, is_judged_by_model=judging.correctness == "judge")
    if at_once is None:
        at_once = min(default_at_once(agent.provider) for agent in config.agents)
    return RunGroup(
        graph=assemble(config).compile(),
        criterion=criterion,
        at_once=max(1, at_once // n_sharing),
        settings=redact_all(settings, config.secrets),
        prices=config.prices,
        secrets=config.secrets,
    )


def _settings_of(config: Config, *, is_judged_by_model: bool) -> JsonObject:
    """Returns what decisions depend on: the configuration, and the files that it names."""
    unread = set() if is_judged_by_model else {"judge"}
    sections = config.model_dump(mode="json", exclude=unread)
    settings: JsonObject = {
        "config": {name: _without_addresses(section) for name, section in sections.items()}
    }
    if isinstance(config.policy, CalibratedSection):
        path = config.folder / config.policy.path
        settings["policy_sha256"] = None
        if path.is_file():
            settings["policy_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if config.graph.weights is not None:  # the file may be another one when the run is resumed
        settings["weights"] = load_weights(config)
    return settings


def _create_criterion(name: str, config: Config | None) -> Criterion:
    compares_mathematics = config is not None and isinstance(config.clusterer, MathematicsClusterer)
    # one that needs no clusterer, whose model would be made twice
    if name in CRITERIA and not compares_mathematics:
        return CRITERIA[name]
    clusterer = create_named_clusterer("tinyworld") if config is None else create_clusterer(config)
    try:
        model = None if config is None else create_judge(config)
        return create_criterion(name, clusterer, model)
    except ValueError as error:
        raise ConfigurationError(f"correctness: {error}") from error


def _without_addresses(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_addresses(each) for each in part]
    if not isinstance(part, dict):
        return part
    stored = {}
    for name, value in part.items():
        if name not in _NOT_STORED:
            stored[name] = _without_addresses(value)
    return stored


Row = JsonObject


class Timings:
    """The seconds of each question, in a file of their own: they differ each time. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SECONDS

    def __enter__(self) -> "Timings":
        self._file = self._path.open("ab", buffering=0)
        # a kill may have left half a line
        with self._path.open("rb") as written:
            n_whole = sum(len(line) for line in written if line.endswith(b"\n"))
        self._file.truncate(n_whole)
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, id: str, seconds: float) -> None:
        """Notes how long a question took; the last note of a question counts."""
        line = json.dumps({"id": id, "seconds": round(seconds, 4)}).encode() + b"\n"
        append(self._file.fileno(), line, path=self._path)


def keep_prices(folder: Path, prices: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the prices of the configuration beside the decisions, or removes them."""
    if prices:
        write(folder / PRICES, json.dumps(prices, indent=2).encode() + b"\n")
    else:
        (folder / PRICES).unlink(missing_ok=True)


async def decide_all(
    questions: Iterable[Question],
    group: RunGroup,
    store: Store,
    timings: Timings,
    *,
    on_row: Callable[[Row], None] = lambda row: None,
) -> None:
    """Asks the group the questions that the store lacks, keeps every decision, and sorts the store."""

    def note(row: Row, seconds: float) -> None:
        keep(store, timings, row, seconds)
        on_row(row)

    await decide_each(pending_questions(questions, store), group, note)
    store.finish()


async def decide_each(
    questions: Iterable[Question], group: RunGroup, note: Callable[[Row, float], None]
) -> None:
    """Asks the group all questions, and passes each line on with its seconds before the next question is asked."""
    waiting = iter(questions)

    with announce("asking") as show:
        answering = Answering(show)

        async def work() -> None:
            for question in waiting:
                row, seconds = await group.decide(question, answering)
                note(row, seconds)

        await run_all(work() for _ in range(group.at_once))


def pending_questions(questions: Iterable[Question], store: Store) -> Iterator[Question]:
    """Yields the questions that a store lacks when their turn comes, in order."""
    return (question for question in questions if not store.is_kept((question.id, DECIDER)))


def keep(store: Store, timings: Timings, row: Row, seconds: float) -> None:
    """Keeps a decision; its seconds first, so that none is without."""
    if row["error"] is None:
        timings.append(row["id"], seconds)
    store.append([((row["id"], DECIDER), [row])])
