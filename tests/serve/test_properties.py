"""Whatever a caller sends, the server does not break, and no gate answers where the operator's does not."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents import RegimePolicy, ThresholdPolicy
from coe_agents.policy import Decision, measure, settle
from coe_agents.policy.bounds import NAMES, Bounds, Spent
from coe_agents.policy.settle import Rules
from coe_agents.serve import chat_request, response_request
from coe_agents.serve.api_error import ApiError
from coe_agents.testing import create_response
from tests.graph.groups import Deciding
from tests.serve.groups import AGREEING, body_of, client_of, create_group

GROUP = create_group(*AGREEING)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text"]) | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


async def post(path, body):
    async with client_of(GROUP) as client:
        return await client.post(path, content=json.dumps(body).encode())  # NaN and infinity, too


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(chat_request.KNOWN), JSON, max_size=4), st.booleans())
def test_no_body_of_a_completion_breaks_the_server(fields, is_plausible):
    body = body_of(**fields) if is_plausible else fields
    response = asyncio.run(post("/v1/chat/completions", body))
    assert response.status_code in (200, 400, 404)


ITEM = st.dictionaries(
    st.sampled_from(["type", "role", "content", "call_id", "output"]), JSON | st.just("message")
)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(response_request.KNOWN), JSON, max_size=4),
    st.lists(ITEM, max_size=3) | JSON,
)
def test_no_body_of_a_response_breaks_the_server(fields, items):
    response = asyncio.run(post("/v1/responses", {"model": "g", "input": items, **fields}))
    assert response.status_code in (200, 400, 404)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["question", "coe"]), JSON))
def test_no_body_of_a_question_breaks_the_server(body):
    assert asyncio.run(post("/events", body)).status_code in (200, 400)


@given(st.dictionaries(st.sampled_from(("agents", *NAMES)), JSON))
def test_no_options_are_looser_than_the_operators(options):
    operator = Bounds(
        max_coe=0.5, aleatoric_threshold=0.4, epistemic_threshold=0.3, max_rounds=3, deadline=5.0
    )
    try:
        limits = replace(GROUP, limits=operator).tighten(options)
    except ApiError:
        return
    for name in NAMES:
        own, most = getattr(limits, name), getattr(operator, name)
        assert own is None or most is None or 0 <= own <= most


SAID = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=4)
LIMIT = st.none() | st.floats(0, 1.2)


ANSWERING = Deciding(Decision("answer"), otherwise="answer")
POLICIES = [
    ThresholdPolicy(0.6),
    ThresholdPolicy(5.0, otherwise="escalate"),
    RegimePolicy(0.5, 0.3),
    ANSWERING,
]


@given(SAID, st.sampled_from(POLICIES), st.tuples(LIMIT, LIMIT, LIMIT))
def test_a_stricter_gate_answers_where_the_operators_does_and_within_its_own_limits(
    said, policy, given
):
    responses = []
    labels = []
    numbers = {}
    for place, answers in enumerate(said):
        for answer in answers:
            responses.append(create_response(f"agent {place}", f"answer {answer}"))
            labels.append(numbers.setdefault(answer, len(numbers)))
    measurement = measure(responses, labels)
    limits = Bounds(max_coe=given[0], aleatoric_threshold=given[1], epistemic_threshold=given[2])
    operators, strict = (
        settle(
            policy, measurement, Rules(limits=limits), asked=["a"], answered=["a"], spent=Spent()
        )
        for limits in (None, limits)
    )
    values = (measurement.coe, measurement.aleatoric, measurement.epistemic)
    is_within = all(
        limit is None or value <= limit for value, limit in zip(values, given, strict=True)
    )
    assert (strict.action == "answer") == (operators.action == "answer" and is_within)
    assert strict.answer == (operators.answer if is_within else None)
    if (
        operators.action == "answer" and not is_within
    ):  # what the policy does elsewhere, unless that is to answer
        assert strict.action == (
            "escalate" if getattr(policy, "otherwise", None) == "escalate" else "abstain"
        )
