"""A measurement of three agents that agree, for tests of what reads one."""

from dataclasses import replace

from coe_agents.policy import Measurement

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
    """Returns it with other fields; CoE is the sum of its parts unless given."""
    found = replace(AGREED, **fields)
    return found if "coe" in fields else replace(found, coe=found.aleatoric + found.epistemic)
