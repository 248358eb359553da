"""Owns P(False): how likely an agent holds its own responses to be false."""

from collections.abc import Sequence

from coe_agents import prompts
from coe_agents.agents.choice import achoice_probability
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.errors import NoChoiceError
from coe_agents.types import Response


async def aself_checked(agent: ModelAgent, question: str, responses: Sequence[Response]) -> list[Response]:
    """Returns the responses of an agent, each with `p_false`: the agent's probability that it is false.

    The agent's model is shown each distinct response as a proposed answer (Kadavath et al., 2022), without examples.
    `p_false` is None in a failure, for an empty response, and where the model replies neither True nor False.
    """
    true, false = prompts.SELF_CHECK_CHOICES
    found: dict[str, float | None] = {}
    for text in dict.fromkeys(response["text"] for response in responses if response["text"].strip()):
        said = [("user", prompts.self_check(question, text))]
        messages = said if agent.system_prompt is None else [("system", agent.system_prompt), *said]
        try:
            chosen = await achoice_probability(agent.model(), messages, (true, false))
        except NoChoiceError:
            found[text] = None
        else:
            found[text] = chosen.probabilities[false]
    return [{**response, "p_false": found.get(response["text"])} for response in responses]
