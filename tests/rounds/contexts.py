from coe_agents.rounds import RoundContext
from tests.measurement.measurements import measured_texts as measured


def context(*, measurement=None, question="Q?", messages=None, round=1, n_responses=None):
    return RoundContext(
        question=question,
        messages=[{"role": "user", "content": question}] if messages is None else messages,
        round=round,
        measurement=measurement or measured(a=["Paris"], b=["Lyon"]),
        n_responses=n_responses or {"a": 1, "b": 1},
    )
