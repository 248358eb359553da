"""Votes: what of a group's proposals opens the gate, whoever fails, and how many members are asked."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from coe_agents import CoECouncil, ModelAgent, SupportPolicy, ThresholdPolicy
from coe_agents.actions import ActionMatch, Meaning, Within, canonical_action
from coe_agents.agents import ChatEntailment
from coe_agents.agents.requests.model_names import is_same_model, names_in
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.middleware.withheld import is_withheld, without_withheld
from coe_agents.testing import create_response
from coe_agents.testing.driver import ScriptedDriver
from tests.agents.requests.test_endings import ONE_OF_EACH
from tests.doubles import JudgingModel
from tests.middleware.agents import THREAD, Bank
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, call, replies, says
from tests.middleware.council import Member, council_agent, members
from tests.servers import answering, completion

GATED = ["transfer_money"]
TEN = {"to": "Ann", "amount": 10}
AGREES = [[call(**TEN)]]
DISSENTS = [[call(to="Ann", amount=9)]]
FAILS = [RuntimeError("down")]
WAYS = {"a": AGREES, "d": DISSENTS, "f": FAILS}


def asked(agents, bank, *messages, **options):
    """The last state of an agent under a council that judges payments alone, by its votes alone."""
    options = {"tools": GATED, "policy": None, **options}
    gated = council_agent(agents, bank, *messages, **options)
    return gated.invoke(PAY, THREAD)


def ruled(ways, agents=None, **options):
    """Whether the driver's call ran, and the decision, for members that agree, dissent or fail, a letter each."""
    bank = Bank()
    agents = agents or members(*(WAYS[way] for way in ways))
    state = asked(agents, bank, says(call(**TEN)), DONE, **options)
    decision = state["council"]
    has_run = bool(bank.transfers)
    assert (decision["action"] == "answer") == has_run
    return has_run, decision


SIX = SupportPolicy(0.6)
AT_LEAST_THREE = SupportPolicy(0.0, min_votes=3)
OPENS = [
    ("aa", {}),
    ("aaf", {}),
    ("aaaff", {"policy": SIX}),
    ("aaddd", {"policy": SupportPolicy(0.4)}),
    # the rivals' lead, or their tie with the driver, blocks nothing
    ("addd", {"min_votes": 1}),
    ("aaddd", {"min_votes": 2}),
]
CLOSES = [
    # a strict majority of two is both
    ("ad", {}),
    ("aff", {}),
    ("aaff", {}),
    ("aadff", {}),
    ("aaf", {"policy": SupportPolicy(1.0)}),
    ("aaddd", {"policy": SIX}),
    ("aadff", {"policy": SIX}),
    ("aff", {"policy": ThresholdPolicy(0.5)}),
    ("aaddd", {"min_votes": 3}),
    ("aaddd", {"min_votes": 2, "policy": AT_LEAST_THREE}),
    ("aaddd", {"min_votes": 3, "policy": SupportPolicy(0.0, min_votes=2)}),
]


@pytest.mark.parametrize(("ways", "options"), [*OPENS, *CLOSES])
def test_what_opens_the_gate(ways, options):
    runs, _ = ruled(ways, **options)
    assert runs == ((ways, options) in OPENS)


@pytest.mark.parametrize(
    ("ways", "cause"),
    [("aa", "confident"), ("ad", "votes"), ("aff", "votes"), ("ff", "unavailable")],
)
def test_what_decides_is_stated_as_data(ways, cause):
    _, decision = ruled(ways)
    assert decision["cause"] == cause


ONCE = [call(**TEN)]
TWICE = [call(**TEN), call(id="c2", **TEN)]


@pytest.mark.parametrize("mode", ["verify", "choose"])
@pytest.mark.parametrize(("driver", "others"), [(TWICE, ONCE), (ONCE, TWICE), (TWICE, TWICE)])
def test_to_pay_twice_is_another_action_than_to_pay_once(driver, others, mode):
    bank = Bank()
    group = members([others], [others])
    agent = council_agent(group, bank, says(*driver), DONE, policy=None, mode=mode)
    agent.invoke(PAY, THREAD)
    is_agreed = driver == others
    # where the group chooses, both members would have to vote for what one of them proposes
    assert len(bank.transfers) == (2 if is_agreed else 0)


def test_a_text_without_a_list_of_calls_calls_nothing():
    class Bare(Member):
        def sample(self, request, config=None):
            reply = super().sample(request)
            del reply["responses"][0]["calls"]
            return reply

    state = council_agent([Bare("member0", "Done.")], Bank(), DONE).invoke(PAY, THREAD)
    assert state["messages"][-1].text == "Done."


@pytest.mark.parametrize(("logprobs", "runs"), [((-1.0, -4.0), True), ((-4.0, -1.0), False)])
def test_a_members_samples_support_by_their_probability(logprobs, runs):
    class Unsure(Member):
        """Gives a sample that agrees, and one that does not."""

        def sample(self, request, config=None):
            rows = []
            for way, logprob in zip((AGREES, DISSENTS), logprobs, strict=True):
                reply = Member(self.name, *way).sample(request)
                [row] = reply["responses"]
                rows.append({**row, "logprob": logprob, "n_tokens": 1})
            return {"responses": rows, "usage": {"input_tokens": 5, "output_tokens": 1}}

    has_run, _ = ruled("", [Unsure("member0")], policy=SupportPolicy(0.6))
    assert has_run == runs


LOOKS_UP = {"name": "look_up", "args": {"name": "Ann"}}
CALLS_NOTHING = ["I would pay."]


@pytest.mark.parametrize("options", [{}, {"adaptive": True}])
def test_a_member_that_never_calls_is_named_where_the_drivers_call_is_blocked(options):
    group = members(CALLS_NOTHING, ["Paying now."], [[LOOKS_UP]])
    _, decision = ruled("", group, **options)
    named = "; member0, member1 called no tool: their servers may ignore tools"
    assert decision["reason"].endswith(named), decision["reason"]

    _, passed = ruled("", members(CALLS_NOTHING, AGREES, AGREES, AGREES), **options)
    assert "called no tool" not in passed["reason"]
    _, without_one = ruled("df", **options)
    assert "called no tool" not in without_one["reason"]


def test_a_member_that_never_calls_is_named_beside_one_that_failed_but_not_where_a_text_is_judged():
    _, decision = ruled("", members(FAILS, CALLS_NOTHING, [LOOKS_UP]))
    named = "; member1 called no tool: its server may ignore tools"
    assert decision["reason"].endswith(named)

    group = members(["Done."], AGREES, AGREES)
    agent = council_agent(group, Bank(), DONE, max_blocked=1)
    decision = agent.invoke(PAY, THREAD)["council"]
    assert decision["action"] == "abstain"
    assert "called no tool" not in decision["reason"]


class Several(Member):
    """A member that gives several samples; None is one that failed."""

    def __init__(self, name, *samples, weight=1.0, n_requested=None):
        super().__init__(name, weight=weight)
        self.samples = samples
        self.n_requested = n_requested

    def sample(self, request, config=None):
        self.requests.append(request)
        rows = []
        for place, calls in enumerate(self.samples):
            if calls is None:
                row = create_response(self.name, "", index=place, error="late")
            else:
                answer = canonical_action(calls)
                row = create_response(self.name, "", index=place, answer=answer, calls=calls)
            rows.append(row)

        reply = {"responses": rows, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if self.n_requested is not None:
            reply["sampling"] = {"n_requested": self.n_requested, "counted": "each"}
        return reply


SAYS_TEN = [call(**TEN)]
SAYS_NINE = [call(to="Ann", amount=9)]


AGREEING = [(SAYS_TEN, SAYS_TEN, SAYS_NINE), (SAYS_TEN, SAYS_TEN, None)]
SPLIT = [(SAYS_TEN, SAYS_NINE), (SAYS_TEN, None, None)]


@pytest.mark.parametrize(
    ("member", "votes"),
    [
        *((Several("a", *samples), samples in AGREEING) for samples in [*AGREEING, *SPLIT]),
        # two or one of three that were asked for
        (Several("a", SAYS_TEN, SAYS_TEN, n_requested=3), True),
        (Several("a", SAYS_TEN, n_requested=3), False),
        (Several("a", SAYS_TEN, weight=0.1), True),
        (Several("a", SAYS_TEN, weight=0.0), False),
    ],
)
def test_a_vote_is_the_strict_majority_of_a_members_own_samples(member, votes):
    dissenting = Member("b", *DISSENTS)
    runs, decision = ruled("", [member, dissenting], min_votes=1)
    assert runs == votes
    assert decision["votes"] == (["a"] if votes else [])


TO_BOB = [[call(**BOB)]]


def test_where_the_group_chooses_the_votes_are_of_others_than_the_proposer_who_has_a_weight():
    # of three members two must agree with the one that proposes it
    for n_others, runs in ((2, True), (1, False)):
        bank = Bank()
        others = [TO_BOB] * n_others + [AGREES] * (2 - n_others)
        group = members(TO_BOB, *others)
        state = asked(group, bank, says(call(**ANN)), DONE, mode="choose")
        assert bool(bank.transfers) == runs
        assert (
            len(state["council"]["votes"]) == 2
        )  # the proposer is not counted, where there is one

    bank = Bank()
    without_weight = Member("a", *TO_BOB, weight=0.0)
    group = [without_weight, *(Member(name, *TO_BOB) for name in "bcd")]
    state = asked(group, bank, says(call(**ANN)), DONE, mode="choose")
    assert state["council"]["proposer"] == "b"
    assert bank.transfers == [("Bob", 2.0)]


TOOLS = Bank().tools
NEAR = ActionMatch(compare={"transfer_money.amount": Within(absolute=1)})
AMOUNTS = (10, 9, 8, 7, None, "down")
"""With a tolerance of 1 a chain, so that equality is not transitive; None calls nothing."""


def proposing(name, amounts, weight):
    """A member that gives a sample for each of these `AMOUNTS`."""
    samples = []
    for amount in amounts:
        if amount == "down":
            samples.append(None)
        elif amount is None:
            samples.append([])
        else:
            samples.append([call(to="Ann", amount=amount)])
    return Several(name, *samples, weight=weight)


SAMPLES = st.lists(st.sampled_from(AMOUNTS), min_size=1, max_size=3)
WEIGHTS = st.sampled_from([1.0, 1.0, 0.5, 0.0])
SAID = st.lists(st.tuples(SAMPLES, WEIGHTS), min_size=1, max_size=5).filter(
    lambda said: any(weight > 0 for _, weight in said)
)
OPTIONS = st.sampled_from(
    [
        {},
        {"min_votes": 1},
        {"policy": SupportPolicy(0.5)},
        {"policy": SupportPolicy(0.3)},
        {"policy": SupportPolicy(0.6, min_votes=1)},
        {"clusterer": NEAR},
        {"clusterer": NEAR, "policy": SupportPolicy(0.4)},
    ]
)


def turn(said, **options):
    """The decision of a turn without an agent around it, for members that give these samples, and how many it asked."""
    group = [proposing(f"m{place}", *samples) for place, samples in enumerate(said)]
    messages = [HumanMessage("Pay.")]
    request = ModelRequest(
        model=ScriptedDriver(script=[]),
        messages=messages,
        tools=TOOLS,
        state={"messages": messages},
        runtime=None,
    )
    of_driver = ModelResponse([says(call(**TEN))])

    council = CoECouncil(group, tools=GATED, **options)
    returned = council.wrap_model_call(request, lambda _: of_driver)
    n_asked = sum(len(member.requests) for member in group)
    return returned.command.update["council"], n_asked


@settings(max_examples=20)
@given(SAID, OPTIONS, st.integers(0, 4))
def test_no_vote_more_closes_the_gate(said, options, turned):
    place = turned % len(said)
    _, weight = said[place]
    with_one_more = [*said]
    with_one_more[place] = [10], weight

    before, _ = turn(said, **options)
    after, _ = turn(with_one_more, **options)
    if before["action"] == "answer":
        assert after["action"] == "answer"


@settings(max_examples=20)
@given(SAID, OPTIONS)
def test_asking_as_few_as_needed_rules_as_asking_all(said, options):
    full, n_full = turn(said, adaptive=False, **options)
    few, n_few = turn(said, adaptive=True, **options)
    assert full["n_asked"] == n_full
    assert few["n_asked"] == n_few
    assert few["action"] == full["action"]
    assert few["calls"] == full["calls"]
    assert few["proposer"] == full["proposer"]

    n_with_weight = sum(weight > 0 for _, weight in said)
    if few["n_asked"] == n_with_weight:
        assert few["votes"] == full["votes"]
    else:
        assert set(few["votes"]) <= set(full["votes"])
        assert few["support"] is None


@pytest.mark.parametrize(
    ("mode", "votes"), [("verify", ["member0", "member1"]), ("choose", ["member0"])]
)
def test_under_a_tolerance_no_third_proposal_decides_whether_one_is_the_drivers(mode, votes):
    ten = [call(to="Ann", amount=10)]
    nine = [call(to="Ann", amount=9)]
    eight = [call(to="Ann", amount=8)]
    group = members([ten], [eight])
    state = asked(group, Bank(), says(*nine), DONE, clusterer=NEAR, mode=mode, min_votes=1)
    assert state["council"]["votes"] == votes


def test_members_that_could_not_change_the_decision_are_not_asked():
    group = members(AGREES, AGREES, FAILS)
    runs, decision = ruled("", group, adaptive=True)
    assert runs
    assert [len(agent.requests) for agent in group] == [1, 1, 0]
    assert decision["n_asked"] == 2
    assert decision["failed_agents"] == {}
    assert decision["reason"] == (
        "2 of 2 members asked propose the same, and the votes of 1 other would not change the decision"
    )

    group = members(DISSENTS, FAILS, AGREES)
    runs, _ = ruled("", group, adaptive=True)
    assert not runs
    assert [len(agent.requests) for agent in group] == [1, 1, 0]


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Replying(Member):
    """A member whose script is its reply, whole."""

    def sample(self, request, config=None):
        [reply] = self.script
        if isinstance(reply, Exception):
            raise reply
        return reply


GOOD = create_response("x", "", answer="[]", calls=[{"name": "transfer_money", "args": TEN}])
USAGE = {"input_tokens": 1, "output_tokens": 1}


def with_usage(*responses, **more):
    return {"responses": list(responses), "usage": USAGE, **more}


MALFORMED = {
    "nothing": None,
    "no usage": {"responses": [GOOD]},
    "no responses": {"usage": USAGE},
    "responses that are none": {"responses": None, "usage": USAGE},
    "not one response": with_usage(),
    "None in place of a response": with_usage(None),
    "a call without a name": with_usage({**GOOD, "calls": [{"args": TEN}]}),
    "arguments in a list": with_usage({**GOOD, "calls": [{"name": "balance", "args": [1]}]}),
    "a log-probability in words": with_usage({**GOOD, "logprob": "high"}),
    "no text": with_usage({**GOOD, "text": None}),
    "messages in a list": with_usage(GOOD, messages=["m"]),
    "an error without text": with_usage({**GOOD, "error": ""}),
    "an exception that cannot be read": MuteError(),
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_reply_is_a_failure(reply):
    malformed = Replying("x", reply)
    first = Member("a", *AGREES)
    second = Member("b", *AGREES)
    for options in ({"mode": "choose"}, {"adaptive": True}):
        runs, decision = ruled("", [malformed, first, second], **options)
        assert runs
        assert set(decision["failed_agents"]) == {"x"}
        assert decision["failed_agents"]["x"].strip(": ")

    runs, _ = ruled("", [malformed, first])
    assert not runs


def test_a_conversation_without_what_was_withheld():
    mark = {"status": "error", "response_metadata": {"coe_not_run": True, "coe_withheld": True}}
    pays_both = AIMessage(
        [{"type": "text", "text": "I pay."}],
        tool_calls=[call(id="c1", **TEN), call(id="c2", **BOB)],
    )
    sent = ToolMessage("sent", tool_call_id="c1")
    asks = AIMessage("Shall I?")
    untouched = [
        HumanMessage("Pay."),
        says(call("balance", id="c1", x=1)),
        ToolMessage("100", tool_call_id="c1"),
    ]
    messages = [
        *untouched,
        pays_both,
        sent,
        ToolMessage("not run", tool_call_id="c2", **mark),
        says(call(id="c3", **BOB)),
        ToolMessage("not run", tool_call_id="c3", **mark),
        asks,
    ]

    *before, shortened, reply, last = without_withheld(messages)
    assert before == untouched
    assert shortened.text == ""
    assert [one["id"] for one in shortened.tool_calls] == ["c1"]
    assert [reply, last] == [sent, asks]


def test_only_the_gated_calls_of_a_message_are_compared():
    for ways, runs in (("aad", True), ("add", False)):
        bank = Bank()
        group = members(*(WAYS[way] for way in ways))
        state = asked(group, bank, says(LOOKS, call(**TEN)), DONE)
        assert bool(bank.transfers) == runs
        status = "success" if runs else "error"
        assert [reply.status for reply in replies(state)] == [status] * 2


UNFIT = [call("nonsense", id="c0", x=1), call("balance", id="c0", x=1)]


@pytest.mark.parametrize("sibling", UNFIT)
def test_a_sibling_that_does_not_fit_blocks_the_message(sibling, bank):
    group = members(AGREES, AGREES)
    state = asked(group, bank, says(sibling, call(**TEN)), DONE)
    assert bank.transfers == []
    of_sibling, of_payment = replies(state)
    assert is_withheld(of_sibling)
    assert is_withheld(of_payment)
    assert of_sibling.text.endswith("Do not repeat the call unchanged.")
    assert state["council"]["cause"] == "invalid"


@pytest.mark.wording
def test_the_sibling_that_does_not_fit_is_named():
    for sibling in UNFIT:
        state = asked(members(AGREES, AGREES), Bank(), says(sibling, call(**TEN)), DONE)
        assert sibling["name"] in state["council"]["reason"]


def test_the_drivers_own_model_is_no_member():
    driver = ScriptedDriver(script=[says(call(**TEN)), DONE])
    of_one_model = council_agent([ModelAgent("a", driver)], Bank(), driver=driver)
    with pytest.raises(ValueError, match="must have other models than the driver"):
        of_one_model.invoke(PAY, THREAD)

    other = ScriptedDriver(script=driver.script)
    of_two_models = council_agent([ModelAgent("a", other)], Bank(), driver=driver)
    of_two_models.invoke(PAY, THREAD)


class Named(ScriptedDriver):
    """A model that has a name."""

    model_name: str


class Down(ScriptedDriver):
    def _generate(self, *args, **options):
        raise ConnectionError("down")


class Swaps(AgentMiddleware):
    """Other middleware, which asks another model than the council was shown."""

    def __init__(self, asks):
        super().__init__()
        self.asks = asks

    def wrap_model_call(self, request, handler):
        return self.asks(request, handler)


def to(**changes):
    """Asks with these changes of the request."""
    return lambda request, handler: handler(request.override(**changes))


def assigns(request, handler):
    with pytest.warns(DeprecationWarning, match="override"):
        request.model = SAME
    return handler(request)


SAYS = {"script": [says(call(**TEN)), DONE]}
NAMED = {"response_metadata": {"model_name": "m-2025-08-07", "model_provider": "openai"}}
STATED = AIMessage("I will.", tool_calls=[call(**TEN)], **NAMED)
SAME = Named(model_name="m", **SAYS)
OTHER = Named(model_name="n", **SAYS)
NAMELESS = ScriptedDriver(**SAYS)
ALIKE = ScriptedDriver(**SAYS)
DRIVERS = {
    "the same": (to(model=SAME), SAME, False),
    "of one name": (to(model=SAME), SAME.model_copy(), False),
    "of another name": (to(model=OTHER), SAME, True),
    "without a name": (to(model=NAMELESS), NAMELESS, False),
    "without a name, another": (to(model=NAMELESS), ALIKE, True),
    "dated": (to(model=SAME), Named(model_name="m-0613", **SAYS), False),
    "bound": (to(model=SAME.bind(stop=["x"])), SAME, False),
    "by settings": (to(model_settings={"model": "m"}), SAME, False),
    "assigned": (assigns, SAME, False),
    "replaced": (lambda request, handler: handler(replace(request, model=SAME)), SAME, False),
    "by its reply": (lambda request, handler: STATED.model_copy(), SAME, False),
}


def beside(own):
    """A group of this member, one that agrees with the driver, and one that would pay Eve."""
    to_eve = [[call(to="Eve")], "Done."]
    return [own, *members(AGREES, to_eve)]


FORMS_OF_A_COUNCIL = [{"mode": "choose"}, {"adaptive": True}, {"tools": GATED}]


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        *((driver, {}) for driver in DRIVERS),
        *(("the same", options) for options in FORMS_OF_A_COUNCIL),
    ],
    ids=str,
)
def test_whoever_gave_the_message_has_no_vote_and_stays_in_the_denominator(driver, options, bank):
    asks, own, votes = DRIVERS[driver]
    group = beside(ModelAgent("own", own))
    middleware = [CoECouncil(group, **options), Swaps(asks)]
    agent = create_agent(ScriptedDriver(**SAYS), bank.tools, middleware=middleware)
    agent.invoke(PAY)
    assert bool(bank.transfers) == votes


def test_a_fallback_has_no_vote_on_its_own_call(bank):
    fallback = ScriptedDriver(**SAYS)
    group = beside(ModelAgent("own", fallback))
    middleware = [CoECouncil(group, max_blocked=1), ModelFallbackMiddleware(fallback)]
    agent = create_agent(Down(**SAYS), bank.tools, middleware=middleware)

    decision = agent.invoke(PAY)["council"]
    assert bank.transfers == []
    assert decision["failed_agents"]["own"].startswith("AgentError")
    assert len(decision["votes"]) == 1


def test_a_council_in_front_of_another_sees_the_fallback_behind_both(bank):
    fallback = ScriptedDriver(**SAYS)
    group = beside(ModelAgent("own", fallback))
    middleware = [
        CoECouncil(group, max_blocked=1, name="outer"),
        CoECouncil(members(AGREES, AGREES), name="inner"),
        ModelFallbackMiddleware(fallback),
    ]
    agent = create_agent(Down(**SAYS), bank.tools, middleware=middleware)
    agent.invoke(PAY)
    assert bank.transfers == []


class Telling(Member):
    """A member of a class that does not tell its model, but its replies do, beside others."""

    def sample(self, request, config=None):
        reply = super().sample(request, config)
        said = {row["index"]: AIMessage("", **NAMED) for row in reply["responses"]}
        return {**reply, "messages": said | {99: HumanMessage("", **NAMED)}}


@pytest.mark.parametrize("stated", [STATED, AIMessage("I will.", tool_calls=[call(**TEN)])])
def test_a_member_whose_reply_names_the_drivers_model_has_no_vote(stated, bank):
    group = beside(Telling("own", *AGREES))
    said = iter([stated.model_copy(), DONE.model_copy()])
    replaces = Swaps(lambda request, handler: next(said))
    middleware = [CoECouncil(group, max_blocked=1), replaces]
    agent = create_agent(ScriptedDriver(**SAYS), bank.tools, middleware=middleware)
    agent.invoke(PAY)
    names_the_model = stated is STATED
    assert bool(bank.transfers) == (not names_the_model)


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ("gpt-5-mini", "gpt-5-mini-2025-08-07", True),
        ("gpt-4", "gpt-4-0613", True),
        ("claude-sonnet-4-5", "claude-sonnet-4-5@20250929", True),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True),
        ("gemini-2.5-flash", "models/gemini-2.5-flash-preview-05-20", True),
        ("gemini-1.5-pro", "gemini-1.5-pro-002", True),
        ("GPT-5", "openai/gpt-5", True),
        ("deepseek/deepseek-r1:free", "deepseek-r1", True),
        ("anthropic.claude-sonnet-4-5", "us.anthropic.claude-sonnet-4-5-20250929", True),
        ("us.gpt-5", "gpt-5", False),
        ("gpt-5", "gpt-5-mini-2025-08-07", False),
        ("gpt-4", "gpt-4.1", False),
        ("claude-opus-4", "claude-opus-4-1", False),
        ("deepseek-v2", "deepseek-v3", False),
        ("qwen3:8b", "qwen3:14b", False),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06", False),
    ],
)
def test_a_dated_model_answers_for_the_undated_name(one, other, is_one):
    by_name = f"p:{one}", f"p:{other}"
    as_models = Named(model_name=one, **SAYS), Named(model_name=other, **SAYS)
    for model, known in (by_name, as_models):
        assert is_same_model(model, known) == is_one
        assert is_same_model(known, model) == is_one
    assert not is_same_model(f"p:{one}", f"q:{one}")


SAME_MODEL = [{}, {"temperature": 0.3, "seed": 1}, {"base_url": "http://localhost:2/v1"}]


@pytest.mark.parametrize("other", [*SAME_MODEL, {"model": "n"}])
def test_a_model_is_its_name_at_a_provider(other):
    openai = pytest.importorskip("langchain_openai")
    options = {"model": "m", "base_url": "http://localhost:1/v1", "api_key": "none"}
    model = openai.ChatOpenAI(**options)
    other_model = openai.ChatOpenAI(**options | other)

    assert ModelAgent("a", model).uses(other_model) == (other in SAME_MODEL)
    has_same_name = "model" not in other
    assert ModelAgent("a", "openai:m").uses(other_model) == has_same_name
    assert not ModelAgent("a", "mistralai:m").uses(model)


@pytest.mark.parametrize("name", ["m", "mm", "m-2025-08-07m-2025-08-07"])
def test_what_a_reply_says_of_its_model_is_that_of_a_deployment_too(name):
    """Azure's model calls its provider "azure", its replies "openai"; merged chunks have the name more than once."""
    openai = pytest.importorskip("langchain_openai")
    model = openai.AzureChatOpenAI(
        model="m",
        azure_deployment="m",
        api_key="none",
        azure_endpoint="http://localhost:1",
        api_version="2024-10-21",
    )
    agent = ModelAgent("a", model)
    reply = AIMessage("", response_metadata={"model_name": name, "model_provider": "openai"})
    assert any(agent.uses(named) for named in names_in(reply))


def test_models_that_stream_by_themselves_drive_and_vote():
    pytest.importorskip("langchain_openai")
    payment = {"name": "transfer_money", "arguments": json.dumps(ANN)}
    calls = [{"id": "c1", "type": "function", "function": payment}]

    def answer(body):
        status, reply = completion("Done.")
        reply["model"] = body["model"]
        if body["messages"][-1]["role"] == "user":
            message = reply["choices"][0]["message"]
            message |= {"content": None, "tool_calls": calls}
        return status, reply

    bank = Bank()
    with answering(answer) as server:
        group = [ModelAgent(name, server.chat(streaming=True)) for name in "ab"]
        of_member = server.chat(streaming=True)
        driver = of_member.model_copy(update={"model_name": "driver"})
        agent = create_agent(driver, bank.tools, middleware=[CoECouncil(group)])
        agent.invoke(PAY)
    assert bank.transfers == [("Ann", 1.0)]


def test_a_count_of_tokens_that_is_none_is_unknown_and_fails_nobody():
    class Uncounted(Member):
        def sample(self, request, config=None):
            reply = super().sample(request, config)
            reply["usage"] = {"input_tokens": -5, "output_tokens": float("nan")}
            return reply

    group = [Uncounted(name, *AGREES) for name in "ab"]
    runs, decision = ruled("", group)
    assert runs
    assert decision["failed_agents"] == {}
    assert decision["tokens"]["a"] == {"input_tokens": None, "output_tokens": None}


FORMS = [{}, {"adaptive": True}, {"tools": None}, {"mode": "choose"}]


def ended(said):
    return AIMessage("", tool_calls=[call(**TEN)], response_metadata=said)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("kind", "said"), ONE_OF_EACH)
def test_only_whole_replies_of_members_vote(kind, said, form):
    ending = [ModelAgent(name, ScriptedDriver(script=[ended(said), DONE])) for name in "ab"]
    group = [*ending, *members(AGREES)]
    runs, decision = ruled("", group, max_blocked=1, min_votes=2, **form)
    assert runs == (kind == "whole")
    if runs:
        assert decision["failed_agents"] == {}
    else:
        assert decision["failed_agents"]
        assert set(decision["failed_agents"]) <= {"a", "b"}


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("kind", "said"), ONE_OF_EACH)
def test_only_a_whole_message_of_the_driver_runs_and_no_person_is_asked_about_another(
    kind, said, form
):
    bank = Bank()
    agreeing = [*AGREES, "Done."]
    group = members(agreeing, agreeing)
    options = {"on_uncertain": "interrupt", "max_blocked": 1, **form}
    state = asked(group, bank, ended(said), DONE, **options)
    assert bank.transfers == ([("Ann", 10)] if kind == "whole" else [])
    assert "__interrupt__" not in state


class Cut(Member):
    """A member whose replies end so."""

    end = "cut"

    def sample(self, request, config=None):
        reply = super().sample(request)
        reply["responses"][0]["end"] = self.end
        return reply


def test_a_text_that_is_cut_off_is_no_vote_to_call_nothing():
    script = says(text="I will pay"), DONE
    whole = members(["Yes."], ["Yes."])
    state = council_agent(whole, Bank(), *script).invoke(PAY, THREAD)
    assert state["messages"][-1].text == "I will pay"

    cut = [Cut("a", "Yes."), Cut("b", "Yes.")]
    state = council_agent(cut, Bank(), *script).invoke(PAY, THREAD)
    reason = "its reply does not count: it was cut off by a limit"
    assert state["council"]["failed_agents"] == {"a": reason, "b": reason}


CUT = ModelAgent("a", ScriptedDriver(script=[ended({"done_reason": "length"})]))
UNREADABLE = Member("a", [call("nonsense", secret="Mallory")])


FAILING = {
    "down": (Member("a", ConnectionError("refused")), "ConnectionError: refused"),
    "cut": (CUT, "it was cut off by a limit"),
    "unreadable": (UNREADABLE, "it gave no valid proposal"),
}


def run_failing(failing, options):
    """The last state, and the transfers, of a group of one that fails so and one whose time is up."""
    bank = Bank()
    late = Member("b", TimeoutError("too late"))
    state = asked([failing, late], bank, says(call(**TEN)), max_blocked=2, **options)
    return state, bank.transfers


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"mode": "choose"}, {"tools": None}])
def test_a_council_that_fails_closes_the_gate_and_logs_each_turn_once(failing, options, caplog):
    member, _ = FAILING[failing]
    state, transfers = run_failing(member, options)
    assert transfers == []
    # with "adaptive" the vote of b alone would be no majority: it is not asked
    failed = {"a"} if "adaptive" in options else {"a", "b"}
    assert set(state["council"]["failed_agents"]) == failed
    assert replies(state)[0].status == "error"
    assert "coe_withheld" in state["messages"][-1].response_metadata
    assert len(caplog.records) == 2
    assert "Mallory" not in str(state["messages"])


@pytest.mark.wording
def test_a_council_that_fails_says_so_and_why_once(caplog):
    for failing, why in FAILING.values():
        caplog.clear()
        state, _ = run_failing(failing, {})
        told = f"no member gave a proposal: a failed: {why}; b failed: TimeoutError: too late"
        reply = f"transfer_money was not run: {told}. No model judged the call: it may be repeated."
        assert replies(state)[0].text == reply
        assert state["messages"][-1].text == f"I will not answer this: {told}."

        logged = [record.message for record in caplog.records]
        assert logged == [f"the council is closed: {told}"] * 2  # in two turns


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("cut", "it was cut off by a limit"),
        ("new", "its provider does not say in known words that it is whole"),
    ],
)
def test_each_member_that_fails_is_named_with_its_own_reason(end, why):
    cut = Cut("b", *AGREES)
    cut.end = end
    _, decision = ruled("", [UNREADABLE, cut, Member("c", *DISSENTS)])
    named = f"; a failed: it gave no valid proposal; b failed: {why}"
    assert decision["reason"].endswith(named)


def test_a_policy_is_told_how_sure_members_say_they_are():
    class Sure(Member):
        def sample(self, request, config=None):
            reply = super().sample(request)
            reply["responses"][0]["confidence"] = 0.75
            return reply

    seen = []

    class Noting(SupportPolicy):
        def decide(self, measurement, **rounds):
            seen.append(measurement.agents["a"].confidence)
            return super().decide(measurement, **rounds)

    ruled("", [Sure("a", *AGREES)], policy=Noting(0.5))
    assert seen == [0.75]


def test_one_member_that_fails_is_named_beside_the_votes(caplog):
    runs, decision = ruled("af", max_blocked=1)
    assert not runs
    assert decision["reason"] == (
        "1 of 2 members proposes the same; at least 2 must; member1 failed: RuntimeError: down"
    )
    assert caplog.records == []


def test_a_judge_of_meaning_without_a_verdict_closes_the_gate_and_is_named():
    def deciding(reply):
        judge = ChatEntailment(JudgingModel(lambda *pair: reply))
        meaning = Meaning(BidirectionalEntailment(judge))
        other = [[call(to="Ann Smith", amount=10)]]
        rules = ActionMatch(compare={"transfer_money.to": meaning})
        return ruled("", [Member("a", *other), Member("b", *AGREES)], clusterer=rules)

    has_run, decision = deciding("Hmm, both")
    assert not has_run
    assert decision["reason"].endswith(
        "; 1 of 1 pair of texts could not be judged by ChatEntailment, and counts as different"
    )
    assert deciding("entailment")[0]
    assert "judged" not in deciding("neutral")[1]["reason"]


MAY_REPEAT = "No model that replied objects: the call may be repeated."


@pytest.mark.parametrize(
    ("ways", "options", "advice"),
    [
        ("aff", {}, MAY_REPEAT),
        ("af", {"adaptive": True}, MAY_REPEAT),
        ("adf", {}, "Do not repeat the call unchanged."),
        ("add", {}, "Do not repeat the call unchanged."),
        ("aff", {"mode": "choose", "min_votes": 3}, "Do not repeat the call unchanged."),
        ("ff", {}, "No model judged the call: it may be repeated."),
    ],
)
def test_a_call_may_be_repeated_where_no_member_that_replied_objects(ways, options, advice, bank):
    agents = members(*(WAYS[way] for way in ways))
    state = asked(agents, bank, says(call(**TEN)), DONE, **options)
    [reply] = replies(state)
    assert reply.text.endswith(advice)
    assert bank.transfers == []


def test_what_is_no_message_in_a_members_reply_says_nothing_of_its_model():
    class Telling(Member):
        def sample(self, request, config=None):
            return {**super().sample(request), "messages": {0: "I am a model."}}

    runs, _ = ruled("", [Telling("a", *AGREES)])
    assert runs
