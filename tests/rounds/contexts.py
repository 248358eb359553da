"""What a strategy is given, at its plainest."""

from coe_agents.policy import measure
from coe_agents.rounds import RoundContext
from coe_agents.testing import create_response


def measured(**said):
    """Returns the measurement of texts by agent; equal texts are one cluster."""
    responses = [create_response(agent, text, index=i) for agent, texts in said.items() for i, text in enumerate(texts)]
    texts = [response["text"] for response in responses]
    return measure(responses, [list(dict.fromkeys(texts)).index(text) for text in texts], n_resamples=0)


def context(*, measurement=None, question="Q?", messages=None, round=1, n_responses=None):
    return RoundContext(
        question=question,
        messages=[{"role": "user", "content": question}] if messages is None else messages,
        round=round,
        measurement=measurement or measured(a=["Paris"], b=["Lyon"]),
        n_responses=n_responses or {"a": 1, "b": 1},
    )
