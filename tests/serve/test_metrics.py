import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.rooms import needs
from tests.serve.groups import WITHHELD, body_of, client_of, create_group


@needs("observability")
async def test_decisions_tokens_failures_and_requests_are_counted():
    group = create_group(["Canberra"], ["Sydney"], ConnectionError("Melbourne lost"))
    async with client_of(group, metrics=True) as client:
        for _ in range(3):
            await client.post("/v1/chat/completions", json=body_of())
        await client.post("/v1/chat/completions", json=body_of(n=2))
        response = await client.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        families = text_string_to_metric_families(response.text)
        samples = [sample for family in families for sample in family.samples]
        values = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}
        assert (
            values["coe_decisions_total", ("coe_action", "abstain"), ("coe_regime", "conflict")]
            == 3
        )
        assert values["coe_collaborative_entropy_sum", ("coe_action", "abstain")] == pytest.approx(
            3 * math.log(2)
        )
        assert (
            values["coe_tokens_total", ("gen_ai_agent_name", "a"), ("gen_ai_token_type", "input")]
            == 9
        )
        assert (
            values[
                "coe_failures_total", ("error_type", "ConnectionError"), ("gen_ai_agent_name", "c")
            ]
            == 3
        )
        of_requests = ("path", "/v1/chat/completions")
        assert values["coe_request_duration_seconds_count", of_requests, ("status", "200")] == 3
        assert values["coe_request_duration_seconds_count", of_requests, ("status", "400")] == 1
        assert values["coe_questions_in_flight",] == 0
        assert not [word for word in (*WITHHELD, "What is") if word in response.text]
