from contextlib import suppress

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import ThresholdPolicy
from coe_agents.errors import CheckpointError
from coe_agents.graph import AskPerson
from coe_agents.graph import state as state_module
from coe_agents.graph.nodes import prepare
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import THREAD, graph, saying


def waiting(saver, agents, **options):
    policy = ThresholdPolicy(0.1, otherwise="escalate")
    return graph(*agents, policy=policy, escalation=AskPerson()).compile(
        checkpointer=saver, **options
    )


def interrupted(saver, agents):
    return waiting(saver, agents, interrupt_after=["prepare"])


@pytest.mark.parametrize(
    ("wrote", "said"), [(None, "an earlier version"), (7, "a version whose state is 7")]
)
def test_one_of_another_version_is_refused_and_says_what_to_do(monkeypatch, wrote, said):
    paused = waiting(InMemorySaver(), saying("Paris", "Rome"))
    with monkeypatch.context() as before:
        before.setattr(prepare, "STATE_VERSION", wrote)
        before.setattr(state_module, "STATE_VERSION", wrote)
        assert "__interrupt__" in paused.invoke({"question": "Capital?"}, THREAD)
    message = f"was written by {said} of coe-agents; .* Finish the run with the version that wrote it, or ask"
    with pytest.raises(CheckpointError, match=message):
        paused.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)
    # a new question on the thread begins anew
    assert "__interrupt__" in paused.invoke({"question": "Capital of France?"}, THREAD)
    assert (
        paused.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)["decision"][
            "action"
        ]
        == "answer"
    )


def test_one_of_another_version_or_that_asks_an_agent_under_its_old_name_is_refused_before_any_is_asked(
    monkeypatch,
):
    agents = saying("x", "y")
    paused = interrupted(InMemorySaver(), agents)
    with monkeypatch.context() as before:
        before.setattr(prepare, "STATE_VERSION", 1)
        paused.invoke({"question": "Capital?"}, THREAD)
    with pytest.raises(CheckpointError, match="a version whose state is 1"):
        paused.invoke(None, THREAD)
    assert [agent.requests for agent in agents] == [[], []]
    saver = InMemorySaver()
    interrupted(saver, saying("x", "y")).invoke({"question": "Capital?"}, THREAD)
    agents = [*saying("x"), ScriptedAgent("new", ["y"])]
    message = "asks agents that the graph does not have: b; its agents are a, new. Resume it with a graph that has them"
    with pytest.raises(CheckpointError, match=message):
        interrupted(saver, agents).invoke(None, THREAD)
    assert [agent.requests for agent in agents] == [[], []]


def rewritten(saver, change):
    """Changes each checkpoint of a saver: its channels and their versions, by name."""
    for checkpoints in saver.storage[THREAD["configurable"]["thread_id"]].values():
        for id_, (saved, *rest) in [*checkpoints.items()]:
            checkpoint = saver.serde.loads_typed(saved)
            versions = checkpoint["channel_versions"]
            checkpoint["channel_versions"] = {
                new: v for name, v in versions.items() if (new := change(name))
            }
            checkpoints[id_] = (saver.serde.dumps_typed(checkpoint), *rest)
    for key in [*saver.blobs]:
        thread, namespace, name, version = key
        value = saver.blobs.pop(key)
        if new := change(name):
            saver.blobs[thread, namespace, new, version] = value


WRITTEN = (
    "turn",
    "round",
    "plan",
    "clock",
    "trajectory",
    "responses",
    "usages",
    "former_responses",
    "measured",
)
APPROVED = {"type": "approve", "candidate": 1}


@pytest.mark.slow
@pytest.mark.parametrize("channel", [*WRITTEN, "former_labels", "labels", "settled", "messages"])
@pytest.mark.parametrize("stops_after", ["prepare", "measure", None])
async def test_one_that_lacks_a_channel_is_refused_or_does_not_need_it(channel, stops_after):
    saver = InMemorySaver()
    stops = {} if stops_after is None else {"interrupt_after": [stops_after]}
    waiting(saver, saying("Paris", "Rome"), **stops).invoke({"question": "Capital?"}, THREAD)
    rewritten(saver, lambda name: None if name == channel else name)
    given = Command(resume=APPROVED) if stops_after is None else None
    graph = waiting(saver, saying("Paris", "Rome"))
    named = "an earlier version" if channel == "turn" else f'lacks "{channel}"'
    refusal = pytest.raises(
        CheckpointError, match=f"{named}.*ask the question again, which begins anew"
    )
    result = None
    is_needed = channel in ("turn", "round", "trajectory")
    with refusal if is_needed else suppress(CheckpointError):
        result = await graph.ainvoke(given, THREAD)
    if result is not None:
        assert "__interrupt__" in result or "decision" in result


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("stops_before", "node"), [("cluster", "cluster"), ("coordinator", "coordinator")]
)
async def test_one_that_continues_at_a_node_that_the_graph_does_not_have_is_refused(
    stops_before, node, is_async
):
    saver = InMemorySaver()
    waiting(saver, saying("x", "y"), interrupt_before=[stops_before]).invoke(
        {"question": "Capital?"}, THREAD
    )
    rewritten(saver, lambda name: name.replace(f"branch:to:{node}", "branch:to:an_old_name"))
    graph = waiting(saver, saying("x", "y")).with_config(tags=["tagged"])
    with pytest.raises(
        CheckpointError,
        match=r"continues at an_old_name, which the graph does not have\. Resume it",
    ):
        await graph.ainvoke(None, THREAD) if is_async else graph.invoke(None, THREAD)
    assert "__interrupt__" in graph.invoke(
        {"question": "Capital?"}, THREAD
    )  # asked again, it begins anew
    assert graph.invoke(Command(resume=APPROVED), THREAD)["decision"]["action"] == "answer"


def test_one_that_asks_agents_of_other_names_alone_is_refused():
    saver = InMemorySaver()
    interrupted(saver, saying("x", "y")).invoke({"question": "Capital?"}, THREAD)
    others = [ScriptedAgent(name, ["x"]) for name in ("new", "newer")]
    with pytest.raises(CheckpointError, match="continues at a, b, which the graph does not have"):
        waiting(saver, others).invoke(None, THREAD)
