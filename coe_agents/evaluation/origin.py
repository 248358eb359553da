"""Owns what runs recorded: how responses came about and are judged, and decisions, with the names of their files."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, get_args

from coe_agents import checks
from coe_agents.decision.group_decision import amount, check_decision, count, share
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.store import SETTINGS, differences, folder_of
from coe_agents.evaluation.scoring.correctness import Prediction, holds_reference
from coe_agents.files import parse_json
from coe_agents.measurement.wording import lacking_in_words
from coe_agents.policy.calibrated import AskedAgent
from coe_agents.types import Fields, FinalAction, JsonObject

JUDGED = "judged"
"""The key of a run's settings under which it is recorded how its answers are judged; see `Judging`."""
_T = TypeVar("_T")
_PLAIN = {"instruction": "", "question": "{question}", "passages": False, "shots": 0}


@dataclass(frozen=True, slots=True)
class Judging:
    """How answers are judged; the defaults are for samples of which nothing is known.

    Attributes:
        clusterer: A name as `--clusterer` takes it, or the table [clusterer] of a configuration.
        correctness: As `--correctness` names it.
        judge: The chat model of the correctness "judge", as "provider:model"; None of another one.
    """

    clusterer: str | Fields = "normalized"
    correctness: str = "reference_or_label"
    judge: str | None = None

    def to_json(self) -> JsonObject:
        plain: JsonObject = {"clusterer": self.clusterer, "correctness": self.correctness}
        if self.judge is not None:
            plain["judge"] = self.judge
        return plain


def in_words(judging: Judging | None) -> str:
    """Returns each part of it that is not empty, by its name."""
    if judging is None:
        return "not recorded"
    parts = []
    for part, value in judging.to_json().items():
        if value:
            parts.append(f"{part} {_name(value)}")
    return ", ".join(parts)


def _name(value: object) -> str:
    """Returns a part of a `Judging`; of a table its kind, with what else it says in brackets."""
    if not isinstance(value, Mapping):
        return str(value)
    fields = dict(value)
    kind = str(fields.pop("kind", "clusterer"))
    said = ", ".join(f"{name} {json.dumps(each)}" for name, each in fields.items())
    return f"{kind} ({said})" if said else kind


def change_in_words(used: Any, recorded: Any) -> str | None:
    """Returns what is used in place of what; of two tables of one kind, only the fields that differ, if any do."""
    fields = list(differences(recorded, used))
    if not fields:  # a field that is null says as little as one that is absent
        return None
    changes = []
    for name, before, now in fields:
        if name in {"", "kind"}:  # names, or tables of two kinds
            return f"{_name(used)} in place of {_name(recorded)}"
        changes.append(f"{name} {json.dumps(now)} in place of {json.dumps(before)}")
    return f"{used['kind']} ({', '.join(changes)})"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run recorded of how its responses came about, and how they are judged.

    Attributes:
        agents: How each agent was asked, by name.
        prompt: What was said around a question, as JSON; "" for nothing, None where not known.
        answers: What is recorded of the preset by which answers were asked for; "" for none, None where not known.
        judging: How the answers are judged; None where not known.
    """

    agents: Mapping[str, AskedAgent] = field(default_factory=dict)
    prompt: str | None = None
    answers: str | None = None
    judging: Judging | None = None


def origin_of(paths: Iterable[Path]) -> Origin:
    """Returns what the runs recorded that wrote these files or folders; what they do not agree on is not known."""
    origins = _origins(paths)
    return origins[0] if len(origins) == 1 else Origin()


RECORD, DEFAULT = "record", "default"
"""The sources of a `ResolvedJudging` besides the options."""


@dataclass(frozen=True, slots=True)
class ResolvedJudging:
    """How answers are judged, and what says so.

    Attributes:
        used: How they are judged.
        sources: By part of `used`, what says so: the name of an option, `RECORD` or `DEFAULT`.
        recorded: What the runs recorded; None where they record nothing, or different things.
    """

    used: Judging
    sources: Mapping[str, str]
    recorded: Judging | None = None

    def to_json(self) -> JsonObject:
        judging = self.used.to_json()
        if self.recorded is not None and self.recorded != self.used:
            judging["recorded"] = self.recorded.to_json()
        return judging

    def note(self) -> str | None:
        """Returns a line on what is judged otherwise than recorded, and what says so; None where nothing is.

        Where neither a record nor an option names a clusterer, it says which one stands in.
        """
        if self.sources.get("clusterer") == DEFAULT:
            return "The samples record no clusterer: NormalizedMatch compares their answers."
        if self.recorded is None:
            return None
        changes = []
        for part, source in self.sources.items():
            used = getattr(self.used, part)
            recorded = getattr(self.recorded, part)
            change = change_in_words(used, recorded)
            if change is not None:
                by = "" if source == part else f", by {source}"
                changes.append(f"{part}: {change}{by}")
        if not changes:
            return None
        return f"Not judged as the run recorded. {'; '.join(changes)}."


def resolve_judging(paths: Iterable[Path], options: Mapping[str, Fields]) -> ResolvedJudging:
    """Returns how the answers in these files or folders are judged.

    Each part is as the first option says that names it, else as the runs recorded it, else the default.

    Args:
        paths: Files of samples, or folders of runs.
        options: By the name of an option, the parts of a `Judging` that it names; a part that is None is not named.

    Raises:
        SamplesError: The runs recorded different things, and a part is named by no option.

    Example:
        >>> judging = resolve_judging([], {"--correctness": {"correctness": "f1"}})
        >>> judging.used.correctness, dict(judging.sources)
        ('f1', {'clusterer': 'default', 'correctness': '--correctness'})
    """
    records: list[Judging | None] = []
    for origin in _origins(paths):
        if origin.judging not in records:
            records.append(origin.judging)
    recorded = records[0] if len(records) == 1 else None

    values: JsonObject = {}
    sources: dict[str, str] = {}
    for part in ("clusterer", "correctness", "judge"):
        if part == "judge" and values["correctness"] != "judge":
            break
        naming = [name for name, parts in options.items() if parts.get(part) is not None]
        if naming:
            sources[part] = naming[0]
            values[part] = options[naming[0]][part]
        elif len(records) > 1:
            raise SamplesError(
                f"the runs are judged in different ways: {'; '.join(map(in_words, records))}",
                hint="Name one way for all: a clusterer, or a configuration, and the correctness",
            )
        else:
            sources[part] = DEFAULT if recorded is None else RECORD
            values[part] = getattr(recorded or Judging(), part)
    return ResolvedJudging(Judging(**values), sources, recorded)


def read_max_tokens(paths: Iterable[Path]) -> dict[str, int]:
    """Returns the most tokens of a response of each agent, by name, 0 where none was recorded."""
    limits = {}
    for path in paths:
        settings = read_settings(folder_of(path))
        for agent in settings.get("agents", ()):
            limits[agent["name"]] = count(agent.get("max_tokens") or 0, "max_tokens")
    return limits


def read_agents(paths: Iterable[Path]) -> dict[str, JsonObject]:
    """Returns what the runs recorded of how each agent was asked, by name, without what they do not agree on."""
    agents: dict[str, JsonObject] = {}
    for folder in dict.fromkeys(map(folder_of, paths)):
        for agent in read_settings(folder).get("agents", ()):
            former = agents.get(agent["name"], agent)
            agreed = {name: value for name, value in agent.items() if former.get(name) == value}
            agents[agent["name"]] = agreed
    return agents


def _origins(paths: Iterable[Path]) -> list[Origin]:
    origins = list[Origin]()
    for folder in dict.fromkeys(map(folder_of, paths)):
        hint = "Restore it, or move the samples to a folder without it"
        origin = _read(folder / SETTINGS, _to_origin, holds="the settings of a run", hint=hint)
        if origin not in origins:
            origins.append(origin)
    return origins


def _read(path: Path, read: Callable[[JsonObject], _T], *, holds: str, hint: str) -> _T:
    """Returns what is read of the JSON object in a file, of {} without one; a SamplesError if it does not hold that."""
    try:
        return read(parse_json(path.read_bytes()) if path.is_file() else {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SamplesError(
            f"{path} does not hold {holds}: {type(error).__name__}: {error}", hint=hint
        ) from error


def _to_origin(settings: Fields) -> Origin:
    agents = {}
    for agent in settings.get("agents", []):
        agents[agent["name"]] = _asked(agent)
    prompt = None
    no_answers = None
    if "prompt" in settings:
        prompt = _prompt_in_words(settings["prompt"])
        no_answers = ""  # a run that records its prompt records its preset, too

    judging = None
    if JUDGED in settings:
        judging = _to_judging(**settings[JUDGED])
    return Origin(agents, prompt, settings.get("answers", no_answers), judging)


def _to_judging(clusterer: object, correctness: object, judge: object = None) -> Judging:
    if (
        isinstance(clusterer, str | dict)
        and isinstance(correctness, str)
        and isinstance(judge, str | None)
    ):
        return Judging(clusterer, correctness, judge)
    raise TypeError(
        f'"{JUDGED}" must name a clusterer, a criterion and its judge; got {clusterer!r}, {correctness!r} and {judge!r}'
    )


def _asked(agent: Fields) -> AskedAgent:
    system_prompt = None
    if "system_prompt" in agent:
        system_prompt = agent["system_prompt"] or ""
    return AskedAgent(
        model=agent.get("model"),
        temperature=agent.get("temperature"),
        system_prompt=system_prompt,
        n_samples=agent.get("n_samples"),
        stated_confidence=agent.get("stated_confidence", False),
    )


def _prompt_in_words(prompt: Fields) -> str:
    parts = {name: prompt.get(name, value) for name, value in _PLAIN.items()}
    if parts["passages"]:
        parts["with_context"] = prompt.get("with_context")
    return "" if parts == _PLAIN else json.dumps(parts, sort_keys=True)


DECISIONS = "run.decisions.jsonl"
"""One line for each question; the same bytes whenever the same run is repeated or resumed."""
SECONDS = "run.seconds.jsonl"
"""How long each took. It is apart, because it differs each time."""
PRICES = "prices.json"
"""The prices of the configuration; results do not depend on them."""
DECIDER = "group"
"""What stands as the agent in each line: the whole group has decided."""
OTHERS = "others"
"""What stands as the agent of the tokens that other nodes of a graph of one's own took."""
_PARTS = ("coe", "aleatoric", "epistemic")
_READ = (*_PARTS, "conformity", "tokens", "n_rounds", "trajectory", "decided_by", "failed_agents")
"""The keys of a decision that statistics read; what else it holds is shown only where it can be."""


@dataclass(frozen=True, slots=True)
class Item:
    """What a run decided about one question.

    Attributes:
        action: "answer", "abstain" or "escalate", after all; "failed" where the group failed.
        correct: Whether the answer is right, in [0, 1]; None without an answer, or where it is not known.
        verdicts: Whether the group's leading answer was right after each round; None where there was none.
        is_escalated: Whether the policy escalated, whoever decided then.
        decision: The graph's whole decision, {} without one; see `coe_agents.decision.DecisionData`.
            `GroupDecision.from_data` makes an object of it.
        seconds: How long it took; None if that is not known.
        cost: By the prices of the tokens; None where an agent has none.
        error: Why the group failed, without a decision; None where it decided.
        other_requests: How many requests other nodes of a graph of one's own sent, and had answered.
        is_inside: Whether the answer is wrong by its words alone, though a reference is in it.
    """

    id: str
    question: str
    action: str
    correct: float | None
    verdicts: tuple[float | None, ...]
    is_escalated: bool
    decision: Fields
    seconds: float | None = None
    cost: float | None = None
    error: str | None = None
    other_requests: int = 0
    is_inside: bool = False

    @property
    def is_answered(self) -> bool:
        return self.action == "answer"

    @property
    def leading_correct(self) -> float | None:
        if self.is_answered:
            return self.correct
        if self.verdicts:
            return self.verdicts[-1]
        return None

    @property
    def usage(self) -> list[tuple[str, float, float]] | None:
        """The agent, the input and the output tokens of each; None where they are not known."""
        tokens = self.decision["tokens"]
        if tokens is None:
            return None
        usage: list[tuple[str, float, float]] = []
        for name, counts in tokens.items():
            if None in counts.values():
                return None
            usage.append((name, counts["input_tokens"], counts["output_tokens"]))
        return usage

    @property
    def tokens(self) -> float | None:
        """Input and output tokens of all requests; None where they are not known."""
        usage = self.usage
        if usage is None:
            return None
        return float(sum(n_input + n_output for _, n_input, n_output in usage))

    @property
    def n_requests(self) -> int:
        """How many requests were sent and answered: of agents, an arbiter, and what else a graph of one's own asked."""
        return count_requests(self.decision) + self.other_requests

    @property
    def decided_by(self) -> str:
        """Who: "group", or an arbiter's name; "nobody" where it stayed escalated."""
        return "nobody" if self.action == "escalate" else str(self.decision["decided_by"])


def count_requests(decision: Fields) -> int:
    """Returns how many requests the agents of a decision answered; one more if an arbiter decided."""
    n_requests = 0
    for agent in decision["agents"].values():
        n_requests += sum(sampling["n_requests"] for sampling in agent["sampling"])

    # who is no agent and has tokens is the arbiter
    arbiters = set(decision["tokens"] or ())
    arbiters.difference_update(decision["agents"], decision["failed_agents"], {OTHERS})
    return n_requests + len(arbiters)


@dataclass(frozen=True, slots=True)
class Run:
    """A folder that `coe-agents run` wrote.

    Attributes:
        items: By id, in the order of the file.
        errors: The reason of each question that failed, by id; they are not in `items`.
        settings: All that the decisions depend on.
        prices: Price per million tokens of each agent, as {"input": ..., "output": ...}.
    """

    name: str
    items: Mapping[str, Item]
    errors: Mapping[str, str]
    settings: Fields
    prices: Mapping[str, Mapping[str, float]]

    @property
    def criterion(self) -> str:
        """What the criterion is called by which its answers were judged; "" where no record says so."""
        judged = self.settings.get(JUDGED)
        return str(judged.get("correctness", "")) if isinstance(judged, Mapping) else ""

    @property
    def lacking(self) -> str:
        """How many responses lack an answer, or a part of it, in words; "" where none does."""
        agents: list[Any] = []
        for item in self.items.values():
            agents += item.decision["agents"].values()
        return lacking_in_words(agents)


def read_run(folder: Path) -> Run:
    """Reads a run; a SamplesError if it is not one, or holds two decisions on one question."""
    items, errors = split_failed(iter_items(folder))
    name = folder.resolve().name
    return Run(name, items, errors, read_settings(folder), read_prices(folder))


def split_failed(items: Iterable[Item]) -> tuple[dict[str, Item], dict[str, str]]:
    """Returns the items that are decided, and why the others failed, each by id."""
    decided = {}
    errors = {}
    for item in items:
        if item.error is None:
            decided[item.id] = item
        else:
            errors[item.id] = item.error
    return decided, errors


def iter_items(folder: Path) -> Iterator[Item]:
    """Yields what a run decided, and where it failed, in the order of the file; one at a time is in memory."""
    path = folder / DECISIONS
    if not path.is_file():
        hint = "Name a folder that coe-agents run --out FOLDER wrote"
        raise SamplesError(f"{folder} holds no {DECISIONS}", hint=hint)
    seconds = _read_seconds(folder / SECONDS)
    lines: dict[str, tuple[int, bytes]] = {}
    for number, row in _rows(path):
        identifier = row["id"]
        content = json.dumps(row, sort_keys=True)
        digest = sha256(content.encode()).digest()
        number_before, digest_before = lines.setdefault(identifier, (number, digest))
        if digest != digest_before:
            raise SamplesError(
                f"{path}:{number}: line {number_before} holds another decision on {identifier[:50]!r}",
                hint="Remove one of the lines, or rerun coe-agents run in another folder",
            )
        if number != number_before:
            continue
        try:
            yield _to_item(row, seconds.get(identifier))
        except (KeyError, ValueError) as error:
            raise _broken(path, number, error) from error


def check_items(folder: Path) -> None:
    """Raises a SamplesError if a run does not hold what this release can read."""
    for _ in iter_items(folder):
        pass


def read_settings(folder: Path) -> JsonObject:
    """Returns the settings of a run; {} where it has none."""
    hint = "Restore it, or rerun coe-agents run in another folder"
    return _read(folder / SETTINGS, dict, holds="the settings of a run", hint=hint)


def read_prices(folder: Path) -> dict[str, dict[str, float]]:
    """Returns the prices of a run's agents; {} where it has none."""
    hint = "Rerun coe-agents run to write it"
    return _read(folder / PRICES, _to_prices, holds="prices", hint=hint)


def _read_seconds(path: Path) -> dict[str, float | None]:
    seconds: dict[str, float | None] = {}
    if not path.is_file():
        return seconds
    for number, row in _rows(path):
        try:
            taken = row["seconds"]
            seconds[row["id"]] = None if taken is None else amount(taken, "seconds")
        except (KeyError, TypeError, ValueError) as error:
            raise _broken(path, number, error) from error
    return seconds


def _to_prices(plain: Fields) -> dict[str, dict[str, float]]:
    prices: dict[str, dict[str, float]] = {}
    for name, price in plain.items():
        prices[name] = {kind: amount(price[kind], kind) for kind in ("input", "output")}
    return prices


def _is_inside(row: Fields) -> bool:
    """Returns whether the answer to a question that has one is wrong, though a reference is in it."""
    references = row.get("references")
    answer = row.get("answer")
    if row["correct"] != 0.0 or not row.get("answerable", True):
        return False
    # a line of an older release has less, and what was edited may have anything
    if not isinstance(answer, str) or not isinstance(references, list):
        return False

    is_action = row["decision"].get("calls") is not None
    texts = tuple(text for text in references if isinstance(text, str))
    return holds_reference(Prediction(row["question"], answer, texts, (), is_action))


def _to_item(row: Fields, seconds: float | None = None) -> Item:
    if row["error"] is not None:
        return Item(
            id=row["id"],
            question=str(row.get("question", "")),
            action="failed",
            correct=None,
            verdicts=(),
            is_escalated=False,
            decision={},
            error=str(row["error"]),
        )
    try:
        item = Item(
            id=row["id"],
            question=str(row["question"]),
            action=checks.one_of(row["action"], "action", get_args(FinalAction)),
            correct=share(row["correct"], "correct"),
            verdicts=tuple(share(verdict, "verdicts") for verdict in row["verdicts"]),
            is_escalated=bool(row["escalated"]),
            decision=row["decision"],
            seconds=seconds,
            other_requests=count(row.get("other_requests", 0), "other_requests"),
            is_inside=_is_inside(row),
        )
        check_decision(item.decision, _READ)
        for agent in item.decision["agents"].values():
            count(agent.get("n_responses", 0), "n_responses")
            for n_lacking in (agent.get("lacking") or {}).values():
                count(n_lacking, "n_responses")
            for sampling in agent["sampling"]:
                count(sampling["n_requests"], "n_requests")
                count(sampling.get("max_tokens") or 0, "max_tokens")
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return item


def _rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):  # what follows the last line end is incomplete
                return
            try:
                row = parse_json(line)
                if not isinstance(row, dict) or not isinstance(row.get("id"), str):
                    raise ValueError("no object with an id")
            except ValueError as error:
                raise _broken(path, number, error) from error
            yield number, row


def _broken(path: Path, number: int, error: Exception) -> SamplesError:
    what = "the time of a question" if path.name == SECONDS else "a decision of a run"
    return SamplesError(
        f"{path}:{number}: this is not {what}: {error}",
        hint="Remove the line, and rerun coe-agents run to decide what is missing",
    )
