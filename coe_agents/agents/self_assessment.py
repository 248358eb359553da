"""Owns what an agent says about its own answers: P(False)."""

import logging

from coe_agents import prompts
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.errors import NoChoiceError

_LOG = logging.getLogger(__name__)


async def ask_p_false(agent: ModelAgent, question: str, answer: str) -> float | None:
    """Returns the agent's probability that an answer is false, P("False" | "True" or "False"), in [0, 1].

    After Kadavath et al. (2022), with the prompt `coe_agents.prompts.self_check` and without the system prompt. Where
    the number comes from, exact scores, the likeliest first tokens or sampled replies, depends on the model: see
    `ModelAgent.choice`. Where the model chooses neither, it is None, with a warning in the log.
    """
    asked = [("user", prompts.self_check(question, answer))]
    try:
        found = await agent.achoice(asked, prompts.SELF_CHECK_CHOICES)
    except NoChoiceError as error:
        _LOG.warning('agent "%s" gave no P(False): %s', agent.name, error)
        return None
    return found.probabilities["False"]
