import json
import random

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples, report, score
from coe_agents.evaluation.metrics import histograms
from coe_agents.evaluation.metrics.histograms import Histogram
from coe_agents.evaluation.scoring import tally
from coe_agents.evaluation.scoring.scored_question import AgentScore, ScoredQuestion, ScoringNames
from coe_agents.evaluation.scoring.scores import to_scores
from coe_agents.evaluation.scoring.tallied import to_tallies
from tests.evaluation.invented import group, row, write

NAMES = ScoringNames("invented", "invented", "auto", ("coe", "vote_share", "rare"))


def invent(n, *, kinds=(None,)):
    """Scored questions; "rare" is lacking now and then, and one agent does not always respond."""
    drawn = random.Random(0)
    for number in range(n):
        hard = drawn.random()
        correct = drawn.choice([None, 0.5, *[float(drawn.random() > hard)] * 8])
        agents = {name: AgentScore(hard + drawn.random(), 3, True) for name in "abc" if name != "c" or number % 7}
        scores = {"coe": hard + drawn.random(), "vote_share": round(0.9 * hard, 2)}
        scores["rare"] = None if number % 50 == 3 else drawn.random()
        failures = {"c": 1} if number % 7 == 0 else {}
        known = {} if correct is None else scores
        kind = drawn.choice(kinds)
        yield ScoredQuestion(f"q{number}", failures, agents, correct, correct == 0.5, known, kind)


def differ(first, second, places=()):
    """Yields the places and values of what differs between two reports, of numbers by more than rounding."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in first.keys() | second.keys():
            yield from differ(first.get(key), second.get(key), (*places, key))
    elif isinstance(first, list):
        yield from differ(first[0], second[0], places)  # intervals are of another method
    elif first != pytest.approx(second, abs=1e-9):
        yield places, first, second


def test_few_questions_have_the_exact_figures(tmp_path):
    rows = [*group(120, p_false=0.25), row("without", "a", text="", error="down"), row("unjudged", "a")]
    with Samples([write(tmp_path / "s.jsonl", rows)]) as samples:
        exact = report(score(samples, clusterer=NormalizedMatch()), n_resamples=5)
        found = report(tally(samples, clusterer=NormalizedMatch()))
    assert list(found) == list(exact)
    assert found["details"].pop("tally") == {"cells": histograms.CELLS, "groups": histograms.GROUPS}
    del exact["details"]["n_resamples"]
    for each in found["scores"].values():
        assert set(each.pop("error").values()) == {0.0}
        value, low, high = each["auroc"]
        assert 0 <= low <= value <= high <= 1
    assert not list(differ(exact, found))
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("kinds", [(None,), ("call", "no_call")])
def test_all_that_is_counted_is_that_of_the_exact_scores(kinds):
    exact, found = (report(to(invent(700, kinds=kinds), NAMES), n_resamples=5) for to in (to_scores, to_tallies))
    assert found["details"]["absent"] == exact["details"]["absent"] == {"rare": pytest.approx(12, abs=4)}
    assert ("by_kind" in found) == (kinds != (None,))
    for report_of in (found, *found.get("by_kind", {}).values()):
        assert "best_single_model" in report_of["scores"]
        for each in report_of["scores"].values():
            assert each.pop("error")["auroc"] == 0.0
    del found["details"]["tally"], exact["details"]["n_resamples"]
    assert not list(differ(exact, found))


def test_parts_merge_to_exactly_the_whole_in_any_order(monkeypatch):
    monkeypatch.setattr(Histogram.__init__, "__kwdefaults__", {"most": 64, "n_groups": 1})
    questions = list(invent(900, kinds=(None, "call", "no_call")))
    whole = to_tallies(questions, NAMES)
    random.Random(1).shuffle(questions)
    parts = [to_tallies(questions[start::4], NAMES) for start in (2, 0, 3, 1)]
    merged = to_tallies([], NAMES)
    for part in parts:
        merged.merge(part)
    assert merged.kinds == whole.kinds
    assert whole.kinds[None].scores["coe"].fine.level > 0
    assert report(merged) == report(whole) == report(whole)  # a report changes nothing
    assert merged.kinds == whole.kinds


def test_no_score_and_one_class():
    empty = report(to_tallies([], NAMES))
    assert (empty["n_scored"], empty["accuracy"], empty["scores"]) == (0, None, {})
    right = [
        ScoredQuestion(str(i), {}, {"a": AgentScore(0.1 * i, 1, False)}, 1.0, scores={"coe": 0.1 * i}) for i in range(9)
    ]
    found = report(to_tallies(right, NAMES._replace(estimators=("coe",))))
    assert found["scores"]["coe"]["auroc"] == [None, None, None]
    assert found["details"]["absent"] == {"best_single_model": 9}


def test_memory_stays_within_the_cells():
    tallied = to_tallies(invent(20_000), NAMES)
    for each in tallied.kinds[None].scores.values():
        assert each.fine.cells.size <= histograms.CELLS
        assert each.grouped.cells.size <= histograms.CELLS_OF_GROUPS
        assert each.grouped.answers.shape[1] == histograms.GROUPS
        assert np.array_equal(each.fine.answers.sum(), each.grouped.answers.sum())
