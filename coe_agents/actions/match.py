"""Owns the clusterers of actions: tool calls, structured answers, and choices. None needs a model."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coe_agents.actions.canonical import canonical_action, to_line, tool_key
from coe_agents.actions.rules import Equalities, Exact, Ignore, Rule
from coe_agents.actions.schemas import find_parameters
from coe_agents.clustering import parse_choice
from coe_agents.clustering.protocols import check_batch, check_strings
from coe_agents.documents import parse_json

_Action = list[dict[str, Any]]
_ANSWER = "answer"
"""The tool that a structured answer is read as a call of."""


class ActionMatch:
    """A `Clusterer` of tool calls, compared tool by tool and argument by argument.

    Two actions are equal if they call the same tools equally often, and each argument is equal by its rule. Calls of
    one tool are paired in canonical order. Actions are clustered in canonical order, each into the first cluster whose
    first action it equals, so that the order of responses changes nothing. Tolerances are not transitive: two actions
    of one cluster equal its first action, and perhaps not each other.

    Args:
        tools: As in `canonical_action`.
        compare: The rule of an argument, by "tool.argument" or, for all tools, "argument"; `Exact` for others.
        ordered: Whether the order of calls in one message counts.

    Raises:
        TypeError: A rule is not a `Rule`, or something in `tools` is not a tool.
        ValueError: `compare` names a tool or an argument that no tool has.

    Example:
        >>> from coe_agents.actions import Within
        >>> calls = [[{"name": "pay", "args": {"to": "Ann", "sum": amount}}] for amount in (5, 5.004, 6)]
        >>> clusterer = ActionMatch(compare={"pay.sum": Within(absolute=0.01)})
        >>> clusterer.cluster([[canonical_action(one) for one in calls]], ["Pay Ann five euros."])
        [[0, 0, 1]]
    """

    def __init__(
        self, tools: Sequence[Any] | None = None, *, compare: Mapping[str, Rule] | None = None, ordered: bool = False
    ) -> None:
        self._tools = tools
        self._ordered = ordered
        self._rules = _check_rules(compare or {}, find_parameters(tools or ()))

    def cluster(self, responses: Sequence[Sequence[str]], questions: Sequence[str]) -> list[list[int]]:
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

    def _labels(self, texts: Sequence[str], question: str) -> list[int]:
        actions = {text: self._read(text) for text in dict.fromkeys(texts)}
        shapes: dict[object, list[str]] = {}
        for text, action in sorted(actions.items()):
            shape = text if action is None else tuple(call["name"] for call in action)
            shapes.setdefault(shape, []).append(text)
        firsts: dict[str, str] = {}
        for alike in shapes.values():
            firsts |= self._join(alike, actions, question)
        return _number([firsts[text] for text in texts])

    def _read(self, text: str) -> _Action | None:
        try:
            action = parse_json(text, is_strict=True)
            canonical = canonical_action(action, tools=self._tools, ordered=self._ordered)
        except (ValueError, TypeError):
            return None
        found: _Action = json.loads(canonical)
        return found if self._ordered else sorted(found, key=lambda call: (call["name"], to_line(call)))

    def _join(self, texts: Sequence[str], actions: Mapping[str, _Action | None], question: str) -> dict[str, str]:
        """Returns the first of some texts that each one equals; their actions call the same tools."""
        own = [(text, action) for text in texts if (action := actions[text]) is not None]
        if not own:
            return {text: text for text in texts}
        equal = np.ones((len(own), len(own)), dtype=np.bool_)
        for place, call in enumerate(own[0][1]):
            args = [action[place]["args"] for _, action in own]
            for name in sorted({name for given in args for name in given}):
                rule = self._rules.get(f"{call['name']}.{name}") or self._rules.get(name) or Exact()
                equal &= _compare(rule, [given.get(name, _MISSING) for given in args], question)
        firsts: list[int] = []
        joined: dict[str, str] = {}
        for i, (text, _) in enumerate(own):
            first = next((first for first in firsts if equal[i, first]), i)
            if first == i:
                firsts.append(i)
            joined[text] = own[first][0]
        return joined


class StructuredMatch:
    """A `Clusterer` of structured answers: JSON objects, compared field by field as the arguments of a tool call.

    A text that is no JSON object equals itself alone. See `ActionMatch`.

    Args:
        schema: The JSON schema of the answers.
        compare: The rule of a field, by its name; `Exact` for others.

    Raises:
        TypeError: A rule is not a `Rule`.
        ValueError: `compare` names a field that the schema does not have.

    Example:
        >>> clusterer = StructuredMatch({"properties": {"city": {"type": "string"}, "people": {"type": "integer"}}})
        >>> clusterer.cluster([['{"city": "Rome", "people": 3}', '{"people": 3.0, "city": "rome"}', "Rome"]], [""])
        [[0, 0, 1]]
    """

    def __init__(self, schema: Mapping[str, Any], *, compare: Mapping[str, Rule] | None = None) -> None:
        self._tools = [{"name": _ANSWER, "parameters": schema}]
        self._match = ActionMatch(self._tools, compare=compare)

    def cluster(self, responses: Sequence[Sequence[str]], questions: Sequence[str]) -> list[list[int]]:
        """Returns the labels of each question's answers; see `ActionMatch.cluster`."""
        batch, asked = check_batch(responses, questions)
        return self._match.cluster([[self._as_action(text) for text in texts] for texts in batch], asked)

    def _as_action(self, text: str) -> str:
        try:
            return canonical_action([{"name": _ANSWER, "args": parse_json(text, is_strict=True)}], tools=self._tools)
        except (ValueError, TypeError):
            return text


class ChoiceMatch:
    """A `Clusterer` of multiple choice: replies that consist of the same option share a cluster.

    A reply that holds anything else equals itself alone; see `coe_agents.clustering.parse_choice`.

    Args:
        options: The options, at least two, different but for case.

    Raises:
        TypeError: `options` is no sequence of strings.
        ValueError: There are fewer than two, or two are equal.

    Example:
        >>> ChoiceMatch(["A", "B"]).cluster([["A", "a.", "B", "A or B"]], ["Which?"])
        [[0, 0, 1, 2]]
    """

    def __init__(self, options: Sequence[str]) -> None:
        self._options = check_strings(options, name='"options"')
        if len(self._options) < 2 or len({option.lower() for option in self._options}) < len(self._options):
            raise ValueError(f'"options" must hold at least two, all different but for case; got {self._options}')

    def cluster(self, responses: Sequence[Sequence[str]], questions: Sequence[str]) -> list[list[int]]:
        """Returns the labels of each question's replies, 0..n_clusters-1 by first appearance."""
        batch, _ = check_batch(responses, questions)
        return [_number([self._key(text) for text in texts]) for texts in batch]

    def _key(self, text: str) -> tuple[str, str]:
        choice = parse_choice(text, self._options)
        return ("other", text) if choice is None else ("choice", choice)


_MISSING = object()


def _compare(rule: Rule, values: Sequence[Any], question: str) -> Equalities:
    """Returns whether values are equal by a rule. One that is left out equals another such, or any if it is ignored."""
    lines = [None if value is _MISSING else to_line(value) for value in values]
    given = sorted({line for line in lines if line is not None})
    equal = np.full((len(given) + 1, len(given) + 1), isinstance(rule, Ignore))
    if given:
        found = np.asarray(rule.compare([json.loads(line) for line in given], question))
        if found.shape != (len(given), len(given)) or found.dtype != np.bool_:
            raise ValueError(
                f'"compare" of {type(rule).__name__} must return booleans of shape {(len(given), len(given))}; got '
                f"{found.dtype} of shape {found.shape}. Return one row per value"
            )
        equal[:-1, :-1] = found
    equal[-1, -1] = True
    places = [len(given) if line is None else given.index(line) for line in lines]
    return np.asarray(equal[np.ix_(places, places)])


def _check_rules(compare: Mapping[str, Rule], parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Rule]:
    known = {f"{tool}.{name}" for tool, schema in parameters.items() for name in schema.get("properties") or ()}
    rules = {}
    for path, rule in compare.items():
        if isinstance(rule, type) or not isinstance(rule, Rule):
            raise TypeError(f'a rule must be an object such as Ignore(); got {rule!r} for "{path}". Create one')
        *tool, name = path.rsplit(".", 1)
        key = f"{tool_key(tool[0])}.{name}" if tool else name
        if parameters and key not in known and name not in {one.rsplit(".", 1)[1] for one in known if not tool}:
            raise ValueError(
                f'the keys of "compare" must be "tool.argument" or "argument"; got {path!r}, and no tool has that. '
                f"Known: {', '.join(sorted(known)) or 'none'}"
            )
        rules[key] = rule
    return rules


def _number(keys: Sequence[object]) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
