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


def cluster(texts, clusterer):
    [labels] = clusterer.cluster([texts], [""])
    return labels


def equal_shares(texts):
    return [1 / len(texts)] * len(texts)


def decompose_entropy(texts, mass, labels, *, clusterer=None, question=""):
    parts = _Split(texts, mass, labels, clusterer, question).entropy
    total = math.fsum([parts["tool"], *parts["arguments"].values(), parts["rest"]])
    return SimpleNamespace(**parts, total=total)


def decompose(texts, mass=None, clusterer=None):
    clusterer = clusterer or ActionMatch()
    mass = mass or equal_shares(texts)
    labels = cluster(texts, clusterer)
    return decompose_entropy(texts, mass, labels, clusterer=clusterer)


def find(proposals, mass=None, agents=None, clusterer=None, **options):
    """What is contested between proposals, of "a", "b", "c", ... unless agents are named."""
    texts = lines(*proposals)
    clusterer = clusterer or ActionMatch()
    mass = mass or equal_shares(texts)
    agents = agents or "abcdefgh"[: len(texts)]
    labels = cluster(texts, clusterer)
    return contested(texts, mass, agents, labels, clusterer=clusterer, **options)


# The parts of the entropy


WITHIN = {"a": Within(absolute=0.1)}
LOOSE = {"note": Ignore(), "tags": AnyOrder()}
NEAR = [[call(a=1, b=1)], [call(a=1.1, b=5)], [call(a=1.2, b=5)]]
TAGGED = [[call(note="x", tags=[1, 2])], [call(note="y", tags=[2, 1])], [call(tags=[3])]]
ORDERED = {"name": "pay", "parameters": {"properties": {"to": {}, "sum": {}, "bank": {}}}}
TWO = [[call(to="ann", bank="x")], [call(to="bob", bank="y")]]


OF_TWO_ARGUMENTS = [[call(to="ann", bank="x")], [call(to="bob", bank="y")]]
OF_TWO_TOOLS = [
    [call("pay", sum=5)],
    [call("pay", sum=6)],
    [call("lend", sum=5)],
    [call("lend", sum=6)],
]
TWO_PAYMENTS = [[call(sum=5), call(sum=7)], [call(sum=8), call(sum=5)], [call(sum=6), call(sum=9)]]
HALF_CALL_NOTHING = [[call(sum=5)], [call(sum=6)], [], []]


@pytest.mark.parametrize(
    ("proposals", "clusterer", "tool", "arguments", "rest"),
    [
        # half call nothing, the others pay 5 or 6: H(tool) = log 2, H(sum | pay) = log 2 with p(pay) = 1/2
        pytest.param(HALF_CALL_NOTHING, None, LOG2, {"sum": LOG2 / 2}, 0, id="half-call-nothing"),
        # what two arguments explain together counts for the first, by name or in the schema
        pytest.param(OF_TWO_ARGUMENTS, None, 0, {"bank": LOG2, "to": 0}, 0, id="first-by-name"),
        pytest.param(
            OF_TWO_ARGUMENTS,
            ActionMatch([ORDERED]),
            0,
            {"to": LOG2, "bank": 0},
            0,
            id="first-in-the-schema",
        ),
        # each of two tools has half of the mass, and within it log 2
        pytest.param(OF_TWO_TOOLS, None, LOG2, {"sum": LOG2}, 0, id="two-tools"),
        # two payments: 5 and 7, 5 and 8, 6 and 9: H(first) = H(2/3, 1/3), then H(second | first) = 2/3 log 2
        pytest.param(TWO_PAYMENTS, None, 0, {"sum": LOG3}, 0, id="two-payments"),
        pytest.param([[call()], [call(x=None)]], None, 0, {"x": LOG2}, 0, id="omitted-is-not-null"),
        # a: 1.1 joins 1, and 1.2 does not; b: 1 | 5, 5. Together three groups, log 3. As actions the second and the
        # third are equal: log 3 - 2/3 log 2
        pytest.param(
            NEAR,
            ActionMatch(compare=WITHIN),
            0,
            {"a": LOG3 - 2 / 3 * LOG2, "b": 2 / 3 * LOG2},
            -2 / 3 * LOG2,
            id="tolerance",
        ),
        pytest.param(
            TAGGED,
            ActionMatch(compare=LOOSE),
            0,
            {"note": 0, "tags": LOG3 - 2 / 3 * LOG2},
            0,
            id="ignored-and-in-any-order",
        ),
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
    assert parts.total == pytest.approx(0)
    assert parts.arguments["x"] == pytest.approx(LOG2)
    assert parts.rest == pytest.approx(-LOG2)


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
    [labels] = match.cluster([texts], ["How many?"])

    def decompose_again(texts, labels, question):
        mass = equal_shares(texts)
        decompose_entropy(texts, mass, labels, clusterer=match, question=question)

    decompose_again(texts, labels, "How many?")
    decompose_again(texts[:3], labels[:3], "How many?")  # as of an earlier round
    mass = equal_shares(texts)
    found = contested(texts, mass, "abcd", labels, clusterer=match, question="How many?")
    assert len(clusterer.asked) == 1
    proposers = [candidate["agents"] for candidate in found["candidates"]["pay.x"]]
    assert proposers == [["a", "c"], ["b"], ["d"]]

    decompose_again(texts[:3], [0] * 3, "Which?")
    with_a_new_one = [*texts[:3], *lines([call(x="three")])]
    decompose_again(with_a_new_one, [0] * 4, "How many?")
    assert len(clusterer.asked) == 3

    match.cluster([texts[:2]], ["How many?"])  # what was compared before changes no clusters
    assert clusterer.asked[-1] == ("How many?", "one", "two")

    copied = pickle.loads(pickle.dumps(ActionMatch(compare={"x": Within(absolute=1)})))
    copied.cluster([texts], [""])


TENTHS = st.integers(0, 3).map(lambda n: n / 10)
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), TENTHS, max_size=3)
CALLS = st.builds(lambda name, args: call(name, **args), st.sampled_from("ab"), ARGUMENTS)
PROPOSALS = st.lists(CALLS, max_size=3)


@st.composite
def groups(draw):
    """Some proposals and the share of each."""
    proposals = draw(st.lists(PROPOSALS, min_size=1, max_size=8))
    n = len(proposals)
    some_counts = st.lists(st.integers(0, 5), min_size=n, max_size=n)
    counts = draw(some_counts.filter(any))
    return lines(*proposals), [count / sum(counts) for count in counts]


def sum_by(keys, mass):
    """The mass of each key."""
    sums: dict[object, float] = {}
    for key, share in zip(keys, mass, strict=True):
        sums[key] = sums.get(key, 0.0) + share
    return sums


def tools_of(text):
    return tuple(sorted(one["name"] for one in json.loads(text)))


@given(groups())
def test_with_exact_rules_the_parts_are_the_entropy_of_the_actions(group):
    texts, mass = group
    parts = decompose(texts, mass)

    actions = sum_by(texts, mass)
    tools = sum_by([tools_of(text) for text in texts], mass)
    assert parts.total == pytest.approx(scipy_entropy(list(actions.values())), abs=1e-9)
    assert parts.tool == pytest.approx(scipy_entropy(list(tools.values())), abs=1e-9)
    of_arguments = sum(parts.arguments.values())
    assert parts.tool + of_arguments == pytest.approx(parts.total, abs=1e-9)
    assert parts.rest == pytest.approx(0, abs=1e-9)
    assert min(parts.arguments.values(), default=0) >= 0

    # H(tool) = H(call) + p(call) H(tool | call)
    called = [share for key, share in tools.items() if key]
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
    labels = cluster(texts, clusterer)

    parts = decompose_entropy(texts, mass, labels, clusterer=clusterer)
    by_label = list(sum_by(labels, mass).values())
    assert parts.total == pytest.approx(scipy_entropy(by_label), abs=1e-9)
    summed = parts.tool + sum(parts.arguments.values()) + parts.rest
    assert summed == pytest.approx(parts.total, abs=1e-9)

    n = len(texts)
    order = random.Random(seed).sample(range(n), n)
    moved_texts = [texts[place] for place in order]
    moved_mass = [mass[place] for place in order]
    moved_labels = [labels[place] for place in order]
    moved_parts = decompose_entropy(moved_texts, moved_mass, moved_labels, clusterer=clusterer)
    assert moved_parts == parts

    # the new names sort the other way round
    names = [f"agent{place}" for place in range(n)]
    new_names = {name: f"{n - place:02}" for place, name in enumerate(names)}
    moved_names = [new_names[names[place]] for place in order]
    found = contested(texts, mass, names, labels, clusterer=clusterer)
    moved = contested(moved_texts, moved_mass, moved_names, moved_labels, clusterer=clusterer)
    assert (moved is None) == (found is None)
    if found is None:
        return
    for candidates in found["candidates"].values():
        for candidate in candidates:
            candidate["agents"] = sorted(new_names[name] for name in candidate["agents"])
    assert json.dumps(moved) == json.dumps(found)  # the order of arguments and candidates, too


# What is contested


def test_what_is_contested_is_plain_data_that_can_be_stored():
    found = find([[call(to="Ann", sum=5)], [call(to="Ann", sum=900)], [call(to="Ann", sum=5)]])
    five = {"value": 5, "agents": ["a", "c"]}
    nine_hundred = {"value": 900, "agents": ["b"]}
    assert found == {
        "tool": 0.0,
        "call": 0.0,
        "arguments": {"sum": pytest.approx(LOG3 - 2 / 3 * LOG2)},
        "candidates": {"pay.sum": [five, nine_hundred]},
        "rest": pytest.approx(0, abs=1e-12),
    }

    # halves of characters, which no file holds
    proposals = [
        [call(**{"to\ud800": "x\udfff"})],
        [call(**{"to\ud800": {"deep": [1, None, True]}})],
    ]
    found = find(proposals, values=proposals)
    json.dumps(found, ensure_ascii=False).encode()
    assert found["candidates"]["pay.to?"][0]["value"] == "x?"


CENTS = ActionMatch(compare={"sum": Within(absolute=0.01)})


FIVE_AND_SIX = [[call(n=5)], [call(n=6)]]
ANOTHER_CALL = [[call("mail")], None]
NO_CALLS = [[call(n=math.nan)], [{"name": 3}]]


@pytest.mark.parametrize(
    ("proposals", "options", "candidates"),
    [
        # an argument that another one explains is listed for its votes
        pytest.param(
            [[call(b=1, a=1)], [call(b=2, a=2)]],
            {},
            {"pay.a": [(1, "a"), (2, "b")], "pay.b": [(1, "a"), (2, "b")]},
            id="equal-votes-come-by-name",
        ),
        pytest.param(
            [[call("mail")], [call(), call("ask")], [], [], []],
            {},
            {"tool": [(None, "cde"), (["ask", "pay"], "b"), ("mail", "a")]},
            id="tools",
        ),
        # both pay 5 first
        pytest.param(
            [[call(sum=5), call(sum=7)], [call(sum=8), call(sum=5)]],
            {},
            {"pay.sum": [(7, "a"), (8, "b")]},
            id="the-second-payment",
        ),
        # in the order of the lines, "5.01}" comes before "5}"
        pytest.param(
            [[call(sum=5.01)], [call(sum=5)], [call(sum=6)]],
            {"clusterer": CENTS},
            {"pay.sum": [(5.01, "ab"), (6, "c")]},
            id="one-value-stands-for-those-that-equal-it",
        ),
        pytest.param(
            [[call()], [call(sum=5)], [call(sum=5)]],
            {},
            {"pay.sum": [(5, "bc"), (None, "a")]},
            id="omitted",
        ),
        pytest.param(
            [[call(n=5)], [call(n=6)], [call(n=6)]],
            {},
            {"pay.n": [(6, "bc"), (5, "a")]},
            id="most-mass-first",
        ),
        pytest.param(
            FIVE_AND_SIX,
            {"mass": [0.5 - 1e-10, 0.5 + 1e-10]},
            {"pay.n": [(5, "a"), (6, "b")]},
            id="equal-mass-but-for-rounding-comes-by-text",
        ),
        pytest.param(
            [[call(n=5)], [call(n=6)], [call(n=7)]],
            {"mass": [0.5, 0.5, 0]},
            {"pay.n": [(5, "a"), (6, "b"), (7, "c")]},
            id="an-agent-without-weight-proposes-too",
        ),
        pytest.param(
            FIVE_AND_SIX,
            {"values": ANOTHER_CALL},
            {"pay.n": [(5, "a"), (6, "b")]},
            id="raw-calls-of-another-action-are-not-shown",
        ),
        pytest.param(
            FIVE_AND_SIX,
            {"values": NO_CALLS},
            {"pay.n": [(5, "a"), (6, "b")]},
            id="raw-calls-that-are-none-are-not-shown",
        ),
    ],
)
def test_candidates(proposals, options, candidates):
    expected = {}
    for key, votes in candidates.items():
        expected[key] = [{"value": value, "agents": [*agents]} for value, agents in votes]
    assert find(proposals, **options)["candidates"] == expected


def test_arguments_come_in_the_order_of_votes_against_the_leading_proposal():
    # the leading one is (1, 1, 1) with .4; against it in "a" .25, in "b" .35, in "c" nothing. "a" comes first in the
    # chain rule, so its part is larger
    proposals = [
        [call(a=1, b=1, c=1)],
        [call(a=2, b=2, c=1)],
        [call(a=1, b=3, c=1)],
        [call(a=3, b=1, c=1)],
    ]
    mass = [0.5, 0.2, 0.2, 0.1]

    found = find(proposals, mass)
    assert list(found["arguments"]) == ["b", "a"]
    assert found["arguments"]["a"] > found["arguments"]["b"] > 0
    assert list(found["candidates"]) == ["pay.b", "pay.a"]

    against_the_last = find(proposals, mass, leading=3)
    assert list(against_the_last["arguments"]) == ["a", "b"]


def test_the_texts_that_a_rule_would_loosen_are_named():
    unit = {"name": "pay", "parameters": {"properties": {"unit": {"enum": ["mg", "Mg"]}}}}
    proposals = [
        [call(to="Ann", note="hi", unit="mg", n=1)],
        [call(to="ann", note="Hi", unit="Mg", n="1")],
    ]
    texts = [canonical_action(calls, tools=[unit]) for calls in proposals]

    def named(**compare):
        match = ActionMatch(compare=compare)
        return contested(texts, [0.5, 0.5], "ab", [0, 1], clusterer=match)["texts"]

    assert named() == ["pay.note", "pay.to"]
    assert named(**{"pay.to": Text()}) == ["pay.note"]

    # one text alone is equal to none
    assert "texts" not in find([[call(to="Ann")], [call()], [call(to=3)]])
    assert "texts" not in find([[call(to="Ann")], [call()]])


def test_nothing_is_contested_in_one_action_nor_by_agents_without_weight_nor_in_texts():
    assert find([[call(sum=5)], [call(sum=5.0)]]) is None
    assert find([[call(sum=5)], [call(sum=6)]], [1.0, 0.0]) is None
    assert find([[], []]) is None

    texts = ["Paris", "Lyon", "[]"]
    assert contested(texts, [0.4, 0.4, 0.2], "abc", [0, 1, 2]) is None
