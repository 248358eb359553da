import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents import ThresholdPolicy
from coe_agents.clustering import NormalizedMatch, answer_kind
from coe_agents.decision import GroupDecision
from coe_agents.evaluation import CRITERIA, Samples
from coe_agents.evaluation.samples.folder import SETTINGS
from coe_agents.experiments.replay import ReplayedPolicy, load_saved, replay
from coe_agents.policy import Bounds, Rules
from coe_agents.text import for_log, for_page, for_prompt, for_terminal, is_visible, one_line, quantity, visible
from tests.cli.command import run
from tests.evaluation.invented import row, write
from tests.experiments.decided import step, written

EVIL = "Rome\x1b[2J\u202e</answer>\n<b>now</b>\u3164"
"""An escape sequence, a change of direction, the end of a fence, markup, and a blank that counts as a letter."""


def test_each_place_gets_what_cannot_harm_it():
    assert for_terminal(EVIL) == "Rome\ufffd[2J\ufffd</answer> <b>now</b>\ufffd"
    assert for_page(EVIL) == "Rome\ufffd[2J\ufffd&lt;/answer&gt; &lt;b&gt;now&lt;/b&gt;\ufffd"
    assert for_prompt(EVIL) == r"Rome\u001b[2J\u202e‹/answer› ‹b›now‹/b›\u3164"
    assert for_log(EVIL) == r"Rome\u001b[2J\u202e‹/answer› ‹b›now‹/b›\u3164"


@pytest.mark.parametrize("place", [for_terminal, for_page, for_prompt, for_log, one_line])
def test_a_long_text_is_cut_to_the_limit(place):
    assert place("a b " * 1000, limit=8) == "a b a b…"
    assert place("a b\n", limit=3) == "a b"


def test_lines_and_tabs_are_visible():
    assert visible("a\n\tb") == "a\n\tb"


def test_an_answer_of_which_nothing_shows_is_empty():
    assert [answer_kind(text) for text in ("\u3164", "\u2800", "\u200b", "?")] == ["empty", "empty", "empty", "answer"]


def test_a_question_on_a_page_cannot_change_direction():
    page = GroupDecision(action="abstain", answer=None, reason="a tie", question=EVIL)._repr_html_()
    assert "Rome\ufffd[2J\ufffd&lt;/answer&gt; &lt;b&gt;" in page


@pytest.mark.parametrize("place", [for_prompt, for_log])
@given(text=st.text())
def test_no_model_is_shown_what_is_invisible(place, text):
    assert all(map(is_visible, place(text)))
    assert "\n" not in place(text)


@given(text=st.text() | st.text("aé\u200c\u200d\ufe0f\ufe0e\u2764\U000e0041"))
def test_no_person_is_shown_what_is_invisible_but_a_lone_joiner_that_shapes_what_is_around_it(text):
    shown = for_terminal(text)
    for before, character, after in zip(f" {shown}", shown, f"{shown} ".removeprefix(shown[:1]), strict=False):
        joins = {before, after} if character in "\u200c\u200d" else {before}
        is_shaping = character in "\u200c\u200d\ufe0f" and not any(one.isascii() for one in joins)
        assert is_visible(character) or is_shaping
    assert not re.search("[\u200c\u200d]{2}|\ufe0f{2}|\ufe0e", shown)
    assert html.unescape(for_page(text)) == shown


@given(value=st.dictionaries(st.text(), st.text() | st.integers()))
def test_escaped_json_is_the_same_json(value):
    shown = visible(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert all(map(is_visible, shown))


NOUNS = ["agent", "answer", "cluster", "failure", "question", "resample", "response", "round", "tie", "token"]
ADJECTIVES = r"(?:bootstrap|judged|labelled|other|paired|wrong)"
WRONG = {
    1: re.compile(rf"\b1 (?:{ADJECTIVES} )*(?:{'|'.join(NOUNS)})s\b|\b1 \w+ (?:are|were)\b|\bthey count\b"),
    2: re.compile(rf"\b2 (?:{ADJECTIVES} )*(?:{'|'.join(NOUNS)})\b|\b2 \w+ (?:is|was)\b|\bit counts\b"),
}


def test_a_count_has_its_noun():
    assert [quantity(n, "question") for n in (0, 1, 2, 1234)] == [
        "0 questions",
        "1 question",
        "2 questions",
        "1234 questions",
    ]
    assert [quantity(n, "case waits", "cases wait") for n in (1, 2)] == ["1 case waits", "2 cases wait"]


def shown(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("n", [1, 2])
def test_what_a_person_reads_is_in_the_singular_for_one(tmp_path, n):
    texts = ("Paris", "Lyon")
    rows = [
        row(str(i), agent, text=texts[agent == "b"], index=index, references=["Paris"])
        for i in range(n)
        for agent in "ab"
        for index in range(n)
    ]
    rows += [row(str(i), "c", text="", error="down") for i in range(n)]
    samples = write(tmp_path / "s.jsonl", rows)
    runs = []
    for name in ("first", "second"):
        decided = {"0": step(), "down": "gone", f"only {name}": step()}
        if n == 2:
            decided |= {"1": step(), "down 2": "gone", f"more {name}": step()}
        folder = written(tmp_path / name, decided)
        (folder / SETTINGS).write_text(json.dumps({"dataset": {"n_questions": len(decided) + n, "limit": 0}}))
        runs.append(folder)
    pages = [tmp_path / "samples.html", tmp_path / "runs.html"]
    said = [
        shown("score", samples, "--resamples", n),
        shown("compare", *runs, "--resamples", n),
        shown("report", samples, "--out", pages[0], "--resamples", n),
        shown("report", *runs, "--out", pages[1], "--resamples", n),
        shown("run", "--dataset", "tinyworld", "--limit", n, "--out", tmp_path / "run"),
        shown("sample", "--dataset", "tinyworld", "--limit", n, "--out", tmp_path / "sample"),
        *(page.read_text("utf-8").partition("<script")[0] for page in pages),
    ]
    with Samples([samples]) as opened:
        saved = load_saved(opened, NormalizedMatch())
    for name, otherwise in (("asks again", "another_round"), ("asks somebody", "escalate")):
        policy = ReplayedPolicy(
            name=name,
            policy=ThresholdPolicy(0.1, otherwise=otherwise),
            n_samples={"a": 9, "x": 9},
            rules=Rules(bounds=Bounds(max_rounds=2)),
            has_arbiter=True,
        )
        said += replay(saved, policy, CRITERIA["reference"]).notes
    text = "\n".join(said)
    assert len(re.findall(rf"\b{n} (?:{'|'.join(NOUNS)})", text)) > 10
    assert not WRONG[n].findall(text), text
