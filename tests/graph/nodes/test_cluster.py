from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent


def test_equal_texts_are_read_once():
    read = []

    def last_word(text):
        read.append(text)
        return text.split()[-1]

    agents = [ScriptedAgent("a", ["It is Rome", "Rome"]), ScriptedAgent("b", ["It is Rome", "It is Rome"])]
    graph = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.0), canonicalize=last_word
    ).compile()
    result = graph.invoke({"question": "Q?"})
    assert sorted(read) == ["It is Rome", "Rome"]
    # a text that is its own short answer has none beside it
    assert [response["answer"] for response in result["responses"]] == ["Rome", None, "Rome", "Rome"]
    assert result["labels"] == [0, 0, 0, 0]
