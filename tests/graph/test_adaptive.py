import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import ModelAgent, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.policy import Decision
from coe_agents.rounds import AdaptiveSampling, Diversify, Resample
from coe_agents.testing import ScriptedAgent
from coe_agents.tinyworld import tinyworld_agents
from tests.doubles import CountingModel
from tests.graph.test_graph import both

SURE = ThresholdPolicy(0.5)
TWO_BY_TWO = AdaptiveSampling(start=2, step=2)


def graph(*agents, policy=SURE, adaptive=TWO_BY_TWO, **options):
    return create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=policy, adaptive=adaptive, retries=0, min_agents=1, **options
    )


def ask(built):
    return built.compile().invoke({"question": "Q?"})


def agents_of(*scripts, n_samples=8):
    return [ScriptedAgent(name, script, n_samples=n_samples) for name, script in zip("abc", scripts, strict=False)]


def asked(agent):
    """How many responses each asking of the first run wished for, and from which on."""
    return [(request["n_samples"], request.get("first_index", 0)) for request in agent.requests]


class Draws:
    """Settled once so many responses are there; notes what it sees."""

    def __init__(self, n_responses, *actions):
        self.n_responses, self.actions, self.seen = n_responses, actions or ("answer",), []

    def decide(self, measurement, *, round, max_rounds):
        return Decision(self.actions[min(round, len(self.actions) - 1)], None, "as told")

    def is_settled(self, measurement):
        self.seen.append(measurement)
        return sum(said.n_responses for said in measurement.agents.values()) >= self.n_responses


def test_agents_in_agreement_stop_early():
    agents = agents_of(["Paris"] * 8, ["Paris"] * 8, ["Paris"] * 8)
    result = both(graph(*agents, adaptive=AdaptiveSampling(start=3, step=2)), {"question": "Q?"})
    decision = result["decision"]
    assert (decision["action"], decision["answer"], decision["n_rounds"]) == ("answer", "Paris", 1)
    assert decision["agents"]["a"]["n_responses"] == 3
    assert decision["tokens"]["a"] == {"input_tokens": 3, "output_tokens": 3}


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


def test_max_samples_takes_the_place_of_the_agents_own_number():
    (agent,) = agents_of(["Paris"] * 20, n_samples=3)
    ask(graph(agent, policy=Draws(99), adaptive=AdaptiveSampling(start=4, step=4, max_samples=9)))
    assert asked(agent) == [(4, 0), (4, 4), (1, 8)]


def test_a_policy_sees_the_forecast_only_where_it_is_asked_to_settle():
    policy = Draws(6)
    decided = []
    policy.decide = lambda measurement, **_: decided.append(measurement) or Decision("abstain", None, "")
    ask(graph(*agents_of(["Paris", "Lyon"] * 4), policy=policy))
    assert [sum(a.n_responses for a in one.agents.values()) for one in policy.seen] == [2, 4, 6]
    widths = [one.forecast.total[1] - one.forecast.total[0] for one in policy.seen]
    assert widths[0] > widths[1] > widths[2] > 0  # it narrows as responses run out
    assert [one.forecast for one in decided] == [None]


def test_a_policy_that_never_settles_takes_all_at_once():
    class Plain:
        def decide(self, measurement, *, round, max_rounds):
            return Decision("answer", None, "as told")

    (agent,) = agents_of(["Paris"] * 8)
    assert ask(graph(agent, policy=Plain()))["decision"]["agents"]["a"]["n_responses"] == 8
    assert asked(agent) == [(8, 0)]


def test_an_agent_that_ignores_overrides_counts_with_all_it_says():
    class Foreign(ScriptedAgent):
        """Gives the same three at each asking, numbered from 0."""

    foreign = Foreign("foreign", ["Paris", "Lyon", "Nice"])
    result = both(graph(foreign, policy=Draws(99)), {"question": "Q?"})
    assert result["decision"]["agents"]["foreign"]["n_responses"] == 3  # how many it has, nobody knows
    assert len(foreign.requests) == 4  # one for each of the four runs

    told = Foreign("told", ["Paris", "Lyon", "Nice"])
    result = ask(graph(told, policy=Draws(99), adaptive=AdaptiveSampling(start=2, step=2, max_samples=8)))
    assert [request.get("first_index", 0) for request in told.requests] == [0, 3, 6]
    assert [row["index"] for row in result["responses"]] == list(range(9))


def test_an_agent_that_says_nothing_has_failed_and_is_not_asked_for_ever():
    (mute,) = agents_of(["Paris", "Lyon"])  # of eight
    decision = ask(graph(mute, policy=Draws(99)))["decision"]
    assert asked(mute) == [(2, 0), (2, 2)]
    assert decision["failed_agents"] == {"a": 'InvalidReplyError: "a" gave no response'}
    assert decision["agents"]["a"]["n_responses"] == 2


class FailsLater(ScriptedAgent):
    def sample(self, request, config=None):
        if request.get("first_index"):
            raise OSError("gone")
        return super().sample(request, config)


def test_an_agent_that_fails_in_the_middle_keeps_what_it_said_and_is_not_asked_again():
    failing = FailsLater("a", ["Paris"] * 6, n_samples=6)
    other = ScriptedAgent("b", ["Paris"] * 6, n_samples=6)
    result = both(graph(failing, other, policy=Draws(99)), {"question": "Q?"})
    decision = result["decision"]
    assert decision["failed_agents"] == {"a": "OSError: gone"}
    assert [said["n_responses"] for said in decision["agents"].values()] == [2, 6]
    (row,) = [row for row in result["responses"] if row["error"]]
    assert (row["index"], row["text"]) == (2, "")


def test_too_few_agents_are_not_asked_for_more():
    agents = [ScriptedAgent("a", OSError("gone")), *agents_of((), ["Paris"] * 8)[1:]]
    built = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=Draws(99), adaptive=TWO_BY_TWO, retries=0, min_agents=2
    )
    assert ask(built)["decision"]["action"] == "abstain"
    assert asked(agents[1]) == [(2, 0)]


def test_the_token_budget_ends_it_and_what_is_there_decides():
    # an asking costs 3 + 2 tokens
    for budget, n_askings in ((5, 1), (6, 2), (11, 3)):
        (agent,) = agents_of(["Paris", "Lyon"] * 4)
        decision = ask(graph(agent, policy=ThresholdPolicy(0.69), token_budget=budget))["decision"]
        assert len(agent.requests) == n_askings
        assert decision["action"] == "abstain"
        assert decision["reason"].startswith('the agent is split between "Lyon" and "Paris": a tie; CoE 0.693 ')


def test_the_deadline_ends_it_and_what_is_there_decides(clock):
    class Slow(ScriptedAgent):
        def sample(self, request, config=None):
            clock.now += 10
            return super().sample(request, config)

    agent = Slow("a", ["Paris"] * 8, n_samples=8)
    decision = ask(graph(agent, policy=Draws(99), deadline=15))["decision"]
    assert [request["timeout"] for request in agent.requests] == [15, 5]
    assert (decision["action"], decision["agents"]["a"]["n_responses"]) == ("answer", 4)


def test_a_top_up_of_a_debate_sees_the_debate_and_is_compared_with_the_round_before():
    policy = Draws(99, "another_round", "answer")
    agents = [ScriptedAgent(name, [own] * 4, ["Nice"] * 4, n_samples=4) for name, own in (("a", "Lyon"), ("b", "Nice"))]
    strategies = {"conflict": "debate"}
    decision = both(graph(*agents, policy=policy, max_rounds=2, strategies=strategies), {"question": "Q?"})["decision"]
    shown = [request["messages"][-1]["content"] for request in agents[0].requests[:4]]
    assert shown[0] == shown[1] == "Q?"
    assert shown[2] == shown[3] != "Q?"
    assert [data["n_responses"] for data in decision["trajectory"]] == [8, 8]
    assert decision["trajectory"][1]["adopted"] == {"a": True, "b": False}
    assert [len(one.history) for one in policy.seen[:2]] == [0, 1]


def test_a_round_whose_strategy_sets_a_number_has_that_many_at_most():
    policy = Draws(99, "another_round", "answer")
    (agent,) = [ScriptedAgent("a", ["Paris", "Lyon"] * 2, ["Lyon"] * 9, n_samples=4)]
    strategies = dict.fromkeys(("ambiguous", "consensus"), Resample(growth=1.25))
    decision = ask(graph(agent, policy=policy, max_rounds=2, strategies=strategies))["decision"]
    assert asked(agent)[2:] == [(2, 0), (2, 2), (1, 4)]  # 1.25 times the four of the first round, top-ups included
    assert decision["agents"]["a"]["n_responses"] == 9


def test_a_round_at_temperature_0_is_asked_once():
    model = CountingModel()
    agent = ModelAgent("a", model, n_samples=4)
    strategies = dict.fromkeys(("ambiguous", "consensus"), Diversify(temperature=0))
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
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    compiled = create_coe_graph([agent], clusterer=Breaks(), policy=Draws(99), adaptive=TWO_BY_TWO, retries=0).compile(
        checkpointer=saver
    )
    with pytest.raises(KeyboardInterrupt):
        compiled.invoke({"question": "Q?"}, thread)
    broken["now"] = False
    result = compiled.invoke(None, thread)
    assert asked(agent) == [(2, 0), (2, 2), (2, 4), (2, 6)]
    assert [row["index"] for row in result["responses"]] == list(range(8))


@pytest.mark.usefixtures("local_models")
def test_seeds_and_responses_are_those_of_one_request():
    question = "What is the capital of Bolivia?"  # each was taught two answers
    fixed, adaptive = (
        create_coe_graph(
            tinyworld_agents(n_samples=8),
            clusterer=NormalizedMatch(),
            policy=Draws(99) if plan else SURE,
            adaptive=plan,
        )
        .compile()
        .invoke({"question": question})
        for plan in (None, AdaptiveSampling(start=3, step=2))
    )
    said = [(row["agent"], row["index"], row["text"]) for row in fixed["responses"]]
    assert [(row["agent"], row["index"], row["text"]) for row in adaptive["responses"]] == said
    assert len({text for _, _, text in said}) > 3  # not the same seed again and again
    # a batch of another size rounds otherwise
    logprobs = [row["logprob"] for row in fixed["responses"]]
    assert [row["logprob"] for row in adaptive["responses"]] == pytest.approx(logprobs, abs=1e-4)
    assert adaptive["decision"]["coe"] == pytest.approx(fixed["decision"]["coe"], abs=1e-5)
    assert [record["n_requested"] for record in adaptive["decision"]["agents"]["tiny-llama"]["sampling"]] == [
        3,
        2,
        2,
        1,
    ]
