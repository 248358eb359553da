import re

from coe_agents.evaluation.origin import read_run
from coe_agents.pages.run_page import create_run_page
from tests.experiments.decided import step, went_on, written
from tests.pages.test_report_page import HOSTILE, Elements, block


def page(folder, rows):
    return create_run_page(read_run(written(folder, rows)), n_resamples=10)


def hostile():
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
            data |= {
                "answer": text,
                "led": [text, text],
                "leading": {text: text},
                "strategy": text,
                "regime": text,
            }
        rows[f"{text} {i}"] = row
        rows[f"{text} failed"] = text
        answered = step(text)
        answered["decision"]["answer"] = text
        rows[f"{text} given"] = answered
    return rows


def test_each_question_is_a_line_and_its_details_are_apart(tmp_path):
    rows = {
        "0": step("Zero?", correct=0.0),
        "1": step("One?", action="abstain", leading=1.0, coe=0.9),
        "2": step("Two?", action="escalate", leading=0.0, tokens={"a": (100, 50)}),
        "3": "no agent answered",
        "4": step("Four?"),
    }
    html = page(tmp_path / "run", rows)
    assert re.findall("<bdi>(.*?)</bdi></th>", html)[:4] == ["figure", "value", "low", "high"]
    overview = block(html, "overview")
    assert overview["ids"] == ["0", "1", "2", "4", "3"]  # what failed comes last
    assert overview["texts"] == ["Zero?", "One?", "Two?", "Four?", ""]
    columns = overview["columns"]
    assert columns["state"] == ["wrong", "refused", "escalated", "right", "failed"]
    assert columns["leading"] == [0.0, 1.0, 0.0, 1.0, None]
    assert columns["reason"][-1] == "no agent answered"
    details = block(html, "block-0")
    assert details[2]["tokens"] == [["a", 100, 50]]
    assert details[4] == {"error": "no agent answered"}


def test_no_text_of_a_model_is_part_of_the_markup(tmp_path):
    plain = page(tmp_path / "plain", {str(i): row for i, row in enumerate(hostile().values())})
    html = page(tmp_path / "hostile", hostile())
    elements = [[tag for tag, _ in Elements(text).found] for text in (plain, html)]
    assert elements[0] == elements[1]
    body = re.sub(r'<script type="text/plain" id="[\w-]+">[A-Za-z0-9+/=]*</script>', "", html)
    for text in HOSTILE[:2]:
        assert text not in body
    found = Elements(html).found
    policy = next(
        own["content"] for _, own in found if own.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    named = {name for _, own in found for name in own}
    assert not named & {"src", "href", "style"}
    assert not any(name.startswith("on") for name in named)
