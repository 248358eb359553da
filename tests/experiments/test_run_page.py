import json
import re
from html import unescape

import pytest

from coe_agents.evaluation.run_decisions import DECISIONS, read_run
from coe_agents.experiments.run_page import create_run_page
from tests.evaluation.html.test_report_page import HOSTILE, Elements, block
from tests.experiments.decided import step, went_on, written


def page(folder, *runs, **options):
    read = [read_run(written(folder / f"run {place}", rows)) for place, rows in enumerate(runs)]
    return create_run_page(read, title="Two runs <b>", n_resamples=10, **options)


def two():
    """Returns two runs of six questions: two change from refused to answered, and one from right to refused."""
    before = {
        "0": step("Zero?"),
        "1": step("One?"),
        "2": step("Two?", action="abstain", leading=1.0, coe=0.9),
        "3": step("Three?", action="abstain", leading=0.0, coe=0.9),
        "4": step("Four?", action="escalate", leading=0.0),
        "gone": step("Gone?"),
    }
    after = {
        **{key: row for key, row in before.items() if key != "gone"},
        "1": step("One?", action="abstain", leading=1.0),
        "2": step("Two?", tokens={"a": (100, 50)}),
        "3": step("Three?", correct=0.0),
        "new": step("New?"),
    }
    return before, after


def hostile():
    """Returns a run in which every text of a model is hostile."""
    rows = {}
    for i, text in enumerate(HOSTILE):
        row = went_on((0.1, 0.2, True), (0.1, 0.1, False), question=text, adopted={text: True})
        decision = row["decision"]
        decision["reason"] = decision["decided_by"] = decision["regime"] = text
        decision["support"] = {text: 1.0}
        decision["agents"] = {text: {"sampling": [], "distribution": {text: 1.0}}}
        decision["tokens"] = {text: {"input_tokens": 1, "output_tokens": 1}}
        decision["failed_agents"] = {text: text}
        for data in decision["trajectory"]:
            data |= {"answer": text, "led": [text, text], "leading": {text: text}, "strategy": text, "regime": text}
        rows[f"{text} {i}"] = row
        rows[f"{text} failed"] = text
        answered = step(text)
        answered["decision"]["answer"] = text
        rows[f"{text} given"] = answered
    return rows


def test_two_runs_are_joined_by_question(tmp_path):
    html = page(tmp_path, *two(), names=["before", "after"])
    overview = block(html, "overview")
    assert overview["names"] == ["before", "after"]
    assert overview["ids"] == ["0", "1", "2", "3", "4", "gone", "new"]
    before, after = (run["state"] for run in overview["runs"])
    assert before == ["right", "right", "refused", "refused", "escalated", "right", "not in it"]
    assert after == ["right", "refused", "right", "wrong", "escalated", "not in it", "right"]
    text = unescape(html)
    assert (
        "The outcome differs in 3 of the 5 questions of both: refused → right 1, refused → wrong 1, right → refused 1."
        in text
    )
    assert "1 question is in before only, 1 in after only." in text
    assert "less the first" in text
    assert "Differences are paired, on the questions of both." in text
    (details,) = (block(html, "block-0"),)
    assert details[5][1] is None
    assert details[2][1]["tokens"] == [["a", 100, 50]]


def test_no_text_of_a_model_is_part_of_the_markup(tmp_path):
    plain = page(tmp_path / "plain", {str(i): row for i, row in enumerate(hostile().values())})
    html = page(tmp_path / "hostile", hostile(), names=[HOSTILE[1]])
    elements = [[tag for tag, _ in Elements(text).found] for text in (plain, html)]
    assert elements[0] == elements[1]
    body = re.sub(r'<script type="text/plain" id="[\w-]+">[A-Za-z0-9+/=]*</script>', "", html)
    for text in HOSTILE[:2]:
        assert text not in body
    found = Elements(html).found
    policy = next(own["content"] for _, own in found if own.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    named = {name for _, own in found for name in own}
    assert not named & {"src", "href", "style"}
    assert not any(name.startswith("on") for name in named)


def test_one_run_or_two(tmp_path):
    run = read_run(written(tmp_path / "run", {"1": step()}))
    for runs in ([], [run] * 3):
        with pytest.raises(ValueError, match="must hold one run or two"):
            create_run_page(runs, title="none")
    empty = written(tmp_path / "empty", {})
    assert json.loads((empty / DECISIONS).read_text() or "[]") == []
    with pytest.raises(ValueError, match="empty decided no question"):
        create_run_page([run, read_run(empty)], title="none")
