import socket

import pytest

from tests.chromium import NEEDS_CHROMIUM
from tests.experiments.decided import step
from tests.pages.test_browser import cells, change, opened, text
from tests.pages.test_run_page import hostile, page

pytestmark = NEEDS_CHROMIUM


def saved(folder, rows):
    path = folder / "page.html"
    path.write_text(page(folder / "run <b>", rows), "utf-8", errors="replace")
    return path


def shown(tab):
    return tab.run(
        "[...document.querySelectorAll('#questions .open')].map((button) => button.textContent)"
    )


def open_first(tab):
    tab.run("document.querySelector('.open').click()")
    tab.wait("document.querySelector('.detail')")


def test_nothing_of_a_model_runs_and_nothing_is_asked_for(pipe, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        rows = hostile()
        rows["asks"] = step(f'<img src="{address}/x"><link rel="stylesheet" href="{address}/y">')
        path = saved(tmp_path, rows)
        tab = opened(pipe, path)
        tab.run("for (const button of [...document.querySelectorAll('.open')]) button.click()")
        tab.wait("document.querySelectorAll('.detail').length >= 20")
        assert tab.run("document.title").startswith("run <b>")
        assert (
            tab.run(
                "document.querySelectorAll('main img, main link, main script, main svg[onload]').length"
            )
            == 0
        )
        assert tab.told == []
        assert [address for address in tab.asked if not address.startswith("file:")] == []
        with pytest.raises(TimeoutError):
            server.accept()


def test_questions_are_sorted_and_filtered_and_open_to_show_the_decision(pipe, tmp_path):
    rows = {
        "1": step("One?", action="abstain", coe=0.9),
        "2": step("Two?", coe=0.1),
        "3": step("Three?", action="abstain", coe=0.5),
        "4": "no agent answered",
    }
    tab = opened(pipe, saved(tmp_path, rows))
    tab.run("document.querySelector('th[data-key=coe] button').click()")
    assert shown(tab) == [
        "One?",
        "Three?",
        "Two?",
        "4",
    ]  # the highest first, and what is not known last
    change(tab, "#state-of", "refused")
    assert shown(tab) == ["One?", "Three?"]
    change(tab, "#state-of", "")
    change(tab, "#search", "two?")
    assert cells(tab, "#questions tbody tr:not([hidden])")[0][:2] == ["Two?", "✓ right"]
    open_first(tab)
    assert "Answered: Paris ✓ right" in text(tab, ".detail")
    change(tab, "#state-of", "failed")
    change(tab, "#search", "")
    open_first(tab)
    assert "The group failed: no agent answered" in text(tab, ".detail")


def test_claims_are_underlined_by_support_and_open_to_show_who_says_what(pipe, tmp_path):
    claim = {"text": "She <b>wrote</b>.", "action": "drop", "support_between": 0.25}
    claim["agents"] = {"b": {"supports": 0.25, "contradicts": 0.5, "silent": 0.25}}
    tab = opened(pipe, saved(tmp_path, {"one": step(claims=[claim, "no claim"])}))
    open_first(tab)
    assert tab.run("document.querySelector('.claim').style.getPropertyValue('--support')") == "25%"
    assert "left out, support 25.0 %" in text(tab, ".claims summary")
    tab.run("document.querySelector('.claims summary').click()")
    assert "b: supports it 25.0 %, contradicts it 50.0 %" in text(tab, ".claims details[open]")
