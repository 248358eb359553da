from dataclasses import replace

from coe_agents.policy import Measurement, measure
from coe_agents.testing import create_response

NUMBERS = dict.fromkeys(("coe", "aleatoric", "epistemic", "surprisal"), 0.0)
SAID = {
    "regime": "consensus",
    "answer": "Paris",
    "answer_kind": "answer",
    "support": (1.0,),
    "agents": {},
}
AGREED = Measurement(**NUMBERS, **SAID, n_agents=3)


def measured(**fields):
    """Returns the one above with other fields; CoE is the sum of its parts unless given."""
    found = replace(AGREED, **fields)
    return found if "coe" in fields else replace(found, coe=found.aleatoric + found.epistemic)


def with_proposals(measurement, **fields):
    return replace(measurement, proposals=replace(measurement.proposals, **fields))


def measured_texts(weights=None, **said):
    """Measures texts by agent; equal texts are one cluster."""
    responses = [
        create_response(agent, text, index=i)
        for agent, texts in said.items()
        for i, text in enumerate(texts)
    ]
    texts = [response["text"] for response in responses]
    labels = [list(dict.fromkeys(texts)).index(text) for text in texts]
    return measure(responses, labels, weights=weights)


def decide(policy, measurement):
    return policy.decide(measurement, round=0, max_rounds=1)
