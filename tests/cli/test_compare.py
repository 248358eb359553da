import csv
import html
import json
import sys
from dataclasses import replace

import pytest

from coe_agents import CalibratedPolicy, ThresholdPolicy, calibrate, compare
from coe_agents.decision.plots import create_figure
from coe_agents.policy import FixedRounds
from coe_agents.policy.calibrated import CalibratedAgent, UnkeptRiskWarning
from tests.cli.command import run
from tests.evaluation.invented import group, row, write
from tests.experiments.decided import step, written
from tests.policy.test_calibrated import CALIBRATION
from tests.rooms import needs

PRICES = {name: {"input": 1.0, "output": 4.0} for name in "ab"}


@pytest.fixture
def runs(tmp_path):
    plain = {str(i): step(correct=float(i % 4 > 0)) for i in range(20)}
    careful = {
        name: step(action="abstain", leading=0.0) if not int(name) % 4 else row
        for name, row in plain.items()
    }
    return (
        written(tmp_path / "plain", plain, prices=PRICES),
        written(tmp_path / "careful", careful, seconds=dict.fromkeys(careful, 0.5), prices=PRICES),
    )


def test_plain_sentences_come_first_and_differences_are_paired(runs):
    done = run("compare", *runs)
    words = " ".join(done.stdout.split())
    assert words.startswith(
        "plain answers 100.0% and is wrong in 25.0% of its answers. "
        "careful answers 75.0% and is wrong in 0.0% of its answers. "
        "Beyond chance on the 20 questions of both, it answers fewer and it has a lower risk."
    )
    assert "less the first -0.250 [-0." in words


def test_no_sentence_compares_few_questions_or_the_answers_of_other_questions(tmp_path):
    few = {"0": step()}
    first = {**few, **{f"first {i}": step() for i in range(9)}}
    other = {
        "0": step(action="abstain", leading=0.0),
        **{f"other {i}": step(correct=0.0) for i in range(9)},
    }
    done = run("compare", written(tmp_path / "first", first), written(tmp_path / "other", other))
    few = "They share 1 question, too few to compare."
    assert few in " ".join(done.stdout.split())
    alike = {f"held {i}": step(action="abstain", leading=0.0) for i in range(9)}
    first, other = (
        written(tmp_path / "a", {**first, **alike}),
        written(tmp_path / "b", {**other, **alike}),
    )
    words = " ".join(run("compare", first, other).stdout.split())
    assert "Risks are not compared: one of them is of fewer than 5 answers." in words


def test_other_questions_of_the_same_id_and_runs_without_a_decision_are_not_compared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "one", {"1": step()})
    written(tmp_path / "two", {"1": step("Another?")})
    run("compare", "one", "two", code=2)
    written(tmp_path / "down", {"1": "the server is down", "2": "still down"})
    run("compare", "down", code=2)


def test_json_and_csv(runs, tmp_path):
    done = run("compare", *runs, "--json", "--out", tmp_path / "out")
    said = json.loads(done.stdout)
    assert said["reference"] == "plain"
    _, careful = said["policies"]
    assert careful["differences"]["coverage"]["value"] == -0.25
    assert careful["figures"]["conformity"] == {"value": None, "low": None, "high": None}
    assert careful["n_common"] == 20
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"compare.csv"}
    with (tmp_path / "out" / "compare.csv").open() as file:
        rows = {(row["figure"], row["policy"]): row for row in csv.DictReader(file)}
    assert rows["answered", "plain"]["value"] == "1.0"
    assert rows["answered", "careful"]["less the first"] == "-0.25"


def test_runs_of_the_same_name_are_told_apart_and_one_folder_is_given_once(tmp_path):
    paths = [written(tmp_path / name / "run", {"1": step()}) for name in ("a", "b")]
    said = json.loads(run("compare", *paths, "--json").stdout)
    assert [each["name"] for each in said["policies"]] == ["a/run", "b/run"]
    again = run("compare", paths[0], paths[0], code=2)
    assert "each folder must be given once" in again.stderr


@pytest.mark.parametrize("name", ["risk.png", "risk"])
def test_the_picture_is_saved(runs, tmp_path, name):
    done = run("compare", *runs, "--plot", tmp_path / name)
    assert done.stdout.splitlines()[-1].endswith(name)
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_no_known_format_and_one_without_matplotlib_are_plain_errors(
    runs, tmp_path, monkeypatch
):
    done = run("compare", *runs, "--plot", tmp_path / "risk.xyz", code=2)
    assert "Format 'xyz' is not supported" in done.stderr
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("compare", *runs, "--plot", tmp_path / "risk.png", code=1)
    assert done.stderr.startswith("coe-agents: ImportError: ")
    with pytest.raises(
        ImportError, match=r'plots need matplotlib; pip install "coe-agents\[plots\]"'
    ):
        create_figure(1.0, 1.0)
    assert not list(tmp_path.glob("risk*"))


def test_a_replay_of_policies_is_that_of_the_function_and_has_their_costs(tmp_path):
    """Two responses of 3 tokens each at 2.0 a million, and half as many: 12 and 6 millionths a question."""
    rows = [
        row(f"q{place}", index=index, references=["Paris"], n_tokens=3)
        for place in range(10)
        for index in range(2)
    ]
    write(tmp_path / "s.jsonl", rows)
    for n_samples in (2, 1):
        agent = (
            f'[[agents]]\nname = "a"\nmodel = "m"\nprovider = "openai"\nn_samples = {n_samples}\n'
        )
        agent += "price_per_million = { input = 1.0, output = 2.0 }\n"
        policy = '[policy]\nkind = "threshold"\nmax_coe = 1\n[clusterer]\nkind = "normalized"\n'
        (tmp_path / f"of{n_samples}.toml").write_text(agent + policy)
    files = {name: tmp_path / f"{name}.toml" for name in ("of2", "of1")}
    policies = ",".join(map(str, files.values()))
    command = ("compare", tmp_path / "s.jsonl", "--policies", policies, "--resamples", 2)
    shown = json.loads(run(*command, "--json").stdout)
    assert compare(tmp_path / "s.jsonl", policies=files, resamples=2).to_json() == shown
    both, one = shown["policies"]
    assert both["figures"]["cost"]["value"] == pytest.approx(0.012)
    assert one["figures"]["cost"]["value"] == pytest.approx(0.006)
    assert "cost of 1000" in run(*command).stdout


def test_a_calibrated_policy_is_judged_by_the_criterion_that_it_was_calibrated_by(tmp_path):
    """Each answer holds its reference among other words: right by "contains", and wrong by equality."""
    rows = []
    for place in range(10):
        question = {"text": "It is Paris", "references": ["Paris"]}
        rows += [row(f"q{place}", "a", **question), row(f"q{place}", "b", **question)]
    samples = write(tmp_path / "s.jsonl", rows)

    asked = {name: CalibratedAgent(1, 1, "frequency") for name in "ab"}

    def policy_by(**judged_by):
        calibration = replace(CALIBRATION, agents=asked, **judged_by)
        policy = CalibratedPolicy(calibration)
        return FixedRounds(1, then=policy)

    def of(policies, **judged_by):
        comparison = compare(samples, policies=policies, resamples=2, progress=False, **judged_by)
        notes = []
        for each in comparison.policies:
            notes.append([note for note in each.notes if "when calibrated" in note])
        return comparison.judged["correctness"], notes

    known = {"clusterer": "NormalizedMatch"}
    contains = policy_by(correctness="contains", **known)
    assert of({"p": contains, "q": ThresholdPolicy(1.0)}) == ("contains", [[], []])

    other = "answers are judged by reference, and by contains when calibrated"
    assert of({"p": contains}, correctness="reference") == ("reference", [[other]])

    # a criterion that asks a model is not at hand, and of two that differ none is preferred
    by_judge = policy_by(correctness="judge", **known)
    line = "answers are judged by reference_or_label, and by {} when calibrated"
    assert of({"p": by_judge}) == ("reference_or_label", [[line.format("judge")]])
    both = of({"p": contains, "q": by_judge})
    assert both == ("reference_or_label", [[line.format(name)] for name in ("contains", "judge")])

    of_meaning = policy_by(correctness="reference_or_label", clusterer="Embeddings")
    clusters = "clusters come from NormalizedMatch, and from Embeddings when calibrated"
    assert of({"p": of_meaning}) == ("reference_or_label", [[clusters]])


@pytest.mark.parametrize("weights", ["equal", "learned"])
def test_a_policy_that_is_compared_on_its_own_questions_has_a_note(tmp_path, weights):
    own = write(tmp_path / "own.samples.jsonl", group(100))
    new = write(tmp_path / "new.samples.jsonl", group(100, seed=1))
    policy = tmp_path / "policy.json"
    run("calibrate", own, "--risk", 0.4, "--weights", weights, "--out", policy)

    # fewer responses than the calibration saw
    written = "".join(
        f'[[agents]]\nname = "{name}"\nmodel = "m"\nprovider = "openai"\nn_samples = 2\n'
        for name in "abc"
    )
    written += f'[policy]\nkind = "calibrated"\npath = "{policy}"\n'
    (tmp_path / "coe.toml").write_text(written)
    (tmp_path / "lax.toml").write_text(written.replace("calibrated", "regime").replace("path", "#"))

    def notes_of(samples):
        files = f"{tmp_path / 'coe.toml'},{tmp_path / 'lax.toml'}"
        shown = json.loads(
            run("compare", samples, "--policies", files, "--resamples", 2, "--json").stdout
        )
        told = []
        for each in shown["policies"]:
            told.append(any("are those of its calibration" in note for note in each["notes"]))
        return told

    assert notes_of(own) == [True, False]
    assert notes_of(new) == [False, False]


def test_a_question_that_only_agents_of_weight_0_answered_is_no_part_of_a_calibration(tmp_path):
    answered = group(60)
    alone = [row("alone", "a", text="right", references=["right"])]
    samples = write(tmp_path / "s.samples.jsonl", answered + alone)
    weights = {"a": 0.0, "b": 1.0, "c": 1.0}
    policy = calibrate(samples, risk=0.5, weights=weights, progress=False)
    with pytest.warns(
        UnkeptRiskWarning, match="other weights"
    ):  # a replay of a policy alone has equal ones
        comparison = compare(samples, policies={"p": policy}, resamples=2, progress=False)
    notes = comparison.policies[0].notes
    assert any("are those of its calibration" in note for note in notes)


SENTENCES = [*["The capital of France is Paris."] * 17, *["Paris"] * 43]
INSIDE = (
    "17 wrong answers contain a reference, but do not equal it. If they are sentences, judge by"
)


def in_sentences(path, **fields):
    rows = []
    for place, text in enumerate(SENTENCES):
        of_question = {"text": text, "references": ["Paris"], **fields}
        rows += [row(f"q{place:02}", agent, **of_question) for agent in "ab"]
    return write(path, rows)


@needs("advice", "pages")
def test_every_command_that_judges_by_equality_names_wrong_answers_with_a_reference_in_them(
    tmp_path,
):
    samples = in_sentences(tmp_path / "s.samples.jsonl")
    policy = tmp_path / "policy.json"
    run("calibrate", samples, "--risk", 0.5, "--out", policy)
    agents = ""
    for name in "ab":
        agents += f'[[agents]]\nname = "{name}"\nmodel = "m"\nprovider = "openai"\n'
    (tmp_path / "coe.toml").write_text(agents + '[policy]\nkind = "regime"\n')
    page = tmp_path / "page.html"

    replay = ("compare", samples, "--policies", tmp_path / "coe.toml", "--resamples", 2)
    told = {
        "compare": run(*replay).stdout,
        "drift": run("drift", policy, samples, code=None).stdout,
        "advise": run("advise", samples, "--resamples", 2).stdout,
        "weights": run("weights", samples, "--resamples", 2).stdout,
    }
    run("report", samples, "--out", page, "--resamples", 2)
    told["report"] = html.unescape(page.read_text())
    for command, said in told.items():
        assert INSIDE in " ".join(said.split()), command

    # a label that says wrong is believed
    labelled = in_sentences(tmp_path / "labelled.jsonl", correct=False)
    replay = ("compare", labelled, "--policies", tmp_path / "coe.toml", "--resamples", 2)
    assert "contain a reference" not in run(*replay).stdout
