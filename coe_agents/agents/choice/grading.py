"""Owns graded verdicts: a chat model's probability of each choice, read in one request in place of samples."""

import math

from coe_agents.agents.choice.probability import ChoiceMethod, ChoiceProbabilities
from coe_agents.types import AgentReply, AgentRequest, Sampling, Usage, create_response

OTHER_REPLY = "(another reply)"
"""The text of the response that stands for all replies that are not one of the choices."""
MIN_MASS = 0.5
"""If the choices hold less of the model's probability, their ratio is unreliable, and its replies are read instead."""
METHODS: tuple[ChoiceMethod, ...] = ("exact", "constrained")
"""Not the likeliest first tokens of a free reply, which may continue: "Approve would be unsafe"."""


def to_graded_reply(found: ChoiceProbabilities, request: AgentRequest, *, agent: str) -> AgentReply:
    """Returns the probabilities of choices as responses: one for each choice, of one token, and one for the rest."""
    mass = 1.0 if found.mass is None else found.mass
    shares = {choice: p * mass for choice, p in found.probabilities.items()} | {OTHER_REPLY: 1.0 - mass}
    rows = [(text, math.log(share)) for text, share in shares.items() if share > 0]
    responses = [
        create_response(agent, text, round=request["round"], index=index, logprob=logprob, n_tokens=1)
        for index, (text, logprob) in enumerate(rows, start=request.get("first_index", 0))
    ]
    sampling = Sampling(
        round=request["round"],
        rung="choice",
        n_requested=1,
        n_received=1,
        n_requests=1,
        n_empty=0,
        n_truncated=0,
        n_cut=0,
        n_invalid_calls=0,
        logprobs_missing=0,
        ignores_temperature=None,
        probe=None,
        counted="each",
        refused=[],
        error=None,
    )
    usage = Usage(input_tokens=found.input_tokens, output_tokens=found.output_tokens)
    return AgentReply(responses=responses, usage=usage, sampling=sampling)
