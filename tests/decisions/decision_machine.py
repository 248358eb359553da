"""The state machine of a decision model, with an oracle of its own that knows what the rule allows.

The rules are how a group is built, what its members say from then on, and what it is asked: by a request of several
questions, and by LangChain's `AutoModeMiddleware` about a tool call. After each of them one invariant holds: nothing
passed that the rule of a council forbids, and whoever was asked was shown all of the state. The oracle knows only what
each member was made to say, never what the group records.
"""

import asyncio
import math
import re
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from langchain.agents.middleware import AutoModeMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.decisions import (
    BaseDecisionModel,
    BoxAnswer,
    BoxCoordinates,
    Choice,
    ChoiceAnswer,
    ClassifierResponse,
    Noul,
    NoulAnswer,
    Score,
    ScoreAnswer,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from coe_agents.decisions import CoEDecisionModel
from coe_agents.errors import GroupUnavailableError

SECRET = "NEVER delete"
"""What whoever is asked must have seen."""
N_REPLIES = 10


class Asked(NamedTuple):
    """A kind of question: its labels in order, the place of the one that blocks, and how `blocks` names it."""

    question: Any
    labels: tuple[str, ...]
    blocking: int
    answer: Any

    @property
    def other(self):
        return 1 if self.blocking == 0 else 0


def asks(key):
    """The words by which a double knows the question that it is asked."""
    return f"This is the question {key}."


NOUL = ("true", "false")
ROUTE = {"go": "It may run.", "stop": None, "wait": None}
QUESTIONS = {
    "is_risky": Asked(Noul(instructions=asks("is_risky")), NOUL, 0, True),
    "is_safe": Asked(Noul(instructions=asks("is_safe")), NOUL, 1, False),
    "route": Asked(Choice(instructions=asks("route"), criteria=ROUTE), tuple(ROUTE), 1, "stop"),
    "harm": Asked(
        Score(instructions=asks("harm"), criteria=["None.", "Some.", "Much."]),
        ("0", "1", "2"),
        2,
        2,
    ),
}
MISSPELT = {"is_riskyy": True, "Is_risky": True, "rout": "stop"}

# what a chat model may reply: the choice that blocks, another one, or what is none
NO_CHOICES = (
    "This is dangerous.",
    "{choice} alarm it is not: {blocking}",
    "{choice}, I wish I could say.",
    "",
)
ENDINGS = (
    "length",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "content_filter",
    "refusal",
    "a word that nobody knows",
)


class Reply(NamedTuple):
    """One reply of a chat model: what it says, and how it ended; None where nothing is said about that."""

    says: str
    ended: str | None = "stop"

    def text(self, letters, asked):
        names = {"choice": letters[asked.other], "blocking": letters[asked.blocking]}
        form = {"blocks": "{blocking}", "passes": "{choice}"}.get(self.says, self.says)
        return form.format(**names)

    @property
    def is_choice(self):
        return self.says in ("blocks", "passes") and self.ended in ("stop", None)


class Behaviour(NamedTuple):
    """What a member says to every question from now on.

    The kinds: "replies", a chat model with `replies`; "scores", one that scores the choices, with `p` for the one that
    blocks and `mass` for all; "model", a decision model with `p`; "usage", the same, with a usage that cannot be read;
    "group", one of three members with `more`; "other", one that answers another kind of question; or "fails".
    """

    kind: str
    p: float = 0.0
    mass: float = 1.0
    replies: tuple[Reply, ...] = ()
    more: tuple[float, ...] = ()

    @property
    def is_chat_model(self):
        return self.kind in ("replies", "scores")


class Vote(NamedTuple):
    """What the oracle makes of a member: how probable the blocking answer is, and the mass of its choices."""

    p: float
    mass: float


def entropy(p):
    return -sum(share * math.log(share) for share in (p, 1.0 - p) if share > 0)


def outcome(votes, threshold):
    """What the group may say, by the rule: "unavailable", "passes", "blocks", or "either" where rounding decides."""
    given = [vote for vote in votes if vote is not None]
    if len(given) <= len(votes) / 2:
        return "unavailable"
    clear = [vote.p if vote.mass >= 0.5 else 1.0 for vote in given]
    mean = (sum(clear) + len(votes) - len(given)) / len(votes)
    middle = sum(vote.p for vote in given) / len(given)
    epistemic = entropy(middle) - sum(entropy(vote.p) for vote in given) / len(given)
    n_votes = sum(p < 0.5 for p in clear)
    if min(abs(mean - 0.5), abs(epistemic - threshold)) < 1e-6:
        return "blocks" if n_votes <= len(votes) / 2 else "either"
    return (
        "passes" if n_votes > len(votes) / 2 and epistemic <= threshold and mean < 0.5 else "blocks"
    )


def vote_of(behaviour, key, shows_all):
    """What a member's behaviour is worth for a question; None if it fails."""
    if behaviour.is_chat_model and not shows_all:
        return None
    if behaviour.kind == "replies":
        said = [reply.says for reply in behaviour.replies if reply.is_choice]
        return Vote(said.count("blocks") / len(said), len(said) / N_REPLIES) if said else None
    if behaviour.kind == "group":
        mean = sum(behaviour.more) / 3
        is_armed = key == "is_risky"  # its own `blocks` are the default ones
        inner = [Vote(p, 1.0) for p in behaviour.more]
        return Vote(max(mean, 0.5) if is_armed and outcome(inner, 0.3) == "blocks" else mean, 1.0)
    if behaviour.kind in ("other", "fails"):
        return None
    return Vote(behaviour.p, behaviour.mass)


class ChatMember(BaseChatModel):
    """A chat model that replies as its behaviour says, and keeps what it was shown."""

    behaviour: Behaviour
    n: int = 1
    shown: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self):
        return "member"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        prompt = messages[-1].text
        self.shown.append(prompt)
        asked = _asked_in(prompt)
        letters = _letters(asked)
        rows = []
        for reply in self.behaviour.replies[: options.get("n", 1)]:
            said = {} if reply.ended is None else {"finish_reason": reply.ended}
            message = AIMessage(reply.text(letters, asked), response_metadata=said)
            message.usage_metadata = (
                "many"  # as a provider's class may, which LangChain does not check
            )
            rows.append(ChatGeneration(message=message, generation_info=said))
        return ChatResult(generations=rows)


class ScoringMember(ChatMember):
    """A chat model that scores the choices."""

    def choice_log_probabilities(self, messages, choices):
        self.shown.append(messages[-1].text)
        asked = _asked_in(messages[-1].text)
        shares = [0.0] * len(choices)
        shares[asked.blocking] = self.behaviour.p * self.behaviour.mass
        shares[asked.other] = (1.0 - self.behaviour.p) * self.behaviour.mass
        return [math.log(share) if share > 0 else -math.inf for share in shares]


class DecisionMember(BaseDecisionModel):
    """A decision model that answers as its behaviour says."""

    model: str = "member"
    behaviour: Behaviour

    @property
    def _provider(self):
        return "tests"

    def _classify(self, state, questions):
        if self.behaviour.kind == "fails":
            raise ConnectionError("lost")
        usage = (
            "many" if self.behaviour.kind == "usage" else {"input_tokens": 1, "output_tokens": 1}
        )
        answers = {key: self._answer(QUESTIONS[key]) for key in questions}
        return ClassifierResponse.model_construct(model="member", answers=answers, usage=usage)

    def _answer(self, asked):
        shares = dict.fromkeys(asked.labels, 0.0)
        shares[asked.labels[asked.blocking]] = self.behaviour.p
        shares[asked.labels[asked.other]] = 1.0 - self.behaviour.p
        choice = ChoiceAnswer(
            type="choice", choice=asked.labels[asked.other], probabilities=shares, confidence=1.0
        )
        kind = asked.question.type
        if self.behaviour.kind == "other":
            return (
                BoxAnswer(type="box", box=BoxCoordinates(top=0, left=0, bottom=1, right=1))
                if kind == "choice"
                else choice
            )
        if kind == "noul":
            return NoulAnswer(type="noul", noul=shares["true"])
        if kind == "choice":
            return choice
        levels = {int(level): p for level, p in shares.items()}
        return ScoreAnswer(type="score", score=0, legend={}, probabilities=levels, confidence=1.0)


def _asked_in(prompt):
    return QUESTIONS[re.findall(r"This is the question (\w+)\.", prompt)[-1]]


def _letters(asked):
    return (
        ("True", "False") if asked.question.type == "noul" else ("A", "B", "C")[: len(asked.labels)]
    )


def create_member(behaviour):
    if behaviour.kind == "group":
        return CoEDecisionModel(
            [DecisionMember(behaviour=Behaviour("model", p)) for p in behaviour.more]
        )
    kinds = {"replies": ChatMember, "scores": ScoringMember}
    return kinds.get(behaviour.kind, DecisionMember)(behaviour=behaviour)


# what can be drawn

P = st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.3, 0.45, 0.5, 0.7, 0.95, 1.0])
LOW = st.sampled_from([0.0, 0.01, 0.05])
CHOSEN = st.sampled_from(["passes"] * 4 + ["blocks"])
PLAIN = st.tuples(CHOSEN, st.sampled_from(["stop", None])).map(Reply._make)
NO_CHOICE = st.sampled_from(NO_CHOICES).map(Reply)
NOT_WHOLE = st.tuples(CHOSEN, st.sampled_from(ENDINGS)).map(Reply._make)
SAME = st.one_of(PLAIN, NO_CHOICE, NOT_WHOLE)


@st.composite
def replies(draw):
    """Ten replies: some of one kind, and the others of another, in any order."""
    first = draw(SAME)
    other = draw(SAME)
    n = draw(st.integers(0, N_REPLIES))
    return tuple(draw(st.permutations([first] * n + [other] * (N_REPLIES - n))))


MASS = st.sampled_from([1e-4, 0.4, 0.5000001, 0.9])
BEHAVIOURS = {
    "clear": st.just(Behaviour("replies", replies=(Reply("passes"),) * N_REPLIES)),
    "replies": replies().map(lambda said: Behaviour("replies", replies=said)),
    "scores": st.tuples(st.just("scores"), P, MASS).map(lambda parts: Behaviour(*parts)),
    "low": LOW.map(lambda p: Behaviour("model", p)),
    "model": P.map(lambda p: Behaviour("model", p)),
    "high": st.sampled_from([0.5, 0.7]).map(lambda p: Behaviour("model", p)),
    "usage": LOW.map(lambda p: Behaviour("usage", p)),
    "other": LOW.map(lambda p: Behaviour("other", p)),
    "fails": st.just(Behaviour("fails")),
    "group": st.tuples(P, LOW, LOW).map(lambda more: Behaviour("group", more=more)),
}
TEXT = {"type": "text", "text": SECRET}
UNSHOWABLE = (
    {"type": "image", "url": "https://x/y.png"},
    {"type": "file", "base64": "aGk=", "mime_type": "text/plain"},
    {"type": "input_text", "text": SECRET},
    {"type": "reasoning", "reasoning": SECRET},
    {"type": "tool_use", "id": "x", "name": "x", "input": {"note": SECRET}},
    {"type": "tool_result", "content": SECRET},
    {"type": "non_standard", "value": {"note": SECRET}},
    {"type": "search_result", "title": SECRET},
    {"note": SECRET},
)
CONTENT = st.one_of(
    st.just(SECRET),
    st.just([TEXT]),
    st.just(["Hello.", TEXT]),
    st.sampled_from(UNSHOWABLE).map(lambda block: [TEXT, block]),
)
AS_MESSAGE = st.sampled_from([HumanMessage, partial(ToolMessage, tool_call_id="c0")])
STATE = st.tuples(AS_MESSAGE, CONTENT)
REQUEST = {"state": STATE, "sync": st.booleans(), "n": st.sampled_from([1, 1, 1, 2])}
SOME_QUESTIONS = st.sets(st.sampled_from(list(QUESTIONS)), max_size=1)
FIRST = st.fixed_dictionaries({"more": SOME_QUESTIONS, **REQUEST})
BUILT = {
    "aleatoric": st.sampled_from([0.0, 0.1, 0.5, math.inf]),
    "epistemic": st.sampled_from([0.1, 0.3, 0.5, 0.7, math.inf]),
    "named": SOME_QUESTIONS,
}
GROUP = {
    "n": st.sampled_from([1, 2, 3, 4, 5]),
    "built": st.fixed_dictionaries(BUILT),
    "first": FIRST,
}
CALL = {"name": "delete", "args": {"name": "a.txt"}, "id": "c1", "type": "tool_call"}


class DecisionMachine(RuleBasedStateMachine):
    """A group behind LangChain's decision models, whose members, thresholds and `blocks` change."""

    kinds = tuple(BEHAVIOURS)
    """What members do: fewer where a planted fault needs few."""

    def __init__(self):
        super().__init__()
        self.stack = ExitStack()
        self.loop = self.stack.enter_context(asyncio.Runner()).get_loop()
        self.log = []

    def teardown(self):
        self.stack.close()

    @initialize(data=st.data(), **GROUP)
    def begin(self, data, **group):
        self.rebuild(data, **group)

    def build(self, **options):
        self.members = [create_member(behaviour) for behaviour in self.behaviours]
        blocks = {key: QUESTIONS[key].answer for key in sorted(self.built["named"])}
        given = {"blocks": blocks or None} | options
        self.group = CoEDecisionModel(
            self.members,
            aleatoric_threshold=self.built["aleatoric"],
            epistemic_threshold=self.built["epistemic"],
            timeout=60.0,
            **given,
        )

    @rule(data=st.data(), place=st.integers(0, 4), first=FIRST)
    def change(self, data, place, first):
        """A member says something else from now on: it replies, scores, fails, or is a group of its own."""
        kind = data.draw(st.sampled_from(self.kinds))
        self.behaviours[place % len(self.behaviours)] = data.draw(BEHAVIOURS[kind])
        self.build()
        self.ask(**first)

    @rule(data=st.data(), **GROUP)
    def rebuild(self, data, n, built, first):
        """The group has other members and thresholds, and blocks other questions."""
        some = st.sampled_from(["low", "clear", *self.kinds]).flatmap(BEHAVIOURS.__getitem__)
        self.behaviours = [data.draw(some) for _ in range(n)]
        self.built = built
        self.build()
        self.ask(**first)

    @rule(blocks=st.sampled_from([{}, {"is_risky": True}]), first=FIRST)
    def copy(self, blocks, first):
        """A copy of the group is made, with other `blocks`."""
        self.built = {**self.built, "named": set()}
        self.build()
        self.group = self.group.model_copy(update={"blocks": blocks})
        self.ask(**first)

    @rule(more=SOME_QUESTIONS, **REQUEST)
    def ask(self, more, state, sync, n):
        """A request asks all questions that the group blocks, and others, once or several times at the same time."""
        keys = sorted(self.built["named"] | more | {"is_risky"})
        make, content = state
        request = {
            "state": {"messages": [make(content)]},
            "questions": {key: QUESTIONS[key].question for key in keys},
        }
        for response in self.run(
            partial(self.group.invoke, request), partial(self.group.ainvoke, request), sync, n
        ):
            self.note(keys, response, content)

    @rule(**REQUEST)
    def act(self, state, sync, n):
        """LangChain's auto mode asks about a tool call, which runs or is blocked."""
        self.built = {
            **self.built,
            "named": self.built["named"] & {"is_risky"},
        }  # the only question that it asks
        self.build()
        make, content = state
        auto = AutoModeMiddleware(
            tools=["delete"], instructions=asks("is_risky"), classifier=self.group
        )
        request = ToolCallRequest(
            tool_call=CALL, tool=None, state={"messages": [make(content)]}, runtime=None
        )
        done = ToolMessage("Deleted.", tool_call_id="c1")

        async def handler(_):
            return done

        forms = (
            partial(auto.wrap_tool_call, request, lambda _: done),
            partial(auto.awrap_tool_call, request, handler),
        )
        for result in self.run(*forms, sync, n):
            self.note(
                ["is_risky"], result if isinstance(result, Exception) else result is done, content
            )

    @rule(name=st.sampled_from(list(MISSPELT)), state=STATE, sync=st.booleans())
    def misspell(self, name, state, sync):
        """The group blocks a question by a name that no question bears."""
        self.build(blocks={name: MISSPELT[name]})
        make, content = state
        request = {
            "state": [make(content)],
            "questions": {"is_risky": QUESTIONS["is_risky"].question},
        }
        (result,) = self.run(
            partial(self.group.invoke, request), partial(self.group.ainvoke, request), sync, 1
        )
        self.log.append((f"a name of no question: {name}", "error", _kind(result)))
        self.build()

    def run(self, invoke, ainvoke, sync, n):
        """The results of n runs at the same time, or what they raised."""
        start = partial(asyncio.to_thread, invoke) if sync else ainvoke

        async def together():
            return await asyncio.gather(*(start() for _ in range(n)), return_exceptions=True)

        return self.loop.run_until_complete(together())

    def note(self, keys, result, content):
        """Notes what the rule allows for each question of a request, and what the group said."""
        shows_all = isinstance(content, str) or not any(block in UNSHOWABLE for block in content)
        allowed = {key: self.allowed(key, shows_all) for key in keys}
        # a request fails as a whole
        failed = {"error", "unavailable"} & set(allowed.values())
        for key in keys:
            self.log.append(
                (
                    f"{key} of {self.behaviours}",
                    min(failed, default=allowed[key]),
                    _said(key, result),
                )
            )
        for member in self.members:
            for prompt in getattr(member, "shown", []):
                if prompt.count(SECRET) != str(content).count(SECRET):
                    self.log.append(("what a member was shown", "all of the state", prompt))

    def allowed(self, key, shows_all):
        """What the rule allows the group to say."""
        if not shows_all and all(behaviour.is_chat_model for behaviour in self.behaviours):
            return "error"
        votes = [vote_of(behaviour, key, shows_all) for behaviour in self.behaviours]
        if key == "is_risky" or key in self.built["named"]:
            return outcome(votes, self.built["epistemic"])
        return "unavailable" if votes.count(None) >= len(votes) / 2 else "any"

    @invariant()
    def nothing_passed_that_the_rule_forbids(self):
        for what, allowed, said in self.log:
            fits = said == allowed or (
                allowed in ("any", "either") and said in ("passes", "blocks")
            )
            assert fits, f"not by the rule: {what}: {said}, where it must be {allowed}"
        self.log.clear()
        for member in self.members:
            getattr(member, "shown", []).clear()


def _kind(result):
    if isinstance(result, GroupUnavailableError):
        return "unavailable"
    if isinstance(result, ValueError):
        return "error"
    if isinstance(result, Exception):
        raise result
    return "an answer"


def _said(key, result):
    """What the group said to a question: that it passes, that it blocks, or that it cannot say."""
    if isinstance(result, bool):
        return "passes" if result else "blocks"
    if isinstance(result, Exception):
        return _kind(result)
    asked = QUESTIONS[key]
    answer = result.answers[key]
    if asked.question.type == "noul":
        return (
            "passes"
            if (answer.noul < 0.5) == (asked.blocking == 0) and answer.noul != 0.5
            else "blocks"
        )
    if asked.question.type == "choice":
        return (
            "blocks" if answer.choice == "stop" or answer.probabilities["stop"] >= 0.5 else "passes"
        )
    return "blocks" if answer.probabilities[asked.blocking] >= 0.5 else "passes"
