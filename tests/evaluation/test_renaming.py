import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.scores import report
from coe_agents.testing.doubles import TableEntailment
from tests.evaluation.invented import row, score, write

NAMES = ("ann", "bob", "cyd", "dan")
PLAIN = ("x", "y", "z z")
TEXTS = (*PLAIN, "X.", "Y!", "I don't know.", "")


@st.composite
def samples(draw):
    """Lines of a few questions: ties, mixed labels, failures, agents with log-probabilities and without."""
    agents = NAMES[: draw(st.integers(1, 4))]
    by_probability = {name for name in agents if draw(st.booleans())}
    rows = []
    for number in range(draw(st.integers(1, 5))):
        about = {
            "question": f"Question {number}?",
            "references": draw(st.sampled_from([[], ["x"], ["y", "z z"]])),
        }
        for name in agents:
            for index in range(draw(st.integers(0, 3))):
                failed = draw(st.integers(0, 9)) == 0
                said = {
                    "text": "" if failed else draw(st.sampled_from(TEXTS)),
                    "error": "down" if failed else None,
                    "correct": draw(st.sampled_from([None, None, True, False])),
                    "p_false": draw(st.sampled_from([0.25, 0.6])),
                    "confidence": draw(st.sampled_from([0.3, 0.7, -1])),
                }
                if name in by_probability:
                    said |= {"logprob": -draw(st.sampled_from([0.5, 1.0, 3.7])), "n_tokens": 3}
                rows.append(row(f"q{number}", name, index, **said) | about)
    return rows


def figures_of(folder, rows, *, n_files=1, **options):
    paths = [
        write(folder / f"{place}.samples.jsonl", rows[place::n_files]) for place in range(n_files)
    ]
    with Samples(paths) as found:
        return report(score(found, clusterer=NormalizedMatch(), **options), n_resamples=10)


def flat(value, path=()):
    if not isinstance(value, dict | list | tuple):
        return {path: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    inside = {
        place: each for key, part in parts for place, each in flat(part, (*path, key)).items()
    }
    return {path: len(value)} | inside


def assert_same(before, after, names):
    agents = {names[name]: count for name, count in before["details"]["agents"].items()}
    expected = flat(before | {"details": before["details"] | {"agents": agents}})
    for place, value in expected.items():
        if isinstance(value, float):
            expected[place] = pytest.approx(value, abs=1e-12, rel=0)
    assert flat(after) == expected


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    samples().filter(bool), st.permutations(NAMES), st.randoms(use_true_random=False), st.booleans()
)
def test_renaming_agents_and_shuffling_lines_changes_no_figure(rows, permuted, drawn, with_model):
    options = {}
    if with_model and (plain := [each for each in rows if each["text"] in PLAIN]):
        # what it says depends on the texts, and on which of two comes first
        model = TableEntailment(
            lambda premise, hypothesis: "entailment" if premise < hypothesis else "neutral"
        )
        rows, options = plain, {"entailment": model}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = figures_of(folder, rows, **options)
        others = {each: f"{drawn.randint(0, 9)} {each}" for each in NAMES}
        for names in (dict(zip(NAMES, permuted, strict=True)), others):
            lines = [each | {"agent": names[each["agent"]]} for each in rows]
            drawn.shuffle(lines)
            n_files = drawn.randint(1, min(3, len(lines)))
            assert_same(before, figures_of(folder, lines, n_files=n_files, **options), names)
