import json

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.types import Command, interrupt

from coe_agents import CoECouncil, RegimePolicy, SupportPolicy, ThresholdPolicy
from coe_agents.actions import ActionMatch, Within
from coe_agents.clustering import NormalizedMatch
from coe_agents.middleware.withheld import contested_in_words
from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import ANN, BOB, MODES, PAY, THREAD, Bank, call, replies, run, says
from tests.middleware.council import Member, council_agent, members

every_mode = pytest.mark.parametrize("mode", MODES)
TEN = {"to": "Ann", "amount": 10}
DONE = AIMessage("Done.")
GATED = ["transfer_money"]
AGREE = [[call(**TEN)], "Done."]
AGAINST = [[call(to="Ann", amount=9)], "Done."]


@every_mode
async def test_what_the_group_vouches_for_goes_on_untouched(mode):
    bank = Bank()
    blocks = [{"type": "text", "text": "I pay."}, {"type": "reasoning", "reasoning": "Ten, to Ann."}]
    said = AIMessage(blocks, tool_calls=[call(**TEN)], id="m1", response_metadata={"finish_reason": "tool_calls"})
    agents = members(AGREE, AGREE, AGAINST)
    state = await run(mode, council_agent(agents, bank, said, DONE), PAY)
    assert bank.transfers == [("Ann", 10.0)]
    first = state["messages"][1]
    assert (first.id, first.content, first.tool_calls) == ("m1", blocks, said.tool_calls)
    assert first.response_metadata == {"finish_reason": "tool_calls"}
    assert [len(agent.requests) for agent in agents] == [2, 2, 2]
    assert state["council"]["action"] == "answer"
    assert state["council"]["calls"] == []


@every_mode
async def test_the_driver_is_told_what_is_contested_without_the_values_and_goes_on(mode):
    bank = Bank()
    said = AIMessage("I pay.", tool_calls=[call(**TEN)], id="m1")
    agents = members(AGAINST, AGAINST, [[call(to="Ann", amount=8)], "Done."])
    state = await run(mode, council_agent(agents, bank, said, DONE, tools=GATED), PAY)
    assert bank.transfers == []
    _, withheld, told, last = state["messages"]
    assert (withheld.id, withheld.text, withheld.tool_calls, last.text) == ("m1", "", said.tool_calls, "Done.")
    assert (told.status, told.tool_call_id, told.name) == ("error", "c1", "transfer_money")
    assert told.text == (
        'transfer_money was not run: the models do not agree on the argument "amount": the other agents support the '
        "proposal with 0.00, less than 0.6. Do not repeat the call unchanged."
    )


def test_all_participants_are_shown_the_same():
    bank = Bank()
    seen = []

    def drive(messages):
        seen.append(messages)
        return DONE if len(messages) > 3 else says(call(**TEN))

    (agent,) = agents = members(AGREE)
    council_agent(agents, bank, driver=ScriptedDriver(script=drive), system_prompt="Be careful.").invoke(PAY, THREAD)
    first, second = agent.requests
    assert first["question"] == second["question"] == "Send 10 to Ann."
    assert first["round"] == 0
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["messages"][0]["content"] == "Be careful."
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["transfer_money", "balance"]
    assert set(first["tools"][0]["function"]["parameters"]["properties"]) == {"to", "amount"}
    assert [message.text for message in seen[0]] == ["Be careful.", "Send 10 to Ann."]


def test_the_decision_is_plain_data():
    bank = Bank()
    said = AIMessage(
        "", tool_calls=[call(**TEN)], usage_metadata={"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    )
    agents = members([[call(to="Ann", amount=9)], "Done."], [RuntimeError("down")], [[call(**TEN)]])
    agent = council_agent(agents, bank, said, DONE, max_blocked=1)
    decision = agent.invoke(PAY, THREAD)["council"]
    assert json.loads(json.dumps(decision)) == decision
    assert decision["action"] == "abstain"
    assert decision["support"] == pytest.approx({"driver": 1 / 3, "member0": 0.0, "member2": 1 / 3})
    assert (decision["votes"], decision["n_asked"]) == (["member2"], 3)
    assert decision["failed_agents"] == {"member1": "RuntimeError: down"}
    assert decision["contested"]["candidates"]["transfer_money.amount"] == [
        {"value": 10, "agents": ["driver", "member2"]},
        {"value": 9, "agents": ["member0"]},
    ]
    assert decision["tokens"]["driver"] == {"input_tokens": 9, "output_tokens": 2}
    assert decision["tokens"]["member0"] == {"input_tokens": 5, "output_tokens": 1}
    assert (decision["proposer"], decision["calls"], decision["decided_by"], decision["mode"]) == (
        None,
        None,
        "group",
        "verify",
    )


@every_mode
async def test_after_three_blocked_proposals_the_run_ends_with_a_refusal(mode):
    bank = Bank()
    script = [says(call(id=f"c{place}", to="Ann", amount=place)) for place in range(1, 9)]
    agents = members([[call(to="Ann", amount=100)]], [[call(to="Ann", amount=100)]])
    state = await run(mode, council_agent(agents, bank, *script), PAY)
    assert bank.transfers == []
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert state["messages"][-1].text.startswith("I will not answer this: the models do not agree on")
    assert not state["messages"][-1].tool_calls


def test_a_proposal_that_goes_on_ends_the_row_of_blocked_ones():
    bank = Bank()
    amounts = [1, 2, 10, 3, 4, 10]
    script = [*(says(call(id=f"c{place}", to="Ann", amount=amount)) for place, amount in enumerate(amounts)), DONE]
    agents = members([[call(**TEN)], [call(**TEN)], "Done."])
    state = council_agent(agents, bank, *script).invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 10.0), ("Ann", 10.0)]
    assert state["messages"][-1].text == "Done."


@every_mode
async def test_a_text_that_is_withheld_is_replaced_by_a_refusal(mode):
    bank = Bank()
    agents = members([[call(**TEN)]], [[call(**TEN)]])
    state = await run(mode, council_agent(agents, bank, AIMessage("I have paid.")), PAY)
    assert [message.type for message in state["messages"]] == ["human", "ai"]
    assert state["messages"][-1].text == (
        "I will not answer this: the models do not agree on whether to call a tool: the other agents support the "
        "proposal with 0.00, less than 0.6."
    )


def test_texts_that_differ_are_one_action():
    state = council_agent(members(["Hello!"], ["Good day."]), Bank(), AIMessage("Hi.")).invoke(PAY, THREAD)
    assert state["messages"][-1].text == "Hi."


@every_mode
async def test_members_that_fail_lower_no_bar(mode):
    bank = Bank()
    down = [ValueError("bad key sk-123")]
    agents = members(AGREE, down, down)
    state = await run(mode, council_agent(agents, bank, says(call(**TEN)), max_blocked=1, policy=None), PAY)
    assert bank.transfers == []
    assert state["messages"][-1].text == ("I will not answer this: 1 of 3 members proposes the same; at least 2 must.")
    assert set(state["council"]["failed_agents"]) == {"member1", "member2"}
    assert state["council"]["votes"] == ["member0"]


def test_a_member_without_a_weight_makes_no_majority():
    bank = Bank()
    agents = [Member("a", RuntimeError("down")), Member("b", *AGREE, weight=0.0), Member("c", *AGREE, weight=0.0)]
    council_agent(agents, bank, says(call(**TEN)), max_blocked=1).invoke(PAY, THREAD)
    assert bank.transfers == []


@every_mode
async def test_only_calls_of_the_named_tools_are_judged_and_only_then_the_members_are_asked(mode):
    bank = Bank()
    script = [says(call("balance", id="b1", x=1)), says(call(**TEN)), DONE]
    script[0].tool_calls[0]["args"] = {}
    agents = members([[call(to="Bob", amount=1)]])
    state = await run(mode, council_agent(agents, bank, *script, tools=["transfer_money"]), PAY)
    assert bank.transfers == []
    assert [len(agent.requests) for agent in agents] == [1]
    assert [reply.status for reply in replies(state)] == ["success", "error"]
    assert state["messages"][-1].text == "Done."


def test_a_misspelt_tool_is_refused():
    agent = council_agent(members(AGREE), Bank(), says(call(**TEN)), tools=["transfer_mony"])
    with pytest.raises(ValueError, match="it has no transfer_mony"):
        agent.invoke(PAY, THREAD)


@pytest.mark.parametrize("policy", [ThresholdPolicy(2.0), RegimePolicy(3.0, 3.0)])
def test_a_group_that_is_confident_of_another_action_does_not_vouch(policy):
    bank = Bank()
    agent = council_agent(members(AGAINST, AGAINST, AGAINST), bank, says(call(**TEN)), policy=policy, max_blocked=1)
    state = agent.invoke(PAY, THREAD)
    assert bank.transfers == []
    assert "the group is confident of another action than the driver's" in state["council"]["reason"]


class Always:
    """A policy that answers with whatever leads."""

    def decide(self, measurement, *, round, max_rounds):
        return Decision("answer", measurement.answer, "always")


@pytest.mark.parametrize("mode", ["verify", "choose"])
def test_no_policy_breaks_a_tie(mode):
    bank = Bank()
    agent = council_agent(members(AGAINST), bank, says(call(**TEN)), policy=Always(), mode=mode, max_blocked=1)
    state = agent.invoke(PAY, THREAD)
    assert bank.transfers == []
    assert "a tie is never answered" in state["council"]["reason"]


def test_no_policy_makes_a_majority_of_members_without_a_weight():
    bank = Bank()
    agents = [Member("a", RuntimeError("down")), Member("b", *AGREE, weight=0.0), Member("c", *AGREE, weight=0.0)]
    council_agent(agents, bank, says(call(**TEN)), policy=Always(), max_blocked=1).invoke(PAY, THREAD)
    assert bank.transfers == []


def test_calls_of_one_message_are_one_action():
    bank = Bank()
    both = [call(id="c1", **ANN), call(id="c2", **BOB)]
    agents = members([[call(**BOB), call(**ANN)], "Done."], [[call(**BOB), call(**ANN)], "Done."])
    council_agent(agents, bank, says(*both), DONE).invoke(PAY, THREAD)
    assert sorted(bank.transfers) == [("Ann", 1.0), ("Bob", 2.0)]
    bank = Bank()
    state = council_agent(members([[call(**ANN)], "Done."]), bank, says(*both), DONE).invoke(PAY, THREAD)
    assert bank.transfers == []
    assert [reply.tool_call_id for reply in replies(state)] == ["c1", "c2"]


def test_a_clusterer_compares_the_actions():
    bank = Bank()
    near = ActionMatch(compare={"transfer_money.amount": Within(absolute=1)})
    agent = council_agent(members(AGAINST, AGAINST), bank, says(call(**TEN)), DONE, clusterer=near)
    agent.invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 10.0)]


def test_a_clusterer_of_ones_own_knows_the_tools_of_the_turn():
    found = []
    for own in ({}, {"clusterer": ActionMatch()}):
        agent = council_agent(
            members([[call(**BOB)]], [[call(**BOB)]]), Bank(), says(call(**ANN)), max_blocked=1, **own
        )
        found.append(agent.invoke(PAY, THREAD)["council"]["contested"])
    assert found[0] == found[1]
    assert found[1]["arguments"]["to"] > found[1]["arguments"]["amount"] == 0  # in the order of the tool's schema


async def test_a_failing_clusterer_closes_the_gate(caplog):
    class Broken(ActionMatch):
        def cluster(self, responses, questions):
            raise RuntimeError("secret text")

    for mode in MODES:
        for options in ({}, {"policy": None, "adaptive": True}):
            bank = Bank()
            agent = council_agent(
                members(AGAINST), bank, says(call(**TEN)), clusterer=Broken(), max_blocked=1, **options
            )
            state = await run(mode, agent, PAY)
            assert bank.transfers == []
            assert (
                state["messages"][-1].text == "I will not answer this: judging the proposals failed with RuntimeError."
            )


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_clusterer_may_interrupt_the_run(adaptive):
    answers = []

    class Asking(ActionMatch):
        def cluster(self, responses, questions):
            answers.append(answers[0] if answers else interrupt("the same?"))
            return super().cluster(responses, questions)

    bank, own = Bank(), {"clusterer": Asking(), "policy": None, "tools": GATED, "adaptive": adaptive}
    agent = council_agent(members(AGAINST, AGREE, AGREE), bank, says(call(**TEN)), DONE, **own)
    assert len(agent.invoke(PAY, THREAD)["__interrupt__"]) == 1
    assert bank.transfers == []
    agent.invoke(Command(resume="yes"), THREAD)
    assert len(bank.transfers) == 1


def fail(messages):
    raise ConnectionError("the driver is down")


@every_mode
async def test_what_the_driver_raises_is_raised(mode):
    for options in ({}, {"tools": ["transfer_money"]}):
        agent = council_agent(members(AGREE), Bank(), driver=ScriptedDriver(script=fail), **options)
        with pytest.raises(ConnectionError, match="the driver is down"):
            await run(mode, agent, PAY)


@every_mode
@pytest.mark.parametrize("is_inside", [True, False])
async def test_a_fallback_model_takes_the_drivers_place(mode, is_inside):
    bank, agents = Bank(), members(AGREE, AGREE)
    council = CoECouncil(agents, policy=SupportPolicy(0.6))
    fallback = ModelFallbackMiddleware(ScriptedDriver(script=[says(call(**TEN)), DONE]))
    order = [council, fallback] if is_inside else [fallback, council]
    state = await run(mode, create_agent(ScriptedDriver(script=fail), bank.tools, middleware=order), PAY)
    assert bank.transfers == [("Ann", 10.0)]
    assert state["messages"][-1].text == "Done."
    assert len(agents[0].requests) == (2 if is_inside else 4)


class InTurn(Member):
    """A member whose script goes by how often it was asked: it is not shown what was withheld."""

    def sample(self, request, config=None):
        said = [{"role": "assistant"}] * len(self.requests)
        return super().sample({**request, "messages": said}, config)


UNFIT = {
    "an unknown tool": AIMessage("", tool_calls=[call("wire_money", to="Ann")]),
    "an unknown argument": AIMessage("", tool_calls=[call(to="Ann", amount=10, memo="x")]),
    "unreadable arguments": AIMessage(
        "", invalid_tool_calls=[invalid_tool_call(name="transfer_money", args="{'to'", id="c1", error="no JSON")]
    ),
    "one call good, one unreadable": AIMessage(
        "",
        tool_calls=[call(**TEN)],
        invalid_tool_calls=[invalid_tool_call(name="transfer_money", args="{", id="c2", error="no JSON")],
    ),
    "a repeated name": AIMessage(
        "",
        tool_calls=[call(**TEN)],
        additional_kwargs={
            "tool_calls": [
                {"function": {"name": "transfer_money", "arguments": '{"to": "Bob", "to": "Ann", "amount": 10}'}}
            ]
        },
    ),
    "one id for two calls": AIMessage("", tool_calls=[call(**TEN), call(**TEN)]),
    "no id": AIMessage("", tool_calls=[call(id=None, **TEN)]),
    "unreadable, without an id": AIMessage(
        "", invalid_tool_calls=[invalid_tool_call(name="transfer_money", args="{", id=None, error="no JSON")]
    ),
    "unreadable, with the id of another": AIMessage(
        "",
        tool_calls=[call(**TEN)],
        invalid_tool_calls=[invalid_tool_call(name="balance", args="{", id="c1", error="no JSON")],
    ),
    "an empty id": AIMessage("", tool_calls=[call(id="", **TEN)]),
    "not a number": AIMessage("", tool_calls=[call(to="Ann", amount=float("nan"))]),
}


@pytest.mark.parametrize("on_uncertain", ["block", "interrupt"])
@pytest.mark.parametrize("said", UNFIT.values(), ids=UNFIT)
def test_calls_that_do_not_fit_are_never_run_even_if_all_propose_them(said, on_uncertain):
    bank = Bank()
    calls = [*said.tool_calls, *([call(**TEN)] if said.invalid_tool_calls and not said.tool_calls else [])]
    agents = [InTurn(name, calls, "Done.") for name in "abc"]
    agent = council_agent(agents, bank, said, DONE, on_uncertain=on_uncertain)
    state = agent.invoke(PAY, THREAD)
    assert bank.transfers == []
    assert "__interrupt__" not in state
    assert state["messages"][-1].text == "Done."
    told = replies(state)
    assert {reply.status for reply in told} == {"error"}
    ids = [one["id"] for one in [*state["messages"][1].tool_calls, *state["messages"][1].invalid_tool_calls]]
    assert sorted(reply.tool_call_id for reply in told) == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_wrong_arguments_are_refused():
    policy = SupportPolicy(0.5)
    for wrong in ([], "abc", [object()], [ScriptedAgent]):
        with pytest.raises(TypeError, match='"agents" must be'):
            CoECouncil(wrong, policy=policy)
    for wrong in ([ScriptedAgent("a"), ScriptedAgent("a")], [ScriptedAgent("driver")]):
        with pytest.raises(ValueError, match="must differ, and none may be"):
            CoECouncil(wrong, policy=policy)
    one = [ScriptedAgent("a")]
    with pytest.raises(ValueError, match="weight above 0"):
        CoECouncil([ScriptedAgent("a", weight=0.0)], policy=policy)
    with pytest.raises(ValueError, match='"mode" must be'):
        CoECouncil(one, policy=policy, mode="vote")
    with pytest.raises(ValueError, match='"on_uncertain" must be'):
        CoECouncil(one, policy=policy, on_uncertain="ask")
    with pytest.raises(TypeError, match='"tools" must be a list'):
        CoECouncil(one, policy=policy, tools="pay")
    with pytest.raises(ValueError, match='"tools" must name'):
        CoECouncil(one, policy=policy, tools=[])
    with pytest.raises(TypeError, match='"policy" must be an object'):
        CoECouncil(one, policy=SupportPolicy)
    with pytest.raises(TypeError, match='"clusterer" must '):
        CoECouncil(one, policy=policy, clusterer=ActionMatch)
    with pytest.raises(TypeError, match="NormalizedMatch reads calls as prose"):
        CoECouncil(one, policy=policy, clusterer=NormalizedMatch())
    with pytest.raises(ValueError, match='"max_blocked" of CoECouncil must be'):
        CoECouncil(one, policy=policy, max_blocked=0)


@pytest.mark.parametrize(
    ("contested", "words"),
    [
        (None, ""),
        ({"tool": 2e-16, "call": 2e-16, "arguments": {"to": 0.7, "amount": 0.1}}, 'the argument "to"'),
        ({"tool": 0.6, "call": 0.6, "arguments": {}}, "whether to call a tool"),
        ({"tool": 0.6, "call": 0.0, "arguments": {"to": 0.1}}, 'which tool to call and the argument "to"'),
        ({"tool": 0.0, "call": 0.0, "arguments": {}}, ""),
    ],
)
def test_what_is_contested_in_words(contested, words):
    assert contested_in_words(contested) == words
