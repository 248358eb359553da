"""Owns what an agent says about its own answers: P(False), and the confidence that it states."""

import copy
import logging
import re

from coe_agents import prompts
from coe_agents.agents._requests.parse import whole_text
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.clustering.answers import strip_reasoning
from coe_agents.errors import NoChoiceError
from coe_agents.types import AgentRequest

_LOG = logging.getLogger(__name__)
_NUMBER = re.compile(r"([0-9]+) ?%?\.?")


async def ask_p_false(agent: ModelAgent, question: str, answer: str) -> float | None:
    """Returns the agent's probability that an answer is false, P("False" | "True" or "False"), in [0, 1].

    After Kadavath et al. (2022), with the prompt `coe_agents.prompts.self_check` and without the system prompt. Where
    the number comes from, exact scores, the likeliest first tokens or sampled replies, depends on the model: see
    `ModelAgent.choice`.

    Returns:
        None, with a warning in the log, where the model chooses neither.

    Raises:
        CoEError: If the model fails.
    """
    asked = [("user", prompts.self_check(question, answer))]
    try:
        found = await agent.achoice(asked, prompts.SELF_CHECK_CHOICES)
    except NoChoiceError as error:
        _LOG.warning('agent "%s" gave no P(False): %s', agent.name, error)
        return None
    return found.probabilities["False"]


async def ask_verbal_confidence(agent: ModelAgent, question: str, answer: str) -> float | None:
    """Returns how sure the agent says it is of an answer, in [0, 1]; asked once, at temperature 0, no system prompt.

    Returns:
        None where the reply, to `coe_agents.prompts.confidence`, was cut off or holds no one number from 0 to 100 on a
        line of its own.

    Raises:
        CoEError: If the model fails.
    """
    alone = copy.copy(agent)
    alone.system_prompt = None
    said = {"role": "user", "content": prompts.confidence(question, answer)}
    reply = await alone.asample(AgentRequest(question=question, messages=[said], round=0, n_samples=1, temperature=0.0))
    text = whole_text(reply)
    return None if text is None else stated_confidence(text)


def stated_confidence(text: str) -> float | None:
    r"""Returns the confidence that a reply states, in [0, 1]: the one number that has a line of its own, over 100.

    Example:
        >>> [stated_confidence(text) for text in ("85", "Rather sure.\n**70 %**", "<think>20</think>90.")]
        [0.85, 0.7, 0.9]
        >>> [stated_confidence(text) for text in ("About 85", "0.85", "85\n20", "101", "-5", "")]
        [None, None, None, None, None, None]
    """
    lines = (line.strip().strip("*`").strip() for line in strip_reasoning(text).splitlines())
    found = [match[1] for line in lines if (match := _NUMBER.fullmatch(line))]
    if len(found) != 1 or len(found[0]) > 3 or int(found[0]) > 100:
        return None
    return int(found[0]) / 100
