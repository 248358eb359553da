"""The functions from Python on scripted agents; tests/cli/test_same_figures.py compares them with the commands."""

import inspect
import itertools
import json
import math
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from matplotlib.text import Text
from typing_extensions import TypedDict

from coe_agents import (
    CalibratedPolicy,
    ModelAgent,
    RegimePolicy,
    ThresholdPolicy,
    aask,
    arun,
    asample,
    ask,
    calibrate,
    compare,
    create_coe_graph,
    create_sequential_graph,
    evaluate,
    run,
    sample,
    score,
)
from coe_agents.backends.entailment_transformers import TransformersEntailment
from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
from coe_agents.config.sampling_group import name_of_clusterer
from coe_agents.errors import ConfigurationError, DatasetError, NoThresholdError, SamplesError
from coe_agents.evaluation import Samples
from coe_agents.evaluation.origin import DECISIONS
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.scoring.correctness import Rule
from coe_agents.evaluation.scoring.scores import in_second_half
from coe_agents.experiments.calibrating import calibrate_samples
from coe_agents.experiments.runs import Runs
from coe_agents.policy import FixedRounds
from coe_agents.presets import mathematics
from coe_agents.testing import ScriptedAgent
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.tinyworld import tinyworld_clusterer
from coe_agents.types import create_usage
from tests.servers import answering, completion

SILENT: dict[str, Any] = {"progress": False}
CAPITAL = {"question": "Capital of France?", "references": ["Paris"]}
ALWAYS = ThresholdPolicy(float("inf"))


def agents(a=("Paris", "Paris"), b=("Paris", "Lyon")):
    return [ScriptedAgent("a", list(a)), ScriptedAgent("b", list(b))]


def asked(n):
    return [{"question": f"Question {number}?", "references": ["Paris"]} for number in range(n)]


def test_samples_are_what_was_asked_with_what_made_them():
    samples = sample(agents(), [CAPITAL, "Capital of Peru?"], **SILENT)
    assert len(samples) == 2
    frame = samples.to_frame()
    assert sorted(frame["agent"]) == ["a"] * 4 + ["b"] * 4
    assert frame["error"].isna().all()
    assert samples.origin.judging.clusterer == "normalized"
    assert samples.origin.answers == "short"
    assert sorted(samples.origin.agents) == ["a", "b"]


@pytest.mark.wording
def test_replies_that_max_tokens_cut_are_told_of_samples_and_runs():
    cut = AIMessage("Paris", response_metadata={"finish_reason": "length"})
    model = ScriptedDriver(script=[cut])
    group = [ModelAgent(name, model, n_samples=3, max_tokens=20) for name in "ab"]
    told = "6 of 6 responses were cut at max_tokens (20)."
    samples = sample(group, [CAPITAL], **SILENT)
    runs = run(group, [CAPITAL], **SILENT)
    for shown in (score(samples, resamples=2), runs):
        assert told in str(shown)


@pytest.mark.wording
def test_where_all_answers_are_wrong_a_sentence_stands_for_the_scores():
    shown = str(score(sample(agents(["Rome"], ["Lima"]), asked(3), **SILENT), resamples=2))
    assert "0 of 3 answers are right: no score can tell" in shown
    assert "AUROC" not in shown


@pytest.mark.parametrize(
    ("function", "returns"),
    [
        (sample, Samples),
        (asample, Samples),
        (run, Runs),
        (arun, Runs),
        (calibrate, CalibratedPolicy),
    ],
)
def test_the_signature_names_what_is_returned(function, returns):
    assert inspect.signature(function).return_annotation is returns


@pytest.mark.parametrize(
    ("function", "work"), [(sample, "sampling.sample_all"), (run, "running.decide_all")]
)
def test_a_temporary_folder_does_not_outlive_a_call_that_fails(
    function, work, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(f"coe_agents.experiments.{work}", None)
    with pytest.raises(TypeError, match="NoneType"):
        function(agents(), [CAPITAL], **SILENT)
    assert list(tmp_path.glob("coe-agents-*/run.*")) == []
    assert [
        path for path in tmp_path.glob("coe-agents-*") if (path / "settings.json").exists()
    ] == []


def test_questions_are_a_frame_or_a_table_too(tmp_path):
    frame = pd.DataFrame({"question": ["Q?", "R?"], "references": ["Paris", None]})
    (with_reference,) = [each for each in sample(agents(), frame, **SILENT) if each.references]
    assert (with_reference.text, with_reference.references) == ("Q?", ("Paris",))
    theirs = frame[:1].set_axis(["Frage", "Antwort"], axis=1)
    theirs.to_csv(tmp_path / "theirs.csv", sep=";", index=False)
    columns = {"question": "Frage", "references": "Antwort"}
    for questions in (theirs, tmp_path / "theirs.csv"):
        found = sample(agents(), questions, columns=columns, **SILENT)
        assert ("Paris",) in [each.references for each in found]
    with pytest.raises(DatasetError, match='question 0: "question"'):
        sample(agents(), [{"text": "Q?"}], **SILENT)


@pytest.mark.parametrize("questions", [CAPITAL, None, 5, b"Q?"])
def test_what_is_no_list_of_questions_is_refused_before_anybody_is_asked(questions):
    with pytest.raises(TypeError, match=r'"questions" must be a sequence.*Wrap a single question'):
        sample(agents(), questions, **SILENT)


@pytest.mark.parametrize("record", [5, None, ("question", "Q?"), b"Q?", {1: "Q?"}])
def test_what_is_neither_a_text_nor_a_record_is_named_with_its_place(record):
    with pytest.raises(DatasetError, match=r"question 1: .*Pass texts, or records"):
        sample(agents(), ["Q?", record], **SILENT)


def test_samples_show_how_much_they_hold_and_where(tmp_path):
    samples = sample(agents(), [CAPITAL, "Capital of Peru?"], out=tmp_path / "mine", **SILENT)
    place = tmp_path / "mine" / SAMPLES
    assert repr(samples) == f"<Samples: 8 records of 2 questions by a, b, in {place}>"
    with Samples([place, place]) as twice:
        pass
    assert repr(twice) == "<Samples: 16 records of 2 questions by a, b, in 2 files>"
    (tmp_path / "mine" / "settings.json").write_text("no JSON")
    assert repr(samples) == f"<Samples: 8 records of 2 questions, in {place}>"
    crowd = [ScriptedAgent(f"{number}\x1b[2J", ["Paris"]) for number in range(6)]
    shown = repr(sample(crowd, [CAPITAL], **SILENT))
    assert shown.startswith("<Samples: 6 records of 1 question by 6 agents, in ")


def test_a_failed_request_is_a_row_and_is_asked_again(tmp_path):
    failing = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ConnectionError("down"))]
    (question,) = sample(failing, [CAPITAL], out=tmp_path, **SILENT)
    assert [row["error"] for row in question.failures] == ["ConnectionError: down"]
    other = [ScriptedAgent("a", ["Lyon"]), ScriptedAgent("b", ["Lyon"])]
    with pytest.raises(ConfigurationError, match="other settings"):
        sample(other, [CAPITAL], out=tmp_path, **SILENT)


def test_a_sample_without_a_folder_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    samples = sample(agents(), [CAPITAL], **SILENT)
    assert list(samples.paths[0].parent.iterdir())
    del samples
    assert not list(tmp_path.iterdir())


class Unnumbered:
    """An agent that has no `n_samples`."""

    def __init__(self, agent):
        self.name, self.weight = agent.name, agent.weight
        self.sample, self.asample = agent.sample, agent.asample


class Greedy(ScriptedAgent):
    temperature = 0.0


def test_n_samples_replaces_the_number_of_agents_and_not_the_agents():
    """`ask`, `sample` and `run` read it alike; what has no number, or is always the same, keeps what it gives."""
    own = [
        ScriptedAgent("a", ["Paris"] * 3, n_samples=3),
        Unnumbered(ScriptedAgent("b", ["Paris"] * 3)),
        Greedy("c", ["Paris"] * 3, n_samples=1),
    ]

    def counts(n_samples):
        (question,) = sample(own, [CAPITAL], n_samples=n_samples, **SILENT)
        (item,) = run(own, [CAPITAL], n_samples=n_samples, **SILENT)
        decided = ask(CAPITAL["question"], own, n_samples=n_samples)
        counted = [Counter(row["agent"] for row in question.responses)]
        for asked in (item.decision["agents"], decided.agents):
            counted.append({name: of["n_responses"] for name, of in asked.items()})
        return counted

    assert counts(2) == [{"a": 2, "b": 3, "c": 1}] * 3
    assert own[0].n_samples == 3
    assert counts(None) == [{"a": 3, "b": 3, "c": 1}] * 3
    for function in (sample, run):
        with pytest.raises(ValueError, match=r'^"n_samples" must be an integer in .*; got 0'):
            function(own, [CAPITAL], n_samples=0, **SILENT)
    with pytest.raises(ValueError, match=r'^"n_samples" must be an integer in .*; got 0'):
        ask(CAPITAL["question"], own, n_samples=0)


async def test_an_unknown_argument_is_refused_by_the_function_that_was_called():
    def names(function):
        return pytest.raises(
            TypeError,
            match=rf"^{function} got an unexpected keyword argument 'n_sample'. Did you mean 'n_samples'\?",
        )

    for function in (sample, run, evaluate):
        with names(function.__name__):
            function(agents(), [CAPITAL], n_sample=3)
    for function in (asample, arun):
        with names(function.__name__):
            await function(agents(), [CAPITAL], n_sample=3)
    with names("ask"):
        ask("Capital?", agents(), n_sample=3)
    with names("aask"):
        await aask("Capital?", agents(), n_sample=3)
    with pytest.raises(TypeError, match=r"^calibrate got .* 'rsik'. Did you mean 'risk'\?"):
        calibrate(sample(agents(), [CAPITAL], **SILENT), rsik=0.1)
    with pytest.raises(TypeError, match=r"^create_coe_graph got .* Did you mean 'max_rounds'\?"):
        create_coe_graph(agents(), max_round=3)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'$"):
        run(agents(), [CAPITAL], zzz=1)


async def test_a_removed_argument_is_told_by_the_function_that_was_called():
    for function in (run, arun):
        name = function.__name__
        with pytest.raises(TypeError, match=f'^{name} must be called without "adaptive"'):
            await function(agents(), [CAPITAL], adaptive=True)
    with pytest.raises(TypeError, match='ask must be called without "adaptive"'):
        ask("Capital?", agents(), adaptive=True)


def test_a_configuration_says_its_own_policy(tmp_path):
    with pytest.raises(ValueError, match='"policy" must be omitted beside a configuration'):
        run("tinyworld", "tinyworld", policy=ALWAYS)
    graph = create_coe_graph(agents())
    with pytest.raises(ValueError, match='"policy" must be omitted beside a graph'):
        run(graph, [CAPITAL], policy=ALWAYS)


def test_a_frame_of_responses_is_samples():
    said = [("Paris", True), ("Lyon", False)]
    frame = pd.DataFrame(said, columns=["response", "correct"]).assign(question="Q?", agent="a")
    samples = Samples.from_frame(frame, columns={"text": "response"})
    (question,) = samples
    assert [(row["text"], row["correct"], row["index"]) for row in question.responses] == [
        ("Paris", True, 0),
        ("Lyon", False, 1),
    ]
    assert samples.origin.judging is None
    with pytest.raises(ValueError, match='"answer", which "columns" names, is missing'):
        Samples.from_frame(frame, columns={"text": "answer"})


def test_without_a_record_the_output_says_what_clusters():
    frame = pd.DataFrame({"id": ["1"] * 2, "agent": ["a", "b"], "text": ["Paris"] * 2})
    evaluation = score(Samples.from_frame(frame.assign(correct=True)), resamples=2)
    assert "The samples record no clusterer: NormalizedMatch compares" in str(evaluation)
    assert evaluation.to_frame()["score"].tolist() == list(evaluation.figures["scores"])


def test_what_a_model_says_is_kept_for_an_object_too_if_a_name_makes_the_same(
    tmp_path, monkeypatch
):
    said = []

    def predict(self, pairs):
        said.extend(pairs)
        return np.tile([0.0, 0.0, 1.0], (len(pairs), 1))

    monkeypatch.setattr(TransformersEntailment, "predict", predict)
    entails = {"clusterer": tinyworld_clusterer(), "correctness": "entailment"}
    samples = sample(agents(), asked(3), out=tmp_path / "run", **entails, **SILENT)
    first = score(samples, resamples=2, **SILENT)
    n_said = len(said)
    assert n_said > 0
    assert score(samples, resamples=2, **SILENT).figures == first.figures
    assert score(tmp_path / "run", resamples=2, clusterer=tinyworld_clusterer(), **SILENT)
    assert len(said) == n_said


def namesake(model):
    """A class of a user's that has the name of ours."""
    attributes = {
        "predict": lambda self, pairs: [],
        "model": model,
        "dtype": None,
        "revision": None,
    }
    return type("TransformersEntailment", (), attributes)()


@pytest.mark.parametrize(
    "model",
    [
        TransformersEntailment("folder", dtype="bfloat16"),
        TransformersEntailment("folder", revision="v1"),
        namesake("folder"),
    ],
)
def test_a_model_that_no_name_makes_again_is_recorded_by_its_class(model):
    clusterer = BidirectionalEntailment(model)
    assert name_of_clusterer(clusterer).endswith(":BidirectionalEntailment")


def test_rows_that_were_judged_calibrate_as_their_samples_do():
    samples = sample(agents(b=("Paris", "Paris")), asked(30), **SILENT)
    policy = calibrate(samples, risk=0.1)
    of_rows = calibrate(samples.judge(), risk=0.1)
    assert of_rows.calibration.threshold == policy.calibration.threshold == 0.0
    assert of_rows.calibration.clusterer == policy.calibration.clusterer == "NormalizedMatch"
    assert policy.calibration.answers == "short"
    with pytest.raises(NoThresholdError, match="No threshold is shown to keep a risk"):
        calibrate(samples, risk=0.01)
    with pytest.raises(ValueError, match='"proposer" must be an agent of the samples; got "c"'):
        calibrate(samples, risk=0.1, proposer="c")


def test_of_halves_the_reason_without_a_threshold_counts_the_half_that_chooses_it():
    samples = sample(agents(b=("Paris", "Paris")), asked(61), **SILENT)
    chosen = {"risk": 0.05, "weights": "agreement", "halves": True}
    with pytest.raises(NoThresholdError):
        calibrate(samples, **chosen)
    result = calibrate_samples(samples, **chosen)
    reason = " ".join([*result.policy.calibration.statements(), result.shortfall])

    # 45 right ones show 5 %: 0.05 ** (1 / 45); as many again go to the other half
    n_chosen_on = sum(in_second_half(row.id) for row in samples.judge())
    assert f"with confidence 0.9 on {n_chosen_on} questions." in reason
    assert f"{n_chosen_on} questions have an answer that could be given: too few" in reason
    assert f"Of the {n_chosen_on} surest, 0 of them wrong, the risk is at most" in reason
    assert "where 5.0% is wanted. If further ones err as rarely as these, about" in reason
    n_more = int(re.search(r"about (\d+) more labelled questions", reason)[1])
    assert n_more == pytest.approx(2 * (45 - n_chosen_on), abs=4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: calibrate([], 0.1),
            "calibrate must be called with at most 1 argument without a name; got 2. Name the others, such as risk=...",
        ),
        (lambda: calibrate([]), 'calibrate must be called with "risk"; got none. Pass risk=...'),
        (
            lambda: sample([], [], 5),
            "sample must be called with at most 2 arguments without a name; got 3. Name the others, such as ",
        ),
        (lambda: run([]), 'run must be called with "questions"; got none. Pass questions=...'),
    ],
)
def test_arguments_without_their_names_are_refused_by_the_name_of_the_function(call, said):
    with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
        call()


def test_only_a_table_with_a_dash_says_what_it_means():
    wrong_at_times = [{"question": "1?", "references": ["Paris"]}, *asked(5)[2:]]
    wrong_at_times += [{"question": "Capital of Peru?", "references": ["Lima"]}]
    samples = sample(agents(b=("Paris", "Paris")), wrong_at_times, **SILENT)
    told = str(score(samples, resamples=5))
    assert "AUROC" in told
    assert "95 % intervals" in told
    assert " - " not in told

    (alone,) = [compare(samples, policies={"p": ALWAYS}, resamples=2)]
    assert "paired" not in str(alone)
    both = compare(samples, policies={"p": ALWAYS, "q": ThresholdPolicy(0.1)}, resamples=2)
    assert "Differences are paired, on the questions of both." in str(both)


def test_a_calibrated_policy_prints_what_its_command_does():
    samples = sample(agents(b=("Paris", "Paris")), asked(30), **SILENT)
    policy = calibrate(samples, risk=0.1, correctness="contains")
    # none of 30 wrong: 1 - 0.1 ** (1 / 30) = 0.0739
    answered = "30 of 30 questions (100.0%), 0 wrong (0.0%; at most 7.4% with confidence 0.9)"
    assert str(policy).splitlines() == [
        f"Answer where vote share is at least 1.000: {answered}.",
        "Right by contains; clusters by NormalizedMatch.",
    ]


def test_a_reason_without_a_threshold_says_which_criterion_may_suit_the_answers():
    told = agents(("It is Paris.",) * 2, ("It is Paris.",) * 2)
    samples = sample(told, asked(30), clusterer=NormalizedMatch(), **SILENT)
    with pytest.raises(NoThresholdError, match=r'30 wrong answers .* correctness="contains"'):
        calibrate(samples, risk=0.1)


def test_a_calibrated_policy_fits_the_same_agents_and_says_when_rounds_were_added():
    samples = sample(agents(b=("Paris", "Paris")), asked(30), **SILENT)
    policy = calibrate(samples, risk=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (once,) = run(agents(b=("Paris", "Paris")), [CAPITAL], policy=policy, **SILENT)
        (debate,) = run(
            agents(b=("Paris", "Paris")),
            [CAPITAL],
            policy=FixedRounds(2, then=policy),
            strategies="debate",
            **SILENT,
        )
    assert "(risk at most 0.1 with confidence 0.9)" in once.decision["reason"]
    assert "(calibrated without further rounds, for a risk of at" in debate.decision["reason"]


def test_a_run_has_every_round_of_every_agent():
    changing = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Lyon"], ["Paris"])]
    policy = FixedRounds(2, then=RegimePolicy())
    runs = run(changing, [CAPITAL], policy=policy, strategies="debate", **SILENT)
    (item,) = runs
    assert item.action == "answer"
    assert item.correct == 1.0
    assert item.verdicts == (0.0, 1.0)
    frame = runs.to_frame(rounds=True)
    assert frame[["round", "agent", "answer"]].values.tolist() == [
        [0, "a", "Paris"],
        [0, "b", "Lyon"],
        [1, "a", "Paris"],
        [1, "b", "Paris"],
    ]
    assert frame["changed"].tolist()[2:] == [False, True]
    assert runs.to_frame()["n_rounds"].tolist() == [2]
    said = (
        "1 question: 1 answered, 0 of these wrong by reference_or_label; 0 withheld, 0 escalated."
    )
    assert str(runs).strip() == said  # no word of a folder that goes with it
    assert len(runs.plot().axes) == 3


def test_an_agent_that_failed_in_the_last_round_has_a_row_with_the_reason():
    failing = ScriptedAgent("b", ["Lyon"], ConnectionError("the server is down"))
    policy = FixedRounds(2, then=RegimePolicy())
    members = [ScriptedAgent("a", ["Paris"]), failing]
    runs = run(members, [CAPITAL], policy=policy, strategies="debate", **SILENT)
    assert "In 1 of them an agent failed in the last round" in str(runs)
    frame = runs.to_frame(rounds=True)
    rows = frame[["round", "agent", "answer", "group_answer", "error"]]
    last = rows.iloc[-1]
    assert rows.iloc[:3]["error"].isna().all()
    assert last[["round", "agent", "group_answer"]].tolist() == [1, "b", "Paris"]
    assert pd.isna(last["answer"])
    assert "the server is down" in last["error"]


def test_the_words_below_the_picture_of_scores_are_whole():
    samples = sample(agents(b=("Paris", "Lyon", "Lyon")), asked(3), **SILENT)
    figure = score(samples, resamples=2, **SILENT).plot()
    figure.draw_without_rendering()
    picture = figure.bbox
    (words,) = [text for text in figure.findobj(Text) if "AUROC" in text.get_text()]
    place = words.get_window_extent()
    assert place.width > 0
    assert place.x0 >= picture.x0
    assert place.x1 <= picture.x1
    assert place.y0 >= picture.y0
    assert place.y1 <= picture.y1


def test_a_run_without_references_is_drawn_without_accuracy():
    runs = run(agents(), ["Capital of Peru?"], policy=ALWAYS, **SILENT)
    figure = runs.plot()
    (axes,) = figure.axes
    figure.draw_without_rendering()
    # no point of the axes lies under it
    assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1
    assert axes.get_xticks().tolist() == [0]  # as the frame counts rounds


@pytest.mark.wording
def test_a_failed_question_is_a_row_and_no_decision(tmp_path):
    broken = [ScriptedAgent(name, ConnectionError("down")) for name in "ab"]
    runs = run(broken, [CAPITAL], out=tmp_path, **SILENT)
    (item,) = runs
    assert len(runs) == 1
    assert item.action == "failed"
    assert item.question == "Capital of France?"
    assert "too few agents answered" in runs.to_frame()["error"][0]
    assert "The group failed once" in str(runs)


class Ticket(TypedDict, total=False):
    text: str
    verdict: dict[str, Any]


@pytest.mark.wording
def test_a_graph_of_ones_own_holds_a_coe_graph():
    gate = create_coe_graph(agents(), policy=ALWAYS).compile()

    async def ask(ticket: Ticket) -> Ticket:
        return {"verdict": await gate.ainvoke({"question": ticket["text"]})}

    graph = StateGraph(Ticket).add_node("ask", ask).add_edge(START, "ask")
    where = {"input_key": "text", "decision_key": "verdict.decision"}
    (item,) = run(graph, [CAPITAL], **where, **SILENT)
    assert (item.action, item.correct) == ("answer", 1.0)
    (failed,) = run(graph, [CAPITAL], input_key="text", **SILENT)
    assert '"decision_key" must lead to the decision' in failed.error


def test_requests_of_other_nodes_count_one_each():
    usage = {**create_usage(3, 1), "total_tokens": 4}
    said = AIMessage("Paris", usage_metadata=usage)
    chat = GenericFakeChatModel(messages=itertools.cycle([said]))
    members = [ModelAgent(name, chat, n_samples=2) for name in "ab"]
    gate = create_coe_graph(members, policy=ALWAYS).compile()

    async def ask(ticket: Ticket) -> Ticket:
        for _ in range(3):
            await chat.ainvoke(ticket["text"])
        return {"verdict": await gate.ainvoke({"question": ticket["text"]})}

    graph = StateGraph(Ticket).add_node("ask", ask).add_edge(START, "ask")
    where = {"input_key": "text", "decision_key": "verdict.decision"}
    (item,) = run(graph, [CAPITAL], **where, **SILENT)
    assert item.decision["tokens"]["others"] == create_usage(9, 3)
    assert item.n_requests == 3 + 2 * 2


def test_the_last_step_of_a_chain_is_judged():
    gate = create_coe_graph(agents(b=("Paris", "Paris")), policy=ALWAYS).compile()
    chain = create_sequential_graph(gate, next_question=lambda *_: "And then?", max_steps=2)
    (item,) = run(chain, [CAPITAL], **SILENT)
    assert (item.correct, item.decision["n_rounds"]) == (1.0, 1)


def test_another_graph_in_the_same_folder_is_refused(tmp_path):
    run(create_coe_graph(agents(), policy=ThresholdPolicy(0.5)), [CAPITAL], out=tmp_path, **SILENT)
    same = create_coe_graph(agents(), policy=ThresholdPolicy(0.5))
    assert len(run(same, [CAPITAL], out=tmp_path, **SILENT)) == 1
    other = create_coe_graph(agents(), policy=ThresholdPolicy(0.4))
    with pytest.raises(ConfigurationError, match="what was built in Python"):
        run(other, [CAPITAL], out=tmp_path, **SILENT)


async def test_both_forms_run_where_a_loop_runs():
    samples = await asample(agents(), [CAPITAL], **SILENT)
    runs = await arun(agents(), [CAPITAL], **SILENT)
    assert len(samples) == len(runs) == 1
    assert len(sample(agents(), [CAPITAL], **SILENT)) == 1  # as in a notebook


def test_a_faulty_file_of_a_policy_is_named_before_anything_is_clustered(tmp_path):
    class Never:
        def cluster(self, responses, questions):
            raise AssertionError("it was clustered")

    faulty = tmp_path / "strict.toml"
    faulty.write_text('[policy]\nkind = "threshold"\n')
    samples = sample(agents(), [CAPITAL], **SILENT)
    with pytest.raises(ConfigurationError, match="strict"):
        compare(samples, policies={"strict": faulty}, clusterer=Never())


def test_a_run_and_its_comparison_name_wrong_answers_with_a_reference_in_them(tmp_path):
    said = [ScriptedAgent(name, ["Paris, as everybody knows"]) for name in "ab"]
    runs = run(said, asked(10), out=tmp_path / "run", policy=ALWAYS, **SILENT)
    note = "10 wrong answers contain a reference, but do not equal it."
    assert note in str(runs)
    (notes,) = [each.notes for each in compare(runs, resamples=2).policies]
    assert note in " ".join(notes)


def test_runs_are_compared_by_their_names():
    once = run(agents(), asked(6), policy=ALWAYS, **SILENT)
    never = run(agents(), asked(6), policy=RegimePolicy(0.0, 0.0), **SILENT)
    again = run(agents(), asked(6), policy=ALWAYS, **SILENT)
    comparison = compare(once, never, again, resamples=20)
    frame = comparison.to_frame()
    names = ["ThresholdPolicy", "RegimePolicy", "ThresholdPolicy 2"]
    assert frame["policy"].unique().tolist() == names
    answered = frame[frame["figure"] == "answered"]
    assert answered["value"].tolist() == [1.0, 0.0, 1.0]
    assert "ThresholdPolicy answers 100.0%" in str(comparison)
    assert len(comparison.plot().axes) == 1  # nobody is asked
    with pytest.raises(ValueError, match='"clusterer" must be omitted without "policies"'):
        compare(once, clusterer="normalized")


def test_policies_are_replayed_without_a_model():
    people = agents(b=("Paris", "Lyon", "Lyon"))
    samples = sample(people, asked(5), **SILENT)
    for agent in people:
        agent.requests.clear()
    policies = {"lax": ALWAYS, "asks": ThresholdPolicy(0.0, otherwise="escalate")}
    comparison = compare(samples, policies=policies, resamples=20)
    lax, asks = comparison.policies
    assert lax.figures["coverage"][0] == 1.0
    assert lax.figures["escalated"][0] == 0.0
    assert asks.figures["coverage"][0] == 0.0
    assert asks.figures["escalated"][0] == 1.0
    assert len(comparison.plot().axes) == 2
    assert not people[0].requests


def test_a_picture_shows_each_of_several_policies_in_one_place():
    samples = sample(agents(), asked(5), **SILENT)
    policies = {name: ThresholdPolicy(math.inf, otherwise="escalate") for name in ("one", "two")}
    policies |= {"three": ALWAYS, "asks": ThresholdPolicy(0.0, otherwise="escalate")}
    for axes in compare(samples, policies=policies, resamples=2).plot().axes:
        dots = {line.get_label(): line for line in axes.lines}
        drawn = [dots[name] for name in ("one", "two", "three")]
        sizes = [dot.get_markersize() for dot in drawn]
        assert sizes == sorted({*sizes})
        assert [dot.get_fillstyle() for dot in drawn] == ["full", "none", "none"]


def test_a_picture_names_a_policy_that_answers_nothing_and_one_whose_answers_are_not_judged():
    def names(questions, **policies):
        samples = sample(agents(), questions, **SILENT)
        comparison = compare(samples, policies=policies, resamples=2, **SILENT)
        (axes,) = comparison.plot().axes
        texts = axes.get_legend().get_texts()
        return [text.get_text() for text in texts]

    silent = RegimePolicy(actions={"consensus": "abstain"})
    assert names(asked(5), one=ALWAYS, two=silent) == ["one", "two: no answer"]
    assert names(["Capital of Peru?"], one=ALWAYS) == ["one: no answer is judged"]


def test_a_question_needs_no_references_until_it_is_scored(tmp_path):
    pd.DataFrame({"question": ["Q?", "R?"]}).to_csv(tmp_path / "only.csv", index=False)
    samples = sample(agents(), tmp_path / "only.csv", **SILENT)
    assert sorted(each.text for each in samples) == ["Q?", "R?"]
    with pytest.raises(SamplesError, match=r'of 2 it is not known .* Give "references"'):
        score(samples, **SILENT)
    silent = [ScriptedAgent("a", OSError("gone"))]
    with pytest.raises(SamplesError, match=r"2 have no response, .* Sample again"):
        score(sample(silent, ["Q?", "R?"], **SILENT), **SILENT)


def test_evaluate_asks_nobody_where_nothing_could_be_scored():
    people = agents()
    with pytest.raises(DatasetError, match=r"a list has references.* Give \"references\""):
        evaluate(people, ["Q?", "R?"], **SILENT)
    assert not any(agent.requests for agent in people)


def test_evaluate_samples_and_scores():
    evaluation = evaluate(agents(), asked(2), resamples=2, clusterer=NormalizedMatch(), **SILENT)
    assert (evaluation.figures["n_scored"], evaluation.figures["accuracy"]) == (2, 1.0)


KILLED = """
import os, signal, sys
from coe_agents import run
from coe_agents.presets import mathematics
from coe_agents.testing import ScriptedAgent
from coe_agents.types import create_usage

class Agent(ScriptedAgent):
    def sample(self, request, config=None):
        with open(sys.argv[2], "a") as asked:
            asked.write(request["question"] + "\\n")
        if os.path.getsize(sys.argv[2]) > int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().sample(request, config)

questions = [{"question": f"Question {n:03}?", "references": ["Paris"]} for n in range(500)]
run([Agent("a", ["Paris"])], questions, out=sys.argv[1], at_once=1, progress=False)
"""


@pytest.mark.slow
def test_a_killed_run_asks_each_question_once(tmp_path):
    asked_of = tmp_path / "asked"
    for most, code in ((200 * 14, -signal.SIGKILL), (10**9, 0)):
        command = [sys.executable, "-c", KILLED, tmp_path / "run", asked_of, str(most)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    lines = (tmp_path / "run" / DECISIONS).read_text().splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == len(lines) == 500
    # the one in hand when the process was killed is asked again
    assert len(asked_of.read_text().splitlines()) == 501


def test_another_way_to_judge_than_a_folder_records_is_refused(tmp_path):
    sample(agents(), [CAPITAL], correctness="contains", out=tmp_path, **SILENT)
    with pytest.raises(
        ConfigurationError,
        match=r"judged\.correctness: 'contains' there, 'f1' here.*pass it to score",
    ):
        sample(agents(), [CAPITAL], correctness="f1", out=tmp_path, **SILENT)
    with pytest.raises(ConfigurationError, match="'normalized' there, 'coe_agents"):
        sample(agents(), [CAPITAL], answers=mathematics(), out=tmp_path, **SILENT)
    with pytest.raises(ConfigurationError, match="'contains' there, 'f1' here"):
        evaluate(agents(), [CAPITAL], correctness="f1", out=tmp_path, **SILENT)
    # what is not said stays
    resumed = sample(agents(), [CAPITAL], out=tmp_path, **SILENT)
    assert resumed.origin.judging.correctness == "contains"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"correctness": "contain"}, 'no criterion "contain". Did you mean "contains"?'),
        ({"correctness": "exactly"}, 'no criterion "exactly". Name one of reference_or_label'),
        ({"clusterer": "normalised"}, "got 'normalised'. Did you mean \"normalized\"?"),
    ],
)
def test_a_misspelt_name_is_refused_before_anybody_is_asked(argument, message, tmp_path):
    people = agents()
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        sample(people, [CAPITAL], out=tmp_path / "new", **argument, **SILENT)
    assert [refusal.value.field] == list(argument)
    assert not any(agent.requests for agent in people)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("correctness", ["judge", "entailment"])
def test_evaluate_asks_nobody_where_the_criterion_lacks_its_model(correctness):
    people = agents()
    with pytest.raises(ValueError, match=f'"{correctness}"'):
        evaluate(people, [CAPITAL], correctness=correctness, **SILENT)
    assert not any(agent.requests for agent in people)


def test_evaluate_judges_by_the_judge_of_its_configuration(tmp_path):
    with answering(lambda body: completion("correct")) as server:
        section = f'provider = "openai"\nmodel = "m"\nbase_url = "{server.url}"\n'
        path = tmp_path / "coe.toml"
        path.write_text(
            f'[[agents]]\nname = "a"\non_greedy = "count_once"\n{section}'
            f'[clusterer]\nkind = "normalized"\n[judge]\n{section}'
        )
        found = evaluate(path, [CAPITAL], correctness="judge", resamples=2, **SILENT)
    assert (found.figures["correctness"], found.figures["accuracy"]) == ("judge m", 1.0)


def test_a_criterion_of_ones_own_is_for_the_score():
    own = Rule("own", lambda prediction: True)
    with pytest.raises(TypeError, match='"correctness" of sample must be the name of a criterion'):
        sample(agents(), [CAPITAL], correctness=own, **SILENT)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"weighting": "mean"}, '"weighting" must be one of auto, frequency, probability'),
        ({"correctness": 5}, '"correctness" must have the method "judge"; got 5'),
        ({"config": 5}, '"config" must have the method "model_dump"; got 5'),
        ({"resamples": 0}, '"resamples" must be an integer of at least 1; got 0'),
        ({"resamples": "all"}, '"resamples" must be an integer'),
        ({"estimators": [len]}, '"estimators" must be a mapping from names to functions; got list'),
        ({"proposer": 5}, '"proposer" must be the name of an agent; got int'),
    ],
)
def test_score_says_what_an_argument_must_be(arguments, said):
    samples = sample(agents(), [CAPITAL], **SILENT)
    with pytest.raises((TypeError, ValueError), match=said):
        score(samples, progress=False, **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"score": 5}, '"score" must be the name of a score; got int'),
        ({"score": "cow"}, "confidence_vote_share, .*trusted_vote_share, or your own; got 'cow'"),
        ({"score": "trusted_vote_shar"}, 'Did you mean "trusted_vote_share"?'),
        (
            {"score": "p_false"},
            r"got 'p_false'. P\(False\) takes a further request to each agent: it is for `score` alone. Name another$",
        ),
        (
            {"score": "best_single_model"},
            "The best single model is chosen on all questions at once: it is for `score` alone. Name another$",
        ),
        ({"proposer": 5}, '"proposer" must be the name of an agent; got int'),
        ({"weighting": "mean"}, '"weighting" must be one of auto, frequency, probability'),
        ({"correctness": 5}, '"correctness" must have the method "judge"'),
        ({"halves": "no"}, "\"halves\" must be True or False; got 'no'"),
    ],
)
def test_calibrate_says_what_an_argument_must_be(arguments, said):
    samples = sample(agents(), [CAPITAL], **SILENT)
    with pytest.raises((TypeError, ValueError), match=said):
        calibrate(samples, risk=0.1, progress=False, **arguments)


def test_a_risk_that_is_none_is_refused_before_answers_are_judged():
    def judge(prediction):
        raise AssertionError("it was judged")

    samples = sample(agents(), [CAPITAL], **SILENT)
    for share in ({"risk": 10}, {"risk": 0.1, "confidence": "high"}):
        with pytest.raises((TypeError, ValueError), match="must be a number above 0 and below 1"):
            calibrate(samples, correctness=Rule("own", judge), **share, **SILENT)


@pytest.mark.parametrize("function", [score, partial(calibrate, risk=0.1), Samples])
@pytest.mark.parametrize("samples", [5, None, {"text": "Paris"}, [{"text": "Paris"}], [5]])
def test_what_is_no_file_of_samples_is_refused_with_the_way_to_pass_rows(function, samples):
    with pytest.raises(TypeError, match=r"files of samples must be .*Samples\.from_frame"):
        function(samples)


def test_a_comparison_needs_a_resample():
    with pytest.raises(ValueError, match='"resamples" must be an integer of at least 1'):
        compare([], resamples=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"limit": -1}, '"limit" must be an integer of at least 0; got -1'),
        ({"limit": "all"}, '"limit" must be an integer'),
        ({"seed": "a"}, '"seed" must be an integer'),
        ({"at_once": 0}, '"at_once" must be an integer of at least 1; got 0'),
        ({"columns": ["text"]}, '"columns" must be a mapping from our names to theirs; got list'),
        ({"models": []}, '"models" must hold at least one'),
        ({"models": [5]}, 'each of "models" must have the method "sample"; got 5'),
        ({"clusterer": 5}, '"clusterer" must have the method "cluster"; got 5'),
        ({"answers": 5}, '"answers" must be a preset; got int'),
        ({"correctness": []}, '"correctness" .*must .*; got'),
        ({"out": 5}, '"out" must be a path; got int'),
        ({"out": b"run"}, '"out" must be a path; got bytes'),
        ({"split": 5}, '"split" must be the name of a part of a dataset; got int'),
        ({"split": "test"}, "\"split\" must be omitted beside questions .* got 'test'. Omit it"),
        ({"progress": "no"}, "\"progress\" must be True or False; got 'no'"),
    ],
)
@pytest.mark.parametrize("function", [sample, run, evaluate])
def test_what_asks_says_what_an_argument_must_be_before_anybody_is_asked(function, arguments, said):
    people = agents()
    with pytest.raises((TypeError, ValueError), match=said):
        function(**{"models": people, "questions": [CAPITAL], **SILENT, **arguments})
    assert not any(agent.requests for agent in people)


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (sample, {"with_context": "no"}, '"with_context" must be True or False'),
        (sample, {"p_false": "no"}, '"p_false" must be True or False'),
        (run, {"input_key": 5}, '"input_key" must be the name of a key; got int'),
        (run, {"decision_key": None}, '"decision_key" must be the name of a key; got NoneType'),
        (run, {"policy": FixedRounds(2, then=ALWAYS), "max_rounds": "2"}, '"max_rounds" must be'),
        (evaluate, {"weighting": 5}, '"weighting" must be one of auto, frequency, probability'),
        (evaluate, {"resamples": "all"}, '"resamples" must be an integer of at least 1'),
        (evaluate, {"proposer": 5}, '"proposer" must be the name of an agent; got int'),
        (evaluate, {"proposer": "c"}, '"proposer" must be an agent of the samples; got "c"'),
        (evaluate, {"correctness": "entailment", "answers": 5}, '"answers" must be a preset'),
    ],
)
def test_what_one_function_takes_is_checked_before_anybody_is_asked(function, arguments, said):
    people = agents()
    with pytest.raises((TypeError, ValueError), match=said):
        function(people, [CAPITAL], **{**SILENT, **arguments})
    assert not any(agent.requests for agent in people)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"policies": {"x": 5}}, '"policies" \'x\' must have the method "decide"; got 5'),
        ({"max_rounds": "2"}, '"max_rounds" must be an integer'),
        ({"max_rounds": 0}, '"max_rounds" must be an integer'),
        ({"clusterer": 5}, '"clusterer" must have the method "cluster"; got 5'),
        ({"progress": "no"}, '"progress" must be True or False'),
    ],
)
def test_compare_says_what_an_argument_must_be(arguments, said):
    samples = sample(agents(), [CAPITAL], **SILENT)
    with pytest.raises((TypeError, ValueError), match=said):
        compare(samples, **{"policies": {"x": ALWAYS}, **SILENT, **arguments})


@pytest.mark.parametrize("at_once", [0, -1, "all"])
def test_a_graph_is_asked_at_least_one_question_at_a_time(at_once):
    with pytest.raises((TypeError, ValueError), match='"at_once" must be an integer of at least 1'):
        run(create_coe_graph(agents()), [CAPITAL], at_once=at_once, **SILENT)


def test_a_comparison_needs_a_run():
    with pytest.raises(ValueError, match='"runs" must hold at least one run'):
        compare()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"correctness": 5}, '"correctness" must have the method "judge"; got 5'),
        ({"strategies": 5}, '"strategies" must be one strategy, or a mapping'),
    ],
)
def test_run_says_what_its_own_arguments_must_be(arguments, said):
    with pytest.raises(TypeError, match=said):
        run(agents(), [CAPITAL], **SILENT, **arguments)
