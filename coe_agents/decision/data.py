"""Owns the decision of a group as plain data, which every checkpointer keeps; other shapes inherit what they share."""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypeVar

from typing_extensions import TypedDict

from coe_agents.types import (
    AnswerKind,
    Cause,
    End,
    FinalAction,
    Regime,
    RoundData,
    Sampling,
    Uncertainty,
    Usage,
)

_Shape = TypeVar("_Shape")


class AgentData(TypedDict):
    """One agent's part of the outcome: what was measured of it, and how each request was sampled.

    `confidence` is the mean of what it stated, `token_confidence` that of exp(logprob / n_tokens); None if not known.
    `states_all` is whether it stated one with each response; absent from an earlier version's, as is `lacking`.
    `lacking` is how many of its responses lack an answer: see `AgentMeasurement`.
    """

    n_responses: int
    weighting: Literal["frequency", "probability"]
    entropy: float
    distribution: dict[str, float]
    confidence: float | None
    token_confidence: float | None
    states_all: NotRequired[bool]
    lacking: NotRequired[dict[str, int]]
    sampling: list[Sampling]


class AgentTokens(TypedDict):
    """What one agent's requests of one round cost and, where the agent says it, how they went."""

    agent: str
    usage: Usage
    sampling: Sampling | None


class Grounds(TypedDict):
    """Who decided, and why.

    Attributes:
        cause: Why, as one of the words of `coe_agents.decision.CAUSES`; None where an earlier version decided.
        reason: Which agents gave which answer, quoted and shortened; then the policy's reason, with its numbers.
        decided_by: "group", or who decided after an escalation: "person", the arbiter's name, or the function's.
    """

    cause: Cause | None
    reason: str
    decided_by: str


class Proposed(Grounds):
    """What a group makes of proposed tool calls, and the tokens used.

    Attributes:
        calls: The tool calls to run, each with "name", "args" and "id"; [] if the agents agree to call nothing. None if
            none go on, or the answer is no proposal.
        contested: What the proposals disagree about: see `coe_agents.actions.contested`; None if nothing.
        failed_agents: The reason of each agent that failed in the last round, by name.
        tokens: The tokens of all requests, by agent; an arbiter's, too.
    """

    calls: list[dict[str, Any]] | None
    contested: dict[str, Any] | None
    failed_agents: dict[str, str]
    tokens: dict[str, Usage]


ClaimAction: TypeAlias = Literal["keep", "mark", "drop"]
"""What becomes of a claim: it is given, given with a mark, or left out of the answer."""


class ClaimData(TypedDict):
    """One claim of the draft that a group gives; see `coe_agents.claims`.

    Attributes:
        text: The claim.
        start: Where the sentence that makes it begins, in characters of the draft without its reasoning.
        end: Where that sentence ends.
        support_within: The share of the other responses of the draft's own model that support it; None without any.
        support_between: The mean share of the other models' responses that support it; None without any.
        coe: Collaborative Entropy of the agents' support, in nats: the sum of the next two; None as `support_between`.
        aleatoric: Within models, in nats.
        epistemic: Between models, in nats.
        regime: By the default thresholds.
        agents: The share of each one's responses, without the draft, that "supports" it, "contradicts" it, or is
            "silent".
        action: "keep", "mark" or "drop".
    """

    text: str
    start: int
    end: int
    support_within: float | None
    support_between: float | None
    coe: float | None
    aleatoric: float | None
    epistemic: float | None
    regime: Regime | None
    agents: dict[str, dict[str, float]]
    action: ClaimAction


class ClaimedAnswer(TypedDict):
    """What is left of a draft, claim by claim.

    Attributes:
        answer: The draft with what is left of it; None if nothing is.
        claims: The claims of the draft.
        reason: How many are given, and why the others are not.
    """

    answer: str | None
    claims: list[ClaimData]
    reason: str


class DecisionData(Proposed, Uncertainty):
    """The outcome: `Proposed` and `coe_agents.types.Uncertainty`, and all that led to it.

    Attributes:
        action: "answer", "abstain" or "escalate".
        answer: The answer; None unless the action is "answer".
        choices: The only replies that counted, as the input named them; None where any reply counted.
        answers: The kind of the preset by which answers were asked for and read, such as "short"; None without one.
        answer_end: How the responses that are the answer ended, where none of them is whole; else None.
        answer_kind: What leads: "answer"; of proposals "call" or "no_call"; "refusal" or "empty", which cannot be
            answered. None if nothing was measured.
        regime: None, too, where fewer agents than `min_agents` answered.
        fields: Of a structured answer: the share of the ensemble mean that agrees with each field, in [0, 1]; absent
            elsewhere.
        coordinated_coe: CoE after Algorithm 1; absent where `coordination` names no solver.
        surprisal: -log of the leading cluster's support, in nats.
        support: Ensemble mean of each cluster, by its representative.
        tied: The representatives that share the lead; empty without a tie. A tie is not answered.
        n_rounds: How many rounds were asked.
        agents: The responses and the uncertainty of each agent, by name.
        trajectory: The outcome of each round, in order.
        claims: The claims of a long answer; None where the graph has no `answer_judge`, or the turn asked for a
            choice, a call or a verdict.
        conformity: The share of agents that changed to the leading answer in a debate: see
            `coe_agents.rounds.trajectory.conformity`; None without a debate.
        ruling: Of an escalated case, what was ruled, in words: the first part of the reason. None where nothing was.
    """

    action: FinalAction
    answer: str | None
    choices: list[str] | None
    answers: str | None
    answer_end: End | None
    answer_kind: AnswerKind | None
    fields: NotRequired[dict[str, float]]
    coordinated_coe: NotRequired[float]
    surprisal: float | None
    support: dict[str, float]
    tied: list[str]
    n_rounds: int
    agents: dict[str, AgentData]
    trajectory: list[RoundData]
    claims: list[ClaimData] | None
    conformity: float | None
    ruling: str | None


def view(decision: Mapping[str, Any], shape: type[_Shape]) -> _Shape:
    """Returns what a decision, or a measurement as data, has of another shape; `shape` is a `TypedDict`."""
    viewed: Any = {name: decision[name] for name in shape.__annotations__ if name in decision}
    return viewed  # type: ignore[no-any-return]
