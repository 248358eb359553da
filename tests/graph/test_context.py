import pytest
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError

from coe_agents import AskPerson, CoEContext, RegimePolicy, ThresholdPolicy
from coe_agents.policy import Decision
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import THREAD, Deciding, around, graph, saved

ASKED = {"question": "Capital of Mali?"}


def split_agents():
    return [ScriptedAgent("a", ["Bamako"] * 8), ScriptedAgent("b", ["Segou"] * 8)]


def build(*agents, **options):
    agents = agents or (*split_agents(), ScriptedAgent("c", ["Bamako"] * 8))
    return graph(*agents, **{"policy": ThresholdPolicy(0.1), **options}).compile()


def decide(graph, **context):
    return graph.invoke(ASKED, context=context)["decision"]


def test_a_form_of_the_context_says_what_bounds_mean_and_takes_no_text_for_a_number():
    form = TypeAdapter(CoEContext)
    assert form.json_schema()["properties"]["deadline"]["description"].startswith(
        "The seconds for the question"
    )
    with pytest.raises(ValidationError, match="token_budget"):
        form.validate_python({"token_budget": "9"})


def test_thresholds_and_bounds_are_those_of_the_run():
    graph = build()  # two of three agree: CoE is the entropy of (2/3, 1/3), 0.637
    assert decide(graph)["action"] == "abstain"
    decision = decide(graph, max_coe=0.64)
    assert decision["action"] == "answer"
    assert decision["answer"] == "Bamako"
    assert decision["cause"] == "confident"
    assert decide(graph)["action"] == "abstain"
    again = RegimePolicy(0.5, 0.3, actions={"conflict": "another_round"})
    graph = build(*split_agents(), policy=again, max_rounds=2)
    assert decide(graph)["n_rounds"] == 2
    assert decide(graph, max_rounds=4)["n_rounds"] == 4
    assert decide(graph, max_rounds=1)["n_rounds"] == 1
    short = decide(graph, max_rounds=9, token_budget=20)
    assert short["cause"] == "budget"
    assert decide(graph, deadline=60)["n_rounds"] == 2


def test_what_cannot_work_is_refused_before_any_agent_is_asked():
    for context, error, said in (
        (
            {"max_co": 0.4},
            TypeError,
            "must be among n_samples, max_coe, .*; got 'max_co'. Correct the key. Did you",
        ),
        ({"max_coe": True}, TypeError, '"max_coe" in nats must be a number .*; got True'),
        ({"agents": "a"}, TypeError, "must be a list of names; got 'a'"),
        (
            {"agents": ["a", "z"]},
            ValueError,
            "must name agents of the graph; it has no 'z'. Its agents are a, b, c",
        ),
        ({"deadline": 0}, ValueError, '"deadline" in seconds must be a finite number above 0'),
    ):
        agents = [*split_agents(), ScriptedAgent("c", ["Bamako"])]
        with pytest.raises(error, match=said):
            build(*agents).invoke(ASKED, context=context)
        assert not any(agent.requests for agent in agents)


def test_a_threshold_that_the_policy_lacks_and_agents_that_could_not_decide_alone_are_refused():
    with pytest.raises(
        ValueError,
        match='"max_coe" of the context needs a policy whose threshold it is; got Regime',
    ):
        build(policy=RegimePolicy(0.5, 0.3)).invoke(ASKED, context={"max_coe": 0.4})
    own = Deciding(Decision("abstain"), aleatoric_threshold=0.5, epistemic_threshold=0.5)
    with pytest.raises(ValueError, match="got Deciding, with none to change"):
        build(policy=own).invoke(ASKED, context={"aleatoric_threshold": 0.4})
    heard = ScriptedAgent("a", ["x"], weight=0), ScriptedAgent("b", ["x"])
    with pytest.raises(ValueError, match="one with a weight above 0"):
        build(*heard).invoke(ASKED, context={"agents": ["a"]})
    with pytest.raises(ValueError, match='at least "min_agents" of the graph, 3; got 2'):
        build(min_agents=3).invoke(ASKED, context={"agents": ["a", "b"]})


# a context of another kind may mean something else by the name
@pytest.mark.parametrize("schema", [CoEContext, dict, None])
def test_as_a_subgraph_it_uses_the_parents_context_only_if_it_is_of_its_kind(schema):
    parent = around(build(), context_schema=schema if schema is CoEContext else None)
    decision = parent.invoke(ASKED, context={"max_coe": 0.64} if schema else None)["decision"]
    assert decision["action"] == ("answer" if schema is CoEContext else "abstain")


def test_a_resumed_run_keeps_the_agents_that_its_context_named():
    policy = ThresholdPolicy(0.1, otherwise="escalate")
    agents = [*split_agents(), ScriptedAgent("c", ["Bamako"])]
    waiting = saved(*agents, policy=policy, escalation=AskPerson())
    assert "__interrupt__" in waiting.invoke(ASKED, THREAD, context={"agents": ["a", "b"]})
    decision = waiting.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)[
        "decision"
    ]
    assert set(decision["agents"]) == {"a", "b"}
    assert [len(agent.requests) for agent in agents] == [1, 1, 0]
    # and the next turn does not
    assert set(
        waiting.invoke(ASKED, THREAD)["__interrupt__"][0].value["candidates"][0]["agents"]
    ) == {"a", "c"}


def test_a_misspelt_key_reaches_the_graph_on_a_server_and_is_an_error():
    graph = build()
    given = {"max_co": 0.4, "deadline": 60, "user_id": "ann"}
    # as langgraph_api.stream does
    properties = graph.get_context_jsonschema()["properties"]
    kept = {key: value for key, value in given.items() if key in properties}
    assert kept == {"max_co": 0.4, "deadline": 60}  # a key that is no business of the graph is not
    with pytest.raises(TypeError, match="max_coe"):
        graph.invoke(ASKED, context=kept)
