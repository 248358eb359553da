from dataclasses import fields, replace

import pytest
from langchain_core.language_models import FakeListChatModel

from coe_agents import AskPerson, GroupDecision, ThresholdPolicy, aask, ask
from coe_agents.decision import DecisionData
from coe_agents.errors import GroupUnavailableError
from coe_agents.testing import ScriptedAgent
from tests.elements import Elements
from tests.graph.groups import THREAD, graph, saved, saying

HOSTILE = '<script>alert("x")</script> $\\frac{1}{$ \x1b[31m'


def decided(*answers: str, **options: object) -> GroupDecision:
    agents = [ScriptedAgent(f"agent {place}", [answer]) for place, answer in enumerate(answers)]
    return ask("Capital of <b>Australia</b>?", agents, **options)


@pytest.mark.parametrize("coordination", [None, "greedy"])
def test_every_key_of_a_decision_is_an_attribute_with_the_same_value(coordination):
    split = graph(*saying("x", "y"), policy=ThresholdPolicy(0.5), coordination=coordination)
    data = split.compile().invoke({"question": "?"})["decision"]
    decision = GroupDecision.from_data(data)
    only_then = (
        {"fields"} if coordination else {"fields", "coordinated_coe"}
    )  # no trace where they are not known
    assert {each.name for each in fields(GroupDecision)} - {"question"} - only_then == data.keys()
    assert data.keys() == DecisionData.__annotations__.keys() - only_then
    assert {name: getattr(decision, name) for name in data} == data == decision.data


CLAIM = {
    "text": "Ada.",
    "action": "keep",
    "start": 0,
    "end": 4,
    "support_between": 0.5,
    "agents": {},
}
WRONG = [
    {"reason": None},
    {"action": "nonsense"},
    {"coe": "0.1"},
    {"agents": {"a": 1}},
    {"failed_agents": ["a"]},
]
WRONG_CLAIMS = [{"action": "keeps"}, {"text": 1}, {"support_between": 2.0}, {"agents": {"b": 1}}]


OF_CLAIMS = [({"claims": [CLAIM | each]}, f"claims|{next(iter(each))}") for each in WRONG_CLAIMS]


@pytest.mark.parametrize(
    ("wrong", "said"), [*((each, next(iter(each))) for each in WRONG), *OF_CLAIMS]
)
def test_what_is_no_decision_is_refused(wrong, said):
    with pytest.raises((TypeError, ValueError), match=said):
        GroupDecision.from_data({"action": "abstain", "answer": None, "reason": "so", **wrong})


def test_the_default_policy_answers_in_consensus_only():
    assert decided("Canberra", "It is Canberra.", "canberra").answer is not None
    assert decided("Canberra", "Canberra", "Sydney").action == "abstain"
    assert decided("Canberra", "Sydney").action == "abstain"


def test_a_group_of_which_no_model_answers_is_no_abstention():
    with pytest.raises(
        GroupUnavailableError, match=r"no agent of the group answered\. a: OSError: down"
    ) as raised:
        ask("?", [ScriptedAgent("a", OSError("down"))])
    assert raised.value.__suppress_context__
    assert len(raised.traceback) == 2  # nothing of LangGraph stands above what to do


def test_a_failed_agent_is_named_in_every_view():
    group = [
        ScriptedAgent("a", ["x"]),
        ScriptedAgent("b", ["x"]),
        ScriptedAgent("c", OSError("down")),
    ]
    decision = ask("?", group)
    assert "c" in decision.failed_agents
    assert "c did not answer: " in decision.explain()
    assert "down" in decision._repr_html_()


def test_html_shows_text_of_models_as_text():
    decision = decided(HOSTILE, "Sydney", "Sydney", policy=ThresholdPolicy(float("inf")))
    page = decision._repr_html_()
    assert {tag for tag, _ in Elements(page).found} <= {"div", "table", "tr", "th", "td"}
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page


def test_plots_draw_hostile_text_and_leave_out_what_was_not_measured(tmp_path):
    nothing = GroupDecision(
        action="abstain", answer=None, reason="nobody answered", failed_agents={"a": "down"}
    )
    decision = decided(HOSTILE, "Sydney", "Sydney")
    for name, figure in {"one": decision.plot(), "none": nothing.plot()}.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
    assert decision.plot()._repr_png_().startswith(b"\x89PNG")  # so a notebook shows it
    too_few = replace(decision, regime=None)
    figures = (decision.plot(), nothing.plot(), too_few.plot())
    assert [len(figure.axes[1].collections) for figure in figures] == [1, 0, 0]


def test_a_run_that_waits_for_a_person_has_no_decision_yet():
    policy = ThresholdPolicy(0.1, otherwise="escalate")
    result = saved(*saying("x", "y"), policy=policy, escalation=AskPerson()).invoke(
        {"question": "?"}, THREAD
    )
    with pytest.raises(ValueError, match="waits for a person"):
        GroupDecision.from_state(result)


async def test_models_are_named_after_themselves_and_asked_n_times():
    replies = ["Paris"] * 3
    models = [FakeListChatModel(responses=replies), FakeListChatModel(responses=replies)]
    for decision in (ask("?", models, n_samples=3), await aask("?", models, n_samples=3)):
        assert list(decision.agents) == ["FakeListChatModel", "FakeListChatModel-2"]
        assert decision.agents["FakeListChatModel"]["n_responses"] == 3


@pytest.mark.parametrize(
    "models", ["openai:gpt-5-mini", 3, ["gpt-5-mini", "llama3"], ["llama3:8b"], ["opnai:m"]]
)
def test_models_must_be_a_list_of_names_with_a_provider_that_is_known(models):
    with pytest.raises(
        (TypeError, ValueError), match=r'must be a list|as "provider:model".*"transformers:FOLDER"'
    ):
        ask("?", models)
