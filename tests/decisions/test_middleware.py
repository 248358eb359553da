import pytest

from tests.decisions.scripted import CALL, HARMLESS, TRUE, dead, says, tinyworld_models

from langchain.agents import create_agent  # isort: skip -- what needs langchain-core 1.8 comes after
from langchain.agents.middleware import AutoModeMiddleware, ModelChoice, ModelRouterMiddleware
from langchain_core.decisions import Choice
from langchain_core.messages import AIMessage

from coe_agents.decisions import CoEDecisionModel
from coe_agents.errors import GroupUnavailableError
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.tinyworld import tinyworld_tools

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")


@pytest.fixture(scope="module")
def models():
    return tinyworld_models()


async def run(form, middleware, paid=None):
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Done.")])
    agent = create_agent(driver, tinyworld_tools(paid), middleware=[middleware])
    asked = {"messages": [("user", "Send Nina 60 euros.")]}
    return agent.invoke(asked) if form == "sync" else await agent.ainvoke(asked)


@pytest.mark.parametrize(
    ("case", "instructions", "runs", "form"),
    [
        ("clear", HARMLESS, True, "async"),
        ("clear", TRUE, False, "sync"),
        ("unclear", HARMLESS, False, "async"),
        ("conflict", HARMLESS, False, "async"),
        ("one dead", HARMLESS, False, "sync"),
        ("one dead, certain", HARMLESS, True, "sync"),
        ("two dead", HARMLESS, None, "async"),
    ],
)
async def test_auto_mode_runs_blocks_or_ends(models, case, instructions, runs, form):
    clear = models[1]  # of the three, the only one that would mostly reply True or False
    members = {
        "clear": [clear, clear],
        "unclear": models,
        "conflict": [clear, says(1.0), *[says(0.01)] * 4],
        "one dead": [
            clear,
            clear,
            dead(),
        ],  # two of three let pass, and the mean, with the third, blocks
        "one dead, certain": [clear, *[says(0.01)] * 3, dead()],
        "two dead": [clear, dead(), dead()],
    }[case]
    paid = []
    group = CoEDecisionModel(members)
    mode = AutoModeMiddleware(tools=["transfer"], instructions=instructions, classifier=group)
    if runs is None:
        with pytest.raises(GroupUnavailableError, match='1 member of 3 answered "is_risky"'):
            await run(form, mode, paid)
        assert paid == []
        return
    result = (await run(form, mode, paid))["messages"][-2]
    assert (result.status, paid) == (("success", [("Nina", 60)]) if runs else ("error", []))
    if case == "conflict":
        assert "(probability: 0.50)" in result.content


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_the_router_takes_the_label_of_the_group(models, form):
    drivers = {name: ScriptedDriver(script=[AIMessage(name)]) for name in ("fast", "powerful")}
    choices = {
        name: ModelChoice(model=driver, criteria=f"{name} tasks")
        for name, driver in drivers.items()
    }
    asked = {
        "route": Choice(
            instructions="Which model?", criteria={name: f"{name} tasks" for name in drivers}
        )
    }
    for members, label in (
        ([*models, says(0.0, 1.0)], None),
        ([says(0.9, 0.1), says(0.6, 0.4), dead()], "fast"),
    ):
        group = CoEDecisionModel(members)
        router = ModelRouterMiddleware(
            choices=choices, instructions="Which model?", classifier=group
        )
        result = await run(form, router)
        routed = result["model_route"]
        assert (
            routed.probabilities
            == group.decide(result["messages"][0], asked)["route"]["probabilities"]
        )
        expected = label or max(routed.probabilities, key=routed.probabilities.get)
        assert result["messages"][-1].text == routed.choice == expected
    with pytest.raises(GroupUnavailableError):
        await run(
            form,
            ModelRouterMiddleware(
                choices=choices, instructions="?", classifier=CoEDecisionModel([dead()])
            ),
        )
