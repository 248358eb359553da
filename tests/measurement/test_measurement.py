import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.measurement.measurement import count_lacking, leading_cluster
from coe_agents.policy import Measurement, measure
from coe_agents.testing import create_response
from coe_agents.uncertainty import (
    cluster_distributions,
    collaborative_entropy,
    coordinate,
    semantic_entropy,
)
from coe_agents.uncertainty.collaborative import ensemble_mean
from tests.doubles import response

LN2 = math.log(2)
REGIMES = ("unknown", "ambiguous", "conflict", "consensus")
FIELDS = """
coe aleatoric epistemic regime support representatives answer answer_kind tied agents weights n_agents surprisal
coordinated_coe proposals run
"""


def test_a_measurement_has_the_attributes_that_users_policies_rely_on_and_no_others():
    assert [*Measurement.__dataclass_fields__] == FIELDS.split()
    found = measure([create_response("a", "Paris"), create_response("b", "Lyon")], [0, 1])
    public = {name for name in dir(found) if not name.startswith("_")}
    assert public == {*FIELDS.split()}

    of_texts = found.proposals
    assert of_texts.proposer is None
    assert of_texts.by_agent == {"a": "Paris", "b": "Lyon"}
    assert of_texts.support == {"a": 0.0, "b": 0.0}
    assert of_texts.votes == of_texts.by_agent
    assert of_texts.calls is None
    assert of_texts.writings == {}
    assert of_texts.contested is None
    assert of_texts.fields is None

    assert found.run.history == ()
    assert found.run.tokens_left is None
    assert found.run.conformity is None
    assert found.agents["a"].confidence is None
    assert found.agents["a"].token_confidence is None


@pytest.mark.parametrize(
    ("text", "kind"), [("Paris", "answer"), ("I don't know.", "refusal"), ("  ", "empty")]
)
def test_refusals_and_empty_responses_are_told_apart(text, kind):
    found = measure([response("a", text)], [0])
    assert found.answer_kind == kind
    # certainty has no surprise
    assert found.surprisal == 0.0
    assert math.copysign(1.0, found.surprisal) == 1.0

    with_short_answer = measure([response("a", text, answer="Lyon")], [0])
    assert with_short_answer.representatives == ("Lyon",)
    spaced = measure([response("a", f" {text} ", calls=[])], [0])
    assert spaced.representatives == (text.strip(),)
    assert spaced.answer_kind == ("no_call" if kind == "answer" else kind)


def test_each_agent_by_hand_and_texts_of_several_clusters_are_numbered_until_they_differ():
    said = [
        response("b", "x", confidence=0.0),
        response("a", "x", confidence=True),  # which is no confidence
        response("b", "y", index=1, confidence=1.0),
        response("b", "y", index=2, confidence=2.0),  # nor is this
    ]
    found = measure(said, [1, 1, 0, 0])
    assert list(found.agents) == ["b", "a"]
    assert found.n_agents == 2
    of_b = found.agents["b"]
    of_a = found.agents["a"]
    assert of_b.n_responses == 3
    assert of_b.confidence == 0.5
    assert of_a.n_responses == 1
    assert of_a.confidence is None
    # of (1/3, 2/3): log 3 - 2/3 log 2
    assert of_b.entropy == pytest.approx(math.log(3) - 2 / 3 * LN2)
    assert of_a.entropy == 0.0
    assert found.agents["b"].distribution == pytest.approx({"x": 1 / 3, "y": 2 / 3})
    assert found.agents["a"].distribution == {"x": 1.0}
    # x: (1/3 + 1) / 2
    support = dict(zip(found.representatives, found.support, strict=True))
    assert support == pytest.approx({"y": 1 / 3, "x": 2 / 3})
    assert found.answer == "x"
    assert leading_cluster(found) == 1
    assert found.tied == ()
    assert found.surprisal == pytest.approx(math.log(3 / 2))

    texts = ("x", "x (2)", "x", "x")
    said = [response("a", text, index=place) for place, text in enumerate(texts)]
    numbered = measure(said, [0, 1, 2, 4]).representatives
    assert numbered == ("x", "x (2)", "x (2) (2)", "", "x (4)")


def test_the_regime_is_that_of_the_thresholds():
    # (1/2, 1/2) and (1, 0): U_A is log(2) / 2 = 0.347, the mean (3/4, 1/4)
    said = [response("a", "x"), response("a", "y", index=1), response("b", "x")]
    # U_E is H(3/4) - U_A = 0.562 - 0.347 = 0.216
    thresholds = product((0.34, 0.35), (0.21, 0.22))
    for (low_a, low_e), name in zip(thresholds, REGIMES, strict=True):
        thresholds = {"aleatoric_threshold": low_a, "epistemic_threshold": low_e}
        assert measure(said, [0, 1, 0], **thresholds).regime == name
    opposite = [response("a", "x"), response("b", "y")]
    assert measure(opposite, [0, 1], epistemic_threshold=0.69).regime == "conflict"  # log 2


def test_the_solver_of_the_coordination_is_the_one_named():
    said = []
    labels = []
    for name, letters in (("a", "xxxyy"), ("b", "yyyyx")):
        for index, letter in enumerate(letters):
            said.append(response(name, letter, index=index))
            labels.append("xy".index(letter))

    found = measure(said, labels, weights={"a": 1.0, "b": 3.0}, coordination="softmax")
    moved = coordinate([[0.6, 0.4], [0.2, 0.8]], weights=[0.25, 0.75], solver="softmax")
    assert found.coordinated_coe == pytest.approx(moved.coe)
    assert found.coordinated_coe != found.coe
    assert found.support == pytest.approx(moved.weights @ moved.distributions)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.floats(-8.0, 0.0)),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.floats(0.1, 5.0), min_size=4, max_size=4),
    st.booleans(),
)
def test_the_figures_are_those_of_the_public_functions(drawn, given_weights, by_probability):
    places: dict[int, int] = {}
    agents = [places.setdefault(agent, len(places)) for agent, _, _ in drawn]
    labels = [cluster for _, cluster, _ in drawn]
    logs = [log_prob if by_probability else 0.0 for _, _, log_prob in drawn]
    said = []
    for i, ((agent, label, _), log) in enumerate(zip(drawn, logs, strict=True)):
        logprob = log if by_probability else None
        said.append(
            response(f"agent {agent}", f"text {label}", index=i, logprob=logprob, n_tokens=1)
        )
    by_name = {f"agent {number}": weight for number, weight in enumerate(given_weights)}
    unnormalized = np.array([given_weights[number] for number in places])
    weights = unnormalized / unnormalized.sum()
    seen = sorted(set(labels))
    numbers = [seen.index(label) for label in labels]  # as `measure` orders them: by text
    rows = cluster_distributions(numbers, agents, log_probs=logs)
    split = collaborative_entropy(rows, weights=weights)
    found = measure(said, numbers, weights=by_name)
    close = {"rel": 0.0, "abs": 1e-12}
    assert (found.coe, found.aleatoric, found.epistemic) == pytest.approx(split, **close)
    assert found.support == pytest.approx(ensemble_mean(rows, weights=weights), **close)
    entropies = [each.entropy for each in found.agents.values()]
    assert entropies == pytest.approx(np.atleast_1d(semantic_entropy(rows)), **close)


@pytest.mark.parametrize(("said", "labels"), [([], []), ([response("a", "x")], [0, 1])])
def test_labels_must_fit(said, labels):
    message = f"one label for each of at least one response; got {len(labels)} for {len(said)}. Get them from"
    with pytest.raises(ValueError, match=message):
        measure(said, labels)
    with pytest.raises(TypeError, match="unexpected keyword argument 'label'"):
        measure(said, labels, label=0)


@pytest.mark.parametrize(
    ("text", "fields", "lacking"),
    [
        (" ", {}, {"empty": 1}),
        ("Paris", {}, {}),
        ("", {"end": "cut"}, {"cut": 1}),
        ("Paris", {"end": "filtered"}, {"filtered": 1}),
        ("", {"calls": []}, {}),
        ("", {"error": "ConnectionError"}, {}),
    ],
)
def test_what_a_response_lacks(text, fields, lacking):
    found = count_lacking([{**create_response("a", text), **fields}])
    assert found.get("a", {}) == lacking
