"""Answers that are not whole: a cut or unknown one counts and is told, a filtered one is never given."""

import io
from itertools import product

import pytest
from langchain_core.messages import AIMessage
from rich.console import Console

from coe_agents import GroupDecision, ModelAgent, ThresholdPolicy, _ring, ask, create_coe_graph
from coe_agents.cli.display.decision import show_decision
from coe_agents.clustering import NormalizedMatch
from coe_agents.decision.refusal import refusal
from coe_agents.errors import GroupUnavailableError
from coe_agents.graph import GraphOptions
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.driver import ScriptedDriver
from tests.agents.requests.test_endings import ONE_OF_EACH

ANSWERS_ALL = ThresholdPolicy(float("inf"))
PAY = {"name": "pay", "args": {"to": "Ann"}}
TOOL = {"name": "pay", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}
SCHEMA = {
    "title": "City",
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


def on_screen(decision):
    console = Console(file=io.StringIO(), width=100)
    show_decision("Capital?", decision.data, 0.1, console=console)
    return " ".join(console.file.getvalue().split())


def ask_both(said, other, end):
    return ask("Capital?", [ScriptedAgent("a", said, end=end), ScriptedAgent("b", other)])


@pytest.mark.parametrize("end", ["cut", "unknown"])
def test_a_response_that_is_not_whole_counts_as_an_answer(end):
    decision = ask_both(["Suva"] * 3, ["Suva"] * 3, end)
    assert decision.answer == "Suva"
    assert decision.agents["a"]["lacking"] == {end: 3}
    assert decision.agents["b"]["lacking"] == {}


@pytest.mark.wording
def test_that_responses_are_not_whole_is_told():
    for end, told in (
        ("cut", "3 of 6 responses were cut at max_tokens"),
        ("unknown", "3 of 6 responses did not end as their providers end whole ones"),
    ):
        decision = ask_both(["Suva"] * 3, ["Suva"] * 3, end)
        assert f'both agents say "Suva"; {told}; ' in decision.explain()
        assert told in on_screen(decision)


CUT = (["Su", "Suv", "Suva i"], "cut")
EMPTY = (["", "  ", ""], "whole")
OTHERS = (["Suva"] * 3, ["I can't answer this."] * 3)


@pytest.mark.parametrize(("said", "end"), [CUT, EMPTY])
@pytest.mark.parametrize("other", OTHERS)
def test_what_is_cut_off_or_empty_is_not_answered(said, end, other):
    assert ask_both(said, other, end).answer is None


@pytest.mark.wording
def test_what_is_cut_off_or_empty_is_no_conflict():
    for (said, end), other in product((CUT, EMPTY), OTHERS):
        decision = ask_both(said, other, end)
        told = f"3 of 6 responses {'were cut at max_tokens' if end == 'cut' else 'are empty'}"
        for shown in (decision.explain(), on_screen(decision), refusal(decision.data)):
            assert told in shown
            assert "onflict" not in shown
            assert "disagree" not in shown
        assert "regime: not put in words, since most responses of an agent lack" in on_screen(
            decision
        )
        beside = "; as far as they go, the answers differ" if end == "cut" else ""
        assert on_screen(decision).startswith(f"? Capital? → No answer: {told}{beside}.")
        assert refusal(decision.data).startswith(f"No answer: {told}. ")


def test_too_few_agents_are_not_shown_as_certain():
    failing = [ScriptedAgent(name, ConnectionError("refused")) for name in "bc"]
    options = GraphOptions(retries=0)
    group = create_coe_graph(
        [ScriptedAgent("a", ["Suva"] * 3), *failing], clusterer=NormalizedMatch(), options=options
    ).compile()
    decision = GroupDecision.from_state(group.invoke({"question": "Capital?"}))
    # the contract: None only where nothing was measured
    assert (decision.cause, decision.regime, decision.coe) == ("quorum", None, 0.0)
    for shown in (decision.explain(), on_screen(decision), refusal(decision.data)):
        assert "CoE" not in shown


@pytest.mark.wording
def test_whole_answers_that_disagree_do_so_beside_one_that_was_cut_off():
    agents = [
        ScriptedAgent("a", ["Suva i"] * 3, end="cut"),
        ScriptedAgent("b", ["Suva"] * 3),
        ScriptedAgent("c", ["Nadi"] * 3),
    ]
    told = "3 of 9 responses were cut at max_tokens; the other agents disagree."
    assert on_screen(ask("Capital?", agents)).startswith(f"? Capital? → No answer: {told}")


@pytest.mark.wording
def test_a_conflict_is_one_where_few_responses_are_cut_off():
    class Once(ScriptedAgent):
        def sample(self, request, config=None):
            reply = super().sample(request, config)
            reply["responses"][0]["end"] = "cut"
            return reply

    said = ask("Capital?", [Once("a", ["Suva"] * 3), ScriptedAgent("b", ["Nadi"] * 3)]).explain()
    assert (
        "a tie; 1 of 6 responses was cut at max_tokens; conflict, each is confident, but they disagree"
        in said
    )


@pytest.mark.wording
def test_the_limit_that_cut_responses_is_told():
    script = [AIMessage("Suva", response_metadata={"finish_reason": "length"})]
    drivers = [ScriptedDriver(script=script) for _ in "ab"]
    agents = []
    for name, driver, limit in zip("ab", drivers, (8, 20), strict=True):
        agents.append(ModelAgent(name, driver, n_samples=1, max_tokens=limit))
    decision = ask("Capital?", agents)
    told = "2 of 2 responses were cut at max_tokens (8 or 20)"
    assert told in decision.explain()
    assert told in on_screen(decision)


@pytest.mark.wording
def test_a_group_that_refuses_is_not_called_confident():
    decision = ask("Capital?", [ScriptedAgent(name, ["I can't answer this."]) for name in "ab"])
    assert decision.cause == "refusal"
    assert decision.reason.endswith("; a refusal is not an answer")


@pytest.mark.parametrize("text", ["Suva", '{"city": "Suva"}'])
@pytest.mark.parametrize("given", [{}, {"tools": [TOOL]}, {"answer_schema": SCHEMA}])
def test_a_filtered_response_is_never_answered(text, given):
    agents = [ScriptedAgent(name, [text] * 2, end="filtered") for name in "ab"]
    judges = [None]
    if _ring.is_there("claims"):
        judges.append(_ring.load("claims:Claims")())
    for claims in judges:
        graph = create_coe_graph(
            agents, clusterer=NormalizedMatch(), policy=ANSWERS_ALL, answer_judge=claims
        )
        state = graph.compile().invoke({"question": "Capital?", **given})
        assert state["decision"]["action"] == "abstain"
        assert state["decision"]["answer"] is None
        assert "Suva" not in state["messages"][-1].text


def test_a_filtered_response_is_no_vote_for_what_the_others_answer():
    agents = [
        ScriptedAgent("a", ["Suva"], end="filtered"),
        *(ScriptedAgent(name, ["Suva"]) for name in "bc"),
    ]
    decision = ask("Capital?", agents, policy=ANSWERS_ALL)
    assert decision.answer == "Suva"
    assert decision.support == pytest.approx({"Suva": 2 / 3, "": 1 / 3})


@pytest.mark.parametrize("end", ["cut", "filtered", "unknown"])
def test_calls_of_a_response_that_is_not_whole_are_a_failure(end):
    agents = [ScriptedAgent(name, [[PAY]], end=end) for name in "ab"]
    graph = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=ANSWERS_ALL, tools=[TOOL]
    ).compile()
    decision = graph.invoke({"question": "Pay Ann."})["decision"]
    assert decision["calls"] is None
    assert decision["failed_agents"]["a"].startswith("InvalidReplyError")


@pytest.mark.parametrize(("kind", "said"), ONE_OF_EACH)
def test_what_models_say(kind, said):
    drivers = [ScriptedDriver(script=[AIMessage("Suva", response_metadata=said)]) for _ in "ab"]
    agents = [
        ModelAgent(name, driver, n_samples=1, retries=0)
        for name, driver in zip("ab", drivers, strict=True)
    ]
    graph = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=ANSWERS_ALL, options=GraphOptions(retries=0)
    ).compile()
    state = graph.invoke({"question": "Capital?"})
    assert state["decision"]["answer"] == ("Suva" if kind in ("whole", "cut", "unknown") else None)
    assert [(row["end"], row["error"] is None) for row in state["responses"]] == [
        ("whole" if kind == "error" else kind, kind != "error")
    ] * 2


def test_an_agent_with_one_failed_reply_has_answered_and_one_without_another_has_not():
    failed = AIMessage("", response_metadata={"finish_reason": "error"})
    said = iter([failed, AIMessage("Suva"), AIMessage("Suva")])
    agent = ModelAgent(
        "a", ScriptedDriver(script=lambda _: next(said)), n_samples=3, max_concurrency=1
    )
    decision = ask("Capital?", [agent, ScriptedAgent("b", ["Suva"] * 3)])
    assert decision.answer == "Suva"
    assert decision.failed_agents == {}
    assert decision.agents["a"]["n_responses"] == 2
    n_asked = []
    agent = ModelAgent(
        "a", ScriptedDriver(script=lambda _: n_asked.append(1) or failed), n_samples=1
    )
    decision = ask("Capital?", [agent, ScriptedAgent("b", ["Suva"]), ScriptedAgent("c", ["Suva"])])
    assert decision.failed_agents["a"].startswith("InvalidReplyError")
    assert len(n_asked) == 2  # it may have been an outage
    with pytest.raises(GroupUnavailableError):
        ask("Capital?", [ModelAgent(name, ScriptedDriver(script=[failed])) for name in "ab"])


@pytest.mark.parametrize(
    ("text", "fits"), [('{"city": ""}', True), ("Answer:", False), ("<answer></answer>", False)]
)
def test_under_a_schema_the_schema_says_whether_a_form_without_words_is_an_answer(text, fits):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    agents = [ScriptedAgent(name, [text]) for name in "ab"]
    graph = create_coe_graph(agents).compile()
    decision = graph.invoke({"question": "Where?", "answer_schema": schema})["decision"]
    assert (decision["action"] == "answer") is fits
    assert (decision["coe"] is None) is not fits
