"""Owns the decisions of a run as they are stored: the names of its files, and reading them back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from coe_agents import checks
from coe_agents.decision.group_decision import amount, check_decision, count, share
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.folder import SETTINGS
from coe_agents.files import parse_json
from coe_agents.types import FinalAction

DECISIONS = "run.decisions.jsonl"
"""One line for each question; the same bytes whenever the same run is repeated or resumed."""
SECONDS = "run.seconds.jsonl"
"""How long each took. It is apart, because it differs each time."""
PRICES = "prices.json"
"""The prices of the configuration; results do not depend on them."""
DECIDER = "group"
"""What stands as the agent in each line: the whole group has decided."""
_READ = (
    "coe",
    "aleatoric",
    "epistemic",
    "conformity",
    "tokens",
    "n_rounds",
    "trajectory",
    "decided_by",
    "failed_agents",
)
"""The keys of a decision that statistics read; what else it holds is shown only where it can be."""


@dataclass(frozen=True, slots=True)
class Item:
    """What a run decided about one question.

    Attributes:
        action: "answer", "abstain" or "escalate", after all.
        correct: Whether the answer is right, in [0, 1]; None without an answer, or where it is not known.
        verdicts: Whether the group's leading answer was right after each round; None where there was none.
        is_escalated: Whether the policy escalated, whoever decided then.
        decision: The graph's whole decision; see `coe_agents.decision.DecisionData`.
        seconds: How long it took; None if that is not known.
        cost: By the prices of the tokens; None where an agent has none.
    """

    id: str
    question: str
    action: str
    correct: float | None
    verdicts: tuple[float | None, ...]
    is_escalated: bool
    decision: Mapping[str, Any]
    seconds: float | None = None
    cost: float | None = None

    @property
    def is_answered(self) -> bool:
        return self.action == "answer"

    @property
    def leading_correct(self) -> float | None:
        if self.is_answered:
            return self.correct
        return self.verdicts[-1] if self.verdicts else None

    @property
    def usage(self) -> list[tuple[str, float, float]] | None:
        """The agent, the input and the output tokens of each; None where they are not known."""
        tokens = self.decision["tokens"]
        if tokens is None or any(None in each.values() for each in tokens.values()):
            return None
        return [(name, each["input_tokens"], each["output_tokens"]) for name, each in tokens.items()]

    @property
    def tokens(self) -> float | None:
        """Input and output tokens of all requests; None where they are not known."""
        usage = self.usage
        return None if usage is None else float(sum(given + said for _, given, said in usage))

    @property
    def n_requests(self) -> int:
        """How many requests the agents were sent and answered; one more if an arbiter decided."""
        agents = self.decision["agents"].values()
        asked = sum(each["n_requests"] for agent in agents for each in agent["sampling"])
        others = set(self.decision["tokens"] or ()) - set(self.decision["agents"]) - set(self.decision["failed_agents"])
        return int(asked + len(others))

    @property
    def decided_by(self) -> str:
        """Who: "group", or an arbiter's name; "nobody" where it stayed escalated."""
        return "nobody" if self.action == "escalate" else str(self.decision["decided_by"])


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
    errors: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def read_run(folder: Path) -> Run:
    """Reads a run; a SamplesError if it is not one, or holds two decisions on one question."""
    path = folder / DECISIONS
    if not path.is_file():
        raise SamplesError(
            f"{folder} holds no {DECISIONS}", hint="Name a folder that coe-agents run --out FOLDER wrote"
        )
    seconds = {}
    for number, row in _rows(folder / SECONDS) if (folder / SECONDS).is_file() else ():
        try:
            seconds[row["id"]] = None if row["seconds"] is None else amount(row["seconds"], "seconds")
        except (KeyError, TypeError, ValueError) as error:
            raise _broken(folder / SECONDS, number, error) from error
    items, errors = dict[str, Item](), dict[str, str]()
    places = dict[str, tuple[int, Mapping[str, Any]]]()
    for number, row in _rows(path):
        first, same = places.setdefault(row["id"], (number, row))
        if row != same:
            raise SamplesError(
                f"{path}:{number}: line {first} holds another decision on {row['id'][:50]!r}",
                hint="Remove one of the lines, or rerun coe-agents run in another folder",
            )
        try:
            if row["error"] is not None:
                errors[row["id"]] = str(row["error"])
                continue
            items[row["id"]] = _to_item(row, seconds.get(row["id"]))
        except (KeyError, ValueError) as error:
            raise _broken(path, number, error) from error
    settings = _read(folder / SETTINGS, hint="Restore it, or rerun coe-agents run in another folder")
    return Run(folder.resolve().name, items, errors, settings, _prices(folder / PRICES))


def _to_item(row: Mapping[str, Any], seconds: float | None = None) -> Item:
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
        )
        check_decision(item.decision, _READ)
        for agent in item.decision["agents"].values():
            for asked in agent["sampling"]:
                count(asked["n_requests"], "n_requests")
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return item


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    *lines, _ = path.read_bytes().split(b"\n")  # what follows the last line end is incomplete
    for number, line in enumerate(lines, start=1):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise _broken(path, number, error) from error
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise _broken(path, number, ValueError("no object with an id"))
        yield number, row


def _prices(path: Path) -> dict[str, dict[str, float]]:
    hint = "Rerun coe-agents run to write it"
    found = _read(path, hint=hint)
    try:
        return {name: {kind: amount(each[kind], kind) for kind in ("input", "output")} for name, each in found.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SamplesError(f"{path} does not hold prices: {error}", hint=hint) from error


def _read(path: Path, *, hint: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = parse_json(path.read_bytes())
    except ValueError as error:
        raise SamplesError(f"{path} is not JSON: {error}", hint=hint) from error
    if not isinstance(found, dict):
        raise SamplesError(f"{path} is not a JSON object", hint=hint)
    return found


def _broken(path: Path, number: int, error: Exception) -> SamplesError:
    what = "the time of a question" if path.name == SECONDS else "a decision of a run"
    return SamplesError(
        f"{path}:{number}: this is not {what}: {error}",
        hint="Remove the line, and rerun coe-agents run to decide what is missing",
    )
