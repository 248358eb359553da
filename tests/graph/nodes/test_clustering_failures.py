"""What becomes of a run whose clusterer fails: nothing is measured, and no key is told."""

import asyncio

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.agents import ChatEntailment
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.errors import ClusteringError, prints_secret
from tests.doubles import ScriptedAgent
from tests.faults import KEY, failing


class Clusterer:
    def __init__(self, act):
        self.act = act

    def cluster(self, responses, questions):
        self.act()
        return [[0] * len(texts) for texts in responses]


def graph(clusterer, **compiling):
    agent = ScriptedAgent("a", ["Paris", "Lyon"])
    return create_coe_graph([agent], clusterer=clusterer, policy=ThresholdPolicy(0.5)).compile(**compiling)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_key_that_a_judges_server_repeats_is_in_no_error_and_no_checkpoint(form):
    saver, config, asked = InMemorySaver(), {"configurable": {"thread_id": "1"}}, {"question": "Q?"}
    with failing("401") as server:
        judge = ChatEntailment(ChatOpenAI(model="m", base_url=server.url, api_key=KEY, max_retries=0))
        compiled = graph(BidirectionalEntailment(judge), checkpointer=saver)
        with pytest.raises(ClusteringError, match=r"AuthenticationError: .*\[redacted\].*coe-agents doctor") as raised:
            asyncio.run(compiled.ainvoke(asked, config)) if form == "async" else compiled.invoke(asked, config)
    assert not prints_secret(raised.value, {KEY})
    kept = repr(list(compiled.get_state_history(config))) + repr(saver.storage) + repr(saver.writes) + repr(saver.blobs)
    assert "[redacted]" in kept
    assert KEY not in kept


def test_a_clusterer_may_interrupt():
    result = graph(Clusterer(lambda: interrupt("same?")), checkpointer=InMemorySaver()).invoke(
        {"question": "Q?"}, {"configurable": {"thread_id": "1"}}
    )
    assert [pause.value for pause in result["__interrupt__"]] == ["same?"]
