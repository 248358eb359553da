"""Owns the decision of a group as plain data, which every checkpointer keeps; other shapes inherit what they share."""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from coe_agents.types import AnswerKind, FinalAction, RoundData, Sampling, Uncertainty, Usage

_Shape = TypeVar("_Shape")


class AgentData(TypedDict):
    """One agent's part of the outcome: what was measured of it, and how each request was sampled.

    `confidence` is the mean of what it stated, `token_confidence` that of exp(logprob / n_tokens); None if not known.
    """

    n_responses: int
    weighting: Literal["frequency", "probability"]
    entropy: float
    distribution: dict[str, float]
    confidence: float | None
    token_confidence: float | None
    sampling: list[Sampling]


class AgentTokens(TypedDict):
    """What one agent's requests of one round cost and, where the agent says it, how they went."""

    agent: str
    usage: Usage
    sampling: Sampling | None


class Answer(TypedDict):
    """What a group does with a question.

    Attributes:
        action: "answer", "abstain" or "escalate".
        answer: The answer; None unless the action is "answer".
    """

    action: FinalAction
    answer: str | None


class Grounds(TypedDict):
    """Who decided, and why.

    Attributes:
        reason: Which agents gave which answer, quoted and shortened; then the policy's reason, with its numbers.
        decided_by: "group", or who decided after an escalation: "person", the arbiter's name, or the function's.
    """

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


class DecisionData(Answer, Proposed, Uncertainty):
    """The outcome: `Answer`, `Proposed` and `coe_agents.types.Uncertainty`, and all that led to it.

    Attributes:
        choices: The only replies that counted, as the input named them; None where any reply counted.
        answers: The kind of the preset by which answers were asked for and read, "short" or "sentences"; None without.
        answer_kind: What leads: "answer"; of proposals "call" or "no_call"; "refusal" or "empty", which cannot be
            answered. None if nothing was measured.
        regime: None, too, where fewer agents than `min_agents` answered.
        divergence: "kl" or "js", in nats; "hellinger", "total_variation", or a function's name, without a unit. Like
            all numbers it is None if nothing was measured.
        interval: 95 % interval of `coe`, as [low, high]: see `coe_agents.uncertainty.coe_interval`.
        coordinated_coe: CoE after Algorithm 1; absent where `coordination` names no solver.
        surprisal: -log of the leading cluster's support, in nats.
        support: Ensemble mean of each cluster, by its representative.
        tied: The representatives that share the lead; empty without a tie. A tie is not answered.
        n_rounds: How many rounds were asked.
        agents: The responses and the uncertainty of each other agent, by name.
        trajectory: The outcome of each round, in order.
        conformity: The share of agents that changed to the leading answer in a debate: see
            `coe_agents.rounds.trajectory.conformity`; None without a debate.
    """

    choices: list[str] | None
    answers: str | None
    answer_kind: AnswerKind | None
    divergence: str | None
    interval: list[float] | None
    coordinated_coe: NotRequired[float]
    surprisal: float | None
    support: dict[str, float]
    tied: list[str]
    n_rounds: int
    agents: dict[str, AgentData]
    trajectory: list[RoundData]
    conformity: float | None


def view(decision: Mapping[str, Any], shape: type[_Shape]) -> _Shape:
    """Returns what a decision, or a measurement as data, has of another shape; `shape` is a `TypedDict`."""
    found: Any = {name: decision[name] for name in shape.__annotations__ if name in decision}
    return found  # type: ignore[no-any-return]
