"""Owns the page of a run, its data and its parts. See `coe_agents.pages.page_data` for what it may do.

A file of decisions may hold anything where `read_run` did not look. So every value is read as what it must be, or it is
not shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.checks import is_number
from coe_agents.evaluation.origin import Item, Run
from coe_agents.experiments.comparison import compare_outcomes, in_words, outcomes_of, to_experiment
from coe_agents.experiments.experiment import format_cell
from coe_agents.pages.page_data import BLOCK, check_jinja, cut, pack, render, shorten
from coe_agents.types import Fields, JsonObject


def create_run_page(run: Run, *, n_resamples: int = 1000) -> str:
    """Returns the page of a run, HTML in one piece; it may hold lone surrogates.

    `n_resamples` is of the bootstrap behind every interval.
    """
    check_jinja()
    comparison = compare_outcomes([outcomes_of(run)], n_resamples=n_resamples)
    table = to_experiment(comparison)
    details = list(map(_detail, run.items.values()))
    for error in run.errors.values():
        details.append({"error": cut(error)})
    blocks = []
    for start in range(0, len(details), BLOCK):
        blocks.append(pack(details[start : start + BLOCK]))

    facts = in_words(comparison)
    if run.lacking:
        facts.append(f"{run.lacking}.")

    # the page has one policy, so its column is left out
    figure_head, _policy_head, *other_heads = table.heads
    lines = []
    for figure, _policy, *numbers in table.lines():
        cells = (figure, *numbers)
        lines.append([format_cell(cell) for cell in cells])
    return render(
        "run.html",
        styles=["run.css"],
        scripts=["rounds.js", "decisions.js", "run.js"],
        title=run.name,
        topic="decisions of a group of models",
        facts=facts,
        heads=(figure_head, *other_heads),
        lines=lines,
        notes=table.notes,
        overview=pack(_overview(run)),
        blocks=blocks,
    )


_SHORT = 300
_MOST = 100
"""Rounds, agents and clusters of a question that are shown."""
_COLUMNS = ("state", "leading", "answer", "reason", "regime", "coe", "rounds", "tokens", "seconds")


def _overview(run: Run) -> JsonObject:
    ids = []
    texts = []
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for key in (*run.items, *run.errors):
        item = run.items.get(key)
        ids.append(_short(key))
        texts.append("" if item is None else cut(item.question))
        for name, value in _line(run, key).items():
            columns[name].append(value)
    return {"block": BLOCK, "ids": ids, "texts": texts, "columns": columns}


def _state(item: Item) -> str:
    if item.is_answered:
        return _verdict(item.correct)
    return "escalated" if item.action == "escalate" else "refused"


def _verdict(correct: float | None) -> str:
    """Returns a verdict in words; the page has the same words in its filters."""
    if correct is None:
        return "no verdict"
    return {0.0: "wrong", 1.0: "right"}.get(correct, "partly right")


def _line(run: Run, key: str) -> JsonObject:
    item = run.items.get(key)
    if item is None:
        line: JsonObject = dict.fromkeys(_COLUMNS)
        line["state"] = "failed"
        line["rounds"] = []
        line["reason"] = _short(run.errors[key])
        return line

    decision = item.decision
    return {
        "state": _state(item),
        "leading": item.leading_correct,
        "answer": _short_or_none(decision.get("answer")),
        "reason": _short_or_none(decision.get("reason")) or "",
        "regime": _text(decision.get("regime")),
        "coe": _number(decision.get("coe")),
        "rounds": [_bar(data) for data in _trajectory(item)],
        "tokens": int(item.tokens or 0),
        "seconds": None if item.seconds is None else shorten(item.seconds),
    }


def _trajectory(item: Item) -> list[Fields]:
    rounds = [data for data in item.decision["trajectory"] if isinstance(data, Mapping)]
    return rounds[:_MOST]


def _bar(data: Fields) -> list[float | None]:
    """Returns of a round U_A, U_E and the share of agents that changed to what they were shown."""
    adopted = list(_mapping(data.get("adopted")).values())
    share_adopting = None
    if adopted:
        n_adopting = sum(change is True for change in adopted)
        share_adopting = shorten(n_adopting / len(adopted))
    return [_number(data.get("aleatoric")), _number(data.get("epistemic")), share_adopting]


def _detail(item: Item) -> JsonObject:
    decision = item.decision
    trajectory = _trajectory(item)
    claims = _list(decision.get("claims"))[:_MOST]
    agents = _agents_of(trajectory)
    rounds = []
    for place, data in enumerate(trajectory):
        correct = item.verdicts[place] if place < len(item.verdicts) else None
        rounds.append(_round(data, agents, correct))

    failures = []
    for name, why in decision["failed_agents"].items():
        failures.append([_short(name), cut(str(why))])
    tokens = []
    for name, usage in decision["tokens"].items():
        tokens.append([_short(name), usage["input_tokens"], usage["output_tokens"]])
    return {
        "question": cut(item.question),
        "action": item.action,
        "answer": _short_or_none(decision.get("answer")),
        "reason": _short_or_none(decision.get("reason")),
        "by": _short(decision["decided_by"]),
        "escalated": item.is_escalated,
        "correct": item.correct,
        "conformity": _number(decision.get("conformity")),
        "agents": [_short(name) for name in agents],
        "rounds": rounds,
        "names": [_short(name) for name in decision["agents"]],
        "support": _support(decision),
        "claims": [_claim(_mapping(claim)) for claim in claims],
        "failures": failures[:_MOST],
        "tokens": tokens[:_MOST],
    }


def _agents_of(trajectory: Sequence[Fields]) -> list[str]:
    names: dict[str, None] = {}
    for data in trajectory:
        for name in _mapping(data.get("leading")):
            if isinstance(name, str):
                names[name] = None
    return list(names)[:_MOST]


def _support(decision: Fields) -> list[list[Any]]:
    """Returns the answers, the most supported first: text, share of the group, and share of each agent."""
    distributions = []
    for agent in decision["agents"].values():
        distributions.append(_mapping(_mapping(agent).get("distribution")))

    support: list[list[Any]] = []
    for text, share in _mapping(decision.get("support")).items():
        number = _number(share)
        if number is not None:
            by_agent = [_number(distribution.get(text)) for distribution in distributions]
            support.append([_short(text), number, by_agent])
    support.sort(key=lambda answer: -answer[1])
    return support[:_MOST]


def _claim(claim: Fields) -> JsonObject:
    agents = []
    for name, value in _mapping(claim.get("agents")).items():
        shares = _mapping(value)
        supports = _number(shares.get("supports"))
        contradicts = _number(shares.get("contradicts"))
        agents.append([_short(name), supports, contradicts])
    return {
        "text": _short_or_none(claim.get("text")) or "",
        "action": _text(claim.get("action")),
        "support": _number(claim.get("support_between")),
        "agents": agents[:_MOST],
    }


def _round(data: Fields, agents: Sequence[str], correct: float | None) -> JsonObject:
    leading = _mapping(data.get("leading"))
    flips = _mapping(data.get("flips"))
    adopted = _mapping(data.get("adopted"))
    said = []
    for name in agents:
        change = None
        if adopted.get(name) is True:
            change = "took over"
        elif flips.get(name) is True:
            change = "changed"
        said.append([_short_or_none(leading.get(name)), change])

    return {
        "strategy": _short_or_none(data.get("strategy")),
        "regime": _text(data.get("regime")),
        "answer": _short_or_none(data.get("answer")),
        "led": [_short(text) for text in _list(data.get("led"))[:_MOST]],
        "correct": correct,
        "tokens": _number(data.get("tokens")),
        "responses": _number(data.get("n_responses")),
        "said": said,
        "bars": _bar(data),
    }


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _short(text: object) -> str:
    return cut(str(text), _SHORT)


def _short_or_none(value: object) -> str | None:
    return _short(value) if isinstance(value, str) else None


def _number(value: object) -> float | None:
    """Returns a number that a page can show; None for all else, NaN and the infinities among it."""
    if not is_number(value) or not abs(value) < 1e15:
        return None
    return shorten(value)
