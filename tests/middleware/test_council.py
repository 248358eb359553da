"""What a council lets pass of what the driver proposes, and what it does with the rest."""

import json
from dataclasses import replace

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, interrupt

from coe_agents import CalibratedPolicy, CoECouncil, ModelAgent, SupportPolicy, ThresholdPolicy
from coe_agents.actions import ActionMatch
from coe_agents.clustering import BidirectionalEntailment, EmbeddingSimilarity, NormalizedMatch
from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.doubles import TableEntailment
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import MODES, THREAD, Bank, run
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, call, replies, says
from tests.middleware.council import Member, council_agent, members, run_council
from tests.policy.test_calibrated import CALIBRATION
from tests.waiting import wait_until

TEN = {"to": "Ann", "amount": 10}
GATED = ["transfer_money"]
AGREE = [[call(**TEN)], "Done."]
AGAINST = [[call(to="Ann", amount=9)], "Done."]
BY_COSINE = EmbeddingSimilarity(DeterministicFakeEmbedding(size=4), threshold=0.9)
BY_MEANING = BidirectionalEntailment(TableEntailment(lambda *_: "entailment"))
OF_ANSWERS = CalibratedPolicy(CALIBRATION)
OF_CALLS = CalibratedPolicy(replace(CALIBRATION, clusterer="ActionMatch"))


def test_what_the_group_vouches_for_goes_on_untouched():
    blocks = [
        {"type": "text", "text": "I pay."},
        {"type": "reasoning", "reasoning": "Ten, to Ann."},
    ]
    said = AIMessage(
        blocks, tool_calls=[call(**TEN)], id="m1", response_metadata={"finish_reason": "tool_calls"}
    )
    agents = members(AGREE, AGREE, AGAINST)
    state, transfers = run_council(agents, said, DONE)
    assert transfers == [("Ann", 10.0)]
    first = state["messages"][1]
    assert first.id == "m1"
    assert first.content == blocks
    assert first.tool_calls == said.tool_calls
    assert first.response_metadata == {"finish_reason": "tool_calls"}
    assert [len(agent.requests) for agent in agents] == [2, 2, 2]
    assert state["council"]["action"] == "answer"
    assert state["council"]["calls"] == []


def test_all_participants_are_shown_the_same_but_for_tools_that_run_at_the_drivers_provider():
    seen = []

    def drive(messages):
        seen.append(messages)
        return DONE if len(messages) > 3 else says(call(**TEN))

    (agent,) = agents = members(AGREE)
    run_council(agents, driver=ScriptedDriver(script=drive), system_prompt="Be careful.")
    first, second = agent.requests
    assert first["question"] == second["question"] == "Send 10 to Ann."
    assert first["round"] == 0
    assert [message["role"] for message in second["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert first["messages"] == second["messages"][:2]
    assert first["messages"][0]["content"] == "Be careful."
    assert [tool["function"]["name"] for tool in first["tools"]] == ["transfer_money", "balance"]
    assert set(first["tools"][0]["function"]["parameters"]["properties"]) == {"to", "amount"}
    assert [message.text for message in seen[0]] == ["Be careful.", "Send 10 to Ann."]
    bank = Bank()
    agents = members(AGREE)
    bank.tools = [*bank.tools, {"type": "web_search"}]
    council_agent(agents, bank, says(call(**TEN)), DONE).invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 10.0)]
    assert [tool["function"]["name"] for tool in agents[0].requests[0]["tools"]] == [
        "transfer_money",
        "balance",
    ]


@pytest.mark.parametrize(
    ("own", "usual"),
    [
        ({}, {"n_samples": 1, "timeout": 30}),
        ({"timeout": 5}, {"n_samples": 1}),
        ({"n_samples": 2}, {"timeout": 30}),
    ],
)
def test_a_member_is_asked_once_and_for_half_a_minute_unless_its_own_settings_differ(own, usual):
    requests = []

    class Noting(ModelAgent):
        def sample(self, request, config=None):
            requests.append(request)
            return super().sample(request, config)

    run_council(
        [Noting("a", ScriptedDriver(script=[says(call(**TEN)), DONE]), **own)],
        says(call(**TEN)),
        DONE,
    )
    assert {
        name: requests[0][name] for name in ("n_samples", "timeout") if name in requests[0]
    } == usual


@pytest.mark.parametrize(
    "said",
    [
        {"usage_metadata": {"total_cost": 0}},  # as LangChain's cache has it
        {"response_metadata": {"model": ["m"]}},
        {"additional_kwargs": {"tool_outputs": 5}},
    ],
)
def test_what_a_reply_says_beside_its_calls_in_a_form_of_its_own_ends_no_run(said):
    driver = AIMessage("", tool_calls=[call(**TEN)]).model_copy(update=said)
    agreeing = members([[call(**TEN)], "Done."])
    _, transfers = run_council(agreeing, driver, DONE)
    assert transfers == [("Ann", 10.0)]


def test_the_decision_is_plain_data():
    usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    said = AIMessage("", tool_calls=[call(**TEN)], usage_metadata=usage)
    nine = [call(to="Ann", amount=9)]
    ten = [call(**TEN)]
    agents = members([nine, "Done."], [RuntimeError("down")], [ten])
    state, _ = run_council(agents, said, DONE, max_blocked=1)
    decision = state["council"]
    assert json.loads(json.dumps(decision)) == decision
    support = {"driver": 1 / 3, "member0": 0.0, "member2": 1 / 3}
    assert decision["support"] == pytest.approx(support)
    assert decision["action"] == "abstain"
    assert decision["votes"] == ["member2"]
    assert decision["n_asked"] == 3
    assert decision["failed_agents"] == {"member1": "RuntimeError: down"}
    candidates = decision["contested"]["candidates"]["transfer_money.amount"]
    assert candidates == [
        {"value": 10, "agents": ["driver", "member2"]},
        {"value": 9, "agents": ["member0"]},
    ]
    assert decision["tokens"]["driver"] == {"input_tokens": 9, "output_tokens": 2}
    assert decision["tokens"]["member0"] == {"input_tokens": 5, "output_tokens": 1}
    assert decision["proposer"] is None
    assert decision["calls"] is None
    assert decision["decided_by"] == "group"
    assert decision["mode"] == "verify"


@pytest.mark.parametrize("amounts", [[1, 2, 3, 10], [1, 2, 10, 3, 4, 10]])
def test_three_blocked_proposals_in_a_row_end_the_run_with_a_refusal(amounts):
    script = []
    for place, amount in enumerate(amounts):
        payment = call(id=f"c{place}", to="Ann", amount=amount)
        script.append(says(payment))
    of_ten = members([[call(**TEN)], [call(**TEN)], "Done."])
    state, transfers = run_council(of_ten, *script, DONE)
    if amounts[:3] == [1, 2, 3]:
        assert transfers == []
        types = [message.type for message in state["messages"]]
        assert types == ["human", "ai", "tool", "ai", "tool", "ai"]
        assert "coe_withheld" in state["messages"][-1].response_metadata
        assert not state["messages"][-1].tool_calls
    else:
        assert transfers == [("Ann", 10.0)] * 2
        assert state["messages"][-1].text == "Done."


def test_a_message_that_nobody_judges_ends_no_row_of_blocked_proposals(bank):
    first = says(call(**TEN))
    second = says(call(id="c2", **TEN))
    third = says(call(id="c3", **TEN))
    agent = council_agent(
        members(AGAINST), bank, first, says(LOOKS), second, third, DONE, tools=GATED, max_blocked=2
    )
    state = agent.invoke(PAY, THREAD)
    assert "coe_withheld" in state["messages"][-1].response_metadata
    assert [reply.name for reply in replies(state)] == ["transfer_money", "balance"]


def test_the_question_is_the_last_text_of_the_user(bank):
    [member] = members(["Done."])
    picture = {"type": "image", "url": "https://example.org/a.png"}
    given = {"messages": [("user", "Pay Ann."), DONE, HumanMessage([picture])]}
    agent = council_agent([member], bank, DONE)
    agent.invoke(given, THREAD)
    assert member.requests[0]["question"] == "Pay Ann."


def test_a_text_of_the_driver_that_is_cut_off_passes_where_the_members_call_nothing_either(bank):
    cut = AIMessage("I have", response_metadata={"finish_reason": "length"})
    agent = council_agent(members(["Done."]), bank, cut)
    state = agent.invoke(PAY, THREAD)
    assert state["messages"][-1].text == "I have"


def test_a_text_that_is_withheld_is_replaced_by_a_refusal_and_texts_that_differ_are_one_action():
    paying = members([[call(**TEN)]], [[call(**TEN)]])
    state, _ = run_council(paying, AIMessage("I have paid."))
    assert [message.type for message in state["messages"]] == ["human", "ai"]
    assert "coe_withheld" in state["messages"][-1].response_metadata
    assert state["messages"][-1].text != "I have paid."

    greeting = members(["Hello!"], ["Good day."])
    state, _ = run_council(greeting, AIMessage("Hi."))
    assert state["messages"][-1].text == "Hi."


@pytest.mark.wording
def test_a_refusal_says_what_the_models_do_not_agree_on():
    paying = members([[call(**TEN)]], [[call(**TEN)]])
    state, _ = run_council(paying, AIMessage("I have paid."))
    assert state["messages"][-1].text == (
        "I will not answer this: the models do not agree on whether to call a tool: the other agents support the "
        "proposal with 0.00, less than 0.6."
    )


def test_only_calls_of_the_named_tools_are_judged_and_only_then_the_members_are_asked():
    agents = members([[call(to="Bob", amount=1)]])
    script = says(LOOKS), says(call(**TEN)), DONE
    state, transfers = run_council(agents, *script, tools=GATED)
    assert transfers == []
    assert [len(agent.requests) for agent in agents] == [1]
    assert [reply.status for reply in replies(state)] == ["success", "error"]
    assert state["messages"][-1].text == "Done."
    with pytest.raises(ValueError, match="it has no transfer_mony"):
        run_council(members(AGREE), says(call(**TEN)), tools=["transfer_mony"])


def test_a_group_that_is_confident_of_another_action_does_not_vouch():
    agents = members(AGAINST, AGAINST, AGAINST)
    state, transfers = run_council(
        agents, says(call(**TEN)), policy=ThresholdPolicy(float("inf")), max_blocked=1
    )
    assert transfers == []
    assert (
        "the group is confident of another action than the driver's" in state["council"]["reason"]
    )


class Always:
    """A policy that answers with whatever leads."""

    def decide(self, measurement, *, round, max_rounds):
        return Decision("answer", measurement.answer, "always")


@pytest.mark.parametrize("mode", ["verify", "choose"])
def test_no_policy_breaks_a_tie(mode):
    state, transfers = run_council(
        members(AGAINST), says(call(**TEN)), policy=Always(), mode=mode, max_blocked=1
    )
    assert transfers == []
    assert "a tie is never answered" in state["council"]["reason"]


@pytest.mark.parametrize("policy", [None, Always()])
def test_members_without_a_weight_make_no_majority(policy):
    agents = [
        Member("a", RuntimeError("down")),
        *(Member(name, *AGREE, weight=0.0) for name in "bc"),
    ]
    assert run_council(agents, says(call(**TEN)), policy=policy, max_blocked=1)[1] == []


def test_a_clusterer_of_ones_own_knows_the_tools_of_the_turn_and_one_that_fails_closes_the_gate():
    agents = members([[call(**BOB)]], [[call(**BOB)]])
    state, _ = run_council(agents, says(call(**ANN)), max_blocked=1, clusterer=ActionMatch())
    contested = state["council"]["contested"]["arguments"]
    assert contested["to"] > contested["amount"] == 0  # in the order of the tool's schema

    class Broken(ActionMatch):
        def cluster(self, responses, questions):
            raise RuntimeError("secret text")

    for options in ({}, {"policy": None, "adaptive": True}):
        options |= {"clusterer": Broken(), "max_blocked": 1}
        state, transfers = run_council(members(AGAINST, AGAINST), says(call(**TEN)), **options)
        assert transfers == []
        assert "coe_withheld" in state["messages"][-1].response_metadata
        assert "secret text" not in str(state["messages"])


def test_a_clusterer_that_merges_all_texts_merges_no_calls():
    class Alike:
        def cluster(self, responses, questions):
            return [[0] * len(row) for row in responses]

    options = {"clusterer": Alike(), "max_blocked": 1}
    assert run_council(members(AGAINST, AGAINST), says(call(**TEN)), **options)[1] == []


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_clusterer_or_a_member_may_interrupt_the_run(adaptive, bank):
    answers = []

    class Asking(ActionMatch):
        def cluster(self, responses, questions):
            answers.append(answers[0] if answers else interrupt("the same?"))
            return super().cluster(responses, questions)

    own = {"clusterer": Asking(), "policy": None, "tools": GATED, "adaptive": adaptive}
    agent = council_agent(members(AGAINST, AGREE, AGREE), bank, says(call(**TEN)), DONE, **own)
    assert len(agent.invoke(PAY, THREAD)["__interrupt__"]) == 1
    assert bank.transfers == []
    agent.invoke(Command(resume="yes"), THREAD)
    assert len(bank.transfers) == 1
    agents = [Member("asking", GraphInterrupt()), *members(AGREE, AGREE)]
    without_clusterer = {**own, "clusterer": None}
    agent = council_agent(agents, bank, says(call(**TEN)), DONE, **without_clusterer)
    agent.invoke(PAY, THREAD)
    assert len(bank.transfers) == 1


def fail(messages):
    raise ConnectionError("the driver is down")


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_fallback_model_takes_the_drivers_place(is_inside):
    bank = Bank()
    agents = members(AGREE, AGREE)
    council = CoECouncil(agents, policy=SupportPolicy(0.6))
    other_model = ScriptedDriver(script=[says(call(**TEN)), DONE])
    fallback = ModelFallbackMiddleware(other_model)
    order = [council, fallback] if is_inside else [fallback, council]
    agent = create_agent(ScriptedDriver(script=fail), bank.tools, middleware=order)
    state = agent.invoke(PAY)
    assert bank.transfers == [("Ann", 10.0)]
    assert state["messages"][-1].text == "Done."
    assert len(agents[0].requests) == (2 if is_inside else 4)


class InTurn(Member):
    """A member whose script goes by how often it was asked: it is not shown what was withheld."""

    def sample(self, request, config=None):
        said = [{"role": "assistant"}] * len(self.requests)
        return super().sample({**request, "messages": said}, config)


def unreadable(name="transfer_money", id_="c1"):
    return invalid_tool_call(name=name, args="{'to'", id=id_, error="no JSON")


TWICE = {
    "function": {"name": "transfer_money", "arguments": '{"to": "Bob", "to": "Ann", "amount": 10}'}
}
UNFIT = {
    "an unknown tool": AIMessage("", tool_calls=[call("wire_money", to="Ann")]),
    "an unknown argument": AIMessage("", tool_calls=[call(**TEN, memo="x")]),
    "unreadable arguments": AIMessage("", invalid_tool_calls=[unreadable()]),
    "one good, one unreadable": AIMessage(
        "", tool_calls=[call(**TEN)], invalid_tool_calls=[unreadable(id_="c2")]
    ),
    "a repeated name": AIMessage(
        "", tool_calls=[call(**TEN)], additional_kwargs={"tool_calls": [TWICE]}
    ),
    "one id for two calls": AIMessage("", tool_calls=[call(**TEN), call(**TEN)]),
    "no id": AIMessage("", tool_calls=[call(id=None, **TEN)]),
    "an empty id": AIMessage("", tool_calls=[call(id="", **TEN)]),
    "unreadable, without an id": AIMessage("", invalid_tool_calls=[unreadable(id_=None)]),
    "one good, one with its id": AIMessage(
        "", tool_calls=[call(**TEN)], invalid_tool_calls=[unreadable("balance")]
    ),
    "no ids": AIMessage(
        "", tool_calls=[call(id=None, **TEN)], invalid_tool_calls=[unreadable(None, None)] * 2
    ),
    "not a number": AIMessage("", tool_calls=[call(to="Ann", amount=float("nan"))]),
}


@pytest.mark.parametrize("said", UNFIT.values(), ids=UNFIT)
def test_calls_that_do_not_fit_are_never_run_even_if_all_propose_them(said):
    calls = [
        *said.tool_calls,
        *([call(**TEN)] if said.invalid_tool_calls and not said.tool_calls else []),
    ]
    agents = [InTurn(name, calls, "Done.") for name in "abc"]
    state, transfers = run_council(
        agents, said, DONE, on_uncertain="interrupt"
    )  # a person is not asked either
    assert transfers == []
    assert "__interrupt__" not in state
    assert state["messages"][-1].text == "Done."
    told = replies(state)
    assert {reply.status for reply in told} == {"error"}
    ids = [
        one["id"]
        for one in [*state["messages"][1].tool_calls, *state["messages"][1].invalid_tool_calls]
    ]
    assert sorted(reply.tool_call_id for reply in told) == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert state["messages"][1].content == ""
    assert all("was not run" in reply.text for reply in told)
    assert {reply.response_metadata["coe_withheld"] for reply in told} == {True}


def test_of_the_blocks_beside_a_withheld_call_only_reasoning_and_calls_stay():
    kept = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "c1", "name": "pay"},
    ]
    shown = [
        {"type": kind, kind: "I pay Ann."}
        for kind in ("text", "output_text", "refusal", "image", "new")
    ]
    said = AIMessage([kept[0], *shown, "I pay Ann.", kept[1]], tool_calls=[call(**TEN)])
    state, transfers = run_council([InTurn(name, [], "Done.") for name in "abc"], said, DONE)
    assert transfers == []
    assert state["messages"][1].content == kept


@pytest.mark.parametrize(
    ("agents", "options", "error", "message"),
    [
        ([], {}, TypeError, '"agents" must be'),
        ([object()], {}, TypeError, '"agents" must be'),
        (
            ["openai:m", ScriptedAgent("b")],
            {"min_votes": 3},
            ValueError,
            '"min_votes" of CoECouncil must be .*got 3',
        ),
        ([ScriptedAgent("a"), ScriptedAgent("a")], {}, ValueError, "must differ, and none may be"),
        ([ScriptedAgent("driver")], {}, ValueError, "must differ, and none may be"),
        ([ScriptedAgent("a", weight=0.0)], {}, ValueError, "weight above 0"),
        (None, {"mode": "vote"}, ValueError, '"mode" must be'),
        (None, {"tools": "pay"}, TypeError, '"tools" must be a list'),
        (None, {"tools": []}, ValueError, '"tools" must name'),
        (None, {"policy": SupportPolicy}, TypeError, '"policy" must be an object'),
        (None, {"clusterer": ActionMatch}, TypeError, '"clusterer" must '),
        (None, {"clusterer": NormalizedMatch()}, TypeError, "NormalizedMatch reads calls as prose"),
        (None, {"clusterer": BY_COSINE}, TypeError, "EmbeddingSimilarity reads calls as prose"),
        (None, {"clusterer": ActionMatch(text="loose")}, ValueError, "must compare exactly"),
        (None, {"max_blocked": 0}, ValueError, '"max_blocked" of CoECouncil must be'),
        (None, {"escalate_after": 0}, ValueError, '"escalate_after" of CoECouncil must be'),
        (
            None,
            {"escalate_after": 2, "on_uncertain": "observe"},
            ValueError,
            "must go with a gate that withholds",
        ),
        (
            None,
            {"clusterer": BY_MEANING},
            TypeError,
            "BidirectionalEntailment reads calls as prose",
        ),
        (None, {"on_decision": 5}, TypeError, '"on_decision" of CoECouncil'),
        (None, {"min_providers": 2}, ValueError, '"min_providers" of CoECouncil'),
        (
            None,
            {"adaptive": True, "mode": "choose"},
            ValueError,
            '"adaptive" of CoECouncil must go with',
        ),
        (
            None,
            {"adaptive": True, "policy": ThresholdPolicy(0.5)},
            ValueError,
            '"adaptive" of CoECouncil must go with',
        ),
        (None, {"min_votes": 2}, ValueError, '"min_votes" of CoECouncil'),
        (None, {"trust_edits": "false"}, TypeError, "True or False; got 'false'"),
        (None, {"adaptive": "no"}, TypeError, "True or False"),
        (None, {"policy": SupportPolicy(min_votes=2)}, ValueError, '"min_votes" of its policy'),
        (
            None,
            {"policy": OF_ANSWERS},
            ValueError,
            "calibrated on calls.*--clusterer actions.*--proposer",
        ),
        (None, {"policy": OF_ANSWERS, "mode": "choose"}, ValueError, "must be calibrated on calls"),
        (None, {"policy": OF_CALLS}, ValueError, "on those of a proposer"),
    ],
)
def test_wrong_arguments_are_refused(agents, options, error, message):
    with pytest.raises(error, match=message):
        CoECouncil(
            [ScriptedAgent("a"), ScriptedAgent("b", weight=0.0)] if agents is None else agents,
            **options,
        )


def test_a_calibration_of_calls_is_taken():
    CoECouncil(
        ["openai:m"], policy=CalibratedPolicy(replace(CALIBRATION, score="", proposer="driver"))
    )
    CoECouncil(["openai:m"], policy=OF_CALLS, mode="choose")


@pytest.mark.parametrize(("adaptive", "asked"), [(False, [1, 1, 1]), (True, [1, 1, 0])])
async def test_in_async_too_the_members_are_asked_only_about_named_tools_and_as_few_as_needed(
    adaptive, asked, bank
):
    agents = members(*[AGREE[:1]] * 3)
    options = {"tools": GATED, "policy": None, "adaptive": adaptive}
    await council_agent(agents, bank, says(LOOKS), says(call(**TEN)), DONE, **options).ainvoke(
        PAY, THREAD
    )
    assert [len(agent.requests) for agent in agents] == asked
    assert bank.transfers == [("Ann", 10.0)]


INVENTED = ToolMessage("Handled.", tool_call_id="c1", name="transfer_money", id="do-not-render-1")
"""What Agent Chat UI adds before the message that the user typed."""


@pytest.mark.parametrize("added", [[], [INVENTED]])
@pytest.mark.parametrize("tools", [None, GATED])
def test_a_call_of_an_earlier_turn_that_nobody_decided_on_gets_a_reply(tools, added):
    seen = []

    def drive(messages):
        seen.extend(messages)
        return DONE

    asked = {
        "messages": [("user", "Send 10 to Ann."), says(call(**TEN)), *added, ("user", "Leave it.")]
    }
    [member] = members(["Done."])
    run_council([member], driver=ScriptedDriver(script=drive), given=asked, tools=tools)
    assert [message.type for message in seen] == ["human", "ai", "tool", "human"]
    assert "was not run" in seen[2].text
    assert [request["question"] for request in member.requests] == ["Leave it."] * (tools is None)


def test_what_stands_beside_an_unreadable_call_of_a_named_tool_is_withheld(bank):
    said = AIMessage("", tool_calls=[LOOKS], invalid_tool_calls=[unreadable(id_="c2")])
    state = council_agent(members(AGREE), bank, said, DONE, tools=GATED).invoke(PAY, THREAD)
    assert {reply.status for reply in replies(state)} == {"error"}


@pytest.mark.parametrize("name", ["balance", None])
def test_an_unreadable_call_of_another_tool_asks_no_member(name, bank):
    said = AIMessage("", tool_calls=[LOOKS], invalid_tool_calls=[unreadable(name, id_="c2")])
    [member] = members(AGREE)
    council_agent([member], bank, said, DONE, tools=GATED).invoke(PAY, THREAD)
    assert member.requests == []


@pytest.mark.parametrize("mode", MODES)
async def test_the_members_are_asked_while_the_driver_is(mode, bank):
    [member] = members(["Done."])

    def drive(messages):
        wait_until(lambda: member.requests)
        return DONE

    council = council_agent([member], bank, driver=ScriptedDriver(script=drive))
    assert (await run(mode, council, PAY))["messages"][-1].text == "Done."


def test_a_member_without_weight_is_not_asked_where_as_few_as_needed_are():
    agents = [Member("idle", *AGREE, weight=0.0), *members(AGREE, AGREE)]
    state, transfers = run_council(agents, says(call(**TEN)), DONE, tools=GATED, adaptive=True)
    assert transfers
    assert state["council"]["support"]
    assert [len(agent.requests) for agent in agents] == [0, 1, 1]
