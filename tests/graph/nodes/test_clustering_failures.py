import asyncio

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from coe_agents.agents import ChatEntailment
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.errors import ClusteringError, prints_secret
from tests.doubles import ScriptedAgent
from tests.faults import KEY, failing
from tests.graph import groups
from tests.graph.groups import THREAD


class Interrupting:
    def cluster(self, responses, questions):
        interrupt("same?")


def graph(clusterer, saver):
    return groups.graph(ScriptedAgent("a", ["Paris", "Lyon"]), clusterer=clusterer).compile(
        checkpointer=saver
    )


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_key_that_a_judges_server_repeats_is_in_no_error_and_no_checkpoint(form):
    saver = InMemorySaver()
    asked = {"question": "Q?"}
    with failing("401") as server:
        judge = ChatEntailment(
            ChatOpenAI(model="m", base_url=server.url, api_key=KEY, max_retries=0)
        )
        compiled = graph(BidirectionalEntailment(judge), saver)
        with pytest.raises(
            ClusteringError, match=r"AuthenticationError: .*\[redacted\].*coe-agents doctor"
        ) as raised:
            asyncio.run(compiled.ainvoke(asked, THREAD)) if form == "async" else compiled.invoke(
                asked, THREAD
            )
    assert not prints_secret(raised.value, {KEY})
    kept = (
        repr(list(compiled.get_state_history(THREAD)))
        + repr(saver.storage)
        + repr(saver.writes)
        + repr(saver.blobs)
    )
    assert "ClusteringError" in kept
    assert KEY not in kept


def test_a_clusterer_may_interrupt():
    result = graph(Interrupting(), InMemorySaver()).invoke({"question": "Q?"}, THREAD)
    assert [pause.value for pause in result["__interrupt__"]] == ["same?"]
