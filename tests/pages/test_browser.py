import json
import re
import socket

import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.calibration.calibrate import judge_samples
from coe_agents.policy import RegimePolicy, ThresholdPolicy
from tests.chromium import NEEDS_CHROMIUM, Page
from tests.evaluation.invented import group, row
from tests.pages.test_report_page import HOSTILE, hostile, page
from tests.waiting import wait_until

pytestmark = NEEDS_CHROMIUM
N = 110


def saved(tmp_path, rows, **options):
    path = tmp_path / "page.html"
    path.write_text(page(tmp_path, rows, **options), "utf-8", errors="replace")
    return path


def opened(pipe, path, **options):
    tab = Page(pipe, **options)
    tab.open(path)
    return tab


def text(tab, selector):
    return tab.run(f"document.querySelector({json.dumps(selector)}).textContent")


def place(tab, selector, x, y):
    """Brings a chart into view; returns where a place of it, in its own units, is on the screen."""
    node = f"document.querySelector({json.dumps(selector)})"
    tab.run(f"{node}.scrollIntoView({{block: 'center'}})")
    left, top, width = tab.run(
        f"(({{x, y, width}}) => [x, y, width])({node}.getBoundingClientRect())"
    )
    return left + x * width / 480, top + y * width / 480


def cells(tab, rows):
    return tab.run(
        f"[...document.querySelectorAll('{rows}')].map((row) => [...row.cells].map((td) => td.innerText))"
    )


def change(tab, selector, value, kind="input"):
    tab.run(
        f"(() => {{ const field = document.querySelector({json.dumps(selector)}); field.value = {json.dumps(value)};"
        f"field.dispatchEvent(new Event({json.dumps(kind)}, {{bubbles: true}})) }})()"
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rows = [
        *group(N),
        *(row("declined", agent, text="I don't know", references=["x"]) for agent in "abc"),
    ]
    return saved(tmp_path_factory.mktemp("page"), [*rows, row("dead", text="", error="down")])


@pytest.fixture(scope="module")
def tab(pipe, path):
    return opened(pipe, path)


@pytest.fixture(scope="module")
def rows(path):
    with Samples([path.with_name("s.jsonl")]) as samples:
        return judge_samples(samples, clusterer=NormalizedMatch())


def test_nothing_of_a_model_runs(pipe, tmp_path):
    path = saved(tmp_path, hostile(), title=HOSTILE[1])
    tab = opened(pipe, path)
    title = tab.run("document.title")
    tab.run("document.querySelectorAll('.open').forEach((button) => button.click())")
    tab.wait(f"document.querySelectorAll('.detail').length === {2 * len(HOSTILE)}")
    said = text(tab, "#questions").replace("\ufffd", "")
    for each in HOSTILE[:4]:
        assert (
            said.count(each) >= 8
        )  # question, answer, response, reference, names, failure: all of it as text
    assert title == tab.run("document.title") == f"{HOSTILE[1]}: uncertainty of a group of models"
    assert not tab.run("document.querySelector('#questions :is(img, svg, script, style)')")
    assert tab.told == []
    assert tab.asked == [path.as_uri()]


def test_the_policy_stops_what_would_get_in(pipe, path):
    tab = opened(pipe, path)
    with pytest.raises(RuntimeError, match="TrustedHTML"):
        tab.run(f"document.body.innerHTML = {json.dumps(HOSTILE[0])}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = json.dumps(f"http://127.0.0.1:{server.getsockname()[1]}/")
        tab.run(
            "globalThis.picture = document.createElement('img'); picture.onerror = () => (picture.failed = true);"
            f"document.body.append(picture); picture.src = {address}"
        )
        with pytest.raises(RuntimeError, match="Failed to fetch"):
            tab.run(f"fetch({address})")
        tab.wait("picture.failed")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    tab.run("document.body.setAttribute('style', 'color: red')")
    assert tab.run("document.body.style.color") == ""
    wait_until(
        lambda: (
            not tab.run("0") and sum("Content Security Policy" in each for each in tab.told) >= 3
        )
    )


def told(tab, selector):
    """Reads "N of M judged questions answered: ..., risk ... (W wrong"."""
    outcome = r"(\d+) of (\d+) judged questions answered: coverage ([\d.]+) %.*?\((\d+) wrong"
    found = re.search(outcome, text(tab, selector))
    return int(found[1]), int(found[2]), float(found[3]), int(found[4])


def test_a_dragged_threshold_tells_coverage_and_risk(tab, rows):
    where = 0.6
    change(tab, "#score", "coe", "change")
    tab.drag(place(tab, "#risk", 400, 150), place(tab, "#risk", 58 + where * 412, 150))
    limit = float(re.search(r"CoE ≤ ([\d.]+)", text(tab, "#outcome"))[1])
    given = [
        each
        for each in rows
        if each.measurement.coe <= limit and each.measurement.answer_kind == "answer"
    ]
    coverage = len(given) / len(rows)
    assert coverage == pytest.approx(where, abs=0.05)
    assert told(tab, "#outcome") == (
        len(given),
        len(rows),
        pytest.approx(100 * coverage, abs=0.051),
        sum(not each.correct for each in given),
    )


def test_it_begins_at_the_thresholds_of_a_policy(pipe, rows, tmp_path):
    limit = sorted(each.measurement.coe for each in rows)[40] + 1e-3
    tab = opened(pipe, saved(tmp_path, group(N), policy=ThresholdPolicy(limit)))
    answered = [each.measurement.coe for each in rows if each.measurement.coe <= limit]
    assert float(re.search(r"CoE ≤ ([\d.]+)", text(tab, "#outcome"))[1]) == pytest.approx(
        max(answered), abs=1e-4
    )
    tab = opened(pipe, saved(tmp_path, group(N), policy=RegimePolicy(0.25, 0.12)))
    assert tab.run(
        "['aleatoric', 'epistemic'].map((id) => Number(document.getElementById(id).value))"
    ) == [0.25, 0.12]


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen_and_every_control_has_a_name(pipe, path, width):
    tab = opened(pipe, path, width=width)
    tab.run("document.querySelector('.open').click()")
    tab.wait("document.querySelector('.detail')")
    assert len(tab.assert_fits(width)) > 20
    assert tab.run(
        "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(regimes.parentElement)"
    )
