from dataclasses import replace

from coe_agents.policy import Measurement, measure
from coe_agents.testing import create_response

AGREED = Measurement(
    coe=0.0,
    aleatoric=0.0,
    epistemic=0.0,
    regime="consensus",
    n_agents=3,
    support=(1.0,),
    answer="Paris",
    answer_kind="answer",
    surprisal=0.0,
    agents={},
)


def measured(**fields):
    """Returns the one above with other fields; CoE is the sum of its parts unless given."""
    found = replace(AGREED, **fields)
    return found if "coe" in fields else replace(found, coe=found.aleatoric + found.epistemic)


def measured_texts(weights=None, **said):
    """Measures texts by agent; equal texts are one cluster."""
    responses = [create_response(agent, text, index=i) for agent, texts in said.items() for i, text in enumerate(texts)]
    texts = [response["text"] for response in responses]
    labels = [list(dict.fromkeys(texts)).index(text) for text in texts]
    return measure(responses, labels, weights=weights, n_resamples=0)
