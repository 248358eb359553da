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
from coe_agents.actions import ActionMatch, Within, canonical_action
from coe_agents.agents.requests.model_names import is_same_model, names_in
from coe_agents.middleware.withheld import without_withheld
from coe_agents.testing import create_response
from coe_agents.testing.driver import ScriptedDriver
from tests.agents.requests.test_endings import ONE_OF_EACH
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


def ruled(ways, agents=None, **options):
    """Whether the driver's call ran, and the decision, for members that agree, dissent or fail, a letter each."""
    bank = Bank()
    agents = agents or members(*(WAYS[way] for way in ways))
    agent = council_agent(
        agents, bank, says(call(**TEN)), DONE, **{"tools": GATED, "policy": None, **options}
    )
    decision = agent.invoke(PAY, THREAD)["council"]
    assert (decision["action"] == "answer") == bool(bank.transfers)
    return bool(bank.transfers), decision


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
    assert ruled(ways, **options)[0] == ((ways, options) in OPENS)


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
    agent = council_agent(
        members([others], [others]), bank, says(*driver), DONE, policy=None, mode=mode
    )
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
        def sample(self, request, config=None):
            given = [
                Member(self.name, *way).sample(request)["responses"][0]
                for way in (AGREES, DISSENTS)
            ]
            rows = [
                {**row, "logprob": log, "n_tokens": 1}
                for row, log in zip(given, logprobs, strict=True)
            ]
            return {"responses": rows, "usage": {"input_tokens": 5, "output_tokens": 1}}

    assert ruled("", [Unsure("member0")], policy=SupportPolicy(0.6))[0] == runs


@pytest.mark.parametrize("options", [{}, {"adaptive": True}])
def test_a_member_that_never_calls_is_named_where_the_drivers_call_is_blocked(options):
    looks = [{"name": "look_up", "args": {"name": "Ann"}}]
    agents = members(["I would pay."], ["Paying now."], [[*looks]])
    reason = ruled("", agents, **options)[1]["reason"]
    assert reason.endswith("; member0, member1 called no tool: their servers may ignore tools"), (
        reason
    )
    passes = ruled("", members(["I would pay."], *[[[call(**TEN)]]] * 3), **options)[1]["reason"]
    assert "called no tool" not in passes + ruled("df", **options)[1]["reason"]


def test_a_member_that_never_calls_is_named_beside_one_that_failed_but_not_where_a_text_is_judged():
    looks = [{"name": "look_up", "args": {"name": "Ann"}}]
    reason = ruled("", members(FAILS, ["I would pay."], [looks]))[1]["reason"]
    assert reason.endswith("; member1 called no tool: its server may ignore tools")
    agent = council_agent(members(["Done."], *[AGREES] * 2), Bank(), DONE, max_blocked=1)
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
        rows = [
            create_response(self.name, "", index=place, error="late")
            if calls is None
            else create_response(
                self.name, "", index=place, answer=canonical_action(calls), calls=calls
            )
            for place, calls in enumerate(self.samples)
        ]
        reply = {"responses": rows, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if self.n_requested is not None:
            reply["sampling"] = {"n_requested": self.n_requested, "counted": "each"}
        return reply


SAME = [call(**TEN)]
OTHER = [call(to="Ann", amount=9)]


AGREEING = [(SAME, SAME, OTHER), (SAME, SAME, None)]
SPLIT = [(SAME, OTHER), (SAME, None, None)]


@pytest.mark.parametrize(
    ("member", "votes"),
    [
        *((Several("a", *samples), samples in AGREEING) for samples in [*AGREEING, *SPLIT]),
        *((Several("a", *[SAME] * n, n_requested=3), n == 2) for n in (1, 2)),
        *((Several("a", SAME, weight=weight), weight > 0) for weight in (0.0, 0.1)),
    ],
)
def test_a_vote_is_the_strict_majority_of_a_members_own_samples(member, votes):
    runs, decision = ruled("", [member, Member("b", *DISSENTS)], min_votes=1)
    assert runs == votes
    assert decision["votes"] == (["a"] if votes else [])


def test_where_the_group_chooses_the_votes_are_of_others_than_the_proposer_who_has_a_weight():
    bob = [[call(**BOB)]]
    for others, runs in (
        (2, True),
        (1, False),
    ):  # of three members two must agree with the one that proposes it
        bank = Bank()
        agents = members(bob, *[bob] * others, *[AGREES] * (2 - others))
        agent = council_agent(
            agents, bank, says(call(**ANN)), DONE, mode="choose", policy=None, tools=GATED
        )
        decision = agent.invoke(PAY, THREAD)["council"]
        assert bool(bank.transfers) == runs
        assert len(decision["votes"]) == 2  # the proposer is not counted, where there is one
    bank = Bank()
    bob = [[call(**BOB)]]
    agents = [Member("a", *bob, weight=0.0), *(Member(name, *bob) for name in "bcd")]
    agent = council_agent(
        agents, bank, says(call(**ANN)), DONE, mode="choose", policy=None, tools=GATED
    )
    assert agent.invoke(PAY, THREAD)["council"]["proposer"] == "b"
    assert bank.transfers == [("Bob", 2.0)]


TOOLS = Bank().tools
NEAR = ActionMatch(compare={"transfer_money.amount": Within(absolute=1)})
AMOUNTS = (10, 9, 8, 7, None, "down")
"""With a tolerance of 1 a chain, so that equality is not transitive; None calls nothing."""


def proposing(name, said, weight):
    given = {"down": None, None: []}
    return Several(
        name,
        *(given[one] if one in given else [call(to="Ann", amount=one)] for one in said),
        weight=weight,
    )


SAID = st.lists(
    st.tuples(
        st.lists(st.sampled_from(AMOUNTS), min_size=1, max_size=3),
        st.sampled_from([1.0, 1.0, 0.5, 0.0]),
    ),
    min_size=1,
    max_size=5,
).filter(lambda said: any(weight > 0 for _, weight in said))
POLICIES = [SupportPolicy(0.5), SupportPolicy(0.3), SupportPolicy(0.6, min_votes=1)]
NEARLY = [{"clusterer": NEAR}, {"clusterer": NEAR, "policy": SupportPolicy(0.4)}]
OPTIONS = st.sampled_from(
    [{}, {"min_votes": 1}, *({"policy": policy} for policy in POLICIES), *NEARLY]
)


def turn(said, **options):
    """The decision of a turn without an agent around it, for members that give these samples, and how many it asked."""
    members = [proposing(f"m{i}", *one) for i, one in enumerate(said)]
    messages = [HumanMessage("Pay.")]
    driver = ScriptedDriver(script=[])
    state = {"messages": messages}
    request = ModelRequest(model=driver, messages=messages, tools=TOOLS, state=state, runtime=None)
    said_by_driver = ModelResponse([says(call(**TEN))])
    returned = CoECouncil(members, tools=GATED, **options).wrap_model_call(
        request, lambda _: said_by_driver
    )
    return returned.command.update["council"], sum(len(member.requests) for member in members)


@settings(max_examples=20)
@given(SAID, OPTIONS, st.integers(0, 4))
def test_no_vote_more_closes_the_gate(said, options, turned):
    place = turned % len(said)
    more = [*said]
    more[place] = [10], said[place][1]
    goes_on = [turn(each, **options)[0]["action"] == "answer" for each in (said, more)]
    assert goes_on[0] <= goes_on[1]


@settings(max_examples=20)
@given(SAID, OPTIONS)
def test_asking_as_few_as_needed_rules_as_asking_all(said, options):
    (full, n_full), (few, n_few) = (
        turn(said, adaptive=adaptive, **options) for adaptive in (False, True)
    )
    assert full["n_asked"] == n_full
    assert few["n_asked"] == n_few
    assert few["action"] == full["action"]
    assert few["calls"] == full["calls"]
    assert few["proposer"] == full["proposer"]
    if few["n_asked"] == sum(weight > 0 for _, weight in said):
        assert few["votes"] == full["votes"]
    else:
        assert set(few["votes"]) <= set(full["votes"])
        assert few["support"] is None


@pytest.mark.parametrize(
    ("mode", "votes"), [("verify", ["member0", "member1"]), ("choose", ["member0"])]
)
def test_under_a_tolerance_no_third_proposal_decides_whether_one_is_the_drivers(mode, votes):
    agents = members(*([[call(to="Ann", amount=amount)]] for amount in (10, 8)))
    near = {"clusterer": NEAR, "policy": None, "mode": mode, "min_votes": 1}
    agent = council_agent(agents, Bank(), says(call(to="Ann", amount=9)), DONE, tools=GATED, **near)
    assert agent.invoke(PAY, THREAD)["council"]["votes"] == votes


def test_members_that_could_not_change_the_decision_are_not_asked():
    agents = members(AGREES, AGREES, FAILS)
    runs, decision = ruled("", agents, adaptive=True)
    assert runs
    assert [len(agent.requests) for agent in agents] == [1, 1, 0]
    assert decision["n_asked"] == 2
    assert decision["failed_agents"] == {}
    assert decision["reason"] == (
        "2 of 2 members asked propose the same, and the votes of 1 other would not change the decision"
    )
    agents = members(DISSENTS, FAILS, AGREES)
    assert not ruled("", agents, adaptive=True)[0]
    assert [len(agent.requests) for agent in agents] == [1, 1, 0]


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Replying(Member):
    def sample(self, request, config=None):
        if isinstance(self.script[0], Exception):
            raise self.script[0]
        return self.script[0]


GOOD = create_response("x", "", answer="[]", calls=[{"name": "transfer_money", "args": TEN}])
USAGE = {"input_tokens": 1, "output_tokens": 1}
MALFORMED = {
    "nothing": None,
    "no usage": {"responses": [GOOD]},
    "no responses": {"usage": USAGE},
    "responses that are none": {"responses": None, "usage": USAGE},
    "not one response": {"responses": [], "usage": USAGE},
    "a response that is none": {"responses": [None], "usage": USAGE},
    "a call without a name": {"responses": [{**GOOD, "calls": [{"args": TEN}]}], "usage": USAGE},
    "arguments in a list": {
        "responses": [{**GOOD, "calls": [{"name": "balance", "args": [1]}]}],
        "usage": USAGE,
    },
    "a log-probability in words": {"responses": [{**GOOD, "logprob": "high"}], "usage": USAGE},
    "no text": {"responses": [{**GOOD, "text": None}], "usage": USAGE},
    "messages in a list": {"responses": [GOOD], "usage": USAGE, "messages": ["m"]},
    "an error without text": {"responses": [{**GOOD, "error": ""}], "usage": USAGE},
    "an exception that cannot be read": MuteError(),
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_reply_is_a_failure(reply):
    agents = [Replying("x", reply), Member("a", *AGREES), Member("b", *AGREES)]
    for options in ({"mode": "choose"}, {"adaptive": True}):
        runs, decision = ruled("", agents, **options)
        assert runs
        assert set(decision["failed_agents"]) == {"x"}
        assert decision["failed_agents"]["x"].strip(": ")
    assert not ruled("", agents[:2])[0]


def test_a_conversation_without_what_was_withheld():
    mark = {"status": "error", "response_metadata": {"coe_not_run": True, "coe_withheld": True}}
    ran = says(call("balance", id="c1", x=1))
    messages = [
        HumanMessage("Pay."),
        ran,
        ToolMessage("100", tool_call_id="c1"),
        AIMessage(
            [{"type": "text", "text": "I pay."}],
            tool_calls=[call(id="c1", **TEN), call(id="c2", **BOB)],
        ),
        ToolMessage("sent", tool_call_id="c1"),
        ToolMessage("not run", tool_call_id="c2", **mark),
        says(call(id="c3", **BOB)),
        ToolMessage("not run", tool_call_id="c3", **mark),
        AIMessage("Shall I?"),
    ]
    shown = without_withheld(messages)
    assert shown[:3] == messages[:3]
    assert shown[3].text == ""
    assert [one["id"] for one in shown[3].tool_calls] == ["c1"]
    assert shown[4:] == [messages[4], messages[-1]]


def test_only_the_gated_calls_of_a_message_are_compared():
    for ways, runs in (("aad", True), ("add", False)):
        bank = Bank()
        agents = members(*(WAYS[way] for way in ways))
        agent = council_agent(
            agents, bank, says(LOOKS, call(**TEN)), DONE, tools=GATED, policy=None
        )
        state = agent.invoke(PAY, THREAD)
        assert bool(bank.transfers) == runs
        assert [reply.status for reply in replies(state)] == ["success" if runs else "error"] * 2


@pytest.mark.parametrize("sibling", [call("nonsense", id="c0", x=1), call("balance", id="c0", x=1)])
def test_a_sibling_that_does_not_fit_blocks_the_message(sibling, bank):
    agent = council_agent(
        members(AGREES, AGREES), bank, says(sibling, call(**TEN)), DONE, tools=GATED, policy=None
    )
    state = agent.invoke(PAY, THREAD)
    assert bank.transfers == []
    assert [reply.status for reply in replies(state)] == ["error"] * 2
    assert replies(state)[0].text.endswith("Do not repeat the call unchanged.")
    assert state["council"]["cause"] == "invalid"
    assert sibling["name"] in state["council"]["reason"]


def test_the_drivers_own_model_is_no_member():
    driver = ScriptedDriver(script=[says(call(**TEN)), DONE])
    agent = council_agent([ModelAgent("a", driver)], Bank(), driver=driver)
    with pytest.raises(ValueError, match="must have other models than the driver"):
        agent.invoke(PAY, THREAD)
    other = ScriptedDriver(script=driver.script)
    council_agent([ModelAgent("a", other)], Bank(), driver=driver).invoke(PAY, THREAD)


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


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        *((driver, {}) for driver in DRIVERS),
        *(
            ("the same", form)
            for form in ({"mode": "choose"}, {"adaptive": True}, {"tools": GATED})
        ),
    ],
    ids=str,
)
def test_whoever_gave_the_message_has_no_vote_and_stays_in_the_denominator(driver, options, bank):
    asks, own, votes = DRIVERS[driver]
    group = [ModelAgent("own", own), *members(AGREES, [[call(to="Eve")], "Done."])]
    middleware = [CoECouncil(group, **options), Swaps(asks)]
    create_agent(ScriptedDriver(**SAYS), bank.tools, middleware=middleware).invoke(PAY)
    assert bool(bank.transfers) == votes


def test_a_fallback_has_no_vote_on_its_own_call(bank):
    fallback = ScriptedDriver(**SAYS)
    group = [ModelAgent("own", fallback), *members(AGREES, [[call(to="Eve")], "Done."])]
    middleware = [CoECouncil(group, max_blocked=1), ModelFallbackMiddleware(fallback)]
    state = create_agent(Down(**SAYS), bank.tools, middleware=middleware).invoke(PAY)
    assert bank.transfers == []
    assert state["council"]["failed_agents"]["own"].startswith("AgentError")
    assert len(state["council"]["votes"]) == 1


def test_a_council_in_front_of_another_sees_the_fallback_behind_both(bank):
    fallback = ScriptedDriver(**SAYS)
    group = [ModelAgent("own", fallback), *members(AGREES, [[call(to="Eve")], "Done."])]
    councils = [
        CoECouncil(group, max_blocked=1, name="outer"),
        CoECouncil(members(AGREES, AGREES), name="inner"),
    ]
    middleware = [*councils, ModelFallbackMiddleware(fallback)]
    create_agent(Down(**SAYS), bank.tools, middleware=middleware).invoke(PAY)
    assert bank.transfers == []


class Telling(Member):
    """A member of a class that does not tell its model, but its replies do, beside others."""

    def sample(self, request, config=None):
        reply = super().sample(request, config)
        said = {row["index"]: AIMessage("", **NAMED) for row in reply["responses"]}
        return {**reply, "messages": said | {99: HumanMessage("", **NAMED)}}


@pytest.mark.parametrize("stated", [STATED, AIMessage("I will.", tool_calls=[call(**TEN)])])
def test_a_member_whose_reply_names_the_drivers_model_has_no_vote(stated, bank):
    group = [Telling("own", *AGREES), *members(AGREES, [[call(to="Eve")], "Done."])]
    said = iter([stated.model_copy(), DONE.model_copy()])
    council = CoECouncil(group, max_blocked=1)
    middleware = [council, Swaps(lambda request, handler: next(said))]
    create_agent(ScriptedDriver(**SAYS), bank.tools, middleware=middleware).invoke(PAY)
    assert bool(bank.transfers) == (stated is not STATED)


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
    models = [
        (f"p:{one}", f"p:{other}"),
        (Named(model_name=one, **SAYS), Named(model_name=other, **SAYS)),
    ]
    for model, known in models:
        assert is_same_model(model, known) == is_same_model(known, model) == is_one
    assert not is_same_model(f"p:{one}", f"q:{one}")


SAME_MODEL = [{}, {"temperature": 0.3, "seed": 1}, {"base_url": "http://localhost:2/v1"}]


@pytest.mark.parametrize("other", [*SAME_MODEL, {"model": "n"}])
def test_a_model_is_its_name_at_a_provider(other):
    openai = pytest.importorskip("langchain_openai")
    how = {"model": "m", "base_url": "http://localhost:1/v1", "api_key": "none"}
    agent = ModelAgent("a", openai.ChatOpenAI(**how))
    assert agent.uses(openai.ChatOpenAI(**how | other)) == (other in SAME_MODEL)
    assert ModelAgent("a", "openai:m").uses(openai.ChatOpenAI(**how | other)) == (
        other.get("model") is None
    )
    assert not ModelAgent("a", "mistralai:m").uses(openai.ChatOpenAI(**how))


@pytest.mark.parametrize("name", ["m", "mm", "m-2025-08-07m-2025-08-07"])
def test_what_a_reply_says_of_its_model_is_that_of_a_deployment_too(name):
    """Azure's model calls its provider "azure", its replies "openai"; merged chunks have the name more than once."""
    openai = pytest.importorskip("langchain_openai")
    where = {"azure_endpoint": "http://localhost:1", "api_version": "2024-10-21"}
    model = openai.AzureChatOpenAI(model="m", azure_deployment="m", api_key="none", **where)
    said = AIMessage("", response_metadata={"model_name": name, "model_provider": "openai"})
    assert any(ModelAgent("a", model).uses(one) for one in names_in(said))


def test_models_that_stream_by_themselves_drive_and_vote():
    pytest.importorskip("langchain_openai")
    made = {"name": "transfer_money", "arguments": json.dumps(ANN)}

    def answer(body):
        status, reply = completion("Done.")
        reply["model"] = body["model"]
        if body["messages"][-1]["role"] == "user":
            calls = [{"id": "c1", "type": "function", "function": made}]
            reply["choices"][0]["message"] |= {"content": None, "tool_calls": calls}
        return status, reply

    bank = Bank()
    with answering(answer) as server:
        members = [ModelAgent(name, server.chat(streaming=True)) for name in "ab"]
        driver = server.chat(streaming=True).model_copy(update={"model_name": "driver"})
        create_agent(driver, bank.tools, middleware=[CoECouncil(members)]).invoke(PAY)
    assert bank.transfers == [("Ann", 1.0)]


def test_a_count_of_tokens_that_is_none_is_unknown_and_fails_nobody():
    class Uncounted(Member):
        def sample(self, request, config=None):
            return {
                **super().sample(request, config),
                "usage": {"input_tokens": -5, "output_tokens": float("nan")},
            }

    runs, decision = ruled("", [Uncounted(name, *AGREES) for name in "ab"])
    assert runs
    assert decision["failed_agents"] == {}
    assert decision["tokens"]["a"] == {"input_tokens": None, "output_tokens": None}


FORMS = [{}, {"adaptive": True}, {"tools": None}, {"mode": "choose"}]


def ended(said):
    return AIMessage("", tool_calls=[call(**TEN)], response_metadata=said)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("kind", "said"), ONE_OF_EACH)
def test_only_whole_replies_of_members_vote(kind, said, form):
    agents = [ModelAgent(name, ScriptedDriver(script=[ended(said), DONE])) for name in "ab"]
    runs, decision = ruled("", [*agents, *members(AGREES)], max_blocked=1, min_votes=2, **form)
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
    agents = members(*[[*AGREES, "Done."]] * 2)
    options = {"tools": GATED, "policy": None, "on_uncertain": "interrupt", "max_blocked": 1} | form
    state = council_agent(agents, bank, ended(said), DONE, **options).invoke(PAY, THREAD)
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
    passes = council_agent(members(["Yes."], ["Yes."]), Bank(), *script).invoke(PAY, THREAD)
    assert passes["messages"][-1].text == "I will pay"
    blocked = council_agent([Cut("a", "Yes."), Cut("b", "Yes.")], Bank(), *script).invoke(
        PAY, THREAD
    )
    assert blocked["council"]["failed_agents"] == dict.fromkeys(
        "ab", "its reply does not count: it was cut off by a limit"
    )


CUT = ModelAgent("a", ScriptedDriver(script=[ended({"done_reason": "length"})]))
UNREADABLE = Member("a", [call("nonsense", secret="Mallory")])


FAILING = {
    "down": (Member("a", ConnectionError("refused")), "ConnectionError: refused"),
    "cut": (CUT, "it was cut off by a limit"),
    "unreadable": (UNREADABLE, "it gave no valid proposal"),
}


def run_failing(failing, options):
    bank = Bank()
    parts = {"tools": GATED, "policy": None, "max_blocked": 2} | options
    agents = [failing, Member("b", TimeoutError("too late"))]
    state = council_agent(agents, bank, says(call(**TEN)), **parts).invoke(PAY, THREAD)
    return state, bank.transfers


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"mode": "choose"}, {"tools": None}])
def test_a_council_that_fails_closes_the_gate_and_logs_each_turn_once(failing, options, caplog):
    state, transfers = run_failing(FAILING[failing][0], options)
    assert transfers == []
    # with "adaptive" the vote of b alone would be no majority: it is not asked
    assert set(state["council"]["failed_agents"]) == ({"a"} if "adaptive" in options else {*"ab"})
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
        assert replies(state)[0].text == (
            f"transfer_money was not run: {told}. No model judged the call: it may be repeated."
        )
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
    reason = ruled("", [UNREADABLE, cut, Member("c", *DISSENTS)])[1]["reason"]
    assert reason.endswith(f"; a failed: it gave no valid proposal; b failed: {why}")


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


def test_what_is_no_message_in_a_members_reply_says_nothing_of_its_model():
    class Telling(Member):
        def sample(self, request, config=None):
            return {**super().sample(request), "messages": {0: "I am a model."}}

    assert ruled("", [Telling("a", *AGREES)])[0]
