"""Agents with a council, and the members that it asks."""

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import CoECouncil, SupportPolicy
from coe_agents.actions import canonical_action
from coe_agents.testing import create_response
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import SURE, THREAD, UNSURE, Bank, agent, judges
from tests.middleware.calls import ANN, BOB, DONE, PAY, call, says


class Member:
    """An agent that proposes as its script says, by the number of the assistant's messages in the conversation.

    A step is a text, a list of calls (name and arguments), or an exception; the last one is for all later steps.
    """

    def __init__(self, name, *script, weight=1.0):
        self.name = name
        self.script = script
        self.weight = weight
        self.requests = []

    def sample(self, request, config=None):
        self.requests.append(request)
        n_said = sum(message["role"] == "assistant" for message in request["messages"])
        said = self.script[min(n_said, len(self.script) - 1)]
        if isinstance(said, Exception):
            raise said
        calls = (
            []
            if isinstance(said, str)
            else [{"name": call["name"], "args": call["args"]} for call in said]
        )
        text = said if isinstance(said, str) else ""
        row = create_response(self.name, text, answer=canonical_action(calls), calls=calls)
        return {"responses": [row], "usage": {"input_tokens": 5, "output_tokens": 1}}

    async def asample(self, request, config=None):
        return self.sample(request, config)


def members(*scripts):
    return [Member(f"member{place}", *script) for place, script in enumerate(scripts)]


def council_agent(
    agents, bank, *messages, driver=None, before=(), saver=True, system_prompt=None, **options
):
    options.setdefault("policy", SupportPolicy(0.6))
    response_format = options.pop("response_format", None)
    model = driver or ScriptedDriver(script=[*messages])
    asked = {"system_prompt": system_prompt, "response_format": response_format}
    asked["checkpointer"] = InMemorySaver() if saver is True else saver or None
    return create_agent(
        model, bank.tools, middleware=[*before, CoECouncil(agents, **options)], **asked
    )


def run_council(agents, *messages, given=PAY, **options):
    """The last state, and the transfers that were made."""
    bank = Bank()
    return council_agent(agents, bank, *messages, **options).invoke(given, THREAD), bank.transfers


AGREE = [[call(**ANN)], "Done."]


def gated(kind, bank, *messages, members_say=AGREE, said=SURE, **options):
    """An agent with a council, or a gate, that lets the payment to Ann pass, or one that asks a person about it."""
    messages = messages or (says(call(**ANN)),)
    if kind == "council":
        return council_agent(members(members_say), bank, *messages, DONE, **options)
    return agent(judges(*said)[1], bank, *messages, **options)


def asking(kind, bank, **options):
    options = {"on_uncertain": "interrupt", **options}
    return gated(kind, bank, members_say=[[call(**BOB)], "Done."], said=UNSURE, **options)
