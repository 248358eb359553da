"""What the models of the gate's state machine say: driver, members of a council, judges of a gate."""

import json
import re
from contextvars import ContextVar
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult

from coe_agents import ModelAgent
from coe_agents.actions import canonical_action
from coe_agents.testing import create_response
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.machine_tools import EVIL

N_MEMBERS = 3
CHANGES = {
    "other": {"amount": 7},
    "cased": {"unit": "mG"},
    "otherwise": {"how": {"dry_run": False}},
    "moved": {"to": "Mal", "recipient": "Mal", "letter": {"recipient": "Mal"}},
}
"""What a member that differs proposes in place of the driver's arguments."""
SAYS_NOTHING = {"copy": "Perhaps.", "text": "I don't know.", "half": ""}
"""What judges say that is no verdict."""
BEHAVIOURS = ("agree", "agree", "agree", *CHANGES, "alike", "once", "text", "half", "copy", "fail")

# how a reply ended: the field in which a provider says so, and its word
UNSAID = ""
WHOLE = (
    UNSAID,  # as of a local model
    "finish_reason=stop",
    "finish_reason=tool_calls",
    "finish_reason=STOP",
    "finish_reason=COMPLETE",
    "stop_reason=end_turn",
    "stop_reason=tool_use",
    "stopReason=tool_use",
    "done_reason=stop",
    "stop_type=eos",
    "status=completed",
)
CUT = (
    "finish_reason=length",
    "finish_reason=MAX_TOKENS",
    "finish_reason=model_length",
    "stop_reason=max_tokens",
    "stopReason=max_tokens",
    "done_reason=length",
    "stop_type=limit",
    "truncated=yes",
    "status=incomplete",
)
FILTERED = (
    "finish_reason=content_filter",
    "finish_reason=SAFETY",
    "finish_reason=RECITATION",
    "stop_reason=refusal",
    "stopReason=guardrail_intervened",
)
FAILED = ("finish_reason=error", "status=failed")
"""Where a chat model says so, it has not replied; where another agent does, its reply is not known to be whole."""
UNKNOWN = (*FAILED, "finish_reason=never heard of", "stop_reason=pause_turn")
ENDINGS = (*WHOLE, *CUT, *FILTERED, *UNKNOWN)
_KINDS = {"whole": WHOLE, "cut": CUT, "filtered": FILTERED, "unknown": UNKNOWN}


TRIAL = "trial"
"""An argument that no tool knows: what its function does is not what was judged."""
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "Ann"}}
"""What a message holds where its provider ran a tool."""


def holds_search(message):
    """Returns whether the provider of a message ran a tool that nobody judged."""
    return isinstance(message, AIMessage) and SEARCH in [*message.content]


def are_known(calls):
    """Returns whether the tools of some calls know all of their arguments."""
    return not any(TRIAL in one["args"] for one in calls)


class Turn(NamedTuple):
    """What the driver says at one turn, and how each member behaves.

    `ends` are how the members' replies ended, `end` how the driver's did; `falls_back`: whether the driver fails, so
    that another model speaks in its place; `is_double`: whether it makes its first call twice; `searches`: whether the
    driver's provider, and that of each member, ran a tool of its own; `is_trial`: whether all of them give the first
    call with something to do an argument that its tool does not know.
    """

    calls: tuple
    votes: tuple
    ends: tuple = (UNSAID,) * N_MEMBERS
    end: str = UNSAID
    falls_back: bool = False
    is_double: bool = False
    searches: tuple = (False,) * (1 + N_MEMBERS)
    is_trial: bool = False

    def numbered(self, number):
        """The turn with calls that bear references, and ids, that no other turn has."""
        calls = []
        for place, one in enumerate(self.calls):
            args = {**one["args"], "ref": f"r{number}.{place}"}
            calls.append({**one, "args": args, "id": f"c{number}.{place}"})
        tried = [one for one in calls if one["name"] != "look"]
        if self.is_trial and tried:
            tried[0]["args"][TRIAL] = True
        if self.is_double:
            calls.append({**calls[0], "id": f"c{number}.{len(calls)}"})
        return self._replace(calls=tuple(calls))

    def proposal(self, behaviour):
        """What a member with this behaviour proposes; None if it fails."""
        if behaviour == "fail":
            return None
        if (
            behaviour in ("text", "copy") or not self.calls
        ):  # a copy finds no call like this in what it is shown
            return ()
        if behaviour == "half":
            return self.calls[1:] or (
                self.calls[0],
                _changed(self.calls[0], to="Cy", recipient="Cy"),
            )
        if behaviour == "once":
            return tuple({one["args"]["ref"]: one for one in self.calls}.values())
        if behaviour == "alike":
            return tuple(
                _changed(one, to=f" {one['args'].get('to')}".upper()) for one in self.calls
            )
        return tuple(_changed(one, **CHANGES.get(behaviour, {})) for one in reversed(self.calls))

    def said(self, behaviour):
        """What a judge with this behaviour says; None if it fails."""
        if behaviour == "fail":
            return None
        return SAYS_NOTHING.get(
            behaviour, "approve" if behaviour in ("agree", "once") else "reject"
        )


def _changed(call, **args):
    """A call with other arguments, of those that it has."""
    return {
        **call,
        "args": {**call["args"], **{name: args[name] for name in args if name in call["args"]}},
    }


SAYS_DONE = Turn((), ("agree",) * N_MEMBERS)
TURN = ContextVar("turn", default=SAYS_DONE)
"""The turn at which all models are that are asked in this context."""


class Speaker(ScriptedDriver):
    """A chat model of a name: another object of the same name is the same model."""

    model_name: str

    @property
    def _identifying_params(self):
        return {"model_name": self.model_name}

    async def _agenerate(self, *args: Any, **options: Any) -> ChatResult:
        return self._generate(*args, **options)


def reply(text, end, *, model_name, calls=(), searches=False):
    """Returns a message that ended so; who says how it ended says its name, too."""
    content = [SEARCH, {"type": "text", "text": text}] if searches else text
    message = AIMessage(content, tool_calls=[*calls])
    if end != UNSAID:
        field, _, word = end.partition("=")
        message.response_metadata = {field: word, "model_name": model_name}
    return message


def kind_of(end):
    """Returns what an agent that is no chat model says of how its reply ended."""
    return next(kind for kind, ends in _KINDS.items() if end in ends)


def create_driver(world, *, name="driver", is_fallback=False):
    """Returns the agent's own model, or the one that speaks in its place when it fails."""

    def drive(messages):
        turn = TURN.get()
        if world.falls_back and turn.falls_back and not is_fallback:
            raise ConnectionError("down")
        return reply(
            "I will." if turn.calls else "Done.",
            turn.end,
            model_name=name,
            calls=turn.calls,
            searches=turn.searches[0],
        )

    return Speaker(script=drive, model_name=name)


class Member:
    """A member of a council, which proposes what the turn says: an agent, or a chat model."""

    weight = 1.0

    def __init__(self, world, place):
        self.world = world
        self.place = place
        self.name = f"member{place}"

    def as_model(self):
        """Returns the member as an agent that asks a chat model."""
        model = Speaker(script=self.speak, model_name=self.name)
        return ModelAgent(self.name, model, n_samples=1, temperature=0.0, timeout=None, retries=0)

    def calls(self, shown):
        """What it proposes, where it is shown these calls as the last ones that were made."""
        turn = TURN.get()
        behaviour = turn.votes[self.place]
        proposed = turn.proposal(behaviour)
        if proposed is None:
            raise ConnectionError("down")
        if behaviour == "copy":
            proposed = shown
        return [{"name": one["name"], "args": one["args"]} for one in proposed]

    def text(self):
        """What it says beside its calls; who calls nothing may say what the others call."""
        turn = TURN.get()
        return canonical_action(turn.calls) if turn.votes[self.place] == "text" else ""

    def speak(self, messages):
        shown = [
            one.tool_calls for one in messages if isinstance(one, AIMessage) and one.tool_calls
        ]
        proposed = self.calls(shown[-1] if shown else [])
        calls = [{**one, "id": f"m{place}"} for place, one in enumerate(proposed)]
        turn = TURN.get()
        return reply(
            self.text(),
            turn.ends[self.place],
            model_name=self.name,
            calls=calls,
            searches=turn.searches[1 + self.place],
        )

    def respond(self, request):
        messages = [one for one in request["messages"] if one["role"] == "assistant"]
        shown = [one["tool_calls"] for one in messages if one.get("tool_calls")]
        functions = [one["function"] for one in shown[-1]] if shown else []
        copied = [{"name": one["name"], "args": json.loads(one["arguments"])} for one in functions]
        calls = self.calls(copied)
        answer = canonical_action(calls)
        end = kind_of(TURN.get().ends[self.place])
        return create_response(self.name, self.text(), answer=answer, calls=calls, end=end)

    def sample(self, request, config=None):
        return {
            "responses": [self.respond(request)],
            "usage": {"input_tokens": 5, "output_tokens": 1},
        }

    async def asample(self, request, config=None):
        return self.sample(request, config)


class Judge(Member):
    """A judge of a tool gate, which approves or rejects as the turn says."""

    def judge(self, question):
        """Returns what it says of the call that it is asked about, and how that reply ends."""
        shown = question.rpartition("<arguments>")[2].partition("</arguments>")[0]
        ref = re.search(r'"ref": "(r\d+\.\d+)"', shown)[1]
        amount = EVIL if f'"amount": {EVIL}' in shown else 0.0
        self.world.note_judged(ref, amount)
        said, end = self.world.say(ref, self.place, amount)
        if said is None:
            raise ConnectionError("down")
        return said, end

    def speak(self, messages):
        said, end = self.judge(messages[-1].text)
        return reply(said, end, model_name=self.name)

    def respond(self, request):
        said, end = self.judge(request["question"])
        return create_response(self.name, said, end=kind_of(end))
