"""Owns the values that pass between the parts: requests, responses and rulings, and the closed sets of names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, get_args, runtime_checkable

from typing_extensions import TypedDict

JsonObject: TypeAlias = dict[str, Any]
Fields: TypeAlias = Mapping[str, Any]
"""A `JsonObject`, or another mapping of names to values, that is only read."""
Weights: TypeAlias = Mapping[str, float]
"""What agents weigh, by name."""

FinalAction = Literal["answer", "abstain", "escalate"]
Action = Literal["answer", "abstain", "escalate", "another_round"]
AnswerKind = Literal["answer", "call", "no_call", "refusal", "empty"]
ANSWERABLE: tuple[AnswerKind, ...] = ("answer", "call", "no_call")
"""The kinds that a policy may answer with."""
Regime = Literal["consensus", "conflict", "ambiguous", "unknown"]
REGIMES: tuple[Regime, ...] = get_args(Regime)
Fault = Literal["invalid", "failed"]
"""What is wrong with one reply: "invalid": it fits no tool or schema asked for; "failed": its provider says so."""
DEFAULT_ALEATORIC_THRESHOLD = 0.5
DEFAULT_EPISTEMIC_THRESHOLD = 0.3
"""The thresholds of the regimes, in nats, where a policy has none of its own."""
End = Literal["whole", "cut", "filtered", "unknown"]
"""How a reply ended: "cut" by a limit, "filtered" by its provider, "unknown" where its provider says no known word."""
Cause = Literal[
    "confident",
    "uncertain",
    "tie",
    "quorum",
    "votes",
    "other_proposal",
    "refusal",
    "empty",
    "invalid",
    "rounds",
    "budget",
    "deadline",
    "limit_of_caller",
    "unavailable",
    "claims",
    "person",
    "arbiter",
    "providers",
    "policy",
]
"""Why a group decided as it did; see `CAUSES`."""
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""Why a group decided as it did, as one word for programs; the reason says it for people.

- "confident", "uncertain": what was measured lies within the policy's limits, or not.
- "tie": several answers share the lead.
- "quorum", "unavailable": too few agents answered, or none; or what was to judge them failed.
- "votes", "other_proposal", "providers": too few members vote for what is judged, the group favours another proposal,
  or the votes come from too few providers.
- "refusal", "empty", "invalid": what would be answered declines, says nothing, or cannot be used.
- "rounds", "budget", "deadline": another round was wanted, and a bound of the run forbids it; or the time was up.
- "limit_of_caller": a limit that came with the request forbids the answer.
- "claims": the answer was judged claim by claim.
- "person", "arbiter": they decided an escalated case; any function that is no person is an arbiter.
- "policy": any other reason of a policy.
"""
Rung = Literal["n-logprobs", "n", "each-logprobs", "each", "choice"]
"""How an agent was asked for its samples: see `Sampling`.

The first four are the forms of request in order, best first, and an agent takes the first that its server accepts.
"choice" stands beside them: the probabilities of choices were asked for, in place of samples.
"""

MOST_SAMPLES = 500
"""The most responses that a `ModelAgent` samples in a round."""
WITHHELD_MARK = "coe_withheld"
"""The key of a message's `response_metadata` under which it is True where the message stands for what is withheld."""
DECIDERS = ("group", "person")
"""The deciders that a gate trusts: the policy on the agents' responses, and a person. Nothing else has these names."""


class Response(TypedDict):
    """One sampled response, or one failure; plain data, so that it survives any checkpointer.

    Attributes:
        agent: The agent's name.
        round: The round in which it was sampled, from 0.
        index: Its place among the agent's responses of that round.
        text: What the model said, unchanged; "" in a failure.
        answer: The short answer inside `text` where one was found; it is what gets clustered then. Of a proposal it is
            the canonical action (`coe_agents.actions.canonical_action`).
        logprob: The sum of the response's token log-probabilities in nats, before temperature; None where not known.
        n_tokens: How many tokens `logprob` sums; None where not known.
        error: What went wrong, in a failure: the exception's type and message. Such a row never counts as a response.
        calls: The tool calls that the model proposes, each with "name" and "args"; [] if it was shown tools and calls
            none. None: a text, of a model that was shown no tools. Nothing has run them.
        confidence: How sure the model said it is that its answer is right, in [0, 1]; None where it did not say, or was
            not asked. `text` does not contain it, and `logprob` and `n_tokens` do not cover it.
        end: How the reply ended, by what its provider says. A gate counts whole replies only; among answers a filtered
            reply counts as an empty one. A response that an earlier version stored lacks the field, and is whole.
        fault: In a failure of one reply, what is wrong with the reply; absent of other failures.
    """

    agent: str
    round: int
    index: int
    text: str
    answer: str | None
    logprob: float | None
    n_tokens: int | None
    error: str | None
    calls: list[dict[str, Any]] | None
    confidence: float | None
    end: End
    fault: NotRequired[Fault]


def create_response(
    agent: str,
    text: str,
    *,
    round: int = 0,
    index: int = 0,
    answer: str | None = None,
    logprob: float | None = None,
    n_tokens: int | None = None,
    error: str | None = None,
    calls: Sequence[Mapping[str, Any]] | None = None,
    confidence: float | None = None,
    end: End = "whole",
    fault: Fault | None = None,
) -> Response:
    """Returns a response, with the usual values of the fields that are omitted.

    Example:
        >>> create_response("a", "Paris", index=2)["error"] is None
        True
    """
    response = Response(
        agent=agent,
        round=round,
        index=index,
        text=text,
        answer=answer,
        logprob=logprob,
        n_tokens=n_tokens,
        error=error,
        calls=None
        if calls is None
        else [{"name": call["name"], "args": call["args"]} for call in calls],
        confidence=confidence,
        end=end,
    )
    if fault is not None:
        response["fault"] = fault
    return response


def end_of(response: Response) -> End:
    """Returns how a response ended; a response that an earlier version stored is whole."""
    return response.get("end", "whole")


class Sample(Response):
    """One line: a response, and what is known about it. Unknown fields are kept.

    The `answer` of a line with `calls` and without one is their canonical form.

    Attributes:
        question: What was asked; "" where not known.
        references: Accepted answers; may be empty.
        correct: A verdict in the data; None where there is no verdict.
        tools: The schemas of the tools that the model was shown; None where not known.
    """

    id: str
    question: str
    references: list[str]
    correct: bool | None
    tools: list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class SampledQuestion:
    """All samples of one question, in canonical order.

    Attributes:
        text: What was asked; "" where not known.
        references: The accepted answers of all its samples, each once.
        responses: The samples without an `error`.
        failures: The samples whose `error` is set.
    """

    id: str
    text: str
    references: tuple[str, ...]
    responses: tuple[Sample, ...]
    failures: tuple[Sample, ...]


class Usage(TypedDict):
    """Tokens that one agent's requests cost in one round; None where that is not known."""

    input_tokens: int | None
    output_tokens: int | None


def create_usage(input_tokens: object, output_tokens: object) -> Usage:
    """Returns the tokens that a server, or an agent, says that its requests cost.

    What is no whole number from 0 to 2**53 is not known: a budget must not be extended by a negative count or NaN.

    Example:
        >>> create_usage(11, float("nan"))
        {'input_tokens': 11, 'output_tokens': None}
    """
    return Usage(input_tokens=_count(input_tokens), output_tokens=_count(output_tokens))


def _count(said: object) -> int | None:
    return said if type(said) is int and 0 <= said <= 2**53 else None


def add_usages(usages: Iterable[Usage]) -> Usage:
    """Returns the tokens of several requests together."""
    each = list(usages)
    input_tokens = add_counts([one["input_tokens"] for one in each])
    output_tokens = add_counts([one["output_tokens"] for one in each])
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


def add_counts(counts: Sequence[int | None]) -> int | None:
    """Returns the sum of counts; None if one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def to_usage(said: object) -> Usage:
    """Returns the tokens that a model's `usage` says; what is no mapping says nothing."""
    counts = said if isinstance(said, Mapping) else {}
    return create_usage(counts.get("input_tokens"), counts.get("output_tokens"))


def usage_of(result: Any) -> Usage:
    """Returns the tokens of a request of LangChain's, or of several at once, by its `LLMResult`.

    Each of a request's messages repeats the request's total, which counts once.
    """
    totals = (result.llm_output or {}).get("token_usage")
    if isinstance(totals, Mapping) and ("prompt_tokens" in totals or "completion_tokens" in totals):
        return create_usage(totals.get("prompt_tokens"), totals.get("completion_tokens"))
    firsts = [generations[0] for generations in result.generations if generations]
    return add_usages(
        to_usage(getattr(getattr(first, "message", None), "usage_metadata", None))
        for first in firsts
    )


class Sampling(TypedDict):
    """How the responses to one request to an agent were sampled, and what was odd about them.

    Attributes:
        round: The round, from 0.
        rung: "n-logprobs": all in one request, with log-probabilities; "n": all in one, without; "each-logprobs" and
            "each": a request for each response, with and without. Without, responses count by frequency. "choice": each
            choice's probability was read instead of sampled, and the responses are the choices.
        n_requested: How many responses were asked for.
        n_received: How many were received; fewer if the model failed in between; see `error`.
        n_requests: How many requests were sent and answered.
        n_empty: Responses without text.
        n_truncated: Responses that the model did not finish, by a limit or for a reason that is not known.
        n_cut: Responses that were cut to the agent's `max_response_chars`.
        n_invalid_calls: Responses that count as failures, because their tool calls cannot be read or do not fit the
            tools.
        logprobs_missing: Responses without usable log-probabilities, NaN among them. One is enough for the agent to
            count by frequency.
        refused: Options that the model does not accept, and that were omitted.
        ignores_temperature: Whether equal responses are copies of one, because the temperature has no effect; None if
            this is not known.
        probe: How this was determined, or why it could not be: what the model replied when it was asked for a story, or
            what log-probabilities say. None if nothing was suspicious. The usage of the reply includes the tokens of
            its probe.
        counted: "each" response counts; where the temperature is ignored, copies count "once" or do "not".
        error: What ended the sampling early; None if nothing did.
        max_tokens: The most tokens of a response; None, or absent, where that is not known.
    """

    round: int
    rung: Rung
    n_requested: int
    n_received: int
    n_requests: int
    n_empty: int
    n_truncated: int
    n_cut: int
    n_invalid_calls: int
    logprobs_missing: int
    refused: list[str]
    ignores_temperature: bool | None
    probe: str | None
    counted: Literal["each", "once", "not"]
    error: str | None
    max_tokens: NotRequired[int | None]


class Uncertainty(TypedDict):
    """The uncertainty of a group; all of it is None if nothing was measured.

    The regime is None, too, where fewer agents than `min_agents` answered. The numbers are then of those that did: they
    may be 0, which says nothing of the group.

    Attributes:
        coe: Collaborative Entropy, the sum of the next two.
        aleatoric: Mean semantic entropy of the agents, in nats.
        epistemic: Weighted divergence of the agents from their mean, in nats.
        regime: "consensus", "conflict", "ambiguous" or "unknown", by the policy's thresholds or else the default ones.
    """

    coe: float | None
    aleatoric: float | None
    epistemic: float | None
    regime: Regime | None


class RoundData(Uncertainty):
    """The results of one round: the uncertainty after it, over all responses that count, and what it changed.

    Attributes:
        round: The round, from 0.
        strategy: How the round was asked; None for the first round.
        answer: The leading cluster's most probable response; None if nothing was measured.
        led: The representative of the leading cluster; on a tie of each leading cluster, sorted by text.
        leading: Each agent's most probable answer, by name. If several of its answers tie, the one that the group
            supports most, then the first by text.
        entropies: Each agent's semantic entropy, in nats, by name.
        flips: Whether the meaning of that answer changed since the previous round, for each agent that has both.
        adopted: Whether the agent changed to the leading answer of the previous round, for each agent that has both;
            empty unless the round showed the agents the previous answers.
        tokens: What its requests cost, input and output, all agents together; None where that is not known.
        n_responses: How many responses it added.
    """

    round: int
    strategy: str | None
    answer: str | None
    led: list[str]
    leading: dict[str, str]
    entropies: dict[str, float]
    flips: dict[str, bool]
    adopted: dict[str, bool]
    tokens: int | None
    n_responses: int


class AgentRequest(TypedDict):
    """What an agent is asked in one round.

    Attributes:
        question: The question, for prompts and seeds.
        messages: The conversation as OpenAI-style dictionaries ("role", "content").
        round: The round, from 0.
        n_samples: How many responses this round needs; the agent's own number where it is omitted.
        temperature: The temperature of this round; the agent's own where it is omitted.
        timeout: The seconds that are left for this round.
        instruction: Added to the agent's own system prompt.
        choices: The only replies that count, in a verdict: see `parse_choice` of `coe_agents.clustering`.
        is_review: Whether the question asks for a verdict in words of its own: equal replies are then expected.
        graded: Whether the agent may return the probability of each choice instead of samples: one response for each
            choice, of one token, with its probability as `logprob`.
        tools: The tools that the agent is shown, as OpenAI's function schemas; its responses are proposals then. They
            replace its own tools.
        parses_calls: Whether who asks parses proposed calls by the tools themselves, whose schemas may say less. The
            agent then checks only whether they can be read, and the `answer` of a response is its calls as written.

    A `ModelAgent` honours the last nine; another agent may ignore them.
    """

    question: str
    messages: list[dict[str, Any]]
    round: int
    n_samples: NotRequired[int]
    temperature: NotRequired[float]
    timeout: NotRequired[float]
    instruction: NotRequired[str]
    choices: NotRequired[list[str]]
    is_review: NotRequired[bool]
    graded: NotRequired[bool]
    tools: NotRequired[list[dict[str, Any]]]
    parses_calls: NotRequired[bool]


class AgentReply(TypedDict):
    """What an agent returns: its responses, what they cost and, from a `ModelAgent`, how they were sampled.

    Attributes:
        responses: The responses.
        usage: What they cost.
        sampling: How they were sampled.
        messages: Of proposals, the message of each response by its `index`, for a `CoECouncil` that passes one on. It
            is no plain data, and no graph keeps it.
    """

    responses: list[Response]
    usage: Usage
    sampling: NotRequired[Sampling]
    messages: NotRequired[dict[int, Any]]


@runtime_checkable
class Agent(Protocol):
    """A participant. `config` is LangChain's `RunnableConfig`, passed through for callbacks, tags and metadata.

    `sample` and `asample` raise on failure; the graph turns the exception into a failure row.
    """

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    def sample(
        self, request: AgentRequest, config: Mapping[str, Any] | None = None
    ) -> AgentReply: ...

    async def asample(
        self, request: AgentRequest, config: Mapping[str, Any] | None = None
    ) -> AgentReply: ...


def usable(responses: Sequence[Response]) -> list[Response]:
    """Returns the responses without the failures, in canonical order."""
    return in_canonical_order([response for response in responses if response["error"] is None])


def in_canonical_order(responses: Sequence[Response]) -> list[Response]:
    """Returns the rows by agent, round and index, so that nothing depends on which agent was faster."""
    return sorted(
        responses, key=lambda response: (response["agent"], response["round"], response["index"])
    )


class Candidate(TypedDict):
    """One of the group's answers, by meaning; refusals and empty responses are not candidates.

    Attributes:
        number: Its place, from 1, the best supported first; equal support goes by text.
        answer: The most probable response with this meaning.
        support: Its share of the ensemble mean, in [0, 1].
        agents: The probability that each agent gives it, by name; agents that never gave it are omitted.
    """

    number: int
    answer: str
    support: float
    agents: dict[str, float]


class CaseSummary(TypedDict):
    """What a person is shown of a case that the group did not decide.

    Attributes:
        question: The question.
        candidates: What the agents answered, the best supported first.
        regime: "consensus", "conflict", "ambiguous" or "unknown".
        coe: Collaborative Entropy, the sum of the next two.
        aleatoric: Mean semantic entropy of the agents, in nats.
        epistemic: Weighted divergence of the agents from their mean, in nats.
        reason: The answers of the agents, and why the policy escalates.
    """

    question: str
    candidates: list[Candidate]
    regime: Regime
    coe: float
    aleatoric: float
    epistemic: float
    reason: str


class EscalatedCase(CaseSummary):
    """The case that is passed to the person or model that decides where the group did not.

    Attributes:
        conversation: What the agents saw, as OpenAI-style dictionaries; its last message asks the question.
    """

    conversation: list[dict[str, Any]]


class Ruling(TypedDict):
    """The decision on an escalated case.

    Attributes:
        action: "answer", "abstain", or "escalate" where it could not be settled.
        answer: The answer; needed with "answer", and ignored without.
        reason: One clause: who decided what.
        decided_by: Who decided; the name of the escalation by default. "group" and "person" are reserved.
        usage: The tokens it cost.
    """

    action: FinalAction
    answer: NotRequired[str | None]
    reason: str
    decided_by: NotRequired[str]
    usage: NotRequired[Usage]
