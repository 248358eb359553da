"""Owns the strategies of further rounds, and which is chosen: the policy's, else the one of the regime."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from coe_agents import prompts
from coe_agents._removed import refuses_removed
from coe_agents.checks import instance, integer, number, one_of, require
from coe_agents.clustering.refusals import answer_kind
from coe_agents.measurement.weighting import rank_texts
from coe_agents.rounds.strategy import RequestOverrides, RoundContext, RoundPlan, Strategy
from coe_agents.types import MOST_SAMPLES, REGIMES, Regime


@dataclass(frozen=True, slots=True)
class Clarify:
    """Asks the user to clarify the question; the next round starts afresh with the question and the reply.

    The run stops at an `interrupt` that shows a `coe_agents.graph.PersonRequest`; the reply is text. So the graph needs
    a checkpointer; without one a run is refused before any agent is asked. The new responses replace the former ones.
    `create_coe_graph` gives this strategy a node of its own where `strategies` holds it, or with
    `GraphOptions(clarify=True)`, which lets a policy name it for any round.
    """

    name: ClassVar[str] = "clarify"

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Raises ValueError: a policy named this strategy in a graph that was built without it."""
        raise ValueError(
            'the strategy "clarify" must be allowed when the graph is built; got it from the policy alone. '
            "Build it with create_coe_graph(..., options=GraphOptions(clarify=True))"
        )


@refuses_removed
@dataclass(frozen=True, slots=True)
class Resample:
    """Asks the same question again; the new responses join the former ones.

    It makes the measurement more accurate, since few responses underestimate CoE; it does not change the agents.

    Attributes:
        growth: The factor on the number of responses of the last round, for each agent, rounded up; at least 1.
        most: The most responses an agent is asked for in a round, at most 500.

    Raises:
        ValueError: If an option is out of range.

    Example:
        >>> Resample(growth=1.5).n_samples(5)
        8
    """

    name: ClassVar[str] = "resample"
    growth: float = 2.0
    most: int = MOST_SAMPLES

    def __post_init__(self) -> None:
        advice = "2.0 doubles the responses each round"
        number(self.growth, '"growth" of Resample', least=1, advice=advice)
        advice = f"Omit it for {MOST_SAMPLES}"
        integer(self.most, '"most" of Resample', least=1, most=MOST_SAMPLES, advice=advice)

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan; an agent that failed in the last round is asked for its own number."""
        overrides: dict[str, RequestOverrides] = {}
        for agent, n_former in context.n_responses.items():
            overrides[agent] = RequestOverrides()
            if n_former:
                overrides[agent]["n_samples"] = self.n_samples(n_former)
        return RoundPlan(overrides)

    def n_samples(self, n_former: int) -> int:
        """Returns the number of responses to ask for after `n_former`."""
        # the lower one first: a large factor may lead beyond all doubles
        n_wanted = min(n_former * self.growth, self.most)
        return math.ceil(n_wanted)


@refuses_removed
@dataclass(frozen=True, slots=True)
class Debate:
    r"""Shows each agent the distinct answers so far with their support, and never who gave them.

    The new responses replace the former ones: they depend on these, so the two must not count together. Refusals and
    empty responses are not shown: there is nothing in them to weigh, and models repeat what they read. The support that
    is shown then sums to less than 100 %. Where no answer was given, the question is asked unchanged, and no agent can
    conform. Proposals are shown in words, with their arguments as they were proposed.

    Attributes:
        seed: Of the order in which an agent sees the answers, together with its name, the round and the question.
        most: How many answers are shown, those with the most support.
        prompt: The wording, with `{question}` and `{answers}` in it. The answers are listed as data, one a line.

    Raises:
        ValueError: If `most` is below 1, or `prompt` lacks a placeholder.

    Example:
        >>> Debate(prompt="{question}\nSome say:\n{answers}\nWhat do you say?").name
        'debate'
    """

    name: ClassVar[str] = "debate"
    seed: int = 0
    most: int = 8
    prompt: str = prompts.DEBATE

    def __post_init__(self) -> None:
        integer(self.most, '"most" of Debate', least=1, advice="8 keep the prompt short")
        is_whole = all(placeholder in self.prompt for placeholder in ("{question}", "{answers}"))
        must = '"prompt" of Debate must contain {question} and {answers}'
        require(is_whole, must, self.prompt, "Write them where the question and the answers belong")

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan: `prompt` with the question and the answers, in place of the question."""
        measured = context.measurement
        to_weigh = []
        for text, support in zip(measured.representatives, measured.support, strict=True):
            if answer_kind(text) == "answer":
                to_weigh.append((text, support))
        most_supported = rank_texts(to_weigh)[: self.most]
        answers = [(context.proposals.get(text, text), support) for text, support in most_supported]

        overrides: dict[str, RequestOverrides] = {}
        for agent in context.n_responses:
            overrides[agent] = RequestOverrides()
            if answers:
                text = self._text(context, answers, agent)
                overrides[agent]["messages"] = context.rephrase(text)
        return RoundPlan(overrides, replaces=True, shows_answers=bool(answers))

    def _text(self, context: RoundContext, answers: Sequence[tuple[str, float]], agent: str) -> str:
        seed = repr((self.seed, agent, context.round, context.question))
        shuffled = random.Random(seed).sample(answers, k=len(answers))
        return prompts.debate(context.question, shuffled, wording=self.prompt)


DEFAULTS: Mapping[Regime, str] = {
    "consensus": "resample",
    "ambiguous": "resample",
    "conflict": "debate",
    "unknown": "debate",
}

CLARIFY = Clarify.name
_OURS: Mapping[str, Strategy] = {each.name: each for each in (Resample(), Debate(), Clarify())}


class Strategies:
    """The strategies of a graph.

    Args:
        strategies: The strategy of each regime, one of the package by name or a callable, or one for all. Regimes left
            out keep the default: more samples where the agents are uncertain ("resample"), an exchange where they
            disagree ("debate").
    """

    def __init__(
        self, strategies: Mapping[Regime, str | Strategy] | str | Strategy | None = None
    ) -> None:
        by_regime: Mapping[Regime, str | Strategy]
        if isinstance(strategies, str) or callable(strategies):
            by_regime = dict.fromkeys(DEFAULTS, strategies)
        else:
            by_regime = strategies or {}
            what = "one strategy, or a mapping from regimes to strategies"
            advice = 'Write {"conflict": "debate"}'
            instance(by_regime, Mapping, '"strategies"', what=what, advice=advice)
        # in the order of the user's: of two strategies of one name, the first is called by it
        complete = {**by_regime}
        for regime, default in DEFAULTS.items():
            complete.setdefault(regime, default)

        self._by_regime: dict[str, tuple[str, Strategy]] = {}
        self._by_name: dict[str, Strategy] = {}
        for regime, strategy in complete.items():
            one_of(regime, 'a key of "strategies"', REGIMES)
            self._by_regime[regime] = self._read(strategy, regime)

    def _read(self, strategy: str | Strategy, regime: str) -> tuple[str, Strategy]:
        """Returns a strategy with its name, by which a policy may call one of the user's, too."""
        if isinstance(strategy, str):
            return strategy, _named(strategy, _OURS)
        if isinstance(strategy, type):
            raise TypeError(
                f"a strategy must be an object, not a class; got {strategy.__name__}. Call it, or pass its name"
            )
        if not callable(strategy):
            raise TypeError(
                f'a strategy must be a name or a callable; got {type(strategy).__name__} for "{regime}". '
                "Pass a function from RoundContext to RoundPlan"
            )
        name = name_of(strategy)
        self._by_name.setdefault(name, strategy)
        return name, strategy

    @property
    def may_clarify(self) -> bool:
        """Whether the strategy of some regime asks the user what is meant."""
        return any(isinstance(strategy, Clarify) for _, strategy in self._by_regime.values())

    def of(self, regime: str, *, wanted: str | None = None) -> tuple[str, Strategy]:
        """Returns the strategy for a regime, with its name; or the `wanted` one, the first given under that name."""
        if wanted is None:
            return self._by_regime[regime]
        return wanted, _named(wanted, {**_OURS, **self._by_name})


def name_of(strategy: Strategy) -> str:
    """Returns a strategy's name: its `name`, else the function's, else its class's."""
    name = getattr(strategy, "name", None) or getattr(strategy, "__name__", None)
    return name if isinstance(name, str) else type(strategy).__name__


def _named(name: str, known: Mapping[str, Strategy]) -> Strategy:
    advice = 'Pass one of your own in "strategies", as a callable'
    return known[one_of(name, "a strategy", known, advice=advice)]
