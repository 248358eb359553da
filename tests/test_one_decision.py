"""One decision: whatever was said, graph, replay and council decide it alike, since all of them settle it."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from coe_agents import RegimePolicy, SupportPolicy, ThresholdPolicy, create_coe_graph
from coe_agents.actions import ActionMatch
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.correctness import CRITERIA
from coe_agents.experiments.replays import ReplayedPolicy, load_saved, replay
from coe_agents.graph import GraphOptions
from coe_agents.middleware.deliberation import DRIVER, Deliberation, TurnProposals
from coe_agents.policy import Decision
from coe_agents.policy.bounds import Bounds
from coe_agents.policy.settle import Rules
from coe_agents.rounds.strategies import Strategies
from coe_agents.testing import ScriptedAgent, create_response
from tests.doubles import Rewriting
from tests.graph.groups import Deciding

PARAMETERS = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}},
    "required": ["amount"],
}
TOOL = {"type": "function", "function": {"name": "pay", "parameters": PARAMETERS}}


class Trusting:
    """Answers a tie, with its first answer by text."""

    def decide(self, measurement, *, round, max_rounds):
        return Decision(
            "answer", min(measurement.representatives), "it is trusted", trusted_answer=True
        )


POLICIES = st.sampled_from(
    [
        Deciding(Decision("answer", None, "it leads")),
        Trusting(),
        ThresholdPolicy(0.0),
        ThresholdPolicy(0.5),
        ThresholdPolicy(0.5, otherwise="escalate"),
        ThresholdPolicy(0.3, otherwise="another_round"),
        RegimePolicy(0.5, 0.3),
        SupportPolicy(0.3, min_votes=1),
        SupportPolicy(0.0, min_votes=2),
    ]
)
SAID = st.lists(
    st.lists(
        st.sampled_from(["Paris", "Lyon", "Rome", "I do not know", ""]), min_size=1, max_size=3
    ),
    min_size=2,
    max_size=3,
)
PAID = st.lists(st.sampled_from([None, 5, 6, 7]), min_size=3, max_size=3)


@settings(max_examples=12)
@given(SAID, POLICIES, st.integers(1, 3))
def test_a_graph_and_a_replay_decide_texts_alike(tmp_path_factory, said, policy, min_agents):
    said = dict(zip("abc", said, strict=False))
    min_agents = min(min_agents, len(said))
    agents = [ScriptedAgent(name, texts, n_samples=len(texts)) for name, texts in said.items()]
    graph = create_coe_graph(
        agents,
        clusterer=NormalizedMatch(),
        policy=policy,
        min_agents=min_agents,
        options=GraphOptions(canonicalize=None),
    ).compile()
    decision = graph.invoke({"question": "Which?"})["decision"]

    path = tmp_path_factory.mktemp("said") / "x.samples.jsonl"
    write(path, [{"agent": name, "text": text} for name, texts in said.items() for text in texts])
    outcome = replayed(
        path, policy, {name: len(texts) for name, texts in said.items()}, min_agents=min_agents
    )
    assert outcome.is_answered == (decision["action"] == "answer")
    assert outcome.is_escalated == (decision["action"] == "escalate")
    if outcome.is_answered:
        assert outcome.correct == float(decision["answer"] == "Paris")


@settings(max_examples=12)
@given(PAID, POLICIES)
def test_a_graph_a_replay_and_a_council_decide_proposals_alike(tmp_path_factory, paid, policy):
    rows = {
        name: propose(name, amount) for name, amount in zip(("driver", "b", "c"), paid, strict=True)
    }
    agents = [Rewriting(name, [row["text"]], calls=row["calls"]) for name, row in rows.items()]
    graph = create_coe_graph(agents, clusterer=ActionMatch(), policy=policy, tools=[TOOL]).compile()
    decision = graph.invoke({"question": "Pay."})["decision"]

    path = tmp_path_factory.mktemp("paid") / "x.samples.jsonl"
    lines = [
        {"agent": name, "text": row["text"], "calls": row["calls"], "tools": [TOOL]}
        for name, row in rows.items()
    ]
    write(path, lines)
    outcome = replayed(path, policy, dict.fromkeys(rows, 1))
    assert outcome.is_answered == (decision["action"] == "answer")

    calls = [{**call, "id": "1", "type": "tool_call"} for call in rows["driver"]["calls"]]
    driver = AIMessage(rows["driver"]["text"], tool_calls=calls)
    others = {name: row for name, row in rows.items() if name != DRIVER}
    replies = {
        name: {"responses": [row], "usage": None, "messages": {}} for name, row in others.items()
    }
    council = Deliberation(agents[1:], mode="choose", policy=policy, clusterer=ActionMatch())
    ruled = council.rule(TurnProposals(driver, replies, [TOOL], "Pay."))
    assert (ruled.decision["action"] == "answer") == (decision["action"] == "answer")
    if ruled.message is not None:
        assert [call["args"] for call in ruled.message.tool_calls] == [
            call["args"] for call in decision["calls"]
        ]

    verifying = Deliberation(agents[1:], mode="verify", policy=policy, clusterer=ActionMatch())
    verified = verifying.rule(TurnProposals(driver, replies, [TOOL], "Pay."))
    if (
        verified.decision["action"] == "answer"
    ):  # nothing goes on that a council which may choose would not choose
        assert ruled.decision["proposer"] == DRIVER
        assert verified.message is driver


def test_a_graph_and_a_replay_ask_for_as_many_responses(tmp_path):
    texts = ["Paris", "Lyon", "Rome"] * 30
    path = tmp_path / "x.samples.jsonl"
    write(
        path,
        [
            {"agent": name, "text": text, "n_tokens": 1, "input_tokens": 3}
            for name in "ab"
            for text in texts
        ],
    )
    policy = Deciding(Decision("another_round"))
    for budget in (None, 11, 23, 35, 47, 71, 95):
        agents = [ScriptedAgent(name, texts, n_samples=2) for name in "ab"]
        bounds = {"max_rounds": 3, "token_budget": budget}
        graph = create_coe_graph(
            agents, clusterer=NormalizedMatch(), policy=policy, strategies="resample", **bounds
        ).compile()
        decision = graph.invoke({"question": "Which?"})["decision"]
        options = {"strategies": Strategies("resample"), "bounds": Bounds(**bounds)}
        outcome = replayed(path, policy, dict.fromkeys("ab", 2), **options).decision
        assert outcome["tokens"] == decision["tokens"]
        assert outcome["n_rounds"] == decision["n_rounds"]


def propose(name, amount):
    calls = [] if amount is None else [{"name": "pay", "args": {"amount": amount}}]
    return create_response(name, "Nothing to do." if amount is None else "", calls=calls)


def replayed(path, policy, n_samples, *, min_agents=None, bounds=None, **how):
    with Samples([path]) as samples:
        saved = load_saved(samples, NormalizedMatch())
    rules = Rules(bounds=bounds or Bounds(max_rounds=1), min_agents=min_agents)
    found = replay(
        saved,
        ReplayedPolicy(name="p", policy=policy, n_samples=n_samples, rules=rules, **how),
        RIGHT,
    )
    (outcome,) = found.outcomes.values()
    return outcome


RIGHT = CRITERIA["reference"]


def write(path, rows):
    known = {"id": "1", "question": "Which?", "references": ["Paris"]}
    path.write_text(
        "".join(
            json.dumps({**known, "index": place, **row}) + "\n" for place, row in enumerate(rows)
        )
    )
