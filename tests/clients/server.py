"""The group that the scripts of this folder ask: what its agents say depends on the question."""

import json

from coe_agents import SupportPolicy
from coe_agents.testing import ScriptedAgent
from tests.clients.report import QUESTIONS
from tests.serve.groups import group_of

CALL = [{"name": "pay", "args": {"to": "Ann", "amount": 5}}]
PLACE = {"city": "Paris", "country": "France"}


class Versed(ScriptedAgent):
    """Says the same as the others to some questions, something of its own to another, and fails at the last."""

    def __init__(self, name, own):
        super().__init__(name)
        self.own = own

    def said(self, request):
        question = next(
            one for one in QUESTIONS.values() if one in request["question"]
        )  # in a prompt of the client's
        if question == QUESTIONS["call"]:
            return "Done." if request["messages"][-1]["role"] == "tool" else CALL
        if question == QUESTIONS["failure"]:
            raise ConnectionError("the model is down")
        place = {**PLACE, "city": self.own} if question == QUESTIONS["refusal"] else PLACE
        if request.get("tools"):  # the functions by which structured answers are asked for
            return [{"name": request["tools"][0]["function"]["name"], "args": place}]
        if "JSON" in request.get("instruction", request["question"]):
            return json.dumps(place)
        return self.own if question == QUESTIONS["refusal"] else "Paris"

    async def asample(self, request, config=None):
        return ScriptedAgent(self.name, [self.said(request)]).sample(request, config)


def versed_group():
    agents = [Versed(name, own) for name, own in zip("abc", ("Rome", "Oslo", "Kyiv"), strict=True)]
    return group_of(*agents, policy=SupportPolicy(0.5))
