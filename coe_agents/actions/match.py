"""Owns the clusterer of actions, which needs no model."""

import json
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from coe_agents._removed import refuses_removed
from coe_agents.actions.canonical import read_action, to_line, tool_key
from coe_agents.actions.rules import AnyOrder, Equalities, Exact, Ignore, Rule, Text, Within
from coe_agents.actions.schemas import find_parameters
from coe_agents.checks import has_method, one_of
from coe_agents.clustering import Clusterer
from coe_agents.clustering.protocols import by_first_appearance, check_batch

_Where = tuple[str, str, str]
"""A tool, an argument and a question."""
_EXACT = Exact()
MISSING: Any = object()
"""The value of an argument in an action that omits it."""


@dataclass(frozen=True, slots=True)
class AlignedActions:
    """Different actions that call the same tools, in canonical order; their calls correspond place by place.

    `tools` is () for the action of calling nothing.
    """

    tools: tuple[str, ...]
    texts: list[str]
    calls: list[list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ArgumentComparison:
    """One argument of one call in which aligned actions differ.

    Attributes:
        values: Its canonical value in each action, or `MISSING`.
        firsts: The place of the first action whose value is equal, or whose part the value joins: see `first_equals`.
        equal: Whether its values in two actions are equal by its rule, shape `(n_actions, n_actions)`; None where they
            are compared exactly.
        is_text: Whether its values are texts that nothing but a rule could make equal.
    """

    tool: str
    name: str
    values: list[Any]
    firsts: list[int]
    equal: Equalities | None
    is_text: bool

    @property
    def path(self) -> str:
        """The tool and the argument, as a rule names them."""
        return f"{self.tool}.{self.name}"


class ActionMatch:
    """A `Clusterer` of tool calls, compared tool by tool and argument by argument.

    Two actions are equal if they call the same tools equally often, and each argument is equal by its rule. Calls of
    one tool are paired in canonical order. Actions are clustered in canonical order, each into the first cluster whose
    first action it equals, so that the order of responses changes nothing. Tolerances are not transitive: two actions
    of one cluster equal its first action, and perhaps not each other.

    Args:
        tools: Whose arguments `compare` may name, and in which order they are reported. What is equal does not depend
            on them: actions are compared as `canonical_action` wrote them.
        compare: The rule of an argument, by "tool.argument" or, for all tools, "argument"; `Exact` for others. But for
            `Ignore`, none applies to a text that the tool's schema fixes ("exact" in `canonical_action`).
        text: "exact", or "loose", the rule of 0.2, for scoring benchmarks: all other texts are equal but for case and
            white space, and numbers to 9 decimals.

    Raises:
        TypeError: A rule is not a `Rule`, or something in `tools` is not a tool.
        ValueError: `compare` names a tool or an argument that no tool has, or `text` is another word.

    Example:
        >>> from coe_agents.actions import Within, canonical_action
        >>> calls = [[{"name": "pay", "args": {"to": "Ann", "sum": amount}}] for amount in (5, 5.004, 6)]
        >>> clusterer = ActionMatch(compare={"pay.sum": Within(absolute=0.01)})
        >>> clusterer.cluster([[canonical_action(one) for one in calls]], ["Pay Ann five euros."])
        [[0, 0, 1]]
    """

    @refuses_removed
    def __init__(
        self,
        tools: Sequence[Any] | None = None,
        *,
        compare: Mapping[str, Rule] | None = None,
        text: Literal["exact", "loose"] = "exact",
    ) -> None:
        self._parameters = find_parameters(tools or ())
        self._rules = _check_rules(compare or {}, self._parameters)
        self.is_loose = one_of(text, '"text" of ActionMatch', ("exact", "loose")) == "loose"
        self._known = _Comparisons()

    @property
    def may_ask_model(self) -> bool:
        """Whether a rule may ask a model, as `Meaning` does, and so may take long."""
        return not all(isinstance(rule, _WITHOUT_MODEL) for rule in self._rules.values())

    def with_tools(self, tools: Sequence[Any]) -> "ActionMatch":
        """Returns a clusterer with the same rules that reports arguments in the order of these tools, too.

        Raises:
            TypeError: Something is not a tool.
        """
        other = copy(self)
        other._parameters = {**self._parameters, **find_parameters(tools)}
        return other

    def cluster(
        self, responses: Sequence[Sequence[str]], questions: Sequence[str]
    ) -> list[list[int]]:
        """Returns the labels of each question's actions, 0..n_clusters-1 by first appearance.

        Args:
            responses: Actions as `canonical_action` returns them. A text that is no such action equals itself alone.
            questions: For rules that read them (`Meaning`).

        Raises:
            TypeError: If something other than strings is given.
            ValueError: If there are not as many questions as lists of responses.
        """
        batch, asked = check_batch(responses, questions)
        return [self._labels(texts, question) for texts, question in zip(batch, asked, strict=True)]

    def align(self, texts: Sequence[str]) -> list[AlignedActions]:
        """Returns the different actions among some texts, grouped by the tools that they call.

        Args:
            texts: Actions as `canonical_action` returns them. A text that is no such action is in no group.
        """
        groups: dict[tuple[str, ...], AlignedActions] = {}
        for text in sorted(set(texts)):
            calls = self._read(text)
            if calls is not None:
                tools = tuple(call["name"] for call in calls)
                group = groups.setdefault(tools, AlignedActions(tools, [], []))
                group.texts.append(text)
                group.calls.append(calls)
        return list(groups.values())

    def compare_arguments(
        self, actions: AlignedActions, question: str, *, reuse: bool = False
    ) -> Iterator[ArgumentComparison]:
        """Yields the comparison of each argument that is not the same everywhere.

        They come call by call, in the order of the tool's schema, then by name.

        Args:
            actions: From `align`.
            question: What was asked.
            reuse: Whether values that were just compared for `cluster` are not compared again by rules that may ask a
                model.
        """
        for place, tool in enumerate(actions.tools):
            calls = [of_action[place] for of_action in actions.calls]
            for name in self._argument_names(tool, calls):
                values = [call["args"].get(name, MISSING) for call in calls]
                lines = [None if value is MISSING else to_line(value) for value in values]
                if len(set(lines)) == 1:
                    continue
                # the values that a schema fixes
                fixed = set[str | None]()
                for line, call in zip(lines, calls, strict=True):
                    if name in call.get("exact", ()):
                        fixed.add(line)

                rule = self._rules.get(f"{tool}.{name}") or self._rules.get(name) or _EXACT
                equal = self._equal(rule, lines, fixed, where=(tool, name, question), reuse=reuse)
                if equal is None:
                    firsts = [lines.index(line) for line in lines]
                else:
                    firsts = first_equals(equal)

                are_texts = all(value is MISSING or isinstance(value, str) for value in values)
                differ = len({*lines} - {None}) > 1
                is_text = isinstance(rule, Exact) and not fixed and are_texts and differ
                yield ArgumentComparison(tool, name, values, firsts, equal, is_text)

    def _equal(
        self,
        rule: Rule,
        lines: Sequence[str | None],
        fixed: Collection[str | None],
        *,
        where: _Where,
        reuse: bool,
    ) -> Equalities | None:
        """Returns whether values, as lines of JSON, are equal by a rule; None if lines need only be compared."""
        if isinstance(rule, Exact):
            return None
        compared = {line for line in lines if line is not None}
        if not isinstance(rule, Ignore):
            compared.difference_update(fixed)
        if not compared:
            return None

        ruled = sorted(compared)
        may_ask = not isinstance(rule, _WITHOUT_MODEL)
        equal = None
        if reuse and may_ask:
            equal = self._known.find(where, ruled)
        if equal is None:
            equal = _compare(rule, ruled, where[-1])
            if may_ask:
                self._known.keep(where, ruled, equal)
        return _extend(equal, rule, ruled, lines)

    def _labels(self, texts: Sequence[str], question: str) -> list[int]:
        if not self._rules and not self.is_loose:
            return by_first_appearance(texts)

        # by action: the first action of its cluster; a text that is no action stays alone
        firsts = {text: text for text in texts}
        for actions in self.align(texts):
            n_actions = len(actions.texts)
            equal = np.ones((n_actions, n_actions), dtype=np.bool_)
            for argument in self.compare_arguments(actions, question):
                if argument.equal is None:
                    places = np.array(argument.firsts)
                    equal &= np.equal.outer(places, places)
                else:
                    equal &= argument.equal
            for text, first in zip(actions.texts, first_equals(equal), strict=True):
                firsts[text] = actions.texts[first]
        return by_first_appearance([firsts[text] for text in texts])

    def _read(self, text: str) -> list[dict[str, Any]] | None:
        calls = read_action(text)
        if calls is None:
            return None
        if self.is_loose:
            for call in calls:
                for name, value in call["args"].items():
                    if name not in call.get("exact", ()):
                        call["args"][name] = _loosen(value)
        return sorted(calls, key=lambda call: (call["name"], to_line(call)))

    def _argument_names(self, tool: str, calls: Sequence[Mapping[str, Any]]) -> list[str]:
        names = set[str]()
        for call in calls:
            names.update(call["args"])
        stated = self._parameters.get(tool, {}).get("properties")
        if not isinstance(stated, Mapping):
            return sorted(names)
        in_order = [name for name in stated if name in names]
        return [*in_order, *sorted(names.difference(in_order))]


def compare_actions(clusterer: Clusterer | None, tools: Sequence[Any] | None = None) -> ActionMatch:
    """Returns the clusterer of proposals: an `ActionMatch` itself, with its rules, or else one in place of another.

    A clusterer of texts reads calls as prose. To `NormalizedMatch`, "rm -rf a" and "rm rf an a" are the same words.
    """
    if not isinstance(clusterer, ActionMatch):
        return ActionMatch(tools)
    if tools is None:
        return clusterer
    return clusterer.with_tools(tools)


def first_equals(equal: Equalities) -> list[int]:
    """Returns the place of the first of each part: every value joins the first part whose first value it equals.

    Args:
        equal: Shape `(n_values, n_values)`, symmetric, true on the diagonal; it need not be transitive.

    Example:
        >>> first_equals(np.array([[True, True, False], [True, True, True], [False, True, True]]))
        [0, 0, 2]
    """
    firsts: list[int] = []
    of_each: list[int] = []
    for place in range(len(equal)):
        first = place
        for known in firsts:
            if equal[place, known]:
                first = known
                break
        else:
            firsts.append(place)
        of_each.append(first)
    return of_each


def _loosen(value: Any) -> Any:
    """Returns a value in the form in which 0.2 compared it."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, float):
        rounded = round(value, 9)
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(value, dict):
        return {name: _loosen(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_loosen, value))
    return value


_WITHOUT_MODEL = (Exact, Ignore, AnyOrder, Within, Text)


class _Comparisons:
    """The last comparisons by rules that may ask a model."""

    def __init__(self) -> None:
        # one operation on a deque is atomic, and unlike a lock it can be pickled
        self._last: deque[tuple[_Where, dict[str, int], Equalities]] = deque(maxlen=256)

    def keep(self, where: _Where, lines: Sequence[str], equal: Equalities) -> None:
        """Keeps whether values are equal, at a tool and an argument, for a question."""
        self._last.append((where, {line: place for place, line in enumerate(lines)}, equal))

    def find(self, where: _Where, lines: Sequence[str]) -> Equalities | None:
        """Returns whether values are equal, if all of them were compared with each other."""
        for known_where, places, equal in reversed([*self._last]):
            has_all = places.keys() >= {*lines}
            if known_where == where and has_all:
                chosen = [places[line] for line in lines]
                return np.asarray(equal[np.ix_(chosen, chosen)])
        return None


def _compare(rule: Rule, lines: Sequence[str], question: str) -> Equalities:
    """Returns whether different values, as lines of JSON, are equal by a rule."""
    values = list(map(json.loads, lines))
    equal = np.asarray(rule.compare(values, question))
    shape = (len(lines), len(lines))
    if equal.shape != shape or equal.dtype != np.bool_:
        raise ValueError(
            f'"compare" of {type(rule).__name__} must return booleans of shape {shape}; got '
            f"{equal.dtype} of shape {equal.shape}. Return one row per value"
        )
    return equal


def _extend(
    equal: Equalities, rule: Rule, ruled: Sequence[str], lines: Sequence[str | None]
) -> Equalities:
    """Returns whether the values of actions are equal: what no rule compared equals itself, or any if ignored."""
    # the values that the rule compared come first, the others behind them
    places: dict[str | None, int] = {line: place for place, line in enumerate(ruled)}
    for line in lines:
        places.setdefault(line, len(places))

    if isinstance(rule, Ignore):
        of_values = np.ones((len(places), len(places)), dtype=np.bool_)
    else:
        of_values = np.eye(len(places), dtype=np.bool_)
    of_values[: len(ruled), : len(ruled)] = equal

    of_actions = [places[line] for line in lines]
    return np.asarray(of_values[np.ix_(of_actions, of_actions)])


def _check_rules(
    compare: Mapping[str, Rule], parameters: Mapping[str, Mapping[str, Any]]
) -> dict[str, Rule]:
    paths = set[str]()
    for tool, schema in parameters.items():
        stated = schema.get("properties")
        if isinstance(stated, Mapping):
            paths.update(f"{tool}.{name}" for name in stated)

    names = {path.rpartition(".")[2] for path in paths}

    rules = {}
    for path, rule in compare.items():
        has_method(rule, "compare", f'the rule of "{path}"', advice="Pass one such as Ignore()")
        tool, dot, name = path.rpartition(".")
        if dot:
            key = f"{tool_key(tool)}.{name}"
            is_known = key in paths
        else:
            key = name
            is_known = name in names
        if parameters and not is_known:
            raise ValueError(
                f'the keys of "compare" must be "tool.argument" or "argument"; got {path!r}, and no tool has that. '
                f"Known: {', '.join(sorted(paths)) or 'none'}"
            )
        rules[key] = rule
    return rules
