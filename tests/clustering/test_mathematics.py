import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents import mathematics
from coe_agents.clustering import MathematicsMatch
from coe_agents.clustering import mathematics as module
from coe_agents.clustering.normalized import RULES
from coe_agents.errors import ClusteringError
from coe_agents.evaluation.scoring.correctness import (
    CRITERIA,
    Prediction,
    create_criterion,
    with_equality_of,
)

KEY = MathematicsMatch().key

SAME = [
    (r"\frac{1}{2}", "0.5", "1/2", "50%", r"50\%", "½", r"$\dfrac{2}{4}$", ".50"),
    (r"2\sqrt{3}", r"\sqrt{12}", "2√3", r"$2\sqrt3$"),
    ("x^2+2x+1", "(x+1)^2", "1 + 2x + x²"),
    ("x=5", "5", "5 = x", "x = 5.0", "five"),
    (r"x \geq 5", r"5 \leq x", "x >= 5", r"[5, \infty)"),
    ("1, 2", "2, 1", r"\{1,2\}", "1 and 2", "x=1 or x=2"),
    ("10^{-3}", "0.001", "10⁻³", "1/1000"),
    ("1.5e3", "1500", "1,500", r"1.5 \times 10^3"),
    ("x=1, y=2", "y = 2, x = 1"),
    (r"\pi/2", r"\frac{\pi}{2}", "π/2"),
    (r"\sin^2 x + \cos^2 x", "1"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\ \frac{4}{2}\end{bmatrix}"),
    (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}"),
    ("12 cm", r"12\text{ cm}", "12.0 cm"),
    ("A", "(A)", "a"),
    ("3 1/2", "7/2", r"3\frac{1}{2}", "2 1/2 + 1"),
    ("3/4 π", r"\frac{3\pi}{4}", "3pi/4"),
    ("pi", r"\pi", "π"),
    (r"x<1 \text{ or } x>2", r"(-\infty,1)\cup(2,\infty)"),
    (r"\mathbb{R}", r"(-\infty, \infty)"),
]
OTHER = [
    ("5", "-5", "5!", "5%", "5 cm", "5 m", "$5", "5^2", "0.05001"),
    ("x = 5", "x != 5", "x > 5", "x >= 5"),
    ("(1, 2)", "[1, 2]", "(2, 1)", "[1, 2)"),
    ("x + 1", "y + 1", "x - 1"),
    (r"2\sqrt{3}", r"3\sqrt{2}", "2"),
    ("1/3", "0.333", "3"),
    ("10^{20}", "10^{20}+1"),
    (r"\frac{1}{2}x", r"\frac{1}{2x}"),
    ("Python 3.10", "Python 3.1"),
    ("00501", "501"),
    ("1.10.0", "1.1.0", "0"),
    ("x=1, y=2", "x=2, y=1", "1, 2"),
    ("12_5", "12", "12₇"),
    ("2^3^2", "2^9", "2^6"),
    ("A, C", "C"),
    ("A. 12", "12"),
    ("10:30", "1:3"),
    ("A1", "1A"),
    ("no", "on"),
    ("3 1/2", "3/2", "3", "31/2"),
    ("12/3/2028", "1/507", "0.00197238658777"),
    ("3-5", "-2", "3 - 5 m"),
    (r"x<1 \text{ or } x>2", r"(-\infty,1)", r"(1, 2)"),
]


@pytest.mark.parametrize("group", SAME, ids=[group[0] for group in SAME])
def test_one_value_is_one_cluster(group):
    assert set(MathematicsMatch().cluster([group], [""])[0]) == {0}


@pytest.mark.parametrize("group", OTHER, ids=[group[0] for group in OTHER])
def test_other_values_are_other_clusters(group):
    assert len(set(map(KEY, group))) == len(group)


@given(st.permutations([*itertools.chain(*SAME[:6])]))
def test_clusters_do_not_depend_on_order(answers):
    [labels] = MathematicsMatch().cluster([answers], [""])
    together = {}
    for answer, label in zip(answers, labels, strict=True):
        together.setdefault(label, set()).add(answer)
    assert sorted(map(sorted, together.values())) == sorted(sorted(group) for group in SAME[:6])


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["9^{9^{9^9}}", "10^{1000000000}", "9**9**9**9", "7" * 10**6])
def test_an_answer_that_explodes_is_compared_as_text_in_any_thread(answer):
    keys = []
    thread = threading.Thread(
        target=lambda: keys.extend([KEY(answer), KEY(f"{answer} "), KEY("2/4")])
    )
    thread.start()
    thread.join(60)
    assert keys[0] == keys[1]
    assert keys[2] == KEY("0.5")


def test_a_reader_that_does_not_start_is_an_error_and_no_answer(monkeypatch, tmp_path):
    program = tmp_path / "reader.py"
    program.write_text("import none_such")
    monkeypatch.setattr(module, "_PROGRAM", program)
    monkeypatch.setattr(module, "_PROCESSES", {})
    with pytest.raises(ClusteringError, match="ended with status 1"):
        KEY("x^7 + 41")


@pytest.mark.parametrize("name", ["reference", "reference_or_label", "reference_or_any_label"])
def test_references_are_compared_by_value_too(name):
    halves = [Prediction("", "0.5", (r"\frac{1}{2}",), (False,))]
    assert create_criterion(name, MathematicsMatch()).judge(halves) == [True]
    assert CRITERIA[name].judge(halves) == [False]
    of_label = with_equality_of(MathematicsMatch(), CRITERIA["label"])
    assert of_label is CRITERIA["label"]


def test_the_preset_is_recorded_and_reads_the_box():
    answers = mathematics()
    assert (answers.kind, answers.recorded) == ("mathematics", "mathematics")
    assert answers.canonicalize(r"So it is \boxed{\frac{3}{4}}.") == r"\frac{3}{4}"


@pytest.mark.parametrize("rule", RULES, ids=[rule.apply.__name__ for rule in RULES])
def test_what_normalisation_keeps_apart_stays_apart(rule):
    one, other = map(KEY, rule.other)
    assert one != other
