"""The page of runs in a real browser: what it shows, and that nothing of a model runs."""

import socket

import pytest

from tests.chromium import NEEDS_CHROMIUM
from tests.evaluation.html.test_browser import cells, change, opened, text
from tests.experiments.decided import step
from tests.experiments.test_run_page import HOSTILE, hostile, page, two

pytestmark = NEEDS_CHROMIUM


def saved(folder, *runs, **options):
    path = folder / "page.html"
    path.write_text(page(folder, *runs, **options), "utf-8", errors="replace")
    return path


def shown(tab):
    return tab.run("[...document.querySelectorAll('#questions .open')].map((button) => button.textContent)")


def open_first(tab):
    tab.run("document.querySelector('.open').click()")
    tab.wait("document.querySelector('.detail')")


def test_nothing_of_a_model_runs_and_nothing_is_asked_for(pipe, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        rows = hostile()
        rows["asks"] = step(f'<img src="{address}/x"><link rel="stylesheet" href="{address}/y">')
        path = saved(tmp_path, rows, rows, names=[f"{HOSTILE[0]} a", f"{HOSTILE[1]} b"])
        tab = opened(pipe, path)
        tab.run("for (const button of [...document.querySelectorAll('.open')]) button.click()")
        tab.wait("document.querySelectorAll('.detail').length >= 20")
        assert tab.run("document.title").startswith("Two runs")
        assert tab.run("document.querySelectorAll('main img, main link, main script, main svg[onload]').length") == 0
        assert tab.told == []
        assert [address for address in tab.asked if not address.startswith("file:")] == []
        with pytest.raises(TimeoutError):
            server.accept()


def test_two_runs_show_what_changed_and_a_number_lists_its_questions(pipe, tmp_path):
    tab = opened(pipe, saved(tmp_path, *two(), names=["before", "after"]))
    heads, *_ = cells(tab, "#changes thead tr")
    assert heads == ["", "right", "wrong", "refused", "escalated", "not in it"]
    table = {row[0]: row[1:] for row in cells(tab, "#changes tbody tr")}
    assert table["refused"] == ["1", "1", "–", "–", "–"]
    assert table["right"] == ["1", "–", "1", "–", "1"]
    # what changed comes first
    assert set(shown(tab)[:5]) == {"One?", "Two?", "Three?", "Gone?", "New?"}
    tab.run("document.querySelector('#changes button[aria-label^=\"refused → wrong\"]').click()")
    (line,) = cells(tab, "#questions tbody tr:not([hidden])")
    assert line[0] == "Three?"
    assert line[1] == "refused → ✕ wrong"
    assert text(tab, "#change option:checked") == "refused → wrong"
    change(tab, "#change", "any change")
    assert len(shown(tab)) == 5
    change(tab, "#search", "two?")
    assert cells(tab, "#questions tbody tr:not([hidden])")[0][4] == "+120"  # 150 tokens instead of 30
    open_first(tab)
    assert tab.run("[...document.querySelectorAll('.side h3')].map((head) => head.textContent)") == ["before", "after"]
    sides = tab.run("[...document.querySelectorAll('.side')].map((side) => side.textContent)")
    assert "Refused" in sides[0]
    assert "Answered: Paris ✓ right" in sides[1]
    change(tab, "#search", "gone?")
    open_first(tab)
    assert "This run does not have the question." in text(tab, ".detail")


def test_claims_are_underlined_by_support_and_open_to_show_who_says_what(pipe, tmp_path):
    claim = {"text": "She <b>wrote</b>.", "action": "drop", "support_between": 0.25}
    claim["agents"] = {"b": {"supports": 0.25, "contradicts": 0.5, "silent": 0.25}}
    tab = opened(pipe, saved(tmp_path, {"one": step(claims=[claim, "no claim"])}))
    open_first(tab)
    assert tab.run("document.querySelector('.claim').style.getPropertyValue('--support')") == "25%"
    assert "left out, support 25.0 %" in text(tab, ".claims summary")
    tab.run("document.querySelector('.claims summary').click()")
    assert "b: supports it 25.0 %, contradicts it 50.0 %" in text(tab, ".claims details[open]")
