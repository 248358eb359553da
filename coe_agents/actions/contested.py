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

from coe_agents._removed import refuses_removed
from coe_agents.actions.canonical import canonical_action, to_line
from coe_agents.actions.match import MISSING, ActionMatch, AlignedActions, ArgumentComparison
from coe_agents.clustering import Clusterer
from coe_agents.clustering.protocols import by_first_appearance
from coe_agents.uncertainty.ties import TIE

_NOTHING = 1e-12
"""A part of an entropy, in nats, or a mass, that is rounding only."""
_Calls = Sequence[Mapping[str, Any]]
_Candidate = tuple[Any, frozenset[str]]
"""A value as it is shown, and the actions that have it."""
_Rank = tuple[int, int]
"""The most mass first, in units of the tolerance; then the first action by text."""


@refuses_removed
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

    lead = _leading_text(actions, masses, labels) if leading is None else actions[leading]
    against = split.votes_against(lead)
    entropies: dict[str, float] = split.entropy["arguments"]
    votes = {name: against.get(name, 0.0) for name in entropies}
    names = [name for name, nats in entropies.items() if max(nats, votes[name]) > _NOTHING]
    names.sort(key=lambda name: (-round(votes[name] / TIE), name))

    disputed = []
    for argument in split.arguments:
        if argument.is_contested and argument.comparison.name in names:
            disputed.append(argument)
    disputed.sort(key=lambda argument: names.index(argument.comparison.name))
    texts = {argument.comparison.path for argument in disputed if argument.comparison.is_text}
    data: dict[str, Any] = {
        **split.entropy,
        "arguments": {name: entropies[name] for name in names},
        "candidates": _Proposals(actions, agents, values, split).list_candidates(disputed),
    }
    if texts:
        data["texts"] = sorted(texts)
    return _to_printable(data)


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
    masses = np.asarray(mass, dtype=np.float64).tolist()
    # the parts of the entropy are not read here, so any labels do
    labels = [0] * len(actions)
    split = _Split(actions, masses, labels, clusterer, question)
    against = split.votes_against(lead)
    group = next(group for group in split.groups if lead in group.texts)
    of_same_tools = math.fsum(split.mass[text] for text in group.texts)

    [call] = group.calls[group.texts.index(lead)]
    support = {}
    for name in call["args"]:
        share = of_same_tools - against.get(name, 0.0)
        support[name] = min(1.0, max(0.0, share))
    return support


def _to_printable(data: dict[str, Any]) -> dict[str, Any]:
    """Returns plain data that can be stored and printed: "?" for half of a surrogate pair, which JSON may escape."""
    line = json.dumps(data, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        printable: dict[str, Any] = json.loads(line.encode(errors="replace"))
        return printable
    return data


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument of one call in aligned actions, and its part of the entropy.

    `parts` are the actions that share a value of it, by the place of the first.
    """

    group: AlignedActions
    comparison: ArgumentComparison
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
        self.tools: dict[str, tuple[str, ...]] = dict.fromkeys(self.mass, ())
        self.arguments = list[_Argument]()
        for group in self.groups:
            self.tools |= dict.fromkeys(group.texts, group.tools)
            self.arguments += self._compare(group, question)

        mass_by_tools = _sums(self.tools.values(), self.mass.values())
        calls_any = map(bool, mass_by_tools)
        mass_by_calling = _sums(calls_any, mass_by_tools.values())
        mass_by_cluster = _sums(labels, masses)
        names = [argument.comparison.name for argument in self.arguments]
        nats = [argument.nats for argument in self.arguments]

        total = _entropy(mass_by_cluster.values())
        of_tool = _entropy(mass_by_tools.values())
        of_arguments = _sums(names, nats)
        self.entropy: dict[str, Any] = {
            "tool": of_tool,
            "arguments": of_arguments,
            "rest": total - of_tool - math.fsum(of_arguments.values()) + 0.0,
            "call": _entropy(mass_by_calling.values()),
        }

    def votes_against(self, lead: str) -> dict[str, float]:
        """Returns the mass of the actions with the tools of `lead` and another value of each argument."""
        against: dict[str, set[str]] = defaultdict(set)
        for argument in self.arguments:
            texts = argument.group.texts
            if lead not in texts:
                continue
            of_lead = argument.comparison.firsts[texts.index(lead)]
            others = against[argument.comparison.name]
            for first, part in argument.parts.items():
                if first != of_lead:
                    others |= part
        votes = {}
        for name, others in against.items():
            votes[name] = math.fsum(self.mass[text] for text in others)
        return votes

    def _compare(self, group: AlignedActions, question: str) -> list[_Argument]:
        """Returns the arguments' parts of the entropy: m(x) log m(x) telescopes, so no part needs dividing by p(t)."""
        masses = [self.mass[text] for text in group.texts]
        # the parts by all arguments so far together, and their entropy
        joint: list[Any] = [None] * len(masses)
        before = _entropy([math.fsum(masses)])

        arguments = list[_Argument]()
        known: dict[tuple[int, ...], tuple[dict[int, frozenset[str]], bool]] = {}
        for comparison in self.match.compare_arguments(group, question, reuse=True):
            firsts = tuple(comparison.firsts)
            nats = 0.0
            # what splits the actions as an argument before it explains nothing more
            if firsts not in known:
                joint = by_first_appearance(zip(joint, firsts, strict=True))
                after = _entropy(_sums(joint, masses).values())
                nats = max(0.0, after - before)
                before = after

                texts = dict[int, set[str]]()
                for text, first in zip(group.texts, firsts, strict=True):
                    texts.setdefault(first, set()).add(text)
                parts = {first: frozenset(part) for first, part in texts.items()}
                n_held = sum(mass > _NOTHING for mass in _sums(firsts, masses).values())
                known[firsts] = parts, n_held > 1

            parts, is_contested = known[firsts]
            arguments.append(_Argument(group, comparison, nats, parts, is_contested))
        return arguments


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
        self._ranked: dict[frozenset[str], tuple[_Rank, list[str]]] = {}

        lines: dict[str, str] = {}
        for text, calls in zip(actions, values or (), strict=False):
            if calls is None:
                continue
            # calls that cannot be shown as they were proposed are left out
            with suppress(TypeError, ValueError):
                line = canonical_action(calls)
                # of several ways to write it the first by text
                lines[text] = min(line, lines.get(text, line))
        self._written = {text: _single_calls(line) for text, line in lines.items()}

    def list_candidates(self, arguments: Sequence[_Argument]) -> dict[str, list[dict[str, Any]]]:
        """Returns the candidates of the tool, if that is contested, and of some arguments."""
        split = self._split
        # by "tool.argument", then by value in canonical form, None where the argument is omitted
        by_path: dict[str, dict[str | None, _Candidate]] = {}

        def add(path: str, line: str | None, value: Any, texts: frozenset[str]) -> None:
            candidates = by_path.setdefault(path, {})
            first_value, known_texts = candidates.get(line, (value, texts))
            candidates[line] = first_value, known_texts | texts

        if split.entropy["tool"] > _NOTHING:
            for text, tools in split.tools.items():
                value: Any = list(tools) or None
                if len(tools) == 1:
                    value = tools[0]
                add("tool", to_line(value), value, frozenset({text}))

        for argument in arguments:
            comparison = argument.comparison
            for first, texts in argument.parts.items():
                canonical = comparison.values[first]
                if canonical is MISSING:
                    add(comparison.path, None, None, texts)
                    continue
                line = to_line(canonical)
                value = self._value(comparison, argument.group.texts[first], line, canonical)
                add(comparison.path, line, value, texts)
        return {path: self._rank(found.values()) for path, found in by_path.items()}

    def _rank(self, candidates: Iterable[_Candidate]) -> list[dict[str, Any]]:
        def rank(candidate: _Candidate) -> _Rank:
            _, texts = candidate
            return self._stand(texts)[0]

        rows = []
        for value, texts in sorted(candidates, key=rank):
            _, agents = self._stand(texts)
            rows.append({"value": value, "agents": [*agents]})
        return rows

    def _stand(self, texts: frozenset[str]) -> tuple[_Rank, list[str]]:
        """Returns the rank of a value that these actions have, and who proposed it."""
        if texts not in self._ranked:
            mass = math.fsum(self._split.mass[text] for text in texts)
            first = min(self._places[text] for text in texts)
            rank = (-round(mass / TIE), first)
            agents = set[str]()
            for text in texts:
                agents |= self._agents[text]
            self._ranked[texts] = rank, sorted(agents)
        return self._ranked[texts]

    def _value(self, comparison: ArgumentComparison, text: str, line: str, canonical: Any) -> Any:
        """Returns a value as it was proposed, if that is known to be the same, or in canonical form."""
        args = self._written.get(text, {}).get(comparison.tool, {})
        raw = args.get(comparison.name, canonical)
        # such as 5 for 5.0; JSON has no value for what the line writes with "$", such as a date
        is_same = raw == canonical or '"$' in line
        return raw if is_same else canonical


def _single_calls(action: str) -> dict[str, dict[str, Any]]:
    """Returns the arguments of each tool that an action calls once."""
    calls = json.loads(action)
    names = [call["name"] for call in calls]
    return {call["name"]: call["args"] for call in calls if names.count(call["name"]) == 1}


def _leading_text(actions: Sequence[str], masses: Sequence[float], labels: Sequence[int]) -> str:
    """Returns the most probable action of the most probable cluster; of several the first by text."""
    of_clusters = _sums(labels, masses)
    of_actions = _sums(zip(labels, actions, strict=True), masses)
    highest: dict[int, float] = defaultdict(float)
    for (label, _), mass in of_actions.items():
        highest[label] = max(highest[label], mass)

    least_leading = max(of_clusters.values()) - TIE
    leading = list[str]()
    for (label, text), mass in of_actions.items():
        if of_clusters[label] > least_leading and mass > highest[label] - TIE:
            leading.append(text)
    return min(leading)


_Key = TypeVar("_Key", bound=Hashable)


def _sums(keys: Iterable[_Key], masses: Iterable[float]) -> dict[_Key, float]:
    """Returns the mass of each key; it does not depend on the order."""
    parts: dict[_Key, list[float]] = defaultdict(list)
    for key, mass in zip(keys, masses, strict=True):
        parts[key].append(mass)
    return {key: math.fsum(part) for key, part in parts.items()}


def _entropy(masses: Iterable[float]) -> float:
    """Returns - sum_j m_j log m_j, in nats, with 0 log 0 = 0; it does not depend on the order."""
    return math.fsum(-mass * math.log(mass) for mass in masses if mass > 0) + 0.0
