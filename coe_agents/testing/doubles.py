"""Owns the test doubles: a scripted agent, and an entailment model that reads a table."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents._removed import refuses_removed
from coe_agents.actions import canonical_action
from coe_agents.checks import one_of, require
from coe_agents.types import AgentReply, AgentRequest, End, Response, Usage, create_response

ROWS = {"contradiction": (0.8, 0.1, 0.1), "neutral": (0.1, 0.8, 0.1), "entailment": (0.1, 0.1, 0.8)}
"""What `TableEntailment` returns for each label: 0.8 for it and 0.1 for the others."""


class ScriptedAgent:
    """An `Agent` that replies as its script says, round by round; an exception in the script is raised.

    Args:
        name: Its name.
        rounds: The responses of each round, or an exception; the last one is for all later rounds, too. A response is
            a text, or a list of the tool calls that it proposes.
        weight: Its weight.
        n_samples: How many responses of a round it gives, unless the request overrides it. By default it gives the
            whole round, whatever the request says.
        end: How its responses end: see `Response["end"]`.

    Attributes:
        requests: What it was asked so far.

    Example:
        >>> agent = ScriptedAgent("a", ["Paris", "Lyon"], ["Paris", "Paris"])
        >>> reply = agent.sample({"question": "Which?", "messages": [], "round": 7})
        >>> [response["text"] for response in reply["responses"]]
        ['Paris', 'Paris']
    """

    @refuses_removed
    def __init__(
        self,
        name: str,
        *rounds: Sequence[str | Sequence[Mapping[str, Any]]] | Exception,
        weight: float = 1.0,
        n_samples: int | None = None,
        end: End = "whole",
    ) -> None:
        self.name = name
        self.rounds = rounds
        self.weight = weight
        self.n_samples = n_samples
        self.end = end
        self.requests: list[AgentRequest] = []

    def sample(self, request: AgentRequest, config: Mapping[str, Any] | None = None) -> AgentReply:
        """Returns the responses of the request's round; each counts one output token.

        Raises:
            ValueError: If the script has no round.
        """
        must = '"rounds" of ScriptedAgent must hold at least one'
        require(bool(self.rounds), must, [], "Pass a list of responses")
        self.requests.append(request)
        last_round = len(self.rounds) - 1
        script = self.rounds[min(request["round"], last_round)]
        if isinstance(script, Exception):
            raise script
        if self.n_samples is not None:
            script = script[: request.get("n_samples", self.n_samples)]
        responses = list[Response]()
        for index, reply in enumerate(script):
            response = _as_response(self.name, reply, request, index=index)
            response["end"] = self.end
            responses.append(response)
        usage = Usage(input_tokens=3, output_tokens=len(script))
        return AgentReply(responses=responses, usage=usage)

    async def asample(
        self, request: AgentRequest, config: Mapping[str, Any] | None = None
    ) -> AgentReply:
        """Returns the responses of the request's round; see `sample`."""
        return self.sample(request, config)


def _as_response(
    name: str, reply: str | Sequence[Mapping[str, Any]], request: AgentRequest, *, index: int
) -> Response:
    place: dict[str, Any] = {"round": request["round"], "index": index}
    tools = request.get("tools")
    if isinstance(reply, str) and tools is None:
        return create_response(name, reply, **place)
    if isinstance(reply, str):
        # where tools are shown, a text is a proposal that calls nothing
        return create_response(name, reply, answer="[]", calls=[], **place)
    if request.get("parses_calls"):
        tools = None
    action = canonical_action(reply, tools=tools)
    return create_response(name, "", answer=action, calls=reply, **place)


class TableEntailment:
    """An `EntailmentModel` that looks each pair up.

    Args:
        table: The label of each (premise, hypothesis), or a function of the two that returns it.
        default: The label of pairs that are not in the table.

    Attributes:
        calls: The pairs of each request so far.

    Raises:
        ValueError: If a label is not contradiction, neutral or entailment; also from `predict` without pairs,
            which no clusterer may call.

    Example:
        >>> model = TableEntailment({("It is Paris.", "Paris"): "entailment"})
        >>> model.predict([("It is Paris.", "Paris"), ("Paris", "It is Paris.")]).tolist()
        [[0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]
    """

    def __init__(
        self,
        table: Mapping[tuple[str, str], str] | Callable[[str, str], str],
        *,
        default: str = "neutral",
    ) -> None:
        labels = [default]
        if not callable(table):
            labels += table.values()
        for label in labels:
            _row(label)
        self._table = table
        self._default = default
        self.calls: list[list[tuple[str, str]]] = []

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs asked so far."""
        return list(chain.from_iterable(self.calls))

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Returns the row of each pair's label, shape `(n_pairs, 3)`."""
        must = '"pairs" must hold at least one'
        require(bool(pairs), must, [], "A clusterer asks only where there is a pair")
        self.calls.append(list(pairs))
        return np.array([_row(self._label(*pair)) for pair in pairs])

    def _label(self, premise: str, hypothesis: str) -> str:
        if callable(self._table):
            return self._table(premise, hypothesis)
        return self._table.get((premise, hypothesis), self._default)


def _row(label: str) -> tuple[float, ...]:
    return ROWS[one_of(label, "every label in TableEntailment", ROWS)]
