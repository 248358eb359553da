"""Owns what a group of proposers disagrees on: which tool, or which argument of it, and by how much."""

import json
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from coe_agents.actions.canonical import canonical_action, to_line
from coe_agents.actions.match import MISSING, ActionMatch, AlignedActions, ArgumentComparison
from coe_agents.clustering import Clusterer
from coe_agents.clustering.protocols import by_first_appearance
from coe_agents.uncertainty.ties import TIE

_NOTHING = 1e-12
"""A part of an entropy, in nats, or a mass, that is rounding only."""
_Calls = Sequence[Mapping[str, Any]]


def contested(
    actions: Sequence[str],
    mass: npt.ArrayLike,
    agents: Sequence[str],
    labels: Sequence[int],
    *,
    leading: int | None = None,
    values: Sequence[_Calls | None] | None = None,
    clusterer: Clusterer | None = None,
    question: str = "",
) -> dict[str, Any] | None:
    """Returns what a group's actions differ in, as plain data: the value of `contested` in a decision.

    Arguments are ordered by the *votes against the leading proposal*: the mass of the actions that call the same tools
    and have another value there. This order names the wrong argument more often than the order of entropies does. Only
    arguments with votes against them, or with a part of the entropy, are listed.

    Args:
        actions: As `canonical_action` returns them, at least one; "[]" calls nothing. A text that is no action calls
            nothing, too.
        mass: The share of each in the ensemble mean; sums to 1 within 1e-6.
        agents: Who proposed each action.
        labels: The cluster of each.
        leading: The place of the leading proposal; by default that of the most probable action in the most probable
            cluster, ties broken by text.
        values: The calls of each action as they were proposed ("name" and "args"), None where unknown. Candidates that
            are the same, or for which JSON has no value, such as dates, are then shown as proposed.
        clusterer: That gave the labels. The rules of an `ActionMatch` are used; for any other, and by default, all are
            exact.
        question: For rules that read it (`Meaning`). Values that the clusterer has just compared for this question are
            not compared again.

    Returns:
        None if all actions are in one cluster, or none calls a tool. Otherwise:

        - "tool", "call": the parts of the entropy of the clusters, in nats, of which tools are called, calling none
          included, and, within that, of whether anything is called; at least 0.
        - "arguments": the part of each argument, at least 0, by its name, most votes against first, ties by name.
        - "rest": what these parts do not explain; 0 without tolerances, negative where the parts are finer than the
          clusters.
        - "candidates": by "tool.argument", the values proposed: {"value", "agents"}, most mass first, ties by text. The
          value stands for all that equal it; it is the first in canonical order, null where the argument is omitted.
          Where the tools differ, "tool" has their names: a string, a list if several are called, null for no call.
        - "texts": the keys of "candidates" whose values are texts without a rule, which `Text` would loosen; omitted
          where there are none.

        It does not depend on agents' names nor on the order of actions.

    Example:
        >>> actions = [f'[{{"args":{{"sum":{amount}}},"name":"pay"}}]' for amount in (5, 5, 900)]
        >>> found = contested(actions, [1 / 3] * 3, ["a", "b", "c"], [0, 0, 1])
        >>> found["candidates"]
        {'pay.sum': [{'value': 5, 'agents': ['a', 'b']}, {'value': 900, 'agents': ['c']}]}
    """
    masses: list[float] = np.asarray(mass, dtype=np.float64).tolist()
    if _entropy(_sums(labels, masses).values()) <= _NOTHING:
        return None
    split = _Split(actions, masses, labels, clusterer, question)
    if not any(split.tools.values()):
        return None
    votes = split.votes_against(
        _leading_text(actions, masses, labels) if leading is None else actions[leading]
    )
    entropies = split.entropy["arguments"]
    names = [name for name in entropies if max(entropies[name], votes.get(name, 0.0)) > _NOTHING]
    names.sort(key=lambda name: (-round(votes.get(name, 0.0) / TIE), name))
    order = {name: place for place, name in enumerate(names)}
    shown = [own for own in split.arguments if own.is_contested and own.one.name in order]
    shown.sort(key=lambda own: order[own.one.name])
    texts = sorted({own.one.path for own in shown if own.one.is_text})
    found: dict[str, Any] = {
        **split.entropy,
        "arguments": {name: entropies[name] for name in names},
        "candidates": _Proposals(actions, agents, values, split).list_candidates(shown),
        **({"texts": texts} if texts else {}),
    }
    line = json.dumps(found, ensure_ascii=False)
    try:
        line.encode()
    except (
        UnicodeEncodeError
    ):  # half of a surrogate pair, which JSON may escape, cannot be stored nor printed
        found = json.loads(line.encode(errors="replace"))
    return found


def argument_support(
    actions: Sequence[str],
    mass: npt.ArrayLike,
    lead: str,
    *,
    clusterer: Clusterer | None = None,
    question: str = "",
) -> dict[str, float]:
    """Returns the share of the ensemble mean that agrees with each argument of an action, by name, in [0, 1].

    An action agrees with an argument of `lead` if it calls the same tools and has an equal value there. What proposes
    anything else, or nothing, agrees with none.

    Args:
        actions: As in `contested`.
        mass: As in `contested`.
        lead: One of the actions, which calls one tool.
        clusterer: As in `contested`.
        question: As in `contested`.

    Example:
        >>> actions = [f'[{{"args":{{"sum":{amount},"to":"Ann"}},"name":"pay"}}]' for amount in (5, 5, 900)]
        >>> argument_support(actions, [0.3, 0.3, 0.4], actions[0])
        {'sum': 0.6, 'to': 1.0}
    """
    split = _Split(
        actions,
        np.asarray(mass, dtype=np.float64).tolist(),
        [0] * len(actions),
        clusterer,
        question,
    )
    group = next(group for group in split.groups if lead in group.texts)
    total, against = math.fsum(split.mass[text] for text in group.texts), split.votes_against(lead)
    [call] = group.calls[group.texts.index(lead)]
    return {name: min(1.0, max(0.0, total - against.get(name, 0.0))) for name in call["args"]}


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument of one call in aligned actions, and its part of the entropy.

    `parts` are the actions that share a value of it, by the place of the first.
    """

    group: AlignedActions
    one: ArgumentComparison
    nats: float
    parts: Mapping[int, frozenset[str]]
    is_contested: bool


class _Split:
    """Different actions, their masses, and the entropy of each thing in which they differ.

    The entropy is split by the chain rule: first the tools, then one argument after the other. With the tools T that an
    action calls and the arguments A_1, A_2, ... of these,

        H(action) = H(T) + sum_t p(t) [ H(A_1 | t) + H(A_2 | A_1, t) + ... ],
        H(T) = H(C) + p(C) H(T | C), where C is whether anything is called.

    The tools are those of all parallel calls, with repetitions. Calls correspond by tool, then by canonical order;
    arguments come call by call, in the order of the tool's schema where the clusterer knows it, else by name. The parts
    of one name are added up over calls and tools. The arguments' order matters: what two arguments explain together
    counts for the first.

    An argument's values are grouped by its rule: in canonical order of the actions, each joins the first value that it
    equals. Where rules are exact, these groups together are the clusters, and `rest` is 0. Tolerances are not
    transitive: then `rest` is what the groups leave unexplained, or, below 0, what they explain too much. Also in
    `rest` is everything that labels from another clusterer, or texts that are no actions, add.
    """

    def __init__(
        self,
        actions: Sequence[str],
        masses: list[float],
        labels: Sequence[int],
        clusterer: Clusterer | None,
        question: str,
    ) -> None:
        self.match = clusterer if isinstance(clusterer, ActionMatch) else ActionMatch()
        self.groups = self.match.align(actions)
        self.mass = _sums(actions, masses)
        tools = {text: group.tools for group in self.groups for text in group.texts}
        self.tools = {text: tools.get(text, ()) for text in self.mass}
        self.arguments = [one for group in self.groups for one in self._compare(group, question)]
        of_tools = _sums(self.tools.values(), self.mass.values())
        total, tool = _entropy(_sums(labels, masses).values()), _entropy(of_tools.values())
        nats = _sums((own.one.name for own in self.arguments), (own.nats for own in self.arguments))
        self.entropy: dict[str, Any] = {
            "tool": tool,
            "arguments": nats,
            "rest": total - tool - math.fsum(nats.values()) + 0.0,
            "call": _entropy(_sums(map(bool, of_tools), of_tools.values()).values()),
        }

    def votes_against(self, lead: str) -> dict[str, float]:
        """Returns the mass of the actions with the tools of `lead` and another value of each argument."""
        against: dict[str, set[str]] = defaultdict(set)
        for own in self.arguments:
            if lead in (texts := own.group.texts):
                first = own.one.firsts[texts.index(lead)]
                against[own.one.name].update(
                    *(part for other, part in own.parts.items() if other != first)
                )
        return {
            name: math.fsum(self.mass[text] for text in texts) for name, texts in against.items()
        }

    def _compare(self, group: AlignedActions, question: str) -> list[_Argument]:
        """Returns the arguments' parts of the entropy: m(x) log m(x) telescopes, so no part needs dividing by p(t)."""
        masses = [self.mass[text] for text in group.texts]
        joint: list[Any] = [None] * len(masses)
        before, found = _entropy([math.fsum(masses)]), []
        known: dict[tuple[int, ...], tuple[dict[int, frozenset[str]], bool]] = {}
        for one in self.match.compare_arguments(group, question, reuse=True):
            nats, firsts = 0.0, tuple(one.firsts)
            if (
                firsts not in known
            ):  # what splits the actions as an argument before it explains nothing more
                joint = by_first_appearance(zip(joint, firsts, strict=True))
                after = _entropy(_sums(joint, masses).values())
                nats, before = max(0.0, after - before), after
                parts: dict[int, set[str]] = defaultdict(set)
                for text, first in zip(group.texts, firsts, strict=True):
                    parts[first].add(text)
                is_contested = sum(mass > _NOTHING for mass in _sums(firsts, masses).values()) > 1
                known[firsts] = (
                    {first: frozenset(part) for first, part in parts.items()},
                    is_contested,
                )
            found.append(_Argument(group, one, nats, *known[firsts]))
        return found


class _Proposals:
    """Who proposed which value, and how it was written."""

    def __init__(
        self,
        actions: Sequence[str],
        agents: Sequence[str],
        values: Sequence[_Calls | None] | None,
        split: _Split,
    ) -> None:
        self._split = split
        self._agents: dict[str, set[str]] = defaultdict(set)
        self._places = {text: place for place, text in enumerate(sorted(set(actions)))}
        for text, agent in zip(actions, agents, strict=True):
            self._agents[text].add(agent)
        self._ranked: dict[frozenset[str], tuple[tuple[int, int], list[str]]] = {}
        written: dict[str, str] = {}
        for text, calls in zip(actions, values or (), strict=False):
            if calls is None:
                continue
            with suppress(
                TypeError, ValueError
            ):  # calls that cannot be shown as they were proposed
                line = canonical_action(calls)
                written[text] = min(
                    line, written.get(text, line)
                )  # of several ways to write it the first by text
        self._written = {text: _single_calls(line) for text, line in written.items()}

    def list_candidates(self, arguments: Sequence[_Argument]) -> dict[str, list[dict[str, Any]]]:
        """Returns the candidates of the tool, if that is contested, and of some arguments."""
        split = self._split
        found: dict[str, dict[str | None, tuple[Any, frozenset[str]]]] = {}

        def add(key: str, line: str | None, value: Any, texts: frozenset[str]) -> None:
            candidates = found.setdefault(key, {})
            first, known = candidates.get(line, (value, texts))
            candidates[line] = first, known | texts

        if split.entropy["tool"] > _NOTHING:
            for text, tools in split.tools.items():
                value = None if not tools else tools[0] if len(tools) == 1 else list(tools)
                add("tool", to_line(value), value, frozenset({text}))
        for own in arguments:
            for first, texts in own.parts.items():
                one, value = own.one, own.one.values[first]
                line = None if value is MISSING else to_line(value)
                add(one.path, line, self._value(one, own.group.texts[first], line, value), texts)
        return {key: self._rank(list(candidates.values())) for key, candidates in found.items()}

    def _rank(self, candidates: list[tuple[Any, frozenset[str]]]) -> list[dict[str, Any]]:
        ranked = sorted(candidates, key=lambda candidate: self._stand(candidate[1])[0])
        return [{"value": value, "agents": [*self._stand(texts)[1]]} for value, texts in ranked]

    def _stand(self, texts: frozenset[str]) -> tuple[tuple[int, int], list[str]]:
        """Returns the rank of a value that these actions have, and who proposed it."""
        if texts not in self._ranked:
            mass = math.fsum(self._split.mass[text] for text in texts)
            rank = -round(mass / TIE), min(self._places[text] for text in texts)
            self._ranked[texts] = rank, sorted(set().union(*(self._agents[text] for text in texts)))
        return self._ranked[texts]

    def _value(self, one: ArgumentComparison, text: str, line: str | None, canonical: Any) -> Any:
        """Returns a value as it was proposed, if that is known to be the same, or in canonical form."""
        if line is None:
            return None
        raw = self._written.get(text, {}).get(one.tool, {}).get(one.name, canonical)
        is_same = raw == canonical or '"$' in line  # 5 for 5.0, or what JSON has no value for
        return raw if is_same else canonical


def _single_calls(action: str) -> dict[str, dict[str, Any]]:
    """Returns the arguments of each tool that an action calls once."""
    calls = json.loads(action)
    names = [call["name"] for call in calls]
    return {call["name"]: call["args"] for call in calls if names.count(call["name"]) == 1}


def _leading_text(actions: Sequence[str], masses: Sequence[float], labels: Sequence[int]) -> str:
    """Returns the most probable action of the most probable cluster; of several the first by text."""
    clusters, pairs = _sums(labels, masses), _sums(zip(labels, actions, strict=True), masses)
    most: dict[int, float] = defaultdict(float)
    for (label, _), mass in pairs.items():
        most[label] = max(most[label], mass)
    least = max(clusters.values()) - TIE
    return min(
        text
        for (label, text), mass in pairs.items()
        if clusters[label] > least and mass > most[label] - TIE
    )


_Key = TypeVar("_Key", bound=Hashable)


def _sums(keys: Iterable[_Key], masses: Iterable[float]) -> dict[_Key, float]:
    """Returns the mass of each key; it does not depend on the order."""
    parts: dict[_Key, list[float]] = defaultdict(list)
    for key, mass in zip(keys, masses, strict=True):
        parts[key].append(mass)
    return {key: math.fsum(own) for key, own in parts.items()}


def _entropy(masses: Iterable[float]) -> float:
    """Returns - sum_j m_j log m_j, in nats, with 0 log 0 = 0; it does not depend on the order."""
    return math.fsum(-mass * math.log(mass) for mass in masses if mass > 0) + 0.0
