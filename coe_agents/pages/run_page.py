"""Owns the page of a run, its data and its parts. See `coe_agents.pages.page_data` for what it may do.

A file of decisions may hold anything where `read_run` did not look. So every value is read as what it must be, or it is
not shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.checks import is_number
from coe_agents.evaluation.origin import Item, Run
from coe_agents.experiments.comparison import compare, in_words, outcomes_of, to_experiment
from coe_agents.experiments.experiment import format_cell
from coe_agents.pages.page_data import (
    BLOCK,
    SCRIPT,
    STYLE,
    check_jinja,
    cut,
    pack,
    read_parts,
    render,
    shorten,
)

_SCRIPT = ("rounds.js", "decisions.js", "run.js")


def create_run_page(run: Run, *, n_resamples: int = 1000) -> str:
    """Returns the page of a run, HTML in one piece; it may hold lone surrogates.

    `n_resamples` is of the bootstrap behind every interval.
    """
    check_jinja()
    comparison = compare([outcomes_of(run)], n_resamples=n_resamples)
    table = to_experiment(comparison)
    details = [
        *map(_detail, run.items.values()),
        *({"error": cut(error)} for error in run.errors.values()),
    ]
    return render(
        read_parts("run.html"),
        style=read_parts(*STYLE, "run.css"),
        script=read_parts(*SCRIPT, *_SCRIPT),
        title=run.name,
        topic="decisions of a group of models",
        facts=in_words(comparison),
        heads=table.heads,
        lines=[[format_cell(cell) for cell in line] for line in table.lines()],
        notes=table.notes,
        overview=pack(_overview(run)),
        blocks=[pack(details[start : start + BLOCK]) for start in range(0, len(details), BLOCK)],
    )


_SHORT = 300
_MOST = 100
"""Rounds, agents and clusters of a question that are shown."""
_COLUMNS = ("state", "leading", "answer", "reason", "regime", "coe", "rounds", "tokens", "seconds")


def _overview(run: Run) -> dict[str, Any]:
    ids = [*run.items, *run.errors]
    lines = [_line(run, key) for key in ids]
    return {
        "block": BLOCK,
        "ids": [cut(key, _SHORT) for key in ids],
        "texts": [cut(run.items[key].question) if key in run.items else "" for key in ids],
        "columns": {name: [line[name] for line in lines] for name in _COLUMNS},
    }


def _state(item: Item) -> str:
    if item.is_answered:
        return _verdict(item.correct)
    return "escalated" if item.action == "escalate" else "refused"


def _verdict(correct: float | None) -> str:
    """Returns a verdict in words; the page has the same words in its filters."""
    if correct is None:
        return "no verdict"
    return {0.0: "wrong", 1.0: "right"}.get(correct, "partly right")


def _line(run: Run, key: str) -> dict[str, Any]:
    item = run.items.get(key)
    if item is None:
        return dict.fromkeys(_COLUMNS) | {
            "state": "failed",
            "rounds": [],
            "reason": cut(run.errors[key], _SHORT),
        }
    decision = item.decision
    return {
        "state": _state(item),
        "leading": item.leading_correct,
        "answer": _cut_or_none(decision.get("answer")),
        "reason": _cut_or_none(decision.get("reason")) or "",
        "regime": _text(decision.get("regime")),
        "coe": _number(decision.get("coe")),
        "rounds": [_bar(data) for data in _trajectory(item)],
        "tokens": int(item.tokens or 0),
        "seconds": None if item.seconds is None else shorten(item.seconds),
    }


def _trajectory(item: Item) -> list[Mapping[str, Any]]:
    return [data for data in item.decision["trajectory"] if isinstance(data, Mapping)][:_MOST]


def _bar(data: Mapping[str, Any]) -> list[float | None]:
    """Returns of a round U_A, U_E and the share of agents that changed to what they were shown."""
    adopted = _mapping(data.get("adopted"))
    adopting = (
        shorten(sum(change is True for change in adopted.values()) / len(adopted))
        if adopted
        else None
    )
    return [_number(data.get("aleatoric")), _number(data.get("epistemic")), adopting]


def _detail(item: Item) -> dict[str, Any]:
    decision = item.decision
    trajectory = _trajectory(item)
    names = (
        name
        for data in trajectory
        for name in _mapping(data.get("leading"))
        if isinstance(name, str)
    )
    agents = list(dict.fromkeys(names))[:_MOST]
    rounds = [_round(data, agents, place, item) for place, data in enumerate(trajectory)]
    distributions = {
        name: _mapping(_mapping(own).get("distribution"))
        for name, own in decision["agents"].items()
    }
    support: list[list[Any]] = [
        [
            cut(text, _SHORT),
            number,
            [_number(distributions[name].get(text)) for name in distributions],
        ]
        for text, share in _mapping(decision.get("support")).items()
        if (number := _number(share)) is not None
    ]
    return {
        "question": cut(item.question),
        "action": item.action,
        "answer": _cut_or_none(decision.get("answer")),
        "reason": _cut_or_none(decision.get("reason")),
        "by": cut(decision["decided_by"], _SHORT),
        "escalated": item.is_escalated,
        "correct": item.correct,
        "conformity": _number(decision.get("conformity")),
        "agents": [cut(name, _SHORT) for name in agents],
        "rounds": rounds,
        "names": [cut(name, _SHORT) for name in distributions],
        "support": sorted(support, key=lambda each: -each[1])[:_MOST],
        "claims": [_claim(_mapping(claim)) for claim in _list(decision.get("claims"))[:_MOST]],
        "failures": [
            [cut(str(name), _SHORT), cut(str(why))]
            for name, why in list(decision["failed_agents"].items())[:_MOST]
        ],
        "tokens": [
            [cut(str(name), _SHORT), usage["input_tokens"], usage["output_tokens"]]
            for name, usage in list(decision["tokens"].items())[:_MOST]
        ],
    }


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    agents = _mapping(claim.get("agents"))
    return {
        "text": _cut_or_none(claim.get("text")) or "",
        "action": _text(claim.get("action")),
        "support": _number(claim.get("support_between")),
        "agents": [
            [
                cut(str(name), _SHORT),
                *(_number(_mapping(shares).get(kind)) for kind in ("supports", "contradicts")),
            ]
            for name, shares in list(agents.items())[:_MOST]
        ],
    }


def _round(
    data: Mapping[str, Any], agents: Sequence[str], place: int, item: Item
) -> dict[str, Any]:
    leading, flips, adopted = (_mapping(data.get(name)) for name in ("leading", "flips", "adopted"))
    return {
        "strategy": _cut_or_none(data.get("strategy")),
        "regime": _text(data.get("regime")),
        "answer": _cut_or_none(data.get("answer")),
        "led": [cut(str(text), _SHORT) for text in _list(data.get("led"))[:_MOST]],
        "correct": item.verdicts[place] if place < len(item.verdicts) else None,
        "tokens": _number(data.get("tokens")),
        "responses": _number(data.get("n_responses")),
        "said": [
            [
                _cut_or_none(leading.get(name)),
                "took over"
                if adopted.get(name) is True
                else "changed"
                if flips.get(name) is True
                else None,
            ]
            for name in agents
        ],
        "bars": _bar(data),
    }


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _cut_or_none(value: object) -> str | None:
    return cut(value, _SHORT) if isinstance(value, str) else None


def _number(value: object) -> float | None:
    """Returns a number that a page can show; None for all else, NaN and the infinities among it."""
    return shorten(value) if is_number(value) and abs(value) < 1e15 else None
