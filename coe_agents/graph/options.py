"""Owns the rare options of a graph, `GraphOptions`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from coe_agents._removed import refuses_removed
from coe_agents.checks import flag, integer, number, one_of
from coe_agents.clustering.answers import canonical_answer
from coe_agents.measurement.weighting import Weighting
from coe_agents.uncertainty import coordinate
from coe_agents.uncertainty.solvers import Solver

Canonicalize = Callable[[str], str]
"""From a response's text to the short answer, which is clustered."""
OnUnavailable = Literal["abstain", "raise"]
"""What becomes of a question that no agent answered."""


@refuses_removed
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """What few users change of a graph; for `create_coe_graph(..., options=GraphOptions(...))`.

    Attributes:
        weighting: How responses become a distribution: see `coe_agents.policy.measure`.
        coordination: A solver of Algorithm 1 ("greedy", "softmax", "package.module:name" or a callable), whose weights
            and distributions then choose the answer; the policy still sees the measured CoE. None leaves it out.
        canonicalize: Extracts the short answer, which is clustered, from a response's text; None keeps the text. A
            preset of answers has its own.
        retries: How often a failed agent is asked again before its failure counts, unless its error is not retryable. A
            `ModelAgent` retries each request itself, and is not asked again.
        max_question_chars: A longer question is refused before any agent is asked.
        on_unavailable: Where no agent replied: "abstain", with `coe` None and the reason; or "raise", a
            `GroupUnavailableError`.
        clarify: Whether a policy may name the strategy "clarify" (`coe_agents.rounds.Clarify`), even if `strategies`
            does not contain it: the user is asked to clarify the question (`coe_agents.graph.PersonRequest`; the reply
            is text), and the next round starts afresh. The graph then needs a checkpointer.
        compares_texts: Whether proposals that call nothing are one only where their texts are, by the clusterer of
            answers; by default they are one, whatever they say. `coe-agents serve` sets it, so that a caller who adds
            tools does not loosen the gate.
        cost_budget: The cost of the agents' requests up to which a further round is asked, in the currency of their
            prices (`price_per_million` of `ModelAgent`). The first round is always asked, so that with `max_rounds` of
            1 this bounds nothing. A further round is asked only if a response of each agent costs no more than what is
            left, as far as the rounds before it tell, and not where a server tells no tokens. An arbiter's requests are
            not counted.

    Raises:
        TypeError: If a value is of the wrong kind.
        ValueError: If it is out of range, or not among the known ones.

    Example:
        >>> GraphOptions(retries=0).retries
        0
    """

    weighting: Weighting = "auto"
    coordination: str | Solver | None = None
    canonicalize: Canonicalize | None = canonical_answer
    retries: int = 1
    max_question_chars: int = 100_000
    on_unavailable: OnUnavailable = "abstain"
    clarify: bool = False
    compares_texts: bool = False
    cost_budget: float | None = None

    def __post_init__(self) -> None:
        one_of(
            self.weighting, '"weighting"', get_args(Weighting), advice='"auto" suits most groups'
        )
        if self.coordination is not None:
            coordinate([[1.0]], solver=self.coordination)  # refuses an unknown name

        if self.canonicalize is not None and not callable(self.canonicalize):
            raise TypeError(
                f'"canonicalize" must be a function from a text to a text; got {self.canonicalize!r}. '
                "Pass None to cluster the texts as they are"
            )
        integer(self.retries, '"retries"', least=0, advice="0 never asks a failed agent again")
        number(
            self.max_question_chars,
            '"max_question_chars"',
            least=1,
            may_be_infinite=True,
            advice="Omit it for 100,000",
        )
        one_of(
            self.on_unavailable,
            '"on_unavailable"',
            get_args(OnUnavailable),
            advice='"raise" raises an error',
        )
        if self.cost_budget is not None:
            number(self.cost_budget, '"cost_budget"', above=0, advice="Omit it for no bound")
        flag(self.clarify, '"clarify"')
        flag(self.compares_texts, '"compares_texts"')
