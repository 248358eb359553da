"""The graph that returns the outcome only."""

import pytest

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import create_outcome_graph
from coe_agents.testing import ScriptedAgent


def group(*answers, **options):
    agents = [ScriptedAgent(f"agent-{number}", [answer] * 10) for number, answer in enumerate(answers)]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.1), **options)


def outcome_of(graph, **options):
    return create_outcome_graph(graph.compile()).compile().invoke({"question": "Capital of Mali?"}, **options)


def test_an_answer_and_no_response():
    outcome = outcome_of(group("Bamako", "Bamako"))
    assert outcome.pop("reason").startswith("both agents say")
    assert outcome == {"action": "answer", "answer": "Bamako", "coe": 0.0}


def test_an_abstention_is_marked_as_such():
    outcome = outcome_of(group("Bamako", "Segou"))
    assert (outcome["action"], outcome["answer"]) == ("abstain", None)
    assert "a tie" in outcome["reason"]
    assert outcome["coe"] == pytest.approx(0.693, abs=1e-3)


def test_a_context_reaches_the_group():
    outcome = outcome_of(group("Bamako", "Bamako", "Segou"), context={"max_coe": 0.7})
    assert outcome["action"] == "answer"


def test_it_asks_a_compiled_graph_only():
    with pytest.raises(TypeError, match="must be a compiled graph"):
        create_outcome_graph(group("Bamako"))


def test_without_a_question_it_says_what_to_pass():
    with pytest.raises(ValueError, match='must hold a "question"; got none'):
        create_outcome_graph(group("Bamako").compile()).compile().invoke({"answer": "x"})
