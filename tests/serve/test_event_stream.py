import json
import math

import pytest

from tests.serve.groups import AGREEING, client_of, create_group


async def ask(group, **body):
    async with client_of(group) as client:
        response = await client.post("/events", json={"question": "Capital?", **body})
    events = []
    for block in response.text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events, response


async def test_the_events_of_the_graph_and_then_the_decision_with_who_said_what():
    events, response = await ask(
        create_group(["Paris", "Paris"], ["Paris", "Lyon"], ConnectionError("refused"))
    )
    assert response.headers["content-type"].startswith("text/event-stream")
    names = [name for name, _ in events]
    assert sorted(names[:6]) == ["agent_asked"] * 3 + ["agent_sampled"] * 3
    assert names[6:] == ["clustered", "measured", "decided", "decision"]
    assert events[6][1]["sizes"] == [3, 1]
    decision = events[-1][1]
    assert (decision["question"], decision["action"], decision["answer"]) == (
        "Capital?",
        "answer",
        "Paris",
    )
    assert decision["headline"] == "Paris"
    assert decision["explanation"][0] == "Answer: Paris"
    assert decision["explanation"][-1] == "c did not answer: ConnectionError: refused"
    assert decision["clusters"] == [
        {"representative": "Paris", "support": 0.75},
        {"representative": "Lyon", "support": 0.25},
    ]
    rows = []
    for name, of_agent in decision["responses"].items():
        rows += [(name, row["text"], row["cluster"]) for row in of_agent]
    assert rows == [
        ("a", "Paris", 0),
        ("a", "Paris", 0),
        ("b", "Paris", 0),
        ("b", "Lyon", 1),
        ("c", "", None),
    ]
    assert decision["responses"]["c"][0]["error"] == "ConnectionError: refused"
    assert decision["thresholds"] == {
        "max_coe": 0.6,
        "aleatoric_threshold": 0.5,
        "epistemic_threshold": 0.3,
    }
    # entropies log 2 and 0; the mean is (3/4, 1/4)
    assert decision["aleatoric"] == pytest.approx(math.log(2) / 2)
    assert decision["coe"] == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))


async def test_a_key_in_an_error_of_a_server_between_is_not_shown():
    error = ConnectionError(
        "Incorrect API key provided: sk-proj-abcd1234EFGH5678; Authorization: Bearer abcd1234EFGH"
    )
    _, response = await ask(create_group(["Paris"], ["Paris"], error))
    assert "Incorrect API key provided: [redacted]" in response.text
    assert not any(part in response.text for part in ("abcd1234", "EFGH5678"))


class BrokenPolicy:
    """Raises, with a response in the message."""

    def decide(self, measurement, *, round, max_rounds):
        raise RuntimeError(f"cannot decide on {measurement.answer}")


async def test_a_failure_ends_the_stream_with_an_error_that_quotes_nothing():
    events, response = await ask(create_group(*AGREEING, policy=BrokenPolicy()))
    assert events[-1][0] == "error"
    assert events[-1][1]["message"].startswith("the group failed (RuntimeError).")
    assert "Paris" not in response.text


@pytest.mark.parametrize("body", [{"question": " \n"}, {"question": 3}, {"coe": "x"}, {"more": 1}])
async def test_what_is_no_question_is_refused(body):
    _, response = await ask(create_group(*AGREEING), **body)
    assert response.status_code == 400
