"""The graph that returns the outcome only."""

import pytest

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import create_outcome_graph
from coe_agents.testing import ScriptedAgent


def group(*answers, **options):
    agents = [ScriptedAgent(f"agent-{number}", [answer] * 10) for number, answer in enumerate(answers)]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.1), **options)


async def outcome_of(mode, graph, **options):
    graph, given = create_outcome_graph(graph.compile()).compile(), {"question": "Capital of Mali?"}
    return await graph.ainvoke(given, **options) if mode == "async" else graph.invoke(given, **options)


both = pytest.mark.parametrize("mode", ["sync", "async"])


@both
async def test_an_answer_and_no_response(mode):
    outcome = await outcome_of(mode, group("Bamako", "Bamako"))
    assert outcome.pop("reason").startswith("both agents say")
    assert outcome == {"action": "answer", "answer": "Bamako", "coe": 0.0}


@both
async def test_an_abstention_is_marked_as_such(mode):
    outcome = await outcome_of(mode, group("Bamako", "Segou"))
    assert (outcome["action"], outcome["answer"]) == ("abstain", None)
    assert "a tie" in outcome["reason"]
    assert outcome["coe"] == pytest.approx(0.693, abs=1e-3)


@both
async def test_a_context_reaches_the_group(mode):
    outcome = await outcome_of(mode, group("Bamako", "Bamako", "Segou"), context={"max_coe": 0.7})
    assert outcome["action"] == "answer"


def test_it_asks_a_compiled_graph_only():
    with pytest.raises(TypeError, match="must be a compiled graph"):
        create_outcome_graph(group("Bamako"))


def test_without_a_question_it_says_what_to_pass():
    with pytest.raises(ValueError, match='must hold a "question"; got none'):
        create_outcome_graph(group("Bamako").compile()).compile().invoke({"answer": "x"})
