import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import ModelAgent, ThresholdPolicy
from coe_agents.clustering import NormalizedMatch
from coe_agents.policy import Decision
from coe_agents.rounds import AdaptiveSampling, RoundPlan
from coe_agents.testing import ScriptedAgent
from tests.doubles import CountingModel
from tests.graph import groups
from tests.graph.groups import THREAD, ask, both


def graph(*agents, **options):
    return groups.graph(*agents, **{"adaptive": AdaptiveSampling(start=2, step=2), "min_agents": 1, **options})


def agents_of(*scripts):
    return [ScriptedAgent(name, script, n_samples=8) for name, script in zip("abc", scripts, strict=False)]


def asked(agent):
    """How many responses each asking of the first run wished for, and from which on."""
    return [(request["n_samples"], request.get("first_index", 0)) for request in agent.requests]


class Draws:
    """Settled once so many responses are there."""

    def __init__(self, n_responses, *actions):
        self.n_responses, self.actions = n_responses, actions or ("answer",)

    def decide(self, measurement, *, round, max_rounds):
        return Decision(self.actions[min(round, len(self.actions) - 1)], None, "as told")

    def is_settled(self, measurement):
        return sum(said.n_responses for said in measurement.agents.values()) >= self.n_responses


def test_a_doubtful_decision_takes_all_responses_and_pays_the_prompt_each_time():
    # 6 of 8 against 2 is an entropy of 0.562, just above 0.5
    agents = agents_of(["Paris", "Paris", "Paris", "Lyon"] * 2)
    result = both(graph(*agents), {"question": "Q?"})
    decision = result["decision"]
    assert asked(agents[0])[:4] == [(2, 0), (2, 2), (2, 4), (2, 6)]
    assert (decision["action"], decision["coe"]) == ("abstain", pytest.approx(0.5623, abs=1e-4))
    assert [row["index"] for row in result["responses"]] == list(range(8))
    assert decision["tokens"]["a"] == {"input_tokens": 12, "output_tokens": 8}
    # one round, however often they were asked
    (data,) = decision["trajectory"]
    assert (data["n_responses"], data["tokens"], data["round"]) == (8, 20, 0)
    assert (decision["n_rounds"], {row["round"] for row in result["responses"]}) == (1, {0})


def test_an_agent_that_says_nothing_or_fails_in_the_middle_keeps_what_it_said_and_is_not_asked_again():
    (mute,) = agents_of(["Paris", "Lyon"])  # of eight
    decision = ask(graph(mute, policy=Draws(99)))["decision"]
    assert asked(mute) == [(2, 0), (2, 2)]
    assert decision["failed_agents"] == {"a": 'InvalidReplyError: "a" gave no response'}
    assert decision["agents"]["a"]["n_responses"] == 2
    failing = FailsLater("a", ["Paris"] * 6, n_samples=6)
    other = ScriptedAgent("b", ["Paris"] * 6, n_samples=6)
    result = ask(graph(failing, other, policy=Draws(99)))
    decision = result["decision"]
    assert decision["failed_agents"] == {"a": "OSError: gone"}
    assert [said["n_responses"] for said in decision["agents"].values()] == [2, 6]
    (row,) = [row for row in result["responses"] if row["error"]]
    assert (row["index"], row["text"]) == (2, "")


class FailsLater(ScriptedAgent):
    def sample(self, request, config=None):
        if request.get("first_index"):
            raise OSError("gone")
        return super().sample(request, config)


def test_the_token_budget_ends_it_and_what_is_there_decides():
    # an asking costs 3 + 2 tokens
    for budget, n_askings in ((5, 1), (7, 1), (10, 2), (15, 3)):
        (agent,) = agents_of(["Paris", "Lyon"] * 4)
        decision = ask(graph(agent, policy=ThresholdPolicy(0.69), token_budget=budget))["decision"]
        assert len(agent.requests) == n_askings
        assert sum(decision["tokens"]["a"].values()) <= budget
        assert decision["action"] == "abstain"
        assert decision["reason"].startswith('the agent is split between "Lyon" and "Paris": a tie; not confident ')


def test_a_round_at_temperature_0_is_asked_once():
    model = CountingModel()
    agent = ModelAgent("a", model, n_samples=4)

    def cold(context):
        return RoundPlan({"a": {"temperature": 0}})

    strategies = dict.fromkeys(("ambiguous", "consensus"), cold)
    policy = Draws(99, "another_round", "answer")
    ask(graph(agent, policy=policy, max_rounds=2, strategies=strategies))
    assert [call["n"] for call in model.calls] == [2, 2, 1]
    sure = CountingModel()
    ask(graph(ModelAgent("a", sure, n_samples=1, temperature=0), adaptive=AdaptiveSampling(max_samples=9)))
    assert len(sure.calls) == 1


def test_a_run_that_is_killed_between_askings_goes_on_where_it_stood():
    broken = {"now": False}

    class Breaks(NormalizedMatch):
        def cluster(self, responses, questions):
            if broken["now"]:
                raise KeyboardInterrupt
            return super().cluster(responses, questions)

    class Counted(ScriptedAgent):
        def sample(self, request, config=None):
            broken["now"] = request.get("first_index") == 2 and len(self.requests) == 1
            return super().sample(request, config)

    agent = Counted("a", ["Paris", "Lyon"] * 4, n_samples=8)
    compiled = graph(agent, clusterer=Breaks(), policy=Draws(99)).compile(checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        compiled.invoke({"question": "Q?"}, THREAD)
    broken["now"] = False
    result = compiled.invoke(None, THREAD)
    assert asked(agent) == [(2, 0), (2, 2), (2, 4), (2, 6)]
    assert [row["index"] for row in result["responses"]] == list(range(8))
