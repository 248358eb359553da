import json
import math
import pickle
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy as scipy_entropy

from coe_agents.actions import (
    ActionMatch,
    AnyOrder,
    Ignore,
    Meaning,
    Text,
    Within,
    canonical_action,
)
from coe_agents.actions.contested import _Split, contested
from coe_agents.clustering import NormalizedMatch

LOG2 = math.log(2)
LOG3 = math.log(3)


def call(name="pay", **args):
    return {"name": name, "args": args}


def lines(*proposals):
    return [canonical_action(calls) for calls in proposals]


def decompose_entropy(texts, mass, labels, *, clusterer=None, question=""):
    found = _Split(texts, mass, labels, clusterer, question).entropy
    total = math.fsum([found["tool"], *found["arguments"].values(), found["rest"]])
    return SimpleNamespace(**found, total=total)


def decompose(texts, mass=None, clusterer=None):
    clusterer = clusterer or ActionMatch()
    labels = clusterer.cluster([texts], [""])[0]
    return decompose_entropy(
        texts, mass or [1 / len(texts)] * len(texts), labels, clusterer=clusterer
    )


def find(proposals, mass=None, agents=None, clusterer=None, **options):
    texts = lines(*proposals)
    clusterer = clusterer or ActionMatch()
    labels = clusterer.cluster([texts], [""])[0]
    mass = mass or [1 / len(texts)] * len(texts)
    return contested(
        texts, mass, agents or "abcdefgh"[: len(texts)], labels, clusterer=clusterer, **options
    )


# The parts of the entropy


WITHIN = {"a": Within(absolute=0.1)}
LOOSE = {"note": Ignore(), "tags": AnyOrder()}
NEAR = [[call(a=1, b=1)], [call(a=1.1, b=5)], [call(a=1.2, b=5)]]
TAGGED = [[call(note="x", tags=[1, 2])], [call(note="y", tags=[2, 1])], [call(tags=[3])]]
ORDERED = {"name": "pay", "parameters": {"properties": {"to": {}, "sum": {}, "bank": {}}}}
TWO = [[call(to="ann", bank="x")], [call(to="bob", bank="y")]]


@pytest.mark.parametrize(
    ("proposals", "clusterer", "tool", "arguments", "rest"),
    [
        # half call nothing, the others pay 5 or 6: H(tool) = log 2, H(sum | pay) = log 2 with p(pay) = 1/2
        ([[call(sum=5)], [call(sum=6)], [], []], None, LOG2, {"sum": LOG2 / 2}, 0),
        # what two arguments explain together counts for the first, by name or in the schema
        (TWO, None, 0, {"bank": LOG2, "to": 0}, 0),
        (TWO, ActionMatch([ORDERED]), 0, {"to": LOG2, "bank": 0}, 0),
        # each of two tools has half of the mass, and within it log 2
        (
            [[call(name, sum=n)] for name in ("pay", "lend") for n in (5, 6)],
            None,
            LOG2,
            {"sum": LOG2},
            0,
        ),
        # two payments: 5 and 7, 5 and 8, 6 and 9: H(first) = H(2/3, 1/3), then H(second | first) = 2/3 log 2
        (
            [[call(sum=a), call(sum=b)] for a, b in ((5, 7), (8, 5), (6, 9))],
            None,
            0,
            {"sum": math.log(3)},
            0,
        ),
        # an argument that is omitted is not null
        ([[call()], [call(x=None)]], None, 0, {"x": LOG2}, 0),
        # a: 1.1 joins 1, and 1.2 does not; b: 1 | 5, 5. Together three groups, log 3. As actions the second and the
        # third are equal: log 3 - 2/3 log 2
        (
            NEAR,
            ActionMatch(compare=WITHIN),
            0,
            {"a": LOG3 - 2 / 3 * LOG2, "b": 2 / 3 * LOG2},
            -2 / 3 * LOG2,
        ),
        (TAGGED, ActionMatch(compare=LOOSE), 0, {"note": 0, "tags": LOG3 - 2 / 3 * LOG2}, 0),
    ],
)
def test_the_parts_of_the_entropy(proposals, clusterer, tool, arguments, rest):
    parts = decompose(lines(*proposals), clusterer=clusterer)
    assert parts.tool == pytest.approx(tool, abs=1e-12)
    assert parts.arguments == pytest.approx(arguments, abs=1e-12)
    assert parts.rest == pytest.approx(rest, abs=1e-12)


def test_the_labels_of_another_clusterer_are_the_total():
    texts = lines([call(x=1)], [call(x=2)])
    parts = decompose_entropy(texts, [0.5, 0.5], [0, 0], clusterer=NormalizedMatch())
    assert (parts.total, parts.arguments["x"], parts.rest) == pytest.approx((0, LOG2, -LOG2))


@pytest.fixture
def asking():
    """A clusterer of words that keeps what it is asked, and a rule that asks it."""

    class Clusterer(NormalizedMatch):
        def __init__(self):
            super().__init__()
            self.asked = []

        def cluster(self, responses, questions):
            self.asked.append((*questions, *responses[0]))
            return super().cluster(responses, questions)

    clusterer = Clusterer()
    return clusterer, ActionMatch(compare={"x": Meaning(clusterer)})


def test_a_model_is_not_asked_again_about_what_was_clustered(asking):
    clusterer, match = asking
    texts = lines([call(x="one")], [call(x="two")], [call(x="one.")], [call()])
    labels = match.cluster([texts], ["How many?"])[0]
    mass = [0.25] * 4
    for kept in (texts, texts[:3]):  # an earlier round's actions may have been clustered with these
        share = [1 / len(kept)] * len(kept)
        decompose_entropy(kept, share, labels[: len(kept)], clusterer=match, question="How many?")
    found = contested(texts, mass, "abcd", labels, clusterer=match, question="How many?")
    assert len(clusterer.asked) == 1
    assert [one["agents"] for one in found["candidates"]["pay.x"]] == [["a", "c"], ["b"], ["d"]]
    for question, more in (("Which?", []), ("How many?", lines([call(x="three")]))):
        texts_now = [*texts[:3], *more]
        share = [1 / len(texts_now)] * len(texts_now)
        decompose_entropy(
            texts_now, share, [0] * len(texts_now), clusterer=match, question=question
        )
    assert len(clusterer.asked) == 3
    match.cluster([texts[:2]], ["How many?"])  # what was compared before changes no clusters
    assert clusterer.asked[-1] == ("How many?", "one", "two")
    pickle.loads(pickle.dumps(ActionMatch(compare={"x": Within(absolute=1)}))).cluster(
        [texts], [""]
    )


ARGUMENTS = st.dictionaries(
    st.sampled_from("xyz"), st.integers(0, 3).map(lambda n: n / 10), max_size=3
)
PROPOSALS = st.lists(
    st.builds(lambda name, args: call(name, **args), st.sampled_from("ab"), ARGUMENTS), max_size=3
)


@st.composite
def groups(draw):
    """Some proposals and the share of each."""
    proposals = draw(st.lists(PROPOSALS, min_size=1, max_size=8))
    counts = draw(
        st.lists(st.integers(0, 5), min_size=len(proposals), max_size=len(proposals)).filter(any)
    )
    return lines(*proposals), [count / sum(counts) for count in counts]


@given(groups())
def test_with_exact_rules_the_parts_are_the_entropy_of_the_actions(group):
    texts, mass = group
    parts = decompose(texts, mass)
    actions = {
        text: sum(m for other, m in zip(texts, mass, strict=True) if other == text)
        for text in texts
    }
    tools: dict[object, float] = {}
    for text, m in actions.items():
        key = tuple(sorted(one["name"] for one in json.loads(text)))
        tools[key] = tools.get(key, 0.0) + m
    assert parts.total == pytest.approx(scipy_entropy(list(actions.values())), abs=1e-9)
    assert parts.tool == pytest.approx(scipy_entropy(list(tools.values())), abs=1e-9)
    assert parts.tool + sum(parts.arguments.values()) == pytest.approx(parts.total, abs=1e-9)
    assert parts.rest == pytest.approx(0, abs=1e-9)
    assert min(parts.arguments.values(), default=0) >= 0
    # H(tool) = H(call) + p(call) H(tool | call)
    called = [m for key, m in tools.items() if key]
    of_called = sum(called) * scipy_entropy(called) if sum(called) else 0.0
    assert parts.tool == pytest.approx(parts.call + of_called, abs=1e-9)


RULES = st.fixed_dictionaries(
    {"x": st.sampled_from([Within(absolute=0.1), Ignore()]), "a.y": st.just(Within(absolute=0.15))}
)


@given(groups(), RULES, st.integers(0, 2**32))
def test_with_tolerances_the_rest_makes_up_the_total_and_order_and_names_change_nothing(
    group, compare, seed
):
    texts, mass = group
    clusterer = ActionMatch(compare=compare)
    labels = clusterer.cluster([texts], [""])[0]
    parts = decompose_entropy(texts, mass, labels, clusterer=clusterer)
    by_label = [
        sum(m for m, own in zip(mass, labels, strict=True) if own == label) for label in set(labels)
    ]
    assert parts.total == pytest.approx(scipy_entropy(by_label), abs=1e-9)
    assert parts.tool + sum(parts.arguments.values()) + parts.rest == pytest.approx(
        parts.total, abs=1e-9
    )

    agents = [f"agent{i}" for i in range(len(texts))]
    places = random.Random(seed).sample(range(len(texts)), len(texts))
    moved = [[values[i] for i in places] for values in (texts, mass, labels)]
    assert decompose_entropy(*moved, clusterer=clusterer) == parts
    found = contested(texts, mass, agents, labels, clusterer=clusterer)
    renamed = {f"agent{i}": f"{len(texts) - i:02}" for i in range(len(texts))}
    other = contested(
        *moved[:2], [renamed[agents[i]] for i in places], moved[2], clusterer=clusterer
    )
    assert (other is None) == (found is None)
    if found is not None:
        for candidates in found["candidates"].values():
            for one in candidates:
                one["agents"] = sorted(renamed[name] for name in one["agents"])
        assert json.dumps(other) == json.dumps(found)  # the order of arguments and candidates, too


# What is contested


def test_what_is_contested_is_plain_data_that_can_be_stored():
    found = find([[call(to="Ann", sum=5)], [call(to="Ann", sum=900)], [call(to="Ann", sum=5)]])
    assert found == {
        "tool": 0.0,
        "call": 0.0,
        "arguments": {"sum": pytest.approx(math.log(3) - 2 / 3 * LOG2)},
        "candidates": {
            "pay.sum": [{"value": 5, "agents": ["a", "c"]}, {"value": 900, "agents": ["b"]}]
        },
        "rest": pytest.approx(0, abs=1e-12),
    }
    proposals = [
        [call(**{"to\ud800": "x\udfff"})],
        [call(**{"to\ud800": {"deep": [1, None, True]}})],
    ]
    found = find(proposals, values=proposals)
    json.dumps(found, ensure_ascii=False).encode()
    assert found["candidates"]["pay.to?"][0]["value"] == "x?"


CENTS = ActionMatch(compare={"sum": Within(absolute=0.01)})


@pytest.mark.parametrize(
    ("proposals", "options", "candidates"),
    [
        # equal votes come by name, and an argument that another one explains is listed for its votes
        (
            [[call(b=1, a=1)], [call(b=2, a=2)]],
            {},
            {"pay.a": [(1, "a"), (2, "b")], "pay.b": [(1, "a"), (2, "b")]},
        ),
        (
            [[call("mail")], [call(), call("ask")], [], [], []],
            {},
            {"tool": [(None, "cde"), (["ask", "pay"], "b"), ("mail", "a")]},
        ),
        # both pay 5 first; the second payment is contested
        (
            [[call(sum=5), call(sum=7)], [call(sum=8), call(sum=5)]],
            {},
            {"pay.sum": [(7, "a"), (8, "b")]},
        ),
        # one value stands for those that equal it; in the order of the lines, "5.01}" comes before "5}"
        (
            [[call(sum=5.01)], [call(sum=5)], [call(sum=6)]],
            {"clusterer": CENTS},
            {"pay.sum": [(5.01, "ab"), (6, "c")]},
        ),
        # omitted
        ([[call()], [call(sum=5)], [call(sum=5)]], {}, {"pay.sum": [(5, "bc"), (None, "a")]}),
        # an agent without weight is among the proposers
        (
            [[call(n=5)], [call(n=6)], [call(n=7)]],
            {"mass": [0.5, 0.5, 0]},
            {"pay.n": [(5, "a"), (6, "b"), (7, "c")]},
        ),
        # raw calls that do not belong to the action are not shown
        (
            [[call(sum=5)], [call(sum=6)]],
            {"values": [[call("mail")], None]},
            {"pay.sum": [(5, "a"), (6, "b")]},
        ),
        (
            [[call(n=5)], [call(n=6)]],
            {"values": [[call(n=math.nan)], [{"name": 3}]]},
            {"pay.n": [(5, "a"), (6, "b")]},
        ),
    ],
)
def test_candidates(proposals, options, candidates):
    shown = {
        key: [{"value": value, "agents": [*who]} for value, who in own]
        for key, own in candidates.items()
    }
    assert find(proposals, **options)["candidates"] == shown


def test_arguments_come_in_the_order_of_votes_against_the_leading_proposal():
    # the leading one is (1, 1, 1) with .4; against it in "a" .25, in "b" .35, in "c" nothing. "a" comes first in the
    # chain rule, so its part is larger
    proposals = [
        [call(a=1, b=1, c=1)],
        [call(a=2, b=2, c=1)],
        [call(a=1, b=3, c=1)],
        [call(a=3, b=1, c=1)],
    ]
    found = find(proposals, [0.5, 0.2, 0.2, 0.1])
    assert list(found["arguments"]) == ["b", "a"]
    assert found["arguments"]["a"] > found["arguments"]["b"] > 0
    assert list(found["candidates"]) == ["pay.b", "pay.a"]
    assert list(find(proposals, [0.5, 0.2, 0.2, 0.1], leading=3)["arguments"]) == ["a", "b"]


def test_the_texts_that_a_rule_would_loosen_are_named():
    unit = {"name": "pay", "parameters": {"properties": {"unit": {"enum": ["mg", "Mg"]}}}}
    proposals = [
        [call(to="Ann", note="hi", unit="mg", n=1)],
        [call(to="ann", note="Hi", unit="Mg", n="1")],
    ]
    texts = [canonical_action(calls, tools=[unit]) for calls in proposals]
    for compare, left in ({}, ["pay.note", "pay.to"]), ({"pay.to": Text()}, ["pay.note"]):
        found = contested(texts, [0.5, 0.5], "ab", [0, 1], clusterer=ActionMatch(compare=compare))
        assert found["texts"] == left
    assert "texts" not in find([[call(to="Ann")], [call()], [call(to=3)]])
    assert "texts" not in find([[call(to="Ann")], [call()]])  # one text alone is equal to none


def test_nothing_is_contested_in_one_action_nor_by_agents_without_weight_nor_in_texts():
    assert find([[call(sum=5)], [call(sum=5.0)]]) is None
    assert find([[call(sum=5)], [call(sum=6)]], [1.0, 0.0]) is None
    assert find([[], []]) is None
    assert contested(["Paris", "Lyon", "[]"], [0.4, 0.4, 0.2], "abc", [0, 1, 2]) is None
