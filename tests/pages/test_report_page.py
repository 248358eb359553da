import base64
import gzip
import json
import re
from hashlib import sha256
from importlib import resources

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.pages.report_page import create_page, summarize
from tests.elements import Elements
from tests.evaluation.invented import group, row, score, write

HOSTILE = [
    "<img src=x onerror=\"document.title='ran'\">",
    "</script><script>document.title='ran'</script>",
    "<!--<script>",
    "]]></style><svg onload=\"document.title='ran'\">",
    "\u2028\u2029\u0000\u202edesrever",
    "\ud800 half a pair",
    "{{ 7 * 7 }} {% raw %}",
]


def page(tmp_path, rows, *, title="A run", policy=None, **options):
    setup = ScoringSetup(NormalizedMatch(), **options)
    with Samples([write(tmp_path / "s.jsonl", rows)]) as samples:
        return create_page(samples, setup, title=title, n_resamples=20, policy=policy)


def block(html, name):
    packed = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', html)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def hostile():
    return [
        row(
            f"{text} {i}", f"{agent} {text}", 0, text, question=text, references=[text], answer=text
        )
        for i, text in enumerate(HOSTILE)
        for agent in "ab"
    ] + [row(f"{text} dead", text, text="", question=text, error=text) for text in HOSTILE]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    html = page(folder, group(120))
    with Samples([folder / "s.jsonl"]) as samples:
        return html, score(samples, clusterer=NormalizedMatch())


def test_what_it_says_is_what_score_says(run):
    html, found = run
    overview = block(html, "overview")
    assert overview["questions"]["correct"] == found.correct.tolist()
    assert overview["scores"].keys() == found.values.keys()
    np.testing.assert_allclose(overview["scores"]["coe"], found.values["coe"], rtol=1e-6)
    np.testing.assert_allclose(
        overview["questions"]["epistemic"], found.values["epistemic"], rtol=1e-6, atol=1e-9
    )
    shown = re.search(r">CoE</abbr></th><td>\s*([\d.]+) <small>", html)[1]
    assert shown == f"{auroc(correct=found.correct, uncertainty=found.values['coe']):.3f}"


def test_no_text_of_a_model_is_parsed_as_html(tmp_path, run):
    html = page(tmp_path, hostile(), title=HOSTILE[1])
    named = {tag for tag, _ in Elements(run[0]).found}
    found = Elements(html).found
    assert {tag for tag, _ in found} == named
    assert not [
        attributes for _, attributes in found if any(name.startswith("on") for name in attributes)
    ]
    assert sum(tag == "script" for tag, _ in found) == 3  # the overview, one block, the script
    assert "&lt;/script&gt;&lt;script&gt;document.title" in html  # the title and an agent's name
    assert {text for detail in block(html, "block-0") for text in detail["references"]} == set(
        HOSTILE
    )


def test_the_policy_allows_its_own_script_and_style_only(run):
    html, _ = run
    (policy,) = [
        a["content"]
        for tag, a in Elements(html).found
        if a.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    script = html.rpartition('<script type="module">')[2].partition("</script>")[0]
    style = html.partition("<style>")[2].partition("</style>")[0]
    hashes = [
        f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
        for text in (script, style)
    ]
    assert rules == {
        "default-src": "'none'",
        "script-src": hashes[0],
        "style-src": hashes[1],
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def colours():
    package = resources.files("coe_agents")
    names = ("page_parts/parts.css", "pages/html/page.css", "serve/page/page.css")
    files = [package.joinpath(name) for name in names if package.joinpath(name).is_file()]
    return dict(
        re.findall(
            r"--([\w-]+): light-dark\(([^)]*)\)", "".join(file.read_text() for file in files)
        )
    )


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize(
    "name", sorted(colours().keys() - {"ground", "raised", "line", "edge", "on-accent"})
)
def test_texts_and_curves_have_contrast_in_light_and_dark(name):
    both = {key: value.split(", ") for key, value in colours().items()}
    for shade in (0, 1):
        for ground in ("ground", "raised"):
            dark, light = sorted(luminance(both[key][shade]) for key in (name, ground))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground, shade)


def test_it_says_how_many_are_right_and_how_many_wrong_ones_look_certain():
    # the last has no verdict; of the three wrong answers only that of CoE 0.4 looks certain
    coe, correct = (
        [0.1, 0.1, 0.1, 0.1, 0.4, 0.6, 0.6, 0.9, 0.2],
        [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, None],
    )
    kinds = ["answer"] * 7 + ["refusal", "answer"]
    table = {
        "coe": coe,
        "aleatoric": coe,
        "epistemic": [0.0] * 9,
        "correct": correct,
        "kind": kinds,
    }
    figures = {"n_scored": 8, "accuracy": 5 / 8, "scores": {"coe": {"auroc": [0.75, 0.6, 0.9]}}}
    right, pairs, certain = (
        sentence.replace("\u00a0", " ") for sentence in summarize(table, figures)
    )
    assert right == "The group is right on 5 of 8 questions (62 %)."
    assert "in 75 % of pairs (95 % interval 60 % to 90 %; chance is 50 %)" in pairs
    assert certain.startswith("1 wrong answer looked certain")
