import logging
import math
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from coe_agents import RegimePolicy, create_coe_graph, prompts, sentences
from coe_agents.agents import ChatEntailment
from coe_agents.cli.ask import record_nodes
from coe_agents.clustering.entailment_wrappers import CachedEntailment
from coe_agents.clustering.unjudged import note_unjudged
from coe_agents.errors import AgentConnectionError, ClusteringError, NoChoiceError
from coe_agents.testing import ScriptedAgent
from coe_agents.tinyworld import model_folder
from tests.doubles import JudgingModel, ScoringModel

PAIR = ("Which city? Paris", "Which city? It is Paris.")
CONTRADICTION, NEUTRAL, ENTAILMENT = np.eye(3).tolist()


def says(reply):
    return ChatEntailment(FakeListChatModel(responses=[reply]))


LABELS = {
    "**Entailment**.": ENTAILMENT,
    "Answer: contradiction": CONTRADICTION,
    "Neutral, since neither.": NEUTRAL,
}


@pytest.mark.parametrize(("reply", "row"), LABELS.items())
def test_the_label_that_a_reply_states_gets_1(reply, row, caplog):
    judge = says(reply)
    assert judge.predict([PAIR]).tolist() == [row]
    assert judge.n_unclear == 0
    assert caplog.text == ""


UNCLEAR = ["", "no entailment", "entailment, contradiction, or neutral", "entails"]


@pytest.mark.wording
def test_the_log_quotes_the_first_reply_that_states_none(caplog):
    for reply in UNCLEAR:
        caplog.clear()
        says(reply).predict([PAIR])
        assert f'the first is "{reply}"' in caplog.text


@pytest.mark.parametrize("reply", UNCLEAR)
def test_a_reply_that_states_none_is_neutral_and_counted(reply, caplog):
    judge = says(reply)
    with caplog.at_level(logging.WARNING):
        assert judge.predict([PAIR, PAIR]).tolist() == [NEUTRAL, NEUTRAL]
    assert judge.n_unclear == 1
    assert "1 of 1 pair could not be judged by ChatEntailment, and count as neutral" in caplog.text


def test_a_judge_without_a_verdict_on_any_of_three_pairs_fails_the_question():
    pairs = [(f"Which city? {text}", PAIR[1]) for text in ("Paris", "Lyon", "Rome")]
    assert says("Well").predict(pairs[:2]).tolist() == [NEUTRAL, NEUTRAL]
    with pytest.raises(
        NoChoiceError, match="no verdict on any of 3 pairs; on the first: none of 1 replies"
    ):
        says("Well").predict(pairs)
    agents = [ScriptedAgent(name, [f"{name} is it"]) for name in ("Paris", "Lyon", "Rome", "Bern")]
    graph = create_coe_graph(
        agents, answers=sentences(says("Well").model), policy=RegimePolicy()
    ).compile()
    with pytest.raises(ClusteringError, match="ChatEntailment gave no verdict on any of 3 pairs"):
        graph.invoke({"question": "Which city?"})


def decide(judge, texts, **options):
    agents = [ScriptedAgent(text, [text]) for text in texts]
    graph = create_coe_graph(agents, answers=sentences(judge), policy=RegimePolicy(), **options)
    return graph.compile().invoke({"question": "Which city?"})["decision"]


@pytest.mark.parametrize(
    ("texts", "on"),
    [
        (["It is Paris.", "The city of Paris."], "the only pair: none"),
        (["It is Paris.", "Paris, it is.", "The city."], "any of 3 pairs; on the first: none"),
    ],
)
def test_a_judge_without_a_verdict_on_any_pair_of_a_question_fails_it_however_few(texts, on):
    judge = FakeListChatModel(responses=["Hmm, I like both."])
    what = f'the judge ChatEntailment gave no verdict on {on} of 1 replies .* "Hmm, I like both"'
    with pytest.raises(ClusteringError, match=what):
        decide(judge, texts)


def test_a_pair_that_could_not_be_judged_is_told_in_the_reason():
    def verdict(premise, hypothesis):
        return "Hmm" if "Rome" in premise + hypothesis else "contradiction"

    decision = decide(JudgingModel(verdict), ["It is Paris.", "It is Lyon.", "It is Rome."])
    assert (
        "; 2 of 3 pairs of answers could not be judged by ChatEntailment, and count as different; "
        in decision["reason"]
    )
    whole = decide(JudgingModel(lambda *pair: "contradiction"), ["It is Paris.", "It is Lyon."])
    assert "judged" not in whole["reason"]


def test_long_texts_that_no_judge_is_asked_about_are_told_and_no_failure():
    long = "x" * prompts.MAX_JUDGED
    judge = JudgingModel(lambda *pair: "entailment")
    decision = decide(judge, [f"{long} yes", f"{long} no"])
    assert "1 of 1 pair of answers could not be judged by ChatEntailment" in decision["reason"]
    assert judge.asked == []


def test_each_further_round_asks_again_what_had_no_verdict_and_what_it_remembers_is_judged():
    def verdict(premise, hypothesis):
        return "Hmm" if "Rome" in premise + hypothesis else "contradiction"

    model = JudgingModel(verdict)
    cached = CachedEntailment(ChatEntailment(model))
    pairs = [("Paris", "Lyon"), ("Paris", "Rome")]
    for n_asked in (2, 3):
        with note_unjudged() as noted:
            cached.predict(pairs)
        noted.check()
        assert (noted.judged, noted.unjudged) == ({pairs[0]}, {pairs[1]})
        assert len(model.asked) == n_asked


@pytest.mark.parametrize(
    ("scores", "row"),
    [
        pytest.param([0.125, 0.25, 0.5], [1 / 7, 2 / 7, 4 / 7], id="scores"),
        # the labels hold 0.4 together; entailment is the likeliest of them, and the reply is what counts
        pytest.param([0.1, 0.1, 0.2], CONTRADICTION, id="it-would-say-something-else"),
    ],
)
def test_log_probabilities_become_the_row_but_where_the_model_would_say_something_else_its_reply_is_read(
    scores, row
):
    model = ScoringModel(
        scores=[math.log(score) for score in scores], responses=["The answer is contradiction."]
    )
    assert ChatEntailment(model).predict([PAIR])[0] == pytest.approx(row)
    assert model.shown == [[prompts.entailment(*PAIR)]]


def test_a_model_in_this_process_that_would_say_something_else_is_read_as_any_other():
    pytest.importorskip("torch")
    judge = ChatEntailment(f"transformers:{model_folder('tiny-llama')}")
    assert judge.predict([PAIR]).tolist() == [NEUTRAL]
    assert judge.n_unclear == 1


def test_equal_pairs_are_asked_once_and_each_gets_its_row():
    model = JudgingModel(
        lambda premise, hypothesis: "entailment" if hypothesis == "yes" else "contradiction"
    )
    pairs = [("a", "yes"), ("a", "no"), ("a", "yes"), ("yes", "a")]
    assert ChatEntailment(model).predict([]).shape == (0, 3)
    rows = ChatEntailment(model).predict(pairs)
    assert rows.argmax(1).tolist() == [2, 0, 2, 0]
    assert sorted(model.asked) == sorted(set(pairs))


def test_in_a_graph_its_requests_are_traced_and_never_streamed():
    judge = JudgingModel(lambda *pair: "entailment")
    agents = [ScriptedAgent("a", ["Paris, of course."]), ScriptedAgent("b", ["It is Paris."])]
    graph = create_coe_graph(agents, answers=sentences(judge), policy=RegimePolicy()).compile()
    nodes = []
    shown = list(
        graph.stream(
            {"question": "Which?"}, {"callbacks": [record_nodes(nodes)]}, stream_mode="messages"
        )
    )
    assert [message.content for message, _ in shown] == ["Which?", "It is Paris."]
    assert len(nodes) == len(judge.asked) == 2  # scripted agents ask no chat model
    assert not {"a", "b"} & set(nodes)


def test_an_error_passes_through_with_a_note_and_what_waits_is_not_asked(monkeypatch):
    noticed = threading.Event()
    cancel = Future.cancel

    def noted(future):
        noticed.set()
        return cancel(future)

    def verdict(premise, hypothesis):
        if len(model.asked) == 2:
            noticed.wait(60)  # all others would have failed before the first failure was noticed
        raise ConnectionError("refused")

    monkeypatch.setattr(Future, "cancel", noted)
    model = JudgingModel(verdict)
    judge = ChatEntailment(model, max_concurrency=1)
    judge._agent.retries = 0
    with pytest.raises(AgentConnectionError, match="refused") as raised:
        judge.predict([("a", str(i)) for i in range(50)])
    assert raised.value.__notes__ == ["raised while ChatEntailment judged 50 pairs"]
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert len(model.asked) < 50


def test_texts_that_differ_only_where_nobody_looks_are_not_judged(caplog):
    model = JudgingModel(lambda premise, hypothesis: "entailment")
    judge = ChatEntailment(model)
    long = "x" * prompts.MAX_JUDGED
    with caplog.at_level(logging.WARNING):
        assert judge.predict([(f"{long} yes", f"{long} no"), (f"{long} yes", "yes")]).tolist() == [
            NEUTRAL,
            ENTAILMENT,
        ]
    assert judge.n_unclear == 1
    assert len(model.asked) == 1
