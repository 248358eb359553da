"""The arguments of `create_coe_graph`, which `ask` takes, too."""

import inspect

import pytest

from coe_agents import RegimePolicy, ask, create_coe_graph, short_answers
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import GraphOptions
from coe_agents.policy import FixedRounds
from coe_agents.shortcuts import GraphArguments
from coe_agents.testing import ScriptedAgent
from tests.doubles import CountingModel
from tests.graph.groups import saying

ARGUMENTS = [
    "answers",
    "clusterer",
    "policy",
    "max_rounds",
    "token_budget",
    "deadline",
    "min_agents",
    "strategies",
    "weights",
    "escalation",
    "tools",
    "history",
    "answer_judge",
    "on_decision",
    "options",
]


def run(agents, **arguments):
    return create_coe_graph(agents, **arguments).compile().invoke({"question": "Q?"})


def test_the_signature_has_these_and_no_other_and_ask_takes_them_all():
    parameters = inspect.signature(create_coe_graph).parameters
    assert [*parameters] == ["agents", *ARGUMENTS]
    usual = {name: each.default for name, each in parameters.items() if name != "agents"}
    assert usual == {**dict.fromkeys(ARGUMENTS), "history": "conversation"}
    assert [*GraphArguments.__annotations__] == ARGUMENTS


def test_models_become_agents_and_those_of_one_name_are_told_apart():
    models = [CountingModel(), CountingModel(), ScriptedAgent("CountingModel-2", ["x"])]
    graph = create_coe_graph(models)
    names = {"CountingModel", "CountingModel-2", "CountingModel-3"}
    assert names < graph.nodes.keys()
    decision = run(models)["decision"]
    assert {name: each["n_responses"] for name, each in decision["agents"].items()} == {
        "CountingModel": 5,
        "CountingModel-3": 5,
        "CountingModel-2": 1,
    }


@pytest.mark.parametrize("agents", ["openai:gpt-5-mini", CountingModel(), {"a": 1}])
def test_what_is_no_list_of_agents_is_refused(agents):
    with pytest.raises(TypeError, match='"agents" must be a list of names, chat models or agents'):
        create_coe_graph(agents)


def test_short_answers_and_the_regimes_are_the_defaults_as_of_ask():
    agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["It is Paris."])]
    decision = run(agents)["decision"]
    assert (decision["action"], decision["answers"]) == ("answer", "short")
    assert decision == run(agents, answers=short_answers(), policy=RegimePolicy())["decision"]
    asked = ask("Q?", agents)
    assert asked.action == "answer"
    assert asked.coe == 0.0
    assert asked.reason == decision["reason"]
    assert run(agents, clusterer=NormalizedMatch())["decision"]["answers"] is None


def test_ask_passes_all_on_and_raises_where_no_agent_answered():
    decision = ask(
        "Q?", saying("x", "y"), weights={"a": 0.0, "b": 1.0}, options=GraphOptions(retries=0)
    )
    assert decision.answer == "y"
    bounds = {"max_rounds": 2, "token_budget": 100}
    assert ask("Q?", saying("x", "y"), min_agents=2, **bounds).action == "abstain"


@pytest.mark.parametrize(("max_rounds", "n_rounds"), [(None, 2), (2, 2), (3, 2)])
def test_a_policy_that_names_its_rounds_gets_them(max_rounds, n_rounds):
    policy = FixedRounds(2, then=RegimePolicy())
    decision = run(saying("x", "x"), policy=policy, max_rounds=max_rounds)["decision"]
    assert (decision["action"], decision["n_rounds"]) == ("answer", n_rounds)
    with pytest.raises(ValueError, match='"max_rounds" must be at least 2'):
        create_coe_graph(saying("x"), policy=policy, max_rounds=1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"weighting": "logits"}, ValueError),
        ({"coordination": "grid"}, ValueError),
        ({"canonicalize": "short"}, TypeError),
        ({"retries": -1}, ValueError),
        ({"max_question_chars": 0}, ValueError),
        ({"on_unavailable": "ignore"}, ValueError),
        ({"clarify": "yes"}, TypeError),
    ],
)
def test_each_option_is_checked_where_it_is_made(wrong, error):
    (name,) = wrong
    with pytest.raises(error, match="solver" if name == "coordination" else f'"{name}"'):
        GraphOptions(**wrong)


def test_options_of_another_kind_are_refused():
    with pytest.raises(TypeError, match='"options" must be GraphOptions'):
        create_coe_graph(saying("x"), options={"retries": 0})


def test_a_solver_of_ones_own_chooses_the_answer():
    seen = []

    def unchanged(distributions):
        seen.append(distributions.shape)
        return distributions

    options = GraphOptions(coordination=unchanged)
    decision = run(saying("x", "x"), options=options)["decision"]
    assert decision["coordinated_coe"] == 0.0
    assert (2, 1) in seen


@pytest.mark.parametrize("said", [("Paris", "Paris"), ("Paris", "Lyon")])
async def test_a_function_is_passed_each_decision_and_what_it_raises_loses_none(said):
    cases = []
    graph = create_coe_graph(saying(*said), on_decision=cases.append).compile()
    result = await graph.ainvoke({"question": "Q?"})
    (case,) = cases
    assert case["decision"] == result["decision"]
    assert (case["question"], case["leading"] in said) == ("Q?", True)
    assert case["responses"] == result["responses"]
    assert case["labels"] == result["labels"]

    def fail(case):
        raise OSError("the disk is full")

    with pytest.warns(
        UserWarning, match="fail, failed, and the decision stands: OSError: the disk is full"
    ):
        after = run(saying(*said), on_decision=fail)
    assert after["decision"]["action"] == result["decision"]["action"]


async def waiting(case):
    return case


class Waiting:
    async def __call__(self, case):
        return case


@pytest.mark.parametrize("wrong", ["record", 1.0, ScriptedAgent, waiting, Waiting()])
def test_what_cannot_be_told_of_decisions_is_refused(wrong):
    with pytest.raises(TypeError, match='"on_decision"'):
        create_coe_graph(saying("x"), on_decision=wrong)
