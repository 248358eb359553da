import re
from inspect import signature

import pytest

import coe_agents
from coe_agents.evaluation import report
from coe_agents.testing import ScriptedAgent
from tests.cli.command import run

ASKED = [{"question": "Capital of France?", "references": ["Paris"]}]


def test_the_function_writes_the_page_of_the_command(tmp_path):
    agents = [ScriptedAgent(name, ["Paris", "Paris"]) for name in ("a", "b")]
    coe_agents.sample(agents, ASKED, out=tmp_path / "samples", progress=False)
    coe_agents.run(agents, ASKED, out=tmp_path / "run", progress=False)
    for name in ("samples", "run"):
        shown = run(
            "report", tmp_path / name, "--out", tmp_path / "command.html", "--resamples", 20
        )
        assert shown.stdout.startswith("1 question: ")
        page = report(tmp_path / name, tmp_path / "function.html", resamples=20)
        of_function, of_command = (
            re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "written when", path.read_text())
            for path in (page, tmp_path / "command.html")
        )
        assert "written when" in of_function
        assert of_function == of_command


def test_a_page_of_samples_that_are_open(tmp_path):
    agents = [ScriptedAgent(name, ["Paris", "Paris"]) for name in ("a", "b")]
    samples = coe_agents.sample(agents, ASKED, progress=False)
    assert "<html" in report(samples, tmp_path / "page.html", resamples=2).read_text()
    assert len(list(samples)) == 1


@pytest.mark.wording
def test_cut_replies_are_told_on_both_pages(tmp_path):
    agents = [ScriptedAgent(name, ["Paris"], end="cut") for name in ("a", "b")]
    for made in (coe_agents.sample, coe_agents.run):
        shown = made(agents, ASKED, progress=False)
        page = report(shown, tmp_path / "page.html", resamples=2)
        assert "2 of 2 responses were cut at max_tokens." in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"out": 5}, '"out" must be a path; got int'),
        ({"resamples": "all"}, '"resamples" must be an integer of at least 1'),
        ({"policy": 5}, '"policy" must have the method "decide"; got 5'),
        ({"samples": b"x"}, "files of samples must be .*; got bytes"),
        ({"samples": [5]}, "files of samples must be paths; got int"),
    ],
)
def test_report_says_what_an_argument_must_be(tmp_path, arguments, said):
    given = {"samples": tmp_path, "out": tmp_path / "page.html", **arguments}
    with pytest.raises((TypeError, ValueError), match=said):
        report(**given)


def test_what_is_advised_for_a_removed_argument_is_there(tmp_path):
    with pytest.raises(TypeError, match="which was removed") as refused:
        report(tmp_path, tmp_path / "page.html", workers=2)
    assert "score --processes" in str(refused.value)
    for advised in re.findall(r"Pass (\w+)", str(refused.value)):
        assert advised in signature(report).parameters
